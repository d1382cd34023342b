/* SPDX-License-Identifier: Apache-2.0 */

/* Connections that are served by threads of their own: the handler is told, and answers, as on one
 * thread. */

#include "client.h"

#include <sys/socket.h>

#include "net/io_threads.h"

#define GET(path) "GET " path " HTTP/1.1\r\nHost: a\r\n\r\n"
#define POST(length, body)                                                                         \
    "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: " length "\r\n\r\n" body
#define PUT(length) "PUT /pieces HTTP/1.1\r\nHost: a\r\nContent-Length: " length "\r\n\r\n"

#define CLIENTS 16
#define MIB     ((size_t)1024 * 1024)

static int setup(void **state)
{
    fixture_setup(state);
    ((struct fixture *)*state)->threads = 4;
    return 0;
}

static void close_rudely(struct fixture *f, struct client *c)
{
    struct linger reset = {1, 0};
    assert_int_equal(setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset), 0);
    client_close(f, c);
}

static void each_connection_gets_its_own_answers_in_order(void **state)
{
    struct fixture *f = *state;
    fixture_serve(f);
    struct client c[CLIENTS];
    for (int i = 0; i < CLIENTS; i++)
        client_open(f, &c[i]);
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < CLIENTS; i++) {
            struct buf text = {0};
            buf_print(&text, POST("4", "%04d") POST("5", "next%d"), i * 100 + round, round % 10);
            buf_byte(&text, '\0');
            client_send(&c[i], text.at);
            buf_fini(&text);
        }
        for (int i = 0; i < CLIENTS; i++) {
            struct buf first = {0}, second = {0};
            buf_print(&first, "X-Extra: 1\r\nContent-Length: 4\r\n\r\n%04d", i * 100 + round);
            buf_print(&second, "\r\n\r\nnext%d", round % 10);
            buf_byte(&first, '\0');
            buf_byte(&second, '\0');
            client_expect(f, &c[i], first.at);
            client_expect(f, &c[i], second.at);
            buf_fini(&first);
            buf_fini(&second);
        }
    }
    assert_int_equal(f->served, CLIENTS * 20 * 2);
    struct http_stats stats;
    io_threads_stats(f->io, &stats);
    assert_int_equal(stats.accepted, CLIENTS);
    assert_int_equal(stats.connections, CLIENTS);
    assert_int_equal(stats.replies[2], f->served);
    for (int i = 0; i < CLIENTS; i++)
        client_close(f, &c[i]);
    AWAIT(f, io_threads_connections(f->io) == 0);
}

static void headers_arrive(void **state)
{
    struct fixture *f = *state;
    fixture_serve(f);
    struct buf request = {0}, want = {0};
    buf_lit(&request, "GET /headers HTTP/1.1\r\n");
    buf_lit(&want, "\r\n\r\n");
    for (size_t i = 0; header_names[i]; i++) {
        buf_print(&request, "%s: %s\r\n", header_names[i], header_sample(header_names[i]));
        buf_print(&want, "%s: %s\n", header_names[i], header_sample(header_names[i]));
    }
    buf_add(&request, "\r\n", 3);
    buf_byte(&want, '\0');
    struct client c;
    client_open(f, &c);
    client_send(&c, request.at);
    client_expect(f, &c, want.at);
    client_close(f, &c);
    buf_fini(&request);
    buf_fini(&want);
}

static void later_answers_wait_for_earlier_ones(void **state)
{
    struct fixture *f = *state;
    fixture_serve(f);
    struct client c;
    client_open(f, &c);
    client_send(&c, GET("/held") POST("5", "after"));
    AWAIT(f, f->served == 2);
    fixture_answer(f->held[0], "before");
    client_expect(f, &c, "\r\n\r\nbefore");
    client_expect(f, &c, "\r\n\r\nafter");
    client_close(f, &c);
}

static void on_gone(void *ctx)
{
    ((struct fixture *)ctx)->gone++;
}

static void an_owner_hears_that_its_peer_has_gone(void **state)
{
    struct fixture *f = *state;
    fixture_serve(f);
    struct client c[2];
    for (int i = 0; i < 2; i++) {
        client_open(f, &c[i]);
        client_send(&c[i], GET("/held"));
        AWAIT(f, f->held_count == i + 1);
    }
    http_on_gone(f->held[0], on_gone, f);
    close_rudely(f, &c[0]);
    AWAIT(f, f->gone == 1);
    fixture_answer(f->held[0], "nobody reads this");
    AWAIT(f, io_threads_connections(f->io) == 1);
    fixture_answer(f->held[1], "but this");
    client_expect(f, &c[1], "\r\n\r\nbut this");
    client_close(f, &c[1]);
}

static void who_will_send_no_more_may_still_read(void **state)
{
    struct fixture *f = *state;
    fixture_serve(f);
    struct client c;
    client_open(f, &c);
    client_send(&c, GET("/held") GET("/held"));
    AWAIT(f, f->held_count == 2);
    http_on_gone(f->held[0], on_gone, f);
    shutdown(c.fd, SHUT_WR);
    AWAIT(f, f->gone == 1);
    http_on_gone(f->held[1], on_gone, f);
    AWAIT(f, f->gone == 2);
    fixture_answer(f->held[0], "one");
    fixture_answer(f->held[1], "two");
    client_expect(f, &c, "\r\n\r\none");
    client_expect(f, &c, "\r\n\r\ntwo");
    client_expect_end(f, &c);
    client_close(f, &c);
}

static void on_drained(void *ctx)
{
    ((struct fixture *)ctx)->drained++;
}

static void a_stream_is_held_back_while_its_peer_does_not_read(void **state)
{
    struct fixture *f = *state;
    fixture_serve(f);
    struct client c;
    client_open(f, &c);
    client_send(&c, GET("/stream"));
    AWAIT(f, f->stream);
    http_stream_on_drain(f->stream, on_drained);
    client_pause(&c);
    struct buf piece = {0};
    memset(buf_room(&piece, MIB / 16), 'x', MIB / 16);
    piece.len = MIB / 16;
    size_t written = 0;
    for (int quiet = 0; quiet < 50; quiet++) {
        for (; !http_must_wait(f->stream); written += piece.len, quiet = 0)
            http_stream_write(f->stream, buf_view(&piece));
        fixture_settle(f);
    }
    /* A slow thread may have taken some of it only now. */
    for (; !http_must_wait(f->stream); written += piece.len)
        http_stream_write(f->stream, buf_view(&piece));
    assert_in_range(written, MIB / 4, 32 * MIB);
    f->drained = 0;
    client_resume(&c);
    AWAIT(f, f->drained > 0);
    http_stream_write(f->stream, STR("the end"));
    http_stream_end(f->stream);
    assert_int_equal(f->closed, 1);
    client_expect(f, &c, "the end\r\n0\r\n\r\n");
    client_close(f, &c);
    buf_fini(&piece);
}

static void streams_end_with_their_peers(void **state)
{
    struct fixture *f = *state;
    fixture_serve(f);
    struct client c[2];
    client_open(f, &c[0]);
    client_send(&c[0], GET("/stream"));
    AWAIT(f, f->stream);
    http_stream_write(f->stream, STR("hello"));
    client_expect(f, &c[0], "hello");
    close_rudely(f, &c[0]);
    AWAIT(f, f->closed == 1);
    client_open(f, &c[1]);
    client_send(&c[1], GET("/sized"));
    AWAIT(f, f->stream);
    http_stream_write(f->stream, STR("hello"));
    client_expect(f, &c[1], "hello");
    http_stream_abort(f->stream);
    AWAIT(f, f->closed == 2);
    client_expect_end(f, &c[1]);
    client_close(f, &c[1]);
}

static void a_body_comes_in_pieces_as_fast_as_it_is_taken(void **state)
{
    struct fixture *f = *state;
    f->pause_each = 3 * MIB;
    fixture_serve(f);
    struct client c;
    struct taker *t = &f->takers[0];
    client_open(f, &c);
    client_send(&c, PUT("8388608"));
    AWAIT(f, f->taker_count == 1);
    for (size_t i = 0; i < 8; i++) {
        struct buf piece = {0};
        memset(buf_room(&piece, MIB), 'a' + (int)i, MIB);
        piece.len = MIB;
        size_t sent = 0;
        while (sent < MIB) {
            ssize_t n = send(c.fd, piece.at + sent, MIB - sent, MSG_DONTWAIT | MSG_NOSIGNAL);
            sent += n > 0 ? (size_t)n : 0;
            fixture_settle(f);
            if (n < 0)
                fixture_go_on(t);
        }
        buf_fini(&piece);
    }
    while (t->got.len < 8 * MIB) {
        fixture_go_on(t);
        fixture_settle(f);
    }
    for (size_t i = 0; i < 8; i++)
        assert_int_equal(t->got.at[i * MIB + 5], 'a' + (int)i);
    AWAIT(f, t->ends == 1);
    client_expect(f, &c, "8388608 bytes");
    client_send(&c, POST("4", "more"));
    client_expect(f, &c, "\r\n\r\nmore");
    client_close(f, &c);
}

static void a_body_that_never_ends_is_aborted(void **state)
{
    struct fixture *f = *state;
    fixture_serve(f);
    struct client c;
    struct taker *t = &f->takers[0];
    client_open(f, &c);
    client_send(&c, PUT("10"));
    client_send(&c, "hello");
    AWAIT(f, t->got.len == 5);
    close_rudely(f, &c);
    AWAIT(f, t->aborts == 1);
    assert_int_equal(t->why, ERR_IO);
    assert_int_equal(t->ends, 0);
}

static void on_done(void *ctx)
{
    ((struct fixture *)ctx)->done++;
}

static void draining_answers_what_is_under_way(void **state)
{
    struct fixture *f = *state;
    fixture_serve(f);
    struct client busy, idle, silent;
    client_open(f, &busy);
    client_open(f, &idle);
    client_open(f, &silent);
    client_send(&busy, GET("/held"));
    client_send(&idle, POST("2", "hi"));
    client_expect(f, &idle, "\r\n\r\nhi");
    AWAIT(f, f->held_count == 1 && io_threads_connections(f->io) == 3);
    io_threads_drain(f->io, on_done, f);
    client_expect_end(f, &idle);
    client_expect_end(f, &silent);
    client_close(f, &idle);
    client_close(f, &silent);
    assert_int_equal(f->done, 0);
    fixture_answer(f->held[0], "bye");
    client_expect(f, &busy, "Connection: close\r\nContent-Length: 3\r\n\r\nbye");
    client_expect_end(f, &busy);
    client_close(f, &busy);
    AWAIT(f, f->done == 1);
}

static void closing_ends_everything_at_once(void **state)
{
    struct fixture *f = *state;
    fixture_serve(f);
    struct client c[3];
    for (int i = 0; i < 3; i++)
        client_open(f, &c[i]);
    client_send(&c[0], GET("/held"));
    client_send(&c[1], GET("/stream"));
    AWAIT(f, f->held_count == 1 && f->stream);
    fixture_close_server(f);
    AWAIT(f, f->closed == 1);
    fixture_answer(f->held[0], "nobody reads this");
    for (int i = 0; i < 3; i++) {
        AWAIT(f, c[i].ended);
        client_close(f, &c[i]);
    }
}

static void too_many_connections_are_refused(void **state)
{
    struct fixture *f = *state;
    f->settings.connections_max = 2;
    fixture_serve(f);
    struct client c[3];
    for (int i = 0; i < 3; i++) {
        client_open(f, &c[i]);
        AWAIT(f, io_threads_connections(f->io) == i + 1);
    }
    client_expect(f, &c[2], "HTTP/1.1 503 ");
    client_close(f, &c[2]);
    client_send(&c[1], POST("2", "ok"));
    client_expect(f, &c[1], "\r\n\r\nok");
    client_close(f, &c[0]);
    client_close(f, &c[1]);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, fixture_teardown)
    const struct CMUnitTest tests[] = {
        TEST(each_connection_gets_its_own_answers_in_order),
        TEST(headers_arrive),
        TEST(later_answers_wait_for_earlier_ones),
        TEST(an_owner_hears_that_its_peer_has_gone),
        TEST(who_will_send_no_more_may_still_read),
        TEST(a_stream_is_held_back_while_its_peer_does_not_read),
        TEST(streams_end_with_their_peers),
        TEST(a_body_comes_in_pieces_as_fast_as_it_is_taken),
        TEST(a_body_that_never_ends_is_aborted),
        TEST(draining_answers_what_is_under_way),
        TEST(closing_ends_everything_at_once),
        TEST(too_many_connections_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
