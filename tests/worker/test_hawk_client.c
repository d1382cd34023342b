/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "access/hawk.h"
#include "base/arena.h"
#include "base/base64.h"
#include "worker/hawk_client.h"

static const instant now = {INT64_C(1893456000123)};
static const struct hawk_credentials plain = {{"ci/worker", 9}, {"secret", 6}, {NULL, 0}};

/* What a server finds in the header. */
static struct hawk_attributes parse(const struct buf *b)
{
    struct hawk_attributes h;
    struct str head = STR("Authorization: ");
    assert_memory_equal(b->at, head.at, head.len);
    assert_int_equal(hawk_parse_header((struct str){b->at + head.len, b->len - head.len}, &h).code,
                     ERR_OK);
    return h;
}

static void a_server_finds_the_signature_right(void **state)
{
    (void)state;
    struct buf b = {0};
    assert_true(
        hawk_client_header(&b, &plain, "POST", "https://tc.example.com/api/x%2Fy?a=1&b", now));
    struct hawk_attributes h = parse(&b);
    struct hawk_target t = {.method = STR("POST"),
                            .path = STR("/api/x%2Fy"),
                            .query = STR("a=1&b"),
                            .host = STR("tc.example.com"),
                            .port = 443};
    assert_true(str_eq(h.id, plain.client_id));
    assert_int_equal(h.seconds, 1893456000);
    assert_int_equal(h.ext.len, 0);
    assert_true(hawk_mac_matches(HAWK_HEADER, plain.access_token, &t, &h));
    t.port = 80;
    assert_false(hawk_mac_matches(HAWK_HEADER, plain.access_token, &t, &h));
    buf_fini(&b);
}

static void an_address_is_signed_without_its_brackets(void **state)
{
    (void)state;
    struct buf b = {0};
    assert_true(hawk_client_header(&b, &plain, "GET", "http://[::1]:7890/", now));
    struct hawk_attributes h = parse(&b);
    const struct hawk_target t = {
        .method = STR("GET"), .path = STR("/"), .host = STR("::1"), .port = 7890};
    assert_true(hawk_mac_matches(HAWK_HEADER, plain.access_token, &t, &h));
    buf_fini(&b);
}

static void a_certificate_is_in_ext_and_signed(void **state)
{
    (void)state;
    struct buf b = {0};
    struct arena a = {0};
    struct str ext;
    struct hawk_credentials by = plain;
    by.certificate = STR("{\"version\":1}");
    assert_true(hawk_client_header(&b, &by, "GET", "http://h/p", now));
    struct hawk_attributes h = parse(&b);
    const struct hawk_target t = {
        .method = STR("GET"), .path = STR("/p"), .host = STR("h"), .port = 80};
    assert_true(hawk_mac_matches(HAWK_HEADER, by.access_token, &t, &h));
    assert_true(base64_read(h.ext, &a, &ext));
    assert_true(str_eq(ext, STR("{\"certificate\":{\"version\":1}}")));
    arena_fini(&a);
    buf_fini(&b);
}

static void every_request_has_another_nonce(void **state)
{
    (void)state;
    struct buf one = {0}, two = {0};
    assert_true(hawk_client_header(&one, &plain, "GET", "http://h/p", now));
    assert_true(hawk_client_header(&two, &plain, "GET", "http://h/p", now));
    assert_false(str_eq(parse(&one).nonce, parse(&two).nonce));
    buf_fini(&one);
    buf_fini(&two);
}

static void a_malformed_url_is_not_signed(void **state)
{
    (void)state;
    struct buf b = {0};
    assert_false(hawk_client_header(&b, &plain, "GET", "nowhere", now));
    assert_int_equal(b.len, 0);
    buf_fini(&b);
}

static void credentials_that_cannot_be_used_are_recognised(void **state)
{
    (void)state;
    struct hawk_credentials by = plain;
    assert_null(hawk_client_bad(&by));
    by.certificate = STR("[]");
    assert_non_null(hawk_client_bad(&by));
    by = plain;
    by.client_id = STR("a\"b");
    assert_non_null(hawk_client_bad(&by));
    by.client_id = STR("a\nb");
    assert_non_null(hawk_client_bad(&by));
    by = plain;
    by.access_token = STR("");
    assert_non_null(hawk_client_bad(&by));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_server_finds_the_signature_right),
        cmocka_unit_test(an_address_is_signed_without_its_brackets),
        cmocka_unit_test(a_certificate_is_in_ext_and_signed),
        cmocka_unit_test(every_request_has_another_nonce),
        cmocka_unit_test(a_malformed_url_is_not_signed),
        cmocka_unit_test(credentials_that_cannot_be_used_are_recognised),
    };
    return cmocka_run_group_tests_name("worker/hawk_client", tests, NULL, NULL);
}
