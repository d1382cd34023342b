/* SPDX-License-Identifier: Apache-2.0 */

/* Limits of an HTTP/2 connection in memory and time. */

#include "h2_client.h"

/* -- limits ----------------------------------------------------------------- */

static void check_refusal(struct fixture *f, struct h2_client *h, int32_t id, int status,
                          const char *code)
{
    H2_AWAIT(f, h, h2_stream(h, id)->closed);
    assert_int_equal(h2_stream(h, id)->status, status);
    assert_true(h2_has(&h2_stream(h, id)->body, code));
    assert_int_equal(h2_stream(h, id)->code, NGHTTP2_NO_ERROR);
}

static void a_body_over_the_limit_is_refused_by_its_length(void **state)
{
    struct fixture *f = *state;
    f->settings.body_max = 1000;
    struct h2_client h;
    h2_open_served(f, &h);
    int32_t id = h2_request(&h, "POST", "/echo", "content-length: 1001", STR("x"));
    h2_stream(&h, id)->hold = true;
    check_refusal(f, &h, id, 413, "\"body_too_large\"");
    assert_int_equal(f->served, 0);
    h2_close(f, &h);
}

static void a_body_without_a_length_is_refused_once_it_is_over(void **state)
{
    struct fixture *f = *state;
    f->settings.body_max = 1000;
    struct h2_client h;
    h2_open_served(f, &h);
    static char text[1001];
    int32_t fits = h2_request(&h, "POST", "/echo", NULL, (struct str){text, 1000});
    int32_t id = h2_begin(&h, "/echo", (struct str){text, 1001});
    check_refusal(f, &h, id, 413, "\"body_too_large\"");
    H2_AWAIT(f, &h, h2_stream(&h, fits)->closed);
    assert_int_equal(h2_stream(&h, fits)->status, 200);
    assert_int_equal(f->served, 1);
    h2_close(f, &h);
}

/* No frame by itself is over it. */
static void a_body_in_several_frames_is_refused_once_their_sum_is_over(void **state)
{
    struct fixture *f = *state;
    f->settings.body_max = 40000;
    struct h2_client h;
    h2_open_served(f, &h);
    static char text[50000];
    int32_t fits = h2_request(&h, "POST", "/echo", NULL, (struct str){text, 40000});
    H2_AWAIT(f, &h, h2_stream(&h, fits)->closed);
    assert_int_equal(h2_stream(&h, fits)->status, 200);
    int32_t id = h2_begin(&h, "/echo", (struct str){text, 40001});
    check_refusal(f, &h, id, 413, "\"body_too_large\"");
    assert_int_equal(f->served, 1);
    h2_close(f, &h);
}

static void large_heads_are_refused(void **state)
{
    struct fixture *f = *state;
    f->settings.header_max = 20000;
    struct h2_client h;
    h2_open_served(f, &h);
    static char field[21000] = "x: ", path[60000] = "/none?";
    memset(field + 3, 'y', 20500);
    memset(path + 6, 'z', sizeof path - 7);
    int32_t id = h2_request(&h, "GET", "/echo", field, (struct str){0});
    check_refusal(f, &h, id, 431, "\"headers_too_large\"");
    id = h2_get(&h, "/none#fragment");
    check_refusal(f, &h, id, 400, "\"bad_request\"");
    assert_int_equal(f->served, 0);
    id = h2_get(&h, path);
    H2_AWAIT(f, &h, h2_stream(&h, id)->closed);
    assert_int_equal(h2_stream(&h, id)->status, 204);
    h2_close(f, &h);
}

static void a_head_in_many_fields_is_refused_once_their_sum_is_over(void **state)
{
    struct fixture *f = *state;
    f->settings.header_max = 20000;
    struct h2_client h;
    h2_open_served(f, &h);
    struct buf fields = {0};
    char value[8000];
    memset(value, 'y', sizeof value);
    for (int i = 0; i < 3; i++)
        buf_print(&fields, "%sx-%d: %.*s", i ? "\n" : "", i, (int)sizeof value, value);
    buf_byte(&fields, '\0');
    int32_t id = h2_request(&h, "GET", "/echo", fields.at, (struct str){0});
    check_refusal(f, &h, id, 431, "\"headers_too_large\"");
    buf_fini(&fields);
    assert_int_equal(f->served, 0);
    h2_close(f, &h);
}

/* Each by itself is not too large. */
static void heads_of_waiting_requests_are_bounded_together(void **state)
{
    enum { ALL = 80, FIT = 69 }; /* 15,000 bytes each, of 1 MiB */
    struct fixture *f = *state;
    f->settings.header_max = 20000;
    f->settings.streams_max = ALL;
    struct h2_client h;
    h2_open_served(f, &h);
    char field[15004] = "x: ";
    memset(field + 3, 'y', 15000);
    int32_t ids[ALL];
    for (int i = 0; i < ALL; i++)
        ids[i] = h2_request(&h, "GET", "/held", field, (struct str){0});
    H2_AWAIT(f, &h, f->held_count + h.closed == ALL);
    assert_int_equal(f->held_count, FIT);
    for (int i = FIT; i < ALL; i++)
        check_refusal(f, &h, ids[i], 503, "\"busy\"");
    for (int i = 0; i < FIT; i++)
        fixture_answer(f->held[i], "");
    H2_AWAIT(f, &h, h.closed == ALL);
    for (int i = 0; i < FIT; i++)
        assert_int_equal(h2_stream(&h, ids[i])->status, 200);
    h2_close(f, &h);
}

/* A proxy in front of the server may go by another one of them. */
static void a_header_of_one_value_that_comes_twice_is_refused(void **state)
{
    struct fixture *f = *state;
    struct h2_client h;
    h2_open_served(f, &h);
    int32_t id =
        h2_request(&h, "GET", "/echo", "authorization: a\nauthorization: a", (struct str){0});
    check_refusal(f, &h, id, 400, "the header authorization comes more than once");
    assert_int_equal(f->served, 0);
    id = h2_request(&h, "GET", "/headers", "accept: a\naccept: b\naccept: c", (struct str){0});
    H2_AWAIT(f, &h, h2_stream(&h, id)->closed);
    assert_true(h2_has(&h2_stream(&h, id)->body, "accept: a, b, c\n"));
    h2_close(f, &h);
}

static void requests_over_streams_max_are_refused(void **state)
{
    struct fixture *f = *state;
    f->settings.streams_max = 2;
    struct h2_client h;
    h2_open_served(f, &h);
    h2_get(&h, "/held");
    h2_get(&h, "/held");
    int32_t id = h2_get(&h, "/held"); /* sent before the server has said how many */
    H2_AWAIT(f, &h, h2_stream(&h, id)->closed);
    assert_int_equal(h2_stream(&h, id)->code, NGHTTP2_REFUSED_STREAM);
    assert_int_equal(f->held_count, 2);
    fixture_answer(f->held[0], "");
    fixture_answer(f->held[1], "");
    h2_close(f, &h);
}

static void half_sent_bodies_do_not_block_each_other(void **state)
{
    struct fixture *f = *state;
    f->settings.body_max = 1000000;
    struct h2_client h;
    h2_open_served(f, &h);
    static char text[900000];
    int32_t ids[8];
    for (int i = 0; i < 8; i++)
        ids[i] = h2_request(&h, "POST", "/none", NULL, (struct str){text, sizeof text});
    H2_AWAIT(f, &h, h.closed == 8);
    for (int i = 0; i < 8; i++)
        assert_int_equal(h2_stream(&h, ids[i])->status, 204);
    h2_close(f, &h);
}

static void memory_of_half_sent_bodies_is_bounded(void **state)
{
    struct fixture *f = *state;
    f->settings.body_max = 1000000;
    struct h2_client h;
    h2_open_served(f, &h);
    static char text[1000000];
    int32_t ids[16];
    for (int i = 0; i < 16; i++)
        ids[i] = h2_begin(&h, "/none", (struct str){text, sizeof text});
    size_t sent = 0, before;
    /* On a busy machine nothing may move for a while. */
    H2_AWAIT(f, &h, h2_stream(&h, ids[0])->sent == sizeof text);
    do { /* until the server accepts no more */
        before = sent;
        h2_settle(f, &h);
        sent = 0;
        for (int i = 0; i < 16; i++)
            sent += h2_stream(&h, ids[i])->sent;
    } while (sent > before);
    assert_true(sent < 2 * sizeof text + 16 * 256 * 1024);
    h2_close(f, &h);
}

/* -- time ------------------------------------------------------------------- */

static void a_slow_body_times_out(void **state)
{
    struct fixture *f = *state;
    f->settings.body_timeout.ms = 40;
    struct h2_client h;
    h2_open_served(f, &h);
    int32_t id = h2_begin(&h, "/echo", STR("ab"));
    check_refusal(f, &h, id, 408, "\"request_timeout\"");
    id = h2_get(&h, "/none");
    H2_AWAIT(f, &h, h2_stream(&h, id)->closed);
    assert_int_equal(h2_stream(&h, id)->status, 204);
    h2_close(f, &h);
}

static void a_slow_head_ends_the_connection(void **state)
{
    struct fixture *f = *state;
    f->settings.header_timeout.ms = 40;
    fixture_serve(f);
    struct client c;
    struct buf b = {0};
    client_open(f, &c);
    h2_preface(&b);
    h2_head(&b, 1, true);
    assert_int_equal(h2_flood(f, &c, buf_view(&b)), NGHTTP2_ENHANCE_YOUR_CALM);
    buf_fini(&b);
    client_close(f, &c);
}

static void an_idle_connection_is_ended(void **state)
{
    struct fixture *f = *state;
    f->settings.idle_timeout.ms = 40;
    struct h2_client h;
    h2_open_served(f, &h);
    int32_t id = h2_get(&h, "/none");
    H2_AWAIT(f, &h, h.c.ended);
    assert_true(h2_stream(&h, id)->closed);
    assert_true(h.goaway);
    assert_int_equal(h.code, NGHTTP2_NO_ERROR);
    h2_close(f, &h);
}

static void waiting_for_a_reply_is_not_idle(void **state)
{
    struct fixture *f = *state;
    f->settings.idle_timeout.ms = 40;
    struct h2_client h, idle;
    h2_open_served(f, &h);
    int32_t id = h2_get(&h, "/held");
    H2_AWAIT(f, &h, f->held_count == 1);
    h2_open(f, &idle, (struct h2_options){0});
    H2_AWAIT(f, &idle, idle.c.ended); /* later than the other would have been */
    fixture_answer(f->held[0], "here");
    H2_AWAIT(f, &h, h2_stream(&h, id)->closed);
    assert_int_equal(h2_stream(&h, id)->status, 200);
    h2_close(f, &idle);
    h2_close(f, &h);
}

static void on_done(void *ctx)
{
    struct fixture *f = ctx;
    f->done++;
}

static void draining_says_goaway_and_answers_what_is_under_way(void **state)
{
    struct fixture *f = *state;
    struct h2_client h, idle;
    h2_open_served(f, &h);
    h2_open(f, &idle, (struct h2_options){0});
    int32_t id = h2_get(&h, "/held");
    H2_AWAIT(f, &h, f->held_count == 1);
    h2_settle(f, &idle);
    http_server_drain(f->server, on_done, f);
    H2_AWAIT(f, &idle, idle.c.ended);
    assert_true(idle.goaway);
    H2_AWAIT(f, &h, h.goaway);
    assert_int_equal(h.code, NGHTTP2_NO_ERROR);
    assert_int_equal(f->done, 0);
    fixture_answer(f->held[0], "the last");
    H2_AWAIT(f, &h, h.c.ended);
    h2_assert_text(&h2_stream(&h, id)->body, "the last");
    h2_close(f, &h);
    h2_close(f, &idle);
    AWAIT(f, f->done == 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_body_over_the_limit_is_refused_by_its_length),
        TEST(a_body_without_a_length_is_refused_once_it_is_over),
        TEST(a_body_in_several_frames_is_refused_once_their_sum_is_over),
        TEST(large_heads_are_refused),
        TEST(a_head_in_many_fields_is_refused_once_their_sum_is_over),
        TEST(heads_of_waiting_requests_are_bounded_together),
        TEST(a_header_of_one_value_that_comes_twice_is_refused),
        TEST(requests_over_streams_max_are_refused),
        TEST(half_sent_bodies_do_not_block_each_other),
        TEST(memory_of_half_sent_bodies_is_bounded),
        TEST(a_slow_body_times_out),
        TEST(a_slow_head_ends_the_connection),
        TEST(an_idle_connection_is_ended),
        TEST(waiting_for_a_reply_is_not_idle),
        TEST(draining_says_goaway_and_answers_what_is_under_way),
    };
    return cmocka_run_group_tests_name("net/http2_limits", tests, NULL, NULL);
}
