/* SPDX-License-Identifier: Apache-2.0 */

/* The groups of failures (core/failure_groups.h): counted in memory as failures come, written with
 * the batch of these failures, each group once per batch, and read at a start. */

#include <stdlib.h>

#include "backend/embedded/embedded_internal.h"
#include "base/must.h"

/* What is let go in one turn once it is over the limit or too old. */
#define TRIM_PER_TURN 500

/* What was seen before is forgotten. */
static instant oldest(const struct embedded *b)
{
    return (instant){b->now.ms - b->settings.failure_group_retention.ms};
}

void embedded_failures_add(struct embedded *b, const struct history_entry *failed)
{
    size_t max = b->settings.failure_groups_max;
    if (max > 0)
        failure_groups_add(&b->failures, failed, max);
}

bool embedded_failures_trim(struct embedded *b)
{
    return failure_groups_trim(&b->failures, b->settings.failure_groups_max, oldest(b),
                               TRIM_PER_TURN);
}

bool embedded_failures_clear(struct embedded *b)
{
    return failure_groups_trim(&b->failures, 0, INSTANT_NONE, TRIM_PER_TURN);
}

/* One that is gone may have come again: then it is put after it was deleted. */
void embedded_failures_seal(struct embedded *b, struct turn *t)
{
    const struct failure_group *group;
    uint64_t gone;
    while ((gone = failure_groups_gone(&b->failures))) {
        struct record_key key = record_failure_group_key(gone);
        batch_delete(&t->batch, record_key_view(&key));
    }
    while ((group = failure_groups_changed(&b->failures)))
        record_put_failure_group(&t->batch, group);
}

/* --- recovery --- */

static struct err restore(struct embedded *b, struct store_cursor *c)
{
    struct record_key from = record_failure_group_key(0);
    struct failure_group group;
    struct str key, value;
    uint64_t f;
    store_cursor_seek(c, b->env.store, record_key_view(&from), false);
    for (; store_cursor_at(c, b->env.store, &key, &value) && record_key_is_failure_group(key, &f);
         store_cursor_step(c, b->env.store, false)) {
        TRY(record_read_failure_group(value, f, &group));
        failure_groups_restore(&b->failures, &group);
    }
    failure_groups_restored(&b->failures, b->now);
    return err_none();
}

struct err embedded_failures_recover(struct embedded *b)
{
    failure_groups_fini(&b->failures);
    struct store_cursor *c = store_cursor_new(b->env.store);
    struct err err = restore(b, c);
    struct err read = store_cursor_free(c, b->env.store);
    b->more_due |= failure_groups_count(&b->failures) > b->settings.failure_groups_max;
    return err.code == ERR_OK ? read : err;
}

/* --- commands --- */

static bool is_one_of(struct str name, const struct str *names, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (str_eq(name, names[i]))
            return true;
    return count == 0;
}

/* What is too old is on its way out. */
static bool matches(const struct embedded *b, const struct command *c,
                    const struct failure_group *g)
{
    const struct failures_query *q = c->failures;
    return g->last_seen.ms >= oldest(b).ms && g->last_seen.ms >= q->since.ms &&
           glob_list_matches(c->reach, g->queue) &&
           (!q->fingerprint || g->fingerprint == q->fingerprint) &&
           is_one_of(g->queue, q->queues, q->queue_count) &&
           is_one_of(g->type, q->types, q->type_count) &&
           (!q->culprit || g->culprits[q->culprit]) &&
           (!q->error_type.len || str_eq(g->error_type, q->error_type));
}

struct ranked {
    const struct failure_group *group;
    int64_t rank; /* the greatest comes first */
};

static int64_t rank_of(const struct embedded *b, const struct failure_group *g,
                       enum failures_order order)
{
    switch (order) {
    case FAILURES_BY_LAST_SEEN:
        return g->last_seen.ms;
    case FAILURES_BY_FIRST_SEEN:
        return g->first_seen.ms;
    case FAILURES_BY_COUNT:
        return (int64_t)g->count;
    case FAILURES_BY_LAST_HOUR:
        return (int64_t)failure_group_last_minutes(g, b->now, FAILURE_GROUP_MINUTES);
    }
    must(false);
    return 0;
}

static int by_rank(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;
    if (x->rank != y->rank)
        return x->rank > y->rank ? -1 : 1;
    return x->group->fingerprint < y->group->fingerprint ? -1 : 1;
}

/* Groups change before the reply leaves. */
static struct failure_view own_view(struct arena *a, const struct failure_group *from, instant now)
{
    struct failure_view view = {.group = *from, .now = now};
    struct failure_group *g = &view.group;
    struct str *const texts[] = {&g->queue, &g->type, &g->error_type, &g->category, &g->message};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        *texts[i] = arena_copy(a, *texts[i]);
    view.blame_count = failure_group_blames(g, view.blames);
    return view;
}

void embedded_failures_read(struct embedded *b, const struct command *c, struct reply *r)
{
    struct arena *a = &b->building->arena, scratch = {0};
    struct failures_page *page = ARENA_NEW(a, struct failures_page);
    struct ranked *all = arena_get(&scratch, failure_groups_count(&b->failures) * sizeof *all + 1);
    size_t n = 0;
    LIST_EACH (node, &b->failures.order) {
        const struct failure_group *g = LIST_OF(node, struct failure_group, order);
        if (matches(b, c, g))
            all[n++] = (struct ranked){g, rank_of(b, g, c->failures->order)};
    }
    qsort(all, n, sizeof *all, by_rank);
    size_t shown = n < c->failures->limit ? n : c->failures->limit;
    struct failure_view *views = arena_get(a, shown * sizeof *views + 1);
    for (size_t i = 0; i < shown; i++)
        views[i] = own_view(a, all[i].group, b->now);
    *page = (struct failures_page){views, shown, n, c->reach.count ? 0 : b->failures.dropped};
    r->failures = page;
    r->more = n > shown;
    arena_fini(&scratch);
}
