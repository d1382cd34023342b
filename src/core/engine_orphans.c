/* SPDX-License-Identifier: Apache-2.0 */

/* Blocked jobs that have missed the end of what they wait for. The end of a job and what follows
 * for others are one batch, so there should be none; but older versions left some behind, and so
 * does a salvage of damaged data, or a record of an undo that cannot be read. A walk over all
 * blocked jobs, in slices after each start, finds them. */

#include "base/must.h"
#include "core/depend.h"
#include "core/engine_internal.h"

#define SLICE    100 /* jobs in a turn */
#define AGAIN_MS 3600000

/* What was deleted may come back as long as that can be undone. */
static bool may_come_back(const struct engine *e)
{
    return e->port.keeps_deleted && e->port.keeps_deleted(e->port.ctx);
}

bool engine_orphans_come(const struct engine *e)
{
    return e->open_waits.orphans.runs || e->open_waits.orphans.again.ms;
}

struct err engine_awaited_end(const struct engine *e, struct id id, bool *ended,
                              enum depend_end *end)
{
    struct arena scratch = {0};
    struct job job = {0};
    struct job_extent extent;
    struct err err = e->port.load_job(e->port.ctx, id, PORT_STATE, &scratch, &job, &extent);
    enum status status = job.state.status;
    arena_fini(&scratch);
    if (err.code == ERR_NOT_FOUND) {
        *ended = !e->port.is_damaged || !e->port.is_damaged(e->port.ctx, id);
        *end = DEPEND_GONE;
        return err_none();
    }
    *ended = err.code == ERR_OK && lifecycle_is_terminal(status);
    *end = status == STATUS_COMPLETED ? DEPEND_COMPLETED : DEPEND_DEAD;
    return err;
}

/* What was deleted has not ended while that can be undone: it is looked at again later. */
static struct err find_end(struct engine *e, struct id id, bool *ended, enum depend_end *end)
{
    TRY(engine_awaited_end(e, id, ended, end));
    if (*ended && *end == DEPEND_GONE && may_come_back(e)) {
        *ended = false;
        e->open_waits.orphans.postponed = true;
    }
    return err_none();
}

/* One that is dead may keep it waiting; it has been told. */
static bool is_news(const struct job *job, enum depend_end end)
{
    return end != DEPEND_DEAD || job->state.reason.len == 0;
}

static struct err look_at(struct engine *e, struct id id, struct arena *a)
{
    struct job job = {0};
    struct job_extent extent;
    struct err err = e->port.load_job(e->port.ctx, id, PORT_STATE, a, &job, &extent);
    struct str ids = job.state.extras.waits_for;
    if (err.code != ERR_OK || job.state.status != STATUS_BLOCKED)
        return err.code == ERR_NOT_FOUND ? err_none() : err;
    for (size_t i = 0; i < depend_count(ids); i++) {
        enum depend_end end = DEPEND_GONE;
        bool ended;
        TRY(find_end(e, depend_at(ids, i), &ended, &end));
        if (ended && is_news(&job, end))
            engine_depend_tell(e, depend_at(ids, i), end, id);
    }
    return err_none();
}

static void end_walk(struct orphan_walk *o, instant now)
{
    instant again = o->postponed ? instant_add(now, (span){AGAIN_MS}) : (instant){0};
    *o = (struct orphan_walk){.again = again};
}

struct err engine_orphans_advance(struct engine *e, instant now, size_t *most, bool *more)
{
    struct orphan_walk *o = &e->open_waits.orphans;
    struct arena scratch = {0};
    struct err err = err_none();
    size_t left = *most < SLICE ? *most : SLICE;
    if (!o->runs && o->again.ms && o->again.ms <= now.ms)
        *o = (struct orphan_walk){.runs = true};
    /* Whoever is still to be notified has missed nothing. */
    if (!o->runs || !list_is_empty(&e->settling))
        return err_none();
    while (err.code == ERR_OK && left > 0 && o->runs) {
        if (!btree_after(&e->odd, o->at, &o->at)) {
            end_walk(o, now);
            break;
        }
        if (!(o->at.val & ODD_BLOCKED))
            continue;
        left--;
        --*most;
        arena_reset(&scratch);
        err = look_at(e, (struct id){o->at.hi, o->at.lo}, &scratch);
    }
    arena_fini(&scratch);
    *more |= o->runs;
    return err;
}
