/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "core/correction.h"

#define TO   1000
#define FROM 5000

static const struct correction back = {{FROM}, {TO}};

static const struct job_state untouched = {.ready_at = {TO},
                                           .dequeued_at = {-1},
                                           .failed_at = {-1},
                                           .completed_at = {-1},
                                           .purge_at = {-1},
                                           .lease_end = {-1}};

static void what_is_not_after_the_right_time_stays(void **state)
{
    (void)state;
    struct job_state s = untouched;
    assert_false(correction_apply(&back, &s));
    assert_int_equal(s.ready_at.ms, TO);
}

static void what_came_true_has_come_true_now(void **state)
{
    (void)state;
    struct job_state s = untouched;
    s.ready_at.ms = s.purge_at.ms = FROM;
    s.failed_at.ms = TO + 1;
    s.dequeued_at.ms = TO - 1;
    assert_true(correction_apply(&back, &s));
    assert_int_equal(s.ready_at.ms, TO);
    assert_int_equal(s.purge_at.ms, TO);
    assert_int_equal(s.failed_at.ms, TO);
    assert_int_equal(s.dequeued_at.ms, TO - 1);
}

static void the_rest_of_a_wait_is_kept(void **state)
{
    (void)state;
    struct job_state s = untouched;
    s.attempts = 1;
    s.ready_at.ms = FROM + 10;
    s.lease_end.ms = FROM + 20;
    s.purge_at.ms = FROM + 30;
    s.extras.avoid_until.ms = FROM + 40;
    s.extras.grace_end.ms = FROM + 50;
    s.extras.backoff_end.ms = FROM + 60;
    assert_true(correction_apply(&back, &s));
    assert_int_equal(s.ready_at.ms, TO + 10);
    assert_int_equal(s.lease_end.ms, TO + 20);
    assert_int_equal(s.purge_at.ms, TO + 30);
    assert_int_equal(s.extras.avoid_until.ms, TO + 40);
    assert_int_equal(s.extras.grace_end.ms, TO + 50);
    assert_int_equal(s.extras.backoff_end.ms, TO + 60);
}

static void a_time_that_somebody_asked_for_stays(void **state)
{
    (void)state;
    struct job_state s = untouched;
    s.ready_at.ms = FROM + 10;
    assert_false(correction_apply(&back, &s));
    assert_int_equal(s.ready_at.ms, FROM + 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_not_after_the_right_time_stays),
        cmocka_unit_test(what_came_true_has_come_true_now),
        cmocka_unit_test(the_rest_of_a_wait_is_kept),
        cmocka_unit_test(a_time_that_somebody_asked_for_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
