/* SPDX-License-Identifier: Apache-2.0 */
#include "builds/build_verify.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static struct build_verify look(enum kube_verdict_start start, uint32_t count, int64_t elapsed_ms)
{
    struct build_verify_limits limits = build_verify_defaults();
    return build_verify(&limits, &(struct build_verify_look){
                                     .pod = true,
                                     .verdict = {.start = start},
                                     .count = count,
                                     .started = {1000000},
                                     .now = {1000000 + elapsed_ms},
                                 });
}

/* Seed 000: 30 s, then ten more for each look, up to 80 s. */
static void a_pod_that_pulls_is_looked_at_ever_more_rarely(void **state)
{
    (void)state;
    static const int64_t delays[] = {30000, 40000, 50000, 60000, 70000, 80000};
    for (uint32_t i = 0; i < 6; i++) {
        struct build_verify v = look(KUBE_VERDICT_INITIALIZING, i, 100000000);
        assert_int_equal(v.step, BUILD_VERIFY_AGAIN);
        assert_int_equal(v.after.ms, delays[i]);
    }
    assert_int_equal(look(KUBE_VERDICT_INITIALIZING, 6, 0).step, BUILD_VERIFY_FAIL);
}

static void no_delay_is_longer_than_a_broker_can_keep(void **state)
{
    (void)state;
    struct build_verify_limits limits = build_verify_defaults();
    limits.looks_max = UINT32_MAX;
    struct build_verify_look k = {.pod = true,
                                  .verdict = {.start = KUBE_VERDICT_INITIALIZING},
                                  .count = UINT32_MAX - 1,
                                  .started = INSTANT_NONE};
    assert_int_equal(build_verify(&limits, &k).step, BUILD_VERIFY_AGAIN);
    assert_true(build_verify(&limits, &k).after.ms < UINT32_MAX);
}

static void a_pod_without_a_node_has_three_minutes(void **state)
{
    (void)state;
    struct build_verify v = look(KUBE_VERDICT_WAITING, 5, 179999);
    assert_int_equal(v.step, BUILD_VERIFY_AGAIN);
    assert_int_equal(v.after.ms, 30000);
    v = look(KUBE_VERDICT_WAITING, 0, 180000);
    assert_int_equal(v.step, BUILD_VERIFY_STOP);
    assert_string_equal(v.message, "Pod scheduling timeout exceeded");
}

static void clocks_that_differ_fail_nothing(void **state)
{
    (void)state;
    struct build_verify_limits limits = build_verify_defaults();
    assert_int_equal(look(KUBE_VERDICT_WAITING, 0, -3600000).step, BUILD_VERIFY_AGAIN);
    struct build_verify v = build_verify(
        &limits, &(struct build_verify_look){.pod = true, .started = INSTANT_NONE, .now = {1}});
    assert_int_equal(v.step, BUILD_VERIFY_AGAIN);
}

static void a_pod_that_runs_is_done_however_late(void **state)
{
    (void)state;
    assert_int_equal(look(KUBE_VERDICT_STARTED, 6, 100000000).step, BUILD_VERIFY_DONE);
    struct build_verify_limits limits = build_verify_defaults();
    assert_int_equal(build_verify(&limits, &(struct build_verify_look){.count = 9}).step,
                     BUILD_VERIFY_DONE);
}

static void a_pod_that_cannot_start_fails_in_words(void **state)
{
    (void)state;
    struct build_verify_limits limits = build_verify_defaults();
    struct build_verify_look k = {
        .pod = true,
        .verdict = {.start = KUBE_VERDICT_FAILED,
                    .advice = KUBE_VERDICT_IMAGE,
                    .reason = STR("ErrImagePull")},
    };
    struct build_verify v = build_verify(&limits, &k);
    assert_int_equal(v.step, BUILD_VERIFY_FAIL);
    assert_non_null(strstr(v.message, "Please check if your image is valid."));
    assert_non_null(strstr(v.message, "ErrImagePull"));
    k.verdict.advice = KUBE_VERDICT_ADMINISTRATOR;
    assert_non_null(
        strstr(build_verify(&limits, &k).message, "Please reach out to your cluster admin"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pod_that_pulls_is_looked_at_ever_more_rarely),
        cmocka_unit_test(no_delay_is_longer_than_a_broker_can_keep),
        cmocka_unit_test(a_pod_without_a_node_has_three_minutes),
        cmocka_unit_test(clocks_that_differ_fail_nothing),
        cmocka_unit_test(a_pod_that_runs_is_done_however_late),
        cmocka_unit_test(a_pod_that_cannot_start_fails_in_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
