/* SPDX-License-Identifier: Apache-2.0 */

/* Commands about one job, or a few that are named. */

#include "backend/embedded/embedded_internal.h"
#include "backend/embedded/embedded_undo.h"
#include "core/job_fields.h"
#include "store/log_postgres.h"

/* The reply outlives the request, so its names must not be the request's. */
static void own_names(struct arena *a, struct enqueued *jobs, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct job *job = &jobs[i].job;
        const struct job *last = i ? &jobs[i - 1].job : NULL;
        if (jobs[i].duplicate)
            continue;
        bool same = last && str_eq(job->queue, last->queue);
        job->queue = same ? last->queue : arena_copy(a, job->queue);
        same = last && str_eq(job->type, last->type);
        job->type = same ? last->type : arena_copy(a, job->type);
        job->unique_key = arena_copy(a, job->unique_key);
        job->options = job_options_copy(a, &job->options);
    }
}

void embedded_give_receipts(struct embedded *b, const struct enqueue *specs, size_t count)
{
    char key[LOG_POSTGRES_INBOX_KEY];
    for (size_t i = 0; i < count; i++) {
        if (!specs[i].receipt)
            continue;
        log_postgres_inbox_key((int64_t)specs[i].receipt, key);
        batch_delete(&b->building->batch, (struct str){key, sizeof key});
    }
}

void embedded_enqueue(struct embedded *b, const struct command *c, struct reply *r)
{
    struct arena *a = &b->building->arena;
    r->count = c->enqueue.count;
    r->enqueued = arena_get(a, r->count * sizeof *r->enqueued);
    r->err = engine_enqueue(b->engine, b->now, c->enqueue.specs, r->count, a, r->enqueued);
    if (r->err.code == ERR_OK)
        embedded_idempotency_keep(b, c->enqueue.once, r);
    if (r->err.code == ERR_OK) {
        own_names(a, r->enqueued, r->count);
        embedded_give_receipts(b, c->enqueue.specs, r->count);
    } else if (r->err.code != ERR_CORRUPT || !embedded_can_heal(b)) {
        b->broken = r->err; /* some may be in the batch already: it must not be committed */
    }
}

void embedded_read(struct embedded *b, const struct command *c, struct reply *r)
{
    struct id id = c->read.id;
    struct arena *a = &b->building->arena;
    struct job_extent extent;
    struct run run;
    r->jobs = arena_get(a, sizeof *r->jobs);
    r->count = 1;
    r->err = engine_read(b->engine, b->now, id, true, a, r->jobs, &extent);
    if (r->err.code == ERR_OK && (r->has_live = engine_live_run(b->engine, id, &run, &r->token)))
        r->lease_end = run.lease_end;
    if (r->err.code == ERR_OK) {
        r->notes = arena_get(a, sizeof *r->notes);
        r->err = engine_read_notes(b->engine, r->jobs, a, r->notes);
    }
    if (r->err.code == ERR_OK && c->read.judges) {
        r->judges = ARENA_NEW(a, struct judges);
        engine_judges(b->engine, r->jobs, a, r->judges);
    }
    if (r->err.code == ERR_OK && c->read.runs)
        embedded_read_runs(b, id, extent.runs_ended, r);
}

struct names {
    struct arena *arena;
    struct glob_list reach;
    struct str *at;
    size_t count, cap;
};

static void add_name(void *ctx, struct str name)
{
    struct names *n = ctx;
    if (!glob_list_matches(n->reach, name))
        return;
    ARENA_GROW(n->arena, n->at, n->count, n->cap, 64);
    n->at[n->count++] = arena_copy(n->arena, name);
}

void embedded_queue_names(struct embedded *b, const struct command *c, struct reply *r)
{
    struct names n = {.arena = &b->building->arena, .reach = c->reach};
    engine_each_queue(b->engine, add_name, &n);
    r->names = n.at;
    r->count = n.count;
}

/* Room for the one job of a reply. */
static struct job *reply_job(struct embedded *b, struct reply *r)
{
    r->jobs = arena_get(&b->building->arena, sizeof *r->jobs);
    r->count = 1;
    return r->jobs;
}

void embedded_patch(struct embedded *b, const struct command *c, struct reply *r)
{
    struct arena *a = &b->building->arena;
    struct patch patch = *c->patch.patch;
    patch.queue = arena_copy(a, patch.queue);
    r->err = engine_patch(b->engine, b->now, c->patch.id, &patch, a, reply_job(b, r));
}

void embedded_cancel(struct embedded *b, const struct command *c, struct reply *r)
{
    r->err = engine_cancel(b->engine, b->now, c->id, &b->building->arena, reply_job(b, r));
}

void embedded_rerun(struct embedded *b, const struct command *c, struct reply *r)
{
    struct rerun how = {.at = b->now, .completed = c->rerun.completed, .freed = c->rerun.freed};
    r->err =
        engine_rerun(b->engine, b->now, c->rerun.id, how, &b->building->arena, reply_job(b, r));
}

struct err embedded_remove_job(struct embedded *b, struct id id, bool for_good)
{
    TRY(engine_remove(b->engine, b->now, id));
    if (for_good)
        engine_gone(b->engine, id);
    return err_none();
}

void embedded_remove(struct embedded *b, const struct command *c, struct reply *r)
{
    r->err = embedded_remove_job(b, c->id, true);
}

void embedded_aliases(struct embedded *b, const struct command *c, struct reply *r)
{
    struct arena *a = &b->building->arena;
    struct job job;
    bool found;
    r->ids = arena_get(a, c->aliases.count * sizeof *r->ids + 1);
    for (r->count = 0; r->count < c->aliases.count; r->count++) {
        struct str alias = c->aliases.at[r->count];
        r->err = engine_alias_find(b->engine, b->now, alias, a, &job, &found);
        if (r->err.code == ERR_OK && !found)
            r->err = embedded_no_alias(alias);
        if (r->err.code != ERR_OK)
            return;
        r->ids[r->count] = job.id;
    }
}

/* --- reports --- */

/* The worker's connection broke before it heard the answer, and it asks again. */
static bool is_repeated(struct embedded *b, struct run_ref ref, enum outcome outcome,
                        struct reply *r)
{
    struct arena *a = &b->building->arena;
    struct job *job = arena_get(a, sizeof *job);
    r->repeated = engine_is_repeated(b->engine, b->now, ref, outcome, a, job);
    if (r->repeated) {
        r->jobs = job;
        r->count = 1;
    }
    return r->repeated;
}

/* News come before the report that they came with: they belong to the run that it may end. */
static struct err note(struct embedded *b, struct run_ref run, const struct news *news)
{
    return news ? engine_note(b->engine, b->now, run, news) : err_none();
}

void embedded_succeed(struct embedded *b, const struct command *c, struct reply *r)
{
    embedded_workers_report(b, c->run);
    if (is_repeated(b, c->run, OUTCOME_COMPLETED, r))
        return;
    r->err = note(b, c->run, c->news);
    if (r->err.code == ERR_OK)
        r->err = engine_succeed(b->engine, b->now, c->run);
}

void embedded_fail(struct embedded *b, const struct command *c, struct reply *r)
{
    embedded_workers_report(b, c->fail.ref);
    enum outcome outcome = c->fail.exception ? c->fail.exception : OUTCOME_FAILED;
    if (is_repeated(b, c->fail.ref, outcome, r))
        return;
    r->err = note(b, c->fail.ref, c->news);
    if (r->err.code == ERR_OK)
        r->err = engine_fail(b->engine, b->now, &c->fail, &b->building->arena, reply_job(b, r));
}

void embedded_terminated(struct embedded *b, const struct command *c, struct reply *r)
{
    r->err = engine_terminated(b->engine, b->now, c->terminated.run, c->terminated.index,
                               &b->building->arena, reply_job(b, r));
}

void embedded_release(struct embedded *b, const struct command *c, struct reply *r)
{
    instant until = c->not_before;
    if (c->delay.ms)
        until = instant_min(instant_add(b->now, c->delay), (instant){INSTANT_MAX_MS});
    r->err = note(b, c->run, c->news);
    if (r->err.code == ERR_OK)
        r->err = engine_snooze(b->engine, b->now, c->run, c->why, until);
}

void embedded_progress(struct embedded *b, const struct command *c, struct reply *r)
{
    embedded_workers_report(b, c->run);
    r->err = note(b, c->run, c->news);
}

/* It changes nothing that news need, and may be refused. */
void embedded_renew(struct embedded *b, const struct command *c, struct reply *r)
{
    embedded_workers_report(b, c->renew.run);
    r->err = engine_renew(b->engine, b->now, c->renew.run, c->renew.lease, &r->lease_end);
    if (r->err.code == ERR_OK)
        r->err = note(b, c->renew.run, c->news);
}
