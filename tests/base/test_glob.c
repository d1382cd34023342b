/* SPDX-License-Identifier: Apache-2.0 */
#include "base/glob.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

static bool matches(const char *pattern, const char *name)
{
    return glob_matches(str_from(pattern), str_from(name));
}

static void a_star_stands_for_any_text(void **state)
{
    (void)state;
    assert_true(matches("mail", "mail"));
    assert_false(matches("mail", "mails"));
    assert_false(matches("mail", "mai"));
    assert_true(matches("*", ""));
    assert_true(matches("*", "anything"));
    assert_true(matches("mail-*", "mail-"));
    assert_true(matches("mail-*", "mail-in"));
    assert_false(matches("mail-*", "mail"));
    assert_true(matches("*-in", "mail-in"));
    assert_false(matches("*-in", "mail-in-2"));
    assert_true(matches("a*b*c", "aXbYbZc"));
    assert_true(matches("a**c", "ac"));
    assert_false(matches("a*b*c", "acb"));
    assert_true(matches("*aab", "aaaaab"));
    assert_true(matches("", ""));
    assert_false(matches("", "a"));
}

static void no_list_means_all_names(void **state)
{
    (void)state;
    const struct str list[] = {STR("a"), STR("b*")};
    assert_true(glob_list_matches((struct glob_list){0}, STR("x")));
    assert_true(glob_list_matches((struct glob_list){list, 2}, STR("bx")));
    assert_false(glob_list_matches((struct glob_list){list, 2}, STR("ax")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_star_stands_for_any_text),
        cmocka_unit_test(no_list_means_all_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
