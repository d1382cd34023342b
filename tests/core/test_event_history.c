/* SPDX-License-Identifier: Apache-2.0 */
#include "core/event_history.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#define A ((uint64_t)0xa1)
#define B ((uint64_t)0xb2)

static struct str text(const char *s)
{
    return (struct str){s, strlen(s)};
}

static void a_cursor_is_a_history_and_a_number_or_a_number(void **state)
{
    (void)state;
    struct event_cursor c = {7, 7};
    struct buf b = {0};
    assert_true(event_cursor_read(text("41"), &c));
    assert_true(c.history == 0 && c.number == 41);
    event_cursor_write(&b, (struct event_cursor){A, 12});
    assert_true(str_eq(buf_view(&b), STR("00000000000000a1-12")));
    assert_true(event_cursor_read(buf_view(&b), &c));
    assert_true(c.history == A && c.number == 12);
    b.len = 0;
    assert_true(event_cursor_read(STR("0000000000000000-5"), &c));
    assert_true(c.history == EVENT_CURSOR_NOBODYS && c.number == 5);
    event_cursor_write(&b, c);
    assert_true(str_eq(buf_view(&b), STR("0000000000000000-5")));
    static const char *const wrong[] = {"",
                                        "-1",
                                        "x",
                                        "1 ",
                                        "00000000000000a1-",
                                        "00000000000000a1-x",
                                        "00000000000000A1-1",
                                        "0a1-1",
                                        "00000000000000a1-1-1",
                                        "9999999999999999999"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_false(event_cursor_read(text(wrong[i]), &c));
    buf_fini(&b);
}

static void assert_place(const struct event_history *h, struct event_cursor c, uint64_t place,
                         bool gap)
{
    bool is_gap;
    assert_int_equal(event_history_place(h, c, 3, 30, &is_gap), place);
    assert_int_equal(is_gap, gap);
}

static void a_cursor_of_before_is_good_up_to_the_turn(void **state)
{
    (void)state;
    struct event_history h = {.id = A};
    event_history_turn(&h, B, 20);
    event_history_turn(&h, B, 25);
    event_history_turn(&h, A, 25);
    assert_true(h.id == B && h.count == 1);
    assert_place(&h, (struct event_cursor){A, 20}, 20, false);
    assert_place(&h, (struct event_cursor){A, 21}, 20, true);
    assert_place(&h, (struct event_cursor){B, 30}, 30, false);
    assert_place(&h, (struct event_cursor){B, 31}, 30, true);
    assert_place(&h, (struct event_cursor){0xc3, 5}, 2, true);
    assert_place(&h, (struct event_cursor){EVENT_CURSOR_NOBODYS, 5}, 2, true);
    assert_place(&h, (struct event_cursor){0xc3, 0}, 0, false);
    assert_place(&h, (struct event_cursor){0, 25}, 25, false);
    assert_place(&h, (struct event_cursor){0, 31}, 20, true);
    event_history_turn(&h, 0xd4, 10);
    assert_place(&h, (struct event_cursor){A, 15}, 10, true);
    assert_place(&h, (struct event_cursor){A, 10}, 10, false);
}

static void a_plain_number_beyond_the_newest_begins_with_the_oldest(void **state)
{
    (void)state;
    struct event_history h = {.id = A};
    bool gap;
    assert_place(&h, (struct event_cursor){0, 31}, 2, true);
    assert_int_equal(event_history_place(&h, (struct event_cursor){0, 5}, 0, 0, &gap), 0);
    assert_true(gap);
}

static void a_history_is_read_as_it_was_written(void **state)
{
    (void)state;
    struct event_history h = {.id = A}, read;
    struct buf b = {0};
    for (uint64_t i = 1; i <= 40; i++)
        event_history_turn(&h, 0x100 + i, i);
    assert_int_equal(h.count, EVENT_HISTORY_BEFORE_MAX);
    event_history_write(&b, &h);
    struct err e = event_history_read(buf_view(&b), &read);
    assert_int_equal(e.code, ERR_OK);
    assert_int_equal(read.id, 0x128);
    assert_int_equal(read.count, h.count);
    assert_memory_equal(read.before, h.before, h.count * sizeof *h.before);
    e = event_history_read(text("2 00000000000000a1-0"), &read);
    assert_int_equal(e.code, ERR_VERSION);
    e = event_history_read(text("1 00000000000000a1-0 7"), &read);
    assert_int_equal(e.code, ERR_CORRUPT);
    buf_fini(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cursor_is_a_history_and_a_number_or_a_number),
        cmocka_unit_test(a_cursor_of_before_is_good_up_to_the_turn),
        cmocka_unit_test(a_plain_number_beyond_the_newest_begins_with_the_oldest),
        cmocka_unit_test(a_history_is_read_as_it_was_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
