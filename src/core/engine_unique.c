/* SPDX-License-Identifier: Apache-2.0 */

/* Unique keys. A job holds its key exactly while its status is within the scope it
 * asked for, so who holds a key follows from the jobs themselves: nothing about it is stored,
 * and a lock can never outlive its job. Two jobs may come to hold one key (the first was in flight
 * when the second was enqueued, and is queued again); then others are kept out until both let go.
 */

#include "base/must.h"
#include "core/engine_internal.h"

bool engine_unique_holds(enum unique scope, enum status status)
{
    switch (scope) {
    case UNIQUE_NONE:
        return false;
    case UNIQUE_QUEUED:
        return status == STATUS_BLOCKED || status == STATUS_SCHEDULED || status == STATUS_READY;
    case UNIQUE_ACTIVE:
        return !lifecycle_is_terminal(status);
    case UNIQUE_EXISTS:
        return true;
    case UNIQUE_COUNT:
        break;
    }
    must(false);
    return false;
}

struct unique_ref engine_unique_ref(const struct engine *e, const struct job *job)
{
    if (job->unique_while == UNIQUE_NONE)
        return (struct unique_ref){UNIQUE_NONE, 0};
    return (struct unique_ref){job->unique_while, strmap_hash(e->unique_seed, job->unique_key)};
}

void engine_unique_move(struct engine *e, struct unique_ref u, struct id id, enum status from,
                        enum status to)
{
    bool held = from < STATUS_COUNT && engine_unique_holds(u.scope, from);
    bool holds = to < STATUS_COUNT && engine_unique_holds(u.scope, to);
    struct btree_entry entry = {u.hash, id.hi, id.lo, 0};
    if (held && !holds)
        must(btree_remove(&e->unique, entry, NULL));
    if (!held && holds)
        must(btree_put(&e->unique, entry));
}

struct err engine_unique_find(struct engine *e, instant now, struct str key, struct arena *a,
                              struct job *holder, bool *found)
{
    uint64_t hash = strmap_hash(e->unique_seed, key);
    struct btree_entry at = {hash, 0, 0, 0};
    *found = false;
    while (btree_after(&e->unique, at, &at) && at.major == hash) {
        struct job_extent extent;
        struct err err = engine_read(e, now, (struct id){at.hi, at.lo}, false, a, holder, &extent);
        if (err.code == ERR_NOT_FOUND)
            continue; /* its retention is over: it is as good as gone */
        TRY(err);
        *found = str_eq(holder->unique_key, key);
        if (*found)
            break;
    }
    return err_none();
}
