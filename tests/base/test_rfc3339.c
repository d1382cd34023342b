/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/rfc3339.h"

static void check(const char *text, int64_t ms)
{
    instant t = INSTANT_NONE;
    assert_int_equal(rfc3339_parse(str_from(text), &t), ms >= 0);
    if (ms >= 0)
        assert_int_equal(t.ms, ms);
}

static void times_with_a_zone_are_read(void **state)
{
    (void)state;
    check("1970-01-01T00:00:00Z", 0);
    check("2023-11-14T22:13:20.123Z", 1700000000123);
    check("2023-11-14t22:13:20.123999z", 1700000000123);
    check("2023-11-15 00:13:20.1+02:00", 1700000000100);
    check("2024-02-29T00:00:00-00:00", 1709164800000);
    check("2016-12-31T23:59:60Z", 1483228800000);
}

static void anything_else_is_refused(void **state)
{
    (void)state;
    check("", -1);
    check("2023-11-14", -1);
    check("2023-11-14T22:13:20", -1);
    check("2023-11-14T22:13:20.Z", -1);
    check("2023-11-14T22:13Z", -1);
    check("2023-11-14T24:13:20Z", -1);
    check("2023-02-29T00:00:00Z", -1);
    check("1969-12-31T23:59:59Z", -1);
    check("2023-11-14T22:13:20Z ", -1);
    check("2023-11-14T22:13:20+0200", -1);
}

static void what_is_written_reads_back(void **state)
{
    (void)state;
    struct buf b = {0};
    rfc3339_write(&b, (instant){1700000000007});
    assert_true(str_eq(buf_view(&b), STR("2023-11-14T22:13:20.007Z")));
    for (int64_t ms = 0; ms < INT64_C(253402300800000); ms += INT64_C(987654321987)) {
        b.len = 0;
        rfc3339_write(&b, (instant){ms});
        instant t;
        assert_true(rfc3339_parse(buf_view(&b), &t));
        assert_int_equal(t.ms, ms);
    }
    buf_fini(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(times_with_a_zone_are_read),
        cmocka_unit_test(anything_else_is_refused),
        cmocka_unit_test(what_is_written_reads_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
