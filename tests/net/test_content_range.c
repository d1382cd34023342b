/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "net/content_range.h"

#define DATE "Sun, 06 Nov 1994 08:49:37 GMT"

static const struct content_version ten = {
    .etag = {"\"tag\"", 5}, .modified = 784111777, .size = 10};

/* "200", "206 from-until", "304" or "416", as the answer is. */
static void check(const struct content_request *r, const struct content_version *v,
                  const char *expected)
{
    static const char *const status[] = {"200", "206", "304", "416"};
    struct content_choice c = content_choose(r, v);
    char got[64];
    if (c.answer == CONTENT_PART)
        snprintf(got, sizeof got, "206 %llu-%llu", (unsigned long long)c.from,
                 (unsigned long long)c.until);
    else
        snprintf(got, sizeof got, "%s", status[c.answer]);
    if (c.answer == CONTENT_WHOLE)
        assert_true(c.from == 0 && c.until == v->size);
    assert_string_equal(got, expected);
}

static void check_range(const char *range, const char *expected)
{
    const struct content_request r = {.range = str_from(range)};
    check(&r, &ten, expected);
}

static void a_single_range_is_a_part(void **state)
{
    (void)state;
    check_range("bytes=0-0", "206 0-1");
    check_range("bytes=2-4", "206 2-5");
    check_range("bytes=3-", "206 3-10");
    check_range("bytes=-4", "206 6-10");
    check_range("bytes=0-", "206 0-10");
    check_range("BYTES= 9-9 ", "206 9-10");
    check_range("bytes=5-99999999999999999999999", "206 5-10");
    check_range("bytes=-99999999999999999999999", "206 0-10");
    check_range("bytes=0-18446744073709551615", "206 0-10");
}

static void a_range_behind_the_end_cannot_be_satisfied(void **state)
{
    (void)state;
    check_range("bytes=10-", "416");
    check_range("bytes=10-20", "416");
    check_range("bytes=99999999999999999999999-", "416");
    check_range("bytes=-0", "416");
}

static void other_ranges_are_ignored(void **state)
{
    (void)state;
    static const char *const others[] = {"",          "bytes",     "bytes=",        "bytes=-",
                                         "bytes=a-b", "bytes=4-2", "bytes=1-2,4-5", "lines=1-2",
                                         "bytes=1",   "bytes=--1", "bytes=1-2x",    "bytes=+1-2"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        check_range(others[i], "200");
    const struct content_request head = {.head = true, .range = STR("bytes=1-2")};
    check(&head, &ten, "200");
}

static void an_empty_content_has_no_ranges(void **state)
{
    (void)state;
    const struct content_version empty = {.etag = ten.etag, .modified = -1};
    struct content_request r = {.range = STR("bytes=0-")};
    check(&r, &empty, "416");
    r.range = STR("bytes=-5");
    check(&r, &empty, "200");
}

static void a_client_that_has_it_is_told_so(void **state)
{
    (void)state;
    static const char *const known[] = {"*", "\"tag\"", "W/\"tag\"", "\"a\", \"tag\"",
                                        " , \"a,b\" ,W/\"tag\",\"c\""};
    static const char *const others[] = {"\"tags\"",        "tag",    "\"tag",
                                         "\"a\" x \"tag\"", "\"a,\"", ","};
    struct content_request r = {.range = STR("bytes=10-"), .if_modified_since = STR("no date")};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        r.if_none_match = str_from(known[i]);
        check(&r, &ten, "304");
    }
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        r.if_none_match = str_from(others[i]);
        check(&r, &ten, "416");
    }
}

static void a_date_says_so_unless_there_are_tags(void **state)
{
    (void)state;
    struct content_request r = {.if_modified_since = STR(DATE)};
    check(&r, &ten, "304");
    r.head = true;
    check(&r, &ten, "304");
    r.if_modified_since = STR("Sun, 06 Nov 1994 08:49:36 GMT");
    check(&r, &ten, "200");
    r.if_modified_since = STR("Sun, 06 Nov 2094 08:49:36 GMT");
    check(&r, &ten, "304");
    r.if_none_match = STR("\"other\"");
    check(&r, &ten, "200");
    const struct content_version unknown = {.etag = ten.etag, .modified = -1, .size = 10};
    r.if_none_match = (struct str){0};
    check(&r, &unknown, "200");
}

static void a_part_is_given_only_of_the_version_that_is_meant(void **state)
{
    (void)state;
    static const char *const this_one[] = {"\"tag\"", DATE};
    static const char *const others[] = {"\"other\"", "W/\"tag\"", "tag",
                                         "Sun, 06 Nov 1994 08:49:38 GMT"};
    struct content_request r = {.range = STR("bytes=1-2")};
    for (size_t i = 0; i < sizeof this_one / sizeof *this_one; i++) {
        r.if_range = str_from(this_one[i]);
        check(&r, &ten, "206 1-3");
    }
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        r.if_range = str_from(others[i]);
        check(&r, &ten, "200");
    }
    r.range = STR("bytes=10-"); /* another version has other bounds */
    check(&r, &ten, "200");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_single_range_is_a_part),
        cmocka_unit_test(a_range_behind_the_end_cannot_be_satisfied),
        cmocka_unit_test(other_ranges_are_ignored),
        cmocka_unit_test(an_empty_content_has_no_ranges),
        cmocka_unit_test(a_client_that_has_it_is_told_so),
        cmocka_unit_test(a_date_says_so_unless_there_are_tags),
        cmocka_unit_test(a_part_is_given_only_of_the_version_that_is_meant),
    };
    return cmocka_run_group_tests_name("content_range", tests, NULL, NULL);
}
