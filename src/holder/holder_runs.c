/* SPDX-License-Identifier: Apache-2.0 */

/* Runs: their leases are renewed, and each report is repeated until it is answered. Successes that
 * come up together are one request, POST /jobs/success; its answer names those that were refused,
 * and each of these is reported by itself, which says why. */

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "base/log.h"
#include "base/must.h"
#include "base/strmap.h"
#include "client/view.h"
#include "holder/holder_internal.h"

#define CALLS_MAX     ((size_t)32)    /* reports by themselves, under way */
#define SUCCESSES_MAX ((size_t)1000)  /* in one request */
#define RENEW_MAX     ((span){20000}) /* a lease is renewed at least so often */

struct holder_run {
    struct list node;   /* in holder.runs */
    struct list report; /* in holder.reports, or in a batch */
    struct holder *of;
    void *mine; /* NULL: its user is gone */
    char id[ID_TEXT_LEN + 1];
    char *token; /* as JSON */
    int64_t run;
    mono renew_at;
    uint32_t renew_tries;
    bool over; /* a renewal said so, while its report had no answer */
    struct renewal *renewal;
    /* The report. */
    const char *verb; /* NULL: none yet */
    struct buf members;
    bool alone; /* not with others */
    mono report_at;
    uint32_t tries;
    struct remote_call *call;
};

/* Successes in one request. */
struct holder_batch {
    struct holder *of;
    struct list runs;
    struct remote_call *call;
};

static span renew_every(const struct holder *h)
{
    span third = {h->settings.lease.ms / 3};
    return third.ms < RENEW_MAX.ms ? third : RENEW_MAX;
}

static void renew_by(struct holder_run *r, mono when)
{
    r->renew_at = when;
    if (when.ns < r->of->renew_next.ns)
        r->of->renew_next = when;
}

static void leased(struct holder_run *r, mono since)
{
    span every = renew_every(r->of);
    renew_by(r, when_gather(when_after(since, every), (span){every.ms / 4}));
}

static void free_run(struct holder_run *r)
{
    struct holder *h = r->of;
    h->calls -= r->call != NULL;
    remote_abort(r->call);
    renewals_drop(r->renewal);
    list_unlink(&r->report);
    list_unlink(&r->node);
    h->run_count--;
    buf_fini(&r->members);
    free(r->token);
    free(r);
}

/* Its user is told last, since it may free or add others. */
static void end(struct holder_run *r, void (*told)(void *mine, const struct remote_answer *a),
                const struct remote_answer *a)
{
    void *mine = r->mine;
    free_run(r);
    if (mine)
        told(mine, a);
}

static struct holder_run *hold(struct holder *h, const struct holder_job *job, void *mine)
{
    struct holder_run *r = ALLOC(struct holder_run);
    *r = (struct holder_run){
        .of = h, .mine = mine, .token = alloc_text(job->token.at, job->token.len), .run = job->run};
    id_format(job->id, r->id);
    list_init(&r->report);
    list_append(&h->runs, &r->node);
    h->run_count++;
    leased(r, job->since);
    return r;
}

struct holder_run *holder_runs_hold(struct holder *h, const struct holder_job *job, void *mine)
{
    must(mine);
    struct holder_run *r = hold(h, job, mine);
    /* The lease of one that was handed out before may be almost over. */
    if (job->again)
        renew_by(r, when_mono());
    h->user.wake(h->ctx);
    return r;
}

/* --- renewals --- */

static void on_renewed(void *ctx, const struct remote_answer *a)
{
    struct holder_run *r = ctx;
    struct holder *h = r->of;
    r->renewal = NULL;
    h->user.heard(h->ctx, a);
    if (a->result == CALL_GONE && r->verb) {
        r->over = true; /* perhaps by its report */
    } else if (a->result == CALL_GONE) {
        end(r, h->user.lost, a);
    } else if (a->result == CALL_DONE) {
        r->renew_tries = 0;
        leased(r, a->sent);
    } else {
        renew_by(r, holder_again(h, &r->renew_tries));
    }
    h->user.wake(h->ctx);
}

static void renew(struct holder_run *r)
{
    r->renewal = renewals_add(r->of->renewals,
                              &(struct lease_text){.job = str_from(r->id),
                                                   .token = str_from(r->token),
                                                   .run = r->run,
                                                   .lease = r->of->settings.lease},
                              on_renewed, r);
}

/* What is reported for the first time needs its lease no longer than the answer takes. */
static bool needs_lease(const struct holder_run *r)
{
    return !r->renewal && !r->over && (!r->verb || r->tries);
}

static void renew_due(struct holder *h, mono now)
{
    if (h->renew_next.ns > now.ns)
        return;
    h->renew_next = when_after(now, renew_every(h));
    LIST_EACH (n, &h->runs) {
        struct holder_run *r = LIST_OF(n, struct holder_run, node);
        if (!needs_lease(r))
            continue;
        if (r->renew_at.ns <= now.ns)
            renew(r);
        else
            renew_by(r, r->renew_at);
    }
    renewals_send(h->renewals);
}

/* --- reports --- */

static void later(struct holder_run *r)
{
    r->report_at = holder_again(r->of, &r->tries);
    renew_by(r, r->renew_at);
    list_unlink(&r->report);
    list_append(&r->of->reports, &r->report);
}

static bool is_final(const struct remote_answer *a)
{
    return !holder_is_unanswered(a) && !holder_is_unwelcome(a);
}

/* Says once that the server takes no reports of this sender. */
static void note_sender(struct holder *h, const struct remote_answer *a)
{
    bool unwelcome = holder_is_unwelcome(a);
    if (unwelcome && !h->unwelcome)
        log_error("the server takes no reports of this worker: %.*s; tried again", STR_ARG(a->why));
    if (!holder_is_unanswered(a))
        h->unwelcome = unwelcome;
}

static void on_reported(void *ctx, const struct remote_answer *a)
{
    struct holder_run *r = ctx;
    struct holder *h = r->of;
    r->call = NULL;
    h->calls--;
    h->user.heard(h->ctx, a);
    note_sender(h, a);
    if (is_final(a))
        end(r, h->user.reported, a);
    else
        later(r);
    h->user.wake(h->ctx);
}

static void send_alone(struct holder_run *r)
{
    struct buf body = {0};
    char path[64];
    snprintf(path, sizeof path, "/jobs/%s/%s", r->id, r->verb);
    buf_print(&body, "{\"run\":%" PRId64 ",\"token\":%s%.*s}", r->run, r->token,
              STR_ARG(buf_view(&r->members)));
    list_unlink(&r->report);
    r->of->calls++;
    r->call = remote_ask(r->of->settings.server, "POST", path, buf_view(&body),
                         r->of->settings.timeout, on_reported, r);
    buf_fini(&body);
}

/* The ids that the answer says were refused, each with a value that is not NULL. */
static struct strmap refused_of(struct holder *h, const struct remote_answer *a)
{
    struct strmap refused = {.seed = rng_next(&h->rng)};
    struct str item;
    for (struct view_list l = view_list(view_get(a->body, "not_found")); view_next(&l, &item);)
        if (item.len > 2)
            strmap_put(&refused, (struct str){item.at + 1, item.len - 2}, h);
    return refused;
}

/* What an answer to many says of one. */
static void settle(struct holder_run *r, const struct strmap *refused,
                   const struct remote_answer *a)
{
    static const struct remote_answer done = {.result = CALL_DONE, .status = 204};
    bool each = a->result == CALL_DONE || view_get(a->body, "not_found").len;
    if (!is_final(a)) {
        later(r);
    } else if (each && !strmap_get(refused, str_from(r->id))) {
        end(r, r->of->user.reported, &done);
    } else {
        r->alone = true;
        list_unlink(&r->report);
        list_append(&r->of->reports, &r->report);
    }
}

static void on_batch(void *ctx, const struct remote_answer *a)
{
    struct holder_batch *b = ctx;
    struct holder *h = b->of;
    struct strmap refused = refused_of(h, a);
    h->batch = NULL;
    h->user.heard(h->ctx, a);
    note_sender(h, a);
    while (!list_is_empty(&b->runs))
        settle(LIST_OF(b->runs.next, struct holder_run, report), &refused, a);
    strmap_fini(&refused);
    free(b);
    h->user.wake(h->ctx);
}

static bool may_join(const struct holder_run *r)
{
    return !r->alone && !r->members.len && strcmp(r->verb, "success") == 0;
}

static void send_together(struct holder *h, struct list *runs)
{
    struct buf body = {0};
    struct holder_batch *b = ALLOC(struct holder_batch);
    b->of = h;
    list_init(&b->runs);
    while (!list_is_empty(runs)) {
        struct holder_run *r = LIST_OF(runs->next, struct holder_run, report);
        buf_print(&body, "%s{\"id\":\"%s\",\"token\":%s}", body.len ? "," : "{\"jobs\":[", r->id,
                  r->token);
        list_unlink(&r->report);
        list_append(&b->runs, &r->report);
    }
    buf_lit(&body, "]}");
    h->batch = b;
    b->call = remote_ask(h->settings.server, "POST", "/jobs/success", buf_view(&body),
                         h->settings.timeout, on_batch, b);
    buf_fini(&body);
}

/* Those that are due, in the order of the reports. */
static void report_due(struct holder *h, mono now, mono *next)
{
    struct list together;
    size_t count = 0;
    list_init(&together);
    for (struct list *n = h->reports.next, *after; n != &h->reports; n = after) {
        bool full = h->batch || count == SUCCESSES_MAX;
        struct holder_run *r = LIST_OF(n, struct holder_run, report);
        after = n->next;
        if (full && h->calls == CALLS_MAX)
            break; /* an answer makes room */
        if (r->report_at.ns > now.ns) {
            holder_sooner(next, r->report_at);
        } else if (!may_join(r)) {
            if (h->calls < CALLS_MAX)
                send_alone(r);
        } else if (!full) {
            list_unlink(n);
            list_append(&together, n);
            count++;
        }
    }
    if (count == 1)
        send_alone(LIST_OF(together.next, struct holder_run, report));
    else if (count)
        send_together(h, &together);
}

void holder_runs_report(struct holder_run *r, enum holder_verb verb, struct str members)
{
    static const char *const verbs[] = {"success", "failure", "release"};
    must(!r->verb);
    r->verb = verbs[verb];
    buf_str(&r->members, members);
    renewals_drop(r->renewal);
    r->renewal = NULL;
    list_append(&r->of->reports, &r->report);
    r->of->user.wake(r->of->ctx);
}

void holder_runs_drop(struct holder_run *r)
{
    if (!r)
        return;
    r->mine = NULL;
    if (!r->verb)
        free_run(r);
}

void holder_runs_return(struct holder *h, const struct holder_job *job)
{
    holder_runs_report(hold(h, job, NULL), HOLDER_RELEASE, (struct str){0});
}

size_t holder_runs_count(const struct holder *h)
{
    return h->run_count;
}

/* --- turns and the end --- */

void holder_runs_turn(struct holder *h, mono now, mono *next)
{
    report_due(h, now, next);
    renew_due(h, now);
    if (!list_is_empty(&h->runs))
        holder_sooner(next, h->renew_next);
}

void holder_runs_free_all(struct holder *h)
{
    if (h->batch)
        remote_abort(h->batch->call);
    while (!list_is_empty(&h->runs))
        free_run(LIST_OF(h->runs.next, struct holder_run, node));
    free(h->batch);
}
