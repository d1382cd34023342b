/* SPDX-License-Identifier: Apache-2.0 */

/* Bodies that a handler takes in pieces, over HTTP/1.1. */

#include "client.h"

#include <stdio.h>
#include <sys/socket.h>

#define PUT(fields)    "PUT /pieces HTTP/1.1\r\nHost: a\r\n" fields "\r\n"
#define LENGTH(length) PUT("Content-Length: " length "\r\n")
#define CHUNKED        PUT("Transfer-Encoding: chunked\r\n")
#define NEXT           "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nnext"

#define MIB ((size_t)1024 * 1024)

static void a_body_is_handed_over_as_it_comes(void **state)
{
    struct fixture *f = *state;
    fixture_serve(f);
    struct client c;
    struct taker *t = &f->takers[0];
    client_open(f, &c);
    client_send(&c, LENGTH("10"));
    AWAIT(f, f->taker_count == 1);
    assert_int_equal(t->length, 10);
    assert_int_equal(t->pieces, 0);
    client_send(&c, "hello");
    AWAIT(f, t->got.len == 5);
    client_send(&c, "world");
    client_expect(f, &c, "HTTP/1.1 200 OK\r\n");
    client_expect(f, &c, "\r\n\r\n10 bytes");
    assert_int_equal(t->pieces, 2);
    assert_memory_equal(t->got.at, "helloworld", 10);
    client_send(&c, NEXT);
    client_expect(f, &c, "\r\n\r\nnext");
    client_close(f, &c);
}

static void chunks_are_handed_over_without_their_framing(void **state)
{
    struct fixture *f = *state;
    fixture_serve(f);
    struct client c;
    struct taker *t = &f->takers[0];
    client_open(f, &c);
    client_send(&c, CHUNKED "5;x=y\r\nhello\r\n6\r\n wor");
    AWAIT(f, t->got.len == 9);
    assert_int_equal(t->length, -1);
    client_send(&c, "ld\r\n0\r\nA: b\r\n\r\n" NEXT);
    client_expect(f, &c, "\r\n\r\n11 bytes");
    client_expect(f, &c, "\r\n\r\nnext");
    assert_memory_equal(t->got.at, "hello world", 11);
    client_close(f, &c);
}

static void whatever_the_split_the_body_is_the_same(void **state)
{
    struct fixture *f = *state;
    fixture_serve(f);
    struct client c;
    client_open(f, &c);
    const char *text = CHUNKED "5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n" LENGTH("3") "abc" NEXT;
    for (const char *p = text; *p; p++) {
        client_send(&c, (char[]){*p, '\0'});
        fixture_settle(f);
    }
    client_expect(f, &c, "\r\n\r\n11 bytes");
    client_expect(f, &c, "\r\n\r\n3 bytes");
    client_expect(f, &c, "\r\n\r\nnext");
    assert_memory_equal(f->takers[0].got.at, "hello world", 11);
    assert_memory_equal(f->takers[1].got.at, "abc", 3);
    client_close(f, &c);
}

static void pipelined_bodies_and_requests_keep_apart(void **state)
{
    struct fixture *f = *state;
    fixture_serve(f);
    struct client c;
    client_open(f, &c);
    client_send(&c, LENGTH("3") "one" NEXT CHUNKED "3\r\ntwo\r\n0\r\n\r\n" LENGTH("0") NEXT);
    client_expect(f, &c, "\r\n\r\n3 bytes");
    client_expect(f, &c, "\r\n\r\nnext");
    client_expect(f, &c, "\r\n\r\n3 bytes");
    client_expect(f, &c, "\r\n\r\n0 bytes");
    client_expect(f, &c, "\r\n\r\nnext");
    assert_int_equal(f->takers[2].length, 0);
    assert_memory_equal(f->takers[0].got.at, "one", 3);
    assert_memory_equal(f->takers[1].got.at, "two", 3);
    client_close(f, &c);
}

static void a_body_may_be_larger_than_body_max(void **state)
{
    struct fixture *f = *state;
    f->settings.body_max = 10;
    fixture_serve(f);
    struct client c;
    client_open(f, &c);
    client_send(&c, LENGTH("3145728"));
    client_send_bytes(f, &c, 3 * MIB);
    client_expect(f, &c, "\r\n\r\n3145728 bytes");
    client_send(&c, "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 11\r\n\r\n");
    client_expect(f, &c, "413 Content Too Large");
    client_close(f, &c);
}

/* How many bytes a client can send until the server takes no more. */
static size_t fill(struct fixture *f, struct client *c)
{
    static const char bytes[65536];
    size_t sent = 0;
    for (int idle = 0; idle < 5;) {
        ssize_t n = send(c->fd, bytes, sizeof bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
        sent += n > 0 ? (size_t)n : 0;
        idle = n > 0 ? 0 : idle + 1;
        fixture_settle(f);
        assert_true(sent < 16 * MIB);
    }
    return sent;
}

static void a_pause_makes_the_peer_wait(void **state)
{
    struct fixture *f = *state;
    f->pause_each = 100000;
    f->settings.body_timeout.ms = 400;
    fixture_serve(f);
    struct client c;
    struct taker *t = &f->takers[0];
    client_open(f, &c);
    client_send(&c, LENGTH("16777216"));
    size_t sent = fill(f, &c);
    size_t got = t->got.len;
    assert_true(got >= 100000 && got < 200000);
    for (int i = 0; i < 10; i++) /* a pause of the taker's is no time-out */
        fixture_step(f);
    assert_int_equal(t->got.len, got);
    assert_int_equal(t->aborts, 0);
    f->pause_each = 0;
    fixture_go_on(t);
    AWAIT(f, t->got.len == sent);
    client_send_bytes(f, &c, 16 * MIB - sent);
    client_expect(f, &c, "\r\n\r\n16777216 bytes");
    client_close(f, &c);
}

static void a_pause_in_the_last_piece_keeps_the_end_back(void **state)
{
    struct fixture *f = *state;
    f->pause_each = 5;
    fixture_serve(f);
    struct client c;
    struct taker *t = &f->takers[0];
    client_open(f, &c);
    client_send(&c, LENGTH("5") "hello" NEXT);
    AWAIT(f, t->got.len == 5);
    fixture_settle(f);
    assert_int_equal(t->ends, 0);
    assert_int_equal(f->served, 1);
    fixture_go_on(t);
    client_expect(f, &c, "\r\n\r\n5 bytes");
    client_expect(f, &c, "\r\n\r\nnext");
    client_close(f, &c);
}

static void nothing_is_read_before_it_is_wanted(void **state)
{
    struct fixture *f = *state;
    f->takes_later = true;
    fixture_serve(f);
    struct client c;
    struct taker *t = &f->takers[0];
    client_open(f, &c);
    client_send(&c, LENGTH("5") "hello" LENGTH("0"));
    AWAIT(f, f->taker_count == 1);
    fixture_settle(f);
    assert_int_equal(t->pieces, 0);
    fixture_take(t);
    client_expect(f, &c, "\r\n\r\n5 bytes");
    AWAIT(f, f->taker_count == 2);
    fixture_settle(f);
    assert_int_equal(f->takers[1].ends, 0);
    fixture_take(&f->takers[1]);
    client_expect(f, &c, "\r\n\r\n0 bytes");
    client_close(f, &c);
}

static void who_expects_100_gets_it_when_the_body_is_wanted(void **state)
{
    struct fixture *f = *state;
    f->takes_later = true;
    fixture_serve(f);
    struct client c;
    client_open(f, &c);
    client_send(&c, "GET /held HTTP/1.1\r\nHost: a\r\n\r\n" PUT(
                        "Content-Length: 5\r\nExpect: 100-continue\r\n"));
    AWAIT(f, f->taker_count == 1);
    fixture_settle(f);
    assert_string_equal(c.in.at, "");
    fixture_take(&f->takers[0]);
    fixture_settle(f);
    assert_string_equal(c.in.at, ""); /* an earlier answer is due */
    fixture_answer(f->held[0], "first");
    client_expect(f, &c, "\r\n\r\nfirst");
    client_expect(f, &c, "HTTP/1.1 100 Continue\r\n\r\n");
    client_send(&c, "hello" NEXT);
    client_expect(f, &c, "HTTP/1.1 200 OK\r\n");
    client_expect(f, &c, "\r\n\r\n5 bytes");
    client_expect(f, &c, "\r\n\r\nnext");
    client_close(f, &c);
}

static void who_expects_100_and_is_refused_is_closed(void **state)
{
    struct fixture *f = *state;
    f->takes_later = true;
    fixture_serve(f);
    struct client c;
    client_open(f, &c);
    client_send(&c, PUT("Content-Length: 5\r\nExpect: 100-continue\r\n"));
    AWAIT(f, f->taker_count == 1);
    fixture_answer(f->takers[0].x, "no");
    client_expect(f, &c, "HTTP/1.1 200 OK\r\n");
    client_expect(f, &c, "Connection: close\r\n");
    client_expect(f, &c, "\r\n\r\nno");
    client_expect_end(f, &c);
    client_close(f, &c);
}

static void after_a_refusal_a_short_rest_is_thrown_away(void **state)
{
    struct fixture *f = *state;
    f->refuse_at = 3;
    fixture_serve(f);
    struct client c;
    client_open(f, &c);
    client_send(&c, LENGTH("100000") "abc");
    client_expect(f, &c, "HTTP/1.1 507 ");
    client_expect(f, &c, "\r\n\r\nfull");
    client_send_bytes(f, &c, 100000 - 3);
    client_send(&c, NEXT);
    client_expect(f, &c, "\r\n\r\nnext");
    assert_int_equal(f->takers[0].got.len, 3);
    assert_int_equal(f->takers[0].ends + f->takers[0].aborts, 0);
    client_close(f, &c);
}

static void after_a_refusal_a_long_rest_ends_the_connection(void **state)
{
    struct fixture *f = *state;
    f->refuse_at = 3;
    fixture_serve(f);
    static const char *const heads[] = {LENGTH("300000") "abc", CHUNKED "3\r\nabc\r\n",
                                        PUT("Connection: close\r\nContent-Length: 5\r\n") "abc"};
    for (size_t i = 0; i < sizeof heads / sizeof heads[0]; i++) {
        struct client c;
        client_open(f, &c);
        client_send(&c, heads[i]);
        client_expect(f, &c, "HTTP/1.1 507 ");
        client_expect(f, &c, "Connection: close\r\n");
        client_expect(f, &c, "\r\n\r\nfull");
        client_send_bytes(f, &c, 100000); /* it is read, so that the answer is not destroyed */
        client_expect_end(f, &c);
        assert_false(c.reset);
        client_close(f, &c);
    }
}

static void a_refusal_in_the_last_piece_is_an_answer(void **state)
{
    struct fixture *f = *state;
    f->refuse_at = 5;
    fixture_serve(f);
    struct client c;
    client_open(f, &c);
    client_send(&c, LENGTH("5") "hello" NEXT);
    client_expect(f, &c, "\r\n\r\nfull");
    client_expect(f, &c, "\r\n\r\nnext");
    assert_int_equal(f->takers[0].ends, 0);
    client_close(f, &c);
}

static void a_stalled_sender_times_out(void **state)
{
    struct fixture *f = *state;
    f->settings.body_timeout.ms = 40;
    fixture_serve(f);
    struct client c;
    client_open(f, &c);
    client_send(&c, LENGTH("10") "hello");
    client_expect(f, &c, "HTTP/1.1 408 Request Timeout\r\n");
    client_expect(f, &c, "Connection: close\r\n");
    client_expect(f, &c, "\r\n\r\nrequest_timeout");
    client_expect_end(f, &c);
    assert_int_equal(f->takers[0].why, ERR_REQUEST_TIMEOUT);
    client_close(f, &c);
}

static void a_rest_that_stalls_after_a_refusal_ends_the_connection(void **state)
{
    struct fixture *f = *state;
    f->refuse_at = 3;
    f->settings.body_timeout.ms = 40;
    fixture_serve(f);
    struct client c;
    client_open(f, &c);
    client_send(&c, LENGTH("100000") "abc");
    client_expect(f, &c, "\r\n\r\nfull");
    client_expect_end(f, &c);
    client_close(f, &c);
}

static void a_broken_chunk_is_an_abort(void **state)
{
    struct fixture *f = *state;
    fixture_serve(f);
    struct client c;
    client_open(f, &c);
    client_send(&c, CHUNKED "3\r\nabc\r\nzz\r\n");
    client_expect(f, &c, "HTTP/1.1 400 Bad Request\r\n");
    client_expect(f, &c, "\r\n\r\nbad_request");
    client_expect_end(f, &c);
    assert_int_equal(f->takers[0].aborts, 1);
    client_close(f, &c);
}

static void a_body_without_its_end_is_an_abort(void **state)
{
    struct fixture *f = *state;
    fixture_serve(f);
    struct client c;
    client_open(f, &c);
    client_send(&c, LENGTH("10") "hello");
    shutdown(c.fd, SHUT_WR);
    client_expect(f, &c, "HTTP/1.1 400 Bad Request\r\n");
    client_expect(f, &c, "\r\n\r\nbad_request");
    client_expect_end(f, &c);
    assert_int_equal(f->takers[0].aborts, 1);
    assert_int_equal(f->takers[0].got.len, 5);
    client_close(f, &c);
}

static void who_shuts_down_after_the_body_is_answered(void **state)
{
    struct fixture *f = *state;
    fixture_serve(f);
    struct client c;
    client_open(f, &c);
    client_send(&c, LENGTH("5") "hello");
    shutdown(c.fd, SHUT_WR);
    client_expect(f, &c, "\r\n\r\n5 bytes");
    client_expect_end(f, &c);
    client_close(f, &c);
}

static void vanish(struct fixture *f, struct client *c)
{
    struct linger now = {.l_onoff = 1, .l_linger = 0};
    setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    client_close(f, c);
    AWAIT(f, http_server_connections(f->server) == 0);
}

static void a_peer_that_goes_is_an_abort(void **state)
{
    struct fixture *f = *state;
    fixture_serve(f);
    struct client c;
    client_open(f, &c);
    client_send(&c, LENGTH("10") "hello");
    AWAIT(f, f->takers[0].got.len == 5);
    vanish(f, &c);
    assert_int_equal(f->takers[0].aborts, 1);
    assert_int_equal(f->takers[0].why, ERR_IO);
}

static void a_drain_lets_the_body_end(void **state)
{
    struct fixture *f = *state;
    fixture_serve(f);
    struct client c;
    client_open(f, &c);
    client_send(&c, LENGTH("10") "hello");
    AWAIT(f, f->takers[0].got.len == 5);
    http_server_drain(f->server, NULL, NULL);
    client_send(&c, "world");
    client_expect(f, &c, "Connection: close\r\n");
    client_expect(f, &c, "\r\n\r\n10 bytes");
    client_expect_end(f, &c);
    client_close(f, &c);
}

/* -- streams of known length ------------------------------------------------ */

static void a_sized_stream_has_a_length_and_the_connection_goes_on(void **state)
{
    struct fixture *f = *state;
    fixture_serve(f);
    struct client c;
    client_open(f, &c);
    client_send(&c, "GET /sized HTTP/1.1\r\nHost: a\r\n\r\n" NEXT);
    AWAIT(f, f->stream);
    http_stream_write(f->stream, STR("hello "));
    client_expect(f, &c, "X-Extra: 1\r\nContent-Length: 11\r\n\r\nhello ");
    http_stream_write(f->stream, STR("world"));
    http_stream_end(f->stream);
    client_expect(f, &c, "worldHTTP/1.1 200 OK\r\n");
    client_expect(f, &c, "\r\n\r\nnext");
    client_send(&c, "HEAD /sized HTTP/1.1\r\nHost: a\r\n\r\n" NEXT);
    AWAIT(f, f->stream);
    assert_true(http_is_head(f->stream));
    http_stream_end(f->stream);
    client_expect(f, &c, "Content-Length: 11\r\n\r\nHTTP/1.1 200 OK\r\n");
    client_expect(f, &c, "\r\n\r\nnext");
    assert_int_equal(f->closed, 2);
    client_close(f, &c);
}

static void a_sized_stream_reaches_a_peer_that_has_shut_down(void **state)
{
    struct fixture *f = *state;
    fixture_serve(f);
    struct client c;
    client_open(f, &c);
    client_send(&c, "GET /sized HTTP/1.1\r\nHost: a\r\n\r\n");
    shutdown(c.fd, SHUT_WR);
    AWAIT(f, f->stream);
    fixture_settle(f);
    http_stream_write(f->stream, STR("hello world"));
    http_stream_end(f->stream);
    client_expect(f, &c, "\r\n\r\nhello world");
    client_expect_end(f, &c);
    client_close(f, &c);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_body_is_handed_over_as_it_comes),
        TEST(chunks_are_handed_over_without_their_framing),
        TEST(whatever_the_split_the_body_is_the_same),
        TEST(pipelined_bodies_and_requests_keep_apart),
        TEST(a_body_may_be_larger_than_body_max),
        TEST(a_pause_makes_the_peer_wait),
        TEST(a_pause_in_the_last_piece_keeps_the_end_back),
        TEST(nothing_is_read_before_it_is_wanted),
        TEST(who_expects_100_gets_it_when_the_body_is_wanted),
        TEST(who_expects_100_and_is_refused_is_closed),
        TEST(after_a_refusal_a_short_rest_is_thrown_away),
        TEST(after_a_refusal_a_long_rest_ends_the_connection),
        TEST(a_refusal_in_the_last_piece_is_an_answer),
        TEST(a_stalled_sender_times_out),
        TEST(a_rest_that_stalls_after_a_refusal_ends_the_connection),
        TEST(a_broken_chunk_is_an_abort),
        TEST(a_body_without_its_end_is_an_abort),
        TEST(who_shuts_down_after_the_body_is_answered),
        TEST(a_peer_that_goes_is_an_abort),
        TEST(a_drain_lets_the_body_end),
        TEST(a_sized_stream_has_a_length_and_the_connection_goes_on),
        TEST(a_sized_stream_reaches_a_peer_that_has_shut_down),
    };
    return cmocka_run_group_tests_name("server_pieces", tests, NULL, NULL);
}
