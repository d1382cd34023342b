/* SPDX-License-Identifier: Apache-2.0 */

/* Which token was handed which run. A worker proves that it holds a run by the run's token, which
 * only it was given; workers that report without it, as Zizq's do, are known by this table. It is
 * in memory and forgets the oldest hand-outs, so that its size is bounded. */

#include <stdlib.h>

#include "api/api_access.h"
#include "base/alloc.h"
#include "base/idmap.h"

#define GENERATION_MAX 100000 /* hand-outs; two generations are kept */

struct holding {
    const struct token *holder;
    uint64_t run_token;
};

struct generation {
    struct idmap map; /* of struct holding, in the arena */
    struct arena memory;
};

struct held {
    struct generation young, old;
};

struct held *api_held_new(void)
{
    return ALLOC(struct held);
}

static void drop(struct generation *g)
{
    idmap_fini(&g->map);
    arena_fini(&g->memory);
    *g = (struct generation){0};
}

void api_held_free(struct held *h)
{
    drop(&h->young);
    drop(&h->old);
    free(h);
}

static const struct holding *find(const struct held *h, struct id job)
{
    const struct holding *found = idmap_get(&h->young.map, job);
    return found ? found : idmap_get(&h->old.map, job);
}

void api_held_note(struct api *a, const struct token *holder, struct id job, uint64_t run_token)
{
    struct held *h = a->held;
    if (!holder) {
        idmap_remove(&h->young.map, job);
        idmap_remove(&h->old.map, job);
        return;
    }
    if (h->young.map.count >= GENERATION_MAX) {
        drop(&h->old);
        h->old = h->young;
        h->young = (struct generation){0};
    }
    struct holding *one = idmap_get(&h->young.map, job);
    if (!one)
        one = ARENA_NEW(&h->young.memory, struct holding);
    *one = (struct holding){holder, run_token};
    idmap_put(&h->young.map, job, one);
}

/* Who may change jobs anyway, or is nobody in particular, need not hold what is reported. */
static bool must_hold(const struct api_request *r)
{
    return r->token && !rights_have(r->rights, RIGHT_OPERATE);
}

struct err api_may_report(const struct api *a, const struct api_request *r, struct run_ref *ref)
{
    if (!must_hold(r) || ref->token)
        return err_none();
    const struct holding *one = find(a->held, ref->id);
    if (!one || one->holder != r->token)
        return err_make(ERR_NO_RIGHT, "a worker reports only runs that it holds: the report needs "
                                      "the token of its run");
    ref->token = one->run_token;
    return err_none();
}

bool api_holds(const struct api *a, const struct api_request *r, struct id job)
{
    if (!must_hold(r) && !r->rights->queues.count)
        return true;
    const struct holding *one = find(a->held, job);
    return one && one->holder == r->token;
}

bool api_held_by_other(const struct api *a, const struct token *who, struct id job)
{
    const struct holding *one = find(a->held, job);
    return one && one->holder != who;
}
