/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "base/array.h"
#include "net/guard.h"

static struct guard local = {.bound = "127.0.0.1", .loopback = true, .machine = "box.lan"};
static struct guard open = {.bound = "tenax.example.org",
                            .allowed = "queue.example.org, *.svc.cluster.local",
                            .machine = "box.lan"};

static enum err_code of_host(struct guard *g, const char *host)
{
    struct guard_request r = {.host = str_from(host)};
    return guard_check(g, &r).code;
}

#define CHECK_HOSTS(guard, hosts, want)                                                            \
    for (size_t i = 0; i < COUNT(hosts); i++)                                                      \
        if (of_host((guard), (hosts)[i]) != (want))                                                \
    fail_msg("%s: %d", (hosts)[i], of_host((guard), (hosts)[i]))

static void a_listener_of_the_loopback_has_the_names_of_the_loopback(void **state)
{
    (void)state;
    static const char *const good[] = {"localhost",      "LocalHost:7890",    "localhost.:1",
                                       "127.0.0.1:7890", "127.9.9.9",         "[::1]:7890",
                                       "[::1]",          "[::ffff:127.0.0.1]"};
    static const char *const bad[] = {"",
                                      "evil.example",
                                      "localhost.evil.example",
                                      "192.0.2.1",
                                      "192.0.2.1:7890",
                                      "[2001:db8::1]",
                                      "box.lan",
                                      "box",
                                      "127.0.0.1.evil.example",
                                      "::1",
                                      "[::1].evil.example",
                                      "0.0.0.0",
                                      "[localhost",
                                      "localhost@evil.example",
                                      "[127.0.0.1]",
                                      ":7890",
                                      "queue.example.org",
                                      "xlocalhost"};
    CHECK_HOSTS(&local, good, ERR_OK);
    CHECK_HOSTS(&local, bad, ERR_HOST_NAME);
}

static void what_is_remembered_of_a_host_is_the_whole_of_it(void **state)
{
    (void)state;
    static const char *const hosts[] = {"",           "127.0.0.1:789",  "127.0.0.1:78901",
                                        "127.0.0.2:", "127.0.0.1:7890", "192.0.2.1"};
    for (size_t i = 0; i < COUNT(hosts); i++) {
        struct guard g = {.bound = "127.0.0.1", .loopback = true};
        enum err_code before = of_host(&g, hosts[i]);
        assert_int_equal(of_host(&g, "127.0.0.1:7890"), ERR_OK);
        assert_int_equal(of_host(&g, "127.0.0.1:7890"), ERR_OK);
        assert_int_equal(of_host(&g, hosts[i]), before);
        assert_int_equal(of_host(&g, "evil.example"), ERR_HOST_NAME);
        /* A page is compared with the host that was named, remembered or not. */
        struct guard_request r = {.host = STR("127.0.0.1:7890"),
                                  .origin = STR("http://127.0.0.1:7891")};
        assert_int_equal(guard_check(&g, &r).code, ERR_ORIGIN);
    }
}

static void a_listener_for_others_has_addresses_and_the_names_it_was_given(void **state)
{
    (void)state;
    static const char *const good[] = {"localhost:7890",
                                       "192.0.2.1",
                                       "[2001:db8::1]:7890",
                                       "box.lan",
                                       "BOX",
                                       "tenax.example.org:1",
                                       "queue.example.org.",
                                       "Queue.Example.Org",
                                       "127.0.0.1",
                                       "a.svc.cluster.local",
                                       "a.b.svc.cluster.local"};
    static const char *const bad[] = {"evil.example",
                                      "example.org",
                                      "svc.cluster.local",
                                      "xsvc.cluster.local",
                                      "a.queue.example.org",
                                      "lan",
                                      "queue.example.org.evil.example",
                                      "box.lan.evil.example"};
    CHECK_HOSTS(&open, good, ERR_OK);
    CHECK_HOSTS(&open, bad, ERR_HOST_NAME);
    struct guard any = {.bound = "127.0.0.1", .loopback = true, .allowed = "*"};
    assert_int_equal(of_host(&any, "evil.example"), ERR_OK);
}

static void a_request_without_a_host_comes_from_no_browser(void **state)
{
    (void)state;
    assert_int_equal(guard_check(&local, &(struct guard_request){0}).code, ERR_OK);
}

static enum err_code of_page(const char *host, const char *origin, const char *site)
{
    struct guard_request r = {str_from(host), str_from(origin), str_from(site)};
    return guard_check(&open, &r).code;
}

static void pages_of_this_server_may_ask_and_no_others(void **state)
{
    (void)state;
    static const struct {
        const char *host, *origin;
        bool same;
    } cases[] = {
        {"localhost:7890", "http://localhost:7890", true},
        {"localhost:7890", "http://LOCALHOST:7890", true},
        {"localhost:80", "http://localhost", true},
        {"localhost", "http://localhost:80", true},
        {"queue.example.org", "https://queue.example.org", true},
        {"queue.example.org", "https://queue.example.org:443", true},
        {"[::1]:7890", "http://[::1]:7890", true},
        {"localhost:7890", "http://localhost:3000", false},
        {"localhost:7890", "http://localhost", false},
        {"localhost:7890", "http://127.0.0.1:7890", false},
        {"localhost:7890", "http://evil.example", false},
        {"localhost:7890", "null", false},
        {"localhost:7890", "file://", false},
        {"localhost:7890", "ftp://localhost:7890", false},
        {"localhost:7890", "http://localhost:7890.evil.example", false},
        {"localhost:7890", "http://", false},
        {"192.0.2.1", "http://[192.0.2.1]", false},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        enum err_code want = cases[i].same ? ERR_OK : ERR_ORIGIN;
        if (of_page(cases[i].host, cases[i].origin, "") != want)
            fail_msg("%s to %s", cases[i].origin, cases[i].host);
    }
    assert_int_equal(of_page("localhost", "", "none"), ERR_OK);
    assert_int_equal(of_page("localhost", "", "same-origin"), ERR_OK);
    assert_int_equal(of_page("localhost", "http://localhost", "same-origin"), ERR_OK);
    assert_int_equal(of_page("localhost", "", "same-site"), ERR_ORIGIN);
    assert_int_equal(of_page("localhost", "", "cross-site"), ERR_ORIGIN);
    assert_int_equal(of_page("localhost", "http://localhost", "cross-site"), ERR_ORIGIN);
}

static void names_are_checked_before_they_are_used(void **state)
{
    (void)state;
    static const char *const good[] = {"*", "a", "a.example, *.b.example,c_d-1", "192.0.2.1"};
    static const char *const bad[] = {
        "http://a.example", "a.example:7890", "a,,b", "*a", "a.*.example", "*.", "a example", ","};
    for (size_t i = 0; i < COUNT(good); i++)
        assert_int_equal(guard_check_names(good[i]).code, ERR_OK);
    for (size_t i = 0; i < COUNT(bad); i++)
        if (guard_check_names(bad[i]).code != ERR_BAD_VALUE)
            fail_msg("%s", bad[i]);
    assert_int_equal(guard_check_names(NULL).code, ERR_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_listener_of_the_loopback_has_the_names_of_the_loopback),
        cmocka_unit_test(what_is_remembered_of_a_host_is_the_whole_of_it),
        cmocka_unit_test(a_listener_for_others_has_addresses_and_the_names_it_was_given),
        cmocka_unit_test(a_request_without_a_host_comes_from_no_browser),
        cmocka_unit_test(pages_of_this_server_may_ask_and_no_others),
        cmocka_unit_test(names_are_checked_before_they_are_used),
    };
    return cmocka_run_group_tests_name("guard", tests, NULL, NULL);
}
