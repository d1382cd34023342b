/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "access/hawk.h"
#include "base/buf.h"
#include "vectors.h"

static struct arena arena;

static int teardown(void **state)
{
    (void)state;
    arena_fini(&arena);
    return 0;
}

static struct hawk_target target(const char *method, const char *path, const char *query)
{
    return (struct hawk_target){str_from(method), str_from(path), str_from(query),
                                STR("example.com"), 8000};
}

static bool header_is_right(const char *header, struct hawk_target t)
{
    struct hawk_attributes h;
    struct err err = hawk_parse_header(str_from(header), &h);
    assert_int_equal(err.code, ERR_OK);
    return hawk_mac_matches(HAWK_HEADER, STR(KEY), &t, &h);
}

static void headers_of_another_implementation_are_right(void **state)
{
    (void)state;
    struct hawk_target t = target("GET", "/resource/1", "b=1&a=2");
    t.host = STR("Example.com");
    assert_true(header_is_right(GET_HEADER, t));
    t = target("POST", "/resource", "");
    t.port = 443;
    assert_true(header_is_right(POST_HEADER, t));
    t.method = STR("post"); /* it is signed in capitals, and methods are told apart by them */
    assert_true(header_is_right(POST_HEADER, t));
    assert_true(header_is_right(APP_HEADER, target("PUT", "/x", "")));
    t = target("GET", "/x", "");
    t.host = STR("::1");
    t.port = 7890;
    assert_true(header_is_right(IPV6_HEADER, t));
}

static void another_target_makes_another_mac(void **state)
{
    (void)state;
    struct hawk_target right = target("GET", "/resource/1", "b=1&a=2"), t = right;
    assert_true(header_is_right(GET_HEADER, right));
    t.method = STR("HEAD");
    assert_false(header_is_right(GET_HEADER, t));
    t = right;
    t.path = STR("/resource/2");
    assert_false(header_is_right(GET_HEADER, t));
    t = right;
    t.query = STR("a=2&b=1");
    assert_false(header_is_right(GET_HEADER, t));
    t = right;
    t.host = STR("example.org");
    assert_false(header_is_right(GET_HEADER, t));
    t = right;
    t.port = 8001;
    assert_false(header_is_right(GET_HEADER, t));
}

static void a_header_is_read_in_any_order_and_spacing(void **state)
{
    (void)state;
    struct hawk_attributes h;
    struct err err = hawk_parse_header(
        STR("hAWK  mac=\"m\" ,\tts=\"12\",nonce=\"n, =x\", id=\"i\", ext=\"e\", hash=\"h\" "), &h);
    assert_int_equal(err.code, ERR_OK);
    assert_true(str_eq(h.id, STR("i")) && str_eq(h.ts, STR("12")) && h.seconds == 12);
    assert_true(str_eq(h.nonce, STR("n, =x")) && str_eq(h.mac, STR("m")));
    assert_true(str_eq(h.ext, STR("e")) && str_eq(h.hash, STR("h")));
    assert_true(h.app.len == 0 && h.dlg.len == 0);
}

#define GOOD "id=\"i\", ts=\"1\", nonce=\"n\", mac=\"m\""

static void check_refused(const char *header, int64_t offset)
{
    struct hawk_attributes h;
    struct err err = hawk_parse_header(str_from(header), &h);
    assert_int_equal(err.code, ERR_BAD_CREDENTIALS);
    assert_int_equal(err.offset, offset);
}

static void a_malformed_header_is_refused_with_its_place(void **state)
{
    (void)state;
    check_refused("", 0);
    check_refused("Bearer abc", 0);
    check_refused("Hawk", 0);
    check_refused("Hawk ", 5);
    check_refused("Hawk" GOOD, 0);
    check_refused("Hawk " GOOD ",", 40);
    check_refused("Hawk " GOOD " x", 40);
    check_refused("Hawk " GOOD ", id=\"j\"", 41);
    check_refused("Hawk " GOOD ", foo=\"j\"", 41);
    check_refused("Hawk id=i", 8);
    check_refused("Hawk id=\"\"", 9);
    check_refused("Hawk id=\"a\\\"", 10);
    check_refused("Hawk id=\"a\x01\"", 10);
    check_refused("Hawk id=\"a\xc3\xa4\"", 10);
    check_refused("Hawk id=\"a", 10);
    check_refused("Hawk id \"a\"", 7);
    check_refused("Hawk id=\"i\", ts=\"1\", nonce=\"n\"", -1);
    check_refused("Hawk ts=\"1\", nonce=\"n\", mac=\"m\"", -1);
    check_refused("Hawk " GOOD ", dlg=\"d\"", -1);
    check_refused("Hawk id=\"i\", ts=\"-1\", nonce=\"n\", mac=\"m\"", -1);
    check_refused("Hawk id=\"i\", ts=\"1.5\", nonce=\"n\", mac=\"m\"", -1);
    check_refused("Hawk id=\"i\", ts=\"1000000000000000\", nonce=\"n\", mac=\"m\"", -1);
}

static void a_header_has_a_greatest_length(void **state)
{
    (void)state;
    struct buf b = {0};
    buf_lit(&b, "Hawk " GOOD ", ext=\"");
    while (b.len < HAWK_HEADER_MAX - 1)
        buf_byte(&b, 'e');
    buf_byte(&b, '"');
    struct hawk_attributes h;
    assert_int_equal(hawk_parse_header(buf_view(&b), &h).code, ERR_OK);
    buf_byte(&b, ' ');
    assert_int_equal(hawk_parse_header(buf_view(&b), &h).code, ERR_BAD_CREDENTIALS);
    buf_fini(&b);
}

/* --- bewits --- */

static void check_bewit(const char *method, const char *query, const char *left, bool right)
{
    struct hawk_target t = target(method, "/resource/4", query);
    struct hawk_attributes h;
    assert_true(hawk_has_bewit(t.query));
    struct err err = hawk_parse_bewit(&t, &arena, &h);
    assert_int_equal(err.code, ERR_OK);
    assert_true(str_eq(t.query, str_from(left)));
    assert_int_equal(h.seconds, NOW_MS / 1000 + 300);
    assert_true(str_eq(h.id, STR(ID)));
    assert_int_equal(hawk_mac_matches(HAWK_BEWIT, STR(KEY), &t, &h), right);
}

static void a_bewit_may_stand_anywhere_in_the_query(void **state)
{
    (void)state;
    check_bewit("GET", "a=1&b=2&bewit=" BEWIT_QUERY, "a=1&b=2", true);
    check_bewit("HEAD", "a=1&bewit=" BEWIT_QUERY "&b=2", "a=1&b=2", true);
    check_bewit("GET", "bewit=" BEWIT_QUERY "&a=1&b=2", "a=1&b=2", true);
    check_bewit("GET", "bewit=" BEWIT_ALONE, "", true);
    check_bewit("GET", "a=1&bewit=" BEWIT_QUERY, "a=1", false);
    check_bewit("GET", "bewit=" BEWIT_QUERY, "", false);
    /* Only the last one counts; the others are part of what is signed. */
    check_bewit("GET", "bewit=x&a=1&b=2&bewit=" BEWIT_QUERY, "bewit=x&a=1&b=2", false);
}

static void check_no_bewit(const char *method, const char *query)
{
    struct hawk_target t = target(method, "/resource/4", query);
    struct hawk_attributes h;
    assert_true(hawk_has_bewit(t.query));
    assert_int_equal(hawk_parse_bewit(&t, &arena, &h).code, ERR_BAD_CREDENTIALS);
}

static void a_malformed_bewit_is_refused(void **state)
{
    (void)state;
    assert_false(hawk_has_bewit(STR("")));
    assert_false(hawk_has_bewit(STR("bewit")));
    assert_false(hawk_has_bewit(STR("xbewit=a&b")));
    check_no_bewit("POST", "bewit=" BEWIT_ALONE);
    check_no_bewit("GET", "bewit=");
    check_no_bewit("GET", "bewit=&a=1");
    check_no_bewit("GET", "bewit=" BEWIT_ALONE "&");
    check_no_bewit("GET", "bewit=" BEWIT_ALONE "$");
    check_no_bewit("GET", "bewit=aVwxXG0");      /* i\1\m */
    check_no_bewit("GET", "bewit=aVwxXG1cZVx4"); /* i\1\m\e\x */
    check_no_bewit("GET", "bewit=XDFcbVw");      /* \1\m\ */
    check_no_bewit("GET", "bewit=aVxcbVw");      /* i\\m\ */
    check_no_bewit("GET", "bewit=aVx4XG1c");     /* i\x\m\ */
    check_no_bewit("GET", "bewit=aVwxXG1cCg");   /* i\1\m\ and a line feed */
}

/* --- the rest --- */

static void the_hash_of_a_body_is_that_of_another_implementation(void **state)
{
    (void)state;
    char hash[HAWK_MAC_LEN];
    const struct str body = STR("Forty bytes of text, more or less, here.");
    hawk_payload_hash(STR("text/plain"), body, hash);
    assert_memory_equal(hash, HASH, HAWK_MAC_LEN);
    hawk_payload_hash(STR(" Text/PLAIN ; charset=utf-8"), body, hash);
    assert_memory_equal(hash, HASH, HAWK_MAC_LEN);
    hawk_payload_hash(STR(""), body, hash);
    assert_memory_not_equal(hash, HASH, HAWK_MAC_LEN);
    struct hawk_attributes h;
    struct err err = hawk_parse_header(STR(POST_HEADER), &h);
    assert_int_equal(err.code, ERR_OK);
    hawk_payload_hash(STR("Application/JSON; charset=utf-8"), STR("{\"a\":1}"), hash);
    assert_true(str_eq(h.hash, (struct str){hash, sizeof hash}));
}

static void a_challenge_tells_the_time_and_proves_it(void **state)
{
    (void)state;
    char challenge[HAWK_CHALLENGE_MAX];
    hawk_stale_challenge(STR(KEY), (instant){NOW_MS}, challenge);
    assert_string_equal(challenge,
                        "Hawk ts=\"1700000000\", tsm=\"" TSM "\", error=\"Stale timestamp\"");
}

static void check_host(const char *header, bool tls, const char *port, const char *proto,
                       const char *host, int expected)
{
    struct hawk_target t = {0};
    bool ok = hawk_host(str_from(header), tls, str_from(port), str_from(proto), &t);
    assert_int_equal(ok, expected >= 0);
    if (expected < 0)
        return;
    assert_true(str_eq(t.host, str_from(host)));
    assert_int_equal(t.port, expected);
}

static void host_and_port_are_what_the_client_saw(void **state)
{
    (void)state;
    check_host("example.com", false, "", "", "example.com", 80);
    check_host("example.com", true, "", "", "example.com", 443);
    check_host("example.com:8000", true, "", "", "example.com", 8000);
    check_host("example.com:", false, "", "", "example.com", 80);
    check_host("[::1]:7890", false, "", "", "::1", 7890);
    check_host("[::1]", false, "", "", "::1", 80);
    check_host("example.com:8000", false, "444", "http", "example.com", 444);
    check_host("example.com:8000", false, "", "https", "example.com", 443);
    check_host("example.com:8000", false, "", "http", "example.com", 8000);
    check_host("", false, "", "", "", -1);
    check_host(":80", false, "", "", "", -1);
    check_host("[::1", false, "", "", "", -1);
    check_host("[::1]x", false, "", "", "", -1);
    check_host("::1", false, "", "", "", -1);
    check_host("example.com:65536", false, "", "", "", -1);
    check_host("example.com:8o", false, "", "", "", -1);
    check_host("example.com", false, "x", "", "", -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(headers_of_another_implementation_are_right),
        cmocka_unit_test(another_target_makes_another_mac),
        cmocka_unit_test(a_header_is_read_in_any_order_and_spacing),
        cmocka_unit_test(a_malformed_header_is_refused_with_its_place),
        cmocka_unit_test(a_header_has_a_greatest_length),
        cmocka_unit_test(a_bewit_may_stand_anywhere_in_the_query),
        cmocka_unit_test(a_malformed_bewit_is_refused),
        cmocka_unit_test(the_hash_of_a_body_is_that_of_another_implementation),
        cmocka_unit_test(a_challenge_tells_the_time_and_proves_it),
        cmocka_unit_test(host_and_port_are_what_the_client_saw),
    };
    return cmocka_run_group_tests(tests, NULL, teardown);
}
