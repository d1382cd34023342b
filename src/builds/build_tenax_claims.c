/* SPDX-License-Identifier: Apache-2.0 */

/* Claims of jobs, one at a time for each queue. A claim waits at the server until there is a job.
 * Where its answer was lost, jobs may have been handed to this worker that it does not know of: it
 * asks for those that are in flight with it, and claims each of them again, which gives the same
 * claim. It also does so every few seconds, since libcurl repeats a request of which a kept
 * connection gave no answer, without a word. */

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/json.h"
#include "base/log.h"
#include "builds/build_tenax_internal.h"
#include "client/client.h"
#include "client/view.h"
#include "client/when.h"

#define CLAIM_WAIT    ((span){10000})
#define LOST_CHECK_MS 10000
#define CLAIM_EXTRA   ((span){15000}) /* how long an answer may take in addition to its wait */
#define CLAIM_AT_MOST 1000

static void give_back(struct tenax *t, struct str job)
{
    struct arena a = {0};
    struct buf path = {0}, body = {0};
    buf_print(&path, "/jobs/%.*s/release", STR_ARG(view_text(&a, job, "id")));
    buf_print(&body, "{\"token\":%.*s}", STR_ARG(view_get(job, "token")));
    remote_ask(t->remote, "POST", client_path(&path), buf_view(&body), TENAX_CALL_TIMEOUT,
               tenax_unheard, NULL);
    buf_fini(&path);
    buf_fini(&body);
    arena_fini(&a);
}

static void learn_time(struct tenax *t, struct str job)
{
    instant taken = view_time(job, "dequeued_at");
    if (instant_is_set(taken))
        t->ahead_ms = taken.ms - when_now().ms;
}

static void take(struct tenax_claim *c, struct str job, bool lost)
{
    struct tenax *t = c->broker;
    if (t->quiet || t->closed)
        give_back(t, job);
    else
        tenax_job_take(t, (enum build_channel)(c - t->claims), job, lost);
}

/* Says so once, and again for another reason. */
static void refused(struct tenax_claim *c, struct str why)
{
    struct tenax *t = c->broker;
    char text[sizeof c->why];
    snprintf(text, sizeof text, "%.*s", STR_ARG(why));
    t->up = false;
    if (strcmp(text, c->why) == 0)
        return;
    memcpy(c->why, text, sizeof text);
    log_error("%s refuses claims of queue '%s': %s", t->url, c->queue, text);
}

static void again(struct tenax_claim *c, const struct remote_answer *a)
{
    struct tenax *t = c->broker;
    if (a->result == CALL_REFUSED)
        refused(c, a->why);
    c->not_before = tenax_again(t, c->tries++);
}

/* --- those that were lost --- */

static void adopted(struct tenax_claim *c)
{
    if (--c->adopting == 0)
        tenax_wake(c->broker, when_mono());
}

static void on_adopted(void *ctx, const struct remote_answer *a)
{
    struct tenax_claim *c = ctx;
    /* Gone: it is not ours any more, or known by now. Else all of it is asked for again. */
    if (tenax_note(c->broker, a))
        c->lost = true;
    else if (a->result == CALL_DONE)
        take(c, a->body, true);
    adopted(c);
}

static void adopt(struct tenax_claim *c, struct str job)
{
    struct tenax *t = c->broker;
    struct arena a = {0};
    struct id id;
    struct str text = view_text(&a, job, "id");
    struct buf path = {0}, body = {0};
    if (id_parse(text, &id).code == ERR_OK && !tenax_job_is_known(t, id)) {
        buf_print(&path, "/jobs/%.*s/claim", STR_ARG(text));
        buf_print(&body, "{\"worker\":\"%s\",\"lease_ms\":%" PRId64 "}", t->name, TENAX_LEASE.ms);
        c->adopting++;
        remote_ask(t->remote, "POST", client_path(&path), buf_view(&body), TENAX_CALL_TIMEOUT,
                   on_adopted, c);
    }
    buf_fini(&path);
    buf_fini(&body);
    arena_fini(&a);
}

static void on_listed(void *ctx, const struct remote_answer *a)
{
    struct tenax_claim *c = ctx;
    struct str job;
    c->call = NULL;
    tenax_note(c->broker, a);
    if (a->result == CALL_DONE) {
        c->lost = false;
        c->checked = when_mono();
        for (struct view_list l = view_list(view_get(a->body, "jobs")); view_next(&l, &job);)
            adopt(c, job);
    } else {
        again(c, a);
    }
    tenax_wake(c->broker, when_mono());
}

static void ask_for_lost(struct tenax_claim *c)
{
    struct buf path = {0};
    char number[24];
    snprintf(number, sizeof number, "%d", CLAIM_AT_MOST);
    buf_lit(&path, "/jobs");
    client_query(&path, "queue", c->queue);
    client_query(&path, "worker", c->broker->name);
    client_query(&path, "status", "in_flight");
    client_query(&path, "limit", number);
    c->call = remote_ask(c->broker->remote, "GET", client_path(&path), (struct str){0},
                         TENAX_CALL_TIMEOUT, on_listed, c);
    buf_fini(&path);
}

/* --- claims --- */

static void on_claimed(void *ctx, const struct remote_answer *a)
{
    struct tenax_claim *c = ctx;
    struct tenax *t = c->broker;
    struct str job;
    c->call = NULL;
    if (a->result == CALL_DONE)
        c->why[0] = '\0';
    if (tenax_note(t, a))
        c->lost = true;
    if (a->result == CALL_DONE) {
        c->tries = 0;
        for (struct view_list l = view_list(view_get(a->body, "jobs")); view_next(&l, &job);) {
            learn_time(t, job);
            take(c, job, false);
        }
    } else {
        again(c, a);
    }
    tenax_wake(t, when_mono());
}

static void claim(struct tenax_claim *c, uint64_t count)
{
    struct tenax *t = c->broker;
    struct buf b = {0};
    buf_lit(&b, "{\"queues\":[");
    json_write_string(&b, str_from(c->queue));
    buf_print(&b,
              "],\"count\":%" PRIu64 ",\"lease_ms\":%" PRId64 ",\"wait_ms\":%" PRId64
              ",\"worker\":\"%s\"}",
              count < CLAIM_AT_MOST ? count : CLAIM_AT_MOST, TENAX_LEASE.ms,
              t->up ? CLAIM_WAIT.ms : 0, t->name);
    c->call = remote_ask(t->remote, "POST", "/jobs/claim", buf_view(&b),
                         (span){CLAIM_WAIT.ms + CLAIM_EXTRA.ms}, on_claimed, c);
    buf_fini(&b);
}

void tenax_claims_turn(struct tenax *t, mono now)
{
    uint64_t most = (uint64_t)build_int(t->settings, BUILD_PREFETCH);
    for (size_t i = 0; i < (t->verified ? 2 : 1); i++) {
        struct tenax_claim *c = &t->claims[i];
        if (c->call || c->adopting || t->quiet || c->held >= most)
            continue;
        if (c->not_before.ns > now.ns)
            tenax_wake(t, c->not_before);
        else if (c->lost || when_ms_between(now, c->checked) >= LOST_CHECK_MS)
            ask_for_lost(c);
        else
            claim(c, most - c->held);
    }
}
