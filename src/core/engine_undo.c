/* SPDX-License-Identifier: Apache-2.0 */

/* Undoing what a command made of a job. A job that has gone on since is left as it is. What is
 * undone is told by events like every other change: a job is restored, brought back, or dead again.
 *
 * A run that the change ended stays ended: its worker has been told, or will be. The job waits
 * instead, as if the worker had given it back. */

#include "base/must.h"
#include "core/command.h"
#include "core/engine_grace.h"
#include "core/engine_budget.h"
#include "core/engine_undo_internal.h"
#include "core/undo.h"

#define UNDONE "brought back: what a command did to it was undone"

/* --- what is kept --- */

static void keep_group(struct engine *e, struct arena *a, struct undo_entry *entry)
{
    struct group_view view;
    if (engine_group_read(e, entry->was.options.group, &view).code != ERR_OK)
        return;
    entry->group = view.record;
    entry->group.name = arena_copy(a, view.record.name);
    entry->group.owner = arena_copy(a, view.record.owner);
}

static void keep_run(struct engine *e, instant now, struct arena *a, struct undo_entry *entry)
{
    const struct live *l = idmap_get(&e->live, entry->was.id);
    entry->ran = l != NULL;
    if (!l)
        return;
    bool cancels = entry->kind == OPERATION_CANCEL;
    entry->run = engine_run_of(e, l, now, cancels ? OUTCOME_CANCELED : OUTCOME_RETURNED,
                               cancels ? STR("canceled by a command")
                                       : STR("the job was deleted while a worker held it"));
    entry->run.worker = arena_copy(a, entry->run.worker);
    entry->run.failure.node = arena_copy(a, entry->run.failure.node);
}

/* Whether the change may take the job away: a job without a retention goes when it is canceled. */
static bool may_go(enum operation_kind kind)
{
    return kind == OPERATION_DELETE || kind == OPERATION_CANCEL;
}

struct err engine_undo_keep(struct engine *e, instant now, struct id id, enum operation_kind kind,
                            struct arena *a, struct undo_entry *entry, struct job_extent *extent)
{
    *entry = (struct undo_entry){.kind = kind, .at = now, .purge_at = INSTANT_NONE};
    TRY(engine_read(e, now, id, may_go(kind), a, &entry->was, extent));
    entry->runs = entry->was.state.runs;
    if (!may_go(kind))
        return err_none();
    keep_group(e, a, entry);
    keep_run(e, now, a, entry);
    return err_none();
}

struct err engine_undo_kept(struct engine *e, instant now, unsigned patched, struct arena *a,
                            struct undo_entry *entry)
{
    struct job_extent extent;
    struct err err = engine_read(e, now, entry->was.id, false, a, &entry->became, &extent);
    entry->gone = err.code == ERR_NOT_FOUND;
    if (entry->gone)
        return err_none();
    entry->set = patched;
    entry->ran = false;
    entry->group = (struct group_record){0};
    entry->runs = entry->became.state.runs;
    entry->purge_at = entry->became.state.purge_at;
    return err;
}

/* --- back to where it waited --- */

/* The state in which the job waited, or in which it waits now that its run has ended. */
static void resume_state(const struct undo_entry *entry, instant now, struct job_state *s)
{
    *s = entry->was.state;
    s->runs = entry->runs;
    if (s->runs != entry->was.state.runs) /* the cancel was a run, see pending_runs */
        s->extras.returned_at = now;
    if (entry->was.state.status != STATUS_IN_FLIGHT)
        return;
    s->status = engine_returned(s->ready_at, s->dequeued_at, now);
    s->losses = 0;
    s->token = 0;
    s->lease_end = INSTANT_NONE;
    s->worker = (struct str){0};
    s->extras.returned_at = now;
    engine_grace_clear(&s->extras);
    s->reason = s->status == STATUS_READY
                    ? STR("ready again: a command took it from its worker, and was undone")
                    : STR("scheduled again: a command took it from its worker, and was undone");
}

/* Whether a job has the key that was enqueued since the change, or in its millisecond. Others had
 * it beside this one. */
static struct err is_key_taken(struct engine *e, instant now, const struct undo_entry *entry,
                               const struct job *job, struct arena *a, bool *taken)
{
    struct job holder;
    *taken = false;
    if (!engine_unique_holds(job->unique_while, job->state.status))
        return err_none();
    TRY(engine_unique_find(e, now, job->unique_key, a, &holder, taken));
    *taken = *taken && !id_eq(holder.id, job->id) && id_time(holder.id).ms >= entry->at.ms;
    return err_none();
}

static struct err is_alias_taken(struct engine *e, instant now, const struct job *job,
                                 struct arena *a, bool *taken)
{
    struct job holder;
    *taken = false;
    if (!job->options.alias.len)
        return err_none();
    TRY(engine_alias_find(e, now, job->options.alias, a, &holder, taken));
    *taken = *taken && !id_eq(holder.id, job->id);
    return err_none();
}

/* What others have taken that the job needs; job has the state that it is to have. */
static struct err check_place(struct engine *e, instant now, const struct undo_entry *entry,
                              const struct job *job, struct arena *a, enum undo_outcome *out)
{
    bool taken;
    TRY(is_key_taken(e, now, entry, job, a, &taken));
    if (taken)
        *out = UNDO_UNIQUE_KEY;
    TRY(is_alias_taken(e, now, job, a, &taken));
    if (taken)
        *out = UNDO_ALIAS;
    if (lifecycle_is_terminal(job->state.status))
        return err_none();
    if (!engine_gang_takes_back(e, job))
        *out = UNDO_GANG;
    if (engine_budget_check_again(e, job->options.budgets).code != ERR_OK)
        *out = UNDO_BUDGET;
    return err_none();
}

/* Of a job that is in no index; its state says what it waits for. */
static struct err wait_again(struct engine *e, instant now, struct job *job, enum event event,
                             enum status from, struct arena *a)
{
    struct job_state *s = &job->state;
    struct queue *q = engine_queue_get(e, job->queue);
    bool blocked = s->status == STATUS_BLOCKED;
    if (blocked) {
        TRY(engine_depend_resume(e, now, job, a));
        blocked = s->extras.waits_for.len || s->extras.held;
    }
    engine_bring_back(e, now, job, &(struct bring_back){event, from, blocked, STR(UNDONE)});
    engine_unique_move(e, engine_unique_ref(e, job), job->id, from, s->status);
    engine_end_by_add(e, job);
    engine_budget_join(e, now, job);
    engine_gang_rejoin(e, now, job);
    if (s->status == STATUS_BLOCKED) {
        engine_blocked_add(e, q, job);
        return err_none();
    }
    engine_avoid(e, now, job->id, &s->extras);
    engine_wait_add(e, q, engine_rank(s), job->id, engine_val(job, true), s->ready_at, now,
                    engine_type(e, q, job->type));
    return err_none();
}

/* --- a job that was taken away --- */

static struct err restore_ended(struct engine *e, instant now, const struct job *job)
{
    enum status status = job->state.status;
    bool dead = status == STATUS_DEAD;
    struct queue *q = engine_queue_get(e, job->queue);
    struct job_event ev =
        engine_event(dead ? EVENT_RESTORE_DEAD : EVENT_RESTORE_COMPLETED, STATUS_GONE, job);
    ev.reason = STR(UNDONE);
    engine_changed(e, now, &ev);
    engine_unique_move(e, engine_unique_ref(e, job), job->id, STATUS_GONE, status);
    /* Not as surplus: what is brought back is not to go at once since newer ones came. */
    engine_ended_add(e, status, job->id, job->state.purge_at, q, SURPLUS_NOT);
    return err_none();
}

static struct err restore(struct engine *e, instant now, const struct undo_entry *entry,
                          struct arena *a, enum undo_outcome *out)
{
    struct job job = entry->was, there;
    struct job_extent extent;
    resume_state(entry, now, &job.state);
    bool ended = lifecycle_is_terminal(job.state.status);
    struct err err = e->port.load_job(e->port.ctx, job.id, PORT_STATE, a, &there, &extent);
    if (err.code != ERR_NOT_FOUND) {
        *out = UNDO_CHANGED;
        return err;
    }
    if (ended && job.state.purge_at.ms <= now.ms)
        *out = UNDO_RETIRED;
    if (!engine_group_takes_back(e, &entry->group))
        *out = UNDO_GROUP;
    TRY(check_place(e, now, entry, &job, a, out));
    if (*out != UNDO_DONE)
        return err_none();
    job.batch.open = false; /* its place may be another's */
    engine_group_rejoin(e, &job, &entry->group);
    TRY(ended ? restore_ended(e, now, &job)
              : wait_again(e, now, &job, EVENT_RESTORE, STATUS_GONE, a));
    e->port.rewrite_job(e->port.ctx, &job);
    e->port.put_state(e->port.ctx, job.id, &job.state);
    return err_none();
}

/* --- a job that is there --- */

/* Why a job that should be dead by a cancel is not. */
static enum undo_outcome not_canceled(const struct job *job)
{
    return job->state.status == STATUS_IN_FLIGHT      ? UNDO_IN_FLIGHT
           : lifecycle_is_terminal(job->state.status) ? UNDO_FINISHED
                                                      : UNDO_CHANGED;
}

static struct err uncancel(struct engine *e, instant now, const struct undo_entry *entry,
                           struct job *job, struct arena *a, enum undo_outcome *out)
{
    const struct job_state *s = &job->state;
    if (s->status != STATUS_DEAD || s->resolution != RESOLUTION_CANCELED ||
        s->runs != entry->runs || s->purge_at.ms != entry->purge_at.ms) {
        *out = not_canceled(job);
        return err_none();
    }
    struct job back = *job;
    resume_state(entry, now, &back.state);
    TRY(check_place(e, now, entry, &back, a, out));
    if (*out != UNDO_DONE)
        return err_none();
    back.state.extras.notes = s->extras.notes;
    engine_forget(e, now, engine_queue_find(e, job->queue), job);
    TRY(wait_again(e, now, &back, EVENT_RERUN, STATUS_DEAD, a));
    e->port.put_state(e->port.ctx, back.id, &back.state);
    return err_none();
}

static void unretry(struct engine *e, instant now, const struct undo_entry *entry, struct job *job,
                    enum undo_outcome *out)
{
    struct job_state *s = &job->state;
    if (s->status == STATUS_IN_FLIGHT || lifecycle_is_terminal(s->status)) {
        *out = s->status == STATUS_IN_FLIGHT ? UNDO_IN_FLIGHT : UNDO_FINISHED;
        return;
    }
    if (s->runs != entry->runs || s->attempts != entry->was.state.attempts) {
        *out = UNDO_CHANGED;
        return;
    }
    struct queue *q = engine_queue_find(e, job->queue);
    struct unique_ref u = engine_unique_ref(e, job);
    enum status from = engine_forget(e, now, q, job);
    uint64_t notes = s->extras.notes;
    uint16_t priority = s->priority;
    engine_avoid_end(e, job->id);
    engine_fold_close(e, job);
    engine_depend_ended(e, job->id, DEPEND_DEAD);
    *s = entry->was.state;
    s->priority = priority;
    s->extras.notes = notes;
    must(s->status == lifecycle_move(from, EVENT_UNRETRY));
    struct job_event ev = engine_event(EVENT_UNRETRY, from, job);
    ev.reason = s->reason;
    engine_changed(e, now, &ev);
    engine_unique_move(e, u, job->id, from, s->status);
    e->port.put_state(e->port.ctx, job->id, s);
    engine_ended_add(e, s->status, job->id, s->purge_at, q, SURPLUS_NOT);
}

static bool same_curve(const struct curve *a, const struct curve *b)
{
    return a->shape == b->shape && a->base.ms == b->base.ms && a->jitter.ms == b->jitter.ms &&
           !(a->exponent < b->exponent) && !(a->exponent > b->exponent);
}

/* Whether the job still has what the patch gave it. */
static bool is_as_patched(unsigned set, const struct job *job, const struct job *became)
{
    const struct job_state *s = &job->state, *t = &became->state;
    return !(
        (set & PATCH_QUEUE && !str_eq(job->queue, became->queue)) ||
        (set & PATCH_PRIORITY && s->priority != t->priority) ||
        (set & PATCH_READY_AT && s->ready_at.ms != t->ready_at.ms) ||
        (set & PATCH_RETRY_LIMIT && job->retry_limit != became->retry_limit) ||
        (set & PATCH_MAX_RUN && job->options.max_run != became->options.max_run) ||
        (set & PATCH_RETRY_FOR && job->options.retry_for != became->options.retry_for) ||
        (set & PATCH_BACKOFF && !same_curve(&job->backoff, &became->backoff)) ||
        (set & PATCH_COMPLETED && job->completed_retention.ms != became->completed_retention.ms) ||
        (set & PATCH_DEAD && job->dead_retention.ms != became->dead_retention.ms));
}

/* A patch of ready_at has ended the wait for the end of a preempted run; the job waits for it
 * again, unless it has run since. */
static void wait_for_run(struct engine *e, const struct job *was, struct job *job)
{
    struct job_extras *x = &job->state.extras;
    const struct job_extras *y = &was->state.extras;
    if (!y->grace_token || job->state.runs != was->state.runs)
        return;
    x->grace_token = y->grace_token;
    x->grace_end = y->grace_end;
    x->backoff_end = y->backoff_end;
    x->terminated_at = y->terminated_at;
    e->port.put_state(e->port.ctx, job->id, &job->state);
}

static struct err unpatch(struct engine *e, instant now, const struct undo_entry *entry,
                          const struct job *job, struct arena *a, enum undo_outcome *out)
{
    const struct job *was = &entry->was;
    const struct patch back = {.set = entry->set & ~(unsigned)PATCH_FREE,
                               .queue = was->queue,
                               .priority = was->state.priority,
                               .ready_at = was->state.ready_at,
                               .retry_limit = was->retry_limit,
                               .backoff = was->backoff,
                               .completed_retention = was->completed_retention,
                               .dead_retention = was->dead_retention,
                               .max_run = was->options.max_run,
                               .retry_for = was->options.retry_for};
    struct job after;
    bool runs = job->state.status == STATUS_IN_FLIGHT;
    bool ran = was->state.status == STATUS_IN_FLIGHT && was->state.runs == job->state.runs;
    if (lifecycle_is_terminal(job->state.status))
        *out = UNDO_FINISHED;
    else if (runs && !ran)
        *out = UNDO_IN_FLIGHT;
    else if (!is_as_patched(entry->set, job, &entry->became))
        *out = UNDO_CHANGED;
    if (*out != UNDO_DONE)
        return err_none();
    TRY(engine_patch(e, now, was->id, &back, a, &after));
    if (back.set & PATCH_READY_AT)
        wait_for_run(e, was, &after);
    return err_none();
}

struct err engine_undo(struct engine *e, instant now, const struct undo_entry *entry,
                       struct arena *a, enum undo_outcome *out)
{
    struct job job;
    struct job_extent extent;
    *out = UNDO_DONE;
    if (entry->gone)
        return restore(e, now, entry, a, out);
    struct err err = engine_read(e, now, entry->was.id, false, a, &job, &extent);
    if (err.code == ERR_NOT_FOUND) {
        *out = UNDO_DELETED;
        return err_none();
    }
    TRY(err);
    switch (entry->kind) {
    case OPERATION_CANCEL:
        return uncancel(e, now, entry, &job, a, out);
    case OPERATION_RETRY:
        unretry(e, now, entry, &job, out);
        return err_none();
    case OPERATION_PATCH:
        return unpatch(e, now, entry, &job, a, out);
    case OPERATION_DELETE: /* somebody has brought it back */
        *out = UNDO_CHANGED;
        return err_none();
    case OPERATION_UNDO:
    case OPERATION_KINDS:
        break;
    }
    must(false);
    return err_none();
}
