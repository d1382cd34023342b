/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/array.h"
#include "chance.h"
#include "core/retry.h"

#define NOW ((instant){1700000000000})

static struct job job_with(int64_t limit, uint32_t attempts)
{
    return (struct job){.retry_limit = limit, .state = {.attempts = attempts}};
}

static struct retry_verdict decide(const struct job *job, struct retry_request request)
{
    struct retry_defaults defaults = retry_defaults();
    struct rng rng = CHANCE_HALF;
    request.job = job;
    return retry_decide(&request, &defaults, NOW, &rng);
}

#define FAILED                                                                                     \
    {                                                                                              \
        .outcome = OUTCOME_FAILED, .retry_at = INSTANT_NONE                                        \
    }
#define EXPIRED                                                                                    \
    {                                                                                              \
        .outcome = OUTCOME_EXPIRED, .retry_at = INSTANT_NONE                                       \
    }
#define decide_failed(job)  decide((job), (struct retry_request)FAILED)
#define decide_expired(job) decide((job), (struct retry_request)EXPIRED)

static void a_limit_of_3_means_3_retries_after_the_first_failure(void **state)
{
    (void)state;
    uint32_t failures = 0;
    for (bool retry = true; retry; failures++) {
        struct job job = job_with(3, failures);
        retry = decide_failed(&job).retry;
    }
    assert_int_equal(failures, 4);
}

static void the_default_limit_gives_up_at_the_26th_failure(void **state)
{
    (void)state;
    struct job job = job_with(RETRY_LIMIT_DEFAULT, 24);
    assert_true(decide_failed(&job).retry);
    job.state.attempts = 25;
    struct retry_verdict v = decide_failed(&job);
    assert_false(v.retry);
    assert_int_equal(v.resolution, RESOLUTION_FAILED);
    assert_string_equal(v.reason, "dead: all 25 retries are used up");
}

static void a_failure_is_retried_after_the_default_backoff(void **state)
{
    (void)state;
    struct job job = job_with(RETRY_LIMIT_DEFAULT, 1);
    struct retry_verdict v = decide_failed(&job);
    assert_true(v.retry);
    assert_int_equal(v.at.ms, NOW.ms + 61000);
    assert_string_equal(v.reason, "retry 2 of 25, default backoff, in 1 min 1 s");
}

static void the_jobs_own_backoff_and_limit_come_before_the_servers(void **state)
{
    (void)state;
    struct job job = job_with(3, 1);
    job.backoff = (struct curve){CURVE_POWER, {40200}, 2.0, {2000}};
    struct retry_verdict v = decide_failed(&job);
    assert_int_equal(v.at.ms, NOW.ms + 46200);
    assert_string_equal(v.reason, "retry 2 of 3, own backoff, in 46.2 s");
}

static void kill_comes_before_retry_at(void **state)
{
    (void)state;
    struct job job = job_with(3, 0);
    struct retry_request r = FAILED;
    r.kill = true;
    r.retry_at = (instant){NOW.ms + 5000};
    struct retry_verdict v = decide(&job, r);
    assert_false(v.retry);
    assert_int_equal(v.resolution, RESOLUTION_FAILED);
    assert_string_equal(v.reason, "dead: killed by the worker");
}

static void kill_comes_before_the_limit(void **state)
{
    (void)state;
    struct job job = job_with(3, 3);
    struct retry_request r = FAILED;
    r.kill = true;
    assert_string_equal(decide(&job, r).reason, "dead: killed by the worker");
}

static void retry_at_comes_before_the_backoff(void **state)
{
    (void)state;
    struct job job = job_with(3, 0);
    struct retry_request r = FAILED;
    r.retry_at = (instant){NOW.ms + 5000};
    struct retry_verdict v = decide(&job, r);
    assert_true(v.retry);
    assert_int_equal(v.at.ms, NOW.ms + 5000);
    assert_string_equal(v.reason, "retry 1, when the worker asked, in 5 s");
}

static void retry_at_is_granted_past_the_limit(void **state)
{
    (void)state;
    struct job job = job_with(3, 7);
    struct retry_request r = FAILED;
    r.retry_at = (instant){NOW.ms + 350};
    struct retry_verdict v = decide(&job, r);
    assert_true(v.retry);
    assert_int_equal(v.at.ms, NOW.ms + 350);
    assert_string_equal(v.reason, "retry 8, when the worker asked, in 350 ms");
}

static void retry_at_in_the_past_is_at_once(void **state)
{
    (void)state;
    struct job job = job_with(3, 0);
    struct retry_request r = FAILED;
    r.retry_at = (instant){NOW.ms - 1};
    struct retry_verdict v = decide(&job, r);
    assert_true(v.retry);
    assert_string_equal(v.reason, "retry 1, when the worker asked, at once");
}

static void an_expired_lease_is_retried_at_once_and_uses_a_retry(void **state)
{
    (void)state;
    struct job job = job_with(2, 0);
    struct retry_verdict v = decide_expired(&job);
    assert_true(v.retry);
    assert_int_equal(v.at.ms, NOW.ms);
    assert_string_equal(v.reason, "retry 1 of 2, the lease ran out, at once");
    job.state.attempts = 1;
    assert_string_equal(decide_expired(&job).reason, "retry 2 of 2, the lease ran out, at once");
    job.state.attempts = 2;
    assert_false(decide_expired(&job).retry);
}

static void leases_that_ran_out_too_often_say_so(void **state)
{
    (void)state;
    struct job job = job_with(2, 2);
    struct retry_verdict v = decide_expired(&job);
    assert_false(v.retry);
    assert_int_equal(v.resolution, RESOLUTION_CLAIM_EXPIRED);
    assert_string_equal(v.reason, "dead: the lease ran out and all 2 retries are used up");
}

static void limits_of_0_and_1_have_their_own_words(void **state)
{
    (void)state;
    struct job none = job_with(0, 0), one = job_with(1, 1);
    assert_string_equal(decide_failed(&none).reason, "dead: no retries are allowed");
    assert_string_equal(decide_failed(&one).reason, "dead: the only retry is used up");
    assert_string_equal(decide_expired(&none).reason,
                        "dead: the lease ran out and no retries are allowed");
}

static void the_largest_numbers_fit(void **state)
{
    (void)state;
    struct job job = job_with(JOB_RETRY_LIMIT_MAX, JOB_RETRY_LIMIT_MAX - 1);
    job.backoff = (struct curve){CURVE_POWER, {SPAN_MAX_MS}, 100.0, {SPAN_MAX_MS}};
    struct retry_verdict v = decide_failed(&job);
    assert_true(v.retry);
    assert_int_equal(v.at.ms, NOW.ms + SPAN_MAX_MS);
    assert_string_equal(v.reason, "retry 4294967295 of 4294967295, own backoff, in 3257812 d 6 h");
}

/* Otherwise editing one job would shift every later draw of a simulation. */
static void every_verdict_takes_the_same_number_of_draws(void **state)
{
    (void)state;
    struct job fresh = job_with(3, 0), spent = job_with(3, 3);
    instant later = {NOW.ms + 1000};
    const struct retry_request requests[] = {
        {.job = &fresh, .outcome = OUTCOME_FAILED, .retry_at = INSTANT_NONE},
        {.job = &spent, .outcome = OUTCOME_FAILED, .retry_at = INSTANT_NONE},
        {.job = &fresh, .outcome = OUTCOME_FAILED, .retry_at = later},
        {.job = &fresh, .outcome = OUTCOME_FAILED, .kill = true, .retry_at = INSTANT_NONE},
        {.job = &fresh, .outcome = OUTCOME_EXPIRED, .retry_at = INSTANT_NONE},
        {.job = &spent, .outcome = OUTCOME_EXPIRED, .retry_at = INSTANT_NONE},
    };
    struct retry_defaults defaults = retry_defaults();
    struct rng once = rng_from_seed(9);
    rng_next(&once);
    for (size_t i = 0; i < COUNT(requests); i++) {
        struct rng rng = rng_from_seed(9);
        retry_decide(&requests[i], &defaults, NOW, &rng);
        assert_memory_equal(&rng, &once, sizeof rng);
    }
}

static void what_policies_granted_is_no_part_of_the_limit(void **state)
{
    (void)state;
    struct job job = job_with(1, 5);
    struct retry_request r = EXPIRED;
    r.uncharged = 5;
    struct retry_verdict v = decide(&job, r);
    assert_true(v.retry);
    assert_string_equal(v.reason, "retry 1 of 1, the lease ran out, at once");
    r.uncharged = 4;
    v = decide(&job, r);
    assert_false(v.retry);
    assert_string_equal(v.reason, "dead: the lease ran out and the only retry is used up");
    r.uncharged = 9; /* more than there were attempts: a foreign record */
    assert_true(decide(&job, r).retry);
}

static void exceptions_that_may_pass_are_retried_at_once_while_retries_are_left(void **state)
{
    (void)state;
    for (int o = OUTCOME_WORKER_SHUTDOWN; o <= OUTCOME_INTERMITTENT_TASK; o++) {
        struct job job = job_with(1, 0);
        struct retry_request r = {.outcome = (enum outcome)o, .retry_at = INSTANT_NONE};
        struct retry_verdict v = decide(&job, r);
        assert_true(v.retry);
        assert_int_equal(v.at.ms, NOW.ms);
        assert_non_null(strstr(v.reason, job_outcome_name((enum outcome)o)));
        job.state.attempts = 1;
        v = decide(&job, r);
        assert_false(v.retry);
        assert_int_equal(v.resolution, job_outcome_resolution((enum outcome)o));
    }
}

static void other_exceptions_are_final_unless_the_worker_says_when(void **state)
{
    (void)state;
    for (int o = OUTCOME_MALFORMED_PAYLOAD; o <= OUTCOME_SUPERSEDED; o++) {
        struct job job = job_with(5, 0);
        struct retry_request r = {.outcome = (enum outcome)o, .retry_at = INSTANT_NONE};
        struct retry_verdict v = decide(&job, r);
        assert_false(v.retry);
        assert_int_equal(v.resolution, job_outcome_resolution((enum outcome)o));
        r.retry_at = NOW;
        assert_true(decide(&job, r).retry);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_limit_of_3_means_3_retries_after_the_first_failure),
        cmocka_unit_test(the_default_limit_gives_up_at_the_26th_failure),
        cmocka_unit_test(a_failure_is_retried_after_the_default_backoff),
        cmocka_unit_test(the_jobs_own_backoff_and_limit_come_before_the_servers),
        cmocka_unit_test(kill_comes_before_retry_at),
        cmocka_unit_test(kill_comes_before_the_limit),
        cmocka_unit_test(retry_at_comes_before_the_backoff),
        cmocka_unit_test(retry_at_is_granted_past_the_limit),
        cmocka_unit_test(retry_at_in_the_past_is_at_once),
        cmocka_unit_test(an_expired_lease_is_retried_at_once_and_uses_a_retry),
        cmocka_unit_test(leases_that_ran_out_too_often_say_so),
        cmocka_unit_test(what_policies_granted_is_no_part_of_the_limit),
        cmocka_unit_test(exceptions_that_may_pass_are_retried_at_once_while_retries_are_left),
        cmocka_unit_test(other_exceptions_are_final_unless_the_worker_says_when),
        cmocka_unit_test(limits_of_0_and_1_have_their_own_words),
        cmocka_unit_test(the_largest_numbers_fit),
        cmocka_unit_test(every_verdict_takes_the_same_number_of_draws),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
