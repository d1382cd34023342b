/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "base/array.h"
#include "core/history.h"

static void what_policies_look_at_is_kept_and_the_rest_is_not(void **state)
{
    (void)state;
    struct arena a = {0};
    const struct container_result c = {.name = STR("c"), .exit_code = 3, .message = STR("m")};
    const struct failure f = {.message = STR("boom"),
                              .error_type = STR("E"),
                              .backtrace = STR("at a\nat b"),
                              .exit_code = 137,
                              .signal = 9,
                              .condition = CONDITION_OOM_KILLED,
                              .node = STR("n1"),
                              .termination_message = STR("t"),
                              .category = STR("cat"),
                              .subcategory = STR("sub"),
                              .hint = STR("hint"),
                              .pod_error = STR("pod"),
                              .pod_events = &f.pod_error,
                              .pod_event_count = 1,
                              .containers = &c,
                              .container_count = 1};
    struct failure got = history_cut(&f, &a);
    assert_true(str_eq(got.message, f.message) && str_eq(got.error_type, f.error_type));
    assert_true(str_eq(got.category, f.category) && str_eq(got.subcategory, f.subcategory));
    assert_true(str_eq(got.node, f.node));
    assert_true(str_eq(got.termination_message, f.termination_message));
    assert_int_equal(got.exit_code, 137);
    assert_int_equal(got.signal, 9);
    assert_int_equal(got.condition, CONDITION_OOM_KILLED);
    assert_int_equal(got.container_count, 1);
    assert_true(str_eq(got.containers[0].name, c.name));
    assert_int_equal(got.containers[0].exit_code, 3);
    assert_true(got.backtrace.len == 0 && got.hint.len == 0 && got.pod_error.len == 0);
    assert_int_equal(got.pod_event_count, 0);
    arena_fini(&a);
}

static void texts_are_cut_between_characters(void **state)
{
    (void)state;
    struct arena a = {0};
    char text[HISTORY_TEXT_MAX + 8];
    memset(text, 'x', sizeof text);
    memcpy(text + HISTORY_TEXT_MAX - 1, "\xc3\xa9", 2); /* one character over the end */
    const struct failure f = {.message = {text, sizeof text},
                              .termination_message = {text, HISTORY_TEXT_MAX - 1}};
    struct failure got = history_cut(&f, &a);
    assert_int_equal(got.message.len, HISTORY_TEXT_MAX - 1);
    assert_int_equal(got.termination_message.len, HISTORY_TEXT_MAX - 1);
    arena_fini(&a);
}

static void all_texts_together_are_bounded_and_names_are_never_cut(void **state)
{
    (void)state;
    struct arena a = {0};
    static char text[100000];
    static struct container_result many[1000];
    memset(text, 'x', sizeof text);
    struct str large = {text, sizeof text}, name = {text, 60};
    for (size_t i = 0; i < COUNT(many); i++)
        many[i] = (struct container_result){
            .name = name, .reason = STR("Error"), .message = large, .log = large};
    struct failure f = {.message = large, .containers = many, .container_count = 1000};
    struct failure got = history_cut(&f, &a);
    size_t bytes = got.message.len;
    assert_true(got.container_count > 0 && got.container_count < 1000);
    for (size_t i = 0; i < got.container_count; i++) {
        assert_true(str_eq(got.containers[i].name, name));
        assert_int_equal(got.containers[i].log.len, 0);
        bytes += got.containers[i].name.len + got.containers[i].message.len;
    }
    assert_true(bytes <= HISTORY_FAILURE_MAX);
    f.error_type = f.category = f.subcategory = f.node = f.termination_message = large;
    got = history_cut(&f, &a);
    assert_int_equal(got.message.len, 0);
    assert_int_equal(got.container_count, 0);
    arena_fini(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_policies_look_at_is_kept_and_the_rest_is_not),
        cmocka_unit_test(texts_are_cut_between_characters),
        cmocka_unit_test(all_texts_together_are_bounded_and_names_are_never_cut),
    };
    return cmocka_run_group_tests_name("history", tests, NULL, NULL);
}
