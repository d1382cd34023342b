/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "base/array.h"
#include "net/cors.h"

static void origins_are_written_as_browsers_write_them(void **state)
{
    (void)state;
    static const char *const good[] = {"", "https://a.example", "http://localhost:3000",
                                       "https://a.example:8443, http://[::1]:1,http://127.0.0.1",
                                       "http://a.example:443"};
    static const char *const bad[] = {"*",
                                      "null",
                                      "a.example",
                                      "https://",
                                      "https://a.example/",
                                      "https://A.example",
                                      "https://*.example",
                                      "https://a.example:443",
                                      "http://a.example:80",
                                      "http://a.example:",
                                      "http://a.example:x",
                                      "http://a.example:080",
                                      "http://a.example:123456",
                                      "http://u@a.example",
                                      "ftp://a.example",
                                      "https://a.example,,http://b",
                                      "http://[::1",
                                      "http://a b",
                                      "http://a\r\nb"};
    assert_int_equal(cors_check_origins(NULL).code, ERR_OK);
    for (size_t i = 0; i < COUNT(good); i++)
        if (cors_check_origins(good[i]).code != ERR_OK)
            fail_msg("%s", good[i]);
    for (size_t i = 0; i < COUNT(bad); i++)
        if (cors_check_origins(bad[i]).code != ERR_BAD_VALUE)
            fail_msg("%s", bad[i]);
}

static void an_origin_is_found_only_whole(void **state)
{
    (void)state;
    static const char list[] = "https://a.example, http://b.example:1";
    static const char *const others[] = {"",
                                         "https://a.exampl",
                                         "https://a.example:1",
                                         "https://a.example.evil",
                                         "a.example",
                                         "http://a.example",
                                         "http://b.example",
                                         "https://A.example",
                                         "null",
                                         "https://a.example, http://b.example:1"};
    assert_true(str_eq(cors_find(list, STR("https://a.example")), STR("https://a.example")));
    assert_true(str_eq(cors_find(list, STR("http://b.example:1")), STR("http://b.example:1")));
    for (size_t i = 0; i < COUNT(others); i++)
        if (cors_find(list, str_from(others[i])).len)
            fail_msg("%s", others[i]);
    assert_int_equal(cors_find(NULL, STR("https://a.example")).len, 0);
    assert_int_equal(cors_find("", STR("")).len, 0);
}

static void lines_are_added_for_a_page_alone(void **state)
{
    (void)state;
    struct buf room = {0};
    assert_null(cors_lines(NULL, (struct str){0}, &room));
    assert_string_equal(cors_lines("A: b\r\n", (struct str){0}, &room), "A: b\r\n");
    assert_int_equal(room.len, 0);
    static const char want[] =
        "A: b\r\nAccess-Control-Allow-Origin: http://b:1\r\nVary: Origin\r\n";
    const char *lines = cors_lines("A: b\r\n", STR("http://b:1"), &room);
    assert_int_equal(strncmp(lines, want, strlen(want)), 0);
    buf_fini(&room);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(origins_are_written_as_browsers_write_them),
        cmocka_unit_test(an_origin_is_found_only_whole),
        cmocka_unit_test(lines_are_added_for_a_page_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
