/* SPDX-License-Identifier: Apache-2.0 */

/* Deadlines of jobs: a job that has one and has not ended when it comes is dead, whatever it was
 * doing. They lie in a tree of their own, since a job may have its ready_at, the end of its lease
 * and its deadline in the same millisecond; and by id, so that the end of a job finds its own
 * without reading the job back. */

#include "base/must.h"
#include "core/engine_internal.h"

static struct btree_entry entry_of(int64_t ms, struct id id)
{
    return (struct btree_entry){(uint64_t)ms, id.hi, id.lo, 0};
}

/* The map holds pointers; a deadline is never 0. */
static void *as_pointer(instant at)
{
    return (void *)(uintptr_t)at.ms;
}

void engine_end_by_add(struct engine *e, const struct job *job)
{
    instant at = job->options.deadline;
    if (at.ms == 0)
        return;
    must(btree_put(&e->end_by, entry_of(at.ms, job->id)));
    idmap_put(&e->end_by_ids, job->id, as_pointer(at));
}

void engine_end_by_drop(struct engine *e, struct id id)
{
    void *at = e->end_by_ids.count ? idmap_remove(&e->end_by_ids, id) : NULL;
    if (at)
        must(btree_remove(&e->end_by, entry_of((int64_t)(uintptr_t)at, id), NULL));
}

static struct err overrun(struct engine *e, instant now, struct id id, struct arena *a)
{
    struct job job;
    struct job_extent extent;
    TRY(engine_read(e, now, id, false, a, &job, &extent));
    job.state.reason = STR("dead: its deadline came before it had ended");
    TRY(engine_gang_fall(e, now, id, job.state.reason));
    struct live *l = idmap_get(&e->live, id);
    if (l)
        engine_abort_run(e, now, l, &job.state,
                         &(struct run_abort){EVENT_OVERRUN, RESOLUTION_DEADLINE, OUTCOME_DEADLINE});
    else
        engine_end_waiting(e, now, &job, &extent, EVENT_OVERRUN, RESOLUTION_DEADLINE);
    return err_none();
}

struct err engine_end_by_advance(struct engine *e, instant now, size_t *most, bool *more)
{
    struct btree_entry due;
    struct arena scratch = {0};
    struct err err = err_none();
    while (err.code == ERR_OK && btree_first(&e->end_by, &due) && (int64_t)due.major <= now.ms) {
        if (*most == 0) {
            *more = true;
            break;
        }
        --*most;
        arena_reset(&scratch);
        err = overrun(e, now, (struct id){due.hi, due.lo}, &scratch);
        must(err.code != ERR_OK || !idmap_get(&e->end_by_ids, (struct id){due.hi, due.lo}));
    }
    arena_fini(&scratch);
    return err;
}

bool engine_end_by_next(const struct engine *e, instant *at)
{
    struct btree_entry due;
    if (!btree_first(&e->end_by, &due))
        return false;
    at->ms = (int64_t)due.major;
    return true;
}

void engine_end_by_fini(struct engine *e)
{
    btree_fini(&e->end_by);
    idmap_fini(&e->end_by_ids);
}

void engine_end_by_check(const struct engine *e)
{
    btree_check(&e->end_by);
    must(e->end_by.count == e->end_by_ids.count);
}
