/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

#include "base/array.h"
#include "net/http_headers.h"

static const char *const names[] = {
#define HEADER(name, member, times) name,
#include "net/http_headers.def"
#undef HEADER
};

static enum http_header find(const char *name)
{
    return http_header_find(str_from(name));
}

static void each_header_is_found_in_any_case(void **state)
{
    (void)state;
    assert_int_equal(COUNT(names), HTTP_HEADERS);
    for (unsigned h = 0; h < HTTP_HEADERS; h++) {
        char upper[32], mixed[32];
        size_t len = strlen(names[h]);
        assert_int_equal(find(names[h]), h);
        for (size_t i = 0; i <= len; i++) {
            upper[i] = (char)toupper(names[h][i]);
            mixed[i] = i % 2 ? upper[i] : names[h][i];
        }
        assert_int_equal(find(upper), h);
        assert_int_equal(find(mixed), h);
    }
}

/* Names that have the slot of a header: all that differ from it in one byte, and many others. */
static void a_name_that_only_resembles_one_is_another(void **state)
{
    (void)state;
    for (unsigned h = 0; h < HTTP_HEADERS; h++) {
        char name[32];
        size_t len = strlen(names[h]);
        for (size_t i = 0; i < len; i++) {
            for (int c = 1; c < 256; c++) {
                memcpy(name, names[h], len + 1);
                name[i] = (char)c;
                if (tolower(c) != names[h][i])
                    assert_int_not_equal(find(name), h);
            }
        }
        assert_int_not_equal(http_header_find((struct str){names[h], len - 1}), h);
        memcpy(name, names[h], len + 1);
        name[len] = 'x';
        assert_int_equal(http_header_find((struct str){name, len + 1}), HTTP_HEADERS);
    }
}

static void other_names_are_none_of_them(void **state)
{
    (void)state;
    static const char *const others[] = {
        "",       "a",  "content-length", "connection", "expect", "user-agenda", "x",
        "cookie", "te", "acceptlanga",    "hxst",       "h\377st"};
    for (size_t i = 0; i < COUNT(others); i++)
        assert_int_equal(find(others[i]), HTTP_HEADERS);
    char name[300]; /* lengths that do not fit a byte */
    memset(name, 'a', sizeof name);
    for (size_t len = 0; len < sizeof name; len++)
        assert_int_equal(http_header_find((struct str){name, len}), HTTP_HEADERS);
}

static void each_header_has_a_place_of_its_own_in_a_request(void **state)
{
    (void)state;
    struct http_request q = {0};
#define HEADER(name, member, times)                                                                \
    assert_ptr_equal(http_header_value(&q, HEADER_##member), &q.member);
#include "net/http_headers.def"
#undef HEADER
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_header_is_found_in_any_case),
        cmocka_unit_test(a_name_that_only_resembles_one_is_another),
        cmocka_unit_test(other_names_are_none_of_them),
        cmocka_unit_test(each_header_has_a_place_of_its_own_in_a_request),
    };
    return cmocka_run_group_tests_name("http_headers", tests, NULL, NULL);
}
