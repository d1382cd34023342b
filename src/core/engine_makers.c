/* SPDX-License-Identifier: Apache-2.0 */
#include "core/engine_makers.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/must.h"
#include "core/engine_internal.h"

static struct id id_of(uint64_t maker)
{
    return (struct id){0, maker};
}

static struct maker_holds *open_maker(struct engine *e, uint64_t maker)
{
    struct maker_holds *m = idmap_get(&e->makers, id_of(maker));
    if (!m) {
        m = ALLOC(struct maker_holds);
        idmap_put(&e->makers, id_of(maker), m);
    }
    return m;
}

static void add(uint64_t *count, bool held, bool holds)
{
    must(*count > 0 || !held || holds);
    *count += (uint64_t)holds - (uint64_t)held;
}

static bool is_waiting(enum status s)
{
    return s < STATUS_COUNT && engine_unique_holds(UNIQUE_QUEUED, s);
}

void engine_maker_move(struct engine *e, const struct unique_ref *u, struct id id, enum status from,
                       enum status to)
{
    struct maker_holds *m = open_maker(e, u->maker);
    struct btree_entry entry = {u->maker, id.hi, id.lo, 0};
    bool was = from < STATUS_COUNT, is = to < STATUS_COUNT;
    if (is_waiting(from) && !is_waiting(to))
        must(btree_remove(&e->made, entry, NULL));
    if (!is_waiting(from) && is_waiting(to))
        must(btree_put(&e->made, entry));
    add(&m->waiting, is_waiting(from), is_waiting(to));
    add(&m->keys, was && engine_unique_holds(u->scope, from),
        is && engine_unique_holds(u->scope, to));
    if (u->aliased)
        add(&m->keys, was, is);
    if (m->waiting || m->keys)
        return;
    idmap_remove(&e->makers, id_of(u->maker));
    free(m);
}

struct maker_holds engine_maker_holds(const struct engine *e, uint64_t maker)
{
    const struct maker_holds *m = idmap_get(&e->makers, id_of(maker));
    return m ? *m : (struct maker_holds){0};
}

void engine_makers_check(const struct engine *e)
{
    uint64_t waiting = 0, listed = 0;
    struct btree_entry at;
    for (size_t i = 0; i < e->makers.cap; i++)
        if (e->makers.slots[i].val)
            waiting += ((const struct maker_holds *)e->makers.slots[i].val)->waiting;
    for (bool more = btree_first(&e->made, &at); more; more = btree_after(&e->made, at, &at))
        listed++;
    must(waiting == listed);
}

void engine_makers_fini(struct engine *e)
{
    for (size_t i = 0; i < e->makers.cap; i++)
        free(e->makers.slots[i].val);
    idmap_fini(&e->makers);
    btree_fini(&e->made);
}
