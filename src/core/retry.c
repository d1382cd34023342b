/* SPDX-License-Identifier: Apache-2.0 */
#include "core/retry.h"

#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/duration.h"
#include "base/must.h"

struct retry_defaults retry_defaults(void)
{
    return (struct retry_defaults){.limit = 25, .backoff = curve_default()};
}

static void set_reason(struct retry_verdict *v, const struct buf *words)
{
    size_t n = words->len < sizeof v->reason - 1 ? words->len : sizeof v->reason - 1;
    memcpy(v->reason, words->at, n);
    v->reason[n] = '\0';
}

static void add_delay(struct buf *b, instant at, instant now)
{
    if (at.ms <= now.ms) {
        buf_lit(b, "at once");
        return;
    }
    buf_lit(b, "in ");
    duration_write(b, instant_diff(at, now));
}

static struct retry_verdict retry_then(instant at, instant now, const char *how, uint32_t count,
                                       int64_t limit)
{
    struct retry_verdict v = {.retry = true, .at = at};
    struct buf words = {0};
    buf_print(&words, "retry %u", count);
    if (limit >= 0)
        buf_print(&words, " of %lld", (long long)limit);
    buf_print(&words, ", %s, ", how);
    add_delay(&words, at, now);
    set_reason(&v, &words);
    buf_fini(&words);
    return v;
}

static struct retry_verdict dead_verdict(enum outcome outcome, const char *why)
{
    struct retry_verdict v = {.retry = false};
    v.resolution = job_outcome_resolution(outcome);
    snprintf(v.reason, sizeof v.reason, "dead: %s%s",
             outcome == OUTCOME_EXPIRED ? "the lease ran out and " : "", why);
    return v;
}

static struct retry_verdict over_limit(enum outcome outcome, int64_t limit)
{
    char why[64];
    if (limit == 0)
        snprintf(why, sizeof why, "no retries are allowed");
    else if (limit == 1)
        snprintf(why, sizeof why, "the only retry is used up");
    else
        snprintf(why, sizeof why, "all %lld retries are used up", (long long)limit);
    return dead_verdict(outcome, why);
}

uint32_t retry_failures(const struct retry_request *r)
{
    const struct job_state *s = &r->job->state;
    must(s->forgiven <= s->attempts);
    uint32_t before = s->attempts - s->forgiven;
    /* The counts of policies are bytes from the disk: believed, but not trusted. */
    return before > r->uncharged ? before - r->uncharged + 1 : 1;
}

/* Another worker would find the same. */
static bool is_final(enum outcome o)
{
    return job_outcome_is_exception(o) && o != OUTCOME_WORKER_SHUTDOWN &&
           o != OUTCOME_INTERMITTENT_TASK;
}

static bool is_free(const struct retry_request *r)
{
    return r->culprit && !r->kill && !instant_is_set(r->retry_at) && !is_final(r->outcome) &&
           r->free_had < r->free_max;
}

static struct retry_verdict retry_free(const struct retry_request *r, instant at, instant now)
{
    struct retry_verdict v = {.retry = true, .free = true, .at = at};
    struct buf words = {0};
    buf_print(&words, "retry %u of %u that cost the job nothing (culprit %s), ", r->free_had + 1,
              r->free_max, r->culprit);
    add_delay(&words, at, now);
    set_reason(&v, &words);
    buf_fini(&words);
    return v;
}

/* The job is charged for what it did not do: that is said, with the bound that was reached. */
static void say_used_up(const struct retry_request *r, struct retry_verdict *v)
{
    if (!r->culprit || !r->free_max || r->kill || instant_is_set(r->retry_at) ||
        is_final(r->outcome))
        return;
    size_t n = strlen(v->reason);
    char *at = v->reason + n;
    if (r->free_max == 1)
        snprintf(at, sizeof v->reason - n,
                 "; the only free retry after failures of culprit %s is used up", r->culprit);
    else
        snprintf(at, sizeof v->reason - n,
                 "; all %u free retries after failures of culprit %s are used up", r->free_max,
                 r->culprit);
}

static struct retry_verdict decide_charged(const struct retry_request *r, int64_t limit, instant at,
                                           instant now, const char *whose)
{
    uint32_t failures = retry_failures(r);
    if (r->kill)
        return dead_verdict(r->outcome, "killed by the worker");
    if (instant_is_set(r->retry_at))
        return retry_then(r->retry_at, now, "when the worker asked", failures, -1);
    if (is_final(r->outcome))
        return dead_verdict(r->outcome, job_outcome_name(r->outcome));
    if (failures > limit)
        return over_limit(r->outcome, limit);
    return retry_then(at, now, whose, failures, limit);
}

struct retry_verdict retry_decide(const struct retry_request *r,
                                  const struct retry_defaults *defaults, instant now,
                                  struct rng *rng)
{
    must(r->outcome == OUTCOME_FAILED || r->outcome == OUTCOME_EXPIRED ||
         job_outcome_is_exception(r->outcome));
    const struct job *job = r->job;
    bool own = job->backoff.shape != CURVE_NONE, free = is_free(r);
    const struct curve *curve = own ? &job->backoff : &defaults->backoff;
    int64_t limit = job->retry_limit == RETRY_LIMIT_DEFAULT ? defaults->limit : job->retry_limit;

    /* Draw the jitter whatever the verdict, so that another verdict for one job
     * does not shift every later draw of an unrelated simulation seed. */
    span delay = curve_delay(curve, free ? r->free_had + 1 : retry_failures(r), rng);
    const char *whose = own                  ? "own backoff"
                        : defaults->of_queue ? "backoff of the queue"
                                             : "default backoff";
    /* Whoever waited for the lease to end has waited already: Taskcluster makes the
     * new run at once. */
    if (r->outcome != OUTCOME_FAILED) {
        delay = (span){0};
        whose = r->outcome == OUTCOME_EXPIRED ? "the lease ran out" : job_outcome_name(r->outcome);
    }
    instant at = delay.ms ? instant_add(now, delay) : now;
    if (free)
        return retry_free(r, at, now);
    struct retry_verdict v = decide_charged(r, limit, at, now, whose);
    say_used_up(r, &v);
    return v;
}
