/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

#include "taskcluster/tc_schema.h"

static struct tc_schemas *schemas;

static int set_up(void **state)
{
    (void)state;
    schemas = tc_schemas_new();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    tc_schemas_free(schemas);
    return 0;
}

/* Empty words: it fits. */
static void check(const char *name, const char *json, const char *words)
{
    struct arena a = {0};
    struct buf problems = {0};
    bool fits = tc_schemas_check(schemas, name, str_from(json), &a, &problems);
    if (fits != (words[0] == '\0'))
        fail_msg("%s: %s: %.*s", name, json, STR_ARG(buf_view(&problems)));
    if (!fits && !memmem(problems.at, problems.len, words, strlen(words)))
        fail_msg("%s: not '%s' but %.*s", json, words, STR_ARG(buf_view(&problems)));
    buf_fini(&problems);
    arena_fini(&a);
}

static void members_are_typed_required_and_known(void **state)
{
    (void)state;
    const char *name = "v1/claim-work-request.json";
    check(name, "{\"workerGroup\":\"g\",\"workerId\":\"w\",\"tasks\":32}", "");
    check(name, "{\"workerGroup\":\"g\",\"workerId\":\"w\",\"tasks\":1.0}", "");
    check(name, "{\"workerGroup\":\"g\",\"workerId\":\"w\",\"tasks\":1.5}",
          "data/tasks must be integer");
    check(name, "{\"workerGroup\":\"g\",\"workerId\":\"w\",\"tasks\":33}",
          "data/tasks must be <= 32");
    check(name, "{\"workerGroup\":\"g\",\"workerId\":\"w\",\"tasks\":0}",
          "data/tasks must be >= 1");
    check(name, "{\"workerGroup\":\"g\",\"tasks\":1}",
          "data must have required property 'workerId'");
    check(name, "{\"workerGroup\":\"g\",\"workerId\":\"w\"}", ""); /* tasks has a default */
    check(name, "{\"workerGroup\":\"\",\"workerId\":\"w\",\"tasks\":1}",
          "data/workerGroup must have at least");
    check(name, "{\"workerGroup\":\"g g\",\"workerId\":\"w\",\"tasks\":1}",
          "data/workerGroup must match pattern");
    check(name, "{\"workerGroup\":\"g\",\"workerId\":\"w\",\"tasks\":1,\"x\":1}",
          "additional properties: 'x'");
    check(name, "{\"workerGroup\":\"g\",\"workerId\":\"w\",\"tasks\":1,\"tasks\":2}",
          "data/tasks must NOT be given twice");
    check(name, "[]", "data must be object");
    check(name, "null", "data must be object");
}

static void alternatives_exclude_each_other(void **state)
{
    (void)state;
    const char *name = "v1/post-artifact-request.json";
    check(name,
          "{\"storageType\":\"link\",\"expires\":\"2030-01-01T00:00:00Z\",\"artifact\":\"a\"}", "");
    check(name, "{\"storageType\":\"link\",\"expires\":\"2030-01-01T00:00:00Z\",\"url\":\"a\"}",
          "alternatives");
    check(name, "{\"storageType\":\"none\"}", "alternatives");
}

static void lists_are_bounded_and_their_elements_differ(void **state)
{
    (void)state;
    struct buf b = {0};
    const char *name = "v1/create-task-request.json";
    const char *rest = "\"created\":\"2030-01-01T00:00:00Z\",\"deadline\":\"2030-01-01T00:00:00Z\","
                       "\"payload\":{},\"metadata\":{\"name\":\"n\",\"description\":\"d\","
                       "\"owner\":\"o\",\"source\":\"https://x\"}}";
    buf_print(&b, "{\"routes\":[\"a\",\"b\"],%s", rest);
    buf_byte(&b, '\0');
    check(name, b.at, "");
    b.len = 0;
    buf_print(&b, "{\"routes\":[\"a\",\"b\",\"a\"],%s", rest);
    buf_byte(&b, '\0');
    check(name, b.at, "data/routes must NOT have duplicate items (\"a\")");
    b.len = 0;
    buf_lit(&b, "{\"routes\":[\"0\"");
    for (int i = 1; i < 65; i++)
        buf_print(&b, ",\"%d\"", i);
    buf_print(&b, "],%s", rest);
    buf_byte(&b, '\0');
    check(name, b.at, "data/routes must NOT have more items than 64");
    b.len = 0;
    buf_print(&b, "{\"tags\":{\"a\":1},%s", rest);
    buf_byte(&b, '\0');
    check(name, b.at, "data/tags/a must be string");
    buf_fini(&b);
}

static void there_are_only_so_many_problems(void **state)
{
    (void)state;
    struct arena a = {0};
    struct buf problems = {0};
    struct str json =
        STR("{\"a\":1,\"b\":1,\"c\":1,\"d\":1,\"e\":1,\"f\":1,\"g\":1,\"h\":1,\"i\":1,"
            "\"j\":1,\"k\":1,\"l\":1}");
    assert_false(tc_schemas_check(schemas, "v1/tasks-request.json", json, &a, &problems));
    assert_non_null(memmem(problems.at, problems.len, "and 2 more", 10));
    buf_fini(&problems);
    arena_fini(&a);
}

static void all_of_them_are_served(void **state)
{
    (void)state;
    struct str text;
    assert_true(tc_schemas_text(STR("v1/task.json"), &text));
    assert_true(text.len > 100 && text.at[0] == '{');
    assert_false(tc_schemas_text(STR("v1/none.json"), &text));
    assert_false(tc_schemas_text(STR(""), &text));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(members_are_typed_required_and_known),
        cmocka_unit_test(alternatives_exclude_each_other),
        cmocka_unit_test(lists_are_bounded_and_their_elements_differ),
        cmocka_unit_test(there_are_only_so_many_problems),
        cmocka_unit_test(all_of_them_are_served),
    };
    return cmocka_run_group_tests_name("taskcluster/tc_schema", tests, set_up, tear_down);
}
