/* SPDX-License-Identifier: Apache-2.0 */

/* Commands of somebody who is limited to some queues (struct command, reach). What lies in other
 * queues is answered as if it were not there, with the same words. */

#include "backend/embedded/embedded_internal.h"
#include "base/glob.h"

/* Dependencies and keys of one enqueue that are looked up at once, which takes some
 * milliseconds. */
#define LOOKED_UP_MAX 1000

static struct err reaches(struct embedded *b, struct glob_list reach, struct id id, bool *does)
{
    struct arena scratch = {0};
    struct job job;
    struct job_extent extent;
    struct err err = engine_read(b->engine, b->now, id, false, &scratch, &job, &extent);
    *does = err.code == ERR_OK && glob_list_matches(reach, job.queue);
    arena_fini(&scratch);
    return err.code == ERR_NOT_FOUND ? err_none() : err;
}

struct err embedded_reach_job(struct embedded *b, struct glob_list reach, struct id id)
{
    bool does;
    TRY(reaches(b, reach, id, &does));
    return does ? err_none() : engine_no_job(id);
}

/* --- what an enqueue names --- */

static struct err check_depends(struct embedded *b, const struct command *c, size_t job)
{
    struct str ids = c->enqueue.specs[job].options.depends_on;
    uint32_t index;
    for (size_t i = 0; i < depend_count(ids); i++) {
        struct id id = depend_at(ids, i);
        bool does;
        if (depend_is_earlier(id, &index))
            continue;
        TRY(reaches(b, c->reach, id, &does));
        if (!does)
            return engine_depend_missing(c->enqueue.count, job, i, id);
    }
    return err_none();
}

/* Of a key that a job of another queue holds nothing is said but that it is taken: the enqueue
 * cannot be done, and its answer would show that job. */
static struct err taken(const struct command *c, size_t job, const char *what)
{
    return c->enqueue.count > 1
               ? err_make(ERR_CONFLICT, "jobs[%zu]: another job has its %s", job, what)
               : err_make(ERR_CONFLICT, "another job has its %s", what);
}

static struct err check_keys(struct embedded *b, const struct command *c, size_t i, struct arena *a)
{
    const struct enqueue *spec = &c->enqueue.specs[i];
    struct job holder;
    struct foldable folds;
    bool found = false;
    if (spec->unique_while)
        TRY(engine_unique_find(b->engine, b->now, spec->unique_key, a, &holder, &found));
    if (found && !glob_list_matches(c->reach, holder.queue))
        return taken(c, i, "unique_key");
    found = false;
    if (spec->options.alias.len)
        TRY(engine_alias_find(b->engine, b->now, spec->options.alias, a, &holder, &found));
    if (found && !glob_list_matches(c->reach, holder.queue))
        return taken(c, i, "alias");
    found = false;
    if (spec->batch.key.len)
        TRY(engine_fold_find(b->engine, b->now, spec->batch.key, a, &folds, &found));
    return found && !glob_list_matches(c->reach, folds.now.queue) ? taken(c, i, "batch key")
                                                                  : err_none();
}

struct err embedded_reach_enqueue(struct embedded *b, const struct command *c)
{
    const struct enqueue *specs = c->enqueue.specs;
    size_t looked_up = engine_depend_total(specs, c->enqueue.count);
    for (size_t i = 0; i < c->enqueue.count; i++)
        looked_up += (size_t)(specs[i].unique_while != 0) + (specs[i].options.alias.len > 0) +
                     (specs[i].batch.key.len > 0);
    if (looked_up > LOOKED_UP_MAX)
        return err_make(ERR_TOO_MANY,
                        "credentials that are limited to queues may name at most %d dependencies "
                        "and keys in one request",
                        LOOKED_UP_MAX);
    struct err err = err_none();
    for (size_t i = 0; i < c->enqueue.count && err.code == ERR_OK; i++) {
        struct arena scratch = {0};
        err = check_depends(b, c, i);
        if (err.code == ERR_OK)
            err = check_keys(b, c, i, &scratch);
        arena_fini(&scratch);
    }
    return err;
}
