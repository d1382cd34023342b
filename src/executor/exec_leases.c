/* SPDX-License-Identifier: Apache-2.0 */

/* The server's side of runs. A claim waits at the server until there is a job, so that none is
 * asked for in vain; after every claim whose answer may have been lost, and after a start, the
 * server is asked which of its jobs in flight are ours. Claiming one of those again gives the same
 * claim again. That an answer was lost is always seen, as no claim is sent by a kept connection. */

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/must.h"
#include "base/strmap.h"
#include "client/client.h"
#include "holder/renewals.h"
#include "client/view.h"
#include "client/when.h"
#include "executor/exec_internal.h"

#define CLAIM_WAIT   ((span){20000})
#define CLAIM_EXTRA  ((span){15000}) /* how long an answer may take in addition to its wait */
#define CALL_TIMEOUT ((span){15000})
#define CLAIM_MAX    ((size_t)500)   /* jobs at a time */
#define RENEW_MAX    ((span){20000}) /* a lease is renewed at least so often */
#define GANG_SEED    1

/* After so many pods in a row for which the cluster had no room, so many jobs at a time find out
 * whether it has some again: each costs the server a run of its job. */
#define NO_ROOM_MANY ((uint32_t)16)
#define PROBE_JOBS   ((size_t)4)
#define PROBE_EVERY  ((span){2000})

/* A job that the server says is in flight with us. */
struct adoption {
    struct executor *x;
    struct id job;
};

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

static void take_job(struct executor *x, struct str job)
{
    struct arena a = {0};
    struct id id;
    int64_t run;
    struct err e = id_parse(view_text(&a, job, "id"), &id);
    if (e.code != ERR_OK || !view_int(job, "run", &run) || run < 0) {
        log_error("%s sent a job without an id or a run; passed over", x->settings->server);
        arena_fini(&a);
        return;
    }
    struct exec_run *r = exec_runs_find(x, id, run);
    if (!r)
        r = exec_runs_add(x, id, run);
    read_job(x, r, job, &a);
    r->adopted = false;
    r->renew_at = renew_at(x, when_mono());
    /* What came before is over for the server, or this run could not have begun. */
    for (struct exec_run *o = r->next; o; o = o->next)
        exec_runs_lose(x, o, "a later run has begun");
    exec_wake(x);
    arena_fini(&a);
}

/* --- which jobs are ours --- */

/* A page of the list has been worked off; if one could not be asked for, all of it comes again. */
static void adopted_page(struct executor *x)
{
    struct exec_claims *c = &x->claims;
    if (c->listing || c->adopting)
        return;
    if (c->adopt_failed) {
        c->adopt_failed = false;
        c->adopt_path.len = 0;
        c->not_before = when_after(when_mono(), exec_backoff(x, c->adopt_tries++));
    } else if (!c->adopt_path.len) {
        c->adopted = true;
        c->adopt_tries = 0;
    }
    exec_wake(x);
}

static void on_adopted(void *ctx, const struct remote_answer *a)
{
    struct adoption *ad = ctx;
    struct executor *x = ad->x;
    x->claims.adopting--;
    free(ad);
    note_server(x, a);
    if (a->result == CALL_DONE)
        take_job(x, a->body);
    else if (may_have_been_handed_out(a))
        x->claims.adopt_failed = true;
    adopted_page(x);
}

/* A job of which only an earlier run is known is not: lists do not say which run is in flight, but
 * since when. */
static bool is_known(const struct executor *x, struct id job, int64_t taken_at)
{
    const struct exec_run *r = idmap_get(&x->by_job, job);
    return r && !r->adopted && r->taken_at == taken_at &&
           (r->plan.lease == PLAN_HELD || (r->plan.lease == PLAN_DECIDED && !r->plan.delivered));
}

static void adopt(struct executor *x, struct id job)
{
    struct adoption *ad = ALLOC(struct adoption);
    char path[64], text[ID_TEXT_LEN];
    struct buf body = {0};
    *ad = (struct adoption){x, job};
    id_format(job, text);
    snprintf(path, sizeof path, "/jobs/%.25s/claim", text);
    buf_lit(&body, "{\"worker\":");
    json_write_string(&body, str_from(x->settings->name));
    buf_print(&body, ",\"lease_ms\":%" PRId64 "}", x->settings->lease.ms);
    x->claims.adopting++;
    remote_ask(x->server, "POST", path, buf_view(&body), CALL_TIMEOUT, on_adopted, ad);
    buf_fini(&body);
}

static void adopt_page(struct executor *x, struct str body)
{
    struct arena a = {0};
    struct str job, next = view_text(&a, view_get(body, "pages"), "next");
    for (struct view_list l = view_list(view_get(body, "jobs")); view_next(&l, &job);) {
        struct id id;
        int64_t taken_at = 0;
        (void)view_int(job, "dequeued_at", &taken_at);
        if (id_parse(view_text(&a, job, "id"), &id).code == ERR_OK && !is_known(x, id, taken_at))
            adopt(x, id);
    }
    x->claims.adopt_path.len = 0;
    buf_str(&x->claims.adopt_path, next);
    arena_fini(&a);
}

static void on_listed(void *ctx, const struct remote_answer *a)
{
    struct executor *x = ctx;
    struct exec_claims *c = &x->claims;
    c->listing = false;
    c->adopt = NULL;
    /* Also one that does not know what a server of Tenax has. */
    note_server_is(x, may_have_been_handed_out(a) || a->result == CALL_GONE, a);
    if (a->result == CALL_DONE) {
        adopt_page(x, a->body);
        adopted_page(x);
    } else if (a->result == CALL_REFUSED) {
        give_up(x, a);
    } else {
        c->not_before = when_after(when_mono(), exec_backoff(x, c->adopt_tries++));
    }
    exec_wake(x);
}

/* The next page, once those of the last one have been asked for. */
static void adopt_more(struct executor *x)
{
    struct exec_claims *c = &x->claims;
    if (c->listing || c->adopting)
        return;
    if (!c->adopt_path.len) {
        buf_lit(&c->adopt_path, "/jobs");
        client_query(&c->adopt_path, "worker", x->settings->name);
        client_query(&c->adopt_path, "status", "in_flight");
        client_query(&c->adopt_path, "limit", "50");
    }
    struct buf path = {0};
    buf_str(&path, buf_view(&c->adopt_path));
    c->listing = true;
    c->adopt = remote_ask(x->server, "GET", client_path(&path), (struct str){0}, CALL_TIMEOUT,
                          on_listed, x);
    buf_fini(&path);
}

/* --- claims --- */

static void on_claimed(void *ctx, const struct remote_answer *a)
{
    struct executor *x = ctx;
    struct exec_claims *c = &x->claims;
    struct str job;
    c->claim = NULL;
    note_server(x, a);
    if (a->result == CALL_DONE) {
        c->tries = 0;
        for (struct view_list l = view_list(view_get(a->body, "jobs")); view_next(&l, &job);)
            take_job(x, job);
    } else if (may_have_been_handed_out(a)) {
        c->adopted = false;
        c->not_before = when_after(when_mono(), exec_backoff(x, c->tries++));
    } else {
        give_up(x, a);
    }
    exec_wake(x);
}

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

static void claim(struct executor *x, size_t count, struct str queues)
{
    struct buf b = {0};
    count = count < CLAIM_MAX ? count : CLAIM_MAX;
    buf_print(&b, "{\"queues\":[%.*s],\"count\":%zu,\"lease_ms\":%" PRId64 ",\"wait_ms\":%" PRId64,
              STR_ARG(queues), count, x->settings->lease.ms, CLAIM_WAIT.ms);
    buf_lit(&b, ",\"worker\":");
    json_write_string(&b, str_from(x->settings->name));
    buf_byte(&b, '}');
    x->claims.asked = count;
    x->claims.claim = remote_ask_once(x->server, "POST", "/jobs/claim", buf_view(&b),
                                      (span){CLAIM_WAIT.ms + CLAIM_EXTRA.ms}, on_claimed, x);
    buf_fini(&b);
}

static void on_withdrawn(void *ctx, const struct remote_answer *a)
{
    (void)a;
    ((struct executor *)ctx)->claims.withdraw = NULL;
}

/* Has the server answer the claim that waits there. */
static void withdraw(struct executor *x)
{
    struct exec_claims *c = &x->claims;
    if (!c->claim || c->withdraw)
        return;
    struct buf path = {0};
    buf_lit(&path, "/jobs/claim");
    client_query(&path, "worker", x->settings->name);
    c->withdraw = remote_ask(x->server, "DELETE", client_path(&path), (struct str){0}, CALL_TIMEOUT,
                             on_withdrawn, x);
    buf_fini(&path);
}

/* As many of them as may be asked for while the cluster is full. */
static size_t probing(struct executor *x, size_t n, mono now, mono *next)
{
    struct exec_claims *c = &x->claims;
    if (x->no_room_streak < NO_ROOM_MANY || n == 0)
        return n;
    if (!c->claim && c->probe_at.ns > now.ns) {
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
        withdraw(x);
        return;
    }
    size_t n = probing(x, exec_access_most(x, room(x, &queues, &left_out)), now, next);
    if (c->claim && ((c->left_out && !left_out) || n > 2 * c->asked)) {
        withdraw(x); /* what it asks for is not what there is room for by now */
    } else if (!c->claim && n > 0) {
        c->left_out = left_out;
        c->probe_at = when_after(now, PROBE_EVERY);
        claim(x, fitting(x, n), buf_view(&queues));
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
    if (!x->renewals) {
        x->renewals = renewals_new(x->server, CALL_TIMEOUT);
        list_init(&x->renewals_sent);
    }
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

void exec_leases_turn(struct executor *x, mono now, mono *next)
{
    struct exec_claims *c = &x->claims;
    renew_due(x, now, next);
    if (c->not_before.ns > now.ns) {
        exec_sooner(next, c->not_before);
        return;
    }
    if (!c->adopted)
        adopt_more(x);
    else
        claim_if_room(x, now, next);
}

void exec_leases_stop(struct executor *x)
{
    withdraw(x);
}

void exec_leases_free(struct executor *x)
{
    buf_fini(&x->claims.adopt_path);
    if (!x->renewals)
        return;
    renewals_free(x->renewals);
    x->renewals = NULL;
    while (!list_is_empty(&x->renewals_sent)) {
        struct list *node = x->renewals_sent.next;
        list_unlink(node);
        free(LIST_OF(node, struct exec_renewal, node));
    }
}
