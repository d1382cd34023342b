/* SPDX-License-Identifier: Apache-2.0 */
#include <locale.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "client/table.h"

static const char *const headers[] = {"NAME", ">COUNT", "WHY", NULL};

static void assert_table(struct table *t, bool colour, size_t width, const char *expected)
{
    struct buf b = {0};
    table_write(t, &b, colour, width);
    buf_byte(&b, '\0');
    assert_string_equal(b.at, expected);
    buf_fini(&b);
    table_fini(t);
}

static void columns_are_as_wide_as_their_widest_cell(void **state)
{
    (void)state;
    struct table t;
    table_init(&t, headers);
    table_add(&t, TABLE_PLAIN, STR("a"));
    table_print(&t, TABLE_PLAIN, "%d", 7);
    table_add(&t, TABLE_PLAIN, STR("because"));
    table_add(&t, TABLE_PLAIN, STR("longer"));
    table_print(&t, TABLE_PLAIN, "%d", 123456);
    table_add(&t, TABLE_PLAIN, STR(""));
    assert_table(&t, false, 0,
                 "NAME     COUNT  WHY\n"
                 "a            7  because\n"
                 "longer  123456\n");
}

static void width_is_counted_in_cells_of_the_terminal(void **state)
{
    (void)state;
    assert_int_equal(table_width(STR("müll")), 4);
    assert_int_equal(table_width(STR("日本")), 4);
    assert_int_equal(table_width(STR("e\xcc\x81")), 1); /* e and a combining accent */
    struct table t;
    table_init(&t, headers);
    table_add(&t, TABLE_PLAIN, STR("日本"));
    table_add(&t, TABLE_PLAIN, STR("1"));
    table_add(&t, TABLE_PLAIN, STR("x"));
    table_add(&t, TABLE_PLAIN, STR("äöü"));
    table_add(&t, TABLE_PLAIN, STR("22"));
    table_add(&t, TABLE_PLAIN, STR("y"));
    assert_table(&t, false, 0,
                 "NAME  COUNT  WHY\n"
                 "日本      1  x\n"
                 "äöü      22  y\n");
}

static void the_last_column_is_cut_to_the_terminal(void **state)
{
    (void)state;
    struct table t;
    table_init(&t, headers);
    table_add(&t, TABLE_PLAIN, STR("a"));
    table_add(&t, TABLE_PLAIN, STR("1"));
    table_add(&t, TABLE_PLAIN, STR("a reason that is too long"));
    assert_table(&t, false, 25,
                 "NAME  COUNT  WHY\n"
                 "a         1  a reason th…\n");
}

static void a_terminal_too_narrow_cuts_nothing(void **state)
{
    (void)state;
    struct table t;
    table_init(&t, headers);
    table_add(&t, TABLE_PLAIN, STR("a"));
    table_add(&t, TABLE_PLAIN, STR("1"));
    table_add(&t, TABLE_PLAIN, STR("a reason that is long"));
    assert_table(&t, false, 20,
                 "NAME  COUNT  WHY\n"
                 "a         1  a reason that is long\n");
}

static void names_are_cut_in_the_middle_before_the_last_column_is_short(void **state)
{
    (void)state;
    struct table t;
    table_init(&t, headers);
    t.least[0] = 8;
    table_add(&t, TABLE_PLAIN, STR("a-queue-with-a-long-name"));
    table_add(&t, TABLE_PLAIN, STR("1"));
    table_add(&t, TABLE_PLAIN, STR("a reason that is too long"));
    table_add(&t, TABLE_PLAIN, STR("short"));
    table_add(&t, TABLE_PLAIN, STR("2"));
    table_add(&t, TABLE_PLAIN, STR("ok"));
    assert_table(&t, false, 45,
                 "NAME          COUNT  WHY\n"
                 "a-queu…-name      1  a reason that is too lo…\n"
                 "short             2  ok\n");
}

static void colours_do_not_shift_columns(void **state)
{
    (void)state;
    struct table t;
    table_init(&t, headers);
    table_add(&t, TABLE_GOOD, STR("ok"));
    table_add(&t, TABLE_PLAIN, STR("1"));
    table_add(&t, TABLE_BAD, STR("no"));
    assert_table(&t, true, 0,
                 "\x1b[2mNAME\x1b[0m  \x1b[2mCOUNT\x1b[0m  \x1b[2mWHY\x1b[0m\n"
                 "\x1b[32mok\x1b[0m        1  \x1b[31mno\x1b[0m\n");
}

static void assert_harmless(struct str text, const char *expected)
{
    struct buf b = {0};
    table_harmless(&b, text);
    buf_byte(&b, '\0');
    assert_string_equal(b.at, expected);
    buf_fini(&b);
}

static void text_cannot_move_the_cursor(void **state)
{
    (void)state;
    assert_harmless(STR("a\x1b[2Jb"), "a\xef\xbf\xbd[2Jb");
    assert_harmless(STR("a\nb\tc\rd"), "a b c d");
    assert_harmless(STR("a\x7f"), "a\xef\xbf\xbd");
    assert_harmless(STR("a\xc2\x9b"), "a\xef\xbf\xbd"); /* U+009B, another CSI */
    assert_harmless(STR("a\0b"), "a\xef\xbf\xbd"
                                 "b");
}

static void broken_bytes_become_visible(void **state)
{
    (void)state;
    assert_harmless(STR("a\xff\xfe"
                        "b"),
                    "a\xef\xbf\xbd\xef\xbf\xbd"
                    "b");
    assert_harmless(STR("grün"), "grün");
    assert_harmless(STR("\xe2\x82"), "\xef\xbf\xbd\xef\xbf\xbd");
    assert_harmless(STR(""), "");
}

int main(void)
{
    setlocale(LC_CTYPE, "C.UTF-8");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(columns_are_as_wide_as_their_widest_cell),
        cmocka_unit_test(width_is_counted_in_cells_of_the_terminal),
        cmocka_unit_test(the_last_column_is_cut_to_the_terminal),
        cmocka_unit_test(a_terminal_too_narrow_cuts_nothing),
        cmocka_unit_test(names_are_cut_in_the_middle_before_the_last_column_is_short),
        cmocka_unit_test(colours_do_not_shift_columns),
        cmocka_unit_test(text_cannot_move_the_cursor),
        cmocka_unit_test(broken_bytes_become_visible),
    };
    return cmocka_run_group_tests_name("cli/table", tests, NULL, NULL);
}
