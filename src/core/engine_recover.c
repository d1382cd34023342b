/* SPDX-License-Identifier: Apache-2.0 */

/* Recovery: the indexes made again from what is stored, and the runs that a stop cut off. */

#include <stdlib.h>

#include "base/alloc.h"
#include "base/must.h"
#include "core/engine_grace.h"
#include "core/engine_internal.h"
#include "core/job_fields.h"
#include "core/trace.h"

static void restore_lease(struct engine *e, instant now, const struct job *job,
                          const struct job_extent *x, struct queue *q, struct take_group *group)
{
    const struct job_state *s = &job->state;
    must(s->runs > 0 && instant_is_set(s->lease_end));
    struct live *l = engine_live_new(e, job->id, q, job_kind(job));
    l->token = s->token;
    l->ready_at = s->ready_at;
    l->failed_at = s->failed_at;
    l->taken_at = s->dequeued_at;
    l->ready_since = engine_ready_since(job, s->dequeued_at);
    l->lease_due = l->limit_due = INSTANT_NONE;
    l->completed_retention = job->completed_retention;
    l->dead_retention = job->dead_retention;
    l->retain_until = job->options.retain_until;
    l->run = s->runs - 1;
    l->attempts = s->attempts;
    l->forgiven = s->forgiven;
    l->losses = s->losses;
    l->priority = s->priority;
    l->has_state = x->has_state;
    l->payload_apart = x->payload_apart;
    l->worker = engine_worker_ref(e, s->worker);
    engine_crew_begin(q, l);
    l->unique = engine_unique_ref(e, job);
    l->type = engine_type(e, q, job->type);
    l->extras = job_extras_new(&s->extras);
    l->trace = trace_copy(job->options.traceparent);
    l->key = engine_key_begin(e, q, job);
    l->member_of = engine_group_of(e, job);
    l->budgets = engine_budget_begin(e, INSTANT_NONE, job->id);
    engine_lease_revive(e, now, l, s->lease_end);
    l->group = group;
    if (group)
        group->live++;
}

/* One whose time has come, but of which nobody was announced, fires when the turns begin. */
static void restore_waiting(struct engine *e, const struct job *job, bool has_state,
                            struct queue *q, instant now)
{
    const struct job_state *s = &job->state;
    unsigned val = engine_val(job, has_state);
    bool announced = s->status == STATUS_READY || engine_was_announced(e, s->ready_at, job->id);
    if (announced && s->ready_at.ms <= now.ms) {
        engine_ready_add(e, q, engine_rank(s), job->id, val);
        engine_total_move(e, STATUS_GONE, STATUS_READY);
        return;
    }
    q->counts[STATUS_SCHEDULED]++;
    q->tasks[STATUS_SCHEDULED] += (val & READY_VAL_TASK) != 0;
    engine_total_move(e, STATUS_GONE, STATUS_SCHEDULED);
    engine_deadline_add(e, s->ready_at, job->id,
                        DUE_VAL(DUE_READY, has_state, engine_rank(s), q->index) |
                            DUE_VAL_OF_TYPE(engine_type(e, q, job->type)) |
                            (announced ? DUE_VAL_ANNOUNCED : 0) |
                            (val & READY_VAL_TASK ? DUE_VAL_TASK : 0));
}

static void restore_job(struct engine *e, const struct job *job, const struct job_extent *extent,
                        struct take_group *group, instant now)
{
    id_seen(&e->ids, job->id);
    struct queue *q = engine_queue_get(e, job->queue);
    const struct job_state *s = &job->state;
    engine_unique_move(e, engine_unique_ref(e, job), job->id, STATUS_GONE, s->status);
    engine_group_restore_job(e, job);
    if (!lifecycle_is_terminal(s->status)) {
        engine_end_by_add(e, job);
        engine_budget_join(e, now, job);
    }
    switch (s->status) {
    case STATUS_SCHEDULED:
    case STATUS_READY:
        engine_gang_join(e, job);
        engine_avoid(e, now, job->id, &s->extras);
        restore_waiting(e, job, extent->has_state, q, now);
        /* One that was changed since stands alone from a restart on. */
        if (job->batch.open && s->runs == 0 && !extent->has_state)
            engine_fold_open(e, job);
        return;
    case STATUS_IN_FLIGHT:
        engine_total_move(e, STATUS_GONE, s->status);
        restore_lease(e, now, job, extent, q, group);
        engine_gang_join(e, job);
        return;
    case STATUS_COMPLETED:
    case STATUS_DEAD:
        engine_total_move(e, STATUS_GONE, s->status);
        engine_ended_add(e, s->status, job->id, s->purge_at, q,
                         engine_surplus_has(e, q, job) ? q->index : SURPLUS_NOT);
        return;
    case STATUS_BLOCKED:
        engine_total_move(e, STATUS_GONE, s->status);
        engine_gang_join(e, job);
        engine_blocked_add(e, q, job);
        return;
    case STATUS_COUNT:
        break;
    }
    must(false);
}

void engine_restore_job(struct engine *e, const struct job *job, const struct job_extent *extent,
                        instant now)
{
    struct job leased;
    if (e->restored_leases.count > 0) {
        leased = *job;
        struct take_group *group = engine_lease_resume(e, &leased);
        restore_job(e, &leased, extent, group, now);
        return;
    }
    restore_job(e, job, extent, NULL, now);
}

void engine_restore_take(struct engine *e, uint64_t seq, instant at, struct take take)
{
    ALLOC_GROW(e->restored, e->restored_count, e->restored_cap, 64);
    e->restored[e->restored_count++] = (struct restored_take){seq, at, take};
    if (seq >= e->take_seq)
        e->take_seq = seq + 1;
}

/* It waits in an index, since its stored status never said in_flight; but consumers of events
 * know that it was. */
static void announce_cut_off(struct engine *e, instant now, const struct job *job,
                             const struct run *run, enum status waited)
{
    engine_total_move(e, waited, STATUS_IN_FLIGHT);
    struct job_event ev = engine_event(EVENT_RETURN, STATUS_IN_FLIGHT, job);
    ev.run = run->index;
    ev.attempt = job->state.attempts + 1;
    ev.reason = run->reason;
    ev.ended = run;
    engine_changed(e, now, &ev);
    if (job->state.status != STATUS_SCHEDULED)
        return;
    ev = engine_event(EVENT_POSTPONE, STATUS_READY, job);
    ev.ready_at = job->state.ready_at;
    engine_changed(e, now, &ev);
}

static struct run cut_off_run(const struct restored_take *r, instant now, const struct job *job)
{
    return (struct run){
        .index = r->take.run,
        .ready_at = engine_ready_since(job, r->at),
        .taken_at = r->at,
        .lease_end = INSTANT_NONE,
        .ended_at = now,
        .outcome = OUTCOME_LOST,
        .retry_at = INSTANT_NONE,
        .failure = {.run_time = {-1},
                    .culprit = CULPRIT_SERVER,
                    .culprit_evidence = STR("the server stopped while a worker held it")}};
}

/* Records the lost run, and lets the job wait again. */
static void return_cut_off(struct engine *e, instant now, const struct restored_take *r,
                           struct job *job)
{
    struct job_state *s = &job->state;
    struct queue *q = engine_queue_get(e, job->queue);
    struct run run = cut_off_run(r, now, job);
    struct btree_entry due;
    enum status waited = engine_wait_remove(e, q, job, &due);
    engine_fold_close(e, job);
    s->status = engine_returned(s->ready_at, r->at, now);
    s->dequeued_at = r->at;
    s->runs++;
    s->extras.returned_at = now;
    engine_grace_clear(&s->extras);
    engine_gang_back(e, now, job->id, s);
    s->reason = s->status == STATUS_READY
                    ? STR("ready again: the server stopped while a worker held it")
                    : STR("scheduled again: the server stopped while a worker held it");
    run.reason = s->reason;
    e->port.put_run(e->port.ctx, job->id, &run);
    e->port.put_state(e->port.ctx, job->id, s);
    announce_cut_off(e, now, job, &run, waited);
    if (s->status == STATUS_READY)
        engine_ready_add(e, q, engine_rank(s), job->id, engine_val(job, true));
    else
        engine_wait_add(e, q, engine_rank(s), job->id, engine_val(job, true), s->ready_at, now,
                        engine_type(e, q, job->type));
}

/* A stream held this run when the server stopped; the run may have ended, and the job be gone. */
static struct err end_cut_off_run(struct engine *e, instant now, const struct restored_take *r)
{
    struct arena scratch = {0};
    struct job job;
    struct job_extent extent;
    struct err err = e->port.load_job(e->port.ctx, r->take.id, PORT_STATE, &scratch, &job, &extent);
    if (err.code == ERR_OK && job.state.runs == r->take.run)
        return_cut_off(e, now, r, &job);
    arena_fini(&scratch);
    return err.code == ERR_NOT_FOUND ? err_none() : err;
}

/* A record goes with the last of its runs: after a crash those that have ended are passed over. */
static bool is_last_of_record(const struct engine *e, size_t i)
{
    return i + 1 == e->restored_count || e->restored[i + 1].seq != e->restored[i].seq;
}

struct err engine_restored(struct engine *e, instant now, size_t most, bool *more)
{
    size_t *i = &e->restored_at;
    for (; *i < e->restored_count && most > 0; (*i)++, most--) {
        const struct restored_take *r = &e->restored[*i];
        TRY(end_cut_off_run(e, now, r));
        if (is_last_of_record(e, *i))
            e->port.delete_takes(e->port.ctx, r->seq);
    }
    *more = *i < e->restored_count;
    if (*more)
        return err_none();
    free(e->restored);
    e->restored = NULL;
    e->restored_count = e->restored_cap = e->restored_at = 0;
    engine_leases_restored(e);
    engine_crons_restored(e, now);
    engine_groups_restored(e);
    engine_waits_begin(e, now);
    return err_none();
}
