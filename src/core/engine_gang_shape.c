/* SPDX-License-Identifier: Apache-2.0 */

/* What the members of a gang ask for together: its shape. Gangs of one shape are planned as one. */

#include <stdlib.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "core/engine_gang_internal.h"

struct likeness {
    struct gang_member *member;
    struct str node;
};

static int compare_likeness(const void *a, const void *b)
{
    const struct likeness *x = a, *y = b;
    if (x->member->queue->index != y->member->queue->index)
        return x->member->queue->index < y->member->queue->index ? -1 : 1;
    int order = str_cmp(x->node, y->node);
    return order ? order : id_cmp(x->member->id, y->member->id);
}

static bool are_alike(const struct likeness *a, const struct likeness *b)
{
    return a->member->queue == b->member->queue && str_eq(a->node, b->node);
}

/* The members, those that are alike side by side. */
static struct likeness *sort_members(const struct engine *e, const struct gang *g)
{
    struct likeness *all = alloc_zero(g->count * sizeof *all);
    size_t n = 0;
    for (struct list *l = g->members.next; l != &g->members; l = l->next) {
        instant until;
        all[n].member = LIST_OF(l, struct gang_member, node);
        if (!engine_avoid_of(e, all[n].member->id, &all[n].node, &until))
            all[n].node = (struct str){0};
        n++;
    }
    qsort(all, n, sizeof *all, compare_likeness);
    return all;
}

/* Where the part that begins at `from` ends. */
static size_t part_end(const struct likeness *all, size_t from, size_t count)
{
    size_t to = from + 1;
    while (to < count && are_alike(&all[from], &all[to]))
        to++;
    return to;
}

/* What the members cost together; it has one reference more. */
static struct budget_set *sum_up(struct engine *e, const struct likeness *all, size_t count)
{
    if (e->budget_jobs.count == 0)
        return NULL;
    struct budget_set **sets = alloc_zero(count * sizeof(struct budget_set *));
    for (size_t i = 0; i < count; i++)
        sets[i] = engine_budget_set_of(e, all[i].member->id);
    struct budget_set *sum = engine_budget_set_sum(e, sets, count);
    free(sets);
    return sum;
}

static void write_key(const struct likeness *all, size_t count, const struct budget_set *cost,
                      struct buf *key, size_t *parts)
{
    *parts = 0;
    for (size_t i = 0, next; i < count; i = next, ++*parts) {
        next = part_end(all, i, count);
        const uint32_t numbers[] = {all[i].member->queue->index, (uint32_t)(next - i),
                                    (uint32_t)all[i].node.len};
        buf_add(key, numbers, sizeof numbers);
        buf_str(key, all[i].node);
    }
    if (cost)
        buf_add(key, &cost->number, sizeof cost->number);
}

static struct gang_shape *shape_new(struct engine *e, struct str key, size_t parts,
                                    const struct likeness *all, size_t count)
{
    struct gang_shape *s = alloc_zero(sizeof *s + parts * sizeof s->parts[0]);
    s->key = strmap_put(&e->gang_shapes, key, s);
    s->part_count = parts;
    s->wait.shape = s;
    list_init(&s->wait.node);
    struct gang_part *p = s->parts;
    size_t node = 0;
    for (size_t i = 0, next; i < count; i = next, p++) {
        next = part_end(all, i, count);
        node += 3 * sizeof(uint32_t);
        p->queue = all[i].member->queue;
        p->count = (uint32_t)(next - i);
        p->node = (struct str){s->key.at + node, all[i].node.len};
        p->wait.shape = s;
        list_init(&p->wait.node);
        node += all[i].node.len;
    }
    return s;
}

struct gang_shape *engine_gang_shape(struct engine *e, const struct gang *g)
{
    struct likeness *all = sort_members(e, g);
    struct buf key = {0};
    size_t parts;
    struct budget_set *cost = sum_up(e, all, g->count);
    write_key(all, g->count, cost, &key, &parts);
    struct gang_shape *s = strmap_get(&e->gang_shapes, buf_view(&key));
    if (!s) {
        s = shape_new(e, buf_view(&key), parts, all, g->count);
        engine_budget_wait_init(&s->budgets, cost, true);
    } else if (cost) {
        engine_budget_set_unref(e, cost); /* the shape has it */
    }
    struct gang_part *part = s->parts;
    for (size_t i = 0, next; i < g->count; i = next, part++) {
        next = part_end(all, i, g->count);
        for (size_t k = i; k < next; k++)
            all[k].member->part = part;
    }
    buf_fini(&key);
    free(all);
    return s;
}
