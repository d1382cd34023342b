/* SPDX-License-Identifier: Apache-2.0 */

/* Objects read by tables of fields. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <cmocka.h>

#include "base/array.h"
#include "base/buf.h"
#include "wire/field.h"

struct thing {
    struct str name;
    bool on;
    instant at;
    struct field_part inner;
};

static const struct field table[] = {
    {"name", true, field_text, offsetof(struct thing, name)},
    {"on", false, field_bool, offsetof(struct thing, on)},
    {"at", false, field_instant, offsetof(struct thing, at), true},
    {"inner", false, field_part, offsetof(struct thing, inner), true},
};

static struct err read_thing(const char *text, bool strict, struct thing *out)
{
    struct arena a = {0};
    struct json_cursor c = json_open(str_from(text));
    *out = (struct thing){.at = INSTANT_NONE};
    struct err err = field_read_object(strict, &c, &a, table, COUNT(table), out);
    if (err.code == ERR_OK)
        err = json_close(&c);
    arena_fini(&a);
    return err;
}

static void members_go_where_the_table_says(void **state)
{
    (void)state;
    struct thing t;
    struct err err =
        read_thing("{\"at\":5,\"inner\":{\"x\":[1]},\"name\":\"n\",\"on\":true}", true, &t);
    assert_int_equal(err.code, ERR_OK);
    assert_true(str_eq(t.name, STR("n")));
    assert_true(t.on);
    assert_int_equal(t.at.ms, 5);
    assert_true(t.inner.given);
    enum json_type type;
    assert_int_equal(json_peek(&t.inner.at, &type).code, ERR_OK);
    assert_int_equal(type, JSON_OBJECT);
}

static void null_is_absent_where_the_table_says_so(void **state)
{
    (void)state;
    struct thing t;
    assert_int_equal(read_thing("{\"name\":\"n\",\"at\":null,\"inner\":null}", true, &t).code,
                     ERR_OK);
    assert_false(instant_is_set(t.at));
    assert_false(t.inner.given);
    assert_int_equal(read_thing("{\"name\":null}", true, &t).code, ERR_BAD_TYPE);
}

static void the_rows_that_were_given_a_value_are_told(void **state)
{
    (void)state;
    struct arena a = {0};
    struct thing t = {.at = INSTANT_NONE};
    uint64_t given = 0;
    struct json_cursor c = json_open(STR("{\"at\":null,\"on\":false,\"name\":\"n\",\"x\":1}"));
    struct err err = field_read_given(false, &c, &a, table, COUNT(table), &t, &given);
    assert_int_equal(err.code, ERR_OK);
    assert_int_equal(given, 1 << 0 | 1 << 1);
    arena_fini(&a);
}

static void what_is_wrong_is_named(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        enum err_code code;
        const char *words;
    } cases[] = {
        {"{}", ERR_MISSING_FIELD, "name is required"},
        {"{\"name\":\"n\",\"name\":\"m\"}", ERR_DUPLICATE_FIELD, "name is given twice"},
        {"{\"name\":\"n\",\"on\":1}", ERR_BAD_TYPE, "on: "},
        {"{\"name\":\"n\",\"nmae\":1}", ERR_UNKNOWN_FIELD, "'nmae'"},
        {"[]", ERR_BAD_TYPE, "object"},
        {"{\"name\":\"n\"", ERR_BAD_JSON, ""},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct thing t;
        struct err err = read_thing(cases[i].text, true, &t);
        assert_int_equal(err.code, cases[i].code);
        assert_non_null(strstr(err.msg, cases[i].words));
    }
}

static void an_unknown_member_is_passed_over_unless_strict(void **state)
{
    (void)state;
    struct thing t;
    assert_int_equal(read_thing("{\"x\":{\"y\":[]},\"name\":\"n\"}", false, &t).code, ERR_OK);
    assert_true(str_eq(t.name, STR("n")));
}

static void a_part_is_read_afterwards_under_its_name(void **state)
{
    (void)state;
    static const struct field inner[] = {
        {"x", true, field_bool, 0},
    };
    struct arena a = {0};
    struct thing t = {0};
    bool x = false;
    assert_int_equal(field_read_part(true, &t.inner, &a, inner, 1, "inner", &x).code, ERR_OK);
    assert_false(x);
    struct json_cursor c = json_open(STR("{\"name\":\"n\",\"inner\":{\"x\":true}}"));
    assert_int_equal(field_read_object(true, &c, &a, table, COUNT(table), &t).code, ERR_OK);
    assert_int_equal(field_read_part(true, &t.inner, &a, inner, 1, "inner", &x).code, ERR_OK);
    assert_true(x);
    c = json_open(STR("{\"name\":\"n\",\"inner\":{\"x\":1}}"));
    assert_int_equal(field_read_object(true, &c, &a, table, COUNT(table), &t).code, ERR_OK);
    struct err err = field_read_part(true, &t.inner, &a, inner, 1, "inner", &x);
    assert_int_equal(err.code, ERR_BAD_TYPE);
    assert_memory_equal(err.msg, "inner: x: ", 10);
    arena_fini(&a);
}

/* Millions of them fit into one body. */
static void unknown_members_are_counted(void **state)
{
    (void)state;
    struct arena a = {0};
    struct buf b = {0};
    bool x = false;
    static const struct field inner[] = {{"x", true, field_bool, 0}};
    for (int most = FIELD_UNKNOWN_MAX; most <= FIELD_UNKNOWN_MAX + 1; most++) {
        b.len = 0;
        buf_byte(&b, '{');
        for (int i = 0; i < most; i++)
            buf_lit(&b, "\"xx\":0,");
        buf_lit(&b, "\"x\":true}");
        struct json_cursor c = json_open(buf_view(&b));
        struct err err = field_read_object(false, &c, &a, inner, 1, &x);
        assert_int_equal(err.code, most > FIELD_UNKNOWN_MAX ? ERR_TOO_MANY : ERR_OK);
    }
    buf_fini(&b);
    arena_fini(&a);
}

static void a_path_goes_on_through_lists(void **state)
{
    (void)state;
    struct err err = err_make(ERR_BAD_VALUE, "[3]: priority: no");
    assert_string_equal(field_in(err, "jobs").msg, "jobs[3]: priority: no");
    assert_string_equal(field_in(err_make(ERR_BAD_VALUE, "no"), "a").msg, "a: no");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(members_go_where_the_table_says),
        cmocka_unit_test(null_is_absent_where_the_table_says_so),
        cmocka_unit_test(the_rows_that_were_given_a_value_are_told),
        cmocka_unit_test(what_is_wrong_is_named),
        cmocka_unit_test(an_unknown_member_is_passed_over_unless_strict),
        cmocka_unit_test(a_part_is_read_afterwards_under_its_name),
        cmocka_unit_test(unknown_members_are_counted),
        cmocka_unit_test(a_path_goes_on_through_lists),
    };
    return cmocka_run_group_tests_name("field", tests, NULL, NULL);
}
