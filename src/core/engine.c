/* SPDX-License-Identifier: Apache-2.0 */

#include "core/engine.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/must.h"
#include "core/engine_internal.h"
#include "core/job_fields.h"

void engine_configure(struct engine *e, const struct engine_settings *settings)
{
    e->settings = *settings;
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
    e->type_names.seed = e->queue_names.seed;
    e->crons = engine_crons_new(e->queue_names.seed);
    list_init(&e->settling);
    list_init(&e->dirty);
    list_init(&e->hungry);
    list_init(&e->all_waiters);
    list_init(&e->takers);
    list_init(&e->gone);
    list_init(&e->fed);
    list_init(&e->any_takers);
    list_init(&e->gang_changes);
    engine_gang_watch_init(&e->gang_watch);
    e->gangs.seed = e->gang_shapes.seed = e->queue_names.seed;
    list_init(&e->spent);
    list_init(&e->owing);
    return e;
}

static void free_live(struct engine *e)
{
    /* Groups are shared by runs; free each with its last one. */
    for (size_t i = 0; i < e->live.cap; i++) {
        struct live *l = e->live.slots[i].val;
        if (!l)
            continue;
        if (l->group && --l->group->live == 0)
            free(l->group);
        if (--l->worker->refs == 0)
            free(l->worker);
        free(l->extras);
        free(l);
    }
}

void engine_free(struct engine *e)
{
    if (!e)
        return;
    free_live(e);
    engine_takers_free(e);
    for (uint32_t i = 0; i < e->queue_cap; i++) {
        if (!e->queues[i])
            continue;
        btree_fini(&e->queues[i]->ready);
        btree_fini(&e->queues[i]->parked);
        engine_limits_free(e->queues[i]->limits);
        engine_avoid_queue_fini(e->queues[i]);
        free(e->queues[i]);
    }
    free(e->queues);
    strmap_fini(&e->queue_names);
    strmap_fini(&e->type_names);
    btree_fini(&e->heads);
    btree_fini(&e->deadlines);
    btree_fini(&e->ended[0]);
    btree_fini(&e->ended[1]);
    btree_fini(&e->live_order);
    btree_fini(&e->unique);
    btree_fini(&e->aliases);
    engine_end_by_fini(e);
    engine_depend_fini(e);
    idmap_fini(&e->seen);
    engine_fold_fini(e);
    engine_avoid_fini(e);
    engine_gang_fini(e);
    idmap_fini(&e->live);
    engine_keys_fini(e);
    idmap_fini(&e->waits);
    free(e->takes);
    free(e->restored);
    engine_crons_free(e->crons);
    free(e);
}

/* --- recovery --- */

static void restore_lease(struct engine *e, instant now, const struct job *job,
                          const struct job_extent *x, struct queue *q)
{
    const struct job_state *s = &job->state;
    must(s->runs > 0 && instant_is_set(s->lease_end));
    struct live *l = engine_live_new(e, job->id, q);
    l->token = s->token;
    l->ready_at = s->ready_at;
    l->failed_at = s->failed_at;
    l->taken_at = s->dequeued_at;
    l->lease_end = s->lease_end;
    l->lapsed = s->lease_end.ms <= now.ms;
    l->completed_retention = job->completed_retention;
    l->dead_retention = job->dead_retention;
    l->run = s->runs - 1;
    l->attempts = s->attempts;
    l->forgiven = s->forgiven;
    l->losses = s->losses;
    l->priority = s->priority;
    l->has_state = true;
    l->payload_apart = x->payload_apart;
    l->worker = engine_worker_new(s->worker);
    l->unique = engine_unique_ref(e, job);
    l->type = engine_type(e, q, job->type);
    l->extras = job_extras_new(&s->extras);
    l->key = engine_key_begin(e, q, job);
    engine_deadline_add(e, l->lease_end, l->id, DUE_VAL(DUE_LEASE, 0, 0, q->index));
}

/* One whose time has come, but of which nobody was told, fires when the turns begin. */
static void restore_waiting(struct engine *e, const struct job *job, bool has_state,
                            struct queue *q, instant now)
{
    const struct job_state *s = &job->state;
    bool told = s->status == STATUS_READY || engine_was_told(e, s->ready_at, job->id);
    if (told && s->ready_at.ms <= now.ms) {
        engine_ready_add(e, q, engine_rank(s), job->id, has_state);
        engine_total_move(e, STATUS_GONE, STATUS_READY);
        return;
    }
    q->counts[STATUS_SCHEDULED]++;
    engine_total_move(e, STATUS_GONE, STATUS_SCHEDULED);
    engine_deadline_add(e, s->ready_at, job->id,
                        DUE_VAL(DUE_READY, has_state, engine_rank(s), q->index) |
                            DUE_VAL_OF_TYPE(engine_type(e, q, job->type)) |
                            (told ? DUE_VAL_TOLD : 0));
}

void engine_restore_job(struct engine *e, const struct job *job, const struct job_extent *extent,
                        instant now)
{
    id_seen(&e->ids, job->id);
    struct queue *q = engine_queue_get(e, job->queue);
    const struct job_state *s = &job->state;
    engine_unique_move(e, engine_unique_ref(e, job), job->id, STATUS_GONE, s->status);
    if (!lifecycle_is_terminal(s->status))
        engine_end_by_add(e, job);
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
        restore_lease(e, now, job, extent, q);
        engine_gang_join(e, job);
        return;
    case STATUS_COMPLETED:
    case STATUS_DEAD:
        engine_total_move(e, STATUS_GONE, s->status);
        engine_ended_add(e, s->status, job->id, s->purge_at, q);
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

void engine_restore_take(struct engine *e, uint64_t seq, instant at, struct take take)
{
    if (e->restored_count == e->restored_cap) {
        e->restored_cap = e->restored_cap ? e->restored_cap * 2 : 64;
        e->restored = alloc_resize(e->restored, e->restored_cap * sizeof *e->restored);
    }
    e->restored[e->restored_count++] = (struct restored_take){seq, at, take};
    if (seq >= e->take_seq)
        e->take_seq = seq + 1;
}

/* Out of the ready order or, with *due, out of the deadlines. */
static enum status take_out(struct engine *e, struct queue *q, const struct job *job,
                            struct btree_entry *due)
{
    const struct job_state *s = &job->state;
    if (engine_ready_remove(e, q, engine_rank(s), job->id)) {
        engine_key_left(e, q, job);
        return STATUS_READY;
    }
    if (engine_key_unpark(e, q, job))
        return STATUS_READY;
    *due = (struct btree_entry){(uint64_t)s->ready_at.ms, job->id.hi, job->id.lo, 0};
    must(btree_remove(&e->deadlines, *due, due));
    q->counts[STATUS_SCHEDULED]--;
    return STATUS_SCHEDULED;
}

/* A job whose time has come may still be among the deadlines. */
static enum status forget_waiting(struct engine *e, instant now, struct queue *q,
                                  const struct job *job)
{
    const struct job_state *s = &job->state;
    struct btree_entry due;
    if (take_out(e, q, job, &due) == STATUS_READY)
        return STATUS_READY;
    /* One that waits again as the clock went back is ready to those who were told. */
    if (s->ready_at.ms > now.ms && !(due.val & DUE_VAL_TOLD))
        return STATUS_SCHEDULED;
    engine_due_passed(e, now, q, due);
    return STATUS_READY;
}

enum status engine_forget(struct engine *e, instant now, struct queue *q, const struct job *job)
{
    const struct job_state *s = &job->state;
    switch (s->status) {
    case STATUS_READY:
    case STATUS_SCHEDULED:
        return forget_waiting(e, now, q, job);
    case STATUS_COMPLETED:
    case STATUS_DEAD:
        must(btree_remove(&e->ended[s->status == STATUS_DEAD],
                          (struct btree_entry){0, job->id.hi, job->id.lo, 0}, NULL));
        engine_deadline_remove(e, s->purge_at, job->id);
        q->counts[s->status]--;
        return s->status;
    case STATUS_BLOCKED:
        engine_blocked_remove(e, q, job);
        return s->status;
    case STATUS_IN_FLIGHT:
    case STATUS_COUNT:
        break;
    }
    must(false);
    return STATUS_GONE;
}

/* It waits in an index, since its stored status never said in_flight; but consumers of events
 * know that it was. */
static void tell_cut_off(struct engine *e, instant now, const struct job *job,
                         const struct run *run, enum status waited)
{
    engine_total_move(e, waited, STATUS_IN_FLIGHT);
    struct job_event ev = engine_event(EVENT_RETURN, STATUS_IN_FLIGHT, job);
    ev.run = run->index;
    ev.attempt = job->state.attempts + 1;
    ev.reason = run->reason;
    engine_changed(e, now, &ev);
    if (job->state.status != STATUS_SCHEDULED)
        return;
    ev = engine_event(EVENT_POSTPONE, STATUS_READY, job);
    ev.ready_at = job->state.ready_at;
    engine_changed(e, now, &ev);
}

/* A stream held this run when the server stopped. */
static struct err end_cut_off_run(struct engine *e, instant now, const struct restored_take *r)
{
    struct arena scratch = {0};
    struct job job;
    struct job_extent extent;
    struct err err = e->port.load_job(e->port.ctx, r->take.id, PORT_STATE, &scratch, &job, &extent);
    struct job_state *s = &job.state;
    bool over = err.code == ERR_NOT_FOUND || (err.code == ERR_OK && s->runs != r->take.run);
    if (err.code == ERR_OK && !over) {
        struct queue *q = engine_queue_get(e, job.queue);
        struct btree_entry due;
        enum status waited = take_out(e, q, &job, &due);
        engine_fold_close(e, &job);
        s->status = engine_returned(s->ready_at, r->at, now);
        s->dequeued_at = r->at;
        s->runs++;
        engine_grace_clear(&s->extras);
        engine_gang_back(e, now, job.id, s->ready_at, &s->extras);
        s->reason = s->status == STATUS_READY
                        ? STR("ready again: the server stopped while a worker held it")
                        : STR("scheduled again: the server stopped while a worker held it");
        struct run run = {.index = r->take.run,
                          .taken_at = r->at,
                          .lease_end = INSTANT_NONE,
                          .ended_at = now,
                          .outcome = OUTCOME_LOST,
                          .retry_at = INSTANT_NONE,
                          .reason = s->reason,
                          .failure = {.run_time = {-1}}};
        e->port.put_run(e->port.ctx, job.id, &run);
        e->port.put_state(e->port.ctx, job.id, s);
        tell_cut_off(e, now, &job, &run, waited);
        if (s->status == STATUS_READY)
            engine_ready_add(e, q, engine_rank(s), job.id, true);
        else
            engine_wait_add(e, q, engine_rank(s), job.id, true, s->ready_at, now,
                            engine_type(e, q, job.type));
    }
    arena_fini(&scratch);
    return over ? err_none() : err;
}

struct err engine_restored(struct engine *e, instant now)
{
    uint64_t seq = 0;
    for (size_t i = 0; i < e->restored_count; i++) {
        const struct restored_take *r = &e->restored[i];
        TRY(end_cut_off_run(e, now, r));
        if (r->seq != seq)
            e->port.delete_takes(e->port.ctx, r->seq);
        seq = r->seq;
    }
    free(e->restored);
    e->restored = NULL;
    e->restored_count = e->restored_cap = 0;
    engine_crons_restored(e, now);
    return err_none();
}

/* --- enqueue and remove --- */

static struct job job_of(struct engine *e, instant now, const struct enqueue *spec)
{
    instant ready_at = instant_is_set(spec->ready_at) ? spec->ready_at : now;
    return (struct job){
        .id = id_next(&e->ids, now, &e->rng),
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
        .state = {.status = ready_at.ms <= now.ms ? STATUS_READY : STATUS_SCHEDULED,
                  .priority = spec->priority,
                  .ready_at = ready_at,
                  .dequeued_at = INSTANT_NONE,
                  .failed_at = INSTANT_NONE,
                  .completed_at = INSTANT_NONE,
                  .purge_at = INSTANT_NONE,
                  .lease_end = INSTANT_NONE},
    };
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
    engine_gang_join(e, job);
    if (s->status == STATUS_BLOCKED)
        engine_blocked_add(e, q, job);
    else
        engine_wait_add(e, q, engine_rank(s), job->id, false, s->ready_at, now,
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
    for (size_t i = 0; i < count; i++) {
        out[i].duplicate = out[i].folded = false;
        if (specs[i].unique_while)
            TRY(engine_unique_find(e, now, specs[i].unique_key, a, &out[i].job, &out[i].duplicate));
        if (!out[i].duplicate && specs[i].options.alias.len)
            TRY(engine_alias_find(e, now, specs[i].options.alias, a, &out[i].job,
                                  &out[i].duplicate));
        if (out[i].duplicate)
            continue;
        out[i].job = job_of(e, now, &specs[i]);
        if (specs[i].options.depends_on.len)
            TRY(engine_depend_begin(e, now, out, a, &out[i].job));
        add_job(e, now, &out[i].job);
        out[i].job.payload = (struct str){0};
    }
    return err_none();
}

struct err engine_remove(struct engine *e, instant now, struct id id)
{
    struct arena scratch = {0};
    struct job job;
    struct job_extent extent;
    struct err err = engine_read(e, now, id, false, &scratch, &job, &extent);
    if (err.code == ERR_OK) {
        struct live *l = idmap_get(&e->live, id);
        struct queue *q = engine_queue_find(e, job.queue);
        must(q);
        enum status from = l ? STATUS_IN_FLIGHT : engine_forget(e, now, q, &job);
        struct job_event ev =
            l ? engine_live_event(e, EVENT_REMOVE, l) : engine_event(EVENT_REMOVE, from, &job);
        engine_changed(e, now, &ev);
        if (!lifecycle_is_terminal(job.state.status))
            engine_depend_ended(e, id, DEPEND_REMOVED);
        e->port.delete_job(e->port.ctx, id, &extent);
        engine_unique_move(e, engine_unique_ref(e, &job), id, job.state.status, STATUS_GONE);
        engine_fold_close(e, &job);
        if (l)
            engine_live_end(e, l);
        engine_avoid_end(e, id);
        engine_queue_drop_if_unused(e, q);
    }
    arena_fini(&scratch);
    return err;
}

/* --- time --- */

static struct err purge(struct engine *e, instant now, struct id id, struct queue *q)
{
    struct arena scratch = {0};
    struct job job;
    struct job_extent extent;
    struct err err = e->port.load_job(e->port.ctx, id, PORT_STATE, &scratch, &job, &extent);
    if (err.code == ERR_OK) {
        enum status s = job.state.status;
        struct job_event ev = engine_event(EVENT_PURGE, s, &job);
        engine_changed(e, now, &ev);
        must(btree_remove(&e->ended[s == STATUS_DEAD], (struct btree_entry){0, id.hi, id.lo, 0},
                          NULL));
        q->counts[s]--;
        engine_unique_move(e, engine_unique_ref(e, &job), id, s, STATUS_GONE);
        e->port.delete_job(e->port.ctx, id, &extent);
        engine_queue_drop_if_unused(e, q);
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
    if (DUE_VAL_KIND(due.val) == DUE_CRON)
        return engine_cron_due(e, now, id);
    struct queue *q = e->queues[DUE_VAL_QUEUE(due.val)];
    must(q);
    switch (DUE_VAL_KIND(due.val)) {
    case DUE_READY:
        engine_due_fired(e, now, q, due);
        q->counts[STATUS_SCHEDULED]--;
        engine_ready_add(e, q, DUE_VAL_RANK(due.val), id, DUE_VAL_STATE(due.val));
        return err_none();
    case DUE_LEASE: {
        struct live *l = idmap_get(&e->live, id);
        must(l && l->lease_end.ms == (int64_t)due.major);
        /* engine_live_end takes the deadline out again, as for every other end. */
        must(btree_put(&e->deadlines, due));
        return engine_expire(e, now, l);
    }
    case DUE_PURGE:
        return purge(e, now, id, q);
    case DUE_RATE:
        engine_limits_due(e, now, q);
        return err_none();
    case DUE_WAIT:
    case DUE_CRON:
    case DUE_AVOID:
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
    return engine_keys_tired(e) || engine_gangs_are_tired(e) || engine_hand_outs_spent(e);
}

bool engine_next_due(const struct engine *e, instant *at)
{
    struct btree_entry due;
    bool any = engine_end_by_next(e, at);
    if (btree_first(&e->deadlines, &due) && (!any || (int64_t)due.major < at->ms)) {
        at->ms = (int64_t)due.major;
        any = true;
    }
    return any;
}

/* --- reading --- */

static struct err not_found(struct id id)
{
    char text[ID_TEXT_LEN];
    id_format(id, text);
    return err_make(
        ERR_NOT_FOUND,
        "there is no job %.25s: it never was, was deleted, or has ended and is no longer "
        "kept (retention)",
        text);
}

static bool is_in_ready_order(const struct engine *e, const struct job *job)
{
    const struct queue *q = engine_queue_find(e, job->queue);
    struct btree_entry key = {engine_rank(&job->state), job->id.hi, job->id.lo, 0}, found;
    if (q && (engine_avoid_is_ready(e, job->id) || engine_key_is_parked(e, q, job) ||
              engine_gang_is_ready(e, job->id)))
        return true;
    return q && btree_at_least(&q->ready, key, &found) && found.major == key.major &&
           found.hi == key.hi && found.lo == key.lo;
}

struct err engine_read(struct engine *e, instant now, struct id id, bool with_payload,
                       struct arena *a, struct job *job, struct job_extent *extent)
{
    unsigned want = PORT_STATE | (with_payload ? PORT_PAYLOAD : 0);
    struct err err = e->port.load_job(e->port.ctx, id, want, a, job, extent);
    if (err.code == ERR_NOT_FOUND)
        return not_found(id);
    if (err.code != ERR_OK)
        return err;
    engine_gang_read(e, job);
    struct job_state *s = &job->state;
    const struct live *l = idmap_get(&e->live, id);
    if (l) {
        s->status = STATUS_IN_FLIGHT;
        s->extras = l->extras ? job_extras_copy(a, l->extras) : (struct job_extras){0};
        s->dequeued_at = l->taken_at;
        s->runs = l->run + 1;
        extent->runs_ended = l->run;
        return err;
    }
    must(s->status != STATUS_IN_FLIGHT);
    if (lifecycle_is_terminal(s->status) && s->purge_at.ms <= now.ms)
        return not_found(id);
    if (s->status == STATUS_SCHEDULED && s->ready_at.ms <= now.ms)
        s->status = lifecycle_move(STATUS_SCHEDULED, EVENT_DUE);
    else if (s->status == STATUS_READY && s->ready_at.ms > now.ms && !is_in_ready_order(e, job))
        s->status = STATUS_SCHEDULED; /* the clock went back over a restart */
    return err;
}

bool engine_live_run(const struct engine *e, struct id id, struct run *run, uint64_t *token)
{
    const struct live *l = idmap_get(&e->live, id);
    if (!l)
        return false;
    *run = (struct run){
        .index = l->run,
        .worker = {l->worker->bytes, l->worker->len},
        .taken_at = l->taken_at,
        .lease_end = l->lease_end,
        .ended_at = INSTANT_NONE,
        .outcome = OUTCOME_RUNNING,
        .retry_at = INSTANT_NONE,
        .failure = {.run_time = {-1}, .node = l->extras ? l->extras->node : (struct str){0}},
    };
    *token = l->token;
    return true;
}

/* All entries have the major 0, so that of 1 lies behind the last. */
bool engine_next_of(const struct engine *e, enum status s, struct id_place from, bool backwards,
                    struct id *next)
{
    must(s == STATUS_IN_FLIGHT || lifecycle_is_terminal(s));
    const struct btree *t = s == STATUS_IN_FLIGHT ? &e->live_order : &e->ended[s == STATUS_DEAD];
    struct btree_entry key = {0, from.id.hi, from.id.lo, 0}, found;
    bool any;
    if (from.set)
        any = backwards ? btree_before(t, key, &found) : btree_after(t, key, &found);
    else if (backwards)
        any = btree_before(t, (struct btree_entry){.major = 1}, &found);
    else
        any = btree_first(t, &found);
    if (any)
        *next = (struct id){found.hi, found.lo};
    return any;
}

static void add_counts(const struct queue *q, uint64_t counts[STATUS_COUNT])
{
    for (int s = 0; s < STATUS_COUNT; s++)
        counts[s] += q->counts[s];
}

void engine_count(const struct engine *e, struct str queue, uint64_t counts[STATUS_COUNT])
{
    memset(counts, 0, STATUS_COUNT * sizeof *counts);
    if (queue.len) {
        const struct queue *q = engine_queue_find(e, queue);
        if (q)
            add_counts(q, counts);
        return;
    }
    memcpy(counts, e->totals, sizeof e->totals);
}

static int compare_names(const void *a, const void *b)
{
    return str_cmp(*(const struct str *)a, *(const struct str *)b);
}

void engine_each_queue(const struct engine *e, struct arena *a,
                       void (*each)(void *ctx, struct str name), void *ctx)
{
    struct str *names = arena_get(a, (e->queue_count + 1) * sizeof *names);
    size_t n = 0;
    for (uint32_t i = 0; i < e->queue_cap; i++) {
        const struct queue *q = e->queues[i];
        uint64_t jobs = 0;
        for (int s = 0; q && s < STATUS_COUNT; s++)
            jobs += q->counts[s];
        if (jobs)
            names[n++] = q->name;
    }
    qsort(names, n, sizeof *names, compare_names);
    for (size_t i = 0; i < n; i++)
        each(ctx, names[i]);
}

struct engine_memory engine_memory(const struct engine *e)
{
    struct engine_memory m = {
        .waiting_bytes = e->deadlines.bytes + e->end_by.bytes + e->waiting_for.bytes +
                         engine_avoid_bytes(e) + engine_keys_bytes(e),
        .in_flight_bytes = e->live.count * sizeof(struct live) +
                           e->live.cap * sizeof(struct idmap_slot) + e->live_order.bytes};
    for (uint32_t i = 0; i < e->queue_cap; i++) {
        const struct queue *q = e->queues[i];
        if (!q)
            continue;
        m.waiting_jobs +=
            q->counts[STATUS_READY] + q->counts[STATUS_SCHEDULED] + q->counts[STATUS_BLOCKED];
        m.waiting_bytes += q->ready.bytes + q->parked.bytes + sizeof *q;
    }
    return m;
}

/* --- self-check --- */

/* Whether one of them waits although the queue has a job for it. */
static bool is_awaited(const struct queue *q, const struct list *waiters)
{
    for (const struct list *n = waiters->next; n != waiters; n = n->next) {
        struct btree_entry first;
        const struct taker *t = LIST_OF(n, const struct sub, node)->taker;
        if (engine_ready_first(q, (struct str){t->node->bytes, t->node->len}, &first))
            return true;
    }
    return false;
}

static void check_queue(const struct engine *e, const struct queue *q)
{
    struct btree_entry first;
    must(e->queues[q->index] == q);
    engine_avoid_check(q);
    bool has = engine_ready_first(q, (struct str){0}, &first);
    must(has == q->has_head);
    must(!has || (first.hi == q->head.hi && first.lo == q->head.lo));
    btree_check(&q->ready);
    engine_limits_check(q);
    engine_keys_check(q);
    must(q->dirty || !is_awaited(q, &q->waiters));
    must(q->dirty || !is_awaited(q, &e->all_waiters));
}

/* Whoever changes a status without an event is found out here. */
static void check_totals(const struct engine *e)
{
    uint64_t counts[STATUS_COUNT] = {0};
    for (uint32_t i = 0; i < e->queue_cap; i++)
        if (e->queues[i])
            add_counts(e->queues[i], counts);
    for (int s = 0; s < STATUS_COUNT; s++)
        must(counts[s] == e->totals[s]);
}

void engine_check(const struct engine *e)
{
    size_t in_flight = 0, held = 0, heads = 0, ended = 0;
    for (uint32_t i = 0; i < e->queue_cap; i++) {
        if (!e->queues[i])
            continue;
        check_queue(e, e->queues[i]);
        in_flight += e->queues[i]->counts[STATUS_IN_FLIGHT];
        heads += e->queues[i]->has_head;
        ended += e->queues[i]->counts[STATUS_COMPLETED] + e->queues[i]->counts[STATUS_DEAD];
    }
    must(in_flight == e->live.count && in_flight == e->live_order.count);
    btree_check(&e->live_order);
    must(heads == e->heads.count);
    must(ended == e->ended[0].count + e->ended[1].count);
    for (const struct list *n = e->takers.next; n != &e->takers; n = n->next) {
        const struct taker *t = LIST_OF(n, const struct taker, all);
        must(t->held_count <= t->limit);
        held += t->held_count;
    }
    must(held <= in_flight);
    btree_check(&e->deadlines);
    engine_end_by_check(e);
    check_totals(e);
    btree_check(&e->waiting_for);
    engine_crons_check(e);
    engine_gang_checks(e);
}
