/* SPDX-License-Identifier: Apache-2.0 */

/* The server's side of runs: what the holder claims for this executor, and how much of it there is
 * room for; renewals. */

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/must.h"
#include "base/strmap.h"
#include "client/view.h"
#include "client/when.h"
#include "executor/exec_internal.h"

#define CLAIM_WAIT   ((span){20000})
#define CALL_TIMEOUT ((span){15000})
#define CLAIM_MAX    ((size_t)500)   /* jobs at a time */
#define RENEW_MAX    ((span){20000}) /* a lease is renewed at least so often */
#define GANG_SEED    1

/* After so many pods in a row for which the cluster had no room, so many jobs at a time find out
 * whether it has some again: each costs the server a run of its job. */
#define NO_ROOM_MANY ((uint32_t)16)
#define PROBE_JOBS   ((size_t)4)
#define PROBE_EVERY  ((span){2000})

struct exec_renewal {
    struct executor *x;
    struct id job;
    int64_t run;
    struct list node; /* in x->renewals_sent */
};

static span renew_every(const struct executor *x)
{
    span third = {x->settings->lease.ms / 3};
    return third.ms < RENEW_MAX.ms ? third : RENEW_MAX;
}

static mono renew_at(const struct executor *x, mono since)
{
    return when_gather(when_after(since, renew_every(x)), (span){renew_every(x).ms / 4});
}

/* The server may have acted on the request although it did not say so. */
static bool may_have_been_handed_out(const struct remote_answer *a)
{
    return a->result == CALL_UNREACHABLE || a->result == CALL_TRY_LATER;
}

/* Says once that the server is away, and that it is back. */
static void note_server_is(struct executor *x, bool down, const struct remote_answer *a)
{
    if (down == x->server_down)
        return;
    x->server_down = down;
    if (down)
        log_warn("Tenax's server is away: %.*s; pods go on, and it is tried again until it answers",
                 STR_ARG(a->why));
    else
        log_info("%s answers again", x->settings->server);
}

static void note_server(struct executor *x, const struct remote_answer *a)
{
    note_server_is(x, may_have_been_handed_out(a), a);
}

static void give_up(struct executor *x, const struct remote_answer *a)
{
    exec_give_up(x, "Tenax's server %s refuses this executor (%ld): %.*s", x->settings->server,
                 a->status, STR_ARG(a->why));
}

/* --- a job that was handed out --- */

static const struct exec_queue *queue_of(const struct executor *x, struct str name)
{
    for (size_t i = 0; i < x->settings->queue_count; i++)
        if (str_eq(name, str_from(x->settings->queues[i].name)))
            return &x->settings->queues[i];
    return NULL;
}

static void read_job(struct executor *x, struct exec_run *r, struct str job, struct arena *a)
{
    struct str token = view_text(a, job, "token");
    struct str namespace = view_text(a, view_get(job, "payload"), "namespace");
    struct str gang = view_get(job, "gang");
    if (token.len == EXEC_TOKEN_LEN)
        memcpy(r->token, token.at, EXEC_TOKEN_LEN);
    if (r->report && !*r->report->token)
        memcpy(r->report->token, r->token, sizeof r->token);
    (void)view_int(job, "dequeued_at", &r->taken_at);
    r->queue = queue_of(x, view_text(a, job, "queue"));
    if (gang.len)
        r->gang = strmap_hash(GANG_SEED, view_get(gang, "id")) | 1;
    if (!r->namespace && namespace.len)
        r->namespace = alloc_text(namespace.at, namespace.len);
    if (!r->plan.pod && !r->plan.creating && !r->job_text)
        r->job_text = alloc_text(job.at, job.len);
    /* The name of the first run's pod is the same in all cases, and there is no earlier one. */
    if (r->run == 0)
        r->ready = EXEC_READY_ASKED;
}

static void take_job(struct executor *x, const struct holder_job *job)
{
    struct arena a = {0};
    struct exec_run *r = exec_runs_find(x, job->id, job->run);
    if (!r)
        r = exec_runs_add(x, job->id, job->run);
    read_job(x, r, job->json, &a);
    r->adopted = false;
    r->renew_at = renew_at(x, when_mono());
    /* What came before is over for the server, or this run could not have begun. */
    for (struct exec_run *o = r->next; o; o = o->next)
        exec_runs_lose(x, o, "a later run has begun");
    exec_wake(x);
    arena_fini(&a);
}

/* --- what the holder says --- */

static void on_wake(void *ctx)
{
    exec_wake(ctx);
}

/* That a job which was adopted is another's says nothing of the server. */
static void on_heard(void *ctx, const struct remote_answer *a)
{
    struct executor *x = ctx;
    if (a->result != CALL_GONE || holder_claims_have_adopted(x->claims.of))
        note_server(x, a);
}

static void on_job(void *ctx, const struct holder_job *job)
{
    take_job(ctx, job);
}

/* A job of which only an earlier run is known is not: lists do not say which run is in flight, but
 * since when. */
static bool on_knows(void *ctx, struct str job)
{
    const struct executor *x = ctx;
    struct arena a = {0};
    struct id id;
    int64_t taken_at = 0;
    bool good = id_parse(view_text(&a, job, "id"), &id).code == ERR_OK;
    const struct exec_run *r = good ? idmap_get(&x->by_job, id) : NULL;
    (void)view_int(job, "dequeued_at", &taken_at);
    arena_fini(&a);
    return r && !r->adopted && r->taken_at == taken_at &&
           (r->plan.lease == PLAN_HELD || (r->plan.lease == PLAN_DECIDED && !r->plan.delivered));
}

/* A server that does not know what Tenax's have is away. */
static void on_answered(void *ctx, const struct remote_answer *a)
{
    struct executor *x = ctx;
    if (a->result == CALL_GONE && !holder_claims_have_adopted(x->claims.of))
        note_server_is(x, true, a);
    else if (a->result != CALL_DONE)
        give_up(x, a);
}

/* No run is held by it: leases and reports are the executor's own. */
static void on_run(void *run, const struct remote_answer *a)
{
    (void)run, (void)a;
}

void exec_leases_start(struct executor *x)
{
    static const struct holder_user user = {.wake = on_wake,
                                            .heard = on_heard,
                                            .job = on_job,
                                            .knows = on_knows,
                                            .answered = on_answered,
                                            .lost = on_run,
                                            .reported = on_run};
    x->holder = holder_new(&(struct holder_settings){.server = x->server,
                                                     .worker = x->settings->name,
                                                     .lease = x->settings->lease,
                                                     .timeout = CALL_TIMEOUT},
                           &user, x);
    x->claims.of = holder_claims_new(x->holder, &(struct holder_scope){.adopts = true}, x);
    x->renewals = renewals_new(x->server, CALL_TIMEOUT);
    list_init(&x->renewals_sent);
}

/* --- claims --- */

/* How many jobs may be asked for, and of which queues, which are written to the body. */
static size_t room(const struct executor *x, struct buf *queues, bool *left_out)
{
    const struct exec_settings *s = x->settings;
    struct exec_load load = exec_runs_load(x, NULL);
    size_t max = (size_t)s->pods_max, n = load.runs < max ? max - load.runs : 0;
    *left_out = false;
    if ((s->memory_max && load.memory >= s->memory_max) || (s->cpu_max && load.cpu >= s->cpu_max))
        return 0;
    for (size_t i = 0; i < s->queue_count; i++) {
        const struct exec_queue *q = &s->queues[i];
        size_t taken = q->limit ? exec_runs_load(x, q).runs : 0;
        if (q->limit && taken >= (size_t)q->limit) {
            *left_out = true;
            continue;
        }
        if (q->limit && n > (size_t)q->limit - taken)
            n = (size_t)q->limit - taken;
        if (queues->len)
            buf_byte(queues, ',');
        json_write_string(queues, str_from(q->name));
    }
    return queues->len ? n : 0;
}

/* With limits on resources no more is asked for than fits if all are as large as the largest. */
static size_t fitting(const struct executor *x, size_t n)
{
    const struct exec_settings *s = x->settings;
    struct exec_load load = exec_runs_load(x, NULL);
    uint64_t memory = 0, cpu = 0;
    LIST_EACH (node, &x->runs) {
        const struct exec_run *r = LIST_OF(node, struct exec_run, node);
        memory = r->memory > memory ? r->memory : memory;
        cpu = r->cpu > cpu ? r->cpu : cpu;
    }
    if (s->memory_max && memory && n > (s->memory_max - load.memory) / memory)
        n = (size_t)((s->memory_max - load.memory) / memory);
    if (s->cpu_max && cpu && n > (s->cpu_max - load.cpu) / cpu)
        n = (size_t)((s->cpu_max - load.cpu) / cpu);
    if ((s->memory_max && !memory) || (s->cpu_max && !cpu))
        n = n > 4 ? 4 : n; /* nothing is known yet */
    return n ? n : 1;
}

/* As many of them as may be asked for while the cluster is full. */
static size_t probing(struct executor *x, size_t n, mono now, mono *next)
{
    struct exec_claims *c = &x->claims;
    if (x->no_room_streak < NO_ROOM_MANY || n == 0)
        return n;
    if (!holder_claims_are_asking(c->of) && c->probe_at.ns > now.ns) {
        exec_sooner(next, c->probe_at);
        return 0;
    }
    return n < PROBE_JOBS ? n : PROBE_JOBS;
}

static void claim_if_room(struct executor *x, mono now, mono *next)
{
    struct exec_claims *c = &x->claims;
    struct buf queues = {0};
    bool left_out;
    if (x->stopping)
        return;
    /* While the cluster is away others may have them. */
    if (!exec_watch_usable(x) || exec_access_is_suspended(&x->access)) {
        holder_claims_withdraw(c->of);
        return;
    }
    size_t n = probing(x, exec_access_most(x, room(x, &queues, &left_out)), now, next);
    if (holder_claims_are_asking(c->of)) {
        /* What it asks for may not be what there is room for by now. */
        if ((c->left_out && !left_out) || n > 2 * c->asked)
            holder_claims_withdraw(c->of);
    } else if (n > 0 && holder_claims_may_ask(c->of, now, next)) {
        n = fitting(x, n);
        c->asked = n < CLAIM_MAX ? n : CLAIM_MAX;
        c->left_out = left_out;
        c->probe_at = when_after(now, PROBE_EVERY);
        holder_claims_ask(c->of, buf_view(&queues), c->asked, CLAIM_WAIT);
    }
    buf_fini(&queues);
}

/* --- renewals --- */

static void on_renewed(void *ctx, const struct remote_answer *a)
{
    struct exec_renewal *of = ctx;
    struct executor *x = of->x;
    struct exec_run *r = exec_runs_find(x, of->job, of->run);
    x->renewing--;
    list_unlink(&of->node);
    free(of);
    note_server(x, a);
    exec_wake(x);
    if (!r)
        return;
    r->renewing = false;
    if (a->result == CALL_DONE || a->result == CALL_REFUSED) {
        bool unknown = a->result == CALL_REFUSED && !*r->token; /* it comes with the list of ours */
        r->adopted = false;
        r->renew_tries = 0;
        r->renew_at = unknown ? when_after(when_mono(), (span){1000}) : renew_at(x, a->sent);
    } else if (a->result == CALL_GONE) {
        r->adopted = false;
        exec_runs_lose(x, r, "its lease is lost");
    } else {
        r->renew_at = when_after(when_mono(), exec_backoff(x, r->renew_tries++));
    }
}

static void renew(struct executor *x, struct exec_run *r)
{
    struct exec_renewal *of = ALLOC(struct exec_renewal);
    char text[ID_TEXT_LEN], token[EXEC_TOKEN_LEN + 3];
    int len = snprintf(token, sizeof token, "\"%s\"", r->token);
    *of = (struct exec_renewal){.x = x, .job = r->job, .run = r->run};
    list_append(&x->renewals_sent, &of->node);
    id_format(r->job, text);
    r->renewing = true;
    x->renewing++;
    renewals_add(x->renewals,
                 &(struct lease_text){.job = {text, ID_TEXT_LEN},
                                      .token = {token, *r->token ? (size_t)len : 0},
                                      .run = r->run,
                                      .lease = x->settings->lease},
                 on_renewed, of);
}

/* A decision that cannot be delivered yet must not come too late: its pod is still there, or the
 * disk is full. */
static bool wants_lease(const struct exec_run *r)
{
    return r->plan.lease == PLAN_HELD ||
           (r->plan.lease == PLAN_DECIDED && (r->plan.held_back || !r->plan.kept));
}

static void renew_due(struct executor *x, mono now, mono *next)
{
    LIST_EACH (n, &x->runs) {
        struct exec_run *r = LIST_OF(n, struct exec_run, node);
        if (r->renewing || !wants_lease(r))
            continue;
        if (r->renew_at.ns > now.ns)
            exec_sooner(next, r->renew_at);
        else
            renew(x, r);
    }
    renewals_send(x->renewals);
}

void exec_leases_renew_all(struct executor *x)
{
    LIST_EACH (n, &x->runs)
        LIST_OF(n, struct exec_run, node)->renew_at = (mono){0};
    exec_wake(x);
}

static void on_said_over(void *ctx, const struct remote_answer *a)
{
    struct executor *x = ctx;
    (void)a; /* most were not waited for */
    x->telling--;
    exec_wake(x);
}

void exec_leases_say_over(struct executor *x, struct exec_run *r)
{
    char path[80], job[ID_TEXT_LEN];
    struct buf body = {0};
    r->said_over = true;
    if (!*r->token)
        return;
    id_format(r->job, job);
    snprintf(path, sizeof path, "/jobs/%.25s/terminated", job);
    buf_print(&body, "{\"run\":%" PRId64 ",\"token\":\"%s\"}", (int64_t)r->run, r->token);
    x->telling++;
    remote_ask(x->server, "POST", path, buf_view(&body), CALL_TIMEOUT, on_said_over, x);
    buf_fini(&body);
}

void exec_leases_turn(struct executor *x, mono now, mono *next)
{
    renew_due(x, now, next);
    holder_turn(x->holder, now, next);
    claim_if_room(x, now, next);
}

void exec_leases_stop(struct executor *x)
{
    holder_claims_stop(x->claims.of);
}

void exec_leases_free(struct executor *x)
{
    if (!x->holder)
        return;
    holder_free(x->holder);
    renewals_free(x->renewals);
    x->holder = NULL;
    while (!list_is_empty(&x->renewals_sent)) {
        struct list *node = x->renewals_sent.next;
        list_unlink(node);
        free(LIST_OF(node, struct exec_renewal, node));
    }
}
