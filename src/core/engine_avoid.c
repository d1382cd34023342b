/* SPDX-License-Identifier: Apache-2.0 */

/* Jobs that must stay off a node (anti-affinity) until a certain time. Each of them costs memory;
 * jobs without a node to avoid cost nothing.
 *
 * While such a job is ready it is not in the ready order of its queue but in that of its queue and
 * node. The next job for a taker on a node is the first in all of these orders but its own node's;
 * a further order, of their heads, finds it in two steps however many orders there are. */

#include <stdlib.h>

#include "base/alloc.h"
#include "base/must.h"
#include "core/engine_internal.h"

/* The ready jobs of a queue that are to stay off one node, granted retries apart from others.
 * Exists while there are any. */
struct avoid_order {
    struct list node; /* in queue->avoid_orders */
    struct btree ready;
    struct btree_entry head; /* what queue->avoid_heads holds for it; val: its address */
    bool granted;            /* all of them are granted retries, or none is */
    size_t name_len;
    char name[];
};

/* One job. */
struct avoid {
    struct id id;
    uint64_t serial;
    instant until;
    struct queue *queue;       /* while it is ready */
    struct avoid_order *order; /* that it is in, while it is ready */
    uint32_t rank;
    size_t name_len;
    char name[];
};

/* Its deadline may be at the same time as another one of the job. No job has such an id. */
static struct id deadline_id(const struct avoid *v)
{
    return (struct id){1, v->serial};
}

static uint64_t deadline_val(const struct avoid *v)
{
    uint64_t address = (uint64_t)(uintptr_t)v;
    must((address & 7) == 0);
    return address | DUE_AVOID;
}

static struct avoid *of_deadline(uint64_t val)
{
    return (struct avoid *)(uintptr_t)(val & ~(uint64_t)7);
}

static struct avoid_order *of_head(uint64_t val)
{
    return (struct avoid_order *)(uintptr_t)val;
}

void engine_avoid(struct engine *e, instant now, struct id id, const struct job_extras *x)
{
    if (x->avoid_node.len == 0 || x->avoid_until.ms <= now.ms || idmap_get(&e->avoids, id))
        return;
    struct avoid *v = alloc_zero(sizeof *v + x->avoid_node.len);
    v->id = id;
    v->serial = ++e->avoid_serial;
    v->until = x->avoid_until;
    v->name_len = x->avoid_node.len;
    memcpy(v->name, x->avoid_node.at, v->name_len);
    idmap_put(&e->avoids, id, v);
    engine_deadline_add(e, v->until, deadline_id(v), deadline_val(v));
}

static struct avoid *find(const struct engine *e, struct id id)
{
    return e->avoids.count ? idmap_get(&e->avoids, id) : NULL;
}

void engine_avoid_end(struct engine *e, struct id id)
{
    struct avoid *v = find(e, id);
    if (!v)
        return;
    must(!v->order);
    engine_deadline_remove(e, v->until, deadline_id(v));
    must(idmap_remove(&e->avoids, id) == v);
    free(v);
}

/* --- the orders of a queue --- */

static void update_head(struct queue *q, struct avoid_order *s)
{
    if (s->head.val)
        must(btree_remove(&q->avoid_heads, s->head, NULL));
    if (!btree_first(&s->ready, &s->head)) {
        list_unlink(&s->node);
        btree_fini(&s->ready);
        free(s);
        return;
    }
    s->head.val = (uint64_t)(uintptr_t)s;
    must(btree_put(&q->avoid_heads, s->head));
}

static struct avoid_order *order_get(struct queue *q, struct str name, bool granted)
{
    for (struct list *n = q->avoid_orders.next; n != &q->avoid_orders; n = n->next) {
        struct avoid_order *s = LIST_OF(n, struct avoid_order, node);
        if (s->granted == granted && str_eq((struct str){s->name, s->name_len}, name))
            return s;
    }
    struct avoid_order *s = alloc_zero(sizeof *s + name.len);
    s->granted = granted;
    s->name_len = name.len;
    memcpy(s->name, name.at, name.len);
    list_init(&s->node);
    list_append(&q->avoid_orders, &s->node);
    return s;
}

bool engine_avoid_add(struct engine *e, struct queue *q, struct btree_entry entry)
{
    struct avoid *v = find(e, (struct id){entry.hi, entry.lo});
    if (!v)
        return false;
    must(!v->order);
    v->queue = q;
    v->rank = (uint32_t)entry.major;
    v->order = order_get(q, (struct str){v->name, v->name_len}, !(entry.major & RANK_OTHERS));
    must(btree_put(&v->order->ready, entry));
    update_head(q, v->order);
    return true;
}

static struct btree_entry take_out(struct queue *q, struct avoid *v)
{
    struct btree_entry entry = {v->rank, v->id.hi, v->id.lo, 0};
    must(btree_remove(&v->order->ready, entry, &entry));
    update_head(q, v->order);
    v->order = NULL;
    return entry;
}

bool engine_avoid_remove(struct engine *e, struct queue *q, struct btree_entry entry)
{
    struct avoid *v = find(e, (struct id){entry.hi, entry.lo});
    if (!v || v->order == NULL || v->queue != q || v->rank != entry.major)
        return false;
    take_out(q, v);
    return true;
}

bool engine_avoid_is_ready(const struct engine *e, struct id id)
{
    const struct avoid *v = find(e, id);
    return v && v->order;
}

bool engine_avoid_forbids(const struct engine *e, struct id id, struct str node)
{
    const struct avoid *v = find(e, id);
    return v && node.len && str_eq((struct str){v->name, v->name_len}, node);
}

void engine_avoid_due(struct engine *e, uint64_t val)
{
    struct avoid *v = of_deadline(val);
    must(idmap_remove(&e->avoids, v->id) == v);
    if (v->order) {
        struct btree_entry entry = take_out(v->queue, v);
        v->queue->counts[STATUS_READY]--;
        engine_ready_add(e, v->queue, v->rank, v->id, entry.val & READY_VAL_STATE);
    }
    engine_gang_avoids_no_more(e, v->id);
    free(v);
}

bool engine_is_before(const struct btree_entry *a, const struct btree_entry *b)
{
    if (a->major != b->major)
        return a->major < b->major;
    return id_cmp((struct id){a->hi, a->lo}, (struct id){b->hi, b->lo}) < 0;
}

static bool first_from(const struct btree *t, const struct btree_entry *from,
                       struct btree_entry *first)
{
    return from ? btree_at_least(t, *from, first) : btree_first(t, first);
}

/* The first for a taker on that node: of all or, past the granted retries of the lowest priority,
 * from that place on. Orders whose first entry is before it hold such retries only. */
static bool first_for(const struct queue *q, struct str node, const struct btree_entry *from,
                      struct btree_entry *first)
{
    struct btree_entry head;
    bool found = first_from(&q->ready, from, first);
    bool has = q->avoid_heads.count && first_from(&q->avoid_heads, from, &head);
    for (; has && node.len; has = btree_after(&q->avoid_heads, head, &head)) {
        const struct avoid_order *s = of_head(head.val);
        if (!str_eq((struct str){s->name, s->name_len}, node))
            break;
    }
    if (!has || (found && engine_is_before(first, &head)))
        return found;
    return btree_first(&of_head(head.val)->ready, first);
}

bool engine_ready_first(const struct queue *q, struct str node, struct btree_entry *first)
{
    if (q->limits && !engine_limits_allow(q->limits))
        return false;
    if (!first_for(q, node, NULL, first))
        return false;
    if (q->retries_credit >= 0 || first->major & RANK_OTHERS)
        return true;
    struct btree_entry from = {.major = first->major | RANK_OTHERS}, other;
    if (first_for(q, node, &from, &other) && other.major == from.major)
        *first = other;
    else
        first->major = from.major; /* no other queue's jobs are kept waiting for it either */
    return true;
}

size_t engine_ready_rank(const struct queue *q, struct str node, struct btree_entry place,
                         size_t most)
{
    size_t n = btree_rank(&q->ready, place, most);
    for (const struct list *l = q->avoid_orders.next; l != &q->avoid_orders && n < most;
         l = l->next) {
        const struct avoid_order *s = LIST_OF(l, const struct avoid_order, node);
        if (!node.len || !str_eq((struct str){s->name, s->name_len}, node))
            n += btree_rank(&s->ready, place, most - n);
    }
    return n;
}

/* Adds those of one order that come before the last of a full list, which is in order. */
static size_t add_first(const struct btree *ready, struct btree_entry after, uint32_t rank_max,
                        struct ready_place *places, size_t n, size_t limit)
{
    struct btree_entry at = after;
    while (btree_after(ready, at, &at) && at.major <= rank_max) {
        size_t i = n;
        struct btree_entry last = {0};
        if (n == limit)
            last = (struct btree_entry){places[n - 1].rank, places[n - 1].id.hi,
                                        places[n - 1].id.lo, 0};
        if (n == limit && !engine_is_before(&at, &last))
            break;
        n += n < limit;
        for (i -= i == limit; i > 0; i--) {
            const struct ready_place *p = &places[i - 1];
            if (p->rank < at.major ||
                (p->rank == at.major && id_cmp(p->id, (struct id){at.hi, at.lo}) < 0))
                break;
            places[i] = *p;
        }
        places[i] = (struct ready_place){true, (uint32_t)at.major, {at.hi, at.lo}};
    }
    return n;
}

size_t engine_peek(const struct engine *e, struct str queue, struct range priority,
                   struct ready_place from, size_t limit, struct ready_place *places)
{
    const struct queue *q = engine_queue_find(e, queue);
    struct btree_entry after = {0};
    if (!q || limit == 0)
        return 0;
    uint32_t least = priority.set ? RANK(priority.lo, true) : 0;
    uint32_t most = priority.set ? RANK(priority.hi, false) : UINT32_MAX;
    after.major = least; /* no job has the id 0 */
    if (from.set && from.rank >= least)
        after = (struct btree_entry){from.rank, from.id.hi, from.id.lo, 0};
    size_t n = add_first(&q->ready, after, most, places, 0, limit);
    for (const struct list *l = q->avoid_orders.next; l != &q->avoid_orders; l = l->next)
        n = add_first(&LIST_OF(l, const struct avoid_order, node)->ready, after, most, places, n,
                      limit);
    return n;
}

bool engine_avoid_of(const struct engine *e, struct id id, struct str *node, instant *until)
{
    const struct avoid *v = find(e, id);
    if (!v)
        return false;
    *node = (struct str){v->name, v->name_len};
    *until = v->until;
    return true;
}

uint64_t engine_avoid_bytes(const struct engine *e)
{
    return e->avoids.count * (sizeof(struct avoid) + sizeof(struct btree_entry)) +
           e->avoids.cap * sizeof(struct idmap_slot);
}

void engine_avoid_check(const struct queue *q)
{
    uint64_t ready = q->ready.count + q->parked.count + q->gang_ready, orders = 0;
    for (const struct list *n = q->avoid_orders.next; n != &q->avoid_orders;
         n = n->next, orders++) {
        const struct avoid_order *s = LIST_OF(n, const struct avoid_order, node);
        must(s->ready.count > 0);
        btree_check(&s->ready);
        ready += s->ready.count;
    }
    must(orders == q->avoid_heads.count);
    must(ready == q->counts[STATUS_READY]);
}

/* --- the end --- */

void engine_avoid_queue_fini(struct queue *q)
{
    while (!list_is_empty(&q->avoid_orders)) {
        struct avoid_order *s = LIST_OF(q->avoid_orders.next, struct avoid_order, node);
        list_unlink(&s->node);
        btree_fini(&s->ready);
        free(s);
    }
    btree_fini(&q->avoid_heads);
}

void engine_avoid_fini(struct engine *e)
{
    for (size_t i = 0; i < e->avoids.cap; i++)
        free(e->avoids.slots[i].val);
    idmap_fini(&e->avoids);
}
