/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/array.h"
#include "base/pattern.h"
#include "base/re2.h"

/* 1: found, 0: not found, -1: refused. */
static int find(struct str re, struct str text, int64_t *offset)
{
    struct buf meant = {0};
    struct pattern *p = NULL;
    struct err e = re2_translate(re, &meant);
    if (e.code == ERR_OK)
        e = pattern_new(buf_view(&meant), &p);
    buf_fini(&meant);
    if (e.code != ERR_OK) {
        *offset = e.offset;
        return -1;
    }
    uint64_t steps = PATTERN_STEPS_MAX;
    enum pattern_match m = pattern_search(p, text, &steps);
    pattern_free(p);
    return m == PATTERN_YES;
}

static void patterns_find_what_go_finds(void **state)
{
    (void)state;
    static const struct {
        struct str re, text;
        int found;
    } cases[] = {
        {STR("a$"), STR("a"), 1},
        {STR("a$"), STR("a\n"), 0},
        {STR("(?m)a$"), STR("a\nb"), 1},
        {STR("(?m)a$"), STR("ab\nb"), 0},
        {STR("(?m)^$"), STR("a\n"), 1},
        {STR("(?m)^b"), STR("a\nb"), 1},
        {STR("^b"), STR("a\nb"), 0},
        {STR("(?m:^b)|^c"), STR("a\nc"), 0},
        {STR("\\s"), STR("\v"), 0},
        {STR("\\S"), STR("\v"), 1},
        {STR("[\\s]"), STR("\v"), 0},
        {STR("[\\S]"), STR("\v"), 1},
        {STR("[[:space:]]"), STR("\v"), 1},
        {STR("\\v"), STR("\n"), 0},
        {STR("\\v"), STR("\v"), 1},
        {STR("[\\v]"), STR("\f"), 0},
        {STR("^[\\d-x]+$"), STR("1-x"), 1},
        {STR("^[\\d-x]+$"), STR("y"), 0},
        {STR("[a-]"), STR("-"), 1},
        {STR("[]a]"), STR("]"), 1},
        {STR("[^]a]"), STR("]"), 0},
        {STR("[[:^alpha:]x]"), STR("x"), 1},
        {STR("^[[:punct:]]+$"), STR("!/:@[`{~"), 1},
        {STR("[[:foo]"), STR("o"), 1},
        {STR("a{,2}"), STR("a{,2}"), 1},
        {STR("a{,2}"), STR("aa"), 0},
        {STR("^a{2}$"), STR("aa"), 1},
        {STR("a{2,1x"), STR("a{2,1x"), 1},
        {STR("\\Qa.b\\E+$"), STR("a.bb"), 1},
        {STR("\\Qa.b"), STR("axb"), 0},
        {STR("(?P<n>a)(?<m>b)"), STR("ab"), 1},
        {STR("(?i)straSSe"), STR("STRASSE"), 1},
        {STR("(?i:a)b"), STR("AB"), 0},
        {STR("(?i)a(?-i)b"), STR("AB"), 0},
        {STR("(?s)a.b"), STR("a\nb"), 1},
        {STR("a.b"), STR("a\nb"), 0},
        {STR("(?U)^a+b"), STR("aab"), 1},
        {STR("^*a"), STR("a"), 1},
        {STR("\\b+a"), STR("a"), 1},
        {STR("\\101\\x42\\x{43}"), STR("ABC"), 1},
        {STR("\\0"), STR("x"), 0},
        {STR("^\\pL\\p{Greek}\\P{^Lu}$"), STR("a\xce\xb1Z"), 1},
        {STR("^\\d$"), STR("\xd9\xa3"), 0},
        {STR("(?i)\\w"), STR("\xe2\x84\xaa"), 1}, /* the sign of Kelvin is a k */
        {STR("^a(?i)+(?s)B$"), STR("aab"), 1},
        {STR("^a(?i)(?s)?b$"), STR("B"), 1},
        {STR("[:a]"), STR(":"), 1},
        {STR("#x y"), STR("#x y"), 1},
        {STR("(|a)*b"), STR("ab"), 1},
        {STR("(?:a{10}){100}"), STR("a"), 0},
    };
    int64_t offset;
    for (size_t i = 0; i < COUNT(cases); i++) {
        int found = find(cases[i].re, cases[i].text, &offset);
        if (found != cases[i].found)
            fail_msg("%.*s in %.*s: %d", STR_ARG(cases[i].re), STR_ARG(cases[i].text), found);
    }
}

static void what_re2_refuses_is_refused_with_its_place(void **state)
{
    (void)state;
    static const struct {
        struct str re;
        int64_t offset;
    } cases[] = {
        {STR("a(?=b)"), 1},    {STR("a(?!b)"), 1},       {STR("(?<=a)b"), 0},
        {STR("(?<!a)b"), 0},   {STR("(?>a)"), 0},        {STR("a*+"), 2},
        {STR("a++"), 2},       {STR("a**"), 2},          {STR("a{2}{3}"), 4},
        {STR("(a)\\1"), 3},    {STR("\\8"), 0},          {STR("a\\Z"), 1},
        {STR("\\h"), 0},       {STR("\\R"), 0},          {STR("\\N"), 0},
        {STR("\\K"), 0},       {STR("\\G"), 0},          {STR("\\e"), 0},
        {STR("\\cA"), 0},      {STR("\\C"), 0},          {STR("(?x)a"), 0},
        {STR("(?#c)a"), 0},    {STR("(*UTF)a"), 1},      {STR("a{1001}"), 1},
        {STR("a{2,1}"), 1},    {STR("(a{100}){11}"), 8}, {STR("*a"), 0},
        {STR("a|*"), 2},       {STR("(a"), 2},           {STR("a)"), 1},
        {STR("[a"), 0},        {STR("[b-a]"), 1},        {STR("[a-\\d]"), 3},
        {STR("[[:foo:]]"), 1}, {STR("\\p{Xan}"), 0},     {STR("\\p{L"), 0},
        {STR("\\"), 0},        {STR("\\x{110000}"), 0},  {STR("\\xg"), 0},
        {STR("(?i"), 0},       {STR("(?i-)"), 0},        {STR("(?P<a>x)(?P<a>y)"), 8},
        {STR("(?P<>x)"), 0},   {STR("(?P=a)"), 0},       {STR("(?&a)"), 0},
        {STR("(?R)"), 0},      {STR("(?i)+a"), 4},       {STR("a|(?i)+"), 6},
        {STR("a*(?i)*"), 6},   {STR("(?|a)"), 0},        {STR("\\\xc3\xa9"), 0},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        int64_t offset = -1;
        int found = find(cases[i].re, STR("a"), &offset);
        if (found != -1 || offset != cases[i].offset)
            fail_msg("%.*s: %d at %lld", STR_ARG(cases[i].re), found, (long long)offset);
    }
}

static void what_means_the_same_stays_as_it_is(void **state)
{
    (void)state;
    static const struct str same[] = {STR(".*TRANSIENT.*"),   STR("^FailedMount: (a|b)+?"),
                                      STR("cuda-error #3 x"), STR("(?i)xid [0-9]{2,3}"),
                                      STR("(?i:a)b\\.c"),     STR("\\bdevice\\b")};
    for (size_t i = 0; i < COUNT(same); i++) {
        struct buf meant = {0};
        assert_int_equal(re2_translate(same[i], &meant).code, ERR_OK);
        if (!str_eq(buf_view(&meant), same[i]))
            fail_msg("%.*s: %.*s", STR_ARG(same[i]), STR_ARG(buf_view(&meant)));
        buf_fini(&meant);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(patterns_find_what_go_finds),
        cmocka_unit_test(what_re2_refuses_is_refused_with_its_place),
        cmocka_unit_test(what_means_the_same_stays_as_it_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
