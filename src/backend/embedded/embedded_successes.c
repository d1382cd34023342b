/* SPDX-License-Identifier: Apache-2.0 */

/* Reports of very many successes at once, or of all kinds, or of very many leases to be renewed:
 * some in each turn. They are not atomic; the answer comes when the last is durable. */

#include <stdlib.h>

#include "backend/embedded/embedded_reach.h"
#include "base/alloc.h"
#include "base/glob.h"
#include "base/must.h"

/* In one turn, of each such request: some milliseconds. A success counts once, others more. */
#define SLICE           2000
#define COST_OF_NEWS    1 /* they are records of their own, and have */
#define COST_OF_BYTES   8192
#define COST_OF_FAILURE 5 /* its job is read, and policies judge it */

struct successes {
    struct list node;
    struct arena arena;
    enum command_kind kind;
    struct run_ref *runs;
    struct renewal *renewals;
    const struct run_report *reports; /* the front end's */
    struct renewed *renewed;          /* of each renewal; or of the successes that were refused */
    struct reported *reported;        /* of each report */
    struct glob_list reach;
    size_t count, at, refused;
    reply_fn done;
    void *ctx;
};

/* What says something of this run only; anything else ends the whole report. */
static bool is_of_one(enum err_code code)
{
    return code == ERR_NOT_FOUND || code == ERR_NOT_IN_FLIGHT || code == ERR_STALE ||
           code == ERR_STALE_GANG || code == ERR_RUN_LIMIT || code == ERR_RUN_TOKEN ||
           code == ERR_UNPROCESSABLE || code == ERR_DAMAGED;
}

/* What is of this run only is noted, and *err is none; anything else is left to end the report. */
static void refuse_one(struct successes *s, struct renewed *to, struct id id, struct err *err)
{
    if (!is_of_one(err->code))
        return;
    to->id = id;
    to->code = err->code;
    if (s->refused < SUCCESS_REASONS_MAX)
        to->message = arena_copy(&s->arena, str_from(err->msg));
    to->lease_end = INSTANT_NONE;
    *err = err_none();
}

static void renew(struct embedded *b, struct successes *s, struct err *err)
{
    const struct renewal *one = &s->renewals[s->at];
    struct renewed *to = &s->renewed[s->at++];
    *err = embedded_reach_run(b, s->reach, one->run);
    if (err->code == ERR_OK)
        embedded_workers_report(b, one->run);
    if (err->code == ERR_OK)
        *err = engine_renew(b->engine, b->now, one->run, one->lease, &to->lease_end);
    to->id = one->run.id;
    refuse_one(s, to, one->run.id, err);
}

static bool was_reported(struct embedded *b, struct run_ref run)
{
    struct arena scratch = {0};
    struct job job;
    bool repeated = engine_is_repeated(b->engine, b->now, run, OUTCOME_COMPLETED, &scratch, &job);
    arena_fini(&scratch);
    return repeated;
}

static void report(struct embedded *b, struct successes *s, struct err *err)
{
    struct run_ref run = s->runs[s->at++];
    *err = embedded_reach_run(b, s->reach, run);
    if (err->code == ERR_OK)
        embedded_workers_report(b, run);
    if (err->code == ERR_OK && !was_reported(b, run))
        *err = engine_succeed(b->engine, b->now, run);
    refuse_one(s, &s->renewed[s->refused], run.id, err);
    if (err->code == ERR_OK && s->renewed[s->refused].code != ERR_OK)
        s->refused++;
}

/* --- reports of all kinds --- */

static struct command command_of(const struct successes *s, const struct run_report *one)
{
    struct command c = {.kind = one->kind, .reach = s->reach, .news = one->news};
    if (one->kind == CMD_FAIL) {
        c.fail = *one->failure;
        c.fail.ref = one->run;
    } else if (one->kind == CMD_RENEW) {
        c.renew.run = one->run;
        c.renew.lease = one->lease;
    } else {
        c.run = one->run;
    }
    if (one->kind == CMD_RELEASE) {
        c.why = one->message;
        c.not_before = one->not_before;
        c.delay = one->delay;
    }
    return c;
}

static void say_reported(struct successes *s, struct reported *to, const struct run_report *one,
                         const struct reply *r)
{
    to->lease_end = one->kind == CMD_RENEW ? r->lease_end : INSTANT_NONE;
    if (one->kind != CMD_FAIL)
        return;
    struct job *job = ARENA_NEW(&s->arena, struct job);
    *job = embedded_own_job(&s->arena, r->jobs);
    to->job = job;
}

/* One of whom the front end says that it comes to nothing, or that repeats what this request has
 * said and was heard, whether the job is still there or not. */
static bool is_known(const struct successes *s, const struct run_report *one, struct reported *to)
{
    if (one->refused) {
        to->code = one->refused;
        to->message = one->message;
        return true;
    }
    if (!one->same_as || s->reported[one->same_as - 1].code != ERR_OK)
        return false;
    *to = s->reported[one->same_as - 1];
    return true;
}

/* Of a job that has failed its words are shown, not the jobs it waited for, which would have to be
 * looked up. */
static void show_reported(struct embedded *b, const struct command *c, struct reply *r)
{
    if (r->jobs && c->reach.count)
        r->jobs->options.depends_on = (struct str){0};
    embedded_reach_reply(b, c, r);
}

static void report_any(struct embedded *b, struct successes *s, struct err *err)
{
    const struct run_report *one = &s->reports[s->at];
    struct reported *to = &s->reported[s->at++];
    *to = (struct reported){.id = one->run.id, .lease_end = INSTANT_NONE};
    if (is_known(s, one, to))
        return;
    const struct command c = command_of(s, one);
    struct reply r = {.err = embedded_reach_run(b, s->reach, one->run)};
    if (r.err.code == ERR_OK)
        embedded_apply(b, &c, &r);
    if (r.err.code == ERR_OK) {
        show_reported(b, &c, &r);
        say_reported(s, to, one, &r);
        return;
    }
    *err = r.err;
    if (!is_of_one(err->code))
        return;
    to->code = err->code;
    to->message = arena_copy(&s->arena, str_from(err->msg));
    *err = err_none();
}

static size_t cost_of_report(const struct run_report *one)
{
    size_t cost = 1;
    if (one->kind == CMD_FAIL)
        cost += COST_OF_FAILURE + one->failure->failure.message.len / COST_OF_BYTES +
                one->failure->failure.backtrace.len / COST_OF_BYTES;
    if (one->news)
        cost += COST_OF_NEWS + (one->news->checkpoint.len + one->news->result.len) / COST_OF_BYTES;
    return cost;
}

/* --- a request --- */

static void release_all(void *successes)
{
    struct successes *s = successes;
    arena_fini(&s->arena);
    free(s);
}

static void leave(struct successes *s)
{
    list_unlink(&s->node);
    release_all(s);
}

static void answer_each(struct embedded *b, const struct successes *s, struct reply *r)
{
    struct arena *a = &b->building->arena;
    r->count = s->kind == CMD_RENEW_MANY ? s->at : s->refused;
    r->renewed = arena_get(a, r->count * sizeof *r->renewed + 1);
    for (size_t i = 0; i < r->count; i++) {
        r->renewed[i] = s->renewed[i];
        r->renewed[i].message = arena_copy(a, s->renewed[i].message);
    }
}

static void answer(struct embedded *b, struct successes *s, struct err err)
{
    struct reply *r = embedded_effect(b, s->done, s->ctx);
    r->err = err;
    if (s->kind != CMD_REPORT_MANY) {
        answer_each(b, s, r);
        leave(s);
        return;
    }
    r->count = s->at;
    r->reported = s->reported;
    list_unlink(&s->node);
    arena_defer(&b->building->arena, release_all, s); /* as long as the reply */
}

/* True if it was answered. */
static bool go_on(struct embedded *b, struct successes *s, size_t most)
{
    struct err err = embedded_refuse_to_store(b, s->kind);
    while (err.code == ERR_OK && s->at < s->count && most > 0) {
        size_t cost = s->kind == CMD_REPORT_MANY ? cost_of_report(&s->reports[s->at]) : 1;
        most -= cost < most ? cost : most;
        if (s->kind == CMD_REPORT_MANY)
            report_any(b, s, &err);
        else
            s->kind == CMD_RENEW_MANY ? renew(b, s, &err) : report(b, s, &err);
    }
    if (err.code == ERR_OK && s->at < s->count)
        return false;
    answer(b, s, err);
    return true;
}

static struct successes *new_of(const struct command *c, size_t count)
{
    struct successes *s = ALLOC(struct successes);
    s->kind = c->kind;
    s->count = count;
    s->done = c->done;
    s->ctx = c->ctx;
    list_init(&s->node);
    return s;
}

static void begin(struct embedded *b, struct successes *s)
{
    if (!go_on(b, s, SLICE))
        list_append(&b->successes, &s->node);
}

void embedded_renew_many(struct embedded *b, const struct command *c, struct reply *r)
{
    must(!r);
    struct successes *s = new_of(c, c->renew_many.count);
    s->renewals = arena_get(&s->arena, s->count * sizeof *s->renewals + 1);
    s->renewed = arena_zero(&s->arena, s->count * sizeof *s->renewed + 1);
    s->reach = embedded_reach_own(&s->arena, c->reach);
    if (s->count)
        memcpy(s->renewals, c->renew_many.at, s->count * sizeof *s->renewals);
    begin(b, s);
}

void embedded_succeed_many(struct embedded *b, const struct command *c, struct reply *r)
{
    must(!r);
    struct successes *s = new_of(c, c->succeed_many.count);
    s->runs = arena_get(&s->arena, s->count * sizeof *s->runs + 1);
    s->renewed = arena_zero(&s->arena, s->count * sizeof *s->renewed + 1);
    s->reach = embedded_reach_own(&s->arena, c->reach);
    struct str worker = {0};
    if (s->count)
        worker = arena_copy(&s->arena, c->succeed_many.at->worker);
    for (size_t i = 0; i < s->count; i++) {
        s->runs[i] = c->succeed_many.at[i];
        s->runs[i].worker = worker; /* they are of one request */
    }
    begin(b, s);
}

void embedded_report_many(struct embedded *b, const struct command *c, struct reply *r)
{
    must(!r);
    struct successes *s = new_of(c, c->report_many.count);
    s->reports = c->report_many.at;
    s->reported = arena_get(&s->arena, s->count * sizeof *s->reported + 1);
    s->reach = embedded_reach_own(&s->arena, c->reach);
    begin(b, s);
}

void embedded_successes_step(struct embedded *b)
{
    if (list_is_empty(&b->successes))
        return;
    struct successes *s = LIST_OF(b->successes.next, struct successes, node);
    /* In turn, so that a long one does not hold up the others. */
    list_unlink(&s->node);
    if (!go_on(b, s, SLICE))
        list_append(&b->successes, &s->node);
}

void embedded_successes_abort_all(struct embedded *b, const struct err *why)
{
    while (!list_is_empty(&b->successes))
        answer(b, LIST_OF(b->successes.next, struct successes, node), *why);
}

void embedded_successes_free_all(struct embedded *b)
{
    while (!list_is_empty(&b->successes))
        leave(LIST_OF(b->successes.next, struct successes, node));
}
