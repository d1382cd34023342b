/* SPDX-License-Identifier: Apache-2.0 */
#include "net/websocket.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "client.h"

#define KEY      "dGhlIHNhbXBsZSBub25jZQ=="
#define ASK      "Host: a\r\nConnection: keep-alive, Upgrade\r\nUpgrade: WebSocket\r\n"
#define VERSION  "Sec-WebSocket-Version: 13\r\n"
#define REQUEST  "GET /ws HTTP/1.1\r\n" ASK VERSION "Sec-WebSocket-Key: " KEY "\r\n"
#define LONG     (WEBSOCKET_MESSAGE_MAX + 1)
#define BACK     ((size_t)256 * 1024)
#define MESSAGES 400

/* A server whose handler makes a WebSocket of every request for /ws, and echoes its messages. */
struct echo {
    struct fixture f;
    struct websocket *w;
    int texts, drained, closed;
};

static void on_text(void *ctx, struct str message)
{
    struct echo *e = ctx;
    e->texts++;
    if (str_eq(message, STR("end")))
        websocket_end(e->w, WEBSOCKET_AWAY, "bye");
    websocket_send(e->w, message);
}

static void on_drained(void *ctx)
{
    ((struct echo *)ctx)->drained++;
}

static void on_closed(void *ctx)
{
    struct echo *e = ctx;
    e->closed++;
    e->w = NULL;
}

static void handle(void *ctx, struct http_exchange *x, const struct http_request *req)
{
    static const struct websocket_owner owner = {on_text, on_drained, on_closed};
    struct echo *e = ctx;
    if (str_eq(req->path, STR("/held"))) {
        e->f.held[e->f.held_count++] = x;
        return;
    }
    struct err err = websocket_check(req);
    if (err.code == ERR_OK)
        err = websocket_accept(x, req, &owner, e, &e->w);
    if (err.code != ERR_OK)
        http_reply(x, err_status(err.code), STR("text/plain"), str_from(err.msg),
                   WEBSOCKET_VERSIONS);
}

static int setup(void **state)
{
    struct echo *e = calloc(1, sizeof *e);
    fixture_init(&e->f);
    e->f.settings.idle_timeout = (span){3600000}; /* what ends must have another reason */
    struct err err = http_server_new(&e->f.loop, &e->f.settings, handle, e, &e->f.server);
    assert_int_equal(err.code, ERR_OK);
    *state = e;
    return 0;
}

static int teardown(void **state)
{
    struct echo *e = *state;
    fixture_fini(&e->f);
    free(e);
    return 0;
}

/* --- frames of a client --- */

static void send_all(struct client *c, const char *at, size_t len)
{
    assert_int_equal(send(c->fd, at, len, MSG_NOSIGNAL), len);
}

/* first: FIN and the opcode. The mask changes nothing if it is zero, and is written all the same.
 */
static void add_frame(struct buf *b, unsigned first, const char *text, size_t len)
{
    static const unsigned char mask[4] = {1, 2, 3, 4};
    buf_byte(b, (char)first);
    if (len < 126) {
        buf_byte(b, (char)(0x80 | len));
    } else {
        buf_byte(b, (char)(0x80 | 127));
        for (int i = 7; i >= 0; i--)
            buf_byte(b, (char)((uint64_t)len >> (8 * i) & 0xff));
    }
    buf_add(b, (const char *)mask, 4);
    for (size_t i = 0; i < len; i++)
        buf_byte(b, (char)(text[i] ^ mask[i % 4]));
}

static void send_frame(struct client *c, unsigned first, const char *text)
{
    struct buf b = {0};
    add_frame(&b, first, text, strlen(text));
    send_all(c, b.at, b.len);
    buf_fini(&b);
}

static void open_socket(struct echo *e, struct client *c)
{
    client_open(&e->f, c);
    client_send(c, REQUEST "\r\n");
    client_expect(&e->f, c, "HTTP/1.1 101 Switching Protocols\r\n");
    client_expect(&e->f, c, "Upgrade: websocket\r\nConnection: Upgrade\r\n");
    /* RFC 6455 §1.3 has this pair. */
    client_expect(&e->f, c, "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n");
    client_expect(&e->f, c, "\r\n");
}

static void expect_end(struct echo *e, struct client *c, const char *frame)
{
    client_expect(&e->f, c, frame);
    AWAIT(&e->f, c->ended);
    client_close(&e->f, c);
    AWAIT(&e->f, e->closed == 1);
    assert_int_equal(http_server_connections(e->f.server), 0);
}

/* --- tests --- */

static void messages_go_both_ways(void **state)
{
    struct echo *e = *state;
    struct client c;
    open_socket(e, &c);
    send_frame(&c, 0x81, "hello");
    client_expect(&e->f, &c, "\x81\x05hello");
    send_frame(&c, 0x81, "h\xc3\xa4");
    client_expect(&e->f, &c, "\x81\x03h\xc3\xa4");
    send_frame(&c, 0x88, "\x03\xe8");
    expect_end(e, &c, "\x88\x02\x03\xe8");
    assert_int_equal(e->texts, 2);
}

static void what_follows_the_request_at_once_is_read(void **state)
{
    struct echo *e = *state;
    struct client c;
    struct buf b = {0};
    client_open(&e->f, &c);
    buf_lit(&b, REQUEST "\r\n");
    add_frame(&b, 0x81, "early", 5);
    send_all(&c, b.at, b.len);
    buf_fini(&b);
    client_expect(&e->f, &c,
                  "\x81\x05"
                  "early");
    client_close(&e->f, &c);
    AWAIT(&e->f, e->closed == 1);
}

/* With a ping in between, and a byte at a time. */
static void a_message_in_fragments_is_put_together(void **state)
{
    struct echo *e = *state;
    struct client c;
    struct buf b = {0};
    open_socket(e, &c);
    add_frame(&b, 0x01, "one ", 4);
    add_frame(&b, 0x89, "there?", 6);
    add_frame(&b, 0x00, "two ", 4);
    add_frame(&b, 0x80, "three", 5);
    for (size_t i = 0; i < b.len; i++) {
        send_all(&c, b.at + i, 1);
        fixture_settle(&e->f);
    }
    buf_fini(&b);
    client_expect(&e->f, &c, "\x8a\x06there?");
    client_expect(&e->f, &c, "\x81\x0done two three");
    assert_int_equal(e->texts, 1);
    client_close(&e->f, &c);
}

static void a_peer_that_breaks_the_rules_is_ended(void **state)
{
    static const struct {
        const char *bytes, *answer;
        size_t len;
    } breaches[] = {
        {"\x81\x02hi", "\x88\x02\x03\xea", 4},           /* without a mask */
        {"\xc1\x80\0\0\0\0", "\x88\x02\x03\xea", 6},     /* a reserved bit */
        {"\x83\x80\0\0\0\0", "\x88\x02\x03\xea", 6},     /* a reserved opcode */
        {"\x80\x80\0\0\0\0", "\x88\x02\x03\xea", 6},     /* continues nothing */
        {"\x09\x80\0\0\0\0", "\x88", 6},                 /* a ping in fragments; without a code */
        {"\x81\x81\0\0\0\0\xff", "\x88\x02\x03\xef", 7}, /* no UTF-8 */
        {"\x82\x81\0\0\0\0x", "\x88\x02\x03\xeb", 7},    /* no text */
        {"\x81\xff\0\0\0\0\0\1\0\1\0\0\0\0x", "\x88\x02\x03\xf1", 15}, /* too long */
    };
    struct echo *e = *state;
    for (size_t i = 0; i < sizeof breaches / sizeof *breaches; i++) {
        struct client c;
        e->closed = 0;
        open_socket(e, &c);
        send_all(&c, breaches[i].bytes, breaches[i].len);
        expect_end(e, &c, breaches[i].answer);
    }
    assert_int_equal(e->texts, 0);
}

static void fragments_over_the_limit_end_it(void **state)
{
    struct echo *e = *state;
    struct client c;
    struct buf b = {0};
    char *half = calloc(1, LONG);
    memset(half, 'x', LONG);
    open_socket(e, &c);
    add_frame(&b, 0x01, half, LONG - 1);
    add_frame(&b, 0x80, half, 1);
    send_all(&c, b.at, b.len);
    buf_fini(&b);
    free(half);
    expect_end(e, &c, "\x88\x02\x03\xf1");
    assert_int_equal(e->texts, 0);
}

static void a_flood_of_pings_ends_it(void **state)
{
    struct echo *e = *state;
    struct client c;
    struct buf b = {0};
    open_socket(e, &c);
    for (int i = 0; i < 50000; i++)
        add_frame(&b, 0x89, "", 0);
    for (size_t at = 0; at < b.len && !e->closed && !c.ended;) {
        ssize_t n = send(c.fd, b.at + at, b.len - at, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno != EAGAIN)
            break;
        at += n > 0 ? (size_t)n : 0;
        fixture_settle(&e->f);
    }
    buf_fini(&b);
    AWAIT(&e->f, e->closed == 1);
    client_close(&e->f, &c);
}

static void the_owner_can_end_it(void **state)
{
    struct echo *e = *state;
    struct client c;
    open_socket(e, &c);
    send_frame(&c, 0x81, "end"); /* it is not echoed any more */
    expect_end(e, &c,
               "\x88\x05\x03\xe9"
               "bye");
    assert_string_equal(c.in.at ? c.in.at : "", "");
}

static void a_server_that_stops_says_goodbye(void **state)
{
    struct echo *e = *state;
    struct client c;
    open_socket(e, &c);
    http_server_drain(e->f.server, on_drained, e);
    expect_end(e, &c, "\x88\x12\x03\xe9the server stops");
    AWAIT(&e->f, e->drained == 1);
}

/* It says nothing for long, and is asked; it does not answer, and is given up. */
static void a_silent_peer_is_asked_and_given_up(void **state)
{
    struct echo *e = *state;
    struct client c;
    open_socket(e, &c);
    client_expect(&e->f, &c, "\x89");
    AWAIT(&e->f, e->closed == 1);
    client_close(&e->f, &c);
}

static int setup_hasty(void **state)
{
    struct echo *e = calloc(1, sizeof *e);
    fixture_init(&e->f);
    e->f.settings.idle_timeout = (span){600};
    struct err err = http_server_new(&e->f.loop, &e->f.settings, handle, e, &e->f.server);
    assert_int_equal(err.code, ERR_OK);
    *state = e;
    return 0;
}

static void a_peer_that_does_not_read_congests_it(void **state)
{
    struct echo *e = *state;
    struct client c;
    char *text = calloc(1, BACK);
    memset(text, 'y', BACK);
    open_socket(e, &c);
    client_pause(&c);
    int sent = 0;
    while (!websocket_is_congested(e->w) && sent++ < MESSAGES) {
        websocket_send(e->w, (struct str){text, BACK});
        fixture_settle(&e->f);
    }
    assert_true(websocket_is_congested(e->w));
    assert_int_equal(e->drained, 0);
    client_resume(&c);
    AWAIT(&e->f, e->drained > 0);
    free(text);
    client_close(&e->f, &c);
    AWAIT(&e->f, e->closed == 1);
}

static void requests_that_are_none_are_refused(void **state)
{
    static const char *const requests[] = {
        "POST /ws HTTP/1.1\r\n" ASK VERSION "Content-Length: 0\r\nSec-WebSocket-Key: " KEY "\r\n",
        "GET /ws HTTP/1.1\r\nHost: a\r\n" VERSION "Sec-WebSocket-Key: " KEY "\r\n",
        "GET /ws HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\n" VERSION "Sec-WebSocket-Key: " KEY
        "\r\n",
        "GET /ws HTTP/1.1\r\n" ASK "Sec-WebSocket-Version: 8\r\nSec-WebSocket-Key: " KEY "\r\n",
        "GET /ws HTTP/1.1\r\n" ASK VERSION,
        "GET /ws HTTP/1.1\r\n" ASK VERSION "Sec-WebSocket-Key: c2hvcnQ=\r\n",
    };
    struct echo *e = *state;
    struct client c;
    client_open(&e->f, &c);
    for (size_t i = 0; i < sizeof requests / sizeof *requests; i++) {
        client_send(&c, requests[i]);
        client_send(&c, "\r\n");
        client_expect(&e->f, &c, "HTTP/1.1 400 ");
        client_expect(&e->f, &c, "Sec-WebSocket-Version: 13\r\n");
        client_expect(&e->f, &c, "\r\n\r\n");
        fixture_settle(&e->f);
        c.in.len = 0;
        c.in.at[0] = '\0';
    }
    client_send(&c, "GET /ws HTTP/1.0\r\n" ASK VERSION "Sec-WebSocket-Key: " KEY "\r\n\r\n");
    client_expect(&e->f, &c, "HTTP/1.1 400 ");
    client_close(&e->f, &c);
    assert_int_equal(e->closed, 0);
}

static void a_page_of_another_origin_gets_none(void **state)
{
    struct echo *e = *state;
    struct client c;
    client_open(&e->f, &c);
    client_send(&c, REQUEST "Origin: http://evil.example\r\n\r\n");
    client_expect(&e->f, &c, "HTTP/1.1 403 ");
    client_expect(&e->f, &c, "another origin");
    client_close(&e->f, &c);
}

static void one_behind_unanswered_requests_is_refused(void **state)
{
    struct echo *e = *state;
    struct client c;
    client_open(&e->f, &c);
    client_send(&c, "GET /held HTTP/1.1\r\nHost: a\r\n\r\n" REQUEST "\r\n");
    AWAIT(&e->f, e->f.held_count == 1);
    fixture_settle(&e->f);
    fixture_answer(e->f.held[0], "first");
    client_expect(&e->f, &c, "first");
    client_expect(&e->f, &c, "HTTP/1.1 409 ");
    client_close(&e->f, &c);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(messages_go_both_ways),
        TEST(what_follows_the_request_at_once_is_read),
        TEST(a_message_in_fragments_is_put_together),
        TEST(a_peer_that_breaks_the_rules_is_ended),
        TEST(fragments_over_the_limit_end_it),
        TEST(a_flood_of_pings_ends_it),
        TEST(the_owner_can_end_it),
        TEST(a_server_that_stops_says_goodbye),
        cmocka_unit_test_setup_teardown(a_silent_peer_is_asked_and_given_up, setup_hasty, teardown),
        TEST(a_peer_that_does_not_read_congests_it),
        TEST(requests_that_are_none_are_refused),
        TEST(a_page_of_another_origin_gets_none),
        TEST(one_behind_unanswered_requests_is_refused),
    };
    return cmocka_run_group_tests_name("websocket", tests, NULL, NULL);
}
