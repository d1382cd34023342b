/* SPDX-License-Identifier: Apache-2.0 */
#include "access/proxies.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <string.h>

static const char *client(const char *trusted, const char *peer, const char *header)
{
    static char at[PROXIES_ADDRESS_MAX];
    struct proxies p;
    assert_int_equal(proxies_read(trusted, &p).code, ERR_OK);
    proxies_client(&p, peer, str_from(header), at);
    return at;
}

static void a_peer_that_is_not_trusted_is_not_believed(void **state)
{
    (void)state;
    assert_string_equal(client(NULL, "127.0.0.1", "192.0.2.1"), "127.0.0.1");
    assert_string_equal(client("10.0.0.0/8", "11.0.0.1", "192.0.2.1"), "11.0.0.1");
    assert_string_equal(client("10.0.0.0/8", "", "192.0.2.1"), "");
    assert_string_equal(client("fd00::/8", "10.0.0.1", "192.0.2.1"), "10.0.0.1");
    assert_string_equal(client("::/0", "10.0.0.1", "192.0.2.1"), "192.0.2.1");
}

static void the_header_is_read_from_the_right(void **state)
{
    (void)state;
    const char *all = "10.0.0.0/8, 127.0.0.1";
    assert_string_equal(client(all, "10.1.2.3", "192.0.2.1"), "192.0.2.1");
    assert_string_equal(client(all, "127.0.0.1", "192.0.2.9,192.0.2.1 , 10.9.9.9"), "192.0.2.1");
    assert_string_equal(client(all, "127.0.0.1", "10.0.0.7"), "10.0.0.7");
    assert_string_equal(client(all, "10.1.2.3", ""), "10.1.2.3");
    assert_string_equal(client(all, "10.1.2.3", "192.0.2.1, unknown"), "10.1.2.3");
    assert_string_equal(client(all, "10.1.2.3", "192.0.2.1, 192.0.2.2,"), "10.1.2.3");
    assert_string_equal(client(all, "10.1.2.3", "192.0.2.1:4711"), "192.0.2.1");
    assert_string_equal(client(all, "10.1.2.3", "[2001:db8::1]:80"), "2001:db8::1");
    assert_string_equal(client(all, "10.1.2.3", "2001:db8::1"), "2001:db8::1");
}

static void an_address_of_ipv4_within_ipv6_is_one_of_ipv4(void **state)
{
    (void)state;
    const char *all = "10.0.0.0/8";
    assert_string_equal(client(all, "::ffff:10.0.0.1", "::ffff:192.0.2.1"), "192.0.2.1");
    assert_string_equal(client(all, "10.0.0.1", "[::ffff:c000:202]:80"), "192.0.2.2");
    assert_string_equal(client(all, "10.0.0.1", "192.0.2.3, ::FFFF:10.0.0.9"), "192.0.2.3");
    assert_string_equal(client(all, "10.0.0.1", "::192.0.2.4"), "::192.0.2.4");
}

static void an_address_alone_is_no_range(void **state)
{
    (void)state;
    assert_string_equal(client("127.0.0.1", "127.0.0.1", "192.0.2.1"), "192.0.2.1");
    assert_string_equal(client("127.0.0.1", "127.0.0.0", "192.0.2.1"), "127.0.0.0");
    assert_string_equal(client("127.0.0.1", "127.0.0.2", "192.0.2.1"), "127.0.0.2");
    assert_string_equal(client("fd00::1", "fd00::1", "192.0.2.1"), "192.0.2.1");
    assert_string_equal(client("fd00::1", "fd00::", "192.0.2.1"), "fd00::");
}

static void ranges_end_within_a_byte(void **state)
{
    (void)state;
    assert_string_equal(client("10.0.0.128/25", "10.0.0.127", "192.0.2.1"), "10.0.0.127");
    assert_string_equal(client("10.0.0.128/25", "10.0.0.128", "192.0.2.1"), "192.0.2.1");
    assert_string_equal(client("fd00::/7", "fc00::1", "192.0.2.1"), "192.0.2.1");
    assert_string_equal(client("0.0.0.0/0", "9.9.9.9", "192.0.2.1"), "192.0.2.1");
    assert_string_equal(client("0.0.0.0/0", "fd00::1", "192.0.2.1"), "fd00::1");
}

static void what_is_no_range_is_refused(void **state)
{
    (void)state;
    static const char *const wrong[] = {"proxy",    "10.0.0.0/33", "fd00::/129",  "10.0.0.0/",
                                        "10.0.0/8", ",",           "10.0.0.0/8x", "10.0.0.0/0008"};
    struct proxies p;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(proxies_read(wrong[i], &p).code, ERR_BAD_VALUE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_peer_that_is_not_trusted_is_not_believed),
        cmocka_unit_test(the_header_is_read_from_the_right),
        cmocka_unit_test(an_address_of_ipv4_within_ipv6_is_one_of_ipv4),
        cmocka_unit_test(an_address_alone_is_no_range),
        cmocka_unit_test(ranges_end_within_a_byte),
        cmocka_unit_test(what_is_no_range_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
