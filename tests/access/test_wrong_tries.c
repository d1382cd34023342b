/* SPDX-License-Identifier: Apache-2.0 */
#include "access/wrong_tries.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>

#define NOW(ms) ((instant){1000000000 + (ms)})

static void so_many_at_once_and_so_many_a_minute(void **state)
{
    (void)state;
    struct wrong_tries *t = wrong_tries_new(10, 1);
    const struct str a = STR("192.0.2.1"), b = STR("192.0.2.2");
    for (int i = 0; i < 10; i++)
        assert_int_equal(wrong_tries_note(t, a, NOW(0)), 0);
    for (int i = 0; i < 100; i++)
        assert_int_equal(wrong_tries_note(t, a, NOW(0)), 6);
    assert_int_equal(wrong_tries_wait(t, a, NOW(0)), 6);
    assert_int_equal(wrong_tries_note(t, b, NOW(0)), 0);
    /* Having tried in vain makes nobody wait longer. */
    assert_int_equal(wrong_tries_note(t, a, NOW(6000)), 0);
    assert_int_equal(wrong_tries_note(t, a, NOW(6000)), 6);
    assert_int_equal(wrong_tries_wait(t, a, NOW(66000)), 0);
    for (int i = 0; i < 10; i++)
        assert_int_equal(wrong_tries_note(t, a, NOW(66000)), 0);
    assert_int_equal(wrong_tries_note(t, a, NOW(66000)), 6);
    /* The clock is set back by far: nobody waits for it to come again. */
    assert_true(wrong_tries_wait(t, a, NOW(-900000)) <= 60);
    wrong_tries_free(t);
}

static void of_ipv6_the_network_counts(void **state)
{
    (void)state;
    struct wrong_tries *t = wrong_tries_new(1, 1);
    assert_int_equal(wrong_tries_note(t, STR("2001:db8:1:2::1"), NOW(0)), 0);
    assert_int_equal(wrong_tries_note(t, STR("2001:db8:1:2:ffff::9"), NOW(0)), 60);
    assert_int_equal(wrong_tries_note(t, STR("2001:db8:1:3::1"), NOW(0)), 0);
    assert_int_equal(wrong_tries_note(t, STR("not an address"), NOW(0)), 0);
    assert_int_equal(wrong_tries_note(t, STR(""), NOW(0)), 60);
    wrong_tries_free(t);
}

/* Millions of addresses take no more memory, and one that is at it all the time is not forgotten
 * for those that come once. */
static void many_addresses_displace_the_quiet_ones(void **state)
{
    (void)state;
    struct wrong_tries *t = wrong_tries_new(5, 7);
    const struct str busy = STR("198.51.100.1");
    int refused = 0;
    for (int i = 0; i < 200000; i++) {
        char text[32];
        snprintf(text, sizeof text, "10.%d.%d.%d", i >> 16 & 255, i >> 8 & 255, i & 255);
        wrong_tries_note(t, str_from(text), NOW(i / 1000));
        if (i % 100 == 0)
            refused += wrong_tries_note(t, busy, NOW(i / 1000)) > 0;
    }
    assert_true(refused > 1500);
    wrong_tries_free(t);
}

static void no_limit_is_none(void **state)
{
    (void)state;
    struct wrong_tries *t = wrong_tries_new(0, 1);
    for (int i = 0; i < 1000; i++)
        assert_int_equal(wrong_tries_note(t, STR("192.0.2.1"), NOW(0)), 0);
    assert_int_equal(wrong_tries_wait(t, STR("192.0.2.1"), NOW(0)), 0);
    wrong_tries_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(so_many_at_once_and_so_many_a_minute),
        cmocka_unit_test(of_ipv6_the_network_counts),
        cmocka_unit_test(many_addresses_displace_the_quiet_ones),
        cmocka_unit_test(no_limit_is_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
