/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "core/verdict.h"

static const instant NOW = {1700000000000};

static const struct policy policy = {
    .name = STR("p"), .retry_limit = 5, .default_action = POLICY_RETRY, .counts_together = true};

static struct verdict decide(enum outcome outcome, bool fast, instant retry_at, struct rng *rng,
                             struct arena *a)
{
    const struct policy *list[] = {&policy};
    const struct policy_settings on = {.enabled = true, .global_max_retries = 20};
    const struct failure f = {.exit_code = 1,
                              .culprit = CULPRIT_NODE,
                              .condition = outcome == OUTCOME_EXPIRED ? CONDITION_LEASE_EXPIRED
                                                                      : CONDITION_NONE};
    struct culprit_bounds bounds = culprit_bounds_default();
    const struct verdict_rules rules = {
        .policies = list,
        .policy_count = 1,
        .settings = &on,
        .bounds = &bounds,
        .defaults = {.backoff = {CURVE_EXPONENTIAL, {1000}, 1.0, {0}, {-1}}, .limit = 9}};
    const struct job job = {.retry_limit = 9, .options = {.fail_fast = fast}};
    const struct verdict_request r = {
        .job = &job, .outcome = outcome, .failure = &f, .retry_at = retry_at};
    return verdict_decide(&r, &rules, NOW, rng, a);
}

static void the_first_failure_is_final_whoever_is_to_blame(void **state)
{
    (void)state;
    struct arena a = {0};
    struct rng rng = {0};
    assert_true(decide(OUTCOME_FAILED, false, INSTANT_NONE, &rng, &a).retry);
    struct verdict v = decide(OUTCOME_FAILED, true, INSTANT_NONE, &rng, &a);
    assert_false(v.retry);
    assert_int_equal(v.ruling.by, DECIDER_FAIL_FAST);
    assert_int_equal(v.resolution, RESOLUTION_FAILED);
    v = decide(OUTCOME_EXPIRED, true, INSTANT_NONE, &rng, &a);
    assert_false(v.retry);
    assert_int_equal(v.resolution, RESOLUTION_CLAIM_EXPIRED);
    arena_fini(&a);
}

static void a_word_of_the_worker_comes_first(void **state)
{
    (void)state;
    struct arena a = {0};
    struct rng rng = {0};
    struct verdict v = decide(OUTCOME_FAILED, true, (instant){NOW.ms + 5}, &rng, &a);
    assert_true(v.retry);
    assert_int_equal(v.ruling.by, DECIDER_RETRY_AT);
    arena_fini(&a);
}

static void it_draws_as_often_as_any_other_verdict(void **state)
{
    (void)state;
    struct arena a = {0};
    struct rng one = {0}, other = {0};
    (void)decide(OUTCOME_FAILED, true, INSTANT_NONE, &one, &a);
    (void)decide(OUTCOME_FAILED, false, INSTANT_NONE, &other, &a);
    assert_memory_equal(&one, &other, sizeof one);
    arena_fini(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_failure_is_final_whoever_is_to_blame),
        cmocka_unit_test(a_word_of_the_worker_comes_first),
        cmocka_unit_test(it_draws_as_often_as_any_other_verdict),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
