/* SPDX-License-Identifier: Apache-2.0 */

/* Where a job that is not in flight stands: in the ready order of its queue, among the deadlines,
 * or among those that have ended. */

#include "base/must.h"
#include "core/engine_internal.h"

/* Keeps engine->heads in step with the first entry of the queue's ready order, so
 * that a taker of all queues finds its best job without asking each queue. A queue that may hand
 * out nothing has no head: nobody looks at it until it may. */
static void update_head(struct engine *e, struct queue *q)
{
    struct btree_entry first;
    bool has = engine_ready_first(q, (struct str){0}, &first);
    bool same = has && q->has_head && first.major == q->head.major && first.hi == q->head.hi &&
                first.lo == q->head.lo;
    if (same)
        return;
    struct btree_entry before = q->head;
    bool had = q->has_head;
    q->has_head = has;
    if (has) {
        q->head = first;
        q->head.val = q->index;
        must(btree_put(&e->heads, q->head));
    }
    /* Afterwards: of a single queue the tree would else lose its only leaf with each job. */
    if (had)
        must(btree_remove(&e->heads, before, NULL));
}

static void mark_dirty(struct engine *e, struct queue *q)
{
    if (q->dirty)
        return;
    q->dirty = true;
    list_append(&e->dirty, &q->dirty_node);
}

void engine_queue_offers(struct engine *e, struct queue *q)
{
    update_head(e, q);
    mark_dirty(e, q);
}

void engine_queue_refresh(struct engine *e, struct queue *q)
{
    bool had = q->has_head;
    update_head(e, q);
    if (q->has_head && !had)
        mark_dirty(e, q);
}

bool engine_order_put(struct engine *e, struct btree *t, struct btree_entry entry)
{
    e->order_bytes -= t->bytes;
    bool added = btree_put(t, entry);
    e->order_bytes += t->bytes;
    return added;
}

bool engine_order_remove(struct engine *e, struct btree *t, struct btree_entry entry)
{
    e->order_bytes -= t->bytes;
    bool removed = btree_remove(t, entry, NULL);
    e->order_bytes += t->bytes;
    return removed;
}

static struct btree_entry ready_entry(uint32_t rank, struct id id, bool has_state)
{
    return (struct btree_entry){rank, id.hi, id.lo, has_state ? READY_VAL_STATE : 0};
}

void engine_ready_add(struct engine *e, struct queue *q, uint32_t rank, struct id id,
                      bool has_state)
{
    struct btree_entry entry = ready_entry(rank, id, has_state);
    engine_snapshot_moved(e, id);
    if (!engine_gang_add(e, q, entry) && !engine_line_add(e, q, entry))
        must(engine_order_put(e, &q->ready, entry));
    q->counts[STATUS_READY]++;
    if (!q->has_head || engine_is_before(&entry, &q->head) || q->retries_credit < 0)
        update_head(e, q);
    mark_dirty(e, q);
}

bool engine_ready_remove(struct engine *e, struct queue *q, uint32_t rank, struct id id)
{
    struct btree_entry entry = ready_entry(rank, id, false);
    if (!engine_order_remove(e, &q->ready, entry) && !engine_line_remove(e, q, &entry) &&
        !engine_gang_remove(e, q, entry))
        return false;
    q->counts[STATUS_READY]--;
    if (q->head.hi == id.hi && q->head.lo == id.lo)
        update_head(e, q);
    return true;
}

void engine_ready_taken(struct engine *e, struct queue *q, uint64_t turn)
{
    int32_t share = (int32_t)e->settings.retries_share, *credit = &q->retries_credit;
    bool others_turn = *credit < 0;
    *credit += turn & RANK_OTHERS ? share : share - 100;
    if (*credit > share)
        *credit = share;
    if (others_turn != (*credit < 0))
        update_head(e, q);
}

void engine_wait_add(struct engine *e, struct queue *q, uint32_t rank, struct id id, bool has_state,
                     instant ready_at, instant now, uint32_t type)
{
    if (ready_at.ms <= now.ms) {
        engine_ready_add(e, q, rank, id, has_state);
        return;
    }
    q->counts[STATUS_SCHEDULED]++;
    engine_deadline_add(e, ready_at, id,
                        DUE_VAL(DUE_READY, has_state, rank, q->index) | DUE_VAL_OF_TYPE(type));
}

void engine_deadline_add(struct engine *e, instant at, struct id id, uint64_t val)
{
    must(at.ms >= 0);
    must(btree_put(&e->deadlines, (struct btree_entry){(uint64_t)at.ms, id.hi, id.lo, val}));
}

void engine_deadline_remove(struct engine *e, instant at, struct id id)
{
    must(at.ms >= 0);
    struct btree_entry key = {(uint64_t)at.ms, id.hi, id.lo, 0};
    must(btree_remove(&e->deadlines, key, NULL));
}

void engine_ended_add(struct engine *e, enum status s, struct id id, instant purge_at,
                      struct queue *q)
{
    must(lifecycle_is_terminal(s));
    must(btree_put(&e->ended[s == STATUS_DEAD], (struct btree_entry){0, id.hi, id.lo, q->index}));
    q->counts[s]++;
    engine_deadline_add(e, purge_at, id, DUE_VAL(DUE_PURGE, 1, 0, q->index));
}

enum status engine_wait_remove(struct engine *e, struct queue *q, const struct job *job,
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
    if (engine_wait_remove(e, q, job, &due) == STATUS_READY)
        return STATUS_READY;
    /* After the clock went back, a job that was announced as ready stays so for consumers of
     * events. */
    if (s->ready_at.ms > now.ms && !(due.val & DUE_VAL_ANNOUNCED))
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

bool engine_is_in_order(const struct engine *e, const struct job *job)
{
    const struct queue *q = engine_queue_find(e, job->queue);
    struct btree_entry key = {engine_rank(&job->state), job->id.hi, job->id.lo, 0}, found;
    if (q && (engine_line_has(e, q, key) || engine_key_is_parked(e, q, job) ||
              engine_gang_is_ready(e, job->id)))
        return true;
    return q && btree_at_least(&q->ready, key, &found) && found.major == key.major &&
           found.hi == key.hi && found.lo == key.lo;
}
