/* SPDX-License-Identifier: Apache-2.0 */

/* Reads of the runs of one job: a page of them, all of them beside the job, the newest one. */

#include "backend/embedded/embedded_reach.h"
#include "base/must.h"

static int64_t run_position(const struct run *run, bool failures_only)
{
    return failures_only ? run->attempt : run->index;
}

static bool is_wanted(const struct runs_command *c, const struct run *run)
{
    if (c->failures_only && run->attempt == 0)
        return false;
    int64_t at = run_position(run, c->failures_only);
    return c->from < 0 || (c->backwards ? at < c->from : at > c->from);
}

/* Adds the run if it is wanted; true if the page is full and it would have been the next. */
static bool add_run(const struct runs_command *c, struct reply *r, const struct run *run)
{
    if (!is_wanted(c, run))
        return false;
    if (r->count == c->limit) {
        r->more = true;
        return true;
    }
    r->runs[r->count++] = *run;
    return false;
}

/* What a page of runs may have of what failures say; it ends early rather than take more. */
static size_t bytes_of(const struct run *run)
{
    const struct failure *f = &run->failure;
    return f->message.len + f->backtrace.len + f->termination_message.len + f->pod_error.len +
           f->culprit_evidence.len;
}

/* The first that may be wanted. A failure counts as many attempts as there were runs, or fewer. */
static uint32_t first_run(const struct runs_command *c, uint32_t count)
{
    if (c->backwards)
        return c->from < 0 || c->failures_only || c->from > count ? count : (uint32_t)c->from;
    int64_t from = c->from < 0 ? 0 : c->from + !c->failures_only;
    return from > count ? count : (uint32_t)from;
}

/* One that has ended. Those that are passed over take no memory. */
static struct err look_at_run(struct embedded *b, const struct runs_command *c, uint32_t index,
                              struct arena *a, struct run *run, bool *wanted)
{
    struct arena scratch = {0};
    struct err err = embedded_load_run(b, c->id, index, &scratch, run);
    *wanted = err.code == ERR_OK && is_wanted(c, run);
    struct run passed = {.index = run->index, .attempt = run->attempt};
    arena_fini(&scratch);
    if (*wanted)
        return embedded_load_run(b, c->id, index, a, run);
    *run = passed;
    return err;
}

/* Its strings are the reply's: the run may end before the reply leaves. */
static bool live_run(struct embedded *b, struct id id, struct run *run, uint64_t *token)
{
    struct arena *a = &b->building->arena;
    if (!engine_live_run(b->engine, id, run, token))
        return false;
    run->worker = arena_copy(a, run->worker);
    run->failure.node = arena_copy(a, run->failure.node);
    return true;
}

void embedded_runs(struct embedded *b, const struct command *command, struct reply *r)
{
    const struct runs_command *c = &command->runs;
    struct arena *a = &b->building->arena;
    struct job job;
    struct job_extent extent;
    struct run run = {0};
    must(c->limit > 0 && c->limit <= BACKEND_PAGE_MAX);
    r->err = engine_read(b->engine, b->now, c->id, false, a, &job, &extent);
    if (r->err.code != ERR_OK)
        return;
    r->has_live = live_run(b, c->id, &run, &r->token);
    uint32_t count = extent.runs_ended + r->has_live;
    r->runs = arena_get(a, (c->limit < count ? c->limit : count) * sizeof *r->runs + 1);
    struct run live = run;
    size_t bytes = 0;
    uint32_t at = first_run(c, count);
    for (bool full = false; !full && (c->backwards ? at > 0 : at < count);) {
        uint32_t index = c->backwards ? --at : at++;
        bool wanted = false;
        run = live;
        r->err =
            index < extent.runs_ended ? look_at_run(b, c, index, a, &run, &wanted) : err_none();
        if (r->err.code != ERR_OK)
            return;
        bytes += wanted ? bytes_of(&run) : 0;
        bool fits = r->count == 0 || bytes <= PAGE_BYTES_MAX;
        r->more |= !fits;
        full = !fits || add_run(c, r, &run);
    }
}

void embedded_read_runs(struct embedded *b, struct id id, uint32_t ended, struct reply *r)
{
    struct arena *a = &b->building->arena;
    uint32_t most = READ_RUNS_MAX - r->has_live, room = ended < most ? ended : most, first = room;
    size_t bytes = 0;
    uint64_t token;
    r->runs = arena_get(a, (room + 1) * sizeof *r->runs);
    while (first > 0 && bytes < PAGE_BYTES_MAX) { /* from the newest one back */
        first--;
        r->err = embedded_load_run(b, id, ended - (room - first), a, &r->runs[first]);
        if (r->err.code != ERR_OK)
            return;
        bytes += bytes_of(&r->runs[first]);
    }
    r->more = ended > room - first;
    r->runs += first;
    r->run_count = room - first;
    if (r->has_live)
        must(live_run(b, id, &r->runs[r->run_count++], &token));
}

/* The newest run that has ended, if any has, is the backend's to add. */
void embedded_explain(struct embedded *b, const struct command *c, struct reply *r)
{
    struct id id = c->id;
    struct arena *a = &b->building->arena;
    struct explanation *x = ARENA_NEW(a, struct explanation);
    struct job_extent extent;
    b->crew_reach = c->reach;
    r->err = engine_explain(b->engine, b->now, id, a, x, &extent);
    if (r->err.code == ERR_OK && !x->has_run && extent.runs_ended) {
        r->err = embedded_load_run(b, id, extent.runs_ended - 1, a, &x->run);
        x->has_run = r->err.code == ERR_OK;
    }
    if (r->err.code != ERR_OK)
        return;
    embedded_reach_explanation(b, c->reach, x);
    if (x->job.state.status != STATUS_COMPLETED)
        embedded_judges_warn(b, &x->job, &x->judges);
    explain_sum_up(x, b->now, a);
    r->explanation = x;
}
