/* SPDX-License-Identifier: Apache-2.0 */

/* Changes of many jobs that are listed, never more than there is room for. */

#include "core/operations.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

static struct operations ops;

static int tear_down(void **state)
{
    (void)state;
    operations_fini(&ops);
    return 0;
}

static uint64_t begin(int64_t at)
{
    return operations_begin(&ops, OPERATION_RETRY, (instant){at}, STR("{}"));
}

static void one_is_found_by_its_number(void **state)
{
    (void)state;
    uint64_t first = begin(5), second = begin(6);
    assert_true(first && second > first);
    const struct bulk_operation *op = operations_find(&ops, first);
    assert_int_equal(op->began.ms, 5);
    assert_false(instant_is_set(op->ended));
    assert_true(str_eq(op->by, STR("{}")));
    assert_string_equal(operation_kind_name(op->kind), "retry");
    assert_string_equal(operation_state_name(op->state), "running");
    operations_end(&ops, first, OPERATION_STOPPED, (instant){9});
    assert_int_equal(op->ended.ms, 9);
    assert_string_equal(operation_state_name(op->state), "stopped");
    assert_null(operations_find(&ops, second + 1));
}

static void one_that_is_over_makes_room(void **state)
{
    (void)state;
    uint64_t first = begin(0), second = begin(1);
    for (int i = 2; i < OPERATIONS_MAX; i++)
        assert_true(begin(i) > 0);
    assert_int_equal(begin(1), 0); /* all are under way */
    operations_end(&ops, second, OPERATION_DONE, (instant){1});
    uint64_t newest = begin(2);
    assert_true(newest > 0);
    assert_int_equal(ops.count, OPERATIONS_MAX);
    assert_null(operations_find(&ops, second));
    assert_non_null(operations_find(&ops, first));
    assert_non_null(operations_find(&ops, newest));
}

static void one_that_begins_after_a_restart_has_a_number_of_its_own(void **state)
{
    (void)state;
    const struct bulk_operation stored = {.number = 7, .state = OPERATION_DONE},
                                older = {.number = 3, .state = OPERATION_RUNS};
    operations_restore(&ops, &stored);
    operations_restore(&ops, &older);
    assert_int_equal(begin(1), 8);
    assert_int_equal(operations_find(&ops, 7)->state, OPERATION_DONE);
    /* Whoever carried it out is gone. */
    assert_int_equal(operations_find(&ops, 3)->state, OPERATION_FAILED);
}

#define TEST(name) cmocka_unit_test_teardown(name, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(one_is_found_by_its_number),
        TEST(one_that_is_over_makes_room),
        TEST(one_that_begins_after_a_restart_has_a_number_of_its_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
