/* SPDX-License-Identifier: Apache-2.0 */
#include "builds/build_message.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static struct arena arena;
static struct build_message m;

static struct err read_text(const char *text)
{
    arena_reset(&arena);
    return build_message_read(str_from(text), &arena, &m);
}

static void equal(struct str is, const char *should)
{
    assert_true(str_eq(is, str_from(should)));
}

static void a_start_names_its_build(void **state)
{
    (void)state;
    struct err e = read_text(
        "{\"job\":\"start\", \"buildConfig\": {\"buildId\": 1234, \"jobId\":1, "
        "\"jobName\":\"main\","
        " \"container\":\"node:18\", \"apiUri\":\"http://api\", \"token\":\"abc\"} , \"x\":[]}");
    assert_int_equal(e.code, ERR_OK);
    assert_int_equal(m.job, BUILD_START);
    equal(m.build, "1234");
    equal(m.api_uri, "http://api");
    equal(m.token, "abc");
    struct buf b = {0};
    build_message_verify(&b, m.config_json);
    buf_byte(&b, '\0');
    assert_string_equal(b.at,
                        "{\"job\":\"verify\",\"buildConfig\":{\"buildId\": 1234, \"jobId\":1, "
                        "\"jobName\":\"main\", \"container\":\"node:18\", "
                        "\"apiUri\":\"http://api\", \"token\":\"abc\"}}");
    buf_fini(&b);
}

static void a_stop_needs_no_more_than_an_id(void **state)
{
    (void)state;
    assert_int_equal(
        read_text("{\"job\":\"stop\",\"buildConfig\":{\"buildId\":\"7\",\"jobId\":2}}").code,
        ERR_OK);
    assert_int_equal(m.job, BUILD_STOP);
    equal(m.build, "7");
    equal(m.token, "");
}

static void a_clear_names_a_cache(void **state)
{
    (void)state;
    struct err e = read_text("{\"job\":\"clear\",\"cacheConfig\":{\"resource\":\"caches\","
                             "\"action\":\"delete\",\"scope\":\"jobs\",\"prefix\":\"\","
                             "\"pipelineId\":1,\"id\":22}}");
    assert_int_equal(e.code, ERR_OK);
    assert_int_equal(m.job, BUILD_CLEAR);
    assert_true(m.cache.is_delete);
    equal(m.cache.scope, "jobs");
    equal(m.cache.pipeline, "1");
    equal(m.cache.id, "22");
}

static void what_is_malformed_is_refused_without_its_values(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",
        "{",
        "[]",
        "7",
        "{\"job\":\"start\"}",
        "{\"job\":\"secret\",\"buildConfig\":{}}",
        "{\"job\":\"start\",\"buildConfig\":[]}",
        "{\"job\":\"start\",\"buildConfig\":{}}",
        "{\"job\":\"start\",\"buildConfig\":{\"buildId\":\"\"}}",
        "{\"job\":\"start\",\"buildConfig\":{\"buildId\":{},\"token\":\"secret\"}}",
        "{\"job\":\"clear\"}",
        "{\"job\":\"clear\",\"cacheConfig\":\"secret\"}",
        "{\"job\":\"start\",\"buildConfig\":{\"buildId\":1}} secret"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct err e = read_text(bad[i]);
        assert_int_not_equal(e.code, ERR_OK);
        assert_null(strstr(e.msg, "secret"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_start_names_its_build),
        cmocka_unit_test(a_stop_needs_no_more_than_an_id),
        cmocka_unit_test(a_clear_names_a_cache),
        cmocka_unit_test(what_is_malformed_is_refused_without_its_values),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    arena_fini(&arena);
    return failed;
}
