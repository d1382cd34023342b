/* SPDX-License-Identifier: Apache-2.0 */
#include "base/idmap.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/must.h"

#define CAP_MIN 16

/* The ids in the map were made here, so nobody can choose them to collide; but
 * neighbours in time differ in few bits, which must spread over all. */
static size_t home(struct id id, size_t mask)
{
    uint64_t h = (id.hi ^ id.lo >> 32) * 0x9e3779b97f4a7c15 + id.lo * 0xd1b54a32d192ed03;
    h ^= h >> 32;
    h *= 0xbf58476d1ce4e5b9;
    return (size_t)(h ^ h >> 29) & mask;
}

/* The slot of id, or the free slot where it would go. At least one is free. */
static size_t find(const struct idmap *m, struct id id)
{
    size_t mask = m->cap - 1;
    size_t i = home(id, mask);
    while (m->slots[i].val && !id_eq(m->slots[i].id, id))
        i = (i + 1) & mask;
    return i;
}

static void grow(struct idmap *m)
{
    struct idmap old = *m;
    m->cap = old.cap ? old.cap * 2 : CAP_MIN;
    m->slots = alloc_zero(m->cap * sizeof *m->slots);
    for (size_t i = 0; i < old.cap; i++)
        if (old.slots[i].val)
            m->slots[find(m, old.slots[i].id)] = old.slots[i];
    free(old.slots);
}

/* Closes the gap by moving back every later slot of the same run that may stand
 * there, so that no tombstones pile up. */
static void close_gap(struct idmap *m, size_t gap)
{
    size_t mask = m->cap - 1;
    for (size_t i = (gap + 1) & mask; m->slots[i].val; i = (i + 1) & mask) {
        size_t from_home = (i - home(m->slots[i].id, mask)) & mask;
        if (from_home >= ((i - gap) & mask)) {
            m->slots[gap] = m->slots[i];
            gap = i;
        }
    }
    m->slots[gap] = (struct idmap_slot){0};
}

void idmap_fini(struct idmap *m)
{
    free(m->slots);
    *m = (struct idmap){0};
}

void *idmap_get(const struct idmap *m, struct id id)
{
    return m->count ? m->slots[find(m, id)].val : NULL;
}

void idmap_put(struct idmap *m, struct id id, void *val)
{
    must(val != NULL);
    if (m->count >= m->cap / 4 * 3)
        grow(m);
    struct idmap_slot *slot = &m->slots[find(m, id)];
    m->count += !slot->val;
    *slot = (struct idmap_slot){id, val};
}

void *idmap_remove(struct idmap *m, struct id id)
{
    if (!m->count)
        return NULL;
    size_t i = find(m, id);
    void *val = m->slots[i].val;
    if (val) {
        close_gap(m, i);
        m->count--;
    }
    return val;
}

void idmap_clear(struct idmap *m)
{
    if (m->count)
        memset(m->slots, 0, m->cap * sizeof *m->slots);
    m->count = 0;
}
