/* SPDX-License-Identifier: Apache-2.0 */
#include "core/verdict.h"

#include <stdio.h>

#include "base/buf.h"
#include "base/duration.h"
#include "base/quantity.h"
#include "core/job_fields.h"
#include "core/tally.h"

_Static_assert(sizeof((struct retry_verdict){0}.reason) == sizeof((struct verdict){0}.reason) &&
                   sizeof((struct policy_verdict){0}.reason) == sizeof((struct verdict){0}.reason),
               "all reasons have the same room");

/* Continues a reason, as far as there is room. */
static void add_words(char reason[RETRY_REASON_MAX], const char *words)
{
    size_t n = strlen(reason);
    if (n + strlen(words) < RETRY_REASON_MAX)
        memcpy(reason + n, words, strlen(words) + 1);
}

/* --- what a policy's retry brings with it --- */

static void adopt(struct verdict *v, const struct policy_verdict *by, const struct policy *p,
                  const struct failure *f, span avoid_required, instant now, struct arena *a)
{
    v->retry = by->retry;
    v->over_match_limit = by->over_match_limit;
    v->steps = by->steps;
    v->ruling = (struct ruling){p ? p->name : (struct str){0}, by->rule, by->count, by->limit};
    memcpy(v->reason, by->reason, sizeof v->reason);
    if (!by->retry) {
        v->resolution = RESOLUTION_FAILED;
        return;
    }
    const struct tally t = {p->name, by->slot.rule, by->slot.count};
    v->at = instant_add(now, by->delay);
    v->extras.granted = 1;
    v->extras.retry_counts = tally_set(v->extras.retry_counts, &t, a);
    if (!by->avoid_node || f->node.len == 0)
        return;
    span required = by->avoid_for.ms >= 0 ? by->avoid_for : avoid_required;
    v->extras.avoid_node = arena_copy(a, f->node); /* it may be the run's, which ends now */
    v->extras.avoid_until = instant_add(v->at, required);
    add_words(v->reason, ", not on the same node");
}

/* The memory of the retry. What was grown is kept over retries by other rules (a preemption, say)
 * unless the rule that grew it said otherwise. */
static void grow(struct verdict *v, const struct policy_rule *rule, const struct job *job)
{
    struct job_extras *x = &v->extras;
    if (!rule || rule->memory.max == 0) {
        if (x->memory_fleeting)
            x->memory = x->memory_fleeting = 0;
        return;
    }
    uint64_t before = x->memory ? x->memory : job->options.memory;
    if (before == 0) {
        add_words(v->reason, ", memory as it was: the job states none");
        return;
    }
    struct buf words = {0};
    uint64_t after = policy_grow(&rule->memory, before);
    buf_str(&words, after > before ? STR(", memory from ") : STR(", memory stays "));
    quantity_write(&words, before);
    if (after > before) {
        buf_lit(&words, " to ");
        quantity_write(&words, after);
        x->memory = after;
        x->memory_fleeting = rule->memory.fleeting;
    } else {
        buf_lit(&words, ", the most");
    }
    buf_byte(&words, '\0');
    add_words(v->reason, words.at);
    buf_fini(&words);
}

/* The run that was preempted may still be at work: the next one waits for its end, but no longer
 * than the grace period (a graceful shutdown). */
static void wait_for_end(struct verdict *v, instant now, uint64_t token, span grace)
{
    struct job_extras *x = &v->extras;
    x->grace_token = token;
    x->grace_end = instant_add(now, grace);
    x->backoff_end = v->at;
    if (x->grace_end.ms <= v->at.ms)
        return;
    if (x->avoid_node.len)
        x->avoid_until = instant_add(x->avoid_until, instant_diff(x->grace_end, v->at));
    v->at = x->grace_end;
    struct buf words = {0};
    buf_lit(&words, ", but not before the preempted run has ended or ");
    duration_write(&words, grace);
    buf_lit(&words, " are over");
    buf_byte(&words, '\0');
    add_words(v->reason, words.at);
    buf_fini(&words);
}

/* --- who decides --- */

/* What retry_decide went by, unless it was a word of the worker. */
static struct ruling ruling_of_limits(const struct retry_request *r,
                                      const struct retry_defaults *defaults, bool retry)
{
    if (r->kill || instant_is_set(r->retry_at))
        return RULING_NONE;
    int64_t own = r->job->retry_limit;
    return (struct ruling){.rule = -1,
                           .count = retry_failures(r) - (retry ? 0 : 1),
                           .limit = own == RETRY_LIMIT_DEFAULT ? defaults->limit : own};
}

/* By a word of the worker, or the job's own limits, the queue's and the server's. */
static void decide_by_limits(const struct verdict_request *r, const struct verdict_rules *rules,
                             uint32_t by_policies, instant now, struct rng *rng, struct verdict *v)
{
    const struct retry_request own = {.job = r->job,
                                      .outcome = r->outcome,
                                      .kill = r->kill,
                                      .retry_at = r->retry_at,
                                      .by_policies = by_policies};
    struct retry_verdict by = retry_decide(&own, &rules->defaults, now, rng);
    v->retry = by.retry;
    v->at = by.retry ? by.at : INSTANT_NONE;
    v->resolution = by.resolution;
    memcpy(v->reason, by.reason, sizeof v->reason);
    v->ruling = ruling_of_limits(&own, &rules->defaults, by.retry);
    grow(v, NULL, r->job);
}

struct verdict verdict_decide(const struct verdict_request *r, const struct verdict_rules *rules,
                              instant now, struct rng *rng, struct arena *a)
{
    const struct job *job = r->job;
    struct verdict v = {.at = INSTANT_NONE, .extras = job_extras_copy(a, &job->state.extras)};
    v.extras.avoid_node = (struct str){0};
    v.extras.avoid_until = (instant){0};
    v.extras.granted = 0;
    struct policy_count *counts = NULL;
    size_t n = r->kill || instant_is_set(r->retry_at) ? 0 : rules->policy_count;
    size_t used = n ? tally_counts(v.extras.retry_counts, a, &counts) : 0;
    /* Policies judge what failed, and of a lease that ran out nobody knows that anything did. */
    if (n == 0 || r->outcome == OUTCOME_EXPIRED) {
        decide_by_limits(r, rules, policy_total(counts, used), now, rng, &v);
    } else {
        struct policy_verdict by =
            policy_evaluate(rules->policies, n, rules->settings, r->failure, counts, used, rng);
        const struct policy *p = by.policy >= 0 ? rules->policies[by.policy] : NULL;
        adopt(&v, &by, p, r->failure, rules->avoid_required, now, a);
        if (v.retry)
            grow(&v, by.rule >= 0 ? &p->rules[by.rule] : NULL, job);
    }
    if (v.retry && r->grace.ms > 0)
        wait_for_end(&v, now, r->token, r->grace);
    return v;
}

struct verdict verdict_poison(const struct job_extras *x, uint32_t losses)
{
    struct verdict v = {
        .resolution = RESOLUTION_POISON, .at = INSTANT_NONE, .ruling = RULING_NONE, .extras = *x};
    v.extras.avoid_node = (struct str){0};
    v.extras.avoid_until = (instant){0};
    snprintf(v.reason, sizeof v.reason, "dead: its worker was lost in %u %s", losses,
             losses == 1 ? "run" : "runs in a row");
    return v;
}
