/* SPDX-License-Identifier: Apache-2.0 */

/* Jobs that must stay off a node (anti-affinity) until a certain time. Each of them costs memory;
 * jobs without a node to avoid cost nothing. While such a job is ready it stands in a line of those
 * that avoid the same node (engine_line.c). */

#include <stdlib.h>

#include "base/alloc.h"
#include "base/must.h"
#include "core/engine_internal.h"

/* One job. */
struct avoid {
    struct id id;
    uint64_t serial;
    instant until;
    struct queue *queue; /* iff it stands in a line of that */
    uint32_t rank;       /* by which it does */
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
    engine_odd_set(e, id, ODD_AVOIDS);
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
    must(!v->queue);
    engine_deadline_remove(e, v->until, deadline_id(v));
    must(idmap_remove(&e->avoids, id) == v);
    engine_odd_clear(e, id, ODD_AVOIDS);
    free(v);
}

/* --- in a line --- */

static struct str node_of(const struct avoid *v)
{
    return v ? (struct str){v->name, v->name_len} : (struct str){0};
}

struct str engine_avoid_enter(struct engine *e, struct id id, struct queue *q, uint32_t rank)
{
    struct avoid *v = find(e, id);
    if (v) {
        must(!v->queue);
        v->queue = q;
        v->rank = rank;
    }
    return node_of(v);
}

void engine_avoid_exit(struct engine *e, struct id id)
{
    struct avoid *v = find(e, id);
    if (v)
        v->queue = NULL;
}

struct str engine_avoid_node(const struct engine *e, struct id id)
{
    return node_of(find(e, id));
}

bool engine_avoid_forbids(const struct engine *e, struct id id, struct str node)
{
    const struct avoid *v = find(e, id);
    return v && node.len && str_eq(node_of(v), node);
}

void engine_avoid_due(struct engine *e, uint64_t val)
{
    struct avoid *v = of_deadline(val);
    struct queue *q = v->queue;
    struct btree_entry entry = {v->rank, v->id.hi, v->id.lo, 0};
    if (q)
        must(engine_line_remove(e, q, &entry));
    must(idmap_remove(&e->avoids, v->id) == v);
    engine_odd_clear(e, v->id, ODD_AVOIDS);
    if (q) {
        q->counts[STATUS_READY]--;
        q->tasks[STATUS_READY] -= (entry.val & READY_VAL_TASK) != 0;
        engine_ready_add(e, q, v->rank, v->id, (unsigned)(entry.val & READY_VAL_BITS));
    }
    engine_gang_avoids_no_more(e, v->id);
    free(v);
}

bool engine_avoid_of(const struct engine *e, struct id id, struct str *node, instant *until)
{
    const struct avoid *v = find(e, id);
    if (!v)
        return false;
    *node = node_of(v);
    *until = v->until;
    return true;
}

uint64_t engine_avoid_bytes(const struct engine *e)
{
    return e->avoids.count * (sizeof(struct avoid) + sizeof(struct btree_entry)) +
           e->avoids.cap * sizeof(struct idmap_slot);
}

/* --- the end --- */

void engine_avoid_fini(struct engine *e)
{
    for (size_t i = 0; i < e->avoids.cap; i++)
        free(e->avoids.slots[i].val);
    idmap_fini(&e->avoids);
}
