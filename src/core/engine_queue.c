/* SPDX-License-Identifier: Apache-2.0 */

/* Queues: by name, and as people see them. */

#include <stdlib.h>

#include "base/alloc.h"
#include "base/must.h"
#include "core/engine_internal.h"

struct queue *engine_queue_find(const struct engine *e, struct str name)
{
    return strmap_get(&e->queue_names, name);
}

struct queue *engine_queue_after(const struct engine *e, struct str from)
{
    struct strtree_node *n =
        from.len ? strtree_after(&e->queue_order, from) : strtree_first(&e->queue_order);
    return n ? LIST_OF(n, struct queue, by_name) : NULL;
}

struct str engine_queue_name_after(const struct engine *e, struct str from)
{
    const struct queue *q = engine_queue_after(e, from);
    return q ? q->name : (struct str){0};
}

static uint32_t free_index(struct engine *e)
{
    if (e->free_queue_count > 0)
        return e->free_queues[--e->free_queue_count];
    /* Those that are not free are dense. */
    if (e->queue_count == e->queue_cap) {
        uint32_t cap = e->queue_cap ? e->queue_cap * 2 : 16;
        e->queues = alloc_resize(e->queues, cap * sizeof(struct queue *));
        for (uint32_t i = e->queue_cap; i < cap; i++)
            e->queues[i] = NULL;
        e->queue_cap = cap;
    }
    return e->queue_count;
}

static void release_index(struct engine *e, uint32_t index)
{
    ALLOC_GROW(e->free_queues, e->free_queue_count, e->free_queue_cap, 16);
    e->free_queues[e->free_queue_count++] = index;
    e->queues[index] = NULL;
}

struct queue *engine_queue_get(struct engine *e, struct str name)
{
    struct queue *q = strmap_get(&e->queue_names, name);
    if (q)
        return q;
    q = ALLOC(struct queue);
    q->name = strmap_put(&e->queue_names, name, q);
    strtree_put(&e->queue_order, &q->by_name, q->name);
    q->index = free_index(e);
    e->queues[q->index] = q;
    e->queue_count++;
    for (enum job_kind k = 0; k < JOB_KINDS; k++)
        list_init(&q->waiters[k]);
    list_init(&q->lines);
    list_init(&q->open_lines);
    list_init(&q->dirty_node);
    list_init(&q->slots);
    list_init(&q->takers);
    list_init(&q->pace.runs);
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
    for (enum job_kind k = 0; k < JOB_KINDS; k++)
        must(!q->has_head[k] && list_is_empty(&q->waiters[k]));
    must(list_is_empty(&q->slots) && list_is_empty(&q->pace.runs));
    list_unlink(&q->dirty_node);
    list_unlink(&q->gang_watch.changed);
    btree_fini(&q->ready);
    btree_fini(&q->parked);
    engine_line_queue_fini(e, q);
    release_index(e, q->index);
    e->queue_count--;
    strtree_remove(&e->queue_order, &q->by_name);
    must(strmap_remove(&e->queue_names, q->name) == q);
    free(q);
}

static struct id older(struct id a, struct id b)
{
    if (id_is_none(a) || id_is_none(b))
        return id_is_none(a) ? b : a;
    return id_cmp(a, b) < 0 ? a : b;
}

static void view_of(const struct queue *q, instant now, struct queue_view *v)
{
    memcpy(v->counts, q->counts, sizeof v->counts);
    memcpy(v->tasks, q->tasks, sizeof v->tasks);
    v->configured = q->limits != NULL;
    if (q->limits)
        v->settings = q->limits->set;
    struct id oldest = older(engine_order_oldest(&q->ready), engine_order_oldest(&q->parked));
    oldest = older(oldest, engine_line_oldest(q));
    if (!id_is_none(oldest))
        v->oldest_age = instant_diff(instant_max(now, id_time(oldest)), id_time(oldest));
}

void engine_queue_view(const struct engine *e, instant now, struct str name, struct queue_view *v)
{
    const struct queue *q = engine_queue_find(e, name);
    *v = (struct queue_view){.name = name, .settings = QUEUE_SETTINGS_DEFAULT, .oldest_age = {-1}};
    if (q)
        view_of(q, now, v);
}

static bool is_shown(const struct queue *q)
{
    uint64_t jobs = 0;
    for (int s = 0; s < STATUS_COUNT; s++)
        jobs += q->counts[s];
    return jobs > 0 || q->limits;
}

size_t engine_queue_page(const struct engine *e, instant now, struct str from, size_t limit,
                         struct arena *a, struct queue_view **views, bool *more)
{
    size_t n = 0;
    *views = arena_get(a, (limit + 1) * sizeof **views);
    *more = false;
    for (const struct queue *q = engine_queue_after(e, from); q && !*more;
         q = engine_queue_after(e, q->name)) {
        if (!is_shown(q))
            continue;
        *more = n == limit;
        if (!*more)
            engine_queue_view(e, now, arena_copy(a, q->name), &(*views)[n++]);
    }
    return n;
}
