/* SPDX-License-Identifier: Apache-2.0 */

/* Runs that go on after they were ended: one that was preempted, and those of a gang of which
 * another member is retried. The next run waits for the end of the old one, but no longer than its
 * grace. A gang waits for all of its members, and so for all of its old runs. */

#include "core/engine_grace.h"

#include "base/buf.h"
#include "base/must.h"
#include "base/utf8.h"
#include "core/engine_internal.h"

/* For so long at most the holder of a stream, who renews no lease, may go on with a run that was
 * taken from him; a pod has as long by default. */
#define STREAM_GRACE_MS 30000

void engine_grace_clear(struct job_extras *x)
{
    x->grace_token = 0;
    x->grace_end = x->backoff_end = x->terminated_at = (instant){0};
}

static instant grace_end(const struct engine *e, instant now, const struct live *l)
{
    if (instant_is_set(l->lease_due))
        return engine_lease_end(e, l);
    if (!l->taker || !list_is_empty(&l->taker->gone))
        return now;
    return instant_add(now, (span){STREAM_GRACE_MS});
}

void engine_grace_recall(const struct engine *e, instant now, const struct live *l,
                         struct job_state *s)
{
    instant end = grace_end(e, now, l);
    if (end.ms <= now.ms)
        return;
    s->extras.grace_token = l->token;
    s->extras.grace_end = end;
    s->extras.backoff_end = s->ready_at;
    s->extras.terminated_at = (instant){0};
    s->ready_at = instant_max(s->ready_at, end);
}

/* Moves the ready_at of a scheduled job. The caller stores its state. */
static void move(struct engine *e, instant now, struct job *job, instant ready_at)
{
    struct job_state *s = &job->state;
    struct queue *q = engine_queue_find(e, job->queue);
    must(q && s->status == STATUS_SCHEDULED);
    instant was = s->ready_at;
    engine_forget(e, now, q, job);
    s->ready_at = instant_max(ready_at, now);
    if (s->extras.avoid_node.len) {
        /* That is said from when it is ready on. */
        s->extras.avoid_until = instant_add(s->extras.avoid_until, instant_diff(s->ready_at, was));
        engine_avoid_end(e, job->id);
        engine_avoid(e, now, job->id, &s->extras);
    }
    s->status = lifecycle_move(s->status, EVENT_POSTPONE);
    if (s->ready_at.ms <= now.ms)
        s->status = lifecycle_move(s->status, EVENT_DUE);
    engine_rescheduled(e, now, STATUS_SCHEDULED, was, job);
    engine_wait_add(e, q, engine_rank(s), job->id, engine_val(job, true), s->ready_at, now,
                    engine_type(e, q, job->type));
}

static void say_more(struct job_state *s, struct arena *a, struct str more)
{
    struct buf words = {0};
    buf_print(&words, "%.*s; %.*s", STR_ARG(s->reason), STR_ARG(more));
    words.len = utf8_whole(buf_view(&words), RETRY_REASON_MAX - 1);
    s->reason = arena_copy(a, buf_view(&words));
    buf_fini(&words);
}

/* The run that it waits for is over. */
static void end_grace(struct engine *e, instant now, struct job *job, struct arena *a)
{
    struct job_state *s = &job->state;
    s->extras.terminated_at = now;
    if (s->status == STATUS_SCHEDULED && s->extras.backoff_end.ms < s->ready_at.ms)
        move(e, now, job, s->extras.backoff_end);
    say_more(s, a, STR("it has ended"));
    e->port.put_state(e->port.ctx, job->id, s);
}

static bool waits(const struct job_state *s)
{
    return s->status == STATUS_SCHEDULED || s->status == STATUS_READY;
}

struct err engine_terminated(struct engine *e, instant now, struct run_ref ref, uint32_t run,
                             struct arena *a, struct job *job)
{
    const struct live *l = idmap_get(&e->live, ref.id);
    bool named = ref.token || ref.by_index;
    if (l && named && (ref.token == 0 || ref.token == l->token) &&
        (!ref.by_index || ref.index == l->run))
        return err_make(ERR_UNPROCESSABLE, "run %u is in flight: its failure comes first", l->run);
    struct job_extent extent;
    TRY(engine_read(e, now, ref.id, false, a, job, &extent));
    struct job_state *s = &job->state;
    bool other = !named || !s->extras.grace_token ||
                 (ref.token && s->extras.grace_token != ref.token) ||
                 (ref.by_index && ref.index != run);
    if (!waits(s) || other || s->runs != run + 1)
        return err_make(ERR_STALE, "the job does not wait for the end of this run");
    if (!s->extras.terminated_at.ms)
        end_grace(e, now, job, a);
    return err_none();
}

/* Reads the job; false if it does not wait for the end of this run, which its gang has ended. */
static bool is_awaited(struct engine *e, instant now, struct run_ref ref, struct arena *a,
                       struct job *job, struct job_extent *extent)
{
    if (!ref.token || engine_read(e, now, ref.id, false, a, job, extent).code != ERR_OK)
        return false;
    const struct job_extras *x = &job->state.extras;
    return waits(&job->state) && x->grace_token == ref.token && x->gang_token == ref.token &&
           !x->terminated_at.ms;
}

struct err engine_grace_over(struct engine *e, instant now, struct run_ref ref)
{
    struct arena scratch = {0};
    struct job job;
    struct job_extent extent;
    if (is_awaited(e, now, ref, &scratch, &job, &extent))
        end_grace(e, now, &job, &scratch);
    arena_fini(&scratch);
    return err_none();
}

/* By itself: what the gang has had of retries was counted with the failure that ended this run. */
static struct verdict judge(struct engine *e, instant now, const struct failure_report *r,
                            const struct job *job, struct failure *failure, struct arena *a)
{
    struct job alone = *job;
    struct job_extras *x = &alone.state.extras;
    alone.state.attempts = alone.state.forgiven;
    x->retry_counts = x->culprit_counts = (struct str){0};
    x->asked_retries = x->expired_retries = 0;
    engine_grace_clear(x);
    if (failure->node.len == 0)
        failure->node = x->node;
    enum outcome outcome = r->exception ? r->exception : OUTCOME_FAILED;
    engine_name_category(e, failure, outcome, a);
    culprit_judge(failure, outcome, false, a);
    struct verdict_request request = {.job = &alone,
                                      .outcome = outcome,
                                      .failure = failure,
                                      .kill = r->kill,
                                      .retry_at = r->retry_at,
                                      .grace = r->grace,
                                      .token = r->ref.token};
    return engine_decide(e, now, engine_queue_find(e, job->queue), &request, a);
}

/* How long the run may still go on is its reporter's to say. */
static void wait_on(struct engine *e, instant now, const struct verdict *v, struct job *job,
                    struct arena *a)
{
    struct job_state *s = &job->state;
    say_more(s, a, STR("it failed as well"));
    if (!v->extras.grace_token || v->extras.grace_end.ms <= now.ms) {
        end_grace(e, now, job, a);
        return;
    }
    s->extras.grace_end = v->extras.grace_end;
    if (s->status == STATUS_SCHEDULED)
        move(e, now, job, instant_max(s->extras.backoff_end, s->extras.grace_end));
    e->port.put_state(e->port.ctx, job->id, s);
}

struct err engine_fail_recalled(struct engine *e, instant now, const struct failure_report *r,
                                const struct err *stale, struct arena *a, struct job *job)
{
    struct job_extent extent;
    if (!is_awaited(e, now, r->ref, a, job, &extent))
        return *stale;
    struct failure failure = r->failure;
    struct verdict v = judge(e, now, r, job, &failure, a);
    engine_set_reported(&job->state.extras, r->ref.token,
                        r->exception ? r->exception : OUTCOME_FAILED);
    if (v.retry) {
        wait_on(e, now, &v, job, a);
        return err_none();
    }
    /* The most final word of all of a generation counts, in whatever order they come. */
    job->state.reason = arena_copy(a, str_from(v.reason));
    TRY(engine_gang_fall(e, now, job->id, job->state.reason));
    engine_end_waiting(e, now, job, &extent, EVENT_ABANDON, v.resolution);
    return err_none();
}
