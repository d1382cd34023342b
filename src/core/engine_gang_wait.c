/* SPDX-License-Identifier: Apache-2.0 */

/* Gangs that are not handed out because they lack members, and their end. Its sender may be gone,
 * or a member be dead whose place nobody takes: then the others would wait for ever. */

#include <stdio.h>

#include "base/duration.h"
#include "base/must.h"
#include "core/engine_gang_internal.h"

static struct btree_entry entry_of(const struct gang *g)
{
    return (struct btree_entry){(uint64_t)g->since.ms, g->number, 0, (uint64_t)(uintptr_t)g};
}

static bool is_waiting(const struct gang *g)
{
    return !g->formed && !g->shape && g->count > 0;
}

void engine_gang_wait_update(struct engine *e, struct gang *g)
{
    bool waits = is_waiting(g);
    if (waits && !g->waits)
        must(btree_put(&e->open_waits.gangs, entry_of(g)));
    if (!waits && g->waits)
        must(btree_remove(&e->open_waits.gangs, entry_of(g), NULL));
    g->waits = waits;
}

void engine_gang_wait_since(struct engine *e, struct gang *g, instant at)
{
    if (at.ms <= g->since.ms)
        return;
    if (g->waits)
        must(btree_remove(&e->open_waits.gangs, entry_of(g), NULL));
    g->since = at;
    if (g->waits)
        must(btree_put(&e->open_waits.gangs, entry_of(g)));
}

void engine_gang_wait_check(const struct engine *e, const struct gang *g)
{
    struct btree_entry key = entry_of(g), found;
    must(g->waits == is_waiting(g));
    must(!g->waits || (btree_at_least(&e->open_waits.gangs, key, &found) && found.val == key.val));
}

/* --- the end --- */

struct id *engine_gang_ids(const struct gang *g, struct arena *a)
{
    struct id *ids = arena_get(a, g->count * sizeof *ids), *id = ids;
    for (const struct list *n = g->members.next; n != &g->members; n = n->next)
        *id++ = LIST_OF(n, const struct gang_member, node)->id;
    return ids;
}

/* Since when nothing but other members is missing; as long as one of those that are there waits for
 * something else, which has an end of its own: since now. */
static struct err waits_since(struct engine *e, instant now, const struct gang *g,
                              const struct id *ids, instant *since)
{
    struct arena scratch = {0};
    struct job job;
    struct job_extent extent;
    struct err err = err_none();
    *since = g->since;
    for (uint32_t i = 0; i < g->count && err.code == ERR_OK; i++) {
        arena_reset(&scratch);
        err = engine_read(e, now, ids[i], false, &scratch, &job, &extent);
        if (err.code == ERR_OK)
            *since =
                instant_max(*since, job.state.status == STATUS_READY ? job.state.ready_at : now);
    }
    arena_fini(&scratch);
    return err;
}

static struct str missing_words(const struct engine *e, const struct gang *g, struct arena *a)
{
    struct buf b = {0};
    buf_print(&b, "dead: its gang '%.*s' had %u of its %llu members, and no others came within ",
              STR_ARG(g->name), g->count, (unsigned long long)g->size);
    duration_write(&b, e->settings.gang_wait_max);
    struct str words = arena_copy(a, buf_view(&b));
    buf_fini(&b);
    return words;
}

static struct str circle_words(const struct gang *g, struct arena *a)
{
    struct buf b = {0};
    buf_print(&b, "dead: its gang '%.*s' could never run: one of its members waits for another",
              STR_ARG(g->name));
    struct str words = arena_copy(a, buf_view(&b));
    buf_fini(&b);
    return words;
}

/* With the last of them the gang is gone. */
static struct err end_all(struct engine *e, instant now, const struct id *ids, uint32_t count,
                          struct str reason)
{
    struct arena scratch = {0};
    struct job job;
    struct job_extent extent;
    struct err err = err_none();
    for (uint32_t i = 0; i < count && err.code == ERR_OK; i++) {
        arena_reset(&scratch);
        err = engine_read(e, now, ids[i], false, &scratch, &job, &extent);
        if (err.code != ERR_OK)
            break;
        job.state.reason = reason;
        engine_end_waiting(e, now, &job, &extent, EVENT_ABANDON, RESOLUTION_WAIT);
    }
    arena_fini(&scratch);
    return err;
}

static struct err wait_over(struct engine *e, instant now, struct gang *g, struct arena *a)
{
    struct id *ids = engine_gang_ids(g, a);
    instant since;
    TRY(waits_since(e, now, g, ids, &since));
    if (engine_waits_end(e, since, e->settings.gang_wait_max).ms <= now.ms)
        return end_all(e, now, ids, g->count, missing_words(e, g, a));
    if (engine_gang_waits_for_itself(e, g))
        return end_all(e, now, ids, g->count, circle_words(g, a));
    engine_gang_wait_since(e, g, since);
    return err_none();
}

struct err engine_gang_waits_advance(struct engine *e, instant now, size_t *most, bool *more)
{
    struct btree_entry first;
    struct arena scratch = {0};
    struct err err = err_none();
    span max = e->settings.gang_wait_max;
    while (err.code == ERR_OK && max.ms && btree_first(&e->open_waits.gangs, &first) &&
           engine_waits_end(e, (instant){(int64_t)first.major}, max).ms <= now.ms) {
        if (*most == 0) {
            *more = true;
            break;
        }
        struct gang *g = (struct gang *)(uintptr_t)first.val;
        *most -= g->count < *most ? g->count : *most;
        arena_reset(&scratch);
        err = wait_over(e, now, g, &scratch);
    }
    arena_fini(&scratch);
    return err;
}
