/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

#include "net/http.h"
#include "net/reply.h"

static void check_date(int64_t seconds, const char *expected)
{
    char date[REPLY_DATE_LEN + 1] = {0};
    reply_date(date, seconds);
    assert_string_equal(date, expected);
}

static void a_date_is_written_as_rfc_9110_says(void **state)
{
    (void)state;
    check_date(784111777, "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n");
    check_date(0, "Date: Thu, 01 Jan 1970 00:00:00 GMT\r\n");
    check_date(1709210096, "Date: Thu, 29 Feb 2024 12:34:56 GMT\r\n");
}

static void check_reply(struct reply_head head, const char *body, bool no_body,
                        const char *expected)
{
    struct buf b = {0};
    char date[REPLY_DATE_LEN];
    reply_date(date, 784111777);
    head.date = date;
    if (head.chunked)
        reply_open(&b, &head);
    else
        reply_add(&b, &head, str_from(body), no_body);
    buf_byte(&b, '\0');
    assert_string_equal(b.at, expected);
    buf_fini(&b);
}

#define DATE "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n"

static void a_reply_is_encoded_whole(void **state)
{
    (void)state;
    check_reply((struct reply_head){.status = 200, .type = STR("a/b"), .extra = "X: y\r\n"}, "hi",
                false,
                "HTTP/1.1 200 OK\r\n" DATE "Content-Type: a/b\r\nX: y\r\n"
                "Content-Length: 2\r\n\r\nhi");
    check_reply((struct reply_head){.status = 404, .close = true}, "", false,
                "HTTP/1.1 404 Not Found\r\n" DATE "Connection: close\r\n"
                "Content-Length: 0\r\n\r\n");
    check_reply((struct reply_head){.status = 299}, "", false,
                "HTTP/1.1 299 Unknown\r\n" DATE "Content-Length: 0\r\n\r\n");
}

static void only_empty_204_and_304_have_no_length(void **state)
{
    (void)state;
    check_reply((struct reply_head){.status = 204}, "", false,
                "HTTP/1.1 204 No Content\r\n" DATE "\r\n");
    check_reply((struct reply_head){.status = 304}, "", false,
                "HTTP/1.1 304 Not Modified\r\n" DATE "\r\n");
}

static void without_its_body_a_reply_still_tells_the_length(void **state)
{
    (void)state;
    check_reply((struct reply_head){.status = 200}, "hello", true,
                "HTTP/1.1 200 OK\r\n" DATE "Content-Length: 5\r\n\r\n");
}

static void a_stream_opens_with_chunked(void **state)
{
    (void)state;
    check_reply((struct reply_head){.status = 200, .chunked = true}, "", false,
                "HTTP/1.1 200 OK\r\n" DATE "Transfer-Encoding: chunked\r\n\r\n");
}

static void an_error_is_valid_json_whatever_it_quotes(void **state)
{
    (void)state;
    struct buf b = {0};
    struct err e = err_make(ERR_BAD_NAME, "a \"b\" \\ \n \303\251");
    reply_error_body(&b, &e);
    assert_true(str_eq(buf_view(&b), STR("{\"error\":\"a \\\"b\\\" \\\\ ? ??\","
                                         "\"code\":\"bad_name\"}")));
    buf_fini(&b);
}

static void every_status_of_an_error_has_a_phrase(void **state)
{
    (void)state;
    for (int code = ERR_OK; code < ERR_COUNT; code++)
        assert_string_not_equal(http_phrase(err_status((enum err_code)code)), "Unknown");
    assert_string_equal(http_phrase(404), "Not Found");
    assert_string_equal(http_phrase(99), "Unknown");
    assert_string_equal(http_phrase(600), "Unknown");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_date_is_written_as_rfc_9110_says),
        cmocka_unit_test(a_reply_is_encoded_whole),
        cmocka_unit_test(only_empty_204_and_304_have_no_length),
        cmocka_unit_test(without_its_body_a_reply_still_tells_the_length),
        cmocka_unit_test(a_stream_opens_with_chunked),
        cmocka_unit_test(an_error_is_valid_json_whatever_it_quotes),
        cmocka_unit_test(every_status_of_an_error_has_a_phrase),
    };
    return cmocka_run_group_tests_name("reply", tests, NULL, NULL);
}
