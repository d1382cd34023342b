/* SPDX-License-Identifier: Apache-2.0 */
#include "base/closest.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

static struct str closest(const char *typed, const char *const *words)
{
    struct closest c = closest_to(str_from(typed));
    for (; *words; words++)
        closest_offer(&c, str_from(*words));
    return c.word;
}

#define MEANT(typed, meant, ...)                                                                   \
    assert_true(str_eq(closest((typed), (const char *const[]){__VA_ARGS__, NULL}), str_from(meant)))

static void test_spelt_otherwise(void **state)
{
    (void)state;
    MEANT("readyAt", "ready_at", "ready", "ready_at", "retry_at");
    MEANT("RETRY-LIMIT", "retry_limit", "retry_limit_x", "retry_limit");
    MEANT("ready-at", "ready_at", "read", "ready_at");
    MEANT("ready_at_", "ready_at", "ready_at");
}

static void test_typing_errors(void **state)
{
    (void)state;
    MEANT("retry_limt", "retry_limit", "retry_limit", "retry_at");
    MEANT("wrok", "work", "serve", "work");
    MEANT("serve_", "serve", "served", "serve");
    MEANT("jbo", "job", "jobs", "job");
}

static void test_beginnings(void **state)
{
    (void)state;
    MEANT("que", "queues", "jobs", "queues");
    MEANT("prio", "priority", "queue", "priority", "priorities");
}

static void test_nothing_like_it(void **state)
{
    (void)state;
    MEANT("j", "", "jobs", "job");
    MEANT("something", "", "jobs", "queues");
    MEANT("", "", "a", "_");
    MEANT("_", "", "a", "priority");
    MEANT("a name that is longer than any word of which errors are counted", "", "name");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_spelt_otherwise),
        cmocka_unit_test(test_typing_errors),
        cmocka_unit_test(test_beginnings),
        cmocka_unit_test(test_nothing_like_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
