/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "base/array.h"
#include "base/buf.h"
#include "net/http1.h"

#define HEADER_MAX 4096
#define BODY_MAX   1000

static const char *const methods[] = {"GET",   "HEAD",   "POST",    "PUT",
                                      "PATCH", "DELETE", "OPTIONS", "other"};

static void note(struct buf *log, const struct http1_request *r)
{
    const struct http_request *q = &r->req;
    buf_print(log, "%s [%.*s] [%.*s] type[%.*s] accept[%.*s] worker[%.*s] body[%.*s]%s%s\n",
              methods[q->method], STR_ARG(q->path), STR_ARG(q->query), STR_ARG(q->content_type),
              STR_ARG(q->accept), STR_ARG(q->worker_id), STR_ARG(q->body),
              r->keep_alive ? "" : " close", r->old ? " old" : "");
}

static void note_begin(struct buf *log, const struct http1_request *r)
{
    buf_print(log, "%s [%.*s] type[%.*s] length %lld%s%s pieces[", methods[r->req.method],
              STR_ARG(r->req.path), STR_ARG(r->req.content_type), (long long)r->req.length,
              r->expects ? " expects" : "", r->keep_alive ? "" : " close");
}

static bool wants_pieces(void *ctx, enum http_method method, struct str path)
{
    (void)ctx;
    return method == HTTP_PUT && str_eq(path, STR("/pieces"));
}

/* Feeds one piece from memory of exactly its size, which is freed afterwards; false when the reader
 * cannot be used any more. */
static bool feed(struct http1 *r, struct buf *log, const char *at, size_t len)
{
    size_t done = 0;
    bool usable = true;
    char *copy = malloc(len ? len : 1);
    assert_non_null(copy);
    memcpy(copy, at, len);
    while (done < len && usable) {
        size_t used;
        enum http1_event event = http1_feed(r, copy + done, len - done, &used);
        assert_true(used <= len - done);
        done += used;
        if (event == HTTP1_REQUEST)
            note(log, http1_request(r));
        else if (event == HTTP1_BEGIN)
            note_begin(log, http1_request(r));
        else if (event == HTTP1_PIECE)
            buf_print(log, "%.*s%s", STR_ARG(http1_piece(r)),
                      http1_phase(r) == HTTP1_IDLE ? "]\n" : "");
        else if (event == HTTP1_CONTINUE)
            buf_lit(log, "continue\n");
        else if (event == HTTP1_PREFACE)
            buf_lit(log, "preface\n");
        else if (event == HTTP1_BAD)
            buf_print(log, "bad %s: %s\n", err_wire(http1_error(r)->code), http1_error(r)->msg);
        usable = event != HTTP1_PREFACE && event != HTTP1_BAD;
        bool ended = event == HTTP1_REQUEST || event == HTTP1_PIECE;
        if (ended && http1_phase(r) == HTTP1_IDLE && !http1_request(r)->keep_alive)
            usable = false;
    }
    free(copy);
    return usable;
}

/* The output for the text when it arrives in pieces of `first`, then `each` bytes. */
static struct buf transcript(struct str text, size_t first, size_t each)
{
    struct buf log = {0};
    struct http1 *r = http1_new(HEADER_MAX, BODY_MAX);
    http1_ask(r, wants_pieces, NULL);
    size_t at = 0, n = first;
    bool usable = true;
    while (usable && at < text.len) {
        n = n < text.len - at ? n : text.len - at;
        usable = feed(r, &log, text.at + at, n);
        at += n;
        n = each;
    }
    if (usable)
        buf_print(&log, "%s",
                  http1_phase(r) == HTTP1_IDLE   ? ""
                  : http1_phase(r) == HTTP1_HEAD ? "in head\n"
                                                 : "in body\n");
    buf_byte(&log, '\0');
    http1_free(r);
    return log;
}

/* Checks the output, and that it does not depend on how the bytes were split. */
static void check_text(struct str text, const char *expected)
{
    struct buf whole = transcript(text, text.len, text.len);
    assert_string_equal(whole.at, expected);
    for (size_t cut = 1; cut < text.len; cut++) {
        struct buf parts = transcript(text, cut, text.len);
        assert_string_equal(parts.at, whole.at);
        buf_fini(&parts);
    }
    for (size_t each = 1; each < 5; each++) {
        struct buf parts = transcript(text, each, each);
        assert_string_equal(parts.at, whole.at);
        buf_fini(&parts);
    }
    buf_fini(&whole);
}

#define CHECK(text, expected) check_text(STR(text), (expected))

/* Only the start of the output is compared where the rest is llhttp's wording. */
static void check_refused(const char *text, const char *code)
{
    char want[64];
    snprintf(want, sizeof want, "bad %s: ", code);
    struct str s = str_from(text);
    for (size_t cut = 1; cut <= s.len; cut++) {
        struct buf log = transcript(s, cut, s.len);
        const char *last = strstr(log.at, "bad ");
        if (!last || strncmp(last, want, strlen(want)) != 0)
            fail_msg("%s\ngave, cut at %zu:\n%s\nnot %s", text, cut, log.at, want);
        buf_fini(&log);
    }
}

static void a_request_is_split_into_its_parts(void **state)
{
    (void)state;
    CHECK("GET /jobs?status=ready&x=%20 HTTP/1.1\r\nHost: a\r\nAccept: text/plain \r\n"
          "CONTENT-TYPE:\tapplication/json\r\nWorker-Id: w1\r\nEmpty:\r\n\r\n",
          "GET [/jobs] [status=ready&x=%20] type[application/json] accept[text/plain] "
          "worker[w1] body[]\n");
    CHECK("GET / HTTP/1.1\r\nHost:\r\n\r\n", "GET [/] [] type[] accept[] worker[] body[]\n");
}

static void pipelined_requests_come_out_one_by_one(void **state)
{
    (void)state;
    CHECK("POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello"
          "\r\n\r\nDELETE /b? HTTP/1.1\r\nHost: a\r\n\r\n"
          "PATCH /c HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nConnection: close\r\n\r\n!GET",
          "POST [/a] [] type[] accept[] worker[] body[hello]\n"
          "DELETE [/b] [] type[] accept[] worker[] body[]\n"
          "PATCH [/c] [] type[] accept[] worker[] body[!] close\n");
}

static void chunks_are_put_together_and_trailers_passed_over(void **state)
{
    (void)state;
    CHECK("PUT /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: Chunked\r\n\r\n"
          "4;ext=\"x\"\r\nWiki\r\n006\r\npedia \r\n0\r\nContent-Type: evil\r\nHost: b\r\n\r\n"
          "GET /b HTTP/1.1\r\nHost: a\r\n\r\n",
          "PUT [/a] [] type[] accept[] worker[] body[Wikipedia ]\n"
          "GET [/b] [] type[] accept[] worker[] body[]\n");
}

static void every_method_has_its_name_or_none(void **state)
{
    (void)state;
    CHECK("HEAD / HTTP/1.1\r\nHost: a\r\n\r\nPUT / HTTP/1.1\r\nHost: a\r\n\r\n"
          "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\nTRACE / HTTP/1.1\r\nHost: a\r\n\r\n"
          "BREW! /pot?x HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nab"
          "get / HTTP/1.1\r\nHost: a\r\n\r\n"
          "\r\nM-SEARCH / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
          "2\r\nab\r\n0\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
          "HEAD [/] [] type[] accept[] worker[] body[]\n"
          "PUT [/] [] type[] accept[] worker[] body[]\n"
          "OPTIONS [*] [] type[] accept[] worker[] body[]\n"
          "other [/] [] type[] accept[] worker[] body[]\n"
          "other [/pot] [x] type[] accept[] worker[] body[ab]\n"
          "other [/] [] type[] accept[] worker[] body[]\n"
          "other [/] [] type[] accept[] worker[] body[ab]\n"
          "GET [/] [] type[] accept[] worker[] body[]\n");
}

static void an_absolute_target_is_cut_to_its_path(void **state)
{
    (void)state;
    CHECK("GET http://h:1/a/b?c HTTP/1.1\r\nHost: a\r\n\r\n"
          "GET HTTPS://h HTTP/1.1\r\nHost: a\r\n\r\n"
          "GET http://h?q HTTP/1.1\r\nHost: a\r\n\r\n",
          "GET [/a/b] [c] type[] accept[] worker[] body[]\n"
          "GET [/] [] type[] accept[] worker[] body[]\n"
          "GET [/] [q] type[] accept[] worker[] body[]\n");
}

static void http_1_0_needs_no_host_and_closes(void **state)
{
    (void)state;
    CHECK("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
          "GET [/] [] type[] accept[] worker[] body[] close old\n");
    CHECK("POST / HTTP/1.0\r\nContent-Length: 2\r\n\r\nab",
          "POST [/] [] type[] accept[] worker[] body[ab] close old\n");
}

static void an_upgrade_is_passed_over(void **state)
{
    (void)state;
    CHECK("GET /a HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
          "GET /b HTTP/1.1\r\nHost: a\r\n\r\n",
          "GET [/a] [] type[] accept[] worker[] body[]\n"
          "GET [/b] [] type[] accept[] worker[] body[]\n");
}

static void expect_continue_is_told_before_the_body(void **state)
{
    (void)state;
    CHECK("POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-Continue\r\nContent-Length: 3\r\n\r\nabc"
          "GET / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n\r\n",
          "continue\nPOST [/] [] type[] accept[] worker[] body[abc]\n"
          "GET [/] [] type[] accept[] worker[] body[]\n");
}

static void the_http2_preface_is_recognised(void **state)
{
    (void)state;
    CHECK("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\nxxx", "preface\n");
}

static void what_is_incomplete_gives_nothing(void **state)
{
    (void)state;
    CHECK("\r\n\r\n", "");
    CHECK("GET / HT", "in head\n");
    CHECK("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nab", "in body\n");
}

static void two_framings_of_a_body_are_refused(void **state)
{
    (void)state;
    const char *const texts[] = {
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\nabc",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3, 3\r\n\r\nabc",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: \r\n\r\nabc",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3 3\r\n\r\nabc",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +3\r\n\r\nabc",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0x3\r\n\r\nabc",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\nabc",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999999999999\r\n\r\nabc",
        "POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n"
         "Transfer-Encoding: identity\r\n\r\n"),
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, identity\r\n\r\n",
    };
    for (size_t i = 0; i < COUNT(texts); i++)
        check_refused(texts[i], "bad_request");
}

static void only_plain_chunked_is_a_transfer_encoding(void **state)
{
    (void)state;
    check_refused("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
                  "not_supported");
    check_refused("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: identity\r\n\r\n",
                  "not_supported");
}

static void malformed_requests_are_refused(void **state)
{
    (void)state;
    const char *const texts[] = {
        "GET / HTTP/1.1\r\n\r\n",                          /* no Host */
        "GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n",    /* two */
        "GET / HTTP/1.1\r\nHost: a\r\nX: b\r\n c\r\n\r\n", /* folded */
        "GET / HTTP/1.1\r\nHost: a\r\nX: b\r\n\t\r\n\r\n", /* folded into nothing */
        "GET / HTTP/1.1\r\nHost: a\r\nX:\r\n c\r\n\r\n",   /* an empty line folded */
        "GET / HTTP/1.1\r\nHost : a\r\n\r\n",              /* space before the colon */
        "GET / HTTP/1.1\r\n Host: a\r\n\r\n",              /* space before the first */
        "GET / HTTP/1.1\nHost: a\r\n\r\n",                 /* bare LF */
        "GET / HTTP/1.1\r\nHost: a\n\r\n",                 /* bare LF after a value */
        "GET / HTTP/1.1\r\nHost: a\rX: b\r\n\r\n",         /* bare CR */
        "GET / HTTP/1.1\r\nHost: a\r\nX: \001\r\n\r\n",    /* control character */
        "GET / HTTP/1.1\r\nHost: a\r\nX\r\n\r\n",          /* no colon */
        "GET / HTTP/1.1\r\nHost: a\r\n: b\r\n\r\n",        /* no name */
        "GET / HTTP/2.0\r\nHost: a\r\n\r\n",               /* not this version */
        "GET / HTTP/0.9\r\nHost: a\r\n\r\n",               /* nor this */
        "GET / HTTP/1.2\r\nHost: a\r\n\r\n",               /* nor this */
        "GET /\r\n\r\n",                                   /* no version */
        "GET  HTTP/1.1\r\nHost: a\r\n\r\n",                /* no target */
        "GET a HTTP/1.1\r\nHost: a\r\n\r\n",               /* no path */
        "GET /a#b HTTP/1.1\r\nHost: a\r\n\r\n",            /* a fragment */
        "GET /a b HTTP/1.1\r\nHost: a\r\n\r\n",            /* a space */
        "GET /\200 HTTP/1.1\r\nHost: a\r\n\r\n",           /* not ASCII */
        "CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n",         /* a tunnel */
        "G(ET / HTTP/1.1\r\nHost: a\r\n\r\n",              /* no token */
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n",
        "\026\003\001\002",
    };
    for (size_t i = 0; i < COUNT(texts); i++)
        check_refused(texts[i], "bad_request");
}

static void values_of_a_list_are_joined(void **state)
{
    (void)state;
    CHECK("GET / HTTP/1.1\r\nHost: a\r\nAccept: x\r\nContent-Encoding: y\r\naccept:\r\n"
          "Content-Encoding: z\r\nAccept: w \r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
          "GET [/] [] type[] accept[x, , w] worker[] body[]\n"
          "GET [/] [] type[] accept[] worker[] body[]\n");
}

/* A proxy in front of the server may go by another one of them. */
static void a_header_of_one_value_that_comes_twice_is_refused(void **state)
{
    (void)state;
    static const char *const names[] = {"Authorization",  "Content-Type", "Last-Event-Id", "Origin",
                                        "Sec-Fetch-Site", "Tenax-Strict", "worker-id"};
    for (size_t i = 0; i < COUNT(names); i++) {
        char text[200];
        snprintf(text, sizeof text, "GET / HTTP/1.1\r\nHost: a\r\n%s: b\r\nX: c\r\n%s: b\r\n\r\n",
                 names[i], names[i]);
        check_refused(text, "bad_request");
    }
}

static void a_body_over_the_limit_is_refused_by_its_announced_length(void **state)
{
    (void)state;
    CHECK("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1001\r\n\r\n",
          "bad body_too_large: the body of 1001 bytes is larger than the limit of 1000\n");
    CHECK("POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 1001\r\n\r\n",
          "bad body_too_large: the body of 1001 bytes is larger than the limit of 1000\n");
    CHECK("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n3e8\r\n",
          "bad body_too_large: the body is larger than the limit of 1000 bytes\n");
}

static void a_body_of_the_limit_is_accepted(void **state)
{
    (void)state;
    struct buf text = {0};
    buf_lit(&text, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n");
    for (int i = 0; i < 1000; i++)
        buf_byte(&text, 'x');
    struct buf log = transcript(buf_view(&text), 60, 7);
    assert_non_null(strstr(log.at, "xxx]\n"));
    assert_null(strstr(log.at, "bad"));
    buf_fini(&log);
    buf_fini(&text);
}

/* The ends of lines are rarely where the pieces end: check_text splits everywhere. */
static void extensions_of_chunks_are_passed_over(void **state)
{
    (void)state;
    static const char *const valid[] = {
        ";a",          ";a=b",        ";a=\"b c\"",       " ;a",
        "\t; a = b",   ";a =\"\"",    ";a=\"\\\"\\\\;\"", ";a;b;c=d",
        ";a=\"b\" ;c", ";a=b ;c = d", ";a=\"\xe4\t\""};
    static const char *const invalid[] = {
        ";",    ";=b",     ";a=",     ";a=\"b",      " ",  " a",    ";a=b c", ";a=\"b\"c",
        ";a b", ";a=\"\\", ";a=\x01", ";a=\"\x7f\"", ";;", ";a=b ", ";a\n"};
    char text[200];
    for (size_t i = 0; i < COUNT(valid); i++) {
        snprintf(text, sizeof text,
                 "PUT /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
                 "4%s\r\nWiki\r\n0%s\r\n\r\nGET /b HTTP/1.1\r\nHost: a\r\n\r\n",
                 valid[i], valid[i]);
        check_text(str_from(text), "PUT [/a] [] type[] accept[] worker[] body[Wiki]\n"
                                   "GET [/b] [] type[] accept[] worker[] body[]\n");
    }
    for (size_t i = 0; i < COUNT(invalid); i++) {
        snprintf(text, sizeof text,
                 "PUT /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n4%s\r\nWiki\r\n",
                 invalid[i]);
        struct buf log = transcript(str_from(text), 200, 200);
        if (strncmp(log.at, "bad bad_request: ", 17) != 0)
            fail_msg("4%s gave %s", invalid[i], log.at);
        buf_fini(&log);
    }
}

static void a_long_target_is_refused(void **state)
{
    (void)state;
    struct buf text = {0};
    buf_lit(&text, "GET /");
    for (int i = 0; i < HTTP1_TARGET_MAX; i++)
        buf_byte(&text, 'x');
    struct http1 *r = http1_new((uint64_t)64 * 1024, BODY_MAX);
    size_t used;
    assert_int_equal(http1_feed(r, text.at, text.len, &used), HTTP1_BAD);
    assert_int_equal(http1_error(r)->code, ERR_URI_LONG);
    http1_free(r);
    buf_fini(&text);
}

static void check_flood(const char *start, const char *again, size_t each)
{
    struct buf text = {0};
    buf_str(&text, str_from(start));
    while (text.len < 40000)
        buf_str(&text, str_from(again));
    struct buf log = transcript(buf_view(&text), each, each);
    assert_memory_equal(log.at, "bad headers_too_large", 21);
    buf_fini(&log);
    buf_fini(&text);
}

static void floods_of_what_is_not_body_are_refused(void **state)
{
    (void)state;
    static const size_t sizes[] = {1, 777, 40000};
    static const char chunked[] =
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    char trailers[128];
    snprintf(trailers, sizeof trailers, "%s0\r\n", chunked);
    char extension[128];
    snprintf(extension, sizeof extension, "%s1;", chunked);
    for (size_t i = 0; i < COUNT(sizes); i++) {
        check_flood("GET / HTTP/1.1\r\nHost: a\r\n", "a:\r\n", sizes[i]);
        check_flood("GET / HTTP/1.1\r\nHost: a\r\nX: ", "xxxxxxx", sizes[i]);
        check_flood(trailers, "a: b\r\n", sizes[i]);
        check_flood(extension, "xxxxxxx", sizes[i]);
    }
}

static void a_body_that_is_wanted_in_pieces_is_not_gathered(void **state)
{
    (void)state;
    CHECK(
        "PUT /pieces?x HTTP/1.1\r\nHost: a\r\nContent-Type: t\r\nContent-Length: 5\r\n\r\nhello"
        "PUT /pieces HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n"
        "\r\n3;a=b\r\nwor\r\n2\r\nld\r\n0\r\nX: y\r\n\r\n"
        "POST /pieces HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\n!"
        "PUT /pieces HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nConnection: close\r\n\r\n?GET",
        "PUT [/pieces] type[t] length 5 pieces[hello]\n"
        "PUT [/pieces] type[] length -1 expects pieces[world]\n"
        "POST [/pieces] [] type[] accept[] worker[] body[!]\n"
        "PUT [/pieces] type[] length 1 close pieces[?]\n");
    CHECK("PUT /pieces HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n"
          "PUT /pieces HTTP/1.0\r\nContent-Length: 1\r\n\r\n1",
          "PUT [/pieces] [] type[] accept[] worker[] body[]\n"
          "PUT [/pieces] type[] length 1 close pieces[1]\n");
    CHECK("PUT /pieces HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nab",
          "PUT [/pieces] type[] length 3 pieces[abin body\n");
}

static void a_body_in_pieces_may_have_any_length(void **state)
{
    (void)state;
    struct buf text = {0};
    buf_print(&text, "PUT /pieces HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n", 3 * BODY_MAX);
    for (int i = 0; i < 3 * BODY_MAX; i++)
        buf_byte(&text, 'x');
    buf_print(&text, "PUT /pieces HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n",
              3 * BODY_MAX);
    for (int i = 0; i < 3 * BODY_MAX; i++)
        buf_byte(&text, 'y');
    buf_lit(&text, "\r\n0\r\n\r\n");
    buf_lit(&text,
            "PUT /pieces HTTP/1.1\r\nHost: a\r\nContent-Length: 18446744073709551615\r\n\r\n!");
    struct buf log = transcript(buf_view(&text), 7, 501);
    assert_null(strstr(log.at, "bad"));
    assert_non_null(strstr(log.at, "length 3000 pieces[xxx"));
    assert_non_null(strstr(log.at, "length -1 pieces[yyy"));
    assert_non_null(strstr(log.at, "length 9223372036854775807 pieces[!in body"));
    buf_fini(&log);
    buf_fini(&text);
}

static void the_smallest_chunks_are_no_flood(void **state)
{
    (void)state;
    struct buf text = {0};
    buf_lit(&text, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
    for (int i = 0; i < BODY_MAX; i++)
        buf_lit(&text, "1\r\nx\r\n");
    buf_lit(&text, "0\r\n\r\n");
    struct buf log = transcript(buf_view(&text), 1, 1);
    assert_null(strstr(log.at, "bad"));
    assert_memory_equal(log.at, "POST", 4);
    buf_fini(&log);
    buf_fini(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_is_split_into_its_parts),
        cmocka_unit_test(pipelined_requests_come_out_one_by_one),
        cmocka_unit_test(chunks_are_put_together_and_trailers_passed_over),
        cmocka_unit_test(every_method_has_its_name_or_none),
        cmocka_unit_test(an_absolute_target_is_cut_to_its_path),
        cmocka_unit_test(http_1_0_needs_no_host_and_closes),
        cmocka_unit_test(an_upgrade_is_passed_over),
        cmocka_unit_test(expect_continue_is_told_before_the_body),
        cmocka_unit_test(the_http2_preface_is_recognised),
        cmocka_unit_test(what_is_incomplete_gives_nothing),
        cmocka_unit_test(two_framings_of_a_body_are_refused),
        cmocka_unit_test(only_plain_chunked_is_a_transfer_encoding),
        cmocka_unit_test(malformed_requests_are_refused),
        cmocka_unit_test(values_of_a_list_are_joined),
        cmocka_unit_test(a_header_of_one_value_that_comes_twice_is_refused),
        cmocka_unit_test(a_body_over_the_limit_is_refused_by_its_announced_length),
        cmocka_unit_test(a_body_of_the_limit_is_accepted),
        cmocka_unit_test(extensions_of_chunks_are_passed_over),
        cmocka_unit_test(a_long_target_is_refused),
        cmocka_unit_test(floods_of_what_is_not_body_are_refused),
        cmocka_unit_test(the_smallest_chunks_are_no_flood),
        cmocka_unit_test(a_body_that_is_wanted_in_pieces_is_not_gathered),
        cmocka_unit_test(a_body_in_pieces_may_have_any_length),
    };
    return cmocka_run_group_tests_name("http1", tests, NULL, NULL);
}
