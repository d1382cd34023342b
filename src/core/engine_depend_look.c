/* SPDX-License-Identifier: Apache-2.0 */

/* Looking at the jobs that new ones are to wait for, before these are added. A request may name
 * very many, which takes several turns: what was seen is kept, and kept true, until the last of
 * those who look is done. */

#include "base/must.h"
#include "core/depend.h"
#include "core/engine_internal.h"

/* --- what was seen --- */

/* idmap has no NULL. */
static void *value_of(enum status s)
{
    return (void *)((uintptr_t)s + 1);
}

static bool was_seen(const struct engine *e, struct id id, enum status *s)
{
    uintptr_t value = (uintptr_t)idmap_get(&e->seen, id);
    if (value)
        *s = (enum status)(value - 1);
    return value != 0;
}

void engine_depend_hold(struct engine *e)
{
    e->looking++;
}

void engine_depend_release(struct engine *e)
{
    if (!e || e->looking == 0)
        return; /* held of an engine that was dropped since */
    if (--e->looking == 0)
        idmap_fini(&e->seen);
}

/* That a job has completed counts also when it is gone. One that was dead when it was seen may be
 * purged since: whoever waited for it then would wait for ever. */
void engine_depend_changed(struct engine *e, const struct job_event *ev)
{
    enum status s;
    if (e->looking == 0 || ev->from == STATUS_COMPLETED || !was_seen(e, ev->id, &s))
        return;
    idmap_put(&e->seen, ev->id, value_of(ev->to));
}

struct err engine_depend_status(struct engine *e, instant now, struct id id, enum status *status)
{
    struct arena scratch = {0};
    struct job job;
    struct job_extent extent;
    if (was_seen(e, id, status))
        return err_none();
    struct err err = engine_read(e, now, id, false, &scratch, &job, &extent);
    *status = err.code == ERR_OK ? job.state.status : STATUS_GONE;
    if (err.code == ERR_OK && e->looking)
        idmap_put(&e->seen, id, value_of(*status));
    arena_fini(&scratch);
    return err;
}

/* --- looking --- */

size_t engine_depend_total(const struct enqueue *specs, size_t count)
{
    size_t total = 0;
    for (size_t i = 0; i < count; i++)
        total += depend_count(specs[i].options.depends_on);
    return total;
}

static bool any_batched(const struct enqueue *specs, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (specs[i].batch.key.len)
            return true;
    return false;
}

static struct err missing(size_t i, const char *why)
{
    return err_make(ERR_UNPROCESSABLE,
                    "depends_on[%zu]: %s (one whose retention was over when it ended is gone, too)",
                    i, why);
}

static struct err of_job(size_t count, size_t job, struct err err)
{
    if (err.code == ERR_UNPROCESSABLE && count > 1)
        return err_make(err.code, "jobs[%zu]: %s", job, err.msg);
    return err;
}

struct err engine_depend_missing(size_t count, size_t job, size_t i, struct id id)
{
    return of_job(count, job, missing(i, engine_no_job(id).msg));
}

/* The one at `i` of the job at `place`. */
static struct err look_at(struct engine *e, instant now, const struct enqueue *spec, size_t place,
                          bool batched, size_t i)
{
    struct id id = depend_at(spec->options.depends_on, i);
    enum status status;
    uint32_t index;
    if (depend_is_earlier(id, &index)) {
        if (batched)
            return err_make(ERR_UNPROCESSABLE,
                            "depends_on[%zu]: where some jobs are batched, only ids can name jobs",
                            i);
        if (index >= place)
            return err_make(ERR_UNPROCESSABLE,
                            "depends_on[%zu]: %u is not an earlier job of this request", i, index);
        return err_none();
    }
    struct err err = engine_depend_status(e, now, id, &status);
    if (err.code == ERR_NOT_FOUND || (err.code == ERR_OK && status == STATUS_GONE))
        return missing(i, err.code == ERR_OK ? "the job was deleted" : err.msg);
    return err;
}

struct err engine_depend_look(struct engine *e, instant now, const struct enqueue *specs,
                              size_t count, struct depend_place *at, size_t most)
{
    bool batched = any_batched(specs, count);
    for (; at->job < count; at->job++, at->id = 0) {
        const struct enqueue *spec = &specs[at->job];
        for (; at->id < depend_count(spec->options.depends_on); at->id++) {
            if (most-- == 0)
                return err_none();
            struct err err = look_at(e, now, spec, at->job, batched, at->id);
            TRY(of_job(count, at->job, err));
        }
    }
    return err_none();
}

struct err engine_depend_check(struct engine *e, instant now, const struct enqueue *specs,
                               size_t count)
{
    struct depend_place at = {0};
    if (engine_depend_total(specs, count) == 0)
        return err_none();
    return engine_depend_look(e, now, specs, count, &at, SIZE_MAX);
}
