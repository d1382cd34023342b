/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>
#include <cmocka.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/pattern.h"

/* A limit for a search in processor time, with room for sanitizers and a busy machine; without a
 * budget each of the patterns below would take hours. */
#define PATIENCE_S 20

static enum pattern_match search_bytes(const char *pattern, struct str text)
{
    struct pattern *p;
    struct err e = pattern_new(str_from(pattern), &p);
    if (e.code != ERR_OK)
        fail_msg("%s: %s", pattern, e.msg);
    clock_t from = clock();
    uint64_t steps = PATTERN_STEPS_MAX;
    enum pattern_match m = pattern_search(p, text, &steps);
    assert_true(clock() - from < (clock_t)PATIENCE_S * CLOCKS_PER_SEC);
    pattern_free(p);
    return m;
}

static enum pattern_match search(const char *pattern, const char *text)
{
    return search_bytes(pattern, str_from(text));
}

static struct err refusal(const char *pattern)
{
    struct pattern *p = NULL;
    struct err e = pattern_new(str_from(pattern), &p);
    assert_null(p);
    assert_int_equal(e.code, ERR_BAD_VALUE);
    return e;
}

/* n times c, then end. */
static struct str repeated(char c, size_t n, const char *end)
{
    size_t more = strlen(end);
    char *at = alloc_get(n + more);
    memset(at, c, n);
    memcpy(at + n, end, more);
    return (struct str){at, n + more};
}

static void a_match_is_looked_for_anywhere(void **state)
{
    (void)state;
    assert_int_equal(search("TRANSIENT", "error: TRANSIENT (disk)"), PATTERN_YES);
    assert_int_equal(search(".*TRANSIENT.*", "first line\nerror: TRANSIENT\n"), PATTERN_YES);
    assert_int_equal(search("TRANSIENT", "transient"), PATTERN_NO);
    assert_int_equal(search("(?i)TRANSIENT", "transient"), PATTERN_YES);
    assert_int_equal(search("^b", "ab"), PATTERN_NO);
    assert_int_equal(search("", ""), PATTERN_YES);
    assert_int_equal(search_bytes("", (struct str){NULL, 0}), PATTERN_YES);
    assert_int_equal(search("a", ""), PATTERN_NO);
    assert_int_equal(search("(a)(b)(c)(d)", "abcd"), PATTERN_YES);
}

static void a_line_feed_at_the_end_is_no_obstacle(void **state)
{
    (void)state;
    assert_int_equal(search("retry me$", "retry me\n"), PATTERN_YES);
    assert_int_equal(search("a.b", "a\nb"), PATTERN_NO);
    assert_int_equal(search("(?s)a.b", "a\nb"), PATTERN_YES);
}

static void a_character_is_more_than_a_byte(void **state)
{
    (void)state;
    assert_int_equal(search("^.$", "\xc3\xa9"), PATTERN_YES);
    assert_int_equal(search("(?i)\xc3\x89", "\xc3\xa9"), PATTERN_YES);
    assert_int_equal(search("^\\w$", "\xc3\xa9"), PATTERN_NO);
}

static void invalid_text_is_matched_as_far_as_it_is_valid(void **state)
{
    (void)state;
    assert_int_equal(search("TRANSIENT", "\xff\xfe TRANSIENT \x80"), PATTERN_YES);
    assert_int_equal(search("a.b", "a\xff"
                                   "b"),
                     PATTERN_NO);
    assert_int_equal(search_bytes("a\\x00b", (struct str){"a\0b", 3}), PATTERN_YES);
}

static void only_the_first_64_kib_are_looked_at(void **state)
{
    (void)state;
    struct str inside = repeated('x', PATTERN_TEXT_MAX - 1, "Y");
    struct str outside = repeated('x', PATTERN_TEXT_MAX, "Y");
    struct str cut = repeated('x', PATTERN_TEXT_MAX - 1, "\xc3\xa9");
    assert_int_equal(search_bytes("Y", inside), PATTERN_YES);
    assert_int_equal(search_bytes("Y", outside), PATTERN_NO);
    assert_int_equal(search_bytes("\xc3\xa9", cut), PATTERN_NO);
    free((char *)inside.at);
    free((char *)outside.at);
    free((char *)cut.at);
}

static void a_bad_pattern_is_refused_with_its_offset(void **state)
{
    (void)state;
    assert_int_equal(refusal("ab(c").offset, 4);
    assert_int_equal(refusal("a**").offset, 2);
    assert_int_equal(refusal("[z-a]").offset, 3);
    assert_int_equal(refusal("ok\\").offset, 3);
    assert_string_equal(refusal("ab(c").msg,
                        "missing closing parenthesis (at offset 4 of the pattern)");
    assert_int_equal(refusal("a\xff").offset, 1);
}

static void what_no_budget_can_bound_is_refused(void **state)
{
    (void)state;
    assert_non_null(strstr(refusal("(a+)\\1").msg, "back references"));
    assert_non_null(strstr(refusal("(?<x>a+)\\k<x>").msg, "back references"));
    refusal("\\C");
    refusal("(((a{1000}){1000}){1000}){1000}");
}

static void a_long_pattern_is_refused(void **state)
{
    (void)state;
    char text[PATTERN_LENGTH_MAX + 2] = {0};
    memset(text, 'a', PATTERN_LENGTH_MAX + 1);
    refusal(text);
    text[PATTERN_LENGTH_MAX] = '\0';
    assert_int_equal(search(text, "a"), PATTERN_NO);
}

/* PCRE2 looks at each character of a range if case is ignored: two thousand bytes took a third of a
 * second. */
static void wide_ranges_without_case_are_an_effort(void **state)
{
    (void)state;
    static const char *const wide[] = {
        "(?i)[a-\\x{10ffff}]",
        "(?i)[^b-\\x{10FFF0}]",
        "(?xi:[ a-\\x{10ffff} ])",
        "(?xxi)[a- \t\\x{10ffff}]",
        "(?^i)[a-\xf4\x8f\xbf\xbf]",
        "(?s-m)(?-s:(?msi)[a-\\x{10ffff}])",
        "(?i)[a-\\Q\xf4\x8f\xbf\xbf\\E]",
        "(?i)[\\Q]\\Ea-\\x{10ffff}]",
        "(?i)[a-\\o{4177777}]",
        "(?i)[a-\\N{U+10ffff}]",
        "((?i)a|[b-\\x{10ffff}])",
        "(?i)[a-\\E\xf4\x8f\xbf\xbf]",
    };
    static const char *const narrow[] = {
        "[a-\\x{10ffff}]",
        "(a?b)[a-\\x{10ffff}]",
        "(?i)[a-z]+ [0-9-]\\d-\\d-\\-",
        "(?i)[\xd0\xb0-\xd1\x8f]+",
        "(?i)[\\x00-\\xff]-\\x{20ac}",
        "(?s)a-",
        "(?",
        "(?i)-",
        "(?i)[a-\\",
    };
    for (size_t i = 0; i < COUNT(wide); i++)
        if (pattern_range_effort(str_from(wide[i])) < 500000)
            fail_msg("%s", wide[i]);
    for (size_t i = 0; i < COUNT(narrow); i++)
        if (pattern_range_effort(str_from(narrow[i])) > 0x4000)
            fail_msg("%s", narrow[i]);
}

static void a_catastrophic_pattern_gives_up_in_bounded_time(void **state)
{
    (void)state;
    static const char *const patterns[] = {
        "(a+)+$",
        "(a|aa)+$",
        "^(a|a?)+$",
        "(a*)*[b-z]",
        "(?:a?){60}a{60}$",
        "([a-z]+)*[A-Z]",
        "(.*)(.*)(.*)(.*)(.*)[x-z]",
        "^(([a-z])+.)+[A-Z]([a-z])+$",
        "(?=(a+)+$)[x-z]?[v-w]",
        "(a(?1)?a?)+$",
        "(?<=(?:a|b))(a+)+$",
        "[ab]+[cd]",
    };
    struct str text = repeated('a', PATTERN_TEXT_MAX - 1, "!");
    for (size_t i = 0; i < COUNT(patterns); i++)
        if (search_bytes(patterns[i], text) != PATTERN_GAVE_UP)
            fail_msg("%s did not give up", patterns[i]);
    free((char *)text.at);
}

static void a_pattern_that_recurses_without_end_gives_up(void **state)
{
    (void)state;
    assert_int_not_equal(search("(?R)?a(?R)?b$", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!"),
                         PATTERN_YES);
}

static void ordinary_patterns_are_decided_on_long_texts(void **state)
{
    (void)state;
    struct str text = repeated('a', PATTERN_TEXT_MAX - 9, " exit 137");
    assert_int_equal(search_bytes("exit (137|143)$", text), PATTERN_YES);
    assert_int_equal(search_bytes(".*TRANSIENT.*", text), PATTERN_NO);
    assert_int_equal(search_bytes("(?i)connection (reset|refused) by .* after \\d+ ms", text),
                     PATTERN_NO);
    free((char *)text.at);
    text = repeated('a', 4096, "");
    for (size_t i = 0; i < text.len; i += 7)
        ((char *)text.at)[i] = ' ';
    assert_int_equal(search_bytes("(\\w+)\\s+(\\w+) failed with \\S+: .*", text), PATTERN_NO);
    assert_int_equal(search_bytes("(a|\\s)*x", text), PATTERN_NO);
    free((char *)text.at);
}

static void searches_share_what_they_may_take(void **state)
{
    (void)state;
    struct pattern *p;
    struct str text = repeated('a', 1000, "");
    assert_int_equal(pattern_new(STR("[ab].*[x-z]"), &p).code, ERR_OK);
    uint64_t steps = PATTERN_STEPS_MAX;
    assert_int_equal(pattern_search(p, text, &steps), PATTERN_NO);
    uint64_t took = PATTERN_STEPS_MAX - steps;
    assert_in_range(took, 1000 * 1000 / 2, PATTERN_STEPS_MAX - 1);
    steps = 3 * took - 1;
    assert_int_equal(pattern_search(p, text, &steps), PATTERN_NO);
    assert_int_equal(pattern_search(p, text, &steps), PATTERN_NO);
    assert_int_equal(steps, took - 1);
    assert_int_equal(pattern_search(p, text, &steps), PATTERN_GAVE_UP);
    assert_int_equal(steps, 0);
    assert_int_equal(pattern_search(p, STR(""), &steps), PATTERN_GAVE_UP);
    pattern_free(p);
    /* To find without a report that it is not there costs something, too. */
    steps = UINT64_MAX;
    assert_int_equal(pattern_new(STR("needle"), &p).code, ERR_OK);
    assert_int_equal(pattern_search(p, text, &steps), PATTERN_NO);
    assert_in_range(UINT64_MAX - steps, 16, 1000);
    pattern_free(p);
    free((char *)text.at);
}

static void the_text_of_a_pattern_is_kept(void **state)
{
    (void)state;
    struct pattern *p;
    assert_int_equal(pattern_new(STR("a|b"), &p).code, ERR_OK);
    assert_true(str_eq(pattern_text(p), STR("a|b")));
    pattern_free(p);
    pattern_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_match_is_looked_for_anywhere),
        cmocka_unit_test(a_line_feed_at_the_end_is_no_obstacle),
        cmocka_unit_test(a_character_is_more_than_a_byte),
        cmocka_unit_test(invalid_text_is_matched_as_far_as_it_is_valid),
        cmocka_unit_test(only_the_first_64_kib_are_looked_at),
        cmocka_unit_test(a_bad_pattern_is_refused_with_its_offset),
        cmocka_unit_test(what_no_budget_can_bound_is_refused),
        cmocka_unit_test(a_long_pattern_is_refused),
        cmocka_unit_test(wide_ranges_without_case_are_an_effort),
        cmocka_unit_test(a_catastrophic_pattern_gives_up_in_bounded_time),
        cmocka_unit_test(a_pattern_that_recurses_without_end_gives_up),
        cmocka_unit_test(ordinary_patterns_are_decided_on_long_texts),
        cmocka_unit_test(searches_share_what_they_may_take),
        cmocka_unit_test(the_text_of_a_pattern_is_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
