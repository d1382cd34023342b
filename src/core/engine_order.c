/* SPDX-License-Identifier: Apache-2.0 */

/* Where a job that is not in flight stands: in the ready order of its queue, among the deadlines,
 * or among those that have ended. */

#include "base/must.h"
#include "core/engine_internal.h"

/* Keeps engine->heads in step with the first entry of the queue's ready order, so
 * that a taker of all queues finds its best job without asking each queue. A queue that may hand
 * out nothing has no head: nobody looks at it until it may. */
static void update_head(struct engine *e, struct queue *q, enum job_kind k)
{
    struct btree_entry first;
    bool has = engine_ready_first(q, k, (struct str){0}, &first);
    bool same = has && q->has_head[k] && first.major == q->head[k].major &&
                first.hi == q->head[k].hi && first.lo == q->head[k].lo;
    if (same)
        return;
    struct btree_entry before = q->head[k];
    bool had = q->has_head[k];
    q->has_head[k] = has;
    if (has) {
        q->head[k] = first;
        q->head[k].val = q->index;
        must(btree_put(&e->heads[k], q->head[k]));
    }
    /* Afterwards: of a single queue the tree would else lose its only leaf with each job. */
    if (had)
        must(btree_remove(&e->heads[k], before, NULL));
}

static void update_heads(struct engine *e, struct queue *q)
{
    for (enum job_kind k = 0; k < JOB_KINDS; k++)
        update_head(e, q, k);
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
    update_heads(e, q);
    mark_dirty(e, q);
}

void engine_queue_refresh(struct engine *e, struct queue *q)
{
    for (enum job_kind k = 0; k < JOB_KINDS; k++) {
        bool had = q->has_head[k];
        update_head(e, q, k);
        if (q->has_head[k] && !had)
            mark_dirty(e, q);
    }
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

void engine_ready_add(struct engine *e, struct queue *q, uint32_t rank, struct id id, unsigned val)
{
    struct btree_entry entry = {rank, id.hi, id.lo, val};
    enum job_kind k = READY_VAL_KIND(val);
    engine_snapshot_moved(e, id);
    if (!engine_gang_add(e, q, entry) && !engine_line_add(e, q, entry))
        must(engine_order_put(e, &q->ready, entry));
    q->counts[STATUS_READY]++;
    q->tasks[STATUS_READY] += k == KIND_TASK;
    if (!q->has_head[k] || engine_is_before(&entry, &q->head[k]) || q->retries_credit < 0)
        update_head(e, q, k);
    mark_dirty(e, q);
}

bool engine_ready_remove(struct engine *e, struct queue *q, uint32_t rank, struct id id)
{
    struct btree_entry entry = {rank, id.hi, id.lo, 0};
    if (!engine_order_remove(e, &q->ready, entry) && !engine_line_remove(e, q, &entry) &&
        !engine_gang_remove(e, q, entry))
        return false;
    enum job_kind k = READY_VAL_KIND(entry.val);
    q->counts[STATUS_READY]--;
    q->tasks[STATUS_READY] -= k == KIND_TASK;
    if (q->head[k].hi == id.hi && q->head[k].lo == id.lo)
        update_head(e, q, k);
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
        update_heads(e, q);
}

void engine_wait_add(struct engine *e, struct queue *q, uint32_t rank, struct id id, unsigned val,
                     instant ready_at, instant now, uint32_t type)
{
    if (ready_at.ms <= now.ms) {
        engine_ready_add(e, q, rank, id, val);
        return;
    }
    bool task = val & READY_VAL_TASK;
    q->counts[STATUS_SCHEDULED]++;
    q->tasks[STATUS_SCHEDULED] += task;
    engine_deadline_add(e, ready_at, id,
                        DUE_VAL(DUE_READY, val & READY_VAL_STATE, rank, q->index) |
                            DUE_VAL_OF_TYPE(type) | (task ? DUE_VAL_TASK : 0));
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
                      struct queue *q, uint64_t surplus)
{
    must(lifecycle_is_terminal(s));
    must(btree_put(&e->ended[s == STATUS_DEAD], (struct btree_entry){0, id.hi, id.lo, q->index}));
    q->counts[s]++;
    engine_deadline_add(e, purge_at, id,
                        DUE_VAL(DUE_PURGE, 1, 0, q->index) |
                            (surplus != SURPLUS_NOT ? DUE_VAL_SURPLUS : 0));
    if (surplus != SURPLUS_NOT)
        engine_surplus_add(e, purge_at, id, surplus);
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
    q->tasks[STATUS_SCHEDULED] -= (due->val & DUE_VAL_TASK) != 0;
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
        engine_surplus_remove(e, s->purge_at, job->id);
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

/* Ranks, or keys, whose first job is looked at. There are few ranks; of very many keys those that
 * came into use last are left out, which hardly have the oldest job. */
#define CANDIDATES_MAX 1000

struct id engine_order_oldest(const struct btree *t)
{
    struct id oldest = {0};
    struct btree_entry key = {0}, found;
    for (int n = 0; n < CANDIDATES_MAX && btree_at_least(t, key, &found); n++) {
        struct id id = {found.hi, found.lo};
        if (id_is_none(oldest) || id_cmp(id, oldest) < 0)
            oldest = id;
        key.major = found.major + 1;
    }
    return oldest;
}
