/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

#include "base/buf.h"
#include "net/query.h"

/* The pairs of a query as "name=value;", followed by "!" on an error. */
static void check_pairs(const char *query, const char *expected)
{
    struct arena a = {0};
    struct buf got = {0};
    struct query_cursor c = query_open(str_from(query), &a);
    for (;;) {
        bool more;
        struct str name, value;
        struct err e = query_next(&c, &more, &name, &value);
        if (e.code != ERR_OK) {
            assert_int_equal(e.code, ERR_BAD_REQUEST);
            buf_byte(&got, '!');
            break;
        }
        if (!more)
            break;
        buf_str(&got, name);
        buf_byte(&got, '=');
        buf_str(&got, value);
        buf_byte(&got, ';');
    }
    buf_byte(&got, '\0');
    assert_string_equal(got.at, expected);
    buf_fini(&got);
    arena_fini(&a);
}

static void pairs_are_decoded_in_order(void **state)
{
    (void)state;
    check_pairs("a=1&b=2", "a=1;b=2;");
    check_pairs("q=a,b%2Cc&t=x+y%2B", "q=a,b,c;t=x y+;");
    check_pairs("%61=b=c", "a=b=c;");
}

static void empty_pairs_are_passed_over(void **state)
{
    (void)state;
    check_pairs("", "");
    check_pairs("&&", "");
    check_pairs("&&a=1&&&b=2&", "a=1;b=2;");
}

static void a_name_without_value_has_an_empty_one(void **state)
{
    (void)state;
    check_pairs("a&b=&=c", "a=;b=;=c;");
}

static void bad_encoding_is_a_bad_request(void **state)
{
    (void)state;
    check_pairs("a=1&b=%zz", "a=1;!");
    check_pairs("%8=1", "!");
    check_pairs("a=%c3", "!");
}

static void check_items(const char *text, const char *expected)
{
    struct buf got = {0};
    struct str rest = str_from(text), item;
    while (query_item(&rest, &item)) {
        buf_str(&got, item);
        buf_byte(&got, ';');
    }
    assert_false(query_item(&rest, &item));
    buf_byte(&got, '\0');
    assert_string_equal(got.at, expected);
    buf_fini(&got);
}

static void items_are_split_at_commas(void **state)
{
    (void)state;
    check_items("", "");
    check_items("a", "a;");
    check_items("a,b,c", "a;b;c;");
    check_items("a,,b", "a;b;");
}

static void empty_items_are_passed_over(void **state)
{
    (void)state;
    check_items(",", "");
    check_items("a,", "a;");
    check_items(",a", "a;");
}

static void what_is_written_reads_back_the_same(void **state)
{
    (void)state;
    struct buf b = {0};
    query_write(&b, STR("a b&c=d%,~-._/\303\251+"));
    assert_true(str_eq(buf_view(&b), STR("a%20b%26c%3Dd%25,~-._%2F%C3%A9%2B")));
    buf_byte(&b, '\0');
    check_pairs(b.at, "a b&c=d%,~-._/\303\251+=;");
    buf_fini(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pairs_are_decoded_in_order),
        cmocka_unit_test(empty_pairs_are_passed_over),
        cmocka_unit_test(a_name_without_value_has_an_empty_one),
        cmocka_unit_test(bad_encoding_is_a_bad_request),
        cmocka_unit_test(items_are_split_at_commas),
        cmocka_unit_test(empty_items_are_passed_over),
        cmocka_unit_test(what_is_written_reads_back_the_same),
    };
    return cmocka_run_group_tests_name("query", tests, NULL, NULL);
}
