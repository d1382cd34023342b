/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/array.h"
#include "base/id.h"

#define NOW         ((instant){1700000000000})
#define COUNTER_MAX 0xffffffu

static const struct {
    struct id id;
    const char *text;
} golden[] = {
    {{0, 0}, "0000000000000000000000000"},
    {{0, 1}, "0000000000000000000000001"},
    {{0, 35}, "000000000000000000000000z"},
    {{0, 36}, "0000000000000000000000010"},
    {{0, 0x41c21cb8e0ffffff}, "0000000000000zzzzzzzzzzzz"},
    {{0, 0x41c21cb8e1000000}, "0000000000001000000000000"},
    {{0, UINT64_MAX}, "0000000000003w5e11264sgsf"},
    {{1, 0}, "0000000000003w5e11264sgsg"},
    {{0x18bcfe56800abcd, 0xef123456deadbeef}, "03amo4vrptp1zt6ar38tgywvj"},
    {{0x10e425c56daffabc, 0x35c0ffffffffffff}, "0zzzzzzzzzzzzzzzzzzzzzzzz"},
    {{0x10e425c56daffabc, 0x35c1000000000000}, "1000000000000000000000000"},
    {{UINT64_MAX, UINT64_MAX}, "f5lxx1zz5pnorynqglhzmsp33"},
};
#define GOLDEN COUNT(golden)

static uint64_t ms_of(struct id id)
{
    return id.hi >> 16;
}

static uint32_t counter_hi_of(struct id id)
{
    return (uint32_t)((id.hi & 0xffff) << 8 | id.lo >> 56);
}

static uint32_t counter_lo_of(struct id id)
{
    return (uint32_t)(id.lo >> 32) & COUNTER_MAX;
}

static struct id with(uint64_t ms, uint32_t hi, uint32_t lo)
{
    return (struct id){ms << 16 | hi >> 8, (uint64_t)(hi & 0xff) << 56 | (uint64_t)lo << 32};
}

static void known_ids_have_their_known_text(void **state)
{
    (void)state;
    for (size_t i = 0; i < GOLDEN; i++) {
        char text[ID_TEXT_LEN + 1] = {0};
        id_format(golden[i].id, text);
        assert_string_equal(text, golden[i].text);
        struct id id = {1, 2};
        assert_int_equal(id_parse(str_from(golden[i].text), &id).code, ERR_OK);
        assert_true(id_eq(id, golden[i].id));
    }
}

static void format_writes_25_bytes_and_no_more(void **state)
{
    (void)state;
    char text[ID_TEXT_LEN + 2];
    memset(text, '#', sizeof text);
    id_format(golden[GOLDEN - 1].id, text + 1);
    assert_int_equal(text[0], '#');
    assert_int_equal(text[ID_TEXT_LEN + 1], '#');
}

static void upper_case_means_the_same_id(void **state)
{
    (void)state;
    struct id id;
    assert_int_equal(id_parse(STR("03AMO4vrptp1zt6ar38tGYWVJ"), &id).code, ERR_OK);
    assert_true(id_eq(id, golden[8].id));
}

static void what_is_no_id_is_refused(void **state)
{
    (void)state;
    const struct str bad[] = {
        STR(""),
        STR("03amo4vrptp1zt6ar38tgywv"),
        STR("03amo4vrptp1zt6ar38tgywvj0"),
        STR("03amo4vrptp1zt6ar38tgywv-"),
        STR("-3amo4vrptp1zt6ar38tgywvj"),
        STR("03amo4vrptp1 t6ar38tgywvj"),
        STR("03amo4vrptp1zt6ar38tgywv\0"),
        STR("03amo4vrptp1zt6ar38tgyw\xc3\xa4"),
        STR("f5lxx1zz5pnorynqglhzmsp34"), /* 2^128 */
        STR("f5lxx1zz5pnp0000000000000"),
        STR("g000000000000000000000000"),
        STR("zzzzzzzzzzzzzzzzzzzzzzzzz"),
    };
    for (size_t i = 0; i < COUNT(bad); i++) {
        struct id id = {1, 2};
        struct err e = id_parse(bad[i], &id);
        assert_int_equal(e.code, ERR_BAD_ID);
        assert_true(strlen(e.msg) > 10);
        assert_true(id_eq(id, (struct id){1, 2}));
    }
}

static void every_byte_but_digits_and_letters_is_refused(void **state)
{
    (void)state;
    for (int c = 0; c < 256; c++) {
        char text[ID_TEXT_LEN];
        memset(text, '0', sizeof text);
        text[13] = (char)c;
        bool digit = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        struct id id;
        struct err e = id_parse((struct str){text, sizeof text}, &id);
        assert_int_equal(e.code, digit ? ERR_OK : ERR_BAD_ID);
    }
}

static void text_bytes_and_number_have_one_order(void **state)
{
    (void)state;
    struct rng r = rng_from_seed(1);
    for (int i = 0; i < 20000; i++) {
        /* Shifted, so that ids with equal high parts and of all sizes occur. */
        unsigned shift = (unsigned)rng_below(&r, 64);
        struct id a = {rng_next(&r) >> shift, rng_next(&r)};
        struct id b = {rng_below(&r, 2) ? a.hi : rng_next(&r) >> shift, rng_next(&r)};
        char ta[ID_TEXT_LEN], tb[ID_TEXT_LEN];
        uint8_t ba[16], bb[16];
        id_format(a, ta);
        id_format(b, tb);
        id_encode(a, ba);
        id_encode(b, bb);
        int order = id_cmp(a, b);
        int by_text = memcmp(ta, tb, sizeof ta), by_bytes = memcmp(ba, bb, sizeof ba);
        assert_int_equal((by_text > 0) - (by_text < 0), order);
        assert_int_equal((by_bytes > 0) - (by_bytes < 0), order);

        struct id back;
        assert_int_equal(id_parse((struct str){ta, sizeof ta}, &back).code, ERR_OK);
        assert_true(id_eq(back, a));
        assert_true(id_eq(id_decode(bb), b));
    }
}

static void bytes_are_big_endian(void **state)
{
    (void)state;
    const uint8_t want[16] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
    uint8_t got[16];
    id_encode((struct id){0x0102030405060708, 0x090a0b0c0d0e0f10}, got);
    assert_memory_equal(got, want, 16);
}

static void an_id_carries_its_time(void **state)
{
    (void)state;
    struct id_source s = {0};
    struct rng r = rng_from_seed(1);
    assert_int_equal(ms_of(id_next(&s, NOW, &r)), NOW.ms);
    assert_int_equal(ms_of(id_next(&s, (instant){NOW.ms + 5}, &r)), NOW.ms + 5);
}

static void a_million_ids_of_one_millisecond_increase(void **state)
{
    (void)state;
    struct id_source s = {0};
    struct rng r = rng_from_seed(2);
    struct id last = id_next(&s, NOW, &r);
    for (int i = 0; i < 1000000; i++) {
        struct id id = id_next(&s, NOW, &r);
        assert_true(id_cmp(id, last) > 0);
        last = id;
    }
    assert_int_equal(ms_of(last), NOW.ms);
}

static void within_a_millisecond_the_low_counter_steps_by_one(void **state)
{
    (void)state;
    struct id_source s = {.last = with(1000, 7, 41), .counter_hi_ms = 1000};
    struct rng r = rng_from_seed(1);
    struct id id = id_next(&s, (instant){1000}, &r);
    assert_int_equal(counter_hi_of(id), 7);
    assert_int_equal(counter_lo_of(id), 42);
}

static void a_full_low_counter_carries_into_the_high_one(void **state)
{
    (void)state;
    struct id_source s = {.last = with(1000, 0xff, COUNTER_MAX), .counter_hi_ms = 1000};
    struct rng r = rng_from_seed(1);
    struct id id = id_next(&s, (instant){1000}, &r);
    assert_int_equal(ms_of(id), 1000);
    assert_int_equal(counter_hi_of(id), 0x100);
    assert_int_equal(counter_lo_of(id), 0);
}

static void full_counters_carry_into_the_time(void **state)
{
    (void)state;
    struct id_source s = {.last = with(1000, COUNTER_MAX, COUNTER_MAX), .counter_hi_ms = 1000};
    struct rng r = rng_from_seed(1);
    struct id id = id_next(&s, (instant){1000}, &r);
    assert_int_equal(ms_of(id), 1001);
    assert_int_equal(counter_hi_of(id), 0);
    struct id after = id_next(&s, (instant){1000}, &r);
    assert_true(id_cmp(after, id) > 0);
    assert_int_equal(ms_of(after), 1001);
}

static void the_high_counter_is_drawn_anew_each_second(void **state)
{
    (void)state;
    struct id_source s = {0};
    struct rng r = rng_from_seed(3);
    uint32_t first = counter_hi_of(id_next(&s, NOW, &r));
    uint32_t low = counter_lo_of(s.last);
    struct id late = id_next(&s, (instant){NOW.ms + 999}, &r);
    assert_int_equal(counter_hi_of(late), first);
    assert_int_not_equal(counter_lo_of(late), low + 1);
    assert_int_not_equal(counter_hi_of(id_next(&s, (instant){NOW.ms + 1000}, &r)), first);
}

static void ids_increase_when_the_clock_goes_back(void **state)
{
    (void)state;
    struct id_source s = {0};
    struct rng r = rng_from_seed(4);
    struct id last = id_next(&s, NOW, &r);
    const int64_t back[] = {1, 999, 1000, 10000, 3600000, 1700000000000};
    for (size_t i = 0; i < COUNT(back); i++)
        for (int n = 0; n < 1000; n++) {
            struct id id = id_next(&s, (instant){NOW.ms - back[i]}, &r);
            assert_true(id_cmp(id, last) > 0);
            assert_int_equal(ms_of(id), NOW.ms);
            last = id;
        }
    assert_int_equal(ms_of(id_next(&s, (instant){NOW.ms + 1}, &r)), NOW.ms + 1);
}

static void ids_increase_under_a_wild_clock(void **state)
{
    (void)state;
    struct id_source s = {0};
    struct rng r = rng_from_seed(5);
    struct id last = {0};
    for (int i = 0; i < 100000; i++) {
        instant now = {NOW.ms + i / 10 + (int64_t)rng_below(&r, 3000) - 1500};
        struct id id = id_next(&s, now, &r);
        assert_true(id_cmp(id, last) > 0);
        last = id;
    }
}

static void ids_go_on_after_the_newest_seen(void **state)
{
    (void)state;
    struct rng r = rng_from_seed(6);
    /* Seen ids of the past, of this very millisecond, and of a clock that was fast. */
    const int64_t ahead[] = {-5000, -1, 0, 1, 5000, 86400000};
    for (size_t i = 0; i < COUNT(ahead); i++) {
        struct id_source s = {0};
        struct id seen = with((uint64_t)(NOW.ms + ahead[i]), COUNTER_MAX, COUNTER_MAX);
        id_seen(&s, seen);
        id_seen(&s, with((uint64_t)NOW.ms - 10000, 1, 1));
        struct id last = seen;
        for (int n = 0; n < 100; n++) {
            struct id id = id_next(&s, NOW, &r);
            assert_true(id_cmp(id, last) > 0);
            last = id;
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_ids_have_their_known_text),
        cmocka_unit_test(format_writes_25_bytes_and_no_more),
        cmocka_unit_test(upper_case_means_the_same_id),
        cmocka_unit_test(what_is_no_id_is_refused),
        cmocka_unit_test(every_byte_but_digits_and_letters_is_refused),
        cmocka_unit_test(text_bytes_and_number_have_one_order),
        cmocka_unit_test(bytes_are_big_endian),
        cmocka_unit_test(an_id_carries_its_time),
        cmocka_unit_test(a_million_ids_of_one_millisecond_increase),
        cmocka_unit_test(within_a_millisecond_the_low_counter_steps_by_one),
        cmocka_unit_test(a_full_low_counter_carries_into_the_high_one),
        cmocka_unit_test(full_counters_carry_into_the_time),
        cmocka_unit_test(the_high_counter_is_drawn_anew_each_second),
        cmocka_unit_test(ids_increase_when_the_clock_goes_back),
        cmocka_unit_test(ids_increase_under_a_wild_clock),
        cmocka_unit_test(ids_go_on_after_the_newest_seen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
