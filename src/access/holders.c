/* SPDX-License-Identifier: Apache-2.0 */
#include "access/holders.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/idmap.h"

struct generation {
    struct idmap map; /* of struct holding, in the arena */
    struct arena memory;
};

struct holders {
    struct generation young, old;
};

struct holders *holders_new(void)
{
    return ALLOC(struct holders);
}

static void drop(struct generation *g)
{
    idmap_fini(&g->map);
    arena_fini(&g->memory);
    *g = (struct generation){0};
}

void holders_free(struct holders *h)
{
    if (!h)
        return;
    drop(&h->young);
    drop(&h->old);
    free(h);
}

const struct holding *holders_find(const struct holders *h, struct id job)
{
    const struct holding *found = idmap_get(&h->young.map, job);
    return found ? found : idmap_get(&h->old.map, job);
}

bool holding_is_of(const struct holding *one, const struct token *who)
{
    return str_eq((struct str){one->holder, sizeof one->holder}, token_id(who));
}

void holders_note(struct holders *h, struct id job, const struct token *holder, uint32_t run,
                  uint64_t run_token)
{
    if (!holder) {
        idmap_remove(&h->young.map, job);
        idmap_remove(&h->old.map, job);
        return;
    }
    if (h->young.map.count >= HOLDERS_GENERATION) {
        drop(&h->old);
        h->old = h->young;
        h->young = (struct generation){0};
    }
    struct holding *place = idmap_get(&h->young.map, job);
    if (!place)
        place = ARENA_NEW(&h->young.memory, struct holding);
    *place = (struct holding){.run_token = run_token, .run = run};
    memcpy(place->holder, holder->id, sizeof place->holder);
    idmap_put(&h->young.map, job, place);
}
