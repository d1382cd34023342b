/* SPDX-License-Identifier: Apache-2.0 */
#include "core/explain.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/buf.h"
#include "base/duration.h"
#include "base/must.h"

#define TEXT_MAX 1024

const char *explain_kind_name(enum obstacle_kind k)
{
    static const char *const names[OBSTACLE_KINDS] = {
        [OBSTACLE_HOLD] = "hold",           [OBSTACLE_DEPENDENCY] = "dependency",
        [OBSTACLE_TIME] = "time",           [OBSTACLE_NODE] = "node",
        [OBSTACLE_PAUSE] = "pause",         [OBSTACLE_CONCURRENCY] = "concurrency",
        [OBSTACLE_KEY] = "concurrency_key", [OBSTACLE_IN_FLIGHT] = "global_in_flight",
        [OBSTACLE_RATE] = "rate",           [OBSTACLE_PLACE] = "place",
        [OBSTACLE_NO_WORKER] = "no_worker", [OBSTACLE_GANG] = "gang",
        [OBSTACLE_BUDGET] = "budget",       [OBSTACLE_BUSY] = "busy_workers",
    };
    must(k < OBSTACLE_KINDS);
    return names[k];
}

void explain_add(struct explanation *x, struct arena *a, enum obstacle_kind kind, instant until,
                 const char *text, ...)
{
    char words[TEXT_MAX];
    va_list args;
    must(x->obstacle_count < OBSTACLE_KINDS);
    va_start(args, text);
    int n = vsnprintf(words, sizeof words, text, args);
    va_end(args);
    must(n > 0 && n < (int)sizeof words);
    struct str said = arena_copy(a, (struct str){words, (size_t)n});
    x->obstacles[x->obstacle_count++] = (struct obstacle){kind, until, said};
}

/* --- since when, and from when on --- */

/* A job that waits came to do so when it was enqueued, when its last run ended, or, if it is
 * ready, when its time came. */
static instant waits_since(const struct explanation *x)
{
    instant since = id_time(x->job.id);
    if (x->has_run)
        since = instant_max(since, x->run.ended_at);
    return x->job.state.status == STATUS_READY ? instant_max(since, x->job.state.ready_at) : since;
}

/* A job that is canceled while it waits has no run that ended then. */
static bool died_waiting(const struct explanation *x)
{
    switch (x->job.state.resolution) {
    case RESOLUTION_CANCELED:
        return !x->has_run || x->run.outcome != OUTCOME_CANCELED;
    case RESOLUTION_DEPENDENCY:
        return true;
    default:
        return !x->has_run;
    }
}

static instant since(const struct explanation *x)
{
    switch (x->job.state.status) {
    case STATUS_IN_FLIGHT:
        return x->run.taken_at;
    case STATUS_COMPLETED:
        return x->job.state.completed_at;
    case STATUS_DEAD:
        return died_waiting(x) ? INSTANT_NONE : x->run.ended_at;
    default:
        return waits_since(x);
    }
}

static instant earliest(const struct explanation *x, instant now)
{
    instant at = now;
    if (x->job.state.status == STATUS_IN_FLIGHT || lifecycle_is_terminal(x->job.state.status))
        return INSTANT_NONE;
    for (size_t i = 0; i < x->obstacle_count; i++) {
        if (!instant_is_set(x->obstacles[i].until))
            return INSTANT_NONE;
        at = instant_max(at, x->obstacles[i].until);
    }
    return at;
}

/* --- words --- */

static void sum_up_waiting(const struct explanation *x, struct buf *b)
{
    buf_print(b, "%s: ", lifecycle_status_name(x->job.state.status));
    for (size_t i = 0; i < x->obstacle_count; i++)
        buf_print(b, "%s%.*s", i ? "; " : "", STR_ARG(x->obstacles[i].text));
    if (x->obstacle_count == 0)
        buf_lit(b, "nothing keeps it from being handed out");
}

static void add_progress(const struct explanation *x, struct buf *b)
{
    const struct note *p = &x->progress;
    if (!x->has_progress)
        return;
    if (p->text.len)
        buf_print(b, "; it says: %.*s", STR_ARG(p->text));
    else
        buf_print(b, "; it is done to %.0f %%", p->value * 100);
}

static void sum_up_run(const struct explanation *x, instant now, struct buf *b)
{
    const struct run *r = &x->run;
    buf_print(b, "in flight: run %u is held by ", r->index);
    if (r->worker.len)
        buf_print(b, "'%.*s'", STR_ARG(r->worker));
    else
        buf_lit(b, "a worker without a name");
    if (!instant_is_set(r->lease_end)) {
        buf_lit(b, " on a stream, as long as that is open");
        add_progress(x, b);
        return;
    }
    buf_lit(b, ", whose lease ends in ");
    duration_write(b, instant_diff(instant_max(r->lease_end, now), now));
    buf_lit(b, " unless it renews it");
    add_progress(x, b);
}

static void sum_up_dead(struct explanation *x, struct arena *a, struct buf *b)
{
    const char *kind = job_resolution_name(x->job.state.resolution);
    buf_str(b, x->job.state.reason.len ? x->job.state.reason : STR("dead"));
    x->remedy = x->job.state.resolution == RESOLUTION_POISON
                    ? STR("find out what it does to its workers; then POST /jobs/{id}/retry (tenax "
                          "retry) brings it back")
                    : STR("POST /jobs/{id}/retry (tenax retry) brings it back, with all its "
                          "retries, until it is purged");
    if (x->refusal.len) {
        struct buf remedy = {0};
        buf_print(&remedy, "nothing yet, for a retry is refused: %.*s", STR_ARG(x->refusal));
        x->remedy = arena_copy(a, buf_view(&remedy));
        buf_fini(&remedy);
    }
    if (kind)
        buf_print(b, " (%s)", kind);
}

void explain_sum_up(struct explanation *x, instant now, struct arena *a)
{
    struct buf b = {0};
    x->since = since(x);
    x->earliest = earliest(x, now);
    switch (x->job.state.status) {
    case STATUS_IN_FLIGHT:
        sum_up_run(x, now, &b);
        break;
    case STATUS_COMPLETED:
        buf_str(&b, x->job.state.reason.len ? x->job.state.reason : STR("completed"));
        break;
    case STATUS_DEAD:
        sum_up_dead(x, a, &b);
        break;
    default:
        sum_up_waiting(x, &b);
        break;
    }
    x->summary = arena_copy(a, buf_view(&b));
    buf_fini(&b);
}
