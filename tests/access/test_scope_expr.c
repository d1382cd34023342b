/* SPDX-License-Identifier: Apache-2.0 */
#include "scope_sets.h"

#include "access/scope_expr.h"
#include "base/array.h"

static const struct scope_expr create_task = SCOPE_ALL_OF(
    SCOPE_EACH("scope", "scopes", "<scope>"), SCOPE_EACH("route", "routes", "queue:route:<route>"),
    SCOPE("queue:scheduler-id:<schedulerId>"),
    SCOPE_ANY_OF(
        SCOPE_EACH("priority", "priorities", "queue:create-task:<priority>:<taskQueueId>")));

static const struct scope_expr cancel_task = SCOPE_ANY_OF(
    SCOPE("queue:cancel-task:<schedulerId>/<taskId>"),
    SCOPE_ALL_OF(SCOPE("queue:cancel-task"), SCOPE("assume:scheduler-id:<schedulerId>")));

static const struct scope_expr get_task = SCOPE("queue:get-task:<taskId>");
static const struct scope_expr each_of_many = SCOPE_ALL_OF(SCOPE_EACH("s", "many", "<s>"));
static const struct scope_expr nothing = {.op = SCOPE_OP_ALL_OF};
static const struct scope_expr impossible = {.op = SCOPE_OP_ANY_OF};

static const struct str scopes[] = {{"secret:a", 8}, {"docker:*", 8}};
static const struct str routes[] = {{"index.x", 7}};
static const struct str priorities[] = {{"high", 4}, {"highest", 7}};
static const struct scope_param params[] = {
    {"scopes", .list = scopes, .count = 2},
    {"routes", .list = routes, .count = 1},
    {"priorities", .list = priorities, .count = 2},
    {"schedulerId", {"-", 1}},
    {"taskQueueId", {"p/w", 3}},
    {"taskId", {"<schedulerId>", 13}},
};
static const struct scope_params all = {params, COUNT(params)};

static void check_missing(const struct scope_expr *e, struct scope_set have, const char *expected)
{
    struct buf b = {0};
    scope_expr_write_missing(e, &all, &have, &b);
    buf_byte(&b, '\0');
    assert_string_equal(b.at, expected);
    assert_int_equal(scope_expr_satisfied(e, &all, &have), strcmp(expected, "null") == 0);
    buf_fini(&b);
}

static void every_part_of_all_is_needed_and_one_of_any(void **state)
{
    (void)state;
    check_missing(&create_task,
                  SET("secret:a", "docker:*", "queue:route:*", "queue:scheduler-id:-",
                      "queue:create-task:highest:*"),
                  "null");
    check_missing(&create_task, SET("*"), "null");
    check_missing(&create_task,
                  SET("secret:a", "docker:x", "queue:route:*", "queue:scheduler-id:-",
                      "queue:create-task:low:p/w"),
                  "{\"AllOf\":[\"docker:*\",{\"AnyOf\":[\"queue:create-task:high:p/w\","
                  "\"queue:create-task:highest:p/w\"]}]}");
    check_missing(&nothing, (struct scope_set){0}, "null");
    check_missing(&impossible, SET("*"), "{\"AnyOf\":[]}");
}

static void a_value_is_not_searched_for_parameters(void **state)
{
    (void)state;
    check_missing(&get_task, SET("queue:get-task:-"), "\"queue:get-task:<schedulerId>\"");
    check_missing(&get_task, SET("queue:get-task:<*"), "null");
}

static void any_of_several_ways_is_enough(void **state)
{
    (void)state;
    check_missing(&cancel_task, SET("queue:cancel-task:-/*"), "null");
    check_missing(&cancel_task, SET("queue:cancel-task", "assume:scheduler-id:*"), "null");
    check_missing(&cancel_task, SET("queue:cancel-task"),
                  "{\"AnyOf\":[\"queue:cancel-task:-/<schedulerId>\","
                  "{\"AllOf\":[\"assume:scheduler-id:-\"]}]}");
}

static void the_whole_expression_is_shown(void **state)
{
    (void)state;
    struct buf b = {0};
    scope_expr_write(&create_task, &all, &b);
    buf_byte(&b, '\0');
    assert_string_equal(b.at, "{\"AllOf\":[\"secret:a\",\"docker:*\",\"queue:route:index.x\","
                              "\"queue:scheduler-id:-\",{\"AnyOf\":[\"queue:create-task:high:p/w\","
                              "\"queue:create-task:highest:p/w\"]}]}");
    buf_fini(&b);
}

static void of_a_long_list_the_beginning_is_shown(void **state)
{
    (void)state;
    struct str many[1000];
    for (size_t i = 0; i < 1000; i++)
        many[i] = STR("s");
    const struct scope_param p = {"many", .list = many, .count = 1000};
    struct buf b = {0};
    scope_expr_write(&each_of_many, &(struct scope_params){&p, 1}, &b);
    buf_byte(&b, '\0');
    assert_true(b.len < 200);
    assert_non_null(strstr(b.at, "\"s\",\"... and 968 more\"]}"));
    buf_fini(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_part_of_all_is_needed_and_one_of_any),
        cmocka_unit_test(a_value_is_not_searched_for_parameters),
        cmocka_unit_test(any_of_several_ways_is_enough),
        cmocka_unit_test(the_whole_expression_is_shown),
        cmocka_unit_test(of_a_long_list_the_beginning_is_shown),
    };
    return cmocka_run_group_tests(tests, NULL, teardown);
}
