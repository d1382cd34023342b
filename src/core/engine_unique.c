/* SPDX-License-Identifier: Apache-2.0 */

/* Unique keys. A job holds its key exactly while its status is within the scope it
 * asked for, so who holds a key follows from the jobs themselves: nothing about it is stored,
 * and a lock can never outlive its job. Two jobs may come to hold one key (the first was in flight
 * when the second was enqueued, and is queued again); then others are kept out until both let go.
 * An alias is held by one job, as long as it exists. */

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
    struct unique_ref u = {.scope = job->unique_while,
                           .aliased = job->options.alias.len > 0,
                           .maker = job->options.maker};
    if (u.scope != UNIQUE_NONE)
        u.hash = strmap_hash(e->unique_seed, job->unique_key);
    if (u.aliased)
        u.alias = strmap_hash(e->unique_seed, job->options.alias);
    return u;
}

static void move(struct btree *tree, uint64_t hash, struct id id, bool held, bool holds)
{
    struct btree_entry entry = {hash, id.hi, id.lo, 0};
    if (held && !holds)
        must(btree_remove(tree, entry, NULL));
    if (!held && holds)
        must(btree_put(tree, entry));
}

void engine_unique_move(struct engine *e, struct unique_ref u, struct id id, enum status from,
                        enum status to)
{
    bool was = from < STATUS_COUNT, is = to < STATUS_COUNT;
    move(&e->unique, u.hash, id, was && engine_unique_holds(u.scope, from),
         is && engine_unique_holds(u.scope, to));
    if (u.aliased)
        move(&e->aliases, u.alias, id, was, is);
    if (u.maker)
        engine_maker_move(e, &u, id, from, to);
}

typedef bool (*has_fn)(const struct job *job, struct str key);

static bool has_key(const struct job *job, struct str key)
{
    return str_eq(job->unique_key, key);
}

static bool has_alias(const struct job *job, struct str alias)
{
    return str_eq(job->options.alias, alias);
}

static struct err find(struct engine *e, instant now, const struct btree *tree, has_fn has,
                       struct str key, struct arena *a, struct job *holder, bool *found)
{
    uint64_t hash = strmap_hash(e->unique_seed, key);
    struct btree_entry at = {hash, 0, 0, 0};
    *found = false;
    while (!*found && btree_after(tree, at, &at) && at.major == hash) {
        struct job_extent extent;
        struct err err = engine_read(e, now, (struct id){at.hi, at.lo}, false, a, holder, &extent);
        if (err.code == ERR_NOT_FOUND)
            continue; /* its retention is over: it is as good as gone */
        TRY(err);
        *found = has(holder, key);
    }
    return err_none();
}

struct err engine_unique_find(struct engine *e, instant now, struct str key, struct arena *a,
                              struct job *holder, bool *found)
{
    return find(e, now, &e->unique, has_key, key, a, holder, found);
}

struct err engine_alias_find(struct engine *e, instant now, struct str alias, struct arena *a,
                             struct job *holder, bool *found)
{
    return find(e, now, &e->aliases, has_alias, alias, a, holder, found);
}

/* --- looking before an enqueue of very many --- */

static bool may_be_held(const struct engine *e, const struct btree *tree, struct str key)
{
    struct btree_entry at = {strmap_hash(e->unique_seed, key), 0, 0, 0}, found;
    return btree_after(tree, at, &found) && found.major == at.major;
}

static bool needs_reading(const struct engine *e, const struct enqueue *spec)
{
    return (spec->unique_while && may_be_held(e, &e->unique, spec->unique_key)) ||
           (spec->options.alias.len && may_be_held(e, &e->aliases, spec->options.alias));
}

size_t engine_unique_total(const struct engine *e, const struct enqueue *specs, size_t count)
{
    size_t total = 0;
    for (size_t i = 0; i < count; i++)
        total += needs_reading(e, &specs[i]);
    return total;
}

static struct err look_at(struct engine *e, instant now, const struct enqueue *spec)
{
    struct arena scratch = {0};
    struct job holder;
    bool found = false;
    struct err err = err_none();
    if (spec->unique_while)
        err = engine_unique_find(e, now, spec->unique_key, &scratch, &holder, &found);
    if (err.code == ERR_OK && !found && spec->options.alias.len)
        err = engine_alias_find(e, now, spec->options.alias, &scratch, &holder, &found);
    arena_fini(&scratch);
    return err;
}

struct err engine_unique_look(struct engine *e, instant now, const struct enqueue *specs,
                              size_t count, size_t *at, size_t most)
{
    for (; *at < count && most > 0; (*at)++) {
        if (!needs_reading(e, &specs[*at]))
            continue;
        TRY(look_at(e, now, &specs[*at]));
        most--;
    }
    return err_none();
}
