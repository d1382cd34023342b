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
    return operations_begin(&ops, OPERATION_RETRY, (instant){at}, STR("{}"), STR(""));
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

static void one_is_for_those_who_could_have_asked_for_it(void **state)
{
    static const struct {
        const char *asked, *sees[3];
        bool is_for;
    } cases[] = {
        {"", {NULL}, true},
        {"mail-*", {NULL}, true},
        {"", {"*"}, false}, /* one who is limited to nothing asked for it */
        {"mail-*", {"mail-*"}, true},
        {"mail-*", {"mail*"}, true},
        {"mail-in,mail-out", {"mail-*"}, true},
        {"mail-in,sms", {"mail-*", "sms"}, true},
        {"mail-in,sms", {"mail-*"}, false},
        {"mail*", {"mail-*"}, false},
        {"*", {"mail-*"}, false},
        {"a*b", {"a*", "b"}, true},
        {"a*", {"a*b"}, false},
        {"other", {"mail-*"}, false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct str sees[3];
        struct glob_list reach = {sees, 0};
        while (cases[i].sees[reach.count]) {
            sees[reach.count] = str_from(cases[i].sees[reach.count]);
            reach.count++;
        }
        uint64_t number = operations_begin(&ops, OPERATION_RETRY, (instant){1}, STR("{}"),
                                           str_from(cases[i].asked));
        const struct bulk_operation *op = operations_find(&ops, number);
        assert_true(str_eq(op->by, STR("{}")));
        assert_int_equal(operation_is_within(op, reach), cases[i].is_for);
    }
}

#define TEST(name) cmocka_unit_test_teardown(name, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(one_is_found_by_its_number),
        TEST(one_that_is_over_makes_room),
        TEST(one_that_begins_after_a_restart_has_a_number_of_its_own),
        TEST(one_is_for_those_who_could_have_asked_for_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
