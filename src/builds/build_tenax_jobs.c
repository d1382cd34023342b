/* SPDX-License-Identifier: Apache-2.0 */

/* Deliveries: of jobs that are held, and of dead jobs whose builds are not told. */

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "base/log.h"
#include "builds/build_tenax_internal.h"
#include "client/view.h"
#include "client/when.h"

static uint32_t count_of(struct str object, const char *key)
{
    int64_t n;
    if (!view_int(object, key, &n) || n < 0)
        return 0;
    return n < UINT32_MAX ? (uint32_t)n : UINT32_MAX;
}

static struct tenax_delivery *add(struct tenax *t, enum build_channel channel, struct id id,
                                  struct str job)
{
    struct tenax_delivery *d = ALLOC(struct tenax_delivery);
    struct str payload = view_get(job, "payload");
    int64_t started;
    if (!payload.len)
        payload = STR("null");
    *d =
        (struct tenax_delivery){.broker = t, .id = id, .body = alloc_text(payload.at, payload.len)};
    d->shown = (struct build_delivery){
        .channel = channel,
        .body = {d->body, payload.len},
        .failures = count_of(job, "attempts"),
        .looks = count_of(payload, "looks"),
        .started = INSTANT_NONE,
    };
    if (view_int(payload, "started", &started) && started > 0 && started <= INSTANT_MAX_MS)
        d->shown.started = (instant){started};
    list_append(&t->deliveries, &d->node);
    t->claims[channel].held++;
    return d;
}

void tenax_jobs_free(struct tenax_delivery *d)
{
    remote_abort(d->call);
    holder_runs_drop(d->run);
    d->broker->claims[d->shown.channel].held--;
    list_unlink(&d->node);
    free(d->body);
    free(d->why);
    free(d);
}

static bool is_known(const struct tenax *t, struct id id)
{
    LIST_EACH (n, &t->deliveries)
        if (id_eq(LIST_OF(n, struct tenax_delivery, node)->id, id))
            return true;
    return false;
}

/* --- jobs that are held --- */

void tenax_jobs_take(struct tenax *t, enum build_channel channel, const struct holder_job *job)
{
    struct tenax_delivery *d = add(t, channel, job->id, job->json);
    d->run = holder_runs_hold(t->holder, job, d);
    d->shown.redelivered = job->again;
    t->broker.user.delivered(t->broker.ctx, &d->shown);
}

/* The user keeps a delivery whose lease is lost until it settles it. */
void tenax_jobs_lost(void *delivery, const struct remote_answer *a)
{
    struct tenax_delivery *d = delivery;
    (void)a;
    d->run = NULL;
    if (!d->ordered)
        return;
    tenax_orders_drop(d->broker, d);
    tenax_jobs_free(d);
}

void tenax_jobs_succeed(struct tenax_delivery *d)
{
    d->settled = true;
    holder_runs_report(d->run, HOLDER_SUCCESS, (struct str){0});
}

void tenax_jobs_fail(struct tenax_delivery *d, const char *why)
{
    struct buf members = {0};
    buf_lit(&members, ",\"message\":");
    json_write_string(&members, str_from(why));
    d->settled = true;
    d->why = alloc_text(why, strlen(why));
    holder_runs_report(d->run, HOLDER_FAILURE, buf_view(&members));
    buf_fini(&members);
}

/* After a failure the server may have decided that the job is dead. */
void tenax_jobs_reported(void *delivery, const struct remote_answer *a)
{
    struct tenax_delivery *d = delivery;
    struct arena arena = {0};
    bool dead = str_eq(view_text(&arena, a->body, "status"), STR("dead"));
    arena_fini(&arena);
    d->run = NULL;
    if (a->result == CALL_REFUSED)
        log_error("%s refuses a report about a job: %.*s", d->broker->url, STR_ARG(a->why));
    if (a->result != CALL_DONE || !dead) {
        tenax_jobs_free(d);
        return;
    }
    d->step = TENAX_DEAD;
    d->untold = true;
    d->due = when_mono();
}

/* --- dead ones --- */

void tenax_jobs_found_dead(struct tenax *t, enum build_channel channel, struct str job)
{
    struct arena arena = {0};
    struct id id;
    struct str why = view_text(&arena, view_get(job, "error"), "message");
    if (!why.len)
        why = view_text(&arena, job, "reason");
    if (id_parse(view_text(&arena, job, "id"), &id).code == ERR_OK && !is_known(t, id) &&
        str_eq(view_text(&arena, job, "status"), STR("dead"))) {
        struct tenax_delivery *d = add(t, channel, id, job);
        d->step = TENAX_DEAD;
        d->untold = true;
        d->why = alloc_text(why.at, why.len);
        tenax_wake(t, when_mono());
    }
    arena_fini(&arena);
}

static void on_deleted(void *ctx, const struct remote_answer *a)
{
    struct tenax_delivery *d = ctx;
    struct tenax *t = d->broker;
    d->call = NULL;
    if (a->result == CALL_REFUSED)
        log_error("%s refuses to delete a dead job: %.*s", t->url, STR_ARG(a->why));
    if (tenax_note(t, a)) {
        d->due = tenax_again(t, d->tries++);
        tenax_wake(t, d->due);
    } else {
        tenax_jobs_free(d);
    }
}

static void ask_deletion(struct tenax_delivery *d)
{
    char path[64], text[ID_TEXT_LEN];
    id_format(d->id, text);
    snprintf(path, sizeof path, "/jobs/%.25s", text);
    d->call = remote_ask(d->broker->remote, "DELETE", path, (struct str){0}, TENAX_CALL_TIMEOUT,
                         on_deleted, d);
}

void tenax_jobs_delete(struct tenax_delivery *d)
{
    d->step = TENAX_DELETE;
    d->tries = 0;
    ask_deletion(d);
}

static void tell_dead(struct tenax *t, mono now)
{
    for (struct list *n = t->deliveries.next; n != &t->deliveries;) {
        struct tenax_delivery *d = LIST_OF(n, struct tenax_delivery, node);
        n = n->next;
        if (!d->untold || d->due.ns > now.ns)
            continue;
        char *why = d->why;
        d->untold = false;
        d->why = NULL;
        t->broker.user.exhausted(t->broker.ctx, &d->shown, why ? why : "");
        free(why);
        /* It may have settled any of them. */
        n = t->deliveries.next;
        if (t->closed)
            return;
    }
}

void tenax_jobs_turn(struct tenax *t, mono now, mono *next)
{
    tell_dead(t, now);
    LIST_EACH (n, &t->deliveries) {
        struct tenax_delivery *d = LIST_OF(n, struct tenax_delivery, node);
        if (d->call || (d->step != TENAX_DELETE && !d->untold))
            continue;
        if (d->due.ns <= now.ns && d->step == TENAX_DELETE)
            ask_deletion(d);
        else
            holder_sooner(next, d->due);
    }
}

void tenax_jobs_close(struct tenax *t)
{
    while (!list_is_empty(&t->deliveries)) {
        struct tenax_delivery *d = LIST_OF(t->deliveries.next, struct tenax_delivery, node);
        if (d->run && !d->settled)
            holder_runs_report(d->run, HOLDER_RELEASE, (struct str){0});
        tenax_jobs_free(d);
    }
}
