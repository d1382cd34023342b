/* SPDX-License-Identifier: Apache-2.0 */
#include "base/mark.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <string.h>

#include "base/buf.h"
#include "base/json.h"

static struct str marked(struct arena *a, const char *name)
{
    char mark[MARK_LEN];
    mark_make("abcdefghABCD-_09", mark);
    return mark_add((struct str){mark, MARK_LEN}, str_from(name), a);
}

static void a_name_has_a_mark_and_is_bare_without_it(void **state)
{
    (void)state;
    struct arena a = {0};
    struct str name = marked(&a, "x");
    assert_int_equal(name.len, MARK_LEN + 1);
    assert_int_equal(mark_of(name).len, MARK_LEN);
    assert_true(str_eq(mark_bare(name), STR("x")));
    assert_int_equal(mark_of(STR("x")).len, 0);
    assert_true(str_eq(mark_bare(STR("x")), STR("x")));
    assert_true(str_eq(mark_add((struct str){0}, STR("x"), &a), STR("x")));
    arena_fini(&a);
}

static void only_a_whole_mark_counts(void **state)
{
    (void)state;
    struct arena a = {0};
    struct str name = marked(&a, "x");
    for (size_t i = 0; i < MARK_LEN; i++) {
        struct str other = arena_copy(&a, name);
        ((char *)other.at)[i] = ' ';
        assert_int_equal(mark_of(other).len, 0);
        assert_int_equal(mark_of((struct str){name.at, i}).len, 0);
    }
    assert_int_equal(mark_of((struct str){name.at, MARK_LEN}).len, MARK_LEN);
    arena_fini(&a);
}

static void json_has_no_mark_and_every_other_byte(void **state)
{
    (void)state;
    struct arena a = {0};
    struct buf b = {0}, text = {0};
    buf_lit(&text, "the gang '");
    buf_str(&text, marked(&a, "x"));
    buf_lit(&text, "' and ");
    buf_str(&text, marked(&a, ""));
    buf_lit(&text, "\x1e\x1f"
                   "short\x1f");
    json_write_string(&b, buf_view(&text));
    assert_true(str_eq(buf_view(&b), STR("\"the gang 'x' and \\u001e\\u001fshort\\u001f\"")));
    buf_fini(&b);
    buf_fini(&text);
    arena_fini(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_name_has_a_mark_and_is_bare_without_it),
        cmocka_unit_test(only_a_whole_mark_counts),
        cmocka_unit_test(json_has_no_mark_and_every_other_byte),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
