/* SPDX-License-Identifier: Apache-2.0 */

/* Who decides about a failure, and that globalMaxRetries has the last word about every retry. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "core/tally.h"
#include "core/verdict.h"

#define NOW ((instant){1700000000000})

static struct {
    struct arena memory;
    struct policy_rule rule;
    struct policy policy;
    const struct policy *list[1];
    struct policy_settings settings;
    struct verdict_rules rules;
    struct job job;
    struct failure failure;
    struct verdict_request request;
} w;

/* A job under one policy, whose rule retries evicted runs. */
static int set_up(void **state)
{
    (void)state;
    memset(&w, 0, sizeof w);
    w.rule = (struct policy_rule){.action = POLICY_RETRY,
                                  .retry_limit = POLICY_NO_LIMIT,
                                  .match.conditions = MATCHER_CONDITION(CONDITION_EVICTED)};
    w.rule.key = policy_rule_key(&w.rule);
    w.policy = (struct policy){
        .name = STR("p"), .retry_limit = POLICY_NO_LIMIT, .rules = &w.rule, .rule_count = 1};
    w.list[0] = &w.policy;
    w.settings = POLICY_SETTINGS_DEFAULT;
    w.settings.enabled = true;
    w.settings.when_no_policy = RETRY_FALLBACK_FAIL;
    w.rules = (struct verdict_rules){.policies = w.list,
                                     .policy_count = 1,
                                     .settings = &w.settings,
                                     .defaults = retry_defaults()};
    w.job = (struct job){.queue = STR("q"), .retry_limit = RETRY_LIMIT_DEFAULT};
    w.failure = (struct failure){.run_time = {-1}};
    w.request = (struct verdict_request){.job = &w.job,
                                         .outcome = OUTCOME_FAILED,
                                         .failure = &w.failure,
                                         .retry_at = INSTANT_NONE,
                                         .token = 7};
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    arena_fini(&w.memory);
    return 0;
}

static struct verdict decide(void)
{
    struct rng rng = rng_from_seed(7), one = rng_from_seed(7);
    (void)rng_next(&one);
    struct verdict v = verdict_decide(&w.request, &w.rules, NOW, &rng, &w.memory);
    assert_memory_equal(&rng, &one, sizeof rng);
    assert_int_equal(v.retry, instant_is_set(v.at));
    return v;
}

/* Retries the job, and advances its state accordingly. */
static void retry(void)
{
    struct verdict v = decide();
    assert_true(v.retry);
    w.job.state.extras = v.extras;
    w.job.state.attempts++;
}

static void expire(void)
{
    w.request.outcome = OUTCOME_EXPIRED;
    w.failure.condition = CONDITION_LEASE_EXPIRED;
}

#define assert_says(v, words)                                                                      \
    do {                                                                                           \
        if (!strstr((v).reason, (words)))                                                          \
            fail_msg("%s lacks %s", (v).reason, (words));                                          \
    } while (0)

/* --- no policy --- */

static void without_a_policy_a_failure_fails(void **state)
{
    (void)state;
    w.rules.policy_count = 0;
    struct verdict v = decide();
    assert_false(v.retry);
    assert_int_equal(v.resolution, RESOLUTION_FAILED);
    assert_int_equal(v.ruling.by, DECIDER_NO_POLICY);
    assert_string_equal(v.reason, "dead: no retry policy is in effect, and whenNoPolicy says fail");
}

static void or_is_left_to_the_usual_backoff(void **state)
{
    (void)state;
    w.rules.policy_count = 0;
    w.settings.when_no_policy = RETRY_FALLBACK_DEFAULT;
    struct verdict v = decide();
    assert_true(v.retry);
    assert_int_equal(v.ruling.by, DECIDER_RETRY_LIMIT);
    assert_says(v, "retry 1 of 25, default backoff");
}

static void
a_job_says_otherwise_than_its_queue_and_the_server_even_if_policies_are_off(void **state)
{
    (void)state;
    w.rules.policy_count = 0;
    w.job.options.when_no_policy = RETRY_FALLBACK_FAIL;
    for (int on = 0; on <= 1; on++) {
        w.settings.enabled = on;
        w.rules.when_no_policy = RETRY_FALLBACK_DEFAULT;
        struct verdict v = decide();
        assert_false(v.retry);
        assert_int_equal(v.resolution, RESOLUTION_FAILED);
        assert_int_equal(v.ruling.by, DECIDER_NO_POLICY);
        assert_string_equal(v.reason,
                            "dead: no retry policy is in effect, and the job's when_no_policy "
                            "says fail");
    }
    w.rules.settings = NULL;
    assert_false(decide().retry);
    w.rules.settings = &w.settings;
    w.rules.when_no_policy = RETRY_FALLBACK_FAIL;
    w.job.options.when_no_policy = RETRY_FALLBACK_DEFAULT;
    assert_true(decide().retry);
}

static void a_policy_comes_before_what_a_job_says_for_none(void **state)
{
    (void)state;
    w.job.options.when_no_policy = RETRY_FALLBACK_FAIL;
    w.failure.condition = CONDITION_EVICTED;
    assert_says(decide(), "by rule 1 of policy p");
    w.settings.enabled = false;
    assert_false(decide().retry);
    w.request.retry_at = NOW;
    assert_says(decide(), "when the worker asked");
}

static void exceptions_and_expired_leases_share_the_retries_of_a_job_that_fails_alone(void **state)
{
    (void)state;
    static const enum outcome order[] = {OUTCOME_WORKER_SHUTDOWN, OUTCOME_EXPIRED,
                                         OUTCOME_INTERMITTENT_TASK};
    w.rules.policy_count = 0;
    w.job.retry_limit = 3;
    w.job.options.when_no_policy = RETRY_FALLBACK_FAIL;
    for (size_t i = 0; i < 3; i++) {
        w.request.outcome = order[i];
        struct verdict v = decide();
        assert_true(v.retry);
        assert_int_equal(v.at.ms, NOW.ms);
        assert_int_equal(v.ruling.count, i + 1);
        w.job.state.extras = v.extras;
        w.job.state.attempts++;
    }
    for (size_t i = 0; i < 3; i++) {
        w.request.outcome = order[i];
        assert_false(decide().retry);
        assert_int_equal(decide().resolution, job_outcome_resolution(order[i]));
    }
    w.job.state.forgiven = w.job.state.attempts; /* by a rerun, as are the counts */
    w.job.state.extras = (struct job_extras){0};
    assert_true(decide().retry);
    w.request.outcome = OUTCOME_MALFORMED_PAYLOAD;
    assert_false(decide().retry);
    assert_int_equal(decide().resolution, RESOLUTION_MALFORMED_PAYLOAD);
}

static void a_queue_says_otherwise_than_the_server(void **state)
{
    (void)state;
    w.rules.policy_count = 0;
    w.rules.when_no_policy = RETRY_FALLBACK_DEFAULT;
    assert_true(decide().retry);
    w.settings.when_no_policy = RETRY_FALLBACK_DEFAULT;
    w.rules.when_no_policy = RETRY_FALLBACK_FAIL;
    assert_false(decide().retry);
}

static void policies_that_are_off_change_nothing(void **state)
{
    (void)state;
    w.rules.policy_count = 0;
    w.settings.enabled = false;
    w.settings.global_max_retries = 0;
    assert_says(decide(), "retry 1 of 25, default backoff");
}

static void what_is_missing_is_named(void **state)
{
    (void)state;
    w.rules.policy_count = 0;
    w.rules.missing = STR("gone");
    assert_says(decide(), "whenNoPolicy says fail; retry policy gone is missing");
    w.rules.missing = STR("a,b");
    w.rules.policy_count = 1;
    w.failure.condition = CONDITION_EVICTED;
    assert_says(decide(),
                "by rule 1 of policy p (Evicted), at once; retry policies a,b are missing");
}

static void neither_a_word_of_the_worker_nor_a_lost_lease_waits_for_a_policy(void **state)
{
    (void)state;
    w.rules.policy_count = 0;
    w.request.retry_at = (instant){NOW.ms + 5000};
    assert_says(decide(), "when the worker asked");
    w.request.retry_at = INSTANT_NONE;
    expire();
    assert_says(decide(), "retry 1 of 25, the lease ran out");
}

/* --- the last word --- */

static void the_maximum_counts_retries_by_whomever(void **state)
{
    (void)state;
    w.settings.global_max_retries = 4;
    w.settings.when_no_policy = RETRY_FALLBACK_DEFAULT;
    w.failure.condition = CONDITION_EVICTED;
    retry(); /* by a rule */
    w.rules.policy_count = 0;
    retry(); /* by the default backoff */
    w.request.retry_at = (instant){NOW.ms + 5000};
    retry(); /* by the worker */
    w.request.retry_at = INSTANT_NONE;
    expire();
    retry(); /* by an expired lease */
    assert_int_equal(w.job.state.extras.asked_retries, 1);
    assert_int_equal(w.job.state.extras.expired_retries, 1);

    struct verdict v = decide();
    assert_false(v.retry);
    assert_int_equal(v.resolution, RESOLUTION_CLAIM_EXPIRED);
    assert_int_equal(v.ruling.by, DECIDER_GLOBAL_MAX);
    assert_string_equal(v.reason, "dead: the lease ran out and 4 retries in all, as many as "
                                  "globalMaxRetries allows");
    tear_down(NULL);
    set_up(NULL);
    w.job.state.attempts = 4;
    w.settings.global_max_retries = 4;
    w.request.retry_at = (instant){NOW.ms + 5000};
    assert_string_equal(decide().reason,
                        "dead: 4 retries in all, as many as globalMaxRetries allows");
    w.request.retry_at = INSTANT_NONE;
    w.failure.condition = CONDITION_EVICTED;
    v = decide();
    assert_false(v.retry);
    assert_int_equal(v.ruling.by, DECIDER_GLOBAL_MAX);
    w.rules.policy_count = 0;
    w.settings.when_no_policy = RETRY_FALLBACK_DEFAULT;
    assert_false(decide().retry);
}

static void zero_stops_every_retry(void **state)
{
    (void)state;
    w.settings.global_max_retries = 0;
    w.settings.when_no_policy = RETRY_FALLBACK_DEFAULT;
    w.request.retry_at = (instant){NOW.ms + 5000};
    assert_says(decide(), "globalMaxRetries is 0, which stops all retries");
    w.request.retry_at = INSTANT_NONE;
    w.rules.policy_count = 0;
    assert_says(decide(), "dead: globalMaxRetries is 0, which stops all retries");
    expire();
    assert_says(decide(), "dead: the lease ran out and globalMaxRetries is 0");
}

static void what_is_exempt_is_neither_stopped_nor_counted(void **state)
{
    (void)state;
    w.settings.global_max_retries = 2;
    w.settings.when_no_policy = RETRY_FALLBACK_DEFAULT;
    w.settings.exempt = POLICY_EXEMPT_OWN | POLICY_EXEMPT_EXPIRED;
    w.rules.policy_count = 0;
    for (int i = 0; i < 5; i++)
        retry();
    expire();
    for (int i = 0; i < 5; i++)
        retry();
    w.request.outcome = OUTCOME_FAILED;
    w.request.retry_at = (instant){NOW.ms + 5000};
    retry();
    retry();
    assert_false(decide().retry);
    w.request.retry_at = INSTANT_NONE;
    assert_true(decide().retry);
    w.settings.exempt = POLICY_EXEMPT_EXPIRED; /* 5 retries by the default backoff count now */
    assert_says(decide(), "7 retries in all, and globalMaxRetries now allows 2");
}

/* --- the limit of the job itself --- */

static void retries_that_policies_granted_never_count_against_the_jobs_own_limit(void **state)
{
    (void)state;
    const struct tally t = {STR("p"), w.rule.key, 3};
    w.job.retry_limit = 1;
    w.job.state.attempts = 3;
    w.job.state.extras.retry_counts = tally_set((struct str){0}, &t, &w.memory);
    expire();
    assert_says(decide(), "retry 1 of 1, the lease ran out");
    w.rules.policy_count = 0;
    assert_says(decide(), "retry 1 of 1, the lease ran out");
    w.request.outcome = OUTCOME_FAILED;
    w.failure.condition = CONDITION_NONE;
    w.settings.enabled = false;
    assert_says(decide(), "retry 1 of 1, default backoff");
}

/* --- free retries --- */

static void charge(enum culprit c)
{
    w.rules.policy_count = 0;
    w.settings.when_no_policy = RETRY_FALLBACK_DEFAULT;
    w.job.retry_limit = 0;
    w.failure.culprit = c;
}

static void what_others_did_spends_nothing_of_the_limit_up_to_a_bound(void **state)
{
    (void)state;
    struct culprit_bounds bounds = {.free = {[CULPRIT_DISRUPTION] = 2, [CULPRIT_NODE] = 1}};
    charge(CULPRIT_DISRUPTION);
    assert_says(decide(), "dead: no retries are allowed");
    w.rules.bounds = &bounds;
    w.job.backoff = (struct curve){CURVE_EXPONENTIAL, {1000}, 2.0, {0}, {60000}};
    struct verdict v = decide();
    assert_int_equal(v.ruling.by, DECIDER_CULPRIT);
    assert_int_equal(v.ruling.count, 1);
    assert_int_equal(v.ruling.limit, 2);
    assert_string_equal(v.reason,
                        "retry 1 of 2 that cost the job nothing (culprit disruption), in 1 s");
    retry();
    assert_int_equal(decide().at.ms, NOW.ms + 2000);
    retry();
    v = decide();
    assert_false(v.retry);
    assert_int_equal(v.ruling.by, DECIDER_RETRY_LIMIT);
    assert_string_equal(v.reason, "dead: no retries are allowed; all 2 free retries after failures "
                                  "of culprit disruption are used up");
    /* Each culprit has a bound of its own, and the job its own limit as ever. */
    w.failure.culprit = CULPRIT_NODE;
    retry();
    assert_says(decide(), "; the only free retry after failures of culprit node is used up");
    w.failure.culprit = CULPRIT_JOB;
    w.job.retry_limit = 1;
    assert_says(decide(), "retry 1 of 1, own backoff, in 1 s");
    retry();
    assert_string_equal(decide().reason, "dead: the only retry is used up");
}

static void final_exceptions_words_of_workers_tasks_and_silent_workers_are_as_ever(void **state)
{
    (void)state;
    struct culprit_bounds bounds = culprit_bounds_default();
    charge(CULPRIT_WORKER);
    w.rules.bounds = &bounds;
    w.request.outcome = OUTCOME_INTERNAL_ERROR;
    assert_string_equal(decide().reason, "dead: internal-error");
    w.request.outcome = OUTCOME_FAILED;
    w.request.kill = true;
    assert_string_equal(decide().reason, "dead: killed by the worker");
    w.request.kill = false;
    assert_true(decide().retry);
    w.job.type = STR(JOB_TYPE_TASK);
    w.job.options.alias = STR("a");
    assert_string_equal(decide().reason, "dead: no retries are allowed");
    w.job.type = STR("t");
    expire();
    assert_string_equal(decide().reason, "dead: the lease ran out and no retries are allowed");
    w.failure.culprit = CULPRIT_SERVER;
    assert_string_equal(decide().reason,
                        "retry 1 of 20 that cost the job nothing (culprit server), at once");
    w.request.outcome = OUTCOME_FAILED;
    w.job.options.when_no_policy = RETRY_FALLBACK_FAIL;
    assert_false(decide().retry);
}

/* Those of a condition may be exempt alone; by whomever, and without those of the other one. */
static void preemptions_can_be_exempt_without_evictions(void **state)
{
    (void)state;
    w.settings.global_max_retries = 2;
    w.settings.exempt = POLICY_EXEMPT_PREEMPTED;
    w.failure.culprit = CULPRIT_DISRUPTION;
    w.failure.condition = CONDITION_PREEMPTED;
    w.rule.match.conditions =
        MATCHER_CONDITION(CONDITION_PREEMPTED) | MATCHER_CONDITION(CONDITION_EVICTED);
    w.rule.retry_limit = 100;
    w.rules.policy_count = 1;
    for (int i = 0; i < 21; i++)
        retry();
    w.failure.condition = CONDITION_EVICTED;
    retry();
    retry();
    assert_says(decide(), "dead: 2 retries in all, as many as globalMaxRetries allows");
    w.settings.exempt |= POLICY_EXEMPT_EVICTED;
    retry();
    w.settings.exempt |= POLICY_EXEMPT_CULPRIT(CULPRIT_DISRUPTION);
    w.failure.culprit = CULPRIT_NODE;
    retry();
    retry();
    assert_says(decide(), "dead: 2 retries in all, as many as globalMaxRetries allows");
}

static void a_culprit_can_be_exempt_from_the_maximum_whoever_retries(void **state)
{
    (void)state;
    struct culprit_bounds bounds = culprit_bounds_default();
    w.settings.global_max_retries = 2;
    w.failure.condition = CONDITION_EVICTED;
    w.failure.culprit = CULPRIT_DISRUPTION;
    retry(); /* by the rule */
    charge(CULPRIT_DISRUPTION);
    w.rules.bounds = &bounds;
    retry();
    assert_says(decide(), "dead: 2 retries in all, as many as globalMaxRetries allows");
    w.settings.exempt = POLICY_EXEMPT_CULPRIT(CULPRIT_DISRUPTION);
    retry();
    w.rules.policy_count = 1;
    w.rule.retry_limit = 10;
    retry();
    assert_true(decide().retry);
    /* None of these four count for others either. */
    w.rules.policy_count = 0;
    w.failure.culprit = CULPRIT_NODE;
    retry();
    retry();
    assert_says(decide(), "dead: 2 retries in all");
    w.settings.exempt = 0;
    assert_says(decide(), "dead: 6 retries in all, and globalMaxRetries now allows 2");
}

/* --- retryFor --- */

static void a_retry_begins_within_the_time_after_the_first_failure_or_never(void **state)
{
    (void)state;
    w.failure.condition = CONDITION_EVICTED;
    w.policy.retry_for = (span){100000};
    w.rule.backoff = (struct curve){CURVE_EXPONENTIAL, {50000}, 1.0, {0}, {50000}};
    retry();
    assert_int_equal(w.job.state.extras.first_failed_at.ms, NOW.ms);
    w.job.state.extras.first_failed_at.ms = NOW.ms - 50000;
    assert_true(decide().retry);
    w.job.state.extras.first_failed_at.ms--;
    struct verdict v = decide();
    assert_false(v.retry);
    assert_string_equal(v.reason,
                        "dead: failed for 50 s, and the retry would begin in 50 s; rule 1 "
                        "of policy p retries for no longer than 1 min 40 s");
    assert_int_equal(v.ruling.by, DECIDER_RETRY_FOR);
    assert_int_equal(v.ruling.count, 1);
    assert_int_equal(v.resolution, RESOLUTION_FAILED);
    assert_int_equal(v.extras.granted, 0);
    assert_true(str_eq(v.extras.retry_counts, w.job.state.extras.retry_counts));
    w.rule.retry_for = (span){200000}; /* in place of the policy's */
    assert_true(decide().retry);
    w.rule.retry_for = (span){40000};
    w.job.state.forgiven = 1; /* brought back by hand: that was another time */
    assert_string_equal(decide().reason, "dead: the retry would begin in 50 s; rule 1 of policy p "
                                         "retries for no longer than 40 s");
}

static void a_retry_at_once_and_a_grace_are_limited_by_time_too(void **state)
{
    (void)state;
    w.policy.default_action = POLICY_RETRY;
    w.policy.retry_for = (span){100000};
    retry();
    w.job.state.extras.first_failed_at.ms = NOW.ms - 100000;
    assert_true(decide().retry);
    w.request.grace = (span){1};
    assert_false(decide().retry);
    w.request.grace = (span){0};
    w.job.state.extras.first_failed_at.ms--;
    assert_string_equal(decide().reason, "dead: failed for 1 min 40 s; the default of policy p "
                                         "retries for no longer than 1 min 40 s");
    w.request.retry_at = (instant){NOW.ms + 1000000};
    assert_true(decide().retry); /* the worker said so */
}

static void the_time_for_retries_does_not_begin_with_what_others_did(void **state)
{
    (void)state;
    const struct culprit_bounds bounds = {.free = {[CULPRIT_DISRUPTION] = 5}};
    w.rules.bounds = &bounds;
    w.failure.condition = CONDITION_EVICTED;
    w.failure.culprit = CULPRIT_DISRUPTION;
    retry();
    assert_int_equal(w.job.state.extras.first_failed_at.ms, 0);
    w.rule.retry_for = (span){1000};
    struct verdict v = decide(); /* but with this rule it does */
    assert_true(v.retry);
    assert_int_equal(v.extras.first_failed_at.ms, NOW.ms);
    w.rules.policy_count = 0; /* free */
    w.settings.enabled = false;
    retry();
    assert_int_equal(w.job.state.extras.first_failed_at.ms, 0);
    w.failure.culprit = CULPRIT_JOB;
    retry();
    assert_int_equal(w.job.state.extras.first_failed_at.ms, NOW.ms);
}

/* --- expired leases --- */

static void only_a_rule_that_names_it_judges_an_expired_lease(void **state)
{
    (void)state;
    w.policy.default_action = POLICY_FAIL;
    expire();
    assert_says(decide(), "retry 1 of 25, the lease ran out, at once");
    const unsigned conditions = w.rule.match.conditions;
    w.rule.match.conditions = 0;
    w.rule.match.culprits = MATCHER_CULPRIT(CULPRIT_SERVER);
    assert_says(decide(), "retry 1 of 25, the lease ran out, at once");
    w.failure.culprit = CULPRIT_SERVER;
    assert_says(decide(), "retry 1 of 20 by rule 1 of policy p (culprit server), at once");
    w.failure.culprit = CULPRIT_NONE;
    w.rule.match.culprits = 0;
    w.rule.match.conditions = conditions | MATCHER_CONDITION(CONDITION_LEASE_EXPIRED);
    w.rule.backoff = (struct curve){CURVE_EXPONENTIAL, {30000}, 2.0, {0}, {60000}};
    struct verdict v = decide();
    assert_says(v, "retry 1 of 20 by rule 1 of policy p (Evicted, LeaseExpired), in 30 s");
    assert_int_equal(v.at.ms, NOW.ms + 30000);
    assert_int_equal(v.extras.expired_retries, 0);
    w.rule.action = POLICY_FAIL;
    v = decide();
    assert_false(v.retry);
    assert_int_equal(v.resolution, RESOLUTION_CLAIM_EXPIRED);
    assert_int_equal(v.ruling.by, DECIDER_RULE);
}

static void a_policy_in_armada_s_form_judges_an_expired_lease_like_any_failure(void **state)
{
    (void)state;
    expire();
    w.policy.counts_together = true;
    w.policy.retry_limit = 3;
    w.policy.default_action = POLICY_RETRY;
    assert_says(decide(), "retry 1 of 3 by the default of policy p, at once");
    w.policy.default_action = POLICY_FAIL;
    struct verdict v = decide();
    assert_says(v, "dead: no rule matched and policy p says Fail");
    assert_int_equal(v.resolution, RESOLUTION_CLAIM_EXPIRED);
}

/* --- preempted runs --- */

static void the_node_is_avoided_from_when_the_retry_is_ready_also_after_a_grace(void **state)
{
    (void)state;
    w.failure.condition = CONDITION_EVICTED;
    w.failure.node = STR("n1");
    w.rule.affinity = (struct policy_affinity){
        .mode = POLICY_AFFINITY_NODE, .has_required = true, .required_for = {5000}};
    w.rule.backoff = (struct curve){CURVE_EXPONENTIAL, {1000}, 1.0, {0}, {-1}};
    struct rng rng = {0};
    struct verdict v = verdict_decide(&w.request, &w.rules, NOW, &rng, &w.memory);
    assert_true(v.retry);
    assert_int_equal(v.at.ms, NOW.ms + 1000);
    assert_int_equal(v.extras.avoid_until.ms, NOW.ms + 6000);
    w.request.grace = (span){40000};
    v = verdict_decide(&w.request, &w.rules, NOW, &rng, &w.memory);
    assert_int_equal(v.at.ms, NOW.ms + 40000);
    assert_int_equal(v.extras.avoid_until.ms, NOW.ms + 45000);
}

static void what_was_forgiven_does_not_count_towards_the_maximum(void **state)
{
    (void)state;
    w.rules.policy_count = 0;
    w.rules.when_no_policy = RETRY_FALLBACK_DEFAULT;
    w.settings.exempt = 0;
    w.settings.global_max_retries = 2;
    w.job.state.attempts = 4;
    w.job.state.forgiven = 3;
    struct rng rng = {0};
    assert_true(verdict_decide(&w.request, &w.rules, NOW, &rng, &w.memory).retry);
    w.job.state.forgiven = 2;
    assert_false(verdict_decide(&w.request, &w.rules, NOW, &rng, &w.memory).retry);
}

static void a_preempted_run_has_the_grace_period_of_the_settings_unless_it_says(void **state)
{
    (void)state;
    w.rule.match.conditions = MATCHER_CONDITION(CONDITION_PREEMPTED);
    w.failure.condition = CONDITION_PREEMPTED;
    w.settings.preempted_grace = (span){40000};
    w.request.grace = (span){-1};
    struct verdict v = decide();
    assert_int_equal(v.at.ms, NOW.ms + 40000);
    assert_int_equal(v.extras.grace_token, 7);
    w.request.grace = (span){0}; /* it has ended */
    assert_int_equal(decide().at.ms, NOW.ms);
    w.request.grace = (span){-1};
    w.failure.condition = CONDITION_NONE;
    w.policy.default_action = POLICY_RETRY;
    assert_int_equal(decide().at.ms, NOW.ms);
}

/* --- who decided --- */

static void no_rule_is_told_apart_from_a_rule_and_its_limit(void **state)
{
    (void)state;
    assert_int_equal(decide().ruling.by, DECIDER_NO_RULE);
    w.policy.default_action = POLICY_FAIL;
    assert_int_equal(decide().ruling.by, DECIDER_NO_RULE);
    w.failure.condition = CONDITION_EVICTED;
    assert_int_equal(decide().ruling.by, DECIDER_RULE);
    w.rule.retry_limit = 0;
    assert_int_equal(decide().ruling.by, DECIDER_RULE_LIMIT);
    w.request.kill = true;
    assert_int_equal(decide().ruling.by, DECIDER_KILL);
}

/* --- the effects of a verdict --- */

static void a_verdict_moves_a_job_by_one_event(void **state)
{
    (void)state;
    const instant now = {1000};
    struct verdict retry = {.retry = true, .at = {1000}}, later = {.retry = true, .at = {1001}};
    struct verdict dead = {.at = INSTANT_NONE, .resolution = RESOLUTION_FAILED};
    struct job_extras none = {0};
    struct verdict poison = verdict_poison(&none, 3);
    assert_int_equal(verdict_event(&retry, now), EVENT_RETRY_NOW);
    assert_int_equal(verdict_event(&later, now), EVENT_RETRY);
    assert_int_equal(verdict_event(&dead, now), EVENT_EXHAUST);
    assert_int_equal(verdict_event(&poison, now), EVENT_POISON);
}

static void without_a_limit_no_job_is_poison(void **state)
{
    (void)state;
    assert_false(verdict_is_poison(0, UINT32_MAX));
    assert_false(verdict_is_poison(3, 2));
    assert_true(verdict_is_poison(3, 3));
}

#define T(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(without_a_policy_a_failure_fails),
        T(or_is_left_to_the_usual_backoff),
        T(a_queue_says_otherwise_than_the_server),
        T(a_job_says_otherwise_than_its_queue_and_the_server_even_if_policies_are_off),
        T(a_policy_comes_before_what_a_job_says_for_none),
        T(exceptions_and_expired_leases_share_the_retries_of_a_job_that_fails_alone),
        T(policies_that_are_off_change_nothing),
        T(what_is_missing_is_named),
        T(neither_a_word_of_the_worker_nor_a_lost_lease_waits_for_a_policy),
        T(the_maximum_counts_retries_by_whomever),
        T(zero_stops_every_retry),
        T(what_is_exempt_is_neither_stopped_nor_counted),
        T(retries_that_policies_granted_never_count_against_the_jobs_own_limit),
        T(what_others_did_spends_nothing_of_the_limit_up_to_a_bound),
        T(final_exceptions_words_of_workers_tasks_and_silent_workers_are_as_ever),
        T(preemptions_can_be_exempt_without_evictions),
        T(a_culprit_can_be_exempt_from_the_maximum_whoever_retries),
        T(a_retry_begins_within_the_time_after_the_first_failure_or_never),
        T(a_retry_at_once_and_a_grace_are_limited_by_time_too),
        T(the_time_for_retries_does_not_begin_with_what_others_did),
        T(only_a_rule_that_names_it_judges_an_expired_lease),
        T(a_policy_in_armada_s_form_judges_an_expired_lease_like_any_failure),
        T(the_node_is_avoided_from_when_the_retry_is_ready_also_after_a_grace),
        T(what_was_forgiven_does_not_count_towards_the_maximum),
        T(a_preempted_run_has_the_grace_period_of_the_settings_unless_it_says),
        T(no_rule_is_told_apart_from_a_rule_and_its_limit),
        T(a_verdict_moves_a_job_by_one_event),
        T(without_a_limit_no_job_is_poison),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
