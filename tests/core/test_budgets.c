/* SPDX-License-Identifier: Apache-2.0 */

/* Budgets as values: policies, and the text of what a job draws on them. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "core/budgets.h"

static void bindings_are_read_back(void **state)
{
    (void)state;
    struct buf text = {0};
    const struct budget_binding all[] = {
        {STR("emails"), 2}, {STR("1:2"), BUDGET_TOKENS_MAX}, {STR("\xc3\xa4 b"), 1}};
    for (size_t i = 0; i < 3; i++)
        budgets_bind(&text, &all[i]);
    assert_true(str_eq(buf_view(&text), STR("2:emails,2147483647:1:2,1:\xc3\xa4 b")));
    struct str rest = buf_view(&text);
    struct budget_binding b;
    for (size_t i = 0; i < 3; i++) {
        assert_true(budgets_next(&rest, &b));
        assert_true(str_eq(b.key, all[i].key));
        assert_int_equal(b.cost, all[i].cost);
    }
    assert_false(budgets_next(&rest, &b));
    assert_true(budgets_has(buf_view(&text), STR("1:2")));
    assert_false(budgets_has(buf_view(&text), STR("email")));
    buf_fini(&text);
}

static void a_text_that_has_none_ends_there(void **state)
{
    (void)state;
    static const char *const texts[] = {"", "x", "1", ":k", "0:k", "2147483648:k", "99999999999:k"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct str text = str_from(texts[i]);
        struct budget_binding b;
        assert_false(budgets_next(&text, &b));
    }
}

static void a_policy_has_what_its_strategy_needs(void **state)
{
    (void)state;
    struct budget_policy p = {.allocation = 5};
    assert_int_equal(budgets_check_policy(&p).code, ERR_OK);
    assert_int_equal(budgets_capacity(&p), 5);
    p.burst = 3;
    assert_int_equal(budgets_check_policy(&p).code, ERR_UNPROCESSABLE);
    p.strategy = BUDGET_TIME_BASED;
    assert_int_equal(budgets_check_policy(&p).code, ERR_UNPROCESSABLE);
    p.duration.ms = 1000;
    assert_int_equal(budgets_check_policy(&p).code, ERR_OK);
    assert_int_equal(budgets_capacity(&p), 3);
    struct rate r = budgets_rate(&p);
    assert_true(rate_eq(&r, &(struct rate){5, 3, {1000}}));
    p.strategy = BUDGET_WHILE_IN_FLIGHT;
    p.burst = 0;
    assert_int_equal(budgets_check_policy(&p).code, ERR_UNPROCESSABLE);
}

static void a_key_is_a_name(void **state)
{
    (void)state;
    assert_int_equal(budgets_check_key(STR("image service")).code, ERR_OK);
    assert_int_equal(budgets_check_key(STR("a,b")).code, ERR_UNPROCESSABLE);
    assert_int_equal(budgets_check_key(STR("")).code, ERR_UNPROCESSABLE);
    assert_int_equal(budgets_check_key(STR("\xff")).code, ERR_UNPROCESSABLE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bindings_are_read_back),
        cmocka_unit_test(a_text_that_has_none_ends_there),
        cmocka_unit_test(a_policy_has_what_its_strategy_needs),
        cmocka_unit_test(a_key_is_a_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
