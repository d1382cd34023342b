/* SPDX-License-Identifier: Apache-2.0 */

/* Bodies that a handler takes in pieces, over HTTP/2. */

#include "h2_client.h"

#include <stdio.h>

#define MIB    ((size_t)1024 * 1024)
#define WINDOW ((size_t)256 * 1024)

static char large[8 * 1024 * 1024];

static void a_body_is_handed_over_as_it_comes(void **state)
{
    struct fixture *f = *state;
    struct h2_client h;
    struct taker *t = &f->takers[0];
    h2_open_served(f, &h);
    int32_t id = h2_begin(&h, "/pieces", STR("hello"));
    H2_AWAIT(f, &h, t->got.len == 5);
    assert_int_equal(t->length, -1);
    assert_int_equal(t->ends, 0);
    h2_finish(&h, id);
    H2_AWAIT(f, &h, h2_stream(&h, id)->closed);
    h2_assert_text(&h2_stream(&h, id)->body, "5 bytes");
    id = h2_request(&h, "PUT", "/pieces", "content-length: 3", STR("abc"));
    H2_AWAIT(f, &h, h2_stream(&h, id)->closed);
    assert_int_equal(f->takers[1].length, 3);
    h2_assert_text(&h2_stream(&h, id)->body, "3 bytes");
    id = h2_request(&h, "PUT", "/pieces", NULL, (struct str){0});
    H2_AWAIT(f, &h, h2_stream(&h, id)->closed);
    h2_assert_text(&h2_stream(&h, id)->body, "0 bytes");
    h2_close(f, &h);
}

static void a_body_may_be_larger_than_body_max(void **state)
{
    struct fixture *f = *state;
    struct h2_client h;
    f->settings.body_max = 10;
    h2_open_served(f, &h);
    struct str body = {large, 3 * MIB};
    int32_t id = h2_request(&h, "PUT", "/pieces", "content-length: 3145728", body);
    H2_AWAIT(f, &h, h2_stream(&h, id)->closed);
    h2_assert_text(&h2_stream(&h, id)->body, "3145728 bytes");
    id = h2_request(&h, "PUT", "/echo", "content-length: 11", STR("12345678901"));
    H2_AWAIT(f, &h, h2_stream(&h, id)->closed);
    assert_int_equal(h2_stream(&h, id)->status, 413);
    h2_close(f, &h);
}

static void a_pause_makes_the_peer_wait_and_others_go_on(void **state)
{
    struct fixture *f = *state;
    struct h2_client h;
    struct taker *t = &f->takers[0];
    f->pause_each = 50000;
    f->settings.body_timeout.ms = 400;
    h2_open_served(f, &h);
    struct str body = {large, sizeof large};
    int32_t id = h2_request(&h, "PUT", "/pieces", NULL, body);
    h2_settle(f, &h);
    size_t got = t->got.len;
    assert_true(got >= 50000 && got < 100000);
    for (int i = 0; i < 10; i++) /* a pause of the taker's is no time-out */
        h2_step(f, &h);
    assert_int_equal(t->got.len, got);
    assert_true(h2_stream(&h, id)->sent <= got + WINDOW);
    int32_t other = h2_request(&h, "POST", "/echo", NULL, (struct str){large, MIB});
    H2_AWAIT(f, &h, h2_stream(&h, other)->closed);
    assert_int_equal(h2_stream(&h, other)->body.len, MIB);
    assert_int_equal(t->aborts, 0);
    while (t->got.len < 400000) { /* one stretch after the other */
        got = t->got.len;
        fixture_go_on(t);
        H2_AWAIT(f, &h, t->got.len > got);
        h2_settle(f, &h);
        assert_true(t->got.len <= got + WINDOW + 16384);
    }
    f->pause_each = 0;
    fixture_go_on(t);
    H2_AWAIT(f, &h, h2_stream(&h, id)->closed);
    h2_assert_text(&h2_stream(&h, id)->body, "8388608 bytes");
    h2_close(f, &h);
}

static void nothing_is_handed_over_before_it_is_wanted(void **state)
{
    struct fixture *f = *state;
    struct h2_client h;
    f->takes_later = true;
    h2_open_served(f, &h);
    int32_t id = h2_request(&h, "PUT", "/pieces", NULL, STR("hello"));
    int32_t expects = h2_request(&h, "PUT", "/pieces", "expect: 100-continue", STR("body"));
    h2_stream(&h, expects)->hold = true;
    H2_AWAIT(f, &h, f->taker_count == 2);
    h2_settle(f, &h);
    assert_int_equal(f->takers[0].pieces, 0);
    assert_false(h2_stream(&h, expects)->answered);
    fixture_take(&f->takers[0]);
    H2_AWAIT(f, &h, h2_stream(&h, id)->closed);
    h2_assert_text(&h2_stream(&h, id)->body, "5 bytes");
    fixture_take(&f->takers[1]);
    H2_AWAIT(f, &h, h2_stream(&h, expects)->answered);
    assert_int_equal(h2_stream(&h, expects)->status, 100);
    h2_finish(&h, expects);
    H2_AWAIT(f, &h, h2_stream(&h, expects)->closed);
    h2_assert_text(&h2_stream(&h, expects)->body, "4 bytes");
    h2_close(f, &h);
}

static void a_refusal_asks_the_peer_to_stop(void **state)
{
    struct fixture *f = *state;
    struct h2_client h;
    f->refuse_at = 100000;
    h2_open_served(f, &h);
    int32_t id = h2_request(&h, "PUT", "/pieces", NULL, (struct str){large, sizeof large});
    H2_AWAIT(f, &h, h2_stream(&h, id)->closed);
    assert_int_equal(h2_stream(&h, id)->status, 507);
    assert_int_equal(h2_stream(&h, id)->code, NGHTTP2_NO_ERROR);
    h2_assert_text(&h2_stream(&h, id)->body, "full");
    assert_true(h2_stream(&h, id)->sent < 2 * MIB);
    assert_int_equal(f->takers[0].ends + f->takers[0].aborts, 0);
    id = h2_request(&h, "POST", "/echo", NULL, STR("next"));
    H2_AWAIT(f, &h, h2_stream(&h, id)->closed);
    h2_assert_text(&h2_stream(&h, id)->body, "next");
    h2_close(f, &h);
}

static void a_refusal_of_a_body_that_was_held_back(void **state)
{
    struct fixture *f = *state;
    struct h2_client h;
    f->takes_later = true;
    f->refuse_at = 3;
    h2_open_served(f, &h);
    int32_t id = h2_request(&h, "PUT", "/pieces", NULL, STR("hello"));
    H2_AWAIT(f, &h, f->taker_count == 1);
    h2_settle(f, &h);
    fixture_take(&f->takers[0]);
    H2_AWAIT(f, &h, h2_stream(&h, id)->closed);
    assert_int_equal(h2_stream(&h, id)->status, 507);
    id = h2_request(&h, "PUT", "/pieces", NULL, (struct str){large, MIB});
    H2_AWAIT(f, &h, f->taker_count == 2);
    h2_settle(f, &h);
    fixture_answer(f->takers[1].x, "not wanted");
    H2_AWAIT(f, &h, h2_stream(&h, id)->closed);
    h2_assert_text(&h2_stream(&h, id)->body, "not wanted");
    h2_close(f, &h);
}

static void a_stalled_sender_times_out(void **state)
{
    struct fixture *f = *state;
    struct h2_client h;
    f->settings.body_timeout.ms = 40;
    h2_open_served(f, &h);
    int32_t id = h2_begin(&h, "/pieces", STR("hello"));
    H2_AWAIT(f, &h, h2_stream(&h, id)->closed);
    assert_int_equal(h2_stream(&h, id)->status, 408);
    assert_int_equal(f->takers[0].why, ERR_REQUEST_TIMEOUT);
    h2_close(f, &h);
}

static void a_reset_is_an_abort(void **state)
{
    struct fixture *f = *state;
    struct h2_client h;
    h2_open_served(f, &h);
    int32_t id = h2_begin(&h, "/pieces", STR("hello"));
    H2_AWAIT(f, &h, f->takers[0].got.len == 5);
    nghttp2_submit_rst_stream(h.session, 0, id, NGHTTP2_CANCEL);
    H2_AWAIT(f, &h, f->takers[0].aborts == 1);
    assert_int_equal(f->takers[0].why, ERR_IO);
    id = h2_request(&h, "POST", "/echo", NULL, STR("next"));
    H2_AWAIT(f, &h, h2_stream(&h, id)->closed);
    h2_close(f, &h);
}

static void a_peer_that_goes_before_its_body_is_wanted_is_an_abort(void **state)
{
    struct fixture *f = *state;
    struct h2_client h;
    f->takes_later = true;
    h2_open_served(f, &h);
    int32_t id = h2_begin(&h, "/pieces", STR("hello"));
    H2_AWAIT(f, &h, f->taker_count == 1);
    nghttp2_submit_rst_stream(h.session, 0, id, NGHTTP2_CANCEL);
    H2_AWAIT(f, &h, http_is_gone(f->takers[0].x));
    fixture_take(&f->takers[0]);
    assert_int_equal(f->takers[0].aborts, 0); /* not from inside */
    http_body_pause(f->takers[0].x);
    http_body_resume(f->takers[0].x);
    AWAIT(f, f->takers[0].aborts == 1);
    assert_int_equal(f->takers[0].pieces, 0);
    h2_close(f, &h);
}

/* nghttp2 holds a body against its Content-Length. */
static void another_length_than_was_announced_is_an_abort(void **state)
{
    struct fixture *f = *state;
    struct h2_client h;
    h2_open_served(f, &h);
    int32_t shorter = h2_request(&h, "PUT", "/pieces", "content-length: 6", STR("hello"));
    int32_t longer = h2_request(&h, "PUT", "/pieces", "content-length: 4", STR("hello"));
    H2_AWAIT(f, &h, h2_stream(&h, shorter)->closed && h2_stream(&h, longer)->closed);
    assert_int_equal(h2_stream(&h, shorter)->code, NGHTTP2_PROTOCOL_ERROR);
    assert_int_equal(h2_stream(&h, longer)->code, NGHTTP2_PROTOCOL_ERROR);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(f->takers[i].ends, 0);
        assert_int_equal(f->takers[i].aborts, 1);
    }
    h2_close(f, &h);
}

static void a_connection_that_ends_is_an_abort(void **state)
{
    struct fixture *f = *state;
    struct h2_client h;
    f->pause_each = 1;
    h2_open_served(f, &h);
    h2_begin(&h, "/pieces", STR("hello"));
    H2_AWAIT(f, &h, f->takers[0].got.len == 5);
    h2_close(f, &h);
    AWAIT(f, f->takers[0].aborts == 1);
}

static void a_sized_stream_has_a_length(void **state)
{
    struct fixture *f = *state;
    struct h2_client h;
    h2_open_served(f, &h);
    int32_t id = h2_get(&h, "/sized");
    H2_AWAIT(f, &h, f->stream);
    http_stream_write(f->stream, STR("hello world"));
    http_stream_end(f->stream);
    H2_AWAIT(f, &h, h2_stream(&h, id)->closed);
    assert_true(h2_has(&h2_stream(&h, id)->head, "content-length: 11\n"));
    assert_true(h2_has(&h2_stream(&h, id)->head, "x-extra: 1\n"));
    h2_assert_text(&h2_stream(&h, id)->body, "hello world");
    id = h2_request(&h, "HEAD", "/sized", NULL, (struct str){0});
    H2_AWAIT(f, &h, f->stream);
    http_stream_end(f->stream);
    H2_AWAIT(f, &h, h2_stream(&h, id)->closed);
    assert_true(h2_has(&h2_stream(&h, id)->head, "content-length: 11\n"));
    h2_close(f, &h);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_body_is_handed_over_as_it_comes),
        TEST(a_body_may_be_larger_than_body_max),
        TEST(a_pause_makes_the_peer_wait_and_others_go_on),
        TEST(nothing_is_handed_over_before_it_is_wanted),
        TEST(a_refusal_asks_the_peer_to_stop),
        TEST(a_refusal_of_a_body_that_was_held_back),
        TEST(a_stalled_sender_times_out),
        TEST(a_reset_is_an_abort),
        TEST(a_peer_that_goes_before_its_body_is_wanted_is_an_abort),
        TEST(another_length_than_was_announced_is_an_abort),
        TEST(a_connection_that_ends_is_an_abort),
        TEST(a_sized_stream_has_a_length),
    };
    return cmocka_run_group_tests_name("http2_pieces", tests, NULL, NULL);
}
