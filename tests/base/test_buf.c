/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/array.h"
#include "base/buf.h"

static void assert_holds(const struct buf *b, const char *want)
{
    assert_true(str_eq(buf_view(b), str_from(want)));
}

static void an_empty_buffer_owns_nothing(void **state)
{
    (void)state;
    struct buf b = {0};
    buf_add(&b, NULL, 0);
    buf_str(&b, (struct str){NULL, 0});
    buf_drop(&b, 0);
    assert_null(b.at);
    assert_int_equal(b.cap, 0);
    buf_fini(&b);
}

static void pieces_follow_one_another(void **state)
{
    (void)state;
    struct buf b = {0};
    buf_lit(&b, "ab");
    buf_byte(&b, 'c');
    buf_str(&b, STR("de"));
    buf_add(&b, "fgh", 1);
    buf_print(&b, "%d-%s", 7, "x");
    assert_holds(&b, "abcdef7-x");
    buf_fini(&b);
    assert_null(b.at);
    assert_int_equal(b.len, 0);
}

static void growing_keeps_what_is_there(void **state)
{
    (void)state;
    struct buf b = {0};
    for (int i = 0; i < 100000; i++)
        buf_byte(&b, (char)(i % 251));
    assert_int_equal(b.len, 100000);
    for (int i = 0; i < 100000; i++)
        assert_int_equal(b.at[i], (char)(i % 251));
    buf_fini(&b);
}

static void room_is_there_before_it_is_used(void **state)
{
    (void)state;
    struct buf b = {0};
    buf_lit(&b, "x");
    char *at = buf_room(&b, 5000);
    assert_ptr_equal(at, b.at + 1);
    assert_int_equal(b.len, 1);
    assert_true(b.cap - b.len >= 5000);
    memset(at, 'y', 5000);
    b.len += 5000;
    assert_int_equal(b.at[0], 'x');
    assert_int_equal(b.at[5000], 'y');
    buf_fini(&b);
}

static void dropping_moves_the_rest_to_the_front(void **state)
{
    (void)state;
    struct buf b = {0};
    buf_lit(&b, "hello world");
    buf_drop(&b, 6);
    assert_holds(&b, "world");
    buf_drop(&b, 0);
    assert_holds(&b, "world");
    buf_drop(&b, 5);
    assert_int_equal(b.len, 0);
    buf_lit(&b, "again");
    assert_holds(&b, "again");
    buf_fini(&b);
}

static void print_writes_long_texts_whole(void **state)
{
    (void)state;
    struct buf b = {0};
    buf_print(&b, "%0*d|", 3000, 5);
    buf_print(&b, "%s", "");
    assert_int_equal(b.len, 3001);
    assert_int_equal(b.at[2999], '5');
    assert_int_equal(b.at[3000], '|');
    buf_fini(&b);
}

static void print_fills_a_buffer_to_its_last_byte(void **state)
{
    (void)state;
    for (int before = 250; before <= 256; before++) {
        struct buf b = {0};
        for (int i = 0; i < before; i++)
            buf_byte(&b, '.');
        buf_print(&b, "%s", "12345");
        assert_int_equal(b.len, before + 5);
        assert_memory_equal(b.at + before, "12345", 5);
        buf_fini(&b);
    }
}

static void numbers_are_decimal(void **state)
{
    (void)state;
    const struct {
        int64_t v;
        const char *text;
    } cases[] = {
        {0, "0"},
        {7, "7"},
        {-1, "-1"},
        {10, "10"},
        {-10, "-10"},
        {99, "99"},
        {100, "100"},
        {101, "101"},
        {-999, "-999"},
        {10000, "10000"},
        {1234567890, "1234567890"},
        {INT64_MAX, "9223372036854775807"},
        {INT64_MIN, "-9223372036854775808"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct buf b = {0};
        buf_int(&b, cases[i].v);
        assert_holds(&b, cases[i].text);
        buf_fini(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_buffer_owns_nothing),
        cmocka_unit_test(pieces_follow_one_another),
        cmocka_unit_test(growing_keeps_what_is_there),
        cmocka_unit_test(room_is_there_before_it_is_used),
        cmocka_unit_test(dropping_moves_the_rest_to_the_front),
        cmocka_unit_test(print_writes_long_texts_whole),
        cmocka_unit_test(print_fills_a_buffer_to_its_last_byte),
        cmocka_unit_test(numbers_are_decimal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
