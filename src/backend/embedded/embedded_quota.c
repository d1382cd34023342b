/* SPDX-License-Identifier: Apache-2.0 */

/* What one sender may have at most (struct enqueue_quota), so that no other finds the server's
 * limits reached. A request that is worked off over several turns was let in by what there was when
 * it came. */

#include "backend/embedded/embedded_reach.h"
#include "base/glob.h"
#include "base/mark.h"
#include "core/engine_budget.h"

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
    if (engine_budget_count(b->engine) + made > most - most / 8)
        return err_make(ERR_QUOTA,
                        "create_with: of the server's %zu budgets the last %zu can be "
                        "made by operators only",
                        most, most / 8);
    if (q->budgets && engine_budget_count_marked(b->engine, q->mark) + made > q->budgets)
        return err_make(ERR_QUOTA, "create_with: these credentials may have %llu budgets",
                        (unsigned long long)q->budgets);
    return err_none();
}

/* --- waiting jobs --- */

struct tally {
    struct embedded *b;
    struct glob_list reach;
    uint64_t waiting;
};

static void add_queue(void *ctx, struct str name)
{
    struct tally *t = ctx;
    uint64_t counts[STATUS_COUNT];
    if (!glob_list_matches(t->reach, name))
        return;
    engine_count(t->b->engine, name, counts);
    t->waiting += counts[STATUS_BLOCKED] + counts[STATUS_SCHEDULED] + counts[STATUS_READY];
}

static uint64_t count_waiting(struct embedded *b, struct glob_list reach)
{
    struct tally t = {.b = b, .reach = reach};
    uint64_t counts[STATUS_COUNT];
    if (reach.count) {
        engine_each_queue(b->engine, add_queue, &t);
        return t.waiting;
    }
    engine_count(b->engine, (struct str){0}, counts);
    return counts[STATUS_BLOCKED] + counts[STATUS_SCHEDULED] + counts[STATUS_READY];
}

static struct err check_waiting(struct embedded *b, const struct command *c)
{
    const struct enqueue_quota *q = c->enqueue.quota;
    if (!q->waiting)
        return err_none();
    uint64_t waiting = count_waiting(b, c->reach);
    if (waiting + c->enqueue.count <= q->waiting)
        return err_none();
    return err_make(ERR_QUOTA,
                    "%llu jobs wait in the queues of these credentials, which may have %llu there",
                    (unsigned long long)waiting, (unsigned long long)q->waiting);
}

struct err embedded_quota_check(struct embedded *b, const struct command *c)
{
    TRY(check_budgets(b, c));
    return check_waiting(b, c);
}
