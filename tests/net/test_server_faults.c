/* SPDX-License-Identifier: Apache-2.0 */
#include "client.h"

#include <stdio.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#define GET(path) "GET " path " HTTP/1.1\r\nHost: a\r\n\r\n"

static void on_gone(void *ctx)
{
    struct fixture *f = ctx;
    f->gone++;
}

static void vanish(struct fixture *f, struct client *c)
{
    struct linger now = {.l_onoff = 1, .l_linger = 0}; /* a reset instead of an orderly end */
    setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    client_close(f, c);
    AWAIT(f, http_server_connections(f->server) == 0);
}

/* -- bad input -------------------------------------------------------------- */

static void check_refusal(struct fixture *f, const char *request, const char *status,
                          const char *code)
{
    struct client c;
    char line[128], field[64];
    snprintf(line, sizeof line, "HTTP/1.1 %s\r\n", status);
    snprintf(field, sizeof field, "\"code\":\"%s\"}", code);
    client_open(f, &c);
    client_send(&c, request);
    client_expect(f, &c, line);
    client_expect(f, &c, "Content-Type: application/json\r\n");
    client_expect(f, &c, "Connection: close\r\n");
    client_expect(f, &c, "\r\n\r\n{\"error\":\"");
    client_expect(f, &c, field);
    client_expect_end(f, &c);
    assert_false(c.reset);
    client_close(f, &c);
}

static void bad_requests_are_told_why_and_closed(void **state)
{
    struct fixture *f = *state;
    f->settings.body_max = 100;
    f->settings.header_max = 1000;
    fixture_serve(f);
    char flood[3000] = "GET / HTTP/1.1\r\nHost: a\r\nX: ";
    size_t len = strlen(flood);
    memset(flood + len, 'x', 2000);
    check_refusal(f, "what\r\n", "400 Bad Request", "bad_request");
    check_refusal(f, "GET / HTTP/1.1\r\n\r\n", "400 Bad Request", "bad_request");
    check_refusal(f, flood, "431 Request Header Fields Too Large", "headers_too_large");
    check_refusal(f, "PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 101\r\n\r\n",
                  "413 Content Too Large", "body_too_large");
    check_refusal(f, "PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n",
                  "501 Not Implemented", "not_supported");
    assert_int_equal(f->served, 0);
}

static void a_refusal_waits_for_earlier_replies(void **state)
{
    struct fixture *f = *state;
    fixture_serve(f);
    struct client c;
    client_open(f, &c);
    client_send(&c, GET("/held") "nonsense\r\n\r\n");
    AWAIT(f, f->held_count == 1);
    fixture_settle(f);
    fixture_answer(f->held[0], "first");
    client_expect(f, &c, "\r\n\r\nfirstHTTP/1.1 400 Bad Request");
    client_expect(f, &c, "\"code\":\"bad_request\"}");
    client_expect_end(f, &c);
    client_close(f, &c);
}

static void a_large_body_is_refused_so_that_its_sender_can_read_why(void **state)
{
    struct fixture *f = *state;
    f->settings.body_max = 1000;
    fixture_serve(f);
    struct client c;
    client_open(f, &c);
    client_send(&c, "PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 999999\r\n\r\n");
    char part[10001];
    memset(part, 'x', sizeof part - 1);
    part[sizeof part - 1] = '\0';
    for (int i = 0; i < 20; i++) {
        client_send(&c, part);
        fixture_settle(f);
    }
    client_expect(f, &c, "HTTP/1.1 413 Content Too Large");
    client_expect(f, &c, "\"code\":\"body_too_large\"}");
    client_expect_end(f, &c);
    assert_false(c.reset);
    client_close(f, &c);
}

static void connections_over_the_limit_are_told_busy(void **state)
{
    struct fixture *f = *state;
    f->settings.connections_max = 1;
    fixture_serve(f);
    struct client first;
    client_open(f, &first);
    AWAIT(f, http_server_connections(f->server) == 1);
    check_refusal(f, GET("/echo"), "503 Service Unavailable", "busy");
    client_send(&first, GET("/none"));
    client_expect(f, &first, "HTTP/1.1 204 No Content");
    client_close(f, &first);
}

/* -- time ------------------------------------------------------------------- */

static void slow_headers_time_out(void **state)
{
    struct fixture *f = *state;
    f->settings.header_timeout.ms = 40;
    fixture_serve(f);
    check_refusal(f, "GET / HT", "408 Request Timeout", "request_timeout");
}

static void dripping_headers_time_out_all_the_same(void **state)
{
    struct fixture *f = *state;
    f->settings.header_timeout.ms = 40;
    f->settings.header_max = 10000000;
    fixture_serve(f);
    struct client c;
    client_open(f, &c);
    client_send(&c, "GET / HTTP/1.1\r\nX: ");
    while (!c.in.len) { /* each turn of the loop sends more, so that no turn is quiet */
        client_send(&c, "x");
        fixture_step(f);
    }
    client_expect(f, &c, "HTTP/1.1 408 Request Timeout");
    vanish(f, &c);
}

static void a_slow_body_times_out(void **state)
{
    struct fixture *f = *state;
    f->settings.body_timeout.ms = 40;
    fixture_serve(f);
    check_refusal(f, "PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nab",
                  "408 Request Timeout", "request_timeout");
}

static void an_idle_connection_is_closed_without_a_word(void **state)
{
    struct fixture *f = *state;
    f->settings.idle_timeout.ms = 40;
    fixture_serve(f);
    struct client fresh, used;
    client_open(f, &fresh);
    client_open(f, &used);
    client_send(&used, GET("/none"));
    client_expect(f, &used, "\r\n\r\n");
    client_expect_end(f, &fresh);
    client_expect_end(f, &used);
    client_close(f, &fresh);
    client_close(f, &used);
}

static void waiting_for_a_reply_is_not_idle(void **state)
{
    struct fixture *f = *state;
    f->settings.idle_timeout.ms = 40;
    fixture_serve(f);
    struct client waiting, idle;
    client_open(f, &waiting);
    client_send(&waiting, GET("/held"));
    AWAIT(f, f->held_count == 1);
    client_open(f, &idle);
    client_expect_end(f, &idle); /* later than the other would have been closed */
    fixture_answer(f->held[0], "here");
    client_expect(f, &waiting, "here");
    client_close(f, &idle);
    client_close(f, &waiting);
}

static void a_peer_that_does_not_read_is_closed(void **state)
{
    struct fixture *f = *state;
    f->settings.write_timeout.ms = 40;
    fixture_serve(f);
    struct client c;
    client_open(f, &c);
    client_pause(&c);
    for (int i = 0; i < 20; i++)
        client_send(&c, GET("/large"));
    AWAIT(f, f->served > 0);
    AWAIT(f, http_server_connections(f->server) == 0);
    client_close(f, &c);
}

/* -- peers that go away ----------------------------------------------------- */

static void a_half_closed_client_gets_its_reply(void **state)
{
    struct fixture *f = *state;
    fixture_serve(f);
    struct client c;
    client_open(f, &c);
    client_send(&c, GET("/held") GET("/none"));
    shutdown(c.fd, SHUT_WR);
    AWAIT(f, f->served == 2);
    fixture_settle(f);
    fixture_answer(f->held[0], "late");
    client_expect(f, &c, "\r\n\r\nlate");
    client_expect(f, &c, "HTTP/1.1 204 No Content");
    client_expect(f, &c, "\r\n\r\n");
    client_expect_end(f, &c);
    assert_false(c.reset);
    client_close(f, &c);
}

static void a_half_closed_client_of_a_stream_is_gone(void **state)
{
    struct fixture *f = *state;
    fixture_serve(f);
    struct client c;
    client_open(f, &c);
    client_send(&c, GET("/stream"));
    AWAIT(f, f->stream);
    shutdown(c.fd, SHUT_WR);
    AWAIT(f, f->closed == 1);
    client_close(f, &c);
    fixture_settle(f);
    assert_int_equal(f->closed, 1);
}

static void a_stream_begun_for_a_gone_client_is_closed(void **state)
{
    struct fixture *f = *state;
    fixture_serve(f);
    struct client c;
    client_open(f, &c);
    client_send(&c, GET("/stream"));
    shutdown(c.fd, SHUT_WR);
    AWAIT(f, f->closed == 1);
    client_close(f, &c);
    assert_int_equal(f->closed, 1);
}

static void a_reply_to_a_vanished_peer_goes_nowhere(void **state)
{
    struct fixture *f = *state;
    fixture_serve(f);
    struct client c;
    client_open(f, &c);
    client_send(&c, GET("/held") GET("/held") GET("/held"));
    AWAIT(f, f->held_count == 3);
    http_on_gone(f->held[0], on_gone, f);
    http_on_gone(f->held[1], on_gone, f);
    http_on_gone(f->held[1], NULL, NULL);
    fixture_answer(f->held[2], "never sent");
    vanish(f, &c);
    assert_int_equal(f->gone, 1);
    fixture_answer(f->held[0], "nobody");
    fixture_answer(f->held[1], "nobody");
}

static void give_up_all(void *ctx)
{
    struct fixture *f = ctx;
    f->gone++;
    while (f->held_count)
        fixture_answer(f->held[--f->held_count], "");
}

static void gone_may_answer_every_exchange_of_the_connection(void **state)
{
    struct fixture *f = *state;
    fixture_serve(f);
    struct client c;
    client_open(f, &c);
    client_send(&c, GET("/held") GET("/held") GET("/held"));
    AWAIT(f, f->held_count == 3);
    for (int i = 0; i < 3; i++)
        http_on_gone(f->held[i], give_up_all, f);
    vanish(f, &c);
    assert_int_equal(f->gone, 1);
    assert_int_equal(f->held_count, 0);
}

static void a_half_closed_long_poll_is_told_and_still_answered(void **state)
{
    struct fixture *f = *state;
    fixture_serve(f);
    struct client c;
    client_open(f, &c);
    client_send(&c, GET("/held") GET("/held"));
    AWAIT(f, f->held_count == 2);
    http_on_gone(f->held[0], give_up_all, f);
    shutdown(c.fd, SHUT_WR);
    client_expect(f, &c, "Content-Length: 0\r\n\r\nHTTP/1.1 200 OK");
    client_expect(f, &c, "Content-Length: 0\r\n\r\n");
    client_expect_end(f, &c);
    assert_int_equal(f->gone, 1);
    client_close(f, &c);
}

static void whoever_asks_after_the_peer_has_gone_is_told(void **state)
{
    struct fixture *f = *state;
    fixture_serve(f);
    struct client half, whole;
    client_open(f, &half);
    client_send(&half, GET("/held"));
    shutdown(half.fd, SHUT_WR);
    AWAIT(f, f->held_count == 1);
    fixture_settle(f);
    http_on_gone(f->held[0], on_gone, f);
    assert_int_equal(f->gone, 0);
    AWAIT(f, f->gone == 1);
    fixture_answer(f->held[0], "");
    client_expect(f, &half, "Content-Length: 0\r\n\r\n");
    client_close(f, &half);

    client_open(f, &whole);
    client_send(&whole, GET("/held"));
    AWAIT(f, f->held_count == 2);
    vanish(f, &whole);
    http_on_gone(f->held[1], on_gone, f);
    assert_int_equal(f->gone, 1);
    AWAIT(f, f->gone == 2);
    fixture_answer(f->held[1], "");
}

static void a_stream_of_a_vanished_peer_is_closed_once(void **state)
{
    struct fixture *f = *state;
    fixture_serve(f);
    struct client c;
    client_open(f, &c);
    client_send(&c, GET("/stream"));
    AWAIT(f, f->stream);
    http_stream_write(f->stream, STR("lost"));
    vanish(f, &c);
    assert_int_equal(f->closed, 1);
}

/* -- overload --------------------------------------------------------------- */

static void on_drain(void *ctx)
{
    struct fixture *f = ctx;
    f->drained++;
}

static void a_stream_learns_of_its_backlog_and_its_end(void **state)
{
    struct fixture *f = *state;
    f->settings.backlog_max = 100000;
    fixture_serve(f);
    struct client c;
    client_open(f, &c);
    client_send(&c, GET("/stream"));
    client_expect(f, &c, "\r\n\r\n");
    client_pause(&c);
    http_stream_on_drain(f->stream, on_drain);
    static char block[50000];
    memset(block, 'x', sizeof block);
    size_t sent = 0;
    while (!http_backlogged(f->stream)) {
        http_stream_write(f->stream, (struct str){block, sizeof block});
        sent += sizeof block;
        fixture_settle(f);
    }
    assert_int_equal(f->drained, 0);
    client_resume(&c);
    AWAIT(f, f->drained == 1);
    assert_false(http_backlogged(f->stream));
    AWAIT(f, c.in.len > sent);
    http_stream_end(f->stream);
    client_expect(f, &c, "\r\n0\r\n\r\n");
    client_close(f, &c);
}

static void a_backlog_stops_reading_until_it_has_drained(void **state)
{
    struct fixture *f = *state;
    f->settings.backlog_max = 100000;
    fixture_serve(f);
    struct client c;
    client_open(f, &c);
    client_pause(&c);
    for (int i = 0; i < 50; i++)
        client_send(&c, GET("/large"));
    AWAIT(f, f->served > 0);
    fixture_settle(f);
    assert_in_range(f->served, 1, 49);
    client_resume(&c);
    AWAIT(f, c.in.len > (size_t)50 * 1024 * 1024);
    assert_int_equal(f->served, 50);
    client_close(f, &c);
}

static void running_out_of_descriptors_is_survived(void **state)
{
    struct fixture *f = *state;
    fixture_serve(f);
    struct client lost, served;
    client_open(f, &lost);
    int lowest = dup(0);
    assert_true(lowest >= 0);
    close(lowest);
    struct rlimit usual;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &usual), 0);
    struct rlimit none = {.rlim_cur = (rlim_t)lowest, .rlim_max = usual.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    AWAIT(f, lost.ended);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &usual), 0);
    client_close(f, &lost);
    client_open(f, &served);
    client_send(&served, GET("/none"));
    client_expect(f, &served, "HTTP/1.1 204 No Content");
    client_close(f, &served);
}

static void the_server_may_be_closed_from_inside_a_handler(void **state)
{
    struct fixture *f = *state;
    fixture_serve(f);
    struct client waiting, streaming, closing;
    client_open(f, &waiting);
    client_open(f, &streaming);
    client_open(f, &closing);
    client_send(&waiting, GET("/held"));
    client_send(&streaming, GET("/stream"));
    AWAIT(f, f->served == 2);
    client_send(&closing, GET("/close") GET("/echo"));
    AWAIT(f, waiting.ended && streaming.ended && closing.ended);
    assert_int_equal(f->served, 3);
    assert_int_equal(f->closed, 1);
    fixture_answer(f->held[0],
                   "after the end"); /* the server's memory is freed with the last exchange */
    client_close(f, &waiting);
    client_close(f, &streaming);
    client_close(f, &closing);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(bad_requests_are_told_why_and_closed),
        TEST(a_refusal_waits_for_earlier_replies),
        TEST(a_large_body_is_refused_so_that_its_sender_can_read_why),
        TEST(connections_over_the_limit_are_told_busy),
        TEST(slow_headers_time_out),
        TEST(dripping_headers_time_out_all_the_same),
        TEST(a_slow_body_times_out),
        TEST(an_idle_connection_is_closed_without_a_word),
        TEST(waiting_for_a_reply_is_not_idle),
        TEST(a_peer_that_does_not_read_is_closed),
        TEST(a_half_closed_client_gets_its_reply),
        TEST(a_half_closed_client_of_a_stream_is_gone),
        TEST(a_stream_begun_for_a_gone_client_is_closed),
        TEST(a_reply_to_a_vanished_peer_goes_nowhere),
        TEST(gone_may_answer_every_exchange_of_the_connection),
        TEST(a_half_closed_long_poll_is_told_and_still_answered),
        TEST(whoever_asks_after_the_peer_has_gone_is_told),
        TEST(a_stream_of_a_vanished_peer_is_closed_once),
        TEST(a_stream_learns_of_its_backlog_and_its_end),
        TEST(a_backlog_stops_reading_until_it_has_drained),
        TEST(running_out_of_descriptors_is_survived),
        TEST(the_server_may_be_closed_from_inside_a_handler),
    };
    return cmocka_run_group_tests_name("server_faults", tests, NULL, NULL);
}
