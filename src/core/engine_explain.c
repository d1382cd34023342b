/* SPDX-License-Identifier: Apache-2.0 */

/* The facts of an explanation (core/explain.h): nothing is changed, and nothing is gone through
 * that grows with the number of jobs. */

#include <stdio.h>

#include "base/duration.h"
#include "base/must.h"
#include "core/depend.h"
#include "core/engine_internal.h"
#include "core/explain.h"

static void duration_of(span d, char text[32])
{
    struct buf b = {0};
    duration_write(&b, d);
    snprintf(text, 32, "%.*s", STR_ARG(buf_view(&b)));
    buf_fini(&b);
}

/* --- blocked --- */

/* What there is to say of a job that another one waits for. */
static const char *status_of(struct engine *e, instant now, struct id id)
{
    struct arena scratch = {0};
    struct job job;
    struct job_extent extent;
    struct err err = engine_read(e, now, id, false, &scratch, &job, &extent);
    arena_fini(&scratch);
    return err.code == ERR_OK ? lifecycle_status_name(job.state.status)
           : e->port.keeps_deleted && e->port.keeps_deleted(e->port.ctx)
               ? "deleted, which may still be undone"
               : "gone";
}

static void explain_hold(const struct engine *e, instant now, struct arena *a,
                         struct explanation *x)
{
    instant end;
    char wait[32];
    if (!x->job.state.extras.held)
        return;
    if (!engine_waits_hold_end(e, &x->job, &end)) {
        explain_add(x, a, OBSTACLE_HOLD, INSTANT_NONE, "it is held until somebody frees it");
        return;
    }
    duration_of(instant_diff(instant_max(end, now), now), wait);
    explain_add(x, a, OBSTACLE_HOLD, INSTANT_NONE,
                "it is held until somebody frees it, and is dead if nobody has in %s", wait);
}

/* Of a member whose gang lacks others; true if it does. */
static bool explain_missing(const struct engine *e, instant now, struct arena *a,
                            struct explanation *x)
{
    struct gang_view g;
    char wait[32];
    if (!engine_gang_view(e, x->job.id, &g) || g.members >= g.size)
        return false;
    if (!instant_is_set(g.end) || g.ready < g.members) {
        explain_add(x, a, OBSTACLE_GANG, INSTANT_NONE, "its gang has %u of its %llu members",
                    g.members, (unsigned long long)g.size);
        return true;
    }
    duration_of(instant_diff(instant_max(g.end, now), now), wait);
    explain_add(x, a, OBSTACLE_GANG, INSTANT_NONE,
                "its gang has %u of its %llu members, and those are dead if no others come in %s",
                g.members, (unsigned long long)g.size, wait);
    return true;
}

/* Names a dead one if there is one, for that will not end by itself. */
static void explain_depends(struct engine *e, instant now, struct arena *a, struct explanation *x)
{
    struct str ids = x->job.state.extras.waits_for;
    explain_hold(e, now, a, x);
    explain_missing(e, now, a, x);
    size_t count = depend_count(ids);
    const char *status = NULL;
    struct id named = {0};
    for (size_t i = 0; i < count; i++) {
        const char *s = status_of(e, now, depend_at(ids, i));
        bool dead = s == lifecycle_status_name(STATUS_DEAD);
        if (i > 0 && !dead)
            continue;
        named = depend_at(ids, i);
        status = s;
        if (dead)
            break;
    }
    if (!status)
        return;
    char text[ID_TEXT_LEN];
    id_format(named, text);
    const char *end = x->job.options.depend_when == DEPEND_ALL_ENDED ? "ended" : "completed";
    if (count == 1)
        explain_add(x, a, OBSTACLE_DEPENDENCY, INSTANT_NONE,
                    "it waits until job %.25s has %s, which is %s", text, end, status);
    else
        explain_add(x, a, OBSTACLE_DEPENDENCY, INSTANT_NONE,
                    "it waits until %zu jobs have %s, among them %.25s, which is %s", count, end,
                    text, status);
}

/* --- limits of the queue --- */

static void explain_key(const struct engine *e, const struct queue *q, struct arena *a,
                        struct explanation *x)
{
    uint32_t live;
    if (engine_key_is_full(e, q, &x->job, &live))
        explain_add(x, a, OBSTACLE_KEY, INSTANT_NONE,
                    "%u with its concurrency key '%.*s' are in flight, and the limit of its queue "
                    "is %u per key",
                    live, STR_ARG(x->job.options.concurrency_key),
                    q->limits->set.concurrency_per_key);
}

static void explain_limits(const struct engine *e, const struct queue *q, struct arena *a,
                           struct explanation *x)
{
    const struct queue_limits *l = q ? q->limits : NULL;
    if (!l)
        return;
    uint64_t flying = q->counts[STATUS_IN_FLIGHT];
    if (l->set.paused)
        explain_add(x, a, OBSTACLE_PAUSE, INSTANT_NONE, "its queue is paused");
    if (x->job.state.status != STATUS_READY)
        return; /* by its time these may be over */
    if (l->set.concurrency && flying >= l->set.concurrency)
        explain_add(x, a, OBSTACLE_CONCURRENCY, INSTANT_NONE,
                    "%llu of its queue are in flight, and its limit is %u",
                    (unsigned long long)flying, l->set.concurrency);
    explain_key(e, q, a, x);
    if (instant_is_set(l->wake))
        explain_add(x, a, OBSTACLE_RATE, l->wake,
                    "its queue has handed out as many as its rate allows for now");
}

static void explain_in_flight(const struct engine *e, struct arena *a, struct explanation *x)
{
    if (engine_in_flight_room(e) == 0)
        explain_add(x, a, OBSTACLE_IN_FLIGHT, INSTANT_NONE,
                    "%llu jobs are in flight in all, and the server's limit is %llu",
                    (unsigned long long)e->live.count,
                    (unsigned long long)e->settings.in_flight_max);
}

/* --- scheduled --- */

static void explain_time(const struct engine *e, instant now, struct arena *a,
                         struct explanation *x)
{
    const struct job_state *s = &x->job.state;
    char wait[32];
    duration_of(instant_diff(instant_max(s->ready_at, now), now), wait);
    if (s->extras.grace_token && !s->extras.terminated_at.ms)
        explain_add(x, a, OBSTACLE_TIME, s->ready_at,
                    "its time comes in %s, or earlier if its old run, which may still go on, is "
                    "reported to have ended",
                    wait);
    else
        explain_add(x, a, OBSTACLE_TIME, s->ready_at, "its time comes in %s", wait);
    explain_missing(e, now, a, x);
    explain_limits(e, engine_queue_find(e, x->job.queue), a, x);
}

/* --- ready --- */

static bool has_room(const struct taker *t)
{
    return !t->paused && (t->claim ? t->got_count : t->held_count) < t->limit;
}

static void count_workers(const struct list *subs, struct str shunned, struct explanation *x)
{
    for (const struct list *n = subs->next; n != subs; n = n->next) {
        const struct taker *t = LIST_OF(n, const struct sub, all)->taker;
        if (t->kind != job_kind(&x->job)) {
            x->unfit++;
            continue;
        }
        x->workers++;
        if (!has_room(t))
            continue;
        x->with_room++;
        x->shunned += shunned.len && str_eq((struct str){t->node->bytes, t->node->len}, shunned);
    }
}

static struct str unfit_words(enum job_kind kind)
{
    return kind == KIND_TASK
               ? STR("it is a task, and whoever asks for jobs of its queue does so over the Jobs "
                     "API, "
                     "by which nobody is given tasks: a worker of Taskcluster's API could take it")
               : STR("it is no task, and whoever asks for jobs of its queue does so over "
                     "Taskcluster's API, by which nobody is given other jobs: a worker of the Jobs "
                     "API could take it");
}

/* A worker that asks by claims is not seen here while it has no free slot: then its runs say that
 * it is there. */
static void explain_workers(const struct queue *q, instant now, struct arena *a,
                            struct explanation *x)
{
    enum job_kind kind = job_kind(&x->job);
    bool busy = crew_is_busy_with(&x->crew, engine_kind_runs(q, kind));
    struct buf b = {0};
    if (x->with_room > 0)
        return;
    if (x->workers == 1)
        buf_lit(&b, "the only stream for its queue has as many jobs as it asked for");
    else if (x->workers > 1)
        buf_print(&b, "all %u streams for its queue have as many jobs as they asked for",
                  x->workers);
    else if (!busy && x->unfit)
        buf_str(&b, unfit_words(kind));
    else if (!busy)
        crew_write_absent(&b, &x->crew, now);
    if (busy && x->workers)
        buf_lit(&b, ": ");
    if (busy)
        crew_write_busy(&b, &x->crew, now);
    explain_add(x, a, busy || x->workers ? OBSTACLE_BUSY : OBSTACLE_NO_WORKER, INSTANT_NONE, "%.*s",
                STR_ARG(buf_view(&b)));
    buf_fini(&b);
}

static void explain_gang(const struct engine *e, instant now, struct arena *a,
                         struct explanation *x)
{
    struct gang_view g;
    const struct queue *q = engine_queue_find(e, x->job.queue);
    uint32_t most = q && q->limits ? q->limits->set.concurrency : 0;
    if (explain_missing(e, now, a, x) || !engine_gang_view(e, x->job.id, &g))
        return;
    if (g.ready == g.members && most && g.beside > most)
        explain_add(x, a, OBSTACLE_GANG, INSTANT_NONE,
                    "the %u members of its gang in its queue are handed out together, and the "
                    "queue's limit is %u, unless somebody raises it",
                    g.beside, most);
    else if (g.ready == g.members && e->settings.in_flight_max &&
             g.members > e->settings.in_flight_max)
        explain_add(x, a, OBSTACLE_GANG, INSTANT_NONE,
                    "the %u members of its gang are handed out together, and the server's limit is "
                    "%llu, unless somebody raises it",
                    g.members, (unsigned long long)e->settings.in_flight_max);
    else if (g.ready < g.members)
        explain_add(x, a, OBSTACLE_GANG, INSTANT_NONE,
                    "%u of the %u members of its gang are not ready yet", g.members - g.ready,
                    g.members);
    else
        explain_add(x, a, OBSTACLE_GANG, INSTANT_NONE,
                    "the %u members of its gang are handed out together, and there is no room for "
                    "all of them at once",
                    g.members);
}

static void explain_ready(struct engine *e, instant now, struct arena *a, struct explanation *x)
{
    const struct queue *q = engine_queue_find(e, x->job.queue);
    struct btree_entry place = {engine_rank(&x->job.state), x->job.id.hi, x->job.id.lo, 0};
    struct str node;
    instant until;
    must(q);
    if (!engine_avoid_of(e, x->job.id, &node, &until))
        node = (struct str){0};
    explain_limits(e, q, a, x);
    explain_in_flight(e, a, x);
    count_workers(&q->takers, node, x);
    count_workers(&e->any_takers, node, x);
    engine_crew_of(e, q, now, a, &x->crew);
    explain_workers(q, now, a, x);
    explain_gang(e, now, a, x);
    engine_budget_explain(e, now, a, x);
    if (node.len && x->with_room && x->shunned == x->with_room) {
        char wait[32];
        duration_of(instant_diff(instant_max(until, now), now), wait);
        explain_add(x, a, OBSTACLE_NODE, until,
                    "it must stay off node '%.*s' for another %s, and whoever has room is there",
                    STR_ARG(node), wait);
    }
    x->ahead = engine_ready_rank(q, job_kind(&x->job), (struct str){0}, place, EXPLAIN_AHEAD_MAX);
    x->ahead += engine_key_rank(e, q, &x->job, EXPLAIN_AHEAD_MAX - x->ahead);
    x->ahead += engine_line_rank(e, q, place, EXPLAIN_AHEAD_MAX - x->ahead);
    if (x->ahead)
        explain_add(x, a, OBSTACLE_PLACE, INSTANT_NONE, "%s%llu job%s of its queue come%s first",
                    x->ahead == EXPLAIN_AHEAD_MAX ? "at least " : "", (unsigned long long)x->ahead,
                    x->ahead == 1 ? "" : "s", x->ahead == 1 ? "s" : "");
}

/* --- who judges its failures --- */

#define OWN_LIMITS "its own backoff and limit"

/* What becomes of a failure that no policy judges, and who says so. */
static void write_fallback(struct buf *b, const struct verdict_rules *rules, const struct job *job)
{
    const struct {
        enum retry_fallback what;
        const char *whose;
    } levels[] = {{(enum retry_fallback)job->options.when_no_policy, "its when_no_policy"},
                  {rules->when_no_policy, "the when_no_policy of its queue"},
                  {rules->settings->when_no_policy, "whenNoPolicy"}};
    size_t i = 0;
    while (i < 2 && levels[i].what == RETRY_FALLBACK_UNSET)
        i++;
    buf_print(b, "%s, as %s says",
              levels[i].what == RETRY_FALLBACK_DEFAULT ? OWN_LIMITS : "no retry", levels[i].whose);
}

/* What a job says itself counts also while policies are disabled (core/verdict.h). */
static void write_disabled(struct buf *b, const struct verdict_rules *rules, const struct job *job)
{
    if (job->options.when_no_policy == RETRY_FALLBACK_FAIL)
        write_fallback(b, rules, job);
    else
        buf_lit(b, OWN_LIMITS);
    buf_lit(b, ": retry policies are not enabled");
}

static void write_judges(struct buf *b, const struct verdict_rules *rules, const struct job *job)
{
    bool on = rules->settings->enabled;
    if (job->options.fail_fast) {
        buf_lit(b, "no retry, as its fail_fast says");
        return;
    }
    if (!on)
        write_disabled(b, rules, job);
    for (size_t i = 0; i < rules->policy_count; i++)
        buf_print(b, "%s%.*s",
                  i    ? ", then "
                  : on ? ""
                       : "; they would be ",
                  STR_ARG(rules->policies[i]->name));
    if (on && !rules->policy_count) {
        buf_lit(b, "no retry policy; ");
        write_fallback(b, rules, job);
    }
    if (rules->missing.len)
        buf_print(b, "; %.*s %s", STR_ARG(rules->missing),
                  memchr(rules->missing.at, ',', rules->missing.len) ? "are not there"
                                                                     : "is not there");
}

void engine_judges(struct engine *e, const struct job *job, struct arena *a, struct judges *j)
{
    struct verdict_rules rules = engine_rules_of(e, engine_queue_find(e, job->queue));
    struct buf words = {0};
    *j = (struct judges){0};
    if (!e->port.policies)
        return;
    rules.only_shown = true;
    e->port.policies(e->port.ctx, job->queue, job->options.retry_policies, a, &rules);
    j->policies = arena_get(a, (rules.policy_count + 1) * sizeof *j->policies);
    for (; j->count < rules.policy_count; j->count++)
        j->policies[j->count] = arena_copy(a, rules.policies[j->count]->name);
    j->concerned = rules.settings->enabled || j->count || rules.missing.len;
    write_judges(&words, &rules, job);
    j->words = arena_copy(a, buf_view(&words));
    buf_fini(&words);
}

static void explain_dead(struct engine *e, instant now, struct arena *a, struct explanation *x)
{
    struct err err = engine_rerun_check(e, now, &x->job, false);
    if (err.code != ERR_OK)
        x->refusal = arena_copy(a, str_from(err.msg));
}

struct err engine_explain(struct engine *e, instant now, struct id id, struct arena *a,
                          struct explanation *x, struct job_extent *extent)
{
    uint64_t token;
    *x = (struct explanation){.crew = crew_none()};
    TRY(engine_read(e, now, id, false, a, &x->job, extent));
    x->has_run = engine_live_run(e, id, &x->run, &token);
    if (x->has_run) {
        x->run.worker = arena_copy(a, x->run.worker);
        x->run.failure.node = arena_copy(a, x->run.failure.node);
    }
    if (x->has_run && x->job.state.extras.notes & NOTE_BIT(NOTE_PROGRESS)) {
        TRY(e->port.load_note(e->port.ctx, id, NOTE_PROGRESS, a, &x->progress));
        x->has_progress = x->progress.run == x->run.index;
    }
    if (x->job.state.status == STATUS_BLOCKED)
        explain_depends(e, now, a, x);
    else if (x->job.state.status == STATUS_SCHEDULED)
        explain_time(e, now, a, x);
    else if (x->job.state.status == STATUS_READY)
        explain_ready(e, now, a, x);
    else if (x->job.state.status == STATUS_DEAD)
        explain_dead(e, now, a, x);
    engine_judges(e, &x->job, a, &x->judges);
    return err_none();
}
