/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "net/frame_budget.h"

static void it_ends_when_all_is_spent(void **state)
{
    (void)state;
    struct frame_budget c = frame_budget_new(1000);
    for (int i = 0; i < FRAME_BUDGET_MAX; i++)
        assert_true(frame_budget_spend(&c, 1000, 1));
    assert_false(frame_budget_spend(&c, 1000, 1));
}

static void time_brings_it_back_even_in_small_steps(void **state)
{
    (void)state;
    struct frame_budget c = frame_budget_new(0);
    assert_true(frame_budget_spend(&c, 0, FRAME_BUDGET_MAX));
    for (uint64_t now = 1; now < 1000; now++) /* too little each time to earn a whole one */
        (void)frame_budget_spend(&c, now, 0);
    assert_true(frame_budget_spend(&c, 1000, FRAME_BUDGET_PER_SECOND / 2));
    assert_false(frame_budget_spend(&c, 1000, FRAME_BUDGET_PER_SECOND));
}

static void there_is_never_more_than_at_the_start(void **state)
{
    (void)state;
    struct frame_budget c = frame_budget_new(0);
    frame_budget_earn(&c, 1000000);
    assert_true(frame_budget_spend(&c, UINT64_C(1) << 40, FRAME_BUDGET_MAX));
    assert_false(frame_budget_spend(&c, UINT64_C(1) << 40, 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_ends_when_all_is_spent),
        cmocka_unit_test(time_brings_it_back_even_in_small_steps),
        cmocka_unit_test(there_is_never_more_than_at_the_start),
    };
    return cmocka_run_group_tests_name("net/frame_budget", tests, NULL, NULL);
}
