/* SPDX-License-Identifier: Apache-2.0 */

/* Which jobs a filter matches, and what lists show of their runs. The job itself is looked at
 * first: a run is read only of a job that matches so far. */

#include <string.h>

#include "backend/embedded/embedded_internal.h"
#include "base/mark.h"
#include "base/utf8.h"
#include "core/budgets.h"
#include "core/depend.h"
#include "core/fingerprint.h"

/* Of an error that a list shows; the whole of it is with the job. */
#define ERROR_SHOWN 1000

static bool is_one_of(struct str name, const struct str *names, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (str_eq(name, names[i]))
            return true;
    return count == 0;
}

/* Whether it draws on one of them. */
static bool draws_on(struct str bindings, const struct str *budgets, size_t count)
{
    struct budget_binding b;
    while (budgets_next(&bindings, &b))
        if (is_one_of(mark_bare(b.key), budgets, count))
            return true;
    return count == 0;
}

static bool in_range(const struct range *r, int64_t v)
{
    return !r->set || (v >= r->lo && v <= r->hi);
}

/* When something was last heard of it, as far as the job says. */
static instant newest_moment(const struct job *job)
{
    const struct job_state *s = &job->state;
    instant t = instant_max(id_time(job->id), s->dequeued_at);
    return instant_max(instant_max(t, s->failed_at), s->completed_at);
}

bool embedded_match_enqueued(const struct job_filter *f, const struct job *job)
{
    return (!f->depends_on.set || depend_has(job->options.depends_on, f->depends_on.id)) &&
           is_one_of(job->queue, f->queues, f->queue_count) &&
           is_one_of(job->type, f->types, f->type_count);
}

static bool matches(const struct job_filter *f, const struct job *job)
{
    const struct job_state *s = &job->state;
    return (!f->statuses || f->statuses & (1u << s->status)) &&
           (!f->resolutions || f->resolutions & (1u << s->resolution)) &&
           in_range(&f->priority, s->priority) && in_range(&f->ready_at, s->ready_at.ms) &&
           in_range(&f->attempts, s->attempts) && newest_moment(job).ms >= f->since.ms &&
           in_range(&f->enqueued_at, id_time(job->id).ms) &&
           (!f->failed_at.set ||
            (instant_is_set(s->failed_at) && in_range(&f->failed_at, s->failed_at.ms))) &&
           embedded_match_enqueued(f, job) &&
           (!f->group.len || str_eq(job->options.group, f->group)) &&
           glob_list_matches(f->reach, job->queue) &&
           draws_on(job->options.budgets, f->budgets, f->budget_count);
}

static bool contains(struct str text, struct str part)
{
    return text.len >= part.len && memmem(text.at, text.len, part.at, part.len);
}

static bool asks_for_failure(const struct job_filter *f)
{
    return f->error.len || f->error_type.len || f->failure_group;
}

static bool has_failure(const struct job_filter *f, const struct job *job, const struct run *run)
{
    const struct failure *is = &run->failure;
    if (run->attempt == 0)
        return false;
    return (!f->error.len || contains(is->message, f->error) ||
            contains(is->error_type, f->error)) &&
           (!f->error_type.len || str_eq(is->error_type, f->error_type)) &&
           (!f->failure_group || fingerprint_of(job, run->outcome, is) == f->failure_group);
}

/* The run that goes on is asked for its worker, the newest that has ended for its error. */
struct err embedded_match(struct embedded *b, const struct job_filter *f, const struct job *job,
                          const struct job_extent *extent, struct arena *scratch, bool *match)
{
    struct run live = {0}, ended = {0};
    uint64_t token;
    *match = matches(f, job);
    if (!*match || (!f->worker_count && !asks_for_failure(f)))
        return err_none();
    bool is_live = engine_live_run(b->engine, job->id, &live, &token);
    if (extent->runs_ended && (asks_for_failure(f) || !is_live))
        TRY(embedded_load_run(b, job->id, extent->runs_ended - 1, scratch, &ended));
    bool any = is_live || extent->runs_ended;
    const struct run *newest = is_live ? &live : &ended;
    *match = (!f->worker_count ||
              (any && is_one_of(mark_bare(newest->worker), f->workers, f->worker_count))) &&
             (!asks_for_failure(f) || has_failure(f, job, &ended));
    return err_none();
}

static struct str cut(struct str text)
{
    if (text.len <= ERROR_SHOWN)
        return text;
    text.len = ERROR_SHOWN;
    text.len = utf8_check(text); /* up to where a character was cut through */
    return text;
}

static struct err add_run(struct embedded *b, struct job *job, struct arena *a)
{
    struct run run = {0};
    struct job_notes notes;
    uint64_t token;
    if (engine_live_run(b->engine, job->id, &run, &token))
        job->worker = arena_copy(a, run.worker);
    job->has_progress = job->state.extras.notes & NOTE_BIT(NOTE_PROGRESS);
    if (!job->has_progress)
        return err_none();
    struct job only = *job;
    only.state.extras.notes = NOTE_BIT(NOTE_PROGRESS);
    TRY(engine_read_notes(b->engine, &only, a, &notes));
    job->progress = notes.at[NOTE_PROGRESS];
    return err_none();
}

struct err embedded_add_error(struct embedded *b, struct job *job, const struct job_extent *extent,
                              struct arena *scratch, struct arena *a)
{
    struct run run = {0};
    if (job->state.status == STATUS_IN_FLIGHT)
        return add_run(b, job, a);
    if (job->state.status != STATUS_DEAD || !extent->runs_ended)
        return err_none();
    TRY(embedded_load_run(b, job->id, extent->runs_ended - 1, scratch, &run));
    if (run.attempt == 0) /* it was ended by something else than a failure */
        return err_none();
    job->error = arena_copy(a, cut(run.failure.message));
    job->error_type = arena_copy(a, cut(run.failure.error_type));
    return err_none();
}
