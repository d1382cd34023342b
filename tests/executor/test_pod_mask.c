/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/array.h"
#include "base/buf.h"
#include "base/json.h"
#include "executor/pod_mask.h"

static struct arena memory;

static int tear_down(void **state)
{
    (void)state;
    arena_fini(&memory);
    return 0;
}

/* A pod of one container with one variable. */
static struct pod_mask mask_of(const char *name, const char *value)
{
    struct pod_mask m;
    struct buf b = {0};
    buf_lit(&b, "{\"spec\": {\"containers\": [{\"name\": \"main\", \"env\": [{\"name\": ");
    json_write_string(&b, str_from(name));
    buf_lit(&b, ", \"value\": ");
    json_write_string(&b, str_from(value));
    buf_lit(&b, "}]}]}}");
    assert_int_equal(pod_mask_read(arena_copy(&memory, buf_view(&b)), &memory, &m).code, ERR_OK);
    buf_fini(&b);
    return m;
}

static void assert_masked(const struct pod_mask *m, const char *text, bool cut_start, bool cut_end,
                          const char *want)
{
    struct buf b = {0};
    pod_mask_apply(m, str_from(text), cut_start, cut_end, &b);
    if (!str_eq(buf_view(&b), str_from(want)))
        fail_msg("%s: expected \"%s\", found \"%.*s\"", text, want, (int)b.len, b.at);
    buf_fini(&b);
}

static void the_name_or_the_value_tells_a_secret(void **state)
{
    (void)state;
    static const struct {
        const char *name, *value;
        bool secret;
    } rows[] = {
        {"DB_PASSWORD", "hunter2", true},
        {"db_password", "hunter2", true},
        {"dbPassword", "hunter2", true},
        {"PASS", "hunter2", true},
        {"MY_PASS_1", "hunter2", true},
        {"COMPASS", "hunter2", false},
        {"GITHUB_TOKEN", "abcd", true},
        {"TOKENS", "abcd", true},
        {"CLIENT_SECRET", "abcd", true},
        {"AWS_SECRET_ACCESS_KEY", "abcd", true},
        {"API_KEY", "abcd", true},
        {"APIKEY", "abcd", true},
        {"KEYBOARD", "abcd", false},
        {"MONKEY", "abcd", false},
        {"SENTRY_DSN", "abcd", true},
        {"AUTH", "abcd", true},
        {"AUTHOR", "abcd", false},
        {"PASSWORD", "abc", false}, /* too short to be found */
        {"USE_TOKEN", "true", false},
        {"AUTH", "Basic", false},
        {"PATH", "/usr/bin", false},
        {"HOST", "ghp_0123456789abcdef", true},
        {"WHATEVER", "AKIAIOSFODNN7EXAMPLE", true},
        {"JWT", "eyJhbGciOiJIUzI1NiJ9.e30.x", true},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct pod_mask m = mask_of(rows[i].name, rows[i].value);
        char text[128], want[128];
        snprintf(text, sizeof text, "it is %s.", rows[i].value);
        snprintf(want, sizeof want, "it is %s.", rows[i].secret ? "***" : rows[i].value);
        assert_masked(&m, text, false, false, want);
    }
}

static void secrets_are_found_in_every_form(void **state)
{
    (void)state;
    struct pod_mask m = mask_of("KEY", "-----BEGIN X-----\r\nMIIabcdefgh\nshort\n");
    assert_masked(&m, "a\nMIIabcdefgh\nb -----BEGIN X----- c", false, false, "a\n***\nb *** c");
    m = mask_of("PASSWORD", "hunter2");
    assert_masked(&m, "aHVudGVyMg== hunter2hunter2 hunter", false, false, "*** ****** hunter");
    m = mask_of("PASSWORD", "a\"bc\n");
    assert_masked(&m, "{\"p\": \"a\\\"bc\\n\"} a\"bc\n", false, false, "{\"p\": \"***\"} ***");
    m = mask_of("DATABASE_URL", "postgres://me:s3cr3t@db:5432/x?a=b@c redis://:other@r");
    assert_masked(&m, "me s3cr3t db other", false, false, "me *** db ***");
    m = mask_of("URL", "http://me@host/a:b@c");
    assert_int_equal(m.count, 0);
}

static void the_longest_secret_goes_first(void **state)
{
    (void)state;
    struct pod_mask m;
    assert_int_equal(
        pod_mask_read(STR("{\"spec\":{\"initContainers\":[{\"env\":[{\"name\":\"A_TOKEN\","
                          "\"value\":\"abcd\"}]}],\"containers\":[{\"env\":[{\"name\":\"B_TOKEN\","
                          "\"value\":\"abcdefgh\"},{\"name\":\"C_TOKEN\",\"valueFrom\":{}}]},"
                          "{\"env\":null}]}}"),
                      &memory, &m)
            .code,
        ERR_OK);
    assert_masked(&m, "abcdefgh abcdxefgh", false, false, "*** ***xefgh");
}

static void what_is_left_of_a_cut_secret_is_masked(void **state)
{
    (void)state;
    struct pod_mask m = mask_of("PASSWORD", "hunter2-is-old");
    assert_masked(&m, "r2-is-old and hunter2", true, false, "*** and hunter2");
    assert_masked(&m, "r2-is-old and hunter2", false, true, "r2-is-old and ***");
    assert_masked(&m, "r2-is-old and hunter2", true, true, "*** and ***");
    assert_masked(&m, "old hunt", true, true, "old ***");
    assert_masked(&m, "unter2-is-ol", true, true, "unter2-is-ol"); /* neither end is its */
    assert_masked(&m, "-old", true, true, "***");
    assert_masked(&m, "hunter2-is-old", true, true, "***");
    assert_masked(&m, "", true, true, "");
}

static void what_is_no_utf8_is_replaced(void **state)
{
    (void)state;
    struct pod_mask none = {0};
    assert_masked(&none,
                  "a\xff\xfe"
                  "b\xc3\xbc\xc3",
                  false, false,
                  "a\xef\xbf\xbd\xef\xbf\xbd"
                  "b\xc3\xbc\xef\xbf\xbd");
}

static void pods_that_are_none_and_too_many_secrets_are_refused(void **state)
{
    (void)state;
    struct pod_mask m;
    struct buf b = {0};
    assert_int_equal(pod_mask_read(STR("{"), &memory, &m).code, ERR_BAD_JSON);
    assert_int_equal(pod_mask_read(STR("{\"spec\":[]}"), &memory, &m).code, ERR_BAD_TYPE);
    assert_int_equal(pod_mask_read(STR("{}"), &memory, &m).code, ERR_OK);
    buf_lit(&b, "{\"spec\":{\"containers\":[{\"env\":[");
    for (int i = 0; i <= POD_MASK_MAX; i++)
        buf_print(&b, "%s{\"name\":\"TOKEN\",\"value\":\"v%06d\"}", i ? "," : "", i);
    buf_lit(&b, "]}]}}");
    assert_int_equal(pod_mask_read(buf_view(&b), &memory, &m).code, ERR_TOO_MANY);
    buf_fini(&b);
}

static void the_tail_is_of_whole_lines(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t max;
        const char *tail;
    } rows[] = {
        {"one\ntwo\nthree\n", 100, "one\ntwo\nthree\n"},
        {"one\ntwo\nthree\n", 14, "one\ntwo\nthree\n"},
        {"one\ntwo\nthree\n", 13, "two\nthree\n"},
        {"one\ntwo\nthree\n", 10, "two\nthree\n"},
        {"one\ntwo\nthree\n", 9, "three\n"},
        {"one\ntwo\nthree\n", 6, "three\n"},
        {"one\ntwo\nthree\n", 5, "hree\n"},
        {"\xc3\xbc\xc3\xbc\xc3\xbc", 3, "\xc3\xbc"},
        {"one", 0, ""},
        {"", 0, ""},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct str tail = pod_mask_tail(str_from(rows[i].text), rows[i].max);
        if (!str_eq(tail, str_from(rows[i].tail)))
            fail_msg("%zu: \"%.*s\"", rows[i].max, STR_ARG(tail));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(the_name_or_the_value_tells_a_secret, tear_down),
        cmocka_unit_test_teardown(secrets_are_found_in_every_form, tear_down),
        cmocka_unit_test_teardown(the_longest_secret_goes_first, tear_down),
        cmocka_unit_test_teardown(what_is_left_of_a_cut_secret_is_masked, tear_down),
        cmocka_unit_test(what_is_no_utf8_is_replaced),
        cmocka_unit_test_teardown(pods_that_are_none_and_too_many_secrets_are_refused, tear_down),
        cmocka_unit_test(the_tail_is_of_whole_lines),
    };
    return cmocka_run_group_tests_name("pod_mask", tests, NULL, NULL);
}
