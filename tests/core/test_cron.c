/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <string.h>

#include "server/zones.h"
#include "base/array.h"
#include "base/rng.h"
#include "core/cron.h"

/* --- times as text: "2026-03-29 00:59:00", UTC --- */

static instant at(const char *text)
{
    struct tm tm = {0};
    int n = sscanf(text, "%d-%d-%d %d:%d:%d", &tm.tm_year, &tm.tm_mon, &tm.tm_mday, &tm.tm_hour,
                   &tm.tm_min, &tm.tm_sec);
    assert_true(n >= 5);
    tm.tm_year -= 1900;
    tm.tm_mon--;
    return (instant){(int64_t)timegm(&tm) * 1000};
}

static const char *written(instant t, char text[32])
{
    struct tm tm;
    time_t s = (time_t)(t.ms / 1000);
    gmtime_r(&s, &tm);
    strftime(text, 32, "%Y-%m-%d %H:%M:%S", &tm);
    return text;
}

static struct cron parsed(const char *expression)
{
    struct cron c;
    struct err e = cron_parse(str_from(expression), &c);
    if (e.code != ERR_OK)
        fail_msg("%s: %s", expression, e.msg);
    return c;
}

#define TICKS_MAX 8

/* The ticks after `after`, in order. */
struct row {
    const char *zone, *expression, *after;
    const char *ticks[TICKS_MAX];
};

static void check_rows(const struct row *rows, size_t count)
{
    struct zones *zones = zones_new();
    for (size_t i = 0; i < count; i++) {
        const struct row *r = &rows[i];
        const struct cron_zone *zone = zones_find(zones, str_from(r->zone));
        assert_non_null(zone);
        struct cron c = parsed(r->expression);
        instant t = at(r->after);
        for (int n = 0; n < TICKS_MAX && r->ticks[n]; n++) {
            instant next;
            char got[32], want[32];
            assert_true(cron_next(&c, zone, t, &next));
            if (next.ms != at(r->ticks[n]).ms)
                fail_msg("%s '%s' after %s, tick %d: %s instead of %s", r->zone, r->expression,
                         r->after, n, written(next, got), written(at(r->ticks[n]), want));
            t = next;
        }
    }
    zones_free(zones);
}

#define CHECK(rows) check_rows((rows), COUNT(rows))

static void ticks_in_utc(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"UTC", "* * * * *", "2026-01-01 00:00:00", {"2026-01-01 00:01", "2026-01-01 00:02"}},
        {"UTC", "* * * * *", "2026-01-01 00:00:59", {"2026-01-01 00:01"}},
        {"UTC", "* * * * * *", "2026-01-01 00:00:59", {"2026-01-01 00:01:00"}},
        {"UTC",
         "*/20 * * * * *",
         "2026-01-01 00:00:00",
         {"2026-01-01 00:00:20", "2026-01-01 00:00:40", "2026-01-01 00:01:00"}},
        {"UTC", "30 15 10 * * *", "2026-01-01 10:15:30", {"2026-01-02 10:15:30"}},
        {"UTC", "30 15 10 * * *", "2026-01-01 10:15:29", {"2026-01-01 10:15:30"}},
        {"UTC",
         "*/15 0-6 * * *",
         "2026-01-01 06:44:00",
         {"2026-01-01 06:45", "2026-01-02 00:00", "2026-01-02 00:15"}},
        {"UTC",
         "7/20 * * * *",
         "2026-01-01 00:00:00",
         {"2026-01-01 00:07", "2026-01-01 00:27", "2026-01-01 00:47", "2026-01-01 01:07"}},
        {"UTC",
         "0 8-18/5 * * *",
         "2026-01-01 00:00:00",
         {"2026-01-01 08:00", "2026-01-01 13:00", "2026-01-01 18:00", "2026-01-02 08:00"}},
        {"UTC",
         "5,10-12,50 4 * * *",
         "2026-01-01 04:05:00",
         {"2026-01-01 04:10", "2026-01-01 04:11", "2026-01-01 04:12", "2026-01-01 04:50",
          "2026-01-02 04:05"}},
        {"UTC", "59 23 31 12 *", "2026-01-01 00:00:00", {"2026-12-31 23:59", "2027-12-31 23:59"}},
        {"UTC",
         "59 59 23 31 12 *",
         "2026-12-31 23:59:58",
         {"2026-12-31 23:59:59", "2027-12-31 23:59:59"}},
        {"UTC", "0 0 1 JAN,Jul *", "2026-01-01 00:00:00", {"2026-07-01 00:00", "2027-01-01 00:00"}},
        {"UTC", "  0\t12 * * ?  ", "2026-01-01 00:00:00", {"2026-01-01 12:00"}},
        {"UTC", "0 12 ? * mon", "2026-01-01 00:00:00", {"2026-01-05 12:00", "2026-01-12 12:00"}},
        /* 1 January 2026 is a Thursday. */
        {"UTC", "0 0 * * 0", "2026-01-01 00:00:00", {"2026-01-04 00:00", "2026-01-11 00:00"}},
        {"UTC", "0 0 * * 7", "2026-01-01 00:00:00", {"2026-01-04 00:00", "2026-01-11 00:00"}},
        {"UTC",
         "0 0 * * 5-7",
         "2026-01-01 00:00:00",
         {"2026-01-02 00:00", "2026-01-03 00:00", "2026-01-04 00:00", "2026-01-09 00:00"}},
        {"UTC",
         "0 0 * * fri-sun",
         "2026-01-01 00:00:00",
         {"2026-01-02 00:00", "2026-01-03 00:00", "2026-01-04 00:00", "2026-01-09 00:00"}},
        {"UTC", "0 9 * * MON-FRI", "2026-01-02 10:00:00", {"2026-01-05 09:00", "2026-01-06 09:00"}},
        {"UTC",
         "0 0 * * */3",
         "2026-01-01 00:00:00",
         {"2026-01-03 00:00", "2026-01-04 00:00", "2026-01-07 00:00"}},
    };
    CHECK(rows);
}

/* Only `a/n` is open at its end, and Sunday is a day as `7`, too. */
static void a_step_ends_where_its_range_does(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"UTC", "5-5/5 * * * *", "2026-01-01 00:00:00", {"2026-01-01 00:05", "2026-01-01 01:05"}},
        {"UTC", "0 0 * * 5/2", "2026-01-01 00:00:00", {"2026-01-02 00:00", "2026-01-04 00:00"}},
        {"UTC", "0 0 * * 7-7/4", "2026-01-01 00:00:00", {"2026-01-04 00:00", "2026-01-11 00:00"}},
        {"UTC", "*/60 */24 * * *", "2026-01-01 00:00:00", {"2026-01-02 00:00"}},
    };
    CHECK(rows);
}

static void months_end_where_they_end(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"UTC",
         "0 0 31 * *",
         "2026-01-31 00:00:00",
         {"2026-03-31 00:00", "2026-05-31 00:00", "2026-07-31 00:00", "2026-08-31 00:00"}},
        {"UTC", "0 0 30 2-4 *", "2026-01-31 00:00:00", {"2026-03-30 00:00", "2026-04-30 00:00"}},
        {"UTC", "0 0 29 2 *", "2026-01-01 00:00:00", {"2028-02-29 00:00", "2032-02-29 00:00"}},
        {"UTC", "0 0 29 2 *", "2096-02-29 00:00:00", {"2104-02-29 00:00"}},
        {"UTC", "0 0 29 2 *", "1999-01-01 00:00:00", {"2000-02-29 00:00"}},
        {"UTC", "0 0 28-31 2 *", "2027-02-01 00:00:00", {"2027-02-28 00:00", "2028-02-28 00:00"}},
        {"UTC", "0 0 1 * *", "2026-12-01 00:00:00", {"2027-01-01 00:00"}},
    };
    CHECK(rows);
}

static void two_fields_of_days_are_alternatives_unless_one_is_a_star(void **state)
{
    (void)state;
    static const struct row rows[] = {
        /* The 13th, and every Friday. */
        {"UTC",
         "0 0 13 * fri",
         "2026-01-01 00:00:00",
         {"2026-01-02 00:00", "2026-01-09 00:00", "2026-01-13 00:00", "2026-01-16 00:00"}},
        {"UTC",
         "0 0 1 2 fri",
         "2026-01-30 12:00:00",
         {"2026-02-01 00:00", "2026-02-06 00:00", "2026-02-13 00:00", "2026-02-20 00:00",
          "2026-02-27 00:00", "2027-02-01 00:00"}},
        /* An odd day, or a Monday. */
        {"UTC",
         "0 0 */2 * mon",
         "2026-01-01 00:00:00",
         {"2026-01-03 00:00", "2026-01-05 00:00", "2026-01-07 00:00", "2026-01-09 00:00",
          "2026-01-11 00:00", "2026-01-12 00:00"}},
        {"UTC", "0 0 ? * mon", "2026-01-01 00:00:00", {"2026-01-05 00:00", "2026-01-12 00:00"}},
        {"UTC", "0 0 13 * ?", "2026-01-01 00:00:00", {"2026-01-13 00:00", "2026-02-13 00:00"}},
    };
    CHECK(rows);
}

/* The dates were computed from the documentation of the crate croner by another program. */
static void days_of_the_month_and_of_the_week_by_letters(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"UTC",
         "0 0 L * *",
         "2023-12-31 00:00:00",
         {"2024-01-31 00:00", "2024-02-29 00:00", "2024-03-31 00:00", "2024-04-30 00:00"}},
        {"UTC",
         "0 0 l 2 *",
         "2026-01-01 00:00:00",
         {"2026-02-28 00:00", "2027-02-28 00:00", "2028-02-29 00:00"}},
        {"UTC",
         "0 0 LW * *",
         "2026-01-01 00:00:00",
         {"2026-01-30 00:00", "2026-02-27 00:00", "2026-03-31 00:00", "2026-04-30 00:00",
          "2026-05-29 00:00"}},
        {"UTC",
         "0 0 15W * *",
         "2026-01-01 00:00:00",
         {"2026-01-15 00:00", "2026-02-16 00:00", "2026-03-16 00:00", "2026-04-15 00:00",
          "2026-05-15 00:00", "2026-06-15 00:00", "2026-07-15 00:00", "2026-08-14 00:00"}},
        {"UTC",
         "0 0 1w * *",
         "2026-07-02 00:00:00",
         {"2026-08-03 00:00", "2026-09-01 00:00", "2026-10-01 00:00", "2026-11-02 00:00"}},
        {"UTC",
         "0 0 31W * *",
         "2026-01-01 00:00:00",
         {"2026-01-30 00:00", "2026-03-31 00:00", "2026-05-29 00:00", "2026-07-31 00:00"}},
        {"UTC",
         "0 0 29W 2 *",
         "2026-01-01 00:00:00",
         {"2028-02-29 00:00", "2032-02-27 00:00", "2036-02-29 00:00"}},
        {"UTC",
         "0 0 L,15W * *",
         "2026-01-01 00:00:00",
         {"2026-01-15 00:00", "2026-01-31 00:00", "2026-02-16 00:00", "2026-02-28 00:00"}},
        {"UTC",
         "0 0 * * fri#2",
         "2026-01-01 00:00:00",
         {"2026-01-09 00:00", "2026-02-13 00:00", "2026-03-13 00:00", "2026-04-10 00:00"}},
        {"UTC",
         "0 0 * * 5#5",
         "2026-01-01 00:00:00",
         {"2026-01-30 00:00", "2026-05-29 00:00", "2026-07-31 00:00", "2026-10-30 00:00"}},
        {"UTC",
         "0 0 * * 5L",
         "2026-01-01 00:00:00",
         {"2026-01-30 00:00", "2026-02-27 00:00", "2026-03-27 00:00"}},
        {"UTC",
         "0 0 * * FriL",
         "2026-01-01 00:00:00",
         {"2026-01-30 00:00", "2026-02-27 00:00", "2026-03-27 00:00"}},
        {"UTC",
         "0 0 * * 7#1",
         "2026-01-01 00:00:00",
         {"2026-01-04 00:00", "2026-02-01 00:00", "2026-03-01 00:00"}},
        {"UTC",
         "0 0 * * mon-wed#L",
         "2026-01-01 00:00:00",
         {"2026-01-26 00:00", "2026-01-27 00:00", "2026-01-28 00:00", "2026-02-23 00:00"}},
        {"UTC",
         "0 0 ? * MON-FRI#1",
         "2026-01-01 00:00:00",
         {"2026-01-02 00:00", "2026-01-05 00:00", "2026-01-06 00:00", "2026-01-07 00:00",
          "2026-02-02 00:00", "2026-02-03 00:00"}},
        {"UTC",
         "30 0 12 * * fri#2,sun#L",
         "2026-01-01 00:00:00",
         {"2026-01-09 12:00:30", "2026-01-25 12:00:30", "2026-02-13 12:00:30",
          "2026-02-22 12:00:30"}},
        {"UTC",
         "0 0 13 * fri#L",
         "2026-01-01 00:00:00",
         {"2026-01-13 00:00", "2026-01-30 00:00", "2026-02-13 00:00", "2026-02-27 00:00"}},
        {"UTC",
         "0 0 13 * +fri",
         "2026-01-01 00:00:00",
         {"2026-02-13 00:00", "2026-03-13 00:00", "2026-11-13 00:00"}},
        {"UTC", "0 0 1 * +mon#1", "2026-01-01 00:00:00", {"2026-06-01 00:00", "2027-02-01 00:00"}},
        {"UTC",
         "0 0 15 * */3",
         "2026-01-01 00:00:00",
         {"2026-01-03 00:00", "2026-01-04 00:00", "2026-01-07 00:00", "2026-01-10 00:00",
          "2026-01-11 00:00"}},
    };
    CHECK(rows);
}

static void such_days_are_those_of_the_zone(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"Europe/Berlin",
         "30 2 * 3 sunL",
         "2026-01-01 00:00:00",
         {"2026-03-29 01:00", "2027-03-28 01:00"}},
        {"Europe/Berlin",
         "30 2 * 10 7#L",
         "2026-01-01 00:00:00",
         {"2026-10-25 00:30", "2027-10-31 00:30"}},
        {"America/New_York",
         "30 2 ? * sun#2",
         "2026-02-28 12:00:00",
         {"2026-03-08 07:00", "2026-04-12 06:30"}},
        {"Pacific/Kiritimati",
         "0 0 L * *",
         "2026-01-01 00:00:00",
         {"2026-01-30 10:00", "2026-02-27 10:00"}},
        {"Europe/Berlin",
         "@daily",
         "2026-03-28 12:00:00",
         {"2026-03-28 23:00", "2026-03-29 22:00"}},
    };
    CHECK(rows);
}

static void names_stand_for_fields(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"UTC", "@yearly", "2026-01-01 00:00:00", {"2027-01-01 00:00", "2028-01-01 00:00"}},
        {"UTC", "@ANNUALLY", "2026-01-01 00:00:00", {"2027-01-01 00:00"}},
        {"UTC", "@monthly", "2026-01-01 00:00:00", {"2026-02-01 00:00", "2026-03-01 00:00"}},
        {"UTC", " @weekly ", "2026-01-01 00:00:00", {"2026-01-04 00:00", "2026-01-11 00:00"}},
        {"UTC", "@daily", "2026-01-01 00:00:00", {"2026-01-02 00:00", "2026-01-03 00:00"}},
        {"UTC", "@midnight", "2026-01-01 00:00:00", {"2026-01-02 00:00"}},
        {"UTC", "@hourly", "2026-01-01 00:00:01", {"2026-01-01 01:00", "2026-01-01 02:00"}},
    };
    CHECK(rows);
}

static void expressions_of_before_let_both_days_agree(void **state)
{
    (void)state;
    struct cron c;
    instant next;
    assert_int_equal(cron_parse_classic(STR("0 0 */2 * mon"), &c).code, ERR_OK);
    assert_true(cron_next(&c, &cron_utc, at("2026-01-01 00:00:00"), &next));
    assert_int_equal(next.ms, at("2026-01-05 00:00").ms);
    assert_true(cron_next(&c, &cron_utc, next, &next));
    assert_int_equal(next.ms, at("2026-01-19 00:00").ms);
    static const char *const differ[] = {"0 0 */2 * mon", "0 0 13 * */2", "0 0 *,5 * fri"};
    for (size_t i = 0; i < COUNT(differ); i++)
        assert_true(cron_days_differ(str_from(differ[i])));
    static const char *const same[] = {"0 0 13 * fri", "0 0 * * mon",  "0 0 */2 * *", "0 0 ? * mon",
                                       "@daily",       "0 0 1 * +mon", "rubbish"};
    for (size_t i = 0; i < COUNT(same); i++)
        assert_false(cron_days_differ(str_from(same[i])));
}

/* Europe/Berlin: on 29 March 2026 02:00 becomes 03:00 (at 01:00 UTC). America/New_York:
 * 8 March 2026 02:00 becomes 03:00 (at 07:00 UTC). Australia/Lord_Howe: 4 October 2026
 * 02:00 becomes 02:30 (at 15:30 UTC of the day before). */
static void a_time_of_day_in_a_gap_ticks_once_right_after_it(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"Europe/Berlin",
         "30 2 * * *",
         "2026-03-28 00:00:00",
         {"2026-03-28 01:30", "2026-03-29 01:00", "2026-03-30 00:30"}},
        {"Europe/Berlin",
         "0,10,20 2 * * *",
         "2026-03-28 12:00:00",
         {"2026-03-29 01:00", "2026-03-30 00:00", "2026-03-30 00:10"}},
        {"Europe/Berlin",
         "0 2,3 * * *",
         "2026-03-28 12:00:00",
         {"2026-03-29 01:00", "2026-03-30 00:00", "2026-03-30 01:00"}},
        {"Europe/Berlin",
         "0 */2 * * *",
         "2026-03-28 22:30:00",
         {"2026-03-28 23:00", "2026-03-29 01:00", "2026-03-29 02:00"}},
        {"Europe/Berlin",
         "15,45 30 2 * * *",
         "2026-03-28 12:00:00",
         {"2026-03-29 01:00:00", "2026-03-30 00:30:15", "2026-03-30 00:30:45"}},
        {"Europe/Berlin",
         "*/15 0-6 * * *",
         "2026-03-29 00:31:00",
         {"2026-03-29 00:45", "2026-03-29 01:00", "2026-03-29 01:15"}},
        /* Requested after the end of the gap: it has ticked. */
        {"Europe/Berlin", "30 2 * * *", "2026-03-29 01:00:00", {"2026-03-30 00:30"}},
        {"Europe/Berlin", "30 2 * * *", "2026-03-29 00:59:59", {"2026-03-29 01:00"}},
        /* Only in years in which that day is the change. */
        {"Europe/Berlin",
         "30 2 29 3 *",
         "2026-01-01 00:00:00",
         {"2026-03-29 01:00", "2027-03-29 00:30"}},
        {"America/New_York",
         "30 2 * * *",
         "2026-03-07 12:00:00",
         {"2026-03-08 07:00", "2026-03-09 06:30"}},
        {"America/New_York",
         "0 3 * * *",
         "2026-03-07 12:00:00",
         {"2026-03-08 07:00", "2026-03-09 07:00"}},
        {"Australia/Lord_Howe",
         "15 2 * * *",
         "2026-10-02 15:46:00",
         {"2026-10-03 15:30", "2026-10-04 15:15"}},
        {"Australia/Lord_Howe",
         "30 2 * * *",
         "2026-10-03 12:00:00",
         {"2026-10-03 15:30", "2026-10-04 15:30"}},
        /* Cairo skips the hour after midnight (24 April 2026, at 22:00 UTC of the 23rd). */
        {"Africa/Cairo",
         "0 0 * * *",
         "2026-04-22 12:00:00",
         {"2026-04-22 22:00", "2026-04-23 22:00", "2026-04-24 21:00"}},
        /* Apia skipped the whole of 30 December 2011. */
        {"Pacific/Apia",
         "0 9 * * *",
         "2011-12-29 19:00:00",
         {"2011-12-30 10:00", "2011-12-30 19:00", "2011-12-31 19:00"}},
    };
    CHECK(rows);
}

/* Europe/Berlin: on 25 October 2026 03:00 becomes 02:00 (at 01:00 UTC). America/New_York:
 * 1 November 2026 02:00 becomes 01:00 (at 06:00 UTC). Australia/Lord_Howe: 5 April 2026
 * 02:00 becomes 01:30 (at 15:00 UTC of the day before). */
static void a_time_of_day_that_comes_twice_ticks_the_first_time(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"Europe/Berlin",
         "30 2 * * *",
         "2026-10-24 12:00:00",
         {"2026-10-25 00:30", "2026-10-26 01:30"}},
        {"Europe/Berlin",
         "0 2 * * *",
         "2026-10-24 12:00:00",
         {"2026-10-25 00:00", "2026-10-26 01:00"}},
        {"Europe/Berlin",
         "0 3 * * *",
         "2026-10-24 12:00:00",
         {"2026-10-25 02:00", "2026-10-26 02:00"}},
        {"Europe/Berlin",
         "0 */2 * * *",
         "2026-10-24 21:59:00",
         {"2026-10-24 22:00", "2026-10-25 00:00", "2026-10-25 03:00"}},
        /* Requested during the second pass. */
        {"Europe/Berlin", "30 2 * * *", "2026-10-25 01:15:00", {"2026-10-26 01:30"}},
        {"America/New_York",
         "30 1 * * *",
         "2026-10-31 12:00:00",
         {"2026-11-01 05:30", "2026-11-02 06:30"}},
        {"Australia/Lord_Howe",
         "45 1 * * *",
         "2026-04-03 15:00:00",
         {"2026-04-04 14:45", "2026-04-05 15:15"}},
        {"Australia/Lord_Howe",
         "15 1 * * *",
         "2026-04-03 15:00:00",
         {"2026-04-04 14:15", "2026-04-05 14:45"}},
    };
    CHECK(rows);
}

static void wildcards_run_in_real_time(void **state)
{
    (void)state;
    static const struct row rows[] = {
        /* The gap. */
        {"Europe/Berlin",
         "30 * * * *",
         "2026-03-28 23:31:00",
         {"2026-03-29 00:30", "2026-03-29 01:30"}},
        {"Europe/Berlin",
         "*/30 * * * *",
         "2026-03-29 00:00:00",
         {"2026-03-29 00:30", "2026-03-29 01:00", "2026-03-29 01:30"}},
        {"Australia/Lord_Howe",
         "15 * * * *",
         "2026-10-03 14:00:00",
         {"2026-10-03 14:45", "2026-10-03 16:15"}},
        /* The overlap. */
        {"Europe/Berlin",
         "30 * * * *",
         "2026-10-24 23:31:00",
         {"2026-10-25 00:30", "2026-10-25 01:30", "2026-10-25 02:30"}},
        {"Europe/Berlin",
         "0 0-23 * * *",
         "2026-10-24 23:31:00",
         {"2026-10-25 00:00", "2026-10-25 01:00", "2026-10-25 02:00"}},
        {"Europe/Berlin",
         "*/30 2 * * *",
         "2026-10-24 23:31:00",
         {"2026-10-25 00:00", "2026-10-25 00:30", "2026-10-25 01:00", "2026-10-25 01:30",
          "2026-10-26 01:00"}},
        {"Australia/Lord_Howe",
         "45 * * * *",
         "2026-04-04 14:00:00",
         {"2026-04-04 14:45", "2026-04-04 15:15", "2026-04-04 16:15"}},
    };
    CHECK(rows);
}

static void zones_far_from_utc_and_far_in_time(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"Asia/Kolkata", "0 9 * * *", "2026-01-01 00:00:00", {"2026-01-01 03:30"}},
        {"Asia/Kathmandu", "0 0 * * *", "2026-01-01 00:00:00", {"2026-01-01 18:15"}},
        {"Pacific/Kiritimati", "0 0 1 1 *", "2026-01-01 00:00:00", {"2026-12-31 10:00"}},
        {"Etc/GMT+12", "0 0 1 1 *", "2026-01-01 00:00:00", {"2026-01-01 12:00"}},
        /* By the rule at the end of the zone's file. */
        {"Europe/Berlin",
         "30 2 * * *",
         "2050-03-26 12:00:00",
         {"2050-03-27 01:00", "2050-03-28 00:30"}},
        {"Europe/Berlin",
         "30 2 * * *",
         "2050-10-29 12:00:00",
         {"2050-10-30 00:30", "2050-10-31 01:30"}},
        {"America/New_York", "0 12 1 7 *", "2077-01-01 00:00:00", {"2077-07-01 16:00"}},
    };
    CHECK(rows);
}

static void a_seventh_field_is_the_year(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"UTC", "0 0 0 1 1 * 2028", "2026-01-01 00:00:00", {"2028-01-01 00:00"}},
        {"UTC",
         "30 15 6 29 2 ? 2026-2040",
         "2026-01-01 00:00:00",
         {"2028-02-29 06:15:30", "2032-02-29 06:15:30"}},
        {"UTC",
         "0 0 0 1 jan * 2030,2027",
         "2026-01-01 00:00:00",
         {"2027-01-01 00:00", "2030-01-01 00:00"}},
        {"UTC",
         "0 0 0 1 1 * 2026/3",
         "2026-01-01 00:00:00",
         {"2029-01-01 00:00", "2032-01-01 00:00"}},
        {"UTC", "0 0 0 1 1 * */4", "2026-01-01 00:00:00", {"2029-01-01 00:00", "2033-01-01 00:00"}},
        {"UTC",
         "0 59 23 L 12 * *",
         "2026-01-01 00:00:00",
         {"2026-12-31 23:59", "2027-12-31 23:59"}},
        {"UTC",
         "0 0 12 ? * fri#L 2027",
         "2026-06-01 00:00:00",
         {"2027-01-29 12:00", "2027-02-26 12:00"}},
        {"UTC", "0 0 0 15W 8 * 2026", "2026-01-01 00:00:00", {"2026-08-14 00:00"}},
        {"Europe/Berlin", "0 0 0 1 1 * 2027", "2026-01-01 00:00:00", {"2026-12-31 23:00"}},
        {"UTC",
         "0 0 0 1 1 * 2100-9999",
         "2026-01-01 00:00:00",
         {"2100-01-01 00:00", "2101-01-01 00:00"}},
        {"UTC",
         "0 0 ?/10 * *",
         "2026-01-02 00:00:00",
         {"2026-01-11 00:00", "2026-01-21 00:00", "2026-01-31 00:00"}},
    };
    CHECK(rows);
}

static void what_never_comes_has_no_next_tick(void **state)
{
    (void)state;
    static const char *const never[] = {
        "0 0 30 2 *",        "0 0 31 2,4,6,9,11 *", "0 0 30,31 feb ?",  "0 0 0 * * * 2025",
        "0 0 0 29 2 * 2027", "0 0 0 1 1 * 1-1969",  "0 0 0 1 1 * 9999",
    };
    for (size_t i = 0; i < COUNT(never); i++) {
        struct cron c = parsed(never[i]);
        instant next;
        assert_false(cron_next(&c, &cron_utc, at("2026-01-01 00:00:00"), &next));
    }
}

/* Whatever the expression: the next tick is later, matches, and nothing between does, according to
 * a search second by second that knows nothing of the parser's shortcuts. */
static void the_next_tick_is_the_first_that_matches(void **state)
{
    (void)state;
    struct rng rng = rng_from_seed(7);
    for (int i = 0; i < 300; i++) {
        unsigned second = (unsigned)rng_below(&rng, 60), step = 1 + (unsigned)rng_below(&rng, 59);
        unsigned from = (unsigned)rng_below(&rng, 24);
        unsigned to = from + (unsigned)rng_below(&rng, 24 - from);
        char text[64];
        snprintf(text, sizeof text, "%u */%u %u-%u * * *", second, step, from, to);
        struct cron c = parsed(text);
        instant t = {1767225600000 + (int64_t)rng_below(&rng, UINT64_C(86400) * 1000 * 365)};
        instant next;
        assert_true(cron_next(&c, &cron_utc, t, &next));
        int64_t s = t.ms / 1000 + 1;
        for (;; s++) {
            unsigned hour = (unsigned)(s / 3600 % 24), minute = (unsigned)(s / 60 % 60);
            if (s % 60 == second && minute % step == 0 && hour >= from && hour <= to)
                break;
        }
        if (next.ms != s * 1000)
            fail_msg("'%s' after %lld: %lld instead of %lld", text, (long long)t.ms,
                     (long long)next.ms, (long long)s * 1000);
    }
}

static void mistakes_are_named_with_their_field_and_place(void **state)
{
    (void)state;
    static const struct {
        const char *text, *message;
        int64_t offset;
    } rows[] = {
        {"", "the expression has 0 fields", 0},
        {"* * * *", "the expression has 4 fields", 7},
        {"5", "the expression has 1 field;", 1},
        {"* * * * * * * *", "more than 7 fields", 14},
        {"0 0 0 1 1 * 0", "year: 0 is outside 1-9999", 12},
        {"0 0 0 1 1 * 20260", "year: the number is too long", 12},
        {"0 0 0 1 1 * 2030-2026", "year: the range 2030-2026 runs backwards", 12},
        {"0 0 0 1 1 * jan", "year: 'jan' is not a number", 12},
        {"0 0 0 1 1 * ?", "year: '?' can only stand for any day", 12},
        {"@reboot", "such a name is not known", 0},
        {"@daily *", "such a name is not known", 0},
        {"60 * * * *", "minute: 60 is outside 0-59", 0},
        {"* 24 * * *", "hour: 24 is outside 0-23", 2},
        {"* * 0 * *", "day of the month: 0 is outside 1-31", 4},
        {"* * 32 * *", "day of the month: 32 is outside 1-31", 4},
        {"* * * 13 *", "month: 13 is outside 1-12", 6},
        {"* * * 0 *", "month: 0 is outside 1-12", 6},
        {"* * * * 8", "day of the week: 8 is outside 0-7", 8},
        {"60 * * * * *", "second: 60 is outside 0-59", 0},
        {"1,2,99 * * * *", "minute: 99 is outside 0-59", 4},
        {"1-99 * * * *", "minute: 99 is outside 0-59", 2},
        {"30-10 * * * *", "minute: the range 30-10 runs backwards", 0},
        {"*/0 * * * *", "minute: a step must be at least 1", 2},
        {"*/61 * * * *", "minute: the step 61 is larger than the field, which ends at 59", 2},
        {"*/ * * * *", "minute: a number must follow '/'", 2},
        {"*/x * * * *", "minute: a number must follow '/'", 2},
        {"1,, * * * *", "minute: ',' is not expected here", 2},
        {"1, * * * *", "minute: a value is missing", 2},
        {", * * * *", "minute: ',' is not expected here", 0},
        {"1- * * * *", "minute: a value is missing", 2},
        {"-1 * * * *", "minute: '-' is not expected here", 0},
        {"** * * * *", "minute: '*' is not expected here", 1},
        {"*-5 * * * *", "minute: '-' is not expected here", 1},
        {"1.5 * * * *", "minute: '.' is not expected here", 1},
        {"mon * * * *", "minute: 'mon' is not a number", 0},
        {"* * * * monday", "day of the week: 'monday' is none of sun to sat", 8},
        {"* * * mon *", "month: 'mon' is none of jan to dec", 6},
        {"? * * * *", "minute: '?' can only stand for any day", 0},
        {"* * 1? * *", "day of the month: '?' can only stand for any day", 5},
        {"00000 * * * *", "minute: the number is too long", 0},
        {"L * * * *", "minute: 'L' is not a number", 0},
        {"* * * * L", "day of the week: 'L' is none of sun to sat", 8},
        {"* * 5L * *", "day of the month: 'L' is not expected here", 5},
        {"* * 32W * *", "day of the month: 32 is outside 1-31", 4},
        {"* * 0W * *", "day of the month: 0 is outside 1-31", 4},
        {"* * 1-5W * *", "day of the month: 'W' is not expected here", 7},
        {"* * W * *", "day of the month: 'W' is not a number", 4},
        {"* * * * 5W", "day of the week: 'W' is not expected here", 9},
        {"* * * * 5#6", "day of the week: 6 is outside 1-5", 10},
        {"* * * * 5#0", "day of the week: 0 is outside 1-5", 10},
        {"* * * * 5#", "day of the week: a number or L must follow '#'", 10},
        {"* * * * *#2", "day of the week: '#' is not expected here", 9},
        {"* * 5#2 * *", "day of the month: '#' is not expected here", 5},
        {"* * * * +", "day of the week: a value is missing", 9},
        {"* * +1 * *", "day of the month: '+' is not expected here", 4},
        {"\xc3\xa9 * * * *", "minute: byte 0xc3 is not expected here", 0},
        {"* *\n* * * *", "hour: byte 0x0a is not expected here", 3},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct cron c;
        struct err e = cron_parse(str_from(rows[i].text), &c);
        if (e.code != ERR_BAD_CRON || e.offset != rows[i].offset || !strstr(e.msg, rows[i].message))
            fail_msg("'%s': %d at %lld: %s", rows[i].text, e.code, (long long)e.offset, e.msg);
    }
    char longest[CRON_EXPRESSION_MAX + 2];
    memset(longest, ' ', sizeof longest);
    struct cron c;
    assert_int_equal(cron_parse((struct str){longest, sizeof longest}, &c).code, ERR_BAD_CRON);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ticks_in_utc),
        cmocka_unit_test(a_step_ends_where_its_range_does),
        cmocka_unit_test(months_end_where_they_end),
        cmocka_unit_test(two_fields_of_days_are_alternatives_unless_one_is_a_star),
        cmocka_unit_test(days_of_the_month_and_of_the_week_by_letters),
        cmocka_unit_test(such_days_are_those_of_the_zone),
        cmocka_unit_test(names_stand_for_fields),
        cmocka_unit_test(expressions_of_before_let_both_days_agree),
        cmocka_unit_test(a_time_of_day_in_a_gap_ticks_once_right_after_it),
        cmocka_unit_test(a_time_of_day_that_comes_twice_ticks_the_first_time),
        cmocka_unit_test(wildcards_run_in_real_time),
        cmocka_unit_test(zones_far_from_utc_and_far_in_time),
        cmocka_unit_test(a_seventh_field_is_the_year),
        cmocka_unit_test(what_never_comes_has_no_next_tick),
        cmocka_unit_test(the_next_tick_is_the_first_that_matches),
        cmocka_unit_test(mistakes_are_named_with_their_field_and_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
