/* SPDX-License-Identifier: Apache-2.0 */

/* Waits that only somebody outside can end, and what becomes of a job when nobody does. */

#include "core/engine_waits.h"

#include <stdio.h>

#include "base/duration.h"
#include "base/must.h"
#include "core/engine_internal.h"

/* After a start whoever was to free jobs, or to send more of them, may have to come back first. */
#define GRACE_MS 600000

instant engine_waits_end(const struct engine *e, instant since, span most)
{
    span grace = {most.ms < GRACE_MS ? most.ms : GRACE_MS};
    instant began = instant_add(e->open_waits.began, e->lead);
    return instant_max(instant_add(since, most), instant_add(began, grace));
}

void engine_waits_begin(struct engine *e, instant now)
{
    e->open_waits.began = engine_steady(e, now);
    e->open_waits.orphans = (struct orphan_walk){.runs = e->odd.count > 0};
}

/* --- held jobs --- */

/* One with a deadline ends by that. Before its ready_at it would wait anyway. */
static bool is_limited(const struct job *job)
{
    return job->state.extras.held && job->options.deadline.ms == 0;
}

static struct btree_entry entry_of(const struct job *job)
{
    instant since = instant_max(id_time(job->id), job->state.ready_at);
    return (struct btree_entry){(uint64_t)since.ms, job->id.hi, job->id.lo, 0};
}

void engine_waits_hold(struct engine *e, const struct job *job)
{
    if (is_limited(job))
        must(btree_put(&e->open_waits.held, entry_of(job)));
}

void engine_waits_free(struct engine *e, const struct job *job)
{
    if (is_limited(job))
        must(btree_remove(&e->open_waits.held, entry_of(job), NULL));
}

bool engine_waits_hold_end(const struct engine *e, const struct job *job, instant *end)
{
    if (!is_limited(job) || e->settings.hold_max.ms == 0)
        return false;
    *end = engine_waits_end(e, (instant){(int64_t)entry_of(job).major}, e->settings.hold_max);
    return true;
}

bool engine_waits_has(const struct engine *e, const struct job *job)
{
    struct btree_entry key = entry_of(job), found;
    return !is_limited(job) ||
           (btree_at_least(&e->open_waits.held, key, &found) && found.major == key.major &&
            found.hi == key.hi && found.lo == key.lo);
}

static bool held_due(const struct engine *e, struct btree_entry *first, instant *at)
{
    if (e->settings.hold_max.ms == 0 || !btree_first(&e->open_waits.held, first))
        return false;
    *at = engine_waits_end(e, (instant){(int64_t)first->major}, e->settings.hold_max);
    return true;
}

static struct err end_held(struct engine *e, instant now, struct id id, struct arena *a)
{
    struct job job;
    struct job_extent extent;
    struct buf reason = {0};
    TRY(engine_read(e, now, id, false, a, &job, &extent));
    buf_lit(&reason, "dead: it was held, and nobody freed it within ");
    duration_write(&reason, e->settings.hold_max);
    job.state.reason = arena_copy(a, buf_view(&reason));
    buf_fini(&reason);
    engine_end_waiting(e, now, &job, &extent, EVENT_ABANDON, RESOLUTION_WAIT);
    return err_none();
}

static struct err held_advance(struct engine *e, instant now, size_t *most, bool *more)
{
    struct btree_entry first;
    struct arena scratch = {0};
    struct err err = err_none();
    instant at;
    while (err.code == ERR_OK && held_due(e, &first, &at) && at.ms <= now.ms) {
        if (*most == 0) {
            *more = true;
            break;
        }
        --*most;
        arena_reset(&scratch);
        err = end_held(e, now, (struct id){first.hi, first.lo}, &scratch);
    }
    arena_fini(&scratch);
    return err;
}

/* --- all of them --- */

struct err engine_waits_advance(struct engine *e, instant now, size_t *most, bool *more)
{
    TRY(held_advance(e, now, most, more));
    TRY(engine_gang_waits_advance(e, now, most, more));
    return engine_orphans_advance(e, now, most, more);
}

static void take_earlier(instant at, instant *earliest, bool *any)
{
    if (!*any || at.ms < earliest->ms)
        *earliest = at;
    *any = true;
}

bool engine_waits_next(const struct engine *e, instant *at)
{
    const struct orphan_walk *o = &e->open_waits.orphans;
    struct btree_entry first;
    instant end;
    bool any = held_due(e, &first, at);
    if (e->settings.gang_wait_max.ms && btree_first(&e->open_waits.gangs, &first)) {
        end = engine_waits_end(e, (instant){(int64_t)first.major}, e->settings.gang_wait_max);
        take_earlier(end, at, &any);
    }
    if (o->runs)
        take_earlier((instant){0}, at, &any);
    else if (o->again.ms)
        take_earlier(o->again, at, &any);
    return any;
}

void engine_waits_check(const struct engine *e)
{
    btree_check(&e->open_waits.held);
    btree_check(&e->open_waits.gangs);
}

void engine_waits_fini(struct engine *e)
{
    btree_fini(&e->open_waits.held);
    btree_fini(&e->open_waits.gangs);
}
