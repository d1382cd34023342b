/* SPDX-License-Identifier: Apache-2.0 */
#include "h2_client.h"

#include <stdio.h>

/* -- requests and replies --------------------------------------------------- */

static void a_request_is_answered(void **state)
{
    struct fixture *f = *state;
    struct h2_client h;
    h2_open_served(f, &h);
    int32_t id = h2_request(&h, "POST", "/echo?x=1", NULL, STR("hello"));
    H2_AWAIT(f, &h, h2_stream(&h, id)->closed);
    struct h2_stream *st = h2_stream(&h, id);
    assert_int_equal(st->status, 200);
    assert_int_equal(st->code, NGHTTP2_NO_ERROR);
    h2_assert_text(&st->body, "hello");
    assert_true(h2_has(&st->head, "content-type: text/plain\n"));
    assert_true(h2_has(&st->head, "content-length: 5\n"));
    assert_true(h2_has(&st->head, "x-extra: 1\n"));
    assert_true(h2_has(&st->head, "date: "));
    assert_true(h2_has(&st->head, " GMT\n"));
    h2_close(f, &h);
}

static void each_header_of_the_table_reaches_the_handler(void **state)
{
    struct fixture *f = *state;
    struct h2_client h;
    h2_open_served(f, &h);
    for (size_t i = 0; header_names[i]; i++) {
        const char *name = header_names[i], *value = header_sample(name);
        char field[64], want[64];
        snprintf(field, sizeof field, "%s: %s", name, value);
        snprintf(want, sizeof want, "%s\n", field);
        int32_t id = h2_request(&h, "GET", "/headers", field, (struct str){0});
        H2_AWAIT(f, &h, h2_stream(&h, id)->closed);
        assert_int_equal(h2_stream(&h, id)->status, 200);
        assert_true(h2_has(&h2_stream(&h, id)->body, want));
        assert_true(h2_has(&h2_stream(&h, id)->body, "host: a\n")); /* :authority */
    }
    h2_close(f, &h);
}

static void no_content_has_no_length(void **state)
{
    struct fixture *f = *state;
    struct h2_client h;
    h2_open_served(f, &h);
    int32_t id = h2_get(&h, "/none");
    H2_AWAIT(f, &h, h2_stream(&h, id)->closed);
    assert_int_equal(h2_stream(&h, id)->status, 204);
    assert_false(h2_has(&h2_stream(&h, id)->head, "content-length"));
    h2_close(f, &h);
}

static void head_has_the_length_and_no_body(void **state)
{
    struct fixture *f = *state;
    struct h2_client h;
    h2_open_served(f, &h);
    int32_t id = h2_request(&h, "HEAD", "/large", NULL, (struct str){0});
    H2_AWAIT(f, &h, h2_stream(&h, id)->closed);
    assert_int_equal(h2_stream(&h, id)->status, 200);
    assert_true(h2_has(&h2_stream(&h, id)->head, "content-length: 1048576\n"));
    assert_int_equal(h2_stream(&h, id)->body.len, 0);
    h2_close(f, &h);
}

static void bodies_larger_than_any_window_pass_both_ways(void **state)
{
    struct fixture *f = *state;
    struct h2_client h;
    h2_open_served(f, &h);
    static char large[3000000];
    for (size_t i = 0; i < sizeof large; i++)
        large[i] = (char)('a' + i % 23);
    struct str body = {large, sizeof large};
    int32_t id = h2_request(&h, "POST", "/echo", NULL, body);
    H2_AWAIT(f, &h, h2_stream(&h, id)->closed);
    assert_true(str_eq(buf_view(&h2_stream(&h, id)->body), body));
    h2_close(f, &h);
}

static void replies_leave_in_any_order(void **state)
{
    struct fixture *f = *state;
    struct h2_client h;
    h2_open_served(f, &h);
    int32_t first = h2_get(&h, "/held"), second = h2_get(&h, "/held");
    H2_AWAIT(f, &h, f->held_count == 2);
    fixture_answer(f->held[1], "second");
    H2_AWAIT(f, &h, h2_stream(&h, second)->closed);
    assert_false(h2_stream(&h, first)->answered);
    fixture_answer(f->held[0], "first");
    H2_AWAIT(f, &h, h2_stream(&h, first)->closed);
    h2_assert_text(&h2_stream(&h, first)->body, "first");
    h2_close(f, &h);
}

static void thousands_of_requests_share_a_connection(void **state)
{
    struct fixture *f = *state;
    struct h2_client h;
    h2_open_served(f, &h);
    for (int i = 0; i < 3000; i++)
        h2_request(&h, "POST", "/none", NULL, STR("x"));
    H2_AWAIT(f, &h, h.closed == 3000);
    for (int32_t id = 1; id < 6000; id += 2)
        assert_int_equal(h2_stream(&h, id)->status, 204);
    assert_int_equal(f->served, 3000);
    h2_close(f, &h);
}

static void expect_continue_is_answered(void **state)
{
    struct fixture *f = *state;
    struct h2_client h;
    h2_open_served(f, &h);
    int32_t id = h2_request(&h, "POST", "/echo", "expect: 100-continue", STR("body"));
    struct h2_stream *st = h2_stream(&h, id);
    st->hold = true;
    H2_AWAIT(f, &h, st->answered);
    assert_int_equal(st->status, 100);
    h2_finish(&h, id);
    H2_AWAIT(f, &h, st->closed);
    assert_int_equal(st->status, 200);
    h2_close(f, &h);
}

static void the_preface_may_come_in_pieces(void **state)
{
    struct fixture *f = *state;
    fixture_serve(f);
    struct client c;
    struct buf b = {0};
    client_open(f, &c);
    client_send(&c, "PRI * HTT");
    fixture_settle(f);
    client_send(&c, "P/2.0\r\n\r\nSM");
    fixture_settle(f);
    client_send(&c, "\r\n\r");
    fixture_settle(f);
    buf_byte(&b, '\n');
    h2_frame(&b, NGHTTP2_SETTINGS, 0, 0, NULL, 0);
    h2_frame(&b, NGHTTP2_GOAWAY, 0, 0, "\0\0\0\0\0\0\0\0", 8);
    assert_int_equal(write(c.fd, b.at, b.len), b.len);
    AWAIT(f, c.ended);
    assert_int_equal(c.in.at[3], NGHTTP2_SETTINGS);
    buf_fini(&b);
    client_close(f, &c);
}

static void the_preface_must_come_first(void **state)
{
    struct fixture *f = *state;
    fixture_serve(f);
    struct client c;
    client_open(f, &c);
    client_send(&c, "GET /none HTTP/1.1\r\nHost: a\r\n\r\nPRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    client_expect(f, &c, "HTTP/1.1 204 No Content");
    client_expect(f, &c, "HTTP/1.1 400 Bad Request");
    client_expect(f, &c, "\"code\":\"bad_request\"}");
    client_expect_end(f, &c);
    client_close(f, &c);
}

/* -- streams ---------------------------------------------------------------- */

static void a_stream_arrives_as_it_is_written(void **state)
{
    struct fixture *f = *state;
    struct h2_client h;
    h2_open_served(f, &h);
    int32_t id = h2_get(&h, "/stream");
    struct h2_stream *st = h2_stream(&h, id);
    H2_AWAIT(f, &h, st->answered);
    http_stream_write(f->stream, STR("one\n"));
    H2_AWAIT(f, &h, st->body.len == 4);
    http_stream_write(f->stream, STR("two\n"));
    http_stream_write(f->stream, STR("three\n"));
    http_stream_end(f->stream);
    assert_int_equal(f->closed, 1);
    H2_AWAIT(f, &h, st->closed);
    h2_assert_text(&st->body, "one\ntwo\nthree\n");
    assert_int_equal(st->code, NGHTTP2_NO_ERROR);
    assert_int_equal(f->closed, 1);
    h2_close(f, &h);
}

static void others_are_answered_beside_a_stream(void **state)
{
    struct fixture *f = *state;
    struct h2_client h;
    h2_open_served(f, &h);
    int32_t stream = h2_get(&h, "/stream");
    H2_AWAIT(f, &h, f->stream != NULL);
    int32_t id = h2_request(&h, "POST", "/echo", NULL, STR("ack"));
    H2_AWAIT(f, &h, h2_stream(&h, id)->closed);
    assert_false(h2_stream(&h, stream)->closed);
    assert_int_equal(f->closed, 0);
    h2_close(f, &h);
    AWAIT(f, f->closed == 1);
}

static void resetting_a_stream_closes_it_alone(void **state)
{
    struct fixture *f = *state;
    struct h2_client h;
    h2_open_served(f, &h);
    int32_t id = h2_get(&h, "/stream");
    H2_AWAIT(f, &h, f->stream != NULL);
    nghttp2_submit_rst_stream(h.session, 0, id, NGHTTP2_CANCEL);
    H2_AWAIT(f, &h, f->closed == 1);
    id = h2_get(&h, "/none");
    H2_AWAIT(f, &h, h2_stream(&h, id)->closed);
    assert_int_equal(h2_stream(&h, id)->status, 204);
    h2_close(f, &h);
}

static void aborting_a_stream_resets_it_alone(void **state)
{
    struct fixture *f = *state;
    struct h2_client h;
    h2_open_served(f, &h);
    int32_t first = h2_get(&h, "/stream");
    H2_AWAIT(f, &h, f->stream != NULL);
    struct http_exchange *aborted = f->stream;
    f->stream = NULL;
    int32_t second = h2_get(&h, "/stream");
    H2_AWAIT(f, &h, f->stream != NULL);
    struct http_exchange *whole = f->stream;
    http_stream_write(aborted, STR("half"));
    http_stream_write(whole, STR("one\n"));
    H2_AWAIT(f, &h, h2_stream(&h, first)->body.len == 4 && h2_stream(&h, second)->body.len == 4);

    http_stream_write(aborted, STR("never sent"));
    http_stream_abort(aborted);
    http_stream_write(aborted, STR("nor this"));
    http_stream_abort(aborted);
    assert_int_equal(f->closed, 0);
    H2_AWAIT(f, &h, h2_stream(&h, first)->closed);
    assert_int_equal(h2_stream(&h, first)->code, NGHTTP2_INTERNAL_ERROR);
    h2_assert_text(&h2_stream(&h, first)->body, "half");
    assert_int_equal(f->closed, 1);

    http_stream_write(whole, STR("two\n"));
    http_stream_end(whole);
    H2_AWAIT(f, &h, h2_stream(&h, second)->closed);
    assert_int_equal(h2_stream(&h, second)->code, NGHTTP2_NO_ERROR);
    h2_assert_text(&h2_stream(&h, second)->body, "one\ntwo\n");
    assert_int_equal(f->closed, 2);
    int32_t next = h2_get(&h, "/none");
    H2_AWAIT(f, &h, h2_stream(&h, next)->closed);
    assert_int_equal(h2_stream(&h, next)->status, 204);
    assert_false(h.goaway);
    h2_close(f, &h);
}

/* Its reset does not need a window of the peer's. */
static void a_stream_whose_window_is_shut_can_be_aborted(void **state)
{
    struct fixture *f = *state;
    struct h2_client h;
    fixture_serve(f);
    h2_open(f, &h, (struct h2_options){.shut = true});
    int32_t id = h2_get(&h, "/stream");
    H2_AWAIT(f, &h, f->stream != NULL);
    http_stream_write(f->stream, STR("stuck"));
    http_stream_abort(f->stream);
    H2_AWAIT(f, &h, h2_stream(&h, id)->closed);
    assert_int_equal(h2_stream(&h, id)->code, NGHTTP2_INTERNAL_ERROR);
    assert_int_equal(h2_stream(&h, id)->body.len, 0);
    assert_int_equal(f->closed, 1);
    h2_close(f, &h);
}

static void head_of_a_stream_ends_at_once(void **state)
{
    struct fixture *f = *state;
    struct h2_client h;
    h2_open_served(f, &h);
    int32_t id = h2_request(&h, "HEAD", "/stream", NULL, (struct str){0});
    H2_AWAIT(f, &h, h2_stream(&h, id)->closed);
    assert_int_equal(h2_stream(&h, id)->status, 200);
    assert_int_equal(f->closed, 1);
    h2_close(f, &h);
}

static void on_drained(void *ctx)
{
    struct fixture *f = ctx;
    f->drained++;
}

static void a_stream_whose_window_is_shut_is_backlogged_until_it_opens(void **state)
{
    struct fixture *f = *state;
    f->settings.backlog_max = 40000;
    fixture_serve(f);
    struct h2_client h;
    h2_open(f, &h, (struct h2_options){.shut = true});
    int32_t id = h2_get(&h, "/stream");
    H2_AWAIT(f, &h, f->stream != NULL);
    http_stream_on_drain(f->stream, on_drained);
    assert_false(http_backlogged(f->stream));
    size_t written = 0;
    while (!http_backlogged(f->stream)) {
        http_stream_write(f->stream, STR("0123456789"));
        written += 10;
    }
    assert_true(written <= 10010); /* a quarter of the connection's */
    h2_settle(f, &h);
    assert_int_equal(f->drained, 0);
    nghttp2_submit_window_update(h.session, 0, id, 4000);
    H2_AWAIT(f, &h, h2_stream(&h, id)->body.len == 4000);
    assert_int_equal(f->drained, 0);
    nghttp2_submit_window_update(h.session, 0, id, 4000);
    H2_AWAIT(f, &h, f->drained == 1);
    assert_false(http_backlogged(f->stream));
    h2_close(f, &h);
}

/* -- peers that go away ----------------------------------------------------- */

static void on_gone(void *ctx)
{
    struct fixture *f = ctx;
    f->gone++;
}

static void the_end_of_a_request_does_not_mean_gone(void **state)
{
    struct fixture *f = *state;
    struct h2_client h;
    h2_open_served(f, &h);
    int32_t id = h2_request(&h, "POST", "/held", NULL, STR("wait"));
    H2_AWAIT(f, &h, f->held_count == 1);
    http_on_gone(f->held[0], on_gone, f);
    h2_settle(f, &h);
    assert_int_equal(f->gone, 0);
    fixture_answer(f->held[0], "here");
    H2_AWAIT(f, &h, h2_stream(&h, id)->closed);
    assert_int_equal(f->gone, 0);
    h2_close(f, &h);
}

static void who_resets_a_waiting_request_is_gone(void **state)
{
    struct fixture *f = *state;
    struct h2_client h;
    h2_open_served(f, &h);
    int32_t id = h2_get(&h, "/held"), other = h2_get(&h, "/held");
    H2_AWAIT(f, &h, f->held_count == 2);
    http_on_gone(f->held[0], on_gone, f);
    http_on_gone(f->held[1], on_gone, f);
    nghttp2_submit_rst_stream(h.session, 0, id, NGHTTP2_CANCEL);
    H2_AWAIT(f, &h, f->gone == 1);
    fixture_answer(f->held[0], "nobody hears it");
    fixture_answer(f->held[1], "somebody does");
    H2_AWAIT(f, &h, h2_stream(&h, other)->closed);
    h2_assert_text(&h2_stream(&h, other)->body, "somebody does");
    assert_int_equal(f->gone, 1);
    h2_close(f, &h);
}

static void all_requests_of_a_lost_connection_are_gone(void **state)
{
    struct fixture *f = *state;
    struct h2_client h;
    h2_open_served(f, &h);
    h2_get(&h, "/held");
    h2_get(&h, "/held");
    h2_begin(&h, "/echo", STR("half a body"));
    h2_get(&h, "/stream");
    H2_AWAIT(f, &h, f->stream != NULL);
    http_on_gone(f->held[0], on_gone, f);
    http_on_gone(f->held[1], on_gone, f);
    h2_close(f, &h);
    AWAIT(f, f->gone == 2 && f->closed == 1);
    fixture_answer(f->held[0], "");
    fixture_answer(f->held[1], "");
}

static void closing_the_server_inside_a_handler_is_safe(void **state)
{
    struct fixture *f = *state;
    struct h2_client h;
    h2_open_served(f, &h);
    h2_get(&h, "/none");
    h2_get(&h, "/close");
    h2_get(&h, "/none");
    H2_AWAIT(f, &h, h.c.ended);
    assert_int_equal(f->served, 2);
    h2_close(f, &h);
}

/* -- hostile peers ---------------------------------------------------------- */

static void replies_that_are_not_read_are_not_piled_up(void **state)
{
    struct fixture *f = *state;
    f->settings.write_timeout.ms = 100;
    fixture_serve(f);
    struct h2_client h;
    h2_open(f, &h, (struct h2_options){.shut = true});
    for (int i = 0; i < 50; i++)
        h2_get(&h, "/large");
    h2_settle(f, &h);
    /* Each is a megabyte, as much as may be unsent: one fits, one more exceeds the limit. */
    assert_int_equal(f->served, 2);
    H2_AWAIT(f, &h, h.c.ended); /* one after the other is reset, until there are too many */
    assert_int_equal(h2_stream(&h, 1)->code, NGHTTP2_CANCEL);
    assert_true(h.goaway);
    assert_int_equal(h.code, NGHTTP2_ENHANCE_YOUR_CALM);
    assert_true(f->served < 30);
    h2_close(f, &h);
}

static void a_stream_that_is_not_read_is_reset(void **state)
{
    struct fixture *f = *state;
    f->settings.write_timeout.ms = 40;
    fixture_serve(f);
    struct h2_client h;
    h2_open(f, &h, (struct h2_options){.shut = true});
    int32_t id = h2_get(&h, "/stream");
    H2_AWAIT(f, &h, f->stream != NULL);
    http_stream_write(f->stream, STR("a job\n"));
    H2_AWAIT(f, &h, h2_stream(&h, id)->closed);
    assert_int_equal(h2_stream(&h, id)->code, NGHTTP2_CANCEL);
    assert_int_equal(f->closed, 1);
    h2_close(f, &h);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_request_is_answered),
        TEST(each_header_of_the_table_reaches_the_handler),
        TEST(no_content_has_no_length),
        TEST(head_has_the_length_and_no_body),
        TEST(bodies_larger_than_any_window_pass_both_ways),
        TEST(replies_leave_in_any_order),
        TEST(thousands_of_requests_share_a_connection),
        TEST(expect_continue_is_answered),
        TEST(the_preface_may_come_in_pieces),
        TEST(the_preface_must_come_first),
        TEST(a_stream_arrives_as_it_is_written),
        TEST(others_are_answered_beside_a_stream),
        TEST(resetting_a_stream_closes_it_alone),
        TEST(aborting_a_stream_resets_it_alone),
        TEST(a_stream_whose_window_is_shut_can_be_aborted),
        TEST(head_of_a_stream_ends_at_once),
        TEST(a_stream_whose_window_is_shut_is_backlogged_until_it_opens),
        TEST(the_end_of_a_request_does_not_mean_gone),
        TEST(who_resets_a_waiting_request_is_gone),
        TEST(all_requests_of_a_lost_connection_are_gone),
        TEST(closing_the_server_inside_a_handler_is_safe),
        TEST(replies_that_are_not_read_are_not_piled_up),
        TEST(a_stream_that_is_not_read_is_reset),
    };
    return cmocka_run_group_tests_name("net/http2", tests, NULL, NULL);
}
