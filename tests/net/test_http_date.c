/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

#include "net/http_date.h"

static void check_read(const char *text, int64_t expected)
{
    int64_t seconds = -1;
    assert_true(http_date_read(str_from(text), &seconds));
    assert_int_equal(seconds, expected);
}

static void all_three_forms_are_read(void **state)
{
    (void)state;
    check_read("Sun, 06 Nov 1994 08:49:37 GMT", 784111777);
    check_read("Sunday, 06-Nov-94 08:49:37 GMT", 784111777);
    check_read("Sun Nov  6 08:49:37 1994", 784111777);
    check_read("Thu, 01 Jan 1970 00:00:00 GMT", 0);
}

static void other_texts_are_none(void **state)
{
    (void)state;
    static const char *const others[] = {"",
                                         "yesterday",
                                         "1994-11-06T08:49:37Z",
                                         "Sun, 06 Nov 1994 08:49:37",
                                         "Sun, 06 Nov 1994 08:49:37 GMT+1",
                                         "Sun, 06 Nov 1994 08:49:37 CET",
                                         "Sun, 46 Nov 1994 08:49:37 GMT"};
    int64_t seconds;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        assert_false(http_date_read(str_from(others[i]), &seconds));
    assert_false(http_date_read((struct str){0}, &seconds));
    assert_false(http_date_read((struct str){"Sun, 06 Nov 1994 08:49:37 GMT\0", 30}, &seconds));
}

static void what_is_written_is_read(void **state)
{
    (void)state;
    char date[HTTP_DATE_LEN + 1];
    for (int64_t t = 0; t < INT64_C(4102444800); t += 86400 * 40 + 3601) {
        http_date_write(date, t);
        check_read(date, t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_three_forms_are_read),
        cmocka_unit_test(other_texts_are_none),
        cmocka_unit_test(what_is_written_is_read),
    };
    return cmocka_run_group_tests_name("http_date", tests, NULL, NULL);
}
