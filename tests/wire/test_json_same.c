/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

#include "base/array.h"
#include "wire/json_same.h"

static void check(const char *a, const char *b, bool same)
{
    struct arena mem = {0};
    if (json_same(str_from(a), str_from(b), &mem) != same ||
        json_same(str_from(b), str_from(a), &mem) != same)
        fail_msg("%s and %s: %s", a, b, same ? "are the same" : "differ");
    arena_fini(&mem);
}

static void the_order_of_members_and_the_spelling_do_not_count(void **state)
{
    (void)state;
    check("{\"a\":1,\"b\":[1,2,{\"c\":null}]}", "{ \"b\" : [1.0, 2e0, {\"c\":null}], \"a\":1 }",
          true);
    check("\"\\u00e9\"", "\"\303\251\"", true);
    check("{\"\\u0061\":1}", "{\"a\":1}", true);
    check("[]", "[ ]", true);
    check("{\"a\":1,\"a\":2}", "{\"a\":2}", true);
}

static void other_values_differ(void **state)
{
    (void)state;
    static const char *const values[] = {"null",
                                         "true",
                                         "false",
                                         "0",
                                         "1",
                                         "\"\"",
                                         "\"1\"",
                                         "[]",
                                         "[1]",
                                         "[1,2]",
                                         "[2,1]",
                                         "{}",
                                         "{\"a\":1}",
                                         "{\"a\":2}",
                                         "[[1]]",
                                         "[{}]",
                                         "{\"b\":1}",
                                         "{\"a\":null}",
                                         "{\"a\":1,\"b\":1}",
                                         "\"\\ud800\"",
                                         "1e400"};
    for (size_t i = 0; i < COUNT(values); i++)
        for (size_t j = 0; j < COUNT(values); j++)
            check(values[i], values[j], i == j);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_order_of_members_and_the_spelling_do_not_count),
        cmocka_unit_test(other_values_differ),
    };
    return cmocka_run_group_tests_name("wire/json_same", tests, NULL, NULL);
}
