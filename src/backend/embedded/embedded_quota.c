/* SPDX-License-Identifier: Apache-2.0 */

/* What one sender may have at most (struct enqueue_quota), so that no other finds the server's
 * limits reached. */

#include "backend/embedded/embedded_reach.h"
#include "base/mark.h"
#include "core/engine_budget.h"
#include "core/engine_makers.h"

/* --- budgets --- */

/* Those that it would make, each counted as often as it is named: an estimate from above. */
static size_t made_by(struct embedded *b, const struct enqueue *spec)
{
    size_t n = 0;
    struct budget_view view;
    for (size_t i = 0; i < spec->budget_create_count; i++) {
        struct str key = spec->budget_creates[i].key;
        n += engine_budget_read(b->engine, b->now, key, &view).code != ERR_OK;
    }
    return n;
}

/* Whoever may not make budgets otherwise leaves an eighth of them to those who may. */
static struct err check_budgets(struct embedded *b, const struct command *c)
{
    const struct enqueue_quota *q = c->enqueue.quota;
    size_t made = 0, most = engine_budget_most(b->engine);
    for (size_t i = 0; i < c->enqueue.count; i++)
        made += made_by(b, &c->enqueue.specs[i]);
    if (!made)
        return err_none();
    if (!q->operates && engine_budget_count(b->engine) + made > most - most / 8)
        return err_make(ERR_QUOTA,
                        "create_with: of the server's %zu budgets the last %zu can be "
                        "made by operators only",
                        most, most / 8);
    if (q->budgets && engine_budget_count_marked(b->engine, q->mark) + made > q->budgets)
        return err_make(ERR_QUOTA, "create_with: these credentials may have %llu budgets",
                        (unsigned long long)q->budgets);
    return err_none();
}

/* --- waiting jobs and their keys --- */

/* Jobs whose key another one holds are not added, as far as can be told without reading: repeating
 * an enqueue is what keys are for, and goes on to work at the limit. */
static void count_new(struct embedded *b, const struct command *c, uint64_t *jobs, uint64_t *keys)
{
    for (size_t i = 0; i < c->enqueue.count; i++) {
        const struct enqueue *spec = &c->enqueue.specs[i];
        if (engine_unique_total(b->engine, spec, 1) > 0)
            continue;
        ++*jobs;
        *keys += spec->unique_while != UNIQUE_NONE;
        *keys += spec->options.alias.len > 0;
    }
}

static struct err check_jobs(struct embedded *b, const struct command *c)
{
    const struct enqueue_quota *q = c->enqueue.quota;
    struct maker_holds has = engine_maker_holds(b->engine, q->maker);
    uint64_t more = 0, keys = 0;
    count_new(b, c, &more, &keys);
    if (q->waiting && more && has.waiting + more > q->waiting)
        return err_make(ERR_QUOTA,
                        "%llu jobs of these credentials wait; with %llu more they would "
                        "exceed their quota of %llu",
                        (unsigned long long)has.waiting, (unsigned long long)more,
                        (unsigned long long)q->waiting);
    if (q->keys && keys && has.keys + keys > q->keys)
        return err_make(ERR_QUOTA,
                        "jobs of these credentials hold %llu unique keys and aliases; "
                        "with %llu more they would exceed their quota of %llu",
                        (unsigned long long)has.keys, (unsigned long long)keys,
                        (unsigned long long)q->keys);
    return err_none();
}

struct err embedded_quota_check(struct embedded *b, const struct command *c)
{
    TRY(check_budgets(b, c));
    return c->enqueue.quota->maker ? check_jobs(b, c) : err_none();
}

const struct enqueue_quota *embedded_own_quota(struct arena *a, const struct enqueue_quota *quota)
{
    if (!quota)
        return NULL;
    struct enqueue_quota *own = ARENA_NEW(a, struct enqueue_quota);
    *own = *quota;
    own->mark = arena_copy(a, quota->mark);
    return own;
}
