/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/array.h"
#include "base/duration.h"

static void durations_are_read(void **state)
{
    (void)state;
    const struct {
        const char *text;
        int64_t ms;
    } cases[] = {
        {"0", 0},
        {"1500", 1500},
        {"007", 7},
        {"281474976710656", SPAN_MAX_MS},
        {"281474976710656ms", SPAN_MAX_MS},
        {"0s", 0},
        {"250ms", 250},
        {"12.5s", 12500},
        {"1.001s", 1001},
        {"1.0004s", 1000},
        {"1.0005s", 1001},
        {"0.000000000000000000000000001s", 0},
        {"0.333333333333333333333333333s", 333},
        {"0.50000000000000000000000000000000000000000000000000000000000000000000000s", 500},
        {"90m", 5400000},
        {"1h30m", 5400000},
        {"1h30m5s7ms", 5405007},
        {"1.5h", 5400000},
        {"7d", 604800000},
        {"1w", 604800000},
        {"1y", 31536000000},
        {"1m1ms", 60001},
        {"0.5y", 15768000000},
        {"8925y", 281458800000000},
        {"0.4ms", 1},
        {"0.0004s 0.0004s", 1},
        {"1500us", 2},
        {"1400usec", 1},
        {"3000000ns", 3},
        {"7nsec", 1},
        {"1nanos", 1},
        {"0ns", 0},
        {"5000\xc2\xb5s", 5},
        {"7msec", 7},
        {"7millis", 7},
        {"15sec", 15000},
        {"15secs", 15000},
        {"1second", 1000},
        {"2seconds", 2000},
        {"5min", 300000},
        {"5mins", 300000},
        {"1minute", 60000},
        {"2minutes", 120000},
        {"1hr", 3600000},
        {"2hrs", 7200000},
        {"1hour", 3600000},
        {"2hours", 7200000},
        {"1day", 86400000},
        {"2days", 172800000},
        {"1wk", 604800000},
        {"2wks", 1209600000},
        {"1week", 604800000},
        {"2weeks", 1209600000},
        {"1M", 2630016000},
        {"1month", 2630016000},
        {"2months", 5260032000},
        {"1yr", 31536000000},
        {"2yrs", 63072000000},
        {"1year", 31536000000},
        {"2years", 63072000000},
        {"5 s", 5000},
        {" 5s", 5000},
        {"5s ", 5000},
        {"2h 30m", 9000000},
        {"2hours 5min", 7500000},
        {"2hours5min", 7500000},
        {"1 h\t30  min 5 sec ", 5405000},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        span d = {-7};
        struct err e = duration_parse(str_from(cases[i].text), &d);
        if (e.code != ERR_OK)
            fail_msg("%s: %s", cases[i].text, e.msg);
        if (d.ms != cases[i].ms)
            fail_msg("%s: read as %lld", cases[i].text, (long long)d.ms);
    }
}

static void what_is_no_duration_is_refused(void **state)
{
    (void)state;
    const char *cases[] = {
        "",
        " ",
        "s",
        "ms",
        "-1",
        "-5s",
        "+5s",
        "1.5",
        ".5s",
        "5.s",
        "1..5s",
        "5S",
        "5H",
        "1.5.5s",
        "5MIN",
        "5Min",
        "5mi",
        "5sms",
        "5foo",
        "1h30",
        "30 1h",
        "inf",
        "nan",
        "Infinity",
        "1e3",
        "1e3s",
        "0x10",
        "1,5s",
        "5s,",
        "1h-5m",
        "1500 ",
        " 1500",
        "1 .5s",
        "1. 5s",
        "5 s 3",
        "5\ns",
        "5\xc2s",
        "5\xb5s",
        "5secondss",
        "5se conds",
        "5secondsandmore",
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        span d = {-7};
        struct err e = duration_parse(str_from(cases[i]), &d);
        if (e.code != ERR_BAD_VALUE)
            fail_msg("\"%s\" was taken for %lld ms", cases[i], (long long)d.ms);
        assert_non_null(strstr(e.msg, "is not a duration"));
        assert_int_equal(d.ms, -7);
    }
}

static void zero_bytes_are_no_part_of_a_duration(void **state)
{
    (void)state;
    span d;
    assert_int_equal(duration_parse(STR("5s\0"), &d).code, ERR_BAD_VALUE);
    assert_int_equal(duration_parse((struct str){NULL, 0}, &d).code, ERR_BAD_VALUE);
}

static void a_duration_over_the_maximum_is_refused(void **state)
{
    (void)state;
    const char *cases[] = {
        "281474976710657",
        "281474976710656.5ms",
        "281474976710656ms1ms",
        "8926y",
        "18446744073709551615",
        "18446744073709551616",
        "18446744073709551617y",
        "18446744073709551615years",
        "281474976710656ms 1ns 499999ns 1us",
        "99999999999999999999999999999999999999999999999999s",
        "18446744073709551615y18446744073709551615y18446744073709551615y",
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        span d = {-7};
        struct err e = duration_parse(str_from(cases[i]), &d);
        assert_int_equal(e.code, ERR_BAD_VALUE);
        assert_non_null(strstr(e.msg, "is too long"));
        assert_int_equal(d.ms, -7);
    }
}

static void no_number_of_parts_wraps_around(void **state)
{
    (void)state;
    struct buf b = {0};
    for (int i = 0; i < 5000; i++)
        buf_lit(&b, "18446744073709551615y");
    span d = {-7};
    struct err e = duration_parse(buf_view(&b), &d);
    assert_int_equal(e.code, ERR_BAD_VALUE);
    assert_non_null(strstr(e.msg, "is too long"));
    buf_fini(&b);
}

static void errors_say_what_is_accepted(void **state)
{
    (void)state;
    span d;
    assert_string_equal(duration_parse(STR("5 mi"), &d).msg,
                        "\"5 mi\" is not a duration: expected milliseconds like 1500, or numbers "
                        "with units (ms, s, m, h, d, w, M, y) like 12.5s, 1h30m or 2hours 5min");
    assert_string_equal(duration_parse(STR("9000y"), &d).msg,
                        "\"9000y\" is too long: a duration is at most 281474976710656 ms (about "
                        "8,900 years)");
    uint64_t n;
    assert_string_equal(duration_parse_size(STR("4 MX"), &n).msg,
                        "\"4 MX\" is not a size below 2^64: expected bytes like 1048576, or a "
                        "number with a unit (KB, MB, GB, KiB, MiB, GiB ...) like 4MiB or 1.5 GiB");
}

static void a_long_text_is_not_repeated_in_full(void **state)
{
    (void)state;
    char text[500];
    memset(text, 'x', sizeof text);
    span d;
    struct err e = duration_parse((struct str){text, sizeof text}, &d);
    assert_int_equal(e.code, ERR_BAD_VALUE);
    assert_non_null(strstr(e.msg, "1h30m"));
}

static void durations_are_written_for_people(void **state)
{
    (void)state;
    const struct {
        int64_t ms;
        const char *text;
    } cases[] = {
        {0, "0 ms"},
        {1, "1 ms"},
        {350, "350 ms"},
        {999, "999 ms"},
        {1000, "1 s"},
        {1049, "1 s"},
        {1050, "1.1 s"},
        {15000, "15 s"},
        {46234, "46.2 s"},
        {59949, "59.9 s"},
        {59950, "1 min"},
        {60000, "1 min"},
        {60499, "1 min"},
        {60500, "1 min 1 s"},
        {725000, "12 min 5 s"},
        {3599499, "59 min 59 s"},
        {3599500, "1 h"},
        {3600000, "1 h"},
        {12000000, "3 h 20 min"},
        {86369999, "23 h 59 min"},
        {86370000, "1 d"},
        {86400000, "1 d"},
        {601200000, "6 d 23 h"},
        {604800000, "7 d"},
        {31536000000, "365 d"},
        {SPAN_MAX_MS, "3257812 d 6 h"},
        {-350, "-350 ms"},
        {-725000, "-12 min 5 s"},
        {INT64_MIN, "-106751991167 d 7 h"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct buf b = {0};
        duration_write(&b, (span){cases[i].ms});
        buf_byte(&b, '\0');
        assert_string_equal(b.at, cases[i].text);
        buf_fini(&b);
    }
}

static void sizes_are_read(void **state)
{
    (void)state;
    const struct {
        const char *text;
        uint64_t bytes;
    } cases[] = {
        {"0", 0},
        {"1048576", 1048576},
        {"18446744073709551614", UINT64_MAX - 1},
        {"4KB", 4000},
        {"4MB", 4000000},
        {"4GB", 4000000000},
        {"4KiB", 4096},
        {"4MiB", 4194304},
        {"4GiB", 4294967296},
        {"17179869183GiB", 18446744072635809792u},
        {"4b", 4},
        {"4 B", 4},
        {"4k", 4000},
        {"4kb", 4000},
        {"1kib", 1024},
        {"4Ki", 4096},
        {"4m", 4000000},
        {"10 MB", 10000000},
        {"4mi", 4194304},
        {"4g", 4000000000},
        {"4gi", 4294967296},
        {"1.5GiB", 1610612736},
        {"1.5  gib", 1610612736},
        {"0.0001KiB", 1},
        {"0.0KiB", 0},
        {"4T", 4000000000000},
        {"4TB", 4000000000000},
        {"4TiB", 4398046511104},
        {"4P", 4000000000000000},
        {"4PiB", 4503599627370496},
        {"4E", 4000000000000000000},
        {"15EiB", 17293822569102704640u},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        uint64_t n = 7;
        assert_int_equal(duration_parse_size(str_from(cases[i].text), &n).code, ERR_OK);
        assert_int_equal(n, cases[i].bytes);
    }
}

static void what_is_no_size_is_refused(void **state)
{
    (void)state;
    const char *cases[] = {
        "",
        "KB",
        "-1",
        "1.5",
        "1.5b",
        "1.MB",
        ".5MB",
        "1.5.5MB",
        "4 ",
        "4KB ",
        "4kbb",
        "4bk",
        "4i",
        "4Z",
        " 4",
        "4KBx",
        "4KB4KB",
        "1e6",
        "0x10",
        "18446744073709551616",
        "17179869184GiB",
        "16EiB",
        "18446744073709551615GiB",
        "18446744073709551616.5KiB",
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        uint64_t n = 7;
        struct err e = duration_parse_size(str_from(cases[i]), &n);
        assert_int_equal(e.code, ERR_BAD_VALUE);
        assert_int_equal(n, 7);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(durations_are_read),
        cmocka_unit_test(what_is_no_duration_is_refused),
        cmocka_unit_test(zero_bytes_are_no_part_of_a_duration),
        cmocka_unit_test(a_duration_over_the_maximum_is_refused),
        cmocka_unit_test(no_number_of_parts_wraps_around),
        cmocka_unit_test(errors_say_what_is_accepted),
        cmocka_unit_test(a_long_text_is_not_repeated_in_full),
        cmocka_unit_test(durations_are_written_for_people),
        cmocka_unit_test(sizes_are_read),
        cmocka_unit_test(what_is_no_size_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
