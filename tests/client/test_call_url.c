/* SPDX-License-Identifier: Apache-2.0 */
#include "client/call.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/array.h"

static void check(const char *given, const char *meant)
{
    char *url = call_url(given);
    assert_null(call_bad_url(given));
    assert_string_equal(url, meant);
    free(url);
}

static void a_whole_url_stays(void **state)
{
    (void)state;
    check("http://127.0.0.1:7890", "http://127.0.0.1:7890");
    check("https://tenax.example.org/prefix//", "https://tenax.example.org/prefix");
    check("http://[::1]:80/", "http://[::1]:80");
}

static void the_scheme_and_the_port_may_be_left_out(void **state)
{
    (void)state;
    check("localhost:7890", "http://localhost:7890");
    check("localhost", "http://localhost:7890");
    check("localhost/", "http://localhost:7890");
    check("[::1]:80", "http://[::1]:80");
    check("[::1]", "http://[::1]:7890");
    check("example.org/tenax/", "http://example.org:7890/tenax");
    check("http:80", "http://http:80");
}

static void others_are_refused_with_an_example(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",
        ":7890",
        "localhost:",
        "localhost:x",
        "localhost:99999",
        "::1",
        "[::1",
        "[::1]x",
        "ftp://localhost",
        "http:/host",
        "http//host",
        "http:host",
        "http://",
        "a b",
        "http:",
        "://localhost",
        "localhost:80:1",
        "/",
        "user@host:",
        "redis://h:1",
        "//localhost",
        "localhost:80x",
        "localhost://",
    };
    for (size_t i = 0; i < COUNT(bad); i++) {
        const char *why = call_bad_url(bad[i]);
        if (!why)
            fail_msg("'%s' is taken for a URL", bad[i]);
        assert_non_null(strstr(why, "or localhost:7890"));
    }
    assert_non_null(strstr(call_bad_url("localhost:7890?x=1"), "'?'"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_whole_url_stays),
        cmocka_unit_test(the_scheme_and_the_port_may_be_left_out),
        cmocka_unit_test(others_are_refused_with_an_example),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
