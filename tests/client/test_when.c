/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

#include "base/array.h"
#include "client/when.h"

static int64_t parsed(const char *text)
{
    instant t = {0};
    return when_parse(str_from(text), &t) ? t.ms : -1;
}

static void times_of_rfc3339_are_read(void **state)
{
    (void)state;
    assert_int_equal(parsed("1970-01-01T00:00:00Z"), 0);
    assert_int_equal(parsed("2026-03-13T08:53:47.425Z"), 1773392027425);
    assert_int_equal(parsed("2026-03-13 09:53:47.4259+01:00"), 1773392027425);
    assert_int_equal(parsed("2026-03-13t03:23:47.425-05:30"), 1773392027425);
    assert_int_equal(parsed("2024-02-29T00:00:00z"), 1709164800000);
    assert_int_equal(parsed("2016-12-31T23:59:60Z"), 1483228800000); /* a leap second */
}

static void milliseconds_are_read(void **state)
{
    (void)state;
    assert_int_equal(parsed("0"), 0);
    assert_int_equal(parsed("1773392027425"), 1773392027425);
    assert_int_equal(parsed("281474976710656"), INSTANT_MAX_MS);
    assert_int_equal(parsed("281474976710657"), -1);
    assert_int_equal(parsed("1773392027425000000"), -1);
}

static void what_is_no_time_is_refused(void **state)
{
    (void)state;
    static const char *const wrong[] = {
        "",
        "tomorrow",
        "-1",
        "1.5",
        "2026-03-13",
        "2026-03-13T08:53:47", /* in which zone? */
        "2026-03-13T08:53Z",
        "2026-02-30T00:00:00Z", /* no such day */
        "2025-02-29T00:00:00Z",
        "2026-13-01T00:00:00Z",
        "2026-03-13T24:00:00Z",
        "2026-03-13T08:60:00Z",
        "2026-03-13T08:53:47.Z",
        "2026-03-13T08:53:47+0100",
        "2026-03-13T08:53:47Zulu",
        "1969-12-31T23:59:59Z",
        "1970-01-01T00:00:00+01:00",
        "2026-3-13T08:53:47Z",
    };
    for (size_t i = 0; i < COUNT(wrong); i++)
        if (parsed(wrong[i]) != -1)
            fail_msg("%s was read as a time", wrong[i]);
}

static void assert_relative(int64_t ms, const char *expected)
{
    struct buf b = {0};
    instant now = {INT64_C(1773392027425)};
    when_relative(&b, instant_add(now, (span){ms}), now);
    buf_byte(&b, '\0');
    assert_string_equal(b.at, expected);
    buf_fini(&b);
}

static void distances_are_rounded_to_seconds(void **state)
{
    (void)state;
    assert_relative(0, "now");
    assert_relative(-499, "just now");
    assert_relative(2600, "in 3 s");
    assert_relative(-1400, "1 s ago");
    assert_relative(125000, "in 2 min 5 s");
    assert_relative(-7200000, "2 h ago");
}

static void a_deadline_is_at_most_a_century_away(void **state)
{
    (void)state;
    mono start = {INT64_C(1) << 50};
    assert_int_equal(when_after(start, (span){5}).ns, start.ns + 5000000);
    assert_int_equal(when_after(start, (span){SPAN_MAX_MS}).ns - start.ns,
                     INT64_C(100) * 365 * 24 * 3600 * 1000000000);
}

static void clock_and_date_are_local(void **state)
{
    (void)state;
    struct buf b = {0};
    setenv("TZ", "XYZ-02:00", 1); /* two hours east */
    tzset();
    when_absolute(&b, (instant){INT64_C(1773392027425)});
    buf_byte(&b, ' ');
    when_clock(&b, (instant){INT64_C(1773392027425)});
    buf_byte(&b, '\0');
    assert_string_equal(b.at, "2026-03-13 10:53:47.425 +0200 10:53:47");
    buf_fini(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(times_of_rfc3339_are_read),
        cmocka_unit_test(milliseconds_are_read),
        cmocka_unit_test(what_is_no_time_is_refused),
        cmocka_unit_test(distances_are_rounded_to_seconds),
        cmocka_unit_test(a_deadline_is_at_most_a_century_away),
        cmocka_unit_test(clock_and_date_are_local),
    };
    return cmocka_run_group_tests_name("cli/when", tests, NULL, NULL);
}
