/* SPDX-License-Identifier: Apache-2.0 */
#include "access/shared_names.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <string.h>

static struct rights limited(const struct str *queues, size_t count)
{
    struct rights r = {.queues = {queues, count}};
    shared_names_mark(&r);
    return r;
}

static bool are_same(struct rights a, struct rights b)
{
    return str_eq(shared_names_mark_of(&a), shared_names_mark_of(&b));
}

static void the_same_queues_in_any_order_have_the_same_mark(void **state)
{
    (void)state;
    const struct str ab[] = {STR("a"), STR("b*")}, ba[] = {STR("b*"), STR("a"), STR("a")};
    const struct str joined[] = {STR("ab*")}, one[] = {STR("a")};
    assert_true(are_same(limited(ab, 2), limited(ba, 3)));
    assert_false(are_same(limited(ab, 2), limited(joined, 1)));
    assert_false(are_same(limited(ab, 2), limited(one, 1)));
    assert_false(are_same(limited(one, 1), rights_all));
}

/* By hand, so that it can disagree with the table. */
static void each_kind_has_its_rule(void **state)
{
    static const enum shared_rule rules[] = {
        [SHARED_GANG] = SHARED_OWN,
        [SHARED_GROUP] = SHARED_OWN,
        [SHARED_UNIQUE_KEY] = SHARED_OWN_OR,
        [SHARED_ALIAS] = SHARED_OWN_OR,
        [SHARED_BATCH_KEY] = SHARED_OWN_OR,
        [SHARED_BUDGET] = SHARED_OWN_OR,
        [SHARED_WORKER] = SHARED_OWN,
        [SHARED_IDEMPOTENCY_KEY] = SHARED_SENDER,
        [SHARED_CONCURRENCY_KEY] = SHARED_QUEUE,
        [SHARED_FAILURE_GROUP] = SHARED_QUEUE,
        [SHARED_NODE] = SHARED_SERVER,
        [SHARED_RETRY_POLICY] = SHARED_SERVER,
        [SHARED_CATEGORIES] = SHARED_SERVER,
        [SHARED_CRON] = SHARED_SERVER,
        [SHARED_TASK_QUEUE] = SHARED_SERVER,
    };
    (void)state;
    _Static_assert(sizeof rules / sizeof *rules == SHARED_COUNT, "a new kind needs a row here");
    for (int i = 0; i < SHARED_COUNT; i++)
        assert_int_equal(shared_names_rule((enum shared_kind)i), rules[i]);
}

static void names_that_are_its_own_get_the_mark(void **state)
{
    (void)state;
    struct arena a = {0};
    const struct str queues[] = {STR("mail-*")};
    struct rights who = limited(queues, 1);
    struct str name = STR("g");
    assert_int_equal(shared_names_own(SHARED_GANG, &who, 255, &a, &name).code, ERR_OK);
    assert_true(str_eq(mark_of(name), shared_names_mark_of(&who)));
    assert_true(str_eq(mark_bare(name), STR("g")));
    name = STR("p");
    assert_int_equal(shared_names_own(SHARED_RETRY_POLICY, &who, 255, &a, &name).code, ERR_OK);
    assert_int_equal(shared_names_own(SHARED_GANG, &rights_all, 1, &a, &name).code, ERR_OK);
    assert_true(str_eq(name, STR("p")));
    assert_int_equal(shared_names_own(SHARED_GANG, &who, MARK_LEN, &a, &name).code, ERR_BAD_VALUE);
    assert_true(str_eq(name, STR("p")));
    arena_fini(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_queues_in_any_order_have_the_same_mark),
        cmocka_unit_test(each_kind_has_its_rule),
        cmocka_unit_test(names_that_are_its_own_get_the_mark),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
