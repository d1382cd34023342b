/* SPDX-License-Identifier: Apache-2.0 */

/* Until when a job is retried, by what it says itself: its retry_for and its deadline. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/verdict.h"

#define NOW    ((instant){1000000000000})
#define MINUTE 60000

static struct {
    struct policy policy;
    const struct policy *list[1];
    struct policy_settings settings;
    struct verdict_rules rules;
    struct job job;
    struct failure failure;
    struct verdict_request request;
    struct culprit_bounds bounds;
    struct arena memory;
} w;

/* A job that is retried after half an hour. */
static int set_up(void **state)
{
    (void)state;
    memset(&w, 0, sizeof w);
    w.settings = POLICY_SETTINGS_DEFAULT;
    w.policy = (struct policy){.name = STR("p"),
                               .retry_limit = 9,
                               .default_action = POLICY_RETRY,
                               .backoff = {CURVE_EXPONENTIAL, {30 * MINUTE}, 1, {0}, {-1}}};
    w.list[0] = &w.policy;
    w.bounds.free[CULPRIT_NODE] = 5;
    w.rules = (struct verdict_rules){
        .settings = &w.settings, .defaults = retry_defaults(), .bounds = &w.bounds};
    w.job = (struct job){.queue = STR("q"),
                         .retry_limit = 9,
                         .backoff = {CURVE_EXPONENTIAL, {30 * MINUTE}, 1, {0}, {-1}}};
    w.job.options.retry_for = 60 * MINUTE;
    w.failure = (struct failure){.run_time = {-1}, .culprit = CULPRIT_JOB};
    w.request = (struct verdict_request){
        .job = &w.job, .outcome = OUTCOME_FAILED, .failure = &w.failure, .retry_at = INSTANT_NONE};
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
    struct rng rng = rng_from_seed(1);
    return verdict_decide(&w.request, &w.rules, NOW, &rng, &w.memory);
}

static void failed_first(int64_t minutes_ago)
{
    w.job.state.attempts = 1;
    w.job.state.extras.first_failed_at.ms = NOW.ms - minutes_ago * MINUTE;
}

static void its_own_time_ends_retries_by_its_own_limit(void **state)
{
    (void)state;
    struct verdict v = decide();
    assert_true(v.retry);
    assert_int_equal(v.extras.first_failed_at.ms, NOW.ms);
    failed_first(30);
    assert_true(decide().retry); /* just in time */
    failed_first(31);
    v = decide();
    assert_false(v.retry);
    assert_int_equal(v.resolution, RESOLUTION_FAILED);
    assert_int_equal(v.ruling.by, DECIDER_RETRY_FOR);
    assert_string_equal(v.reason,
                        "dead: failed for 31 min, and the retry would begin in 30 min; the "
                        "job, by its retry_for_ms, retries for no longer than 1 h");
}

static void of_its_own_time_and_that_of_a_policy_the_shorter_counts(void **state)
{
    (void)state;
    w.settings.enabled = true;
    w.rules.policies = w.list;
    w.rules.policy_count = 1;
    w.policy.retry_for = (span){120 * MINUTE};
    failed_first(31);
    struct verdict v = decide();
    assert_false(v.retry);
    assert_int_equal(v.ruling.by, DECIDER_RETRY_FOR);
    assert_int_equal(v.ruling.policy.len, 0); /* not the policy's word */
    w.policy.retry_for = (span){40 * MINUTE};
    failed_first(20);
    v = decide();
    assert_false(v.retry);
    assert_true(str_eq(v.ruling.policy, STR("p")));
}

static void what_others_did_and_what_the_worker_asked_for_is_retried_after_it_too(void **state)
{
    (void)state;
    failed_first(90);
    w.request.retry_at = (instant){NOW.ms + 90 * MINUTE};
    assert_true(decide().retry);
    w.request.retry_at = INSTANT_NONE;
    assert_false(decide().retry);
    w.failure.culprit = CULPRIT_NODE; /* free */
    assert_true(decide().retry);
}

static void a_retry_that_would_begin_after_the_deadline_is_not_made(void **state)
{
    (void)state;
    w.job.options.deadline.ms = NOW.ms + 30 * MINUTE + 1;
    assert_true(decide().retry);
    w.job.options.deadline.ms--;
    struct verdict v = decide();
    assert_false(v.retry);
    assert_int_equal(v.resolution, RESOLUTION_DEADLINE);
    assert_int_equal(v.ruling.by, DECIDER_DEADLINE);
    assert_string_equal(v.reason,
                        "dead: the retry would begin at 2001-09-09T02:16:40.000Z, and the job's "
                        "deadline is 2001-09-09T02:16:40.000Z");
    w.request.retry_at = NOW; /* at once: then it may still end in time */
    assert_true(decide().retry);
    w.request.retry_at.ms += 31 * MINUTE;
    assert_false(decide().retry);
}

static void a_job_that_is_out_of_retries_is_dead_of_that_and_not_of_its_deadline(void **state)
{
    (void)state;
    w.job.options.deadline.ms = NOW.ms + MINUTE;
    w.job.retry_limit = 0;
    struct verdict v = decide();
    assert_int_equal(v.resolution, RESOLUTION_FAILED);
    assert_int_equal(v.ruling.by, DECIDER_RETRY_LIMIT);
}

#define UNTIL_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        UNTIL_TEST(its_own_time_ends_retries_by_its_own_limit),
        UNTIL_TEST(of_its_own_time_and_that_of_a_policy_the_shorter_counts),
        UNTIL_TEST(what_others_did_and_what_the_worker_asked_for_is_retried_after_it_too),
        UNTIL_TEST(a_retry_that_would_begin_after_the_deadline_is_not_made),
        UNTIL_TEST(a_job_that_is_out_of_retries_is_dead_of_that_and_not_of_its_deadline),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
