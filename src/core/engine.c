/* SPDX-License-Identifier: Apache-2.0 */

#include "core/engine.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/must.h"
#include "core/engine_budget.h"
#include "core/engine_internal.h"
#include "core/engine_snapshot.h"

void engine_configure(struct engine *e, const struct engine_settings *settings)
{
    e->settings = *settings;
    engine_in_flight_changed(e);
}

struct engine *engine_new(const struct engine_settings *settings, const struct port *port,
                          const struct engine_sink *sink, struct rng rng)
{
    struct engine *e = ALLOC(struct engine);
    e->settings = *settings;
    e->port = *port;
    e->sink = *sink;
    e->rng = rng;
    e->queue_names.seed = rng_next(&e->rng);
    e->folds.seed = e->queue_names.seed;
    e->unique_seed = rng_next(&e->rng);
    e->take_seq = 1;
    e->next_event = 1;
    e->mark.at = INSTANT_NONE;
    e->type_names.seed = e->worker_names.seed = e->queue_names.seed;
    e->crons = engine_crons_new(e->queue_names.seed);
    list_init(&e->settling);
    list_init(&e->dirty);
    list_init(&e->pending);
    for (enum job_kind k = 0; k < JOB_KINDS; k++)
        list_init(&e->all_waiters[k]);
    list_init(&e->takers);
    list_init(&e->gone);
    list_init(&e->unserved);
    list_init(&e->stalled);
    list_init(&e->any_takers);
    list_init(&e->gang_changes);
    engine_gang_watch_init(&e->gang_watch);
    engine_gang_watch_init(&e->gang_in_flight);
    e->groups.seed = e->queue_names.seed;
    e->gangs.seed = e->gang_shapes.seed = e->queue_order.seed = e->queue_names.seed;
    list_init(&e->drawn);
    list_init(&e->leased);
    list_init(&e->spare_lives);
    list_init(&e->releases);
    list_init(&e->budget_changes);
    e->budgets.seed = e->budget_sets.seed = e->lines.seed = e->queue_names.seed;
    return e;
}

bool engine_free_some(struct engine *e, size_t most)
{
    if (e->freed == 0)
        engine_leases_fini(e);
    for (; !list_is_empty(&e->spare_lives) && most > 0; most--) {
        struct live *l = LIST_OF(e->spare_lives.next, struct live, held);
        list_unlink(&l->held);
        free(l);
    }
    /* Groups are shared by runs; free each with its last one. */
    for (; e->freed < e->live.cap && most > 0; e->freed++) {
        struct live *l = e->live.slots[e->freed].val;
        if (!l)
            continue;
        if (l->group && --l->group->live == 0)
            free(l->group);
        engine_worker_unref(e, l->worker);
        free(l->extras);
        free(l->trace);
        free(l);
        most--;
    }
    return !list_is_empty(&e->spare_lives) || e->freed < e->live.cap;
}

static void free_times(struct engine *e)
{
    btree_fini(&e->deadlines);
    btree_fini(&e->lease_ends);
    btree_fini(&e->run_limits);
}

void engine_free(struct engine *e)
{
    if (!e)
        return;
    engine_free_some(e, SIZE_MAX);
    engine_takers_free(e);
    for (uint32_t i = 0; i < e->queue_cap; i++) {
        if (!e->queues[i])
            continue;
        btree_fini(&e->queues[i]->ready);
        btree_fini(&e->queues[i]->parked);
        engine_limits_free(e->queues[i]->limits);
        engine_line_queue_fini(e, e->queues[i]);
        free(e->queues[i]);
    }
    free(e->queues);
    free(e->free_queues);
    strmap_fini(&e->queue_names);
    strmap_fini(&e->type_names);
    for (enum job_kind k = 0; k < JOB_KINDS; k++)
        btree_fini(&e->heads[k]);
    free_times(e);
    btree_fini(&e->ended[0]);
    btree_fini(&e->ended[1]);
    btree_fini(&e->surplus);
    btree_fini(&e->live_order);
    btree_fini(&e->unique);
    btree_fini(&e->aliases);
    engine_makers_fini(e);
    engine_end_by_fini(e);
    engine_depend_fini(e);
    idmap_fini(&e->seen);
    engine_fold_fini(e);
    engine_avoid_fini(e);
    engine_gang_fini(e);
    engine_groups_fini(e);
    idmap_fini(&e->live);
    engine_keys_fini(e);
    engine_crew_fini(e);
    strmap_fini(&e->lines);
    engine_budget_fini(e);
    idmap_fini(&e->waits);
    free(e->takes);
    free(e->restored);
    engine_crons_free(e->crons);
    engine_snapshot_drop(e);
    btree_fini(&e->odd);
    free(e);
}

/* --- enqueue and remove --- */

static struct id id_for(struct engine *e, instant now, const struct enqueue *spec)
{
    if (id_is_none(spec->id))
        return id_next(&e->ids, now, &e->rng);
    id_seen(&e->ids, spec->id);
    return spec->id;
}

void engine_job_of(const struct enqueue *spec, struct id id, instant ready_at, enum status status,
                   struct job *job)
{
    *job = (struct job){
        .id = id,
        .queue = spec->queue,
        .type = spec->type,
        .payload = spec->payload,
        .retry_limit = spec->retry_limit,
        .backoff = spec->backoff,
        .completed_retention = spec->completed_retention,
        .dead_retention = spec->dead_retention,
        .unique_key = spec->unique_key,
        .unique_while = spec->unique_while,
        .batch = spec->batch,
        .options = spec->options,
        .state = {.status = status,
                  .priority = spec->priority,
                  .ready_at = ready_at,
                  .dequeued_at = INSTANT_NONE,
                  .failed_at = INSTANT_NONE,
                  .completed_at = INSTANT_NONE,
                  .purge_at = INSTANT_NONE,
                  .lease_end = INSTANT_NONE},
    };
    job->options.group_owner = (struct str){0}; /* the group has it */
}

static void make_job(struct engine *e, instant now, const struct enqueue *spec, struct job *job)
{
    instant ready_at = instant_is_set(spec->ready_at) ? spec->ready_at : now;
    engine_job_of(spec, id_for(e, now, spec), ready_at,
                  ready_at.ms <= now.ms ? STATUS_READY : STATUS_SCHEDULED, job);
}

static void add_job(struct engine *e, instant now, const struct job *job)
{
    const struct job_state *s = &job->state;
    e->port.put_job(e->port.ctx, job);
    struct queue *q = engine_queue_get(e, job->queue);
    enum event event = s->status == STATUS_BLOCKED     ? EVENT_ENQUEUE_BLOCKED
                       : s->status == STATUS_SCHEDULED ? EVENT_ENQUEUE_LATER
                                                       : EVENT_ENQUEUE;
    struct job_event ev = engine_event(event, STATUS_GONE, job);
    ev.ready_at = s->status == STATUS_READY ? INSTANT_NONE : s->ready_at;
    engine_changed(e, now, &ev);
    engine_budget_join(e, now, job);
    engine_gang_join(e, job);
    if (s->status == STATUS_BLOCKED)
        engine_blocked_add(e, q, job);
    else
        engine_wait_add(e, q, engine_rank(s), job->id, engine_val(job, false), s->ready_at, now,
                        s->status == STATUS_SCHEDULED ? engine_type(e, q, job->type) : 0);
    engine_unique_move(e, engine_unique_ref(e, job), job->id, STATUS_GONE, s->status);
    if (!lifecycle_is_terminal(s->status))
        engine_end_by_add(e, job);
    if (job->batch.open) {
        must(s->status == STATUS_READY);
        engine_fold_open(e, job);
    }
}

struct err engine_enqueue(struct engine *e, instant now, const struct enqueue *specs, size_t count,
                          struct arena *a, struct enqueued *out)
{
    engine_budget_create(e, now, specs, count);
    for (size_t i = 0; i < count; i++) {
        out[i].duplicate = out[i].folded = out[i].as_requested = false;
        if (specs[i].unique_while)
            TRY(engine_unique_find(e, now, specs[i].unique_key, a, &out[i].job, &out[i].duplicate));
        if (!out[i].duplicate && specs[i].options.alias.len)
            TRY(engine_alias_find(e, now, specs[i].options.alias, a, &out[i].job,
                                  &out[i].duplicate));
        if (out[i].duplicate)
            continue;
        make_job(e, now, &specs[i], &out[i].job);
        if (specs[i].options.depends_on.len)
            TRY(engine_depend_begin(e, now, out, a, &out[i].job));
        if (specs[i].options.hold)
            engine_depend_hold_back(&out[i].job);
        engine_group_join(e, &out[i].job, specs[i].options.group_owner);
        add_job(e, now, &out[i].job);
        out[i].job.payload = (struct str){0};
    }
    return err_none();
}

/* Of a job as engine_read gives it. */
static void remove_job(struct engine *e, instant now, const struct job *job,
                       const struct job_extent *extent)
{
    struct id id = job->id;
    struct live *l = idmap_get(&e->live, id);
    struct queue *q = engine_queue_find(e, job->queue);
    must(q);
    enum status from = l ? STATUS_IN_FLIGHT : engine_forget(e, now, q, job);
    struct job_event ev =
        l ? engine_live_event(e, EVENT_REMOVE, l) : engine_event(EVENT_REMOVE, from, job);
    engine_changed(e, now, &ev);
    if (job->state.status != STATUS_COMPLETED)
        engine_depend_ended(e, id, DEPEND_REMOVED);
    e->port.delete_job(e->port.ctx, id, extent);
    engine_unique_move(e, engine_unique_ref(e, job), id, job->state.status, STATUS_GONE);
    engine_fold_close(e, job);
    if (l)
        engine_live_end(e, l);
    engine_avoid_end(e, id);
    engine_queue_drop_if_unused(e, q);
}

struct err engine_remove(struct engine *e, instant now, struct id id)
{
    struct arena scratch = {0};
    struct job job;
    struct job_extent extent;
    struct err err = engine_read(e, now, id, false, &scratch, &job, &extent);
    if (err.code == ERR_OK)
        remove_job(e, now, &job, &extent);
    arena_fini(&scratch);
    return err;
}

/* --- time --- */

/* A dead job that others wait for is kept, and looked at again after its retention, or after this.
 */
#define KEPT_ON_MIN_MS 60000
#define KEPT_ON_MAX_MS 3600000

void engine_purge_known(struct engine *e, instant now, struct queue *q, const struct job *job,
                        const struct job_extent *extent)
{
    struct id id = job->id;
    enum status s = job->state.status;
    struct job_event ev = engine_event(EVENT_PURGE, s, job);
    engine_changed(e, now, &ev);
    must(btree_remove(&e->ended[s == STATUS_DEAD], (struct btree_entry){0, id.hi, id.lo, 0}, NULL));
    if (s == STATUS_DEAD)
        engine_depend_ended(e, id, DEPEND_GONE);
    q->counts[s]--;
    engine_unique_move(e, engine_unique_ref(e, job), id, s, STATUS_GONE);
    e->port.delete_job(e->port.ctx, id, extent);
    engine_queue_drop_if_unused(e, q);
}

/* Others wait for it to be brought back: it is kept a while longer. */
static void keep_on(struct engine *e, instant now, struct queue *q, struct job *job)
{
    struct job_state *s = &job->state;
    span more = instant_diff(s->purge_at, s->failed_at);
    more.ms = more.ms < KEPT_ON_MIN_MS ? KEPT_ON_MIN_MS : more.ms;
    more.ms = more.ms > KEPT_ON_MAX_MS ? KEPT_ON_MAX_MS : more.ms;
    s->purge_at = instant_add(now, more);
    e->port.put_state(e->port.ctx, job->id, s);
    engine_snapshot_moved(e, job->id);
    engine_deadline_add(e, s->purge_at, job->id, DUE_VAL(DUE_PURGE, 1, 0, q->index));
}

/* The retention of a job that has ended is over. A task is not kept any longer: those who wait for
 * it have a deadline. */
struct err engine_purge(struct engine *e, instant now, struct id id, struct queue *q)
{
    struct arena scratch = {0};
    struct job job;
    struct job_extent extent;
    struct err err = e->port.load_job(e->port.ctx, id, PORT_STATE, &scratch, &job, &extent);
    if (err.code == ERR_OK) {
        bool awaited = job.state.status == STATUS_DEAD && engine_depend_is_awaited(e, id);
        if (awaited && job_kind(&job) != KIND_TASK)
            keep_on(e, now, q, &job);
        else
            engine_purge_known(e, now, q, &job, &extent);
    }
    arena_fini(&scratch);
    return err;
}

static struct err fire(struct engine *e, instant now, struct btree_entry due)
{
    struct id id = {due.hi, due.lo};
    if (DUE_VAL_KIND(due.val) == DUE_WAIT) {
        engine_wait_over(e, id.lo);
        return err_none();
    }
    if (DUE_VAL_KIND(due.val) == DUE_AVOID) {
        engine_avoid_due(e, due.val);
        return err_none();
    }
    if (DUE_VAL_KIND(due.val) == DUE_BUDGET) {
        engine_budget_due(e, due.val);
        return err_none();
    }
    if (DUE_VAL_KIND(due.val) == DUE_CRON)
        return engine_cron_due(e, now, id);
    struct queue *q = e->queues[DUE_VAL_QUEUE(due.val)];
    must(q);
    switch (DUE_VAL_KIND(due.val)) {
    case DUE_READY:
        engine_due_fired(e, now, q, due);
        q->counts[STATUS_SCHEDULED]--;
        q->tasks[STATUS_SCHEDULED] -= (due.val & DUE_VAL_TASK) != 0;
        engine_ready_add(e, q, DUE_VAL_RANK(due.val), id, DUE_VAL_READY(due.val));
        return err_none();
    case DUE_PURGE:
        engine_surplus_remove(e, (instant){(int64_t)due.major}, id);
        return engine_purge(e, now, id, q);
    case DUE_RATE:
        engine_limits_due(e, now, q);
        return err_none();
    case DUE_WAIT:
    case DUE_CRON:
    case DUE_AVOID:
    case DUE_BUDGET:
        break;
    }
    must(false);
    return err_none();
}

struct err engine_advance(struct engine *e, instant now, size_t most, bool *more)
{
    struct btree_entry due;
    *more = engine_takers_lose(e, now);
    TRY(engine_end_by_advance(e, now, &most, more));
    TRY(engine_overtime_advance(e, now, &most, more));
    TRY(engine_leases_advance(e, now, &most, more));
    TRY(engine_surplus_trim(e, now, &most, more));
    TRY(engine_waits_advance(e, now, &most, more));
    while (btree_first(&e->deadlines, &due) && (int64_t)due.major <= now.ms) {
        if (most-- == 0) {
            *more = true;
            return err_none();
        }
        must(btree_remove(&e->deadlines, due, NULL));
        TRY(fire(e, now, due));
    }
    return err_none();
}

bool engine_dispatch_again(const struct engine *e)
{
    return engine_keys_budget_spent(e) || engine_gangs_budget_spent(e) ||
           engine_hand_outs_budget_spent(e);
}

bool engine_dispatch_waits(const struct engine *e)
{
    return !list_is_empty(&e->pending) || !list_is_empty(&e->stalled) || !list_is_empty(&e->dirty);
}

bool engine_next_due(const struct engine *e, instant *at)
{
    struct btree_entry due;
    instant lease;
    bool any = engine_end_by_next(e, at);
    if (engine_overtime_next(e, &lease) && (!any || lease.ms < at->ms)) {
        *at = lease;
        any = true;
    }
    if (engine_leases_due(e, &lease) && (!any || lease.ms < at->ms)) {
        *at = lease;
        any = true;
    }
    if (btree_first(&e->deadlines, &due) && (!any || (int64_t)due.major < at->ms)) {
        at->ms = (int64_t)due.major;
        any = true;
    }
    if (engine_waits_next(e, &lease) && (!any || lease.ms < at->ms)) {
        *at = lease;
        any = true;
    }
    if (engine_surplus_is_due(e))
        *at = (instant){0};
    return any;
}
