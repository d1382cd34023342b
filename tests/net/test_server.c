/* SPDX-License-Identifier: Apache-2.0 */
#include "client.h"

#include <ctype.h>
#include <stdio.h>
#include <sys/socket.h>

/* More than the sockets of both ends take. */
#define LARGE_ANSWER ((size_t)16 << 20)

#define GET(path) "GET " path " HTTP/1.1\r\nHost: a\r\n\r\n"
#define POST(length, body)                                                                         \
    "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: " length "\r\n\r\n" body

static void a_request_is_answered(void **state)
{
    struct fixture *f = *state;
    fixture_serve(f);
    struct client c;
    client_open(f, &c);
    client_send(&c, POST("5", "hello"));
    client_expect(f, &c, "HTTP/1.1 200 OK\r\nDate: ");
    client_expect(f, &c,
                  " GMT\r\nContent-Type: text/plain\r\nX-Extra: 1\r\n"
                  "Content-Length: 5\r\n\r\nhello");
    assert_int_equal(http_server_connections(f->server), 1);
    client_close(f, &c);
}

/* In lower case and in upper case. */
static void each_header_of_the_table_reaches_the_handler(void **state)
{
    struct fixture *f = *state;
    fixture_serve(f);
    struct client c;
    client_open(f, &c);
    for (size_t i = 0; header_names[i]; i++) {
        const char *name = header_names[i], *value = header_sample(name);
        bool host = strcmp(name, "host") == 0;
        char upper[32] = "", text[256], want[128];
        for (size_t n = 0; name[n]; n++)
            upper[n] = (char)toupper(name[n]);
        snprintf(text, sizeof text, "GET /headers HTTP/1.1\r\n%s%s: %s \r\n\r\n",
                 host ? "" : "Host: a\r\n", i % 2 ? name : upper, value);
        snprintf(want, sizeof want, "%s: %s\n", name, value);
        client_send(&c, text);
        client_expect(f, &c, want);
    }
    /* None of them is left for the next request. */
    client_send(&c, GET("/headers"));
    client_expect(f, &c, "Content-Length: 8\r\n\r\nhost: a\n");
    client_close(f, &c);
}

static void one_connection_serves_many_requests(void **state)
{
    struct fixture *f = *state;
    fixture_serve(f);
    struct client c;
    client_open(f, &c);
    for (int i = 0; i < 100; i++) {
        char text[128], want[32];
        snprintf(text, sizeof text, POST("3", "%03d"), i);
        snprintf(want, sizeof want, "\r\n\r\n%03d", i);
        client_send(&c, text);
        client_expect(f, &c, want);
    }
    assert_int_equal(f->served, 100);
    client_close(f, &c);
}

static void replies_keep_the_order_of_the_requests(void **state)
{
    struct fixture *f = *state;
    fixture_serve(f);
    struct client c;
    client_open(f, &c);
    client_send(&c, GET("/held") GET("/held") POST("5", "third") GET("/held"));
    AWAIT(f, f->held_count == 3);
    fixture_answer(f->held[2], "fourth");
    fixture_answer(f->held[1], "second");
    fixture_settle(f);
    assert_string_equal(c.in.at, "");
    fixture_answer(f->held[0], "first");
    client_expect(f, &c, "\r\n\r\nfirst");
    client_expect(f, &c, "\r\n\r\nsecond");
    client_expect(f, &c, "\r\n\r\nthird");
    client_expect(f, &c, "\r\n\r\nfourth");
    client_close(f, &c);
}

static void requests_over_pipeline_max_wait_their_turn(void **state)
{
    struct fixture *f = *state;
    f->settings.pipeline_max = 2;
    fixture_serve(f);
    struct client c;
    client_open(f, &c);
    client_send(&c, GET("/held") GET("/held") GET("/held") POST("4", "last"));
    AWAIT(f, f->held_count == 2);
    fixture_settle(f);
    assert_int_equal(f->served, 2);
    fixture_answer(f->held[0], "one");
    AWAIT(f, f->held_count == 3);
    assert_int_equal(f->served, 3);
    fixture_answer(f->held[2], "three");
    fixture_answer(f->held[1], "two");
    client_expect(f, &c, "three");
    client_expect(f, &c, "\r\n\r\nlast");
    client_close(f, &c);
}

static void a_body_in_many_pieces_is_put_together(void **state)
{
    struct fixture *f = *state;
    fixture_serve(f);
    struct client c;
    client_open(f, &c);
    const char *text = POST("11", "hello world") POST("1", "!");
    for (const char *p = text; *p; p++) {
        client_send(&c, (char[]){*p, '\0'});
        fixture_settle(f);
    }
    client_expect(f, &c, "\r\n\r\nhello world");
    client_expect(f, &c, "\r\n\r\n!");
    client_close(f, &c);
}

static void a_body_larger_than_a_read_arrives_whole(void **state)
{
    struct fixture *f = *state;
    fixture_serve(f);
    struct client c;
    client_open(f, &c);
    client_send(&c, "PUT /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 1000003\r\n\r\n");
    char *part = malloc(10001);
    memset(part, 'y', 10000);
    part[10000] = '\0';
    for (int i = 0; i < 100; i++) {
        client_send(&c, part);
        fixture_settle(f);
    }
    free(part);
    client_send(&c, "end");
    client_expect(f, &c, "Content-Length: 1000003\r\n\r\n");
    client_expect(f, &c, "yyend");
    client_close(f, &c);
}

static void head_has_the_headers_of_get_and_no_body(void **state)
{
    struct fixture *f = *state;
    fixture_serve(f);
    struct client c;
    client_open(f, &c);
    client_send(&c, "HEAD /large HTTP/1.1\r\nHost: a\r\n\r\n" POST("2", "ok"));
    client_expect(f, &c, "Content-Length: 1048576\r\n\r\nHTTP/1.1 200 OK");
    client_expect(f, &c, "\r\n\r\nok");
    client_close(f, &c);
}

static void no_content_has_no_length(void **state)
{
    struct fixture *f = *state;
    fixture_serve(f);
    struct client c;
    client_open(f, &c);
    client_send(&c, GET("/none") POST("2", "ok"));
    client_expect(f, &c, "HTTP/1.1 204 No Content\r\nDate: ");
    client_expect(f, &c, " GMT\r\n\r\nHTTP/1.1 200 OK");
    client_expect(f, &c, "ok");
    client_close(f, &c);
}

static void a_client_that_says_close_gets_it(void **state)
{
    struct fixture *f = *state;
    fixture_serve(f);
    struct client c;
    client_open(f, &c);
    client_send(&c, "POST /echo HTTP/1.1\r\nHost: a\r\nConnection: close\r\n"
                    "Content-Length: 2\r\n\r\nok" GET("/echo"));
    client_expect(f, &c, "Connection: close\r\nContent-Length: 2\r\n\r\nok");
    client_expect_end(f, &c);
    assert_false(c.reset);
    assert_int_equal(f->served, 1);
    client_close(f, &c);
}

static void http_1_0_is_answered_and_closed(void **state)
{
    struct fixture *f = *state;
    fixture_serve(f);
    struct client c;
    client_open(f, &c);
    client_send(&c, "POST /echo HTTP/1.0\r\nContent-Length: 2\r\n\r\nok");
    client_expect(f, &c, "Connection: close\r\nContent-Length: 2\r\n\r\nok");
    client_expect_end(f, &c);
    client_close(f, &c);
}

static void expect_continue_is_answered_after_earlier_replies(void **state)
{
    struct fixture *f = *state;
    fixture_serve(f);
    struct client c;
    client_open(f, &c);
    client_send(&c, GET("/held") "PUT /echo HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n"
                                 "Content-Length: 2\r\n\r\n");
    AWAIT(f, f->held_count == 1);
    fixture_settle(f);
    assert_string_equal(c.in.at, "");
    fixture_answer(f->held[0], "first");
    client_expect(f, &c, "\r\n\r\nfirstHTTP/1.1 100 Continue\r\n\r\n");
    client_send(&c, "ok");
    client_expect(f, &c, "\r\n\r\nok");
    client_close(f, &c);
}

/* -- streams ---------------------------------------------------------------- */

static void writes_of_one_turn_share_a_chunk(void **state)
{
    struct fixture *f = *state;
    fixture_serve(f);
    struct client c;
    client_open(f, &c);
    client_send(&c, GET("/stream"));
    client_expect(f, &c, "Transfer-Encoding: chunked\r\n\r\n");
    http_stream_write(f->stream, STR("one\n"));
    http_stream_write(f->stream, STR("two\n"));
    client_expect(f, &c, "00000008\r\none\ntwo\n\r\n");
    http_stream_write(f->stream, STR("three\n"));
    http_stream_end(f->stream);
    assert_int_equal(f->closed, 1);
    client_expect(f, &c, "00000006\r\nthree\n\r\n0\r\n\r\n");
    client_close(f, &c);
}

static void what_follows_a_stream_is_served_after_it(void **state)
{
    struct fixture *f = *state;
    fixture_serve(f);
    struct client c;
    client_open(f, &c);
    client_send(&c, GET("/stream") POST("4", "next"));
    AWAIT(f, f->stream);
    fixture_settle(f);
    assert_int_equal(f->served, 1);
    client_send(&c, POST("4", "last"));
    http_stream_end(f->stream);
    client_expect(f, &c, "0\r\n\r\nHTTP/1.1 200 OK");
    client_expect(f, &c, "\r\n\r\nnext");
    client_expect(f, &c, "\r\n\r\nlast");
    client_close(f, &c);
}

static void a_stream_waits_for_earlier_replies(void **state)
{
    struct fixture *f = *state;
    fixture_serve(f);
    struct client c;
    client_open(f, &c);
    client_send(&c, GET("/held") GET("/stream"));
    AWAIT(f, f->stream);
    http_stream_write(f->stream, STR("early"));
    fixture_settle(f);
    http_stream_write(f->stream, STR(" bird"));
    fixture_answer(f->held[0], "first");
    http_stream_write(f->stream, STR("late"));
    client_expect(f, &c, "\r\n\r\nfirstHTTP/1.1 200 OK");
    client_expect(f, &c, "chunked\r\n\r\n0000000a\r\nearly bird\r\n00000004\r\nlate\r\n");
    http_stream_end(f->stream);
    client_expect(f, &c, "0\r\n\r\n");
    client_close(f, &c);
}

static void an_old_client_gets_a_stream_without_chunks(void **state)
{
    struct fixture *f = *state;
    fixture_serve(f);
    struct client c;
    client_open(f, &c);
    client_send(&c, "GET /stream HTTP/1.0\r\n\r\n");
    AWAIT(f, f->stream);
    http_stream_write(f->stream, STR("plain"));
    http_stream_end(f->stream);
    client_expect(f, &c, "Connection: close\r\n\r\nplain");
    client_expect_end(f, &c);
    client_close(f, &c);
}

static void aborting_a_stream_ends_the_connection_without_the_last_chunk(void **state)
{
    struct fixture *f = *state;
    struct client c;
    fixture_serve(f);
    client_open(f, &c);
    client_send(&c, GET("/stream"));
    AWAIT(f, f->stream);
    http_stream_write(f->stream, STR("half"));
    client_expect(f, &c, "4\r\nhalf\r\n");
    http_stream_abort(f->stream);
    assert_int_equal(f->closed, 0);
    client_expect_end(f, &c);
    AWAIT(f, f->closed == 1);
    client_close(f, &c);
}

static void head_of_a_stream_has_no_body(void **state)
{
    struct fixture *f = *state;
    fixture_serve(f);
    struct client c;
    client_open(f, &c);
    client_send(&c, "HEAD /stream HTTP/1.1\r\nHost: a\r\n\r\n");
    AWAIT(f, f->stream);
    http_stream_write(f->stream, STR("unseen"));
    http_stream_end(f->stream);
    client_send(&c, POST("2", "ok"));
    client_expect(f, &c, "chunked\r\n\r\nHTTP/1.1 200 OK");
    client_expect(f, &c, "\r\n\r\nok");
    client_close(f, &c);
}

/* -- drain ------------------------------------------------------------------ */

static void on_done(void *ctx)
{
    struct fixture *f = ctx;
    f->done++;
}

static void draining_answers_what_is_under_way_and_closes_the_rest(void **state)
{
    struct fixture *f = *state;
    fixture_serve(f);
    struct client busy, idle, half;
    client_open(f, &busy);
    client_open(f, &idle);
    client_open(f, &half);
    client_send(&busy, GET("/held"));
    client_send(&half, "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nha");
    AWAIT(f, f->held_count == 1 && http_server_connections(f->server) == 3);
    fixture_settle(f);
    http_server_drain(f->server, on_done, f);
    client_expect_end(f, &idle);
    client_close(f, &idle);
    client_send(&half, "lf");
    client_expect(f, &half, "Connection: close\r\nContent-Length: 4\r\n\r\nhalf");
    client_expect_end(f, &half);
    client_close(f, &half);
    assert_int_equal(f->done, 0);
    fixture_answer(f->held[0], "bye");
    client_expect(f, &busy, "Connection: close\r\nContent-Length: 3\r\n\r\nbye");
    client_expect_end(f, &busy);
    client_close(f, &busy);
    AWAIT(f, f->done == 1);
    assert_int_equal(http_server_connections(f->server), 0);
}

static void draining_an_idle_server_is_done_at_once(void **state)
{
    struct fixture *f = *state;
    fixture_serve(f);
    http_server_drain(f->server, on_done, f);
    assert_int_equal(f->done, 0);
    AWAIT(f, f->done == 1);
}

static void an_address_in_use_is_told(void **state)
{
    struct fixture *f = *state;
    fixture_serve(f);
    struct http_settings taken = f->settings;
    taken.port = http_server_port(f->server);
    struct http_server *second;
    struct err e = http_server_new(&f->loop, &taken, NULL, NULL, &second);
    assert_int_equal(e.code, ERR_IO);
    char where[64];
    snprintf(where, sizeof where, "127.0.0.1 port %d: address already in use", taken.port);
    assert_non_null(strstr(e.msg, where));
    taken.host = "not an address";
    assert_int_equal(http_server_new(&f->loop, &taken, NULL, NULL, &second).code, ERR_IO);
}

static uint64_t bound_of_held(void *ctx, const struct http_request *req)
{
    (void)ctx;
    return str_eq(req->path, STR("/held")) || str_eq(req->path, STR("/headers")) ? 1000 : 0;
}

/* No answer is begun without room for it; answers of known size are not delayed, and those that
 * nobody waits for any more are not begun at all. */
static void requests_wait_until_there_is_memory_for_their_answers(void **state)
{
    struct fixture *f = *state;
    f->settings.budget = http_budget_new(1500);
    f->settings.reply_bound = bound_of_held;
    fixture_serve(f);
    struct client c[4];
    for (int i = 0; i < 4; i++)
        client_open(f, &c[i]);
    client_send(&c[0], GET("/held"));
    AWAIT(f, f->held_count == 1);
    client_send(&c[1], POST("5", "small") GET("/held") POST("4", "last"));
    client_send(&c[2], GET("/held"));
    client_expect(f, &c[1], "\r\n\r\nsmall");
    client_send(&c[3], POST("5", "other"));
    client_expect(f, &c[3], "\r\n\r\nother");
    fixture_settle(f);
    assert_int_equal(f->held_count, 1);
    assert_int_equal(f->served, 3);
    struct linger reset = {1, 0};
    assert_int_equal(setsockopt(c[2].fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset), 0);
    client_close(f, &c[2]);
    AWAIT(f, http_server_connections(f->server) == 3);
    fixture_answer(f->held[0], "first");
    client_expect(f, &c[0], "\r\n\r\nfirst");
    AWAIT(f, f->held_count == 2);
    fixture_answer(f->held[1], "second");
    client_expect(f, &c[1], "\r\n\r\nsecond");
    client_expect(f, &c[1], "\r\n\r\nlast");
    assert_int_equal(f->held_count, 2);
    client_close(f, &c[0]);
    client_close(f, &c[1]);
    client_close(f, &c[3]);
}

/* Other input is read into the same memory meanwhile. */
static void a_request_that_waits_for_memory_keeps_its_headers(void **state)
{
    struct fixture *f = *state;
    f->settings.budget = http_budget_new(1500);
    f->settings.reply_bound = bound_of_held;
    fixture_serve(f);
    struct buf request = {0}, want = {0};
    buf_lit(&request, "GET /headers HTTP/1.1\r\n");
    for (size_t i = 0; header_names[i]; i++) {
        const char *name = header_names[i], *value = header_sample(name);
        buf_print(&request, "%s: %s\r\n", name, value);
        buf_print(&want, "%s: %s\n", name, value);
    }
    buf_add(&request, "\r\n", 3);
    buf_byte(&want, '\0');
    struct client c[3];
    for (int i = 0; i < 3; i++)
        client_open(f, &c[i]);
    client_send(&c[0], GET("/held"));
    AWAIT(f, f->held_count == 1);
    client_send(&c[1], request.at);
    fixture_settle(f);
    assert_int_equal(f->served, 1);
    char filler[1001];
    memset(filler, '#', 1000);
    filler[1000] = '\0';
    client_send(&c[2], "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n");
    client_send(&c[2], filler);
    client_expect(f, &c[2], filler);
    fixture_answer(f->held[0], "first");
    client_expect(f, &c[1], want.at);
    for (int i = 0; i < 3; i++)
        client_close(f, &c[i]);
    buf_fini(&request);
    buf_fini(&want);
}

/* --- whether answers arrive --- */

struct outcome {
    int arrived, lost;
};

static void on_settled(void *ctx, bool lost)
{
    struct outcome *o = ctx;
    o->lost += lost;
    o->arrived += !lost;
}

/* Answers a held exchange, and has it said what became of that. */
static void answer_noted(struct http_exchange *x, struct outcome *o)
{
    http_on_settled(x, on_settled, o);
    fixture_answer(x, "news");
}

static void reset(struct client *c)
{
    const struct linger now = {.l_onoff = 1};
    assert_int_equal(setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &now, sizeof now), 0);
}

static void hold_one(struct fixture *f, struct client *c)
{
    client_open(f, c);
    client_send(c, GET("/held"));
    AWAIT(f, f->held_count == 1);
}

static void an_answer_whose_connection_is_reset_is_lost(void **state)
{
    struct fixture *f = *state;
    struct client c;
    struct outcome o = {0};
    fixture_serve(f);
    hold_one(f, &c);
    client_pause(&c);
    answer_noted(f->held[0], &o);
    fixture_settle(f);
    assert_int_equal(o.lost + o.arrived, 0);
    reset(&c);
    client_close(f, &c);
    AWAIT(f, o.lost == 1);
    assert_int_equal(o.arrived, 0);
}

static void an_answer_that_is_followed_by_a_request_has_arrived(void **state)
{
    struct fixture *f = *state;
    struct client c;
    struct outcome o = {0};
    fixture_serve(f);
    hold_one(f, &c);
    answer_noted(f->held[0], &o);
    client_expect(f, &c, "news");
    assert_int_equal(o.lost + o.arrived, 0);
    client_send(&c, POST("5", "hello"));
    client_expect(f, &c, "hello");
    assert_int_equal(o.arrived, 1);
    reset(&c);
    client_close(f, &c);
    fixture_settle(f);
    assert_int_equal(o.lost, 0);
}

static void an_answer_before_an_orderly_end_has_arrived(void **state)
{
    struct fixture *f = *state;
    struct client c;
    struct outcome o = {0};
    fixture_serve(f);
    hold_one(f, &c);
    answer_noted(f->held[0], &o);
    client_expect(f, &c, "news");
    client_close(f, &c);
    AWAIT(f, o.arrived == 1);
    assert_int_equal(o.lost, 0);
}

static void an_answer_to_a_peer_that_has_gone_is_lost(void **state)
{
    struct fixture *f = *state;
    struct client c;
    struct outcome o = {0};
    fixture_serve(f);
    hold_one(f, &c);
    reset(&c);
    client_close(f, &c);
    AWAIT(f, http_is_gone(f->held[0]));
    answer_noted(f->held[0], &o);
    AWAIT(f, o.lost == 1);
    assert_int_equal(o.arrived, 0);
}

static void an_answer_half_of_which_is_unread_at_the_end_is_lost(void **state)
{
    struct fixture *f = *state;
    struct client c;
    struct outcome o = {0};
    char *large = calloc(1, LARGE_ANSWER + 1);
    fixture_serve(f);
    hold_one(f, &c);
    client_pause(&c);
    memset(large, 'x', LARGE_ANSWER);
    http_on_settled(f->held[0], on_settled, &o);
    fixture_answer(f->held[0], large);
    fixture_settle(f);
    client_close(f, &c);
    AWAIT(f, o.lost == 1);
    assert_int_equal(o.arrived, 0);
    free(large);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(an_answer_whose_connection_is_reset_is_lost),
        TEST(an_answer_that_is_followed_by_a_request_has_arrived),
        TEST(an_answer_before_an_orderly_end_has_arrived),
        TEST(an_answer_to_a_peer_that_has_gone_is_lost),
        TEST(an_answer_half_of_which_is_unread_at_the_end_is_lost),
        TEST(a_request_is_answered),
        TEST(each_header_of_the_table_reaches_the_handler),
        TEST(one_connection_serves_many_requests),
        TEST(replies_keep_the_order_of_the_requests),
        TEST(requests_over_pipeline_max_wait_their_turn),
        TEST(a_body_in_many_pieces_is_put_together),
        TEST(a_body_larger_than_a_read_arrives_whole),
        TEST(head_has_the_headers_of_get_and_no_body),
        TEST(no_content_has_no_length),
        TEST(a_client_that_says_close_gets_it),
        TEST(http_1_0_is_answered_and_closed),
        TEST(expect_continue_is_answered_after_earlier_replies),
        TEST(writes_of_one_turn_share_a_chunk),
        TEST(what_follows_a_stream_is_served_after_it),
        TEST(a_stream_waits_for_earlier_replies),
        TEST(an_old_client_gets_a_stream_without_chunks),
        TEST(aborting_a_stream_ends_the_connection_without_the_last_chunk),
        TEST(head_of_a_stream_has_no_body),
        TEST(draining_answers_what_is_under_way_and_closes_the_rest),
        TEST(draining_an_idle_server_is_done_at_once),
        TEST(an_address_in_use_is_told),
        TEST(requests_wait_until_there_is_memory_for_their_answers),
        TEST(a_request_that_waits_for_memory_keeps_its_headers),
    };
    return cmocka_run_group_tests_name("server", tests, NULL, NULL);
}
