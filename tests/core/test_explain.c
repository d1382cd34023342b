/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "base/array.h"
#include "core/explain.h"

static const instant ENQUEUED = {1000}, ENDED = {5000}, NOW = {9000};

/* A job of that status which was enqueued at 1000 and is ready from 3000 on. */
static struct explanation of(enum status status)
{
    return (struct explanation){
        .job = {.id = {(uint64_t)ENQUEUED.ms << 16, 1},
                .state = {.status = status,
                          .ready_at = {3000},
                          .completed_at = {6000},
                          .purge_at = INSTANT_NONE}},
    };
}

static void run_ended(struct explanation *x, enum outcome outcome)
{
    x->has_run = true;
    x->run = (struct run){
        .taken_at = {4000}, .lease_end = INSTANT_NONE, .ended_at = ENDED, .outcome = outcome};
}

static instant since(struct explanation x)
{
    struct arena a = {0};
    explain_sum_up(&x, NOW, &a);
    arena_fini(&a);
    return x.since;
}

static void a_job_waits_since_the_latest_of_what_made_it_wait(void **state)
{
    (void)state;
    struct explanation x = of(STATUS_SCHEDULED);
    assert_int_equal(since(x).ms, ENQUEUED.ms);
    run_ended(&x, OUTCOME_FAILED);
    assert_int_equal(since(x).ms, ENDED.ms);
    x = of(STATUS_READY);
    assert_int_equal(since(x).ms, 3000);
    run_ended(&x, OUTCOME_LOST);
    assert_int_equal(since(x).ms, ENDED.ms);
}

static void what_ended_did_so_with_its_run_or_nobody_knows_when(void **state)
{
    (void)state;
    assert_int_equal(since(of(STATUS_COMPLETED)).ms, 6000);
    struct explanation x = of(STATUS_DEAD);
    x.job.state.resolution = RESOLUTION_CANCELED;
    assert_false(instant_is_set(since(x)));
    run_ended(&x, OUTCOME_FAILED); /* it was canceled while it waited for its retry */
    assert_false(instant_is_set(since(x)));
    run_ended(&x, OUTCOME_CANCELED);
    assert_int_equal(since(x).ms, ENDED.ms);
    x.job.state.resolution = RESOLUTION_DEPENDENCY;
    assert_false(instant_is_set(since(x)));
    x.job.state.resolution = RESOLUTION_FAILED;
    assert_int_equal(since(x).ms, ENDED.ms);
}

static void nothing_keeps_it_back_once_all_that_does_is_over(void **state)
{
    (void)state;
    struct arena a = {0};
    struct explanation x = of(STATUS_READY);
    explain_sum_up(&x, NOW, &a);
    assert_int_equal(x.earliest.ms, NOW.ms);
    explain_add(&x, &a, OBSTACLE_RATE, (instant){12000}, "a rate of %d", 3);
    explain_add(&x, &a, OBSTACLE_NODE, (instant){11000}, "a node");
    explain_sum_up(&x, NOW, &a);
    assert_int_equal(x.earliest.ms, 12000);
    assert_true(str_eq(x.summary, STR("ready: a rate of 3; a node")));
    explain_add(&x, &a, OBSTACLE_NO_WORKER, INSTANT_NONE, "nobody");
    explain_sum_up(&x, NOW, &a);
    assert_false(instant_is_set(x.earliest)); /* it depends on somebody's action */
    arena_fini(&a);
}

static void what_does_not_wait_has_no_earliest_moment(void **state)
{
    (void)state;
    static const enum status all[] = {STATUS_IN_FLIGHT, STATUS_COMPLETED, STATUS_DEAD};
    for (size_t i = 0; i < COUNT(all); i++) {
        struct arena a = {0};
        struct explanation x = of(all[i]);
        run_ended(&x, OUTCOME_RUNNING);
        explain_sum_up(&x, NOW, &a);
        assert_false(instant_is_set(x.earliest));
        assert_true(x.summary.len > 0);
        assert_int_equal(x.remedy.len > 0, all[i] == STATUS_DEAD);
        arena_fini(&a);
    }
}

static void every_kind_has_a_name_of_its_own(void **state)
{
    (void)state;
    for (int i = 0; i < OBSTACLE_KINDS; i++)
        for (int j = 0; j < i; j++)
            assert_string_not_equal(explain_kind_name((enum obstacle_kind)i),
                                    explain_kind_name((enum obstacle_kind)j));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_waits_since_the_latest_of_what_made_it_wait),
        cmocka_unit_test(what_ended_did_so_with_its_run_or_nobody_knows_when),
        cmocka_unit_test(nothing_keeps_it_back_once_all_that_does_is_over),
        cmocka_unit_test(what_does_not_wait_has_no_earliest_moment),
        cmocka_unit_test(every_kind_has_a_name_of_its_own),
    };
    return cmocka_run_group_tests_name("core/explain", tests, NULL, NULL);
}
