/* SPDX-License-Identifier: Apache-2.0 */

/* Commands of people that change jobs: patch, cancel, rerun. */

#include "base/must.h"
#include "core/engine_grace.h"
#include "core/engine_budget.h"
#include "core/engine_undo_internal.h"

/* --- patch --- */

/* Those fields that lie in the job's first record. */
#define PATCH_FIRST                                                                                \
    (PATCH_QUEUE | PATCH_RETRY_LIMIT | PATCH_BACKOFF | PATCH_COMPLETED | PATCH_DEAD |              \
     PATCH_MAX_RUN | PATCH_RETRY_FOR)

static void apply(const struct patch *p, instant now, struct job *job)
{
    if (p->set & PATCH_QUEUE)
        job->queue = p->queue;
    if (p->set & PATCH_PRIORITY)
        job->state.priority = p->priority;
    if (p->set & PATCH_READY_AT)
        job->state.ready_at = instant_is_set(p->ready_at) ? p->ready_at : now;
    if (p->set & PATCH_READY_AT)
        engine_grace_clear(&job->state.extras);
    if (p->set & PATCH_RETRY_LIMIT)
        job->retry_limit = p->retry_limit;
    if (p->set & PATCH_BACKOFF)
        job->backoff = p->backoff;
    if (p->set & PATCH_COMPLETED)
        job->completed_retention = p->completed_retention;
    if (p->set & PATCH_DEAD)
        job->dead_retention = p->dead_retention;
    if (p->set & PATCH_MAX_RUN)
        job->options.max_run = p->max_run;
    if (p->set & PATCH_RETRY_FOR)
        job->options.retry_for = p->retry_for;
}

/* Its status, which stays, is `from`; l is its run that is under way, or NULL. */
static void announce_priority(struct engine *e, instant now, enum status from,
                              const struct job *was, const struct job *job, const struct live *l)
{
    struct job_event ev = engine_event(EVENT_REPRIORITIZE, from, job);
    if (l) {
        ev.run = l->run;
        ev.runs = l->run + 1;
        ev.attempt = l->attempts + 1;
        ev.worker = (struct str){l->worker->bytes, l->worker->len};
    }
    ev.old_priority = was->state.priority;
    if (ev.priority != ev.old_priority)
        engine_changed(e, now, &ev);
}

/* A job in flight keeps its run; what changed counts from its end on. */
static void patch_live(struct engine *e, struct live *l, const struct job *job)
{
    struct queue *old = l->queue;
    struct queue *q = engine_queue_get(e, job->queue);
    old->counts[STATUS_IN_FLIGHT]--;
    q->counts[STATUS_IN_FLIGHT]++;
    old->tasks[STATUS_IN_FLIGHT] -= l->kind == KIND_TASK;
    q->tasks[STATUS_IN_FLIGHT] += l->kind == KIND_TASK;
    engine_queue_refresh(e, old);
    engine_gangs_limits(e, old);
    engine_queue_refresh(e, q);
    l->queue = q;
    engine_crew_move(q, l);
    l->key = engine_key_move(e, l->key, q);
    l->priority = job->state.priority;
    l->ready_at = job->state.ready_at;
    l->completed_retention = job->completed_retention;
    l->dead_retention = job->dead_retention;
    l->has_state = true;
    engine_queue_drop_if_unused(e, old);
}

static void patch_blocked(struct engine *e, instant now, struct queue *old, const struct job *was,
                          struct job *job, bool free)
{
    struct job_state *s = &job->state;
    struct queue *q = engine_queue_get(e, job->queue);
    engine_blocked_remove(e, old, was);
    announce_priority(e, now, STATUS_BLOCKED, was, job, NULL);
    s->status = lifecycle_move(s->status, EVENT_POSTPONE);
    engine_rescheduled(e, now, STATUS_BLOCKED, was->state.ready_at, job);
    if (free) {
        s->extras.waits_for = (struct str){0};
        s->extras.held = 0;
        engine_unblock(e, now, q, job);
    } else {
        engine_blocked_add(e, q, job);
    }
    engine_queue_drop_if_unused(e, old);
}

static void patch_waiting(struct engine *e, instant now, struct queue *old, const struct job *was,
                          struct job *job)
{
    enum status from = engine_forget(e, now, old, was);
    struct job_state *s = &job->state;
    announce_priority(e, now, from, was, job, NULL);
    s->status = lifecycle_move(s->status, EVENT_POSTPONE);
    if (s->ready_at.ms <= now.ms)
        s->status = lifecycle_move(s->status, EVENT_DUE);
    else
        engine_fold_close(e, job);
    engine_rescheduled(e, now, from, was->state.ready_at, job);
    struct queue *q = engine_queue_get(e, job->queue);
    engine_wait_add(e, q, engine_rank(s), job->id, engine_val(job, true), s->ready_at, now,
                    engine_type(e, q, job->type));
    engine_queue_drop_if_unused(e, old);
}

struct err engine_patch(struct engine *e, instant now, struct id id, const struct patch *p,
                        struct arena *a, struct job *job)
{
    struct job_extent extent;
    struct job stored, seen;
    TRY(engine_read(e, now, id, false, a, &seen, &extent));
    if (lifecycle_is_terminal(seen.state.status))
        return err_make(ERR_UNPROCESSABLE,
                        "the job is %s; only a job that has not ended can change",
                        lifecycle_status_name(seen.state.status));
    /* Its definition names its queue, too: in another one nobody could read it. */
    if (p->set & PATCH_QUEUE && job_kind(&seen) == KIND_TASK && !str_eq(p->queue, seen.queue))
        return err_make(ERR_UNPROCESSABLE, "the job is a task, which keeps its task queue");
    unsigned payload = p->set & PATCH_FIRST ? PORT_PAYLOAD : 0; /* is written again */
    TRY(e->port.load_job(e->port.ctx, id, PORT_STATE | payload, a, &stored, &extent));
    struct queue *q = engine_queue_find(e, stored.queue);
    struct live *l = idmap_get(&e->live, id);
    must(q);
    struct job was = stored;
    apply(p, now, &stored);
    if (l)
        announce_priority(e, now, STATUS_IN_FLIGHT, &was, &stored, l);
    if (l)
        patch_live(e, l, &stored);
    else if (was.state.status == STATUS_BLOCKED)
        patch_blocked(e, now, q, &was, &stored, p->set & PATCH_FREE);
    else
        patch_waiting(e, now, q, &was, &stored);
    if (p->set & PATCH_FIRST)
        e->port.rewrite_job(e->port.ctx, &stored);
    e->port.put_state(e->port.ctx, id, &stored.state);
    struct err err = engine_read(e, now, id, false, a, job, &extent);
    job->payload = (struct str){0};
    return err;
}

/* --- cancel --- */

/* Whether the run of a job that ends while it waits is one, though no worker ever had it. */
static bool has_pending_run(const struct job *job, enum event event)
{
    return job->options.pending_runs && (event == EVENT_CANCEL || event == EVENT_OVERRUN);
}

/* Which it is: `from` is the status of the job until now. */
static struct run pending_run(const struct job *job, instant now, enum status from,
                              enum event event)
{
    return (struct run){
        .index = job->state.runs,
        .ready_at = from == STATUS_READY ? engine_ready_since(job, now) : INSTANT_NONE,
        .taken_at = INSTANT_NONE,
        .lease_end = INSTANT_NONE,
        .ended_at = now,
        .outcome = event == EVENT_CANCEL ? OUTCOME_CANCELED : OUTCOME_DEADLINE,
        .retry_at = INSTANT_NONE,
        .reason = job->state.reason,
        .failure = {.run_time = {-1},
                    .culprit = event == EVENT_OVERRUN ? CULPRIT_DEADLINE : CULPRIT_NONE,
                    .culprit_evidence =
                        event == EVENT_OVERRUN ? STR(DEADLINE_EVIDENCE) : (struct str){0}},
    };
}

void engine_end_waiting(struct engine *e, instant now, struct job *job,
                        const struct job_extent *extent, enum event event,
                        enum resolution resolution)
{
    struct job_state *s = &job->state;
    struct queue *q = engine_queue_find(e, job->queue);
    must(q);
    span retention = engine_retention_until(job->options.retain_until, now,
                                            engine_retention_dead(e, q, job->dead_retention));
    struct unique_ref u = engine_unique_ref(e, job);
    enum status from = engine_forget(e, now, q, job);
    engine_avoid_end(e, job->id);
    engine_fold_close(e, job);
    engine_depend_ended(e, job->id, retention.ms > 0 ? DEPEND_DEAD : DEPEND_GONE);
    s->status = lifecycle_move(from, event);
    s->resolution = resolution;
    struct job_event ev = engine_event(event, from, job);
    struct run run = pending_run(job, now, from, event);
    if (has_pending_run(job, event)) {
        ev.run = s->runs++;
        ev.attempt = s->attempts + 1;
    }
    ev.reason = s->reason;
    ev.removed = retention.ms <= 0;
    engine_changed(e, now, &ev);
    engine_unique_move(e, u, job->id, from, retention.ms > 0 ? s->status : STATUS_GONE);
    if (retention.ms > 0) {
        s->purge_at = instant_add(now, retention);
        if (ev.run >= 0)
            e->port.put_run(e->port.ctx, job->id, &run);
        e->port.put_state(e->port.ctx, job->id, s);
        engine_ended_add(e, s->status, job->id, s->purge_at, q, SURPLUS_NOT);
    } else {
        e->port.delete_job(e->port.ctx, job->id, extent);
        engine_queue_drop_if_unused(e, q);
    }
}

struct err engine_cancel(struct engine *e, instant now, struct id id, struct arena *a,
                         struct job *job)
{
    struct job_extent extent;
    TRY(engine_read(e, now, id, false, a, job, &extent));
    struct job_state *s = &job->state;
    if (lifecycle_is_terminal(s->status))
        return err_make(ERR_UNPROCESSABLE, "the job is %s already",
                        lifecycle_status_name(s->status));
    struct live *l = idmap_get(&e->live, id);
    s->reason = STR("dead: canceled by a command");
    if (l) {
        engine_abort_run(e, now, l, s,
                         &(struct run_abort){EVENT_CANCEL, RESOLUTION_CANCELED, OUTCOME_CANCELED});
        return err_none();
    }
    engine_end_waiting(e, now, job, &extent, EVENT_CANCEL, RESOLUTION_CANCELED);
    return err_none();
}

/* --- rerun --- */

struct err engine_rerun_check(const struct engine *e, instant now, const struct job *job,
                              bool completed)
{
    enum status s = job->state.status;
    if (s != STATUS_DEAD && !(completed && s == STATUS_COMPLETED))
        return err_make(ERR_UNPROCESSABLE, "the job is %s; only a dead job%s can be retried",
                        lifecycle_status_name(s), completed ? " or a completed one" : "");
    if (job->options.deadline.ms && job->options.deadline.ms <= now.ms)
        return err_make(ERR_UNPROCESSABLE, "the deadline of the job is over; it cannot be retried");
    return engine_budget_check_again(e, job->options.budgets);
}

void engine_bring_back(struct engine *e, instant now, struct job *job, const struct bring_back *how)
{
    struct job_state *s = &job->state;
    bool blocked = how->blocked;
    struct job_event ev = engine_event(how->event, how->from, job);
    ev.ready_at = blocked ? INSTANT_NONE : s->ready_at;
    ev.reason = how->reason;
    engine_changed(e, now, &ev);
    s->status = lifecycle_move(how->from, how->event);
    if (!blocked && s->ready_at.ms > now.ms)
        return;
    enum event next = blocked ? EVENT_BLOCK : EVENT_DUE;
    ev = engine_event(next, s->status, job);
    ev.ready_at = s->ready_at;
    engine_changed(e, now, &ev);
    s->status = lifecycle_move(s->status, next);
}

/* What of its extras the new life of the job begins with. The result was that of its completion. */
static struct job_extras extras_of_rerun(struct engine *e, const struct job *job)
{
    const struct job_extras *x = &job->state.extras;
    if (x->notes & NOTE_BIT(NOTE_RESULT))
        e->port.delete_note(e->port.ctx, job->id, NOTE_RESULT);
    return (struct job_extras){.notes = x->notes & ~NOTE_BIT(NOTE_RESULT),
                               .returned_at = instant_max(x->returned_at, job->state.completed_at),
                               .gang_generation = x->gang_generation,
                               .gang_alone = job->options.gang.len > 0};
}

struct err engine_rerun(struct engine *e, instant now, struct id id, struct rerun how,
                        struct arena *a, struct job *job)
{
    struct job_extent extent;
    struct str waits_for = {0};
    TRY(engine_read(e, now, id, false, a, job, &extent));
    TRY(engine_rerun_check(e, now, job, how.completed));
    if (!how.freed)
        TRY(engine_depend_again(e, now, job, a, &waits_for));
    struct job_state *s = &job->state;
    struct queue *q = engine_queue_find(e, job->queue);
    enum status from = s->status;
    must(q);
    engine_forget(e, now, q, job);
    s->ready_at = instant_max(how.at, now);
    s->extras = extras_of_rerun(e, job);
    s->extras.waits_for = waits_for;
    engine_bring_back(e, now, job,
                      &(struct bring_back){EVENT_RERUN, from, waits_for.len > 0,
                                           STR("brought back by a command")});
    s->resolution = RESOLUTION_NONE;
    s->completed_at = s->purge_at = INSTANT_NONE;
    s->forgiven = s->attempts; /* a whole new budget; the attempts stay on record */
    s->losses = 0;
    s->reason = STR("brought back by a command");
    e->port.put_state(e->port.ctx, id, s);
    engine_unique_move(e, engine_unique_ref(e, job), id, from, s->status);
    engine_end_by_add(e, job);
    engine_budget_join(e, now, job);
    if (s->status == STATUS_BLOCKED)
        engine_blocked_add(e, q, job);
    else
        engine_wait_add(e, q, engine_rank(s), id, engine_val(job, true), s->ready_at, now,
                        engine_type(e, q, job->type));
    return err_none();
}
