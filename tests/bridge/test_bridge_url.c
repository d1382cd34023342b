/* SPDX-License-Identifier: Apache-2.0 */
#include "bridge/bridge_url.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static struct arena arena;
static struct bridge_url u;

static enum err_code read_url(const char *text)
{
    arena_reset(&arena);
    return bridge_url_read(str_from(text), &arena, &u).code;
}

static void all_parts_are_read_and_decoded(void **state)
{
    (void)state;
    assert_int_equal(read_url("amqps://a%40b:p%3a%2F@one,two:5673,[::1]:7/v%2Fh"), ERR_OK);
    assert_true(u.tls);
    assert_string_equal(u.user, "a@b");
    assert_string_equal(u.password, "p:/");
    assert_string_equal(u.vhost, "v/h");
    assert_int_equal(u.address_count, 3);
    assert_string_equal(u.addresses[0].host, "one");
    assert_int_equal(u.addresses[0].port, 5671);
    assert_string_equal(u.addresses[1].host, "two");
    assert_int_equal(u.addresses[1].port, 5673);
    assert_string_equal(u.addresses[2].host, "::1");
    assert_int_equal(u.addresses[2].port, 7);
}

static void what_is_left_out_has_defaults(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(read_url(i ? "amqp://host/" : "amqp://host"), ERR_OK);
        assert_false(u.tls);
        assert_null(u.user);
        assert_null(u.password);
        assert_string_equal(u.vhost, "/");
        assert_int_equal(u.addresses[0].port, 5672);
    }
    assert_int_equal(read_url("amqp://me@host"), ERR_OK);
    assert_string_equal(u.user, "me");
    assert_null(u.password);
}

static void errors_quote_nothing(void **state)
{
    (void)state;
    static const char *const wrong[] = {
        "",
        "http://sesame@host",
        "amqp://",
        "amqp://u:sesame@",
        "amqp://u:sesame@host:0",
        "amqp://u:sesame@host:70000",
        "amqp://u:sesame@host:1x",
        "amqp://u:sesame%@host",
        "amqp://u:sesame%00@host",
        "amqp://u:sesame@host,",
        "amqp://u:sesame@host/a/b",
        "amqp://u:sesame@host/a?heartbeat=1",
        "amqp://u:sesame@[::1",
        "amqp://u:sesame@[::1]x",
        "amqp://u:se@same@host",
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        arena_reset(&arena);
        struct err e = bridge_url_read(str_from(wrong[i]), &arena, &u);
        if (e.code != ERR_USAGE)
            fail_msg("'%s' is accepted", wrong[i]);
        assert_null(strstr(e.msg, "sesame"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_parts_are_read_and_decoded),
        cmocka_unit_test(what_is_left_out_has_defaults),
        cmocka_unit_test(errors_quote_nothing),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    arena_fini(&arena);
    return failed;
}
