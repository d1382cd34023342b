/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "client/view.h"

static const struct str job = STR("{\"id\":\"a\\u00e9\", \"n\": 7, \"none\":null, \"x\" : { "
                                  "\"n\":1e999 ,\"l\":[ 1,[2], {} ] } }");

static void members_keep_their_bytes(void **state)
{
    (void)state;
    assert_true(str_eq(view_get(job, "id"), STR("\"a\\u00e9\"")));
    assert_true(str_eq(view_get(view_get(job, "x"), "n"), STR("1e999")));
}

static void absent_and_null_members_are_empty(void **state)
{
    (void)state;
    struct arena a = {0};
    int64_t v;
    assert_int_equal(view_get(job, "gone").len, 0);
    assert_int_equal(view_get(job, "none").len, 0);
    assert_int_equal(view_get(STR("[1]"), "id").len, 0);
    assert_int_equal(view_get(STR(""), "id").len, 0);
    assert_int_equal(view_text(&a, job, "none").len, 0);
    assert_false(view_int(job, "gone", &v));
    assert_false(view_int(job, "id", &v));
    assert_false(instant_is_set(view_time(job, "gone")));
    arena_fini(&a);
}

static void strings_are_unescaped_and_numbers_shown_as_they_stand(void **state)
{
    (void)state;
    struct arena a = {0};
    int64_t v;
    assert_true(str_eq(view_text(&a, job, "id"), STR("aé")));
    assert_true(str_eq(view_text(&a, job, "n"), STR("7")));
    assert_true(view_int(job, "n", &v));
    assert_int_equal(v, 7);
    arena_fini(&a);
}

static void an_array_is_walked_item_by_item(void **state)
{
    (void)state;
    static const char *const expected[] = {"1", "[2]", "{}"};
    struct view_list l = view_list(view_get(view_get(job, "x"), "l"));
    size_t n = 0;
    for (struct str item; view_next(&l, &item); n++)
        assert_true(str_eq(item, str_from(expected[n])));
    assert_int_equal(n, 3);
    struct str item;
    struct view_list none = view_list(view_get(job, "gone"));
    assert_false(view_next(&none, &item));
    struct view_list object = view_list(job);
    assert_false(view_next(&object, &item));
}

static void assert_pretty(struct str value, size_t indent, const char *expected)
{
    struct buf b = {0};
    view_pretty(&b, value, indent);
    buf_byte(&b, '\0');
    assert_string_equal(b.at, expected);
    buf_fini(&b);
}

static void pretty_text_has_a_line_for_each_member(void **state)
{
    (void)state;
    assert_pretty(STR("{\"a\":[1,{ \"b\" :-1.50e3}],\n\"c\":{ } , \"d\":[]}"), 0,
                  "{\n  \"a\": [\n    1,\n    {\n      \"b\": -1.50e3\n    }\n  ],\n"
                  "  \"c\": {},\n  \"d\": []\n}");
    assert_pretty(STR("[true]"), 4, "[\n      true\n    ]");
}

static void pretty_text_leaves_strings_alone(void **state)
{
    (void)state;
    assert_pretty(STR("\"{\\\"a\\\":[1, 2]\\\\\""), 0, "\"{\\\"a\\\":[1, 2]\\\\\"");
}

static void what_is_not_json_is_shown_as_it_stands(void **state)
{
    (void)state;
    assert_pretty(STR("{\"a\": [1, oops"), 0, "{\"a\": [1, oops");
    assert_pretty(STR("{} {}"), 0, "{} {}");
    assert_pretty(STR(""), 0, "");
}

static void positions_count_lines_and_characters(void **state)
{
    (void)state;
    size_t line, column;
    view_position(STR("{\n  \"ä\": x}"), 9, &line, &column);
    assert_int_equal(line, 2);
    assert_int_equal(column, 7);
    view_position(STR(""), 0, &line, &column);
    assert_int_equal(line, 1);
    assert_int_equal(column, 1);
}

static void a_check_refuses_what_follows_a_value(void **state)
{
    (void)state;
    struct str raw;
    assert_int_equal(view_check(STR(" {} \n"), &raw).code, ERR_OK);
    assert_true(str_eq(raw, STR("{}")));
    assert_int_not_equal(view_check(STR("{} x"), &raw).code, ERR_OK);
    assert_int_not_equal(view_check(STR(""), &raw).code, ERR_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(members_keep_their_bytes),
        cmocka_unit_test(absent_and_null_members_are_empty),
        cmocka_unit_test(strings_are_unescaped_and_numbers_shown_as_they_stand),
        cmocka_unit_test(an_array_is_walked_item_by_item),
        cmocka_unit_test(pretty_text_has_a_line_for_each_member),
        cmocka_unit_test(pretty_text_leaves_strings_alone),
        cmocka_unit_test(what_is_not_json_is_shown_as_it_stands),
        cmocka_unit_test(positions_count_lines_and_characters),
        cmocka_unit_test(a_check_refuses_what_follows_a_value),
    };
    return cmocka_run_group_tests_name("cli/view", tests, NULL, NULL);
}
