/* SPDX-License-Identifier: Apache-2.0 */

#include <stdlib.h>

#include "base/alloc.h"
#include "base/must.h"
#include "core/engine_internal.h"

/* The runs that one claim got and that are not confirmed yet. */
struct claim_runs {
    uint64_t key;
    struct list runs; /* struct live.repeat, in the order in which they were handed out */
};

static struct id map_key(uint64_t key)
{
    return (struct id){0, key};
}

void engine_repeat_add(struct engine *e, struct live *l, uint64_t key)
{
    if (!key)
        return;
    struct claim_runs *c = idmap_get(&e->repeats, map_key(key));
    if (!c) {
        c = ALLOC(struct claim_runs);
        c->key = key;
        list_init(&c->runs);
        idmap_put(&e->repeats, map_key(key), c);
    }
    must(!l->claim);
    l->claim = c;
    list_init(&l->repeat);
    list_append(&c->runs, &l->repeat);
}

void engine_repeat_remove(struct engine *e, struct live *l)
{
    struct claim_runs *c = l->claim;
    if (!c)
        return;
    l->claim = NULL;
    list_unlink(&l->repeat);
    if (!list_is_empty(&c->runs))
        return;
    must(idmap_remove(&e->repeats, map_key(c->key)) == c);
    free(c);
}

uint64_t engine_repeat_key(const struct live *l)
{
    return l->claim ? l->claim->key : 0;
}

struct err engine_claim_again(struct engine *e, instant now, uint64_t key, span lease,
                              struct arena *a, struct handout **list, size_t *count)
{
    const struct claim_runs *c = idmap_get(&e->repeats, map_key(key));
    size_t n = 0;
    *count = 0;
    *list = NULL;
    if (!c)
        return err_none();
    LIST_EACH (node, &c->runs)
        n++;
    *list = arena_get(a, n * sizeof **list);
    LIST_EACH (node, &c->runs) {
        struct live *l = LIST_OF(node, struct live, repeat);
        engine_lease_set(e, now, l, lease);
        l->lapsed = false;
        engine_lease_store(e, l);
        struct err err = engine_hand_out_again(e, now, l, a, &(*list)[*count]);
        if (err.code == ERR_OK)
            ++*count;
        else if (err.code != ERR_CORRUPT) /* a damaged job is set apart by whoever finds it */
            return err;
    }
    return err_none();
}

void engine_repeat_fini(struct engine *e)
{
    for (size_t i = 0; i < e->repeats.cap; i++)
        free(e->repeats.slots[i].val);
    idmap_fini(&e->repeats);
}
