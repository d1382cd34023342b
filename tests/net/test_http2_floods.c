/* SPDX-License-Identifier: Apache-2.0 */

/* Frames that make work without being useful end an HTTP/2 connection. */

#include "base/array.h"
#include "h2_client.h"

static void check_flood(struct fixture *f, struct buf *b)
{
    struct client c;
    client_open(f, &c);
    assert_int_equal(h2_flood(f, &c, buf_view(b)), NGHTTP2_ENHANCE_YOUR_CALM);
    AWAIT(f, http_server_connections(f->server) == 0);
    client_close(f, &c);
    buf_fini(b);
}

static void rapid_resets_end_the_connection(void **state)
{
    struct fixture *f = *state;
    fixture_serve(f);
    struct buf b = {0};
    h2_preface(&b);
    for (int32_t id = 1; id < 20000; id += 2) {
        h2_head(&b, id, false);
        h2_frame(&b, NGHTTP2_RST_STREAM, 0, id, "\0\0\0\10", 4);
    }
    check_flood(f, &b);
    assert_true(f->served < 1000);
}

static void floods_of_control_frames_end_the_connection(void **state)
{
    struct fixture *f = *state;
    fixture_serve(f);
    static const struct {
        uint8_t type;
        int32_t id;
        const char *payload;
        size_t len;
    } frames[] = {
        {NGHTTP2_SETTINGS, 0, "", 0},
        {NGHTTP2_SETTINGS, 0, "\0\1\0\0\0\0", 6}, /* HEADER_TABLE_SIZE 0 */
        {NGHTTP2_PING, 0, "12345678", 8},
        {NGHTTP2_PRIORITY, 1, "\0\0\0\3\1", 5},
        {NGHTTP2_WINDOW_UPDATE, 0, "\0\0\0\1", 4},
        {0x0a, 0, "", 0}, /* types that this server does not know */
        {0x10, 0, "12345678", 8},
        {0x42, 0, "", 0},
        {0xff, 1, "12345678", 8},
    };
    for (size_t i = 0; i < COUNT(frames); i++) {
        struct buf b = {0};
        h2_preface(&b);
        for (int n = 0; n < 20000; n++)
            h2_frame(&b, frames[i].type, 0, frames[i].id, frames[i].payload, frames[i].len);
        check_flood(f, &b);
    }
}

static void empty_data_frames_end_the_connection(void **state)
{
    struct fixture *f = *state;
    fixture_serve(f);
    struct buf b = {0};
    /* POST http / */
    static const char fields[] = {(char)0x83, (char)0x86, (char)0x84, 0x01, 0x01, 'a'};
    h2_preface(&b);
    h2_frame(&b, NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS, 1, fields, sizeof fields);
    for (int n = 0; n < 20000; n++)
        h2_frame(&b, NGHTTP2_DATA, 0, 1, NULL, 0);
    check_flood(f, &b);
    assert_int_equal(f->served, 0);
}

static void data_frames_of_padding_alone_end_the_connection(void **state)
{
    struct fixture *f = *state;
    fixture_serve(f);
    struct buf b = {0};
    static const char fields[] = {(char)0x83, (char)0x86, (char)0x84, 0x01, 0x01, 'a'};
    h2_preface(&b);
    h2_frame(&b, NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS, 1, fields, sizeof fields);
    for (int n = 0; n < 20000; n++)
        h2_frame(&b, NGHTTP2_DATA, NGHTTP2_FLAG_PADDED, 1, "\3\0\0\0", 4);
    check_flood(f, &b);
    assert_int_equal(f->served, 0);
}

static void continuations_without_end_end_the_connection(void **state)
{
    struct fixture *f = *state;
    fixture_serve(f);
    struct buf b = {0};
    h2_preface(&b);
    h2_head(&b, 1, true);
    for (int n = 0; n < 20000; n++)
        h2_frame(&b, NGHTTP2_CONTINUATION, 0, 1, "\0\1x\1y", 5);
    check_flood(f, &b);
    assert_int_equal(f->served, 0);
}

/* A field of 3 KiB enters the compression table, and each further byte refers to it again. */
static void header_bombs_end_the_connection(void **state)
{
    struct fixture *f = *state;
    fixture_serve(f);
    struct buf b = {0}, fields = {0};
    h2_preface(&b);
    buf_add(&fields,
            "\x82\x86\x84\x01\x01"
            "a",
            6);
    buf_add(&fields, "\x40\1x\x7f\x81\x16", 6); /* literal, indexed: a value of 127 + 2817 bytes */
    for (int n = 0; n < 2944; n++)
        buf_byte(&fields, 'y');
    for (int n = 0; n < 12000; n++)
        buf_byte(&fields, (char)0xbe); /* the newest entry of the table */
    h2_frame(&b, NGHTTP2_HEADERS, NGHTTP2_FLAG_END_STREAM | NGHTTP2_FLAG_END_HEADERS, 1, fields.at,
             fields.len);
    check_flood(f, &b);
    buf_fini(&fields);
    assert_int_equal(f->served, 0);
}

/* Each is an error of its stream only. */
static void malformed_requests_in_a_row_end_the_connection(void **state)
{
    struct fixture *f = *state;
    fixture_serve(f);
    struct buf b = {0};
    h2_preface(&b);
    for (int32_t id = 1; id < 20000; id += 2) /* GET without a path */
        h2_frame(&b, NGHTTP2_HEADERS, NGHTTP2_FLAG_END_STREAM | NGHTTP2_FLAG_END_HEADERS, id,
                 "\x82\x86", 2);
    check_flood(f, &b);
    assert_int_equal(f->served, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(rapid_resets_end_the_connection),
        TEST(floods_of_control_frames_end_the_connection),
        TEST(empty_data_frames_end_the_connection),
        TEST(data_frames_of_padding_alone_end_the_connection),
        TEST(continuations_without_end_end_the_connection),
        TEST(header_bombs_end_the_connection),
        TEST(malformed_requests_in_a_row_end_the_connection),
    };
    return cmocka_run_group_tests_name("net/http2_floods", tests, NULL, NULL);
}
