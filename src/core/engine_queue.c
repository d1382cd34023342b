/* SPDX-License-Identifier: Apache-2.0 */

/* Queues, the ready order and the deadlines. */

#include <stdlib.h>

#include "base/alloc.h"
#include "base/must.h"
#include "core/engine_internal.h"

struct queue *engine_queue_find(const struct engine *e, struct str name)
{
    return strmap_get(&e->queue_names, name);
}

static uint32_t free_index(struct engine *e)
{
    if (e->queue_count == e->queue_cap) {
        uint32_t cap = e->queue_cap ? e->queue_cap * 2 : 16;
        e->queues = alloc_resize(e->queues, cap * sizeof(struct queue *));
        for (uint32_t i = e->queue_cap; i < cap; i++)
            e->queues[i] = NULL;
        e->queue_cap = cap;
        return e->queue_count;
    }
    /* Indexes are dense unless queues were dropped, so this ends soon. */
    uint32_t i = e->queue_count;
    while (e->queues[i])
        i = (i + 1) % e->queue_cap;
    return i;
}

struct queue *engine_queue_get(struct engine *e, struct str name)
{
    struct queue *q = strmap_get(&e->queue_names, name);
    if (q)
        return q;
    q = ALLOC(struct queue);
    q->name = strmap_put(&e->queue_names, name, q);
    q->index = free_index(e);
    e->queues[q->index] = q;
    e->queue_count++;
    list_init(&q->waiters);
    list_init(&q->shuns);
    list_init(&q->dirty_node);
    list_init(&q->slots);
    list_init(&q->takers);
    engine_gang_watch_init(&q->gang_watch);
    return q;
}

static bool is_unused(const struct queue *q)
{
    if (q->limits)
        return false;
    for (int s = 0; s < STATUS_COUNT; s++)
        if (q->counts[s])
            return false;
    return q->subs == 0;
}

void engine_queue_drop_if_unused(struct engine *e, struct queue *q)
{
    if (!is_unused(q))
        return;
    must(!q->has_head && list_is_empty(&q->waiters) && list_is_empty(&q->slots));
    list_unlink(&q->dirty_node);
    list_unlink(&q->gang_watch.changed);
    btree_fini(&q->ready);
    btree_fini(&q->parked);
    engine_avoid_queue_fini(q);
    e->queues[q->index] = NULL;
    e->queue_count--;
    must(strmap_remove(&e->queue_names, q->name) == q);
    free(q);
}

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
    if (q->has_head)
        must(btree_remove(&e->heads, q->head, NULL));
    q->has_head = has;
    if (!has)
        return;
    q->head = first;
    q->head.val = q->index;
    must(btree_put(&e->heads, q->head));
}

static void mark_dirty(struct engine *e, struct queue *q)
{
    if (q->dirty)
        return;
    q->dirty = true;
    list_append(&e->dirty, &q->dirty_node);
}

void engine_queue_refresh(struct engine *e, struct queue *q)
{
    bool had = q->has_head;
    update_head(e, q);
    if (q->has_head && !had)
        mark_dirty(e, q);
}

static struct btree_entry ready_entry(uint32_t rank, struct id id, bool has_state)
{
    return (struct btree_entry){rank, id.hi, id.lo, has_state ? READY_VAL_STATE : 0};
}

void engine_ready_add(struct engine *e, struct queue *q, uint32_t rank, struct id id,
                      bool has_state)
{
    struct btree_entry entry = ready_entry(rank, id, has_state);
    if (!engine_gang_add(e, q, entry) && !engine_avoid_add(e, q, entry))
        must(btree_put(&q->ready, entry));
    q->counts[STATUS_READY]++;
    if (!q->has_head || engine_is_before(&entry, &q->head) || q->retries_credit < 0)
        update_head(e, q);
    mark_dirty(e, q);
}

bool engine_ready_remove(struct engine *e, struct queue *q, uint32_t rank, struct id id)
{
    struct btree_entry entry = ready_entry(rank, id, false);
    if (!btree_remove(&q->ready, entry, NULL) && !engine_avoid_remove(e, q, entry) &&
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
