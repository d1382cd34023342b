/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/array.h"
#include "policy/settings_document.h"

static bool read(const char *text, const char *section, struct policy_settings *s, struct arena *a,
                 struct document_fault *fault)
{
    struct document_list list;
    assert_true(document_read(str_from(text), DOCUMENT_YAML, a, &list, fault));
    struct policy_change change;
    bool good = settings_document_read(list.first, section, a, &change, fault);
    if (good)
        policy_settings_change(s, &change);
    return good;
}

static void what_is_not_named_stays(void **state)
{
    (void)state;
    struct arena a = {0};
    struct document_fault fault;
    struct policy_settings s = {.enabled = true, .global_max_retries = 7};
    assert_true(read("defaultPolicyName: p\n"
                     "defaultBackoff: {initialDelay: 0s, maxDelay: 10m, multiplier: 2.0}",
                     NULL, &s, &a, &fault));
    assert_true(s.enabled);
    assert_int_equal(s.global_max_retries, 7);
    assert_true(str_eq(s.default_policy, STR("p")));
    assert_int_equal(s.default_backoff.most.ms, 600000);
    assert_true(read("{defaultPolicyName: null, defaultBackoff: null}", NULL, &s, &a, &fault));
    assert_int_equal(s.default_policy.len, 0);
    assert_int_equal(s.default_backoff.shape, CURVE_NONE);
    arena_fini(&a);
}

static void a_fault_names_the_section(void **state)
{
    (void)state;
    static const char *const bad[][2] = {
        {"{globalMaxRetries: -1}", "retryPolicy.globalMaxRetries"},
        {"{defaultBackoff: {initialDelay: 5}}", "retryPolicy.defaultBackoff.initialDelay"},
        {"{defaultPolicyName: A}", "retryPolicy.defaultPolicyName"},
        {"{enable: true}", "retryPolicy.enable"},
        {"[]", "retryPolicy"},
    };
    for (size_t i = 0; i < COUNT(bad); i++) {
        struct arena a = {0};
        struct document_fault fault;
        struct policy_settings s = {0};
        assert_false(read(bad[i][0], "retryPolicy", &s, &a, &fault));
        assert_string_equal(fault.path, bad[i][1]);
        arena_fini(&a);
    }
}

static void what_was_written_is_read_again(void **state)
{
    (void)state;
    struct arena a = {0};
    struct document_fault fault;
    struct policy_settings s = {.enabled = true,
                                .global_max_retries = 3,
                                .default_policy = STR("p"),
                                .default_backoff = {CURVE_EXPONENTIAL, {1000}, 3, {0}, {9000}}};
    struct policy_settings again = {0};
    struct buf text = {0};
    document_write_yaml(settings_document_tree(&s, &a), &text);
    buf_byte(&text, '\0');
    assert_true(read(text.at, NULL, &again, &a, &fault));
    assert_true(again.enabled);
    assert_int_equal(again.global_max_retries, 3);
    assert_true(str_eq(again.default_policy, s.default_policy));
    assert_int_equal(again.default_backoff.base.ms, 1000);
    assert_int_equal(again.default_backoff.most.ms, 9000);
    assert_true(again.default_backoff.exponent == 3);
    buf_fini(&text);
    arena_fini(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_not_named_stays),
        cmocka_unit_test(a_fault_names_the_section),
        cmocka_unit_test(what_was_written_is_read_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
