/* SPDX-License-Identifier: Apache-2.0 */

/* What senders that are limited to queues may name, and what their names mean. What they are shown
 * is in embedded_shown.c. */

#include "backend/embedded/embedded_reach.h"
#include "base/glob.h"
#include "base/mark.h"
#include "core/engine_budget.h"

/* Dependencies and keys of one enqueue that are looked up at once, which takes some
 * milliseconds. */
#define LOOKED_UP_MAX 1000

/* --- jobs --- */

static struct err reach_job(struct embedded *b, struct glob_list reach, struct run_ref ref)
{
    struct arena scratch = {0};
    struct job job;
    struct job_extent extent;
    struct run run;
    uint64_t token;
    struct err err = engine_read(b->engine, b->now, ref.id, false, &scratch, &job, &extent);
    if (err.code == ERR_OK && !glob_list_matches(reach, job.queue)) {
        const struct job_extras *x = &job.state.extras;
        bool holds =
            ref.token && (ref.token == x->reported_token || ref.token == x->grace_token ||
                          ref.token == x->gang_token ||
                          (engine_live_run(b->engine, ref.id, &run, &token) && ref.token == token));
        if (!holds)
            err = engine_no_job(ref.id);
    }
    arena_fini(&scratch);
    return err;
}

struct glob_list embedded_reach_own(struct arena *a, struct glob_list reach)
{
    struct str *at = arena_get(a, reach.count * sizeof *at + 1);
    for (size_t i = 0; i < reach.count; i++)
        at[i] = arena_copy(a, reach.at[i]);
    return (struct glob_list){at, reach.count};
}

struct err embedded_reach_run(struct embedded *b, struct glob_list reach, struct run_ref run)
{
    return reach.count ? reach_job(b, reach, run) : err_none();
}

/* --- what an enqueue names --- */

static struct err check_depends(struct embedded *b, const struct command *c, size_t job)
{
    struct str ids = c->enqueue.specs[job].options.depends_on;
    uint32_t index;
    for (size_t i = 0; i < depend_count(ids); i++) {
        struct id id = depend_at(ids, i);
        if (depend_is_earlier(id, &index))
            continue;
        struct err err = reach_job(b, c->reach, (struct run_ref){.id = id});
        if (err.code == ERR_NOT_FOUND)
            return engine_depend_missing(c->enqueue.count, job, i, id);
        TRY(err);
    }
    return err_none();
}

typedef struct err (*find_fn)(struct embedded *b, struct str key, struct arena *a, struct job *job,
                              bool *found);

static struct err find_unique(struct embedded *b, struct str key, struct arena *a, struct job *job,
                              bool *found)
{
    return engine_unique_find(b->engine, b->now, key, a, job, found);
}

static struct err find_alias(struct embedded *b, struct str key, struct arena *a, struct job *job,
                             bool *found)
{
    return engine_alias_find(b->engine, b->now, key, a, job, found);
}

static struct err find_batch(struct embedded *b, struct str key, struct arena *a, struct job *job,
                             bool *found)
{
    struct foldable folds;
    struct err err = engine_fold_find(b->engine, b->now, key, a, &folds, found);
    if (err.code == ERR_OK && *found)
        job->queue = folds.now.queue;
    return err;
}

/* A job of their own that was moved away has the key still. Nothing is said but that it is taken:
 * the enqueue cannot be done, and its answer would show that job. */
static struct err taken(const struct command *c, size_t job, const char *what)
{
    return c->enqueue.count > 1
               ? err_make(ERR_CONFLICT, "jobs[%zu]: another job has its %s", job, what)
               : err_make(ERR_CONFLICT, "another job has its %s", what);
}

/* A key is the sender's own, unless a job of its queues has it that was enqueued by somebody who is
 * not limited. */
static struct err mean_key(struct embedded *b, const struct command *c, size_t job, find_fn find,
                           const char *what, struct str *key)
{
    struct arena scratch = {0};
    struct job holder;
    bool found = false, shared = false;
    if (!key->len)
        return err_none();
    struct err err = find(b, mark_bare(*key), &scratch, &holder, &found);
    if (err.code == ERR_OK && found && glob_list_matches(c->reach, holder.queue)) {
        *key = mark_bare(*key);
        shared = true;
    }
    if (err.code == ERR_OK && !shared && mark_of(*key).len)
        err = find(b, *key, &scratch, &holder, &found);
    if (err.code == ERR_OK && !shared && found && mark_of(*key).len &&
        !glob_list_matches(c->reach, holder.queue))
        err = taken(c, job, what);
    arena_fini(&scratch);
    return err;
}

/* --- budgets --- */

static bool is_for_all(struct embedded *b, struct str key)
{
    struct budget_view view;
    return mark_of(key).len &&
           engine_budget_read(b->engine, b->now, mark_bare(key), &view).code == ERR_OK;
}

static void mean_budgets(struct embedded *b, struct enqueue *spec)
{
    struct arena *a = &b->building->arena;
    struct str rest = spec->options.budgets;
    struct budget_binding one;
    struct buf text = {0};
    if (!rest.len)
        return;
    while (budgets_next(&rest, &one)) {
        if (is_for_all(b, one.key))
            one.key = mark_bare(one.key);
        budgets_bind(&text, &one);
    }
    spec->options.budgets = arena_copy(a, buf_view(&text));
    buf_fini(&text);
    struct budget_create *creates = arena_get(a, spec->budget_create_count * sizeof *creates + 1);
    for (size_t i = 0; i < spec->budget_create_count; i++) {
        creates[i] = spec->budget_creates[i];
        if (is_for_all(b, creates[i].key))
            creates[i].key = mark_bare(creates[i].key);
    }
    spec->budget_creates = creates;
}

/* --- an enqueue --- */

static struct err mean_spec(struct embedded *b, const struct command *c, size_t i,
                            struct enqueue *spec)
{
    TRY(check_depends(b, c, i));
    if (spec->unique_while)
        TRY(mean_key(b, c, i, find_unique, "unique_key", &spec->unique_key));
    TRY(mean_key(b, c, i, find_alias, "alias", &spec->options.alias));
    TRY(mean_key(b, c, i, find_batch, "batch key", &spec->batch.key));
    mean_budgets(b, spec);
    return err_none();
}

static size_t looked_up_by(const struct enqueue *specs, size_t count)
{
    size_t n = engine_depend_total(specs, count);
    for (size_t i = 0; i < count; i++)
        n += (size_t)(specs[i].unique_while != 0) + (specs[i].options.alias.len > 0) +
             (specs[i].batch.key.len > 0);
    return n;
}

static struct err check_enqueue(struct embedded *b, struct command *c)
{
    size_t count = c->enqueue.count;
    if (looked_up_by(c->enqueue.specs, count) > LOOKED_UP_MAX)
        return err_make(ERR_TOO_MANY,
                        "credentials that are limited to queues may name at most %d dependencies "
                        "and keys in one request",
                        LOOKED_UP_MAX);
    struct enqueue *specs = arena_get(&b->building->arena, count * sizeof *specs + 1);
    if (count)
        memcpy(specs, c->enqueue.specs, count * sizeof *specs);
    for (size_t i = 0; i < count; i++)
        TRY(mean_spec(b, c, i, &specs[i]));
    c->enqueue.specs = specs;
    return err_none();
}

/* --- a command --- */

static struct run_ref run_of(const struct command *c)
{
    switch (c->kind) {
    case CMD_SUCCEED:
    case CMD_PROGRESS:
    case CMD_RELEASE:
        return c->run;
    case CMD_FAIL:
        return c->fail.ref;
    case CMD_TERMINATED:
        return c->terminated.run;
    case CMD_RENEW:
        return c->renew.run;
    default:
        return (struct run_ref){0};
    }
}

/* A group of those who are not limited may have jobs in the sender's queues, too. */
static void mean_group(struct embedded *b, struct command *c)
{
    struct str *group = &c->list.filter.group;
    struct group_view view;
    if (mark_of(*group).len && engine_group_read(b->engine, *group, &view).code != ERR_OK)
        *group = mark_bare(*group);
}

struct err embedded_reach_check(struct embedded *b, struct command *c)
{
    struct run_ref run = run_of(c);
    if (c->kind == CMD_ENQUEUE)
        return check_enqueue(b, c);
    if (embedded_is_about_many(c->kind))
        mean_group(b, c);
    if (!embedded_subject(c, &run.id))
        return err_none();
    return reach_job(b, c->reach, run);
}
