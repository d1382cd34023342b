/* SPDX-License-Identifier: Apache-2.0 */

/* Jobs that are held: renewed until they are settled, and each report repeated until it is
 * answered. */

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "base/log.h"
#include "base/must.h"
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

void tenax_job_free(struct tenax_delivery *d)
{
    remote_abort(d->call);
    renewals_drop(d->renewal);
    d->broker->claims[d->shown.channel].held--;
    list_unlink(&d->node);
    free(d->body);
    free(d->token);
    free(d->why);
    free(d);
}

bool tenax_job_is_known(const struct tenax *t, struct id id)
{
    LIST_EACH (n, &t->deliveries)
        if (id_eq(LIST_OF(n, struct tenax_delivery, node)->id, id))
            return true;
    return false;
}

/* --- requests about one job --- */

static void on_answered(void *ctx, const struct remote_answer *a);

static void post(struct tenax_delivery *d, const char *verb, struct buf *body)
{
    char path[64], text[ID_TEXT_LEN];
    id_format(d->id, text);
    snprintf(path, sizeof path, "/jobs/%.25s%s", text, verb);
    buf_byte(body, '}');
    d->call = remote_ask(d->broker->remote, "POST", path, buf_view(body), TENAX_CALL_TIMEOUT,
                         on_answered, d);
    buf_fini(body);
}

static void begin(struct buf *body, const struct tenax_delivery *d)
{
    buf_print(body, "{\"token\":%s", d->token);
}

static void ask_deletion(struct tenax_delivery *d)
{
    char path[64], text[ID_TEXT_LEN];
    id_format(d->id, text);
    snprintf(path, sizeof path, "/jobs/%.25s", text);
    d->call = remote_ask(d->broker->remote, "DELETE", path, (struct str){0}, TENAX_CALL_TIMEOUT,
                         on_answered, d);
}

static void on_renewed(void *ctx, const struct remote_answer *a)
{
    struct tenax_delivery *d = ctx;
    d->renewal = NULL;
    on_answered(d, a);
}

static void renew(struct tenax_delivery *d)
{
    char text[ID_TEXT_LEN];
    id_format(d->id, text);
    d->renewal = renewals_add(d->broker->renewals,
                              &(struct lease_text){.job = {text, ID_TEXT_LEN},
                                                   .token = str_from(d->token),
                                                   .run = -1,
                                                   .lease = TENAX_LEASE},
                              on_renewed, d);
}

static void ask(struct tenax_delivery *d)
{
    struct buf body = {0};
    if (d->step == TENAX_DELETE) {
        ask_deletion(d);
        return;
    }
    if (d->step == TENAX_HELD) {
        renew(d);
        return;
    }
    begin(&body, d);
    if (d->step == TENAX_FAILURE) {
        buf_lit(&body, ",\"message\":");
        json_write_string(&body, str_from(d->why));
        post(d, "/failure", &body);
    } else {
        post(d, "/success", &body);
    }
}

void tenax_job_report(struct tenax_delivery *d, enum tenax_step step)
{
    remote_abort(d->call);
    renewals_drop(d->renewal);
    d->call = NULL;
    d->renewal = NULL;
    d->step = step;
    d->tries = 0;
    ask(d);
}

/* --- their answers --- */

static mono renew_at(mono since)
{
    return when_gather(when_after(since, TENAX_RENEW), (span){TENAX_RENEW.ms / 4});
}

/* The user keeps a stale delivery until it settles it. */
static void lose(struct tenax_delivery *d)
{
    d->stale = true;
    if (!d->ordered)
        return;
    tenax_orders_drop(d->broker, d);
    tenax_job_free(d);
}

static void renewed(struct tenax_delivery *d, const struct remote_answer *a)
{
    if (a->result == CALL_GONE) {
        lose(d);
        return;
    }
    d->tries = 0;
    d->due = renew_at(a->sent);
    tenax_wake(d->broker, d->due);
}

static void failed(struct tenax_delivery *d, const struct remote_answer *a)
{
    struct arena arena = {0};
    bool dead = str_eq(view_text(&arena, a->body, "status"), STR("dead"));
    arena_fini(&arena);
    if (a->result != CALL_DONE || !dead) {
        tenax_job_free(d);
        return;
    }
    d->step = TENAX_DEAD;
    d->untold = true;
    d->due = when_mono();
    tenax_wake(d->broker, d->due);
}

static void on_answered(void *ctx, const struct remote_answer *a)
{
    struct tenax_delivery *d = ctx;
    d->call = NULL;
    if (a->result == CALL_REFUSED)
        log_error("%s refuses a report about a job: %.*s", d->broker->url, STR_ARG(a->why));
    if (tenax_note(d->broker, a)) {
        d->due = tenax_again(d->broker, d->tries++);
        tenax_wake(d->broker, d->due);
    } else if (d->step == TENAX_HELD) {
        renewed(d, a);
    } else if (d->step == TENAX_FAILURE) {
        failed(d, a);
    } else {
        tenax_job_free(d);
    }
}

/* --- new ones --- */

void tenax_job_take(struct tenax *t, enum build_channel channel, struct str job, bool lost)
{
    struct arena arena = {0};
    struct id id;
    struct str token = view_get(job, "token");
    struct err e = id_parse(view_text(&arena, job, "id"), &id);
    arena_fini(&arena);
    if (e.code != ERR_OK || !token.len) {
        log_error("%s sent a job without an id or a token; passed over", t->url);
        return;
    }
    struct tenax_delivery *d = add(t, channel, id, job);
    d->token = alloc_text(token.at, token.len);
    d->shown.redelivered = lost;
    /* The lease of one that was found again may be almost over. */
    d->due = lost ? when_mono() : renew_at(when_mono());
    tenax_wake(t, d->due);
    t->broker.user.delivered(t->broker.ctx, &d->shown);
}

void tenax_job_found_dead(struct tenax *t, enum build_channel channel, struct str job)
{
    struct arena arena = {0};
    struct id id;
    struct str why = view_text(&arena, view_get(job, "error"), "message");
    if (!why.len)
        why = view_text(&arena, job, "reason");
    if (id_parse(view_text(&arena, job, "id"), &id).code == ERR_OK && !tenax_job_is_known(t, id) &&
        str_eq(view_text(&arena, job, "status"), STR("dead"))) {
        struct tenax_delivery *d = add(t, channel, id, job);
        d->step = TENAX_DEAD;
        d->untold = true;
        d->why = alloc_text(why.at, why.len);
        tenax_wake(t, when_mono());
    }
    arena_fini(&arena);
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

void tenax_jobs_turn(struct tenax *t, mono now)
{
    tell_dead(t, now);
    LIST_EACH (n, &t->deliveries) {
        struct tenax_delivery *d = LIST_OF(n, struct tenax_delivery, node);
        if (d->call || d->renewal || d->stale || (d->step == TENAX_DEAD && !d->untold))
            continue;
        if (d->due.ns <= now.ns && d->step != TENAX_DEAD)
            ask(d);
        else
            tenax_wake(t, d->due);
    }
    renewals_send(t->renewals);
}

static void release(struct tenax_delivery *d)
{
    char path[64], text[ID_TEXT_LEN];
    struct buf body = {0};
    begin(&body, d);
    buf_byte(&body, '}');
    id_format(d->id, text);
    snprintf(path, sizeof path, "/jobs/%.25s/release", text);
    remote_ask(d->broker->remote, "POST", path, buf_view(&body), TENAX_CALL_TIMEOUT, tenax_unheard,
               NULL);
    buf_fini(&body);
}

void tenax_jobs_close(struct tenax *t)
{
    while (!list_is_empty(&t->deliveries)) {
        struct tenax_delivery *d = LIST_OF(t->deliveries.next, struct tenax_delivery, node);
        if (d->step == TENAX_HELD && !d->stale)
            release(d);
        tenax_job_free(d);
    }
}
