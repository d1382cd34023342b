/* SPDX-License-Identifier: Apache-2.0 */
#include "server/zones.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/array.h"

static void zones_agree_with_the_c_library(void **state)
{
    (void)state;
    static const char *const names[] = {
        "Europe/Berlin",     "America/New_York",  "Australia/Lord_Howe",
        "Africa/Casablanca", "Asia/Tehran",       "Pacific/Apia",
        "Antarctica/Troll",  "America/Sao_Paulo", "UTC"};
    struct zones *zones = zones_new();
    for (size_t i = 0; i < COUNT(names); i++) {
        setenv("TZ", names[i], 1);
        tzset();
        const struct cron_zone *zone = zones_find(zones, str_from(names[i]));
        assert_non_null(zone);
        for (int64_t t = 86400; t < INT64_C(4102444800); t += INT64_C(86400) * 9 + 12345) {
            time_t at = (time_t)t;
            struct tm tm;
            localtime_r(&at, &tm);
            struct cron_period p = zone->period(zone->ctx, t);
            assert_true(p.begin <= t && t < p.end);
            if (p.offset != tm.tm_gmtoff)
                fail_msg("%s at %lld: %lld instead of %ld", names[i], (long long)t,
                         (long long)p.offset, tm.tm_gmtoff);
            /* Periods have no gaps and no overlaps. */
            if (p.end < CRON_EVER)
                assert_int_equal(zone->period(zone->ctx, p.end).begin, p.end);
        }
    }
    unsetenv("TZ");
    tzset();
    zones_free(zones);
}

static void the_empty_name_is_the_zone_of_the_system(void **state)
{
    (void)state;
    setenv("TZ", "Asia/Kolkata", 1);
    struct zones *zones = zones_new();
    const struct cron_zone *zone = zones_find(zones, STR(""));
    assert_non_null(zone);
    assert_int_equal(zone->period(zone->ctx, 1767225600).offset, 19800);
    unsetenv("TZ");
    zones_free(zones);
}

static void what_is_no_zone_is_not_found(void **state)
{
    (void)state;
    static const char *const bad[] = {"Europe/Atlantis", "europe/berlin",  "../../../etc/passwd",
                                      "/etc/localtime",  "Europe",         "zone.tab",
                                      "tzdata.zi",       "Europe//Berlin", "Europe/Berlin/",
                                      "+01:00",          "EST5EDT,M3.2.0", "right/UTC",
                                      "leapseconds",     " UTC",           ".",
                                      "Europe/../UTC",   "Europe/Berlin ", "\xc3\xa9",
                                      "Europe:Berlin",   "utc+1"};
    struct zones *zones = zones_new();
    for (size_t i = 0; i < COUNT(bad); i++)
        if (zones_find(zones, str_from(bad[i])))
            fail_msg("'%s' is taken for a zone", bad[i]);
    assert_null(zones_find(zones, (struct str){"UTC\0x", 5}));
    char longest[300];
    memset(longest, 'A', sizeof longest);
    assert_null(zones_find(zones, (struct str){longest, sizeof longest}));
    /* A zone is the same object for every request. */
    assert_ptr_equal(zones_find(zones, STR("UTC")), zones_find(zones, STR("UTC")));
    zones_free(zones);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(zones_agree_with_the_c_library),
        cmocka_unit_test(the_empty_name_is_the_zone_of_the_system),
        cmocka_unit_test(what_is_no_zone_is_not_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
