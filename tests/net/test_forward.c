/* SPDX-License-Identifier: Apache-2.0 */
#include "client.h"

#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/array.h"
#include "net/forward.h"

/* Clients of a front that passes everything on to the fixture's server, all on one loop. */

struct rig {
    struct fixture f;
    struct forwarder *forwarder;
    struct http_server *front;
    bool front_closed;
    char url[64];
    const char *extra;
    int refused;
    enum err_code why;
};

static void refuse(void *ctx, struct http_exchange *x, const struct err *err)
{
    struct rig *t = ctx;
    t->refused++;
    t->why = err->code;
    http_reply(x, err_status(err->code), STR("text/plain"), str_from(err->msg), NULL);
}

static void forward(void *ctx, struct http_exchange *x, const struct http_request *req)
{
    struct rig *t = ctx;
    forwarder_send(t->forwarder, t->url, t->extra, x, req);
}

static int setup(void **state)
{
    struct rig *t = calloc(1, sizeof *t);
    fixture_init(&t->f);
    fixture_serve(&t->f);
    snprintf(t->url, sizeof t->url, "http://127.0.0.1:%d", fixture_port(&t->f));
    const struct forwarder_settings settings = {
        .loop = &t->f.loop, .connect_timeout = {2000}, .refuse = refuse, .ctx = t};
    t->forwarder = forwarder_new(&settings);
    struct http_settings front = http_defaults();
    front.allowed_hosts = "*";
    assert_int_equal(http_server_new(&t->f.loop, &front, forward, t, &t->front).code, ERR_OK);
    t->f.front_port = http_server_port(t->front);
    *state = t;
    return 0;
}

static int teardown(void **state)
{
    struct rig *t = *state;
    forwarder_free(t->forwarder);
    http_server_close(t->front);
    fixture_fini(&t->f);
    free(t);
    return 0;
}

/* --- requests and answers --- */

static void a_request_and_its_answer_pass_whole(void **state)
{
    struct rig *t = *state;
    struct client c;
    client_open(&t->f, &c);
    client_send(&c, "POST /echo?a=%20b HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello");
    client_expect(&t->f, &c, "HTTP/1.1 200 OK\r\n");
    client_expect(&t->f, &c, "Content-Type: text/plain\r\n");
    client_expect(&t->f, &c, "X-Extra: 1\r\n");
    client_expect(&t->f, &c, "\r\n\r\nhello");
    client_send(&c, "DELETE /nothing HTTP/1.1\r\nHost: h\r\n\r\n");
    client_expect(&t->f, &c, "HTTP/1.1 204 No Content\r\n");
    struct forwarder_counts counts;
    forwarder_read(t->forwarder, &counts);
    assert_int_equal(counts.sent, 2);
    assert_int_equal(counts.under_way, 0);
    client_close(&t->f, &c);
}

/* By which the front has decided whether to serve the request at all (net/guard.h). */
static bool is_judged(const char *name)
{
    static const char *const judged[] = {"host", "origin", "sec-fetch-site", "sec-fetch-dest"};
    for (size_t i = 0; i < COUNT(judged); i++)
        if (strcmp(name, judged[i]) == 0)
            return true;
    return false;
}

/* Every header that a server knows, but for those, and for the one that only servers say. */
static void headers_pass_as_they_came(void **state)
{
    struct rig *t = *state;
    struct client c;
    struct buf b = {0};
    t->extra = "Tenax-Forwarded: by the front";
    buf_lit(&b, "GET /headers HTTP/1.1\r\n");
    for (size_t i = 0; header_names[i]; i++)
        if (strcmp(header_names[i], "content-encoding") != 0)
            buf_print(&b, "%s: %s\r\n", header_names[i], header_sample(header_names[i]));
    buf_add(&b, "\r\n", 3);
    client_open(&t->f, &c);
    client_send(&c, b.at);
    client_expect(&t->f, &c, "\r\n\r\n");
    AWAIT(&t->f, client_has(&c, "x-forwarded-proto"));
    for (size_t i = 0; header_names[i]; i++) {
        char line[256];
        bool own = strcmp(header_names[i], "tenax-forwarded") == 0;
        snprintf(line, sizeof line, "%s: %s\n", header_names[i],
                 own ? "by the front" : header_sample(header_names[i]));
        if (strcmp(header_names[i], "content-encoding") != 0 &&
            client_has(&c, line) == is_judged(header_names[i]))
            fail_msg("of %s in %s", line, c.in.at);
    }
    client_close(&t->f, &c);
    buf_fini(&b);
}

/* libcurl would make it /echo. */
static void a_target_passes_as_it_is_spelt(void **state)
{
    struct rig *t = *state;
    struct client c;
    client_open(&t->f, &c);
    client_send(&c, "GET /x/../echo HTTP/1.1\r\nHost: h\r\n\r\n");
    client_expect(&t->f, &c, "HTTP/1.1 204 ");
    client_send(&c, "GET /./echo HTTP/1.1\r\nHost: h\r\n\r\n");
    client_expect(&t->f, &c, "HTTP/1.1 204 ");
    client_send(&c, "GET * HTTP/1.1\r\nHost: h\r\n\r\n");
    client_expect(&t->f, &c, "HTTP/1.1 204 "); /* by the server, instead of 503 */
    assert_int_equal(t->refused, 0);
    client_close(&t->f, &c);
}

static void a_header_without_a_value_is_one(void **state)
{
    struct rig *t = *state;
    struct client c;
    client_open(&t->f, &c);
    client_send(&c, "GET /headers HTTP/1.1\r\nHost: h\r\nIdempotency-Key:\r\n\r\n");
    client_expect(&t->f, &c, "\r\n\r\n");
    AWAIT(&t->f, client_has(&c, "idempotency-key: \n"));
    client_close(&t->f, &c);
}

static void an_answer_to_head_keeps_its_length(void **state)
{
    struct rig *t = *state;
    struct client c;
    client_open(&t->f, &c);
    client_send(&c, "HEAD /large HTTP/1.1\r\nHost: h\r\n\r\n");
    client_expect(&t->f, &c, "Content-Length: 1048576");
    client_expect(&t->f, &c, "\r\n\r\n");
    client_send(&c, "GET /nothing HTTP/1.1\r\nHost: h\r\n\r\n");
    client_expect(&t->f, &c, "HTTP/1.1 204");
    client_close(&t->f, &c);
}

static void a_large_answer_passes_as_it_comes(void **state)
{
    struct rig *t = *state;
    struct client c;
    client_open(&t->f, &c);
    client_send(&c, "GET /large HTTP/1.1\r\nHost: h\r\n\r\n");
    client_expect(&t->f, &c, "Content-Length: 1048576");
    client_expect(&t->f, &c, "\r\n\r\n");
    AWAIT(&t->f, c.in.len == 1 << 20);
    client_close(&t->f, &c);
}

/* --- streams --- */

static void open_stream(struct rig *t, struct client *c)
{
    client_open(&t->f, c);
    client_send(c, "GET /stream HTTP/1.1\r\nHost: h\r\n\r\n");
    AWAIT(&t->f, t->f.stream);
    client_expect(&t->f, c, "application/x-ndjson");
    client_expect(&t->f, c, "\r\n\r\n");
}

static void a_stream_passes_piece_by_piece(void **state)
{
    struct rig *t = *state;
    struct client c;
    open_stream(t, &c);
    http_stream_write(t->f.stream, STR("one"));
    client_expect(&t->f, &c, "one");
    http_stream_write(t->f.stream, STR("two"));
    client_expect(&t->f, &c, "two");
    http_stream_end(t->f.stream);
    client_expect(&t->f, &c, "\r\n0\r\n\r\n");
    client_close(&t->f, &c);
}

static void a_stream_that_breaks_is_seen_to_be_incomplete(void **state)
{
    struct rig *t = *state;
    struct client c;
    open_stream(t, &c);
    http_stream_write(t->f.stream, STR("half"));
    client_expect(&t->f, &c, "half\r\n");
    http_stream_abort(t->f.stream);
    client_expect_end(&t->f, &c); /* without the chunk that ends it */
    client_close(&t->f, &c);
}

static void a_client_that_leaves_ends_its_stream(void **state)
{
    struct rig *t = *state;
    struct client c;
    open_stream(t, &c);
    client_close(&t->f, &c);
    AWAIT(&t->f, t->f.closed == 1);
}

static void on_gone(void *ctx)
{
    ((struct rig *)ctx)->f.gone++;
}

static void a_client_that_leaves_ends_its_long_poll(void **state)
{
    struct rig *t = *state;
    struct client c;
    client_open(&t->f, &c);
    client_send(&c, "GET /held HTTP/1.1\r\nHost: h\r\n\r\n");
    AWAIT(&t->f, t->f.held_count == 1);
    http_on_gone(t->f.held[0], on_gone, t);
    client_close(&t->f, &c);
    AWAIT(&t->f, t->f.gone == 1);
    fixture_answer(t->f.held[0], "nobody");
}

/* A long poll that nobody may read is not answered with a job; nor is the answer of a request lost
 * that was under way. */
static void a_client_that_shuts_down_its_side_is_still_answered(void **state)
{
    struct rig *t = *state;
    struct client c;
    client_open(&t->f, &c);
    client_send(&c, "POST /held HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\nx");
    AWAIT(&t->f, t->f.held_count == 1);
    http_on_gone(t->f.held[0], on_gone, t);
    assert_int_equal(shutdown(c.fd, SHUT_WR), 0);
    AWAIT(&t->f, t->f.gone == 1);
    fixture_answer(t->f.held[0], "empty");
    client_expect(&t->f, &c, "HTTP/1.1 200 OK\r\n");
    client_expect(&t->f, &c, "\r\n\r\nempty");
    client_close(&t->f, &c);
    client_open(&t->f, &c);
    client_send(&c, "POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello");
    assert_int_equal(shutdown(c.fd, SHUT_WR), 0);
    client_expect(&t->f, &c, "HTTP/1.1 200 OK\r\n");
    client_expect(&t->f, &c, "\r\n\r\nhello");
    client_close(&t->f, &c);
    /* The connection to the server was not kept. */
    client_open(&t->f, &c);
    client_send(&c, "POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\nx");
    client_expect(&t->f, &c, "\r\n\r\nx");
    client_close(&t->f, &c);
}

/* The server that writes is made to wait: the front keeps little of what its client does not read.
 */
static void who_does_not_read_makes_the_other_server_wait(void **state)
{
    static const char piece[65536];
    struct rig *t = *state;
    struct client c;
    size_t written = 0;
    open_stream(t, &c);
    client_pause(&c);
    while (!http_backlogged(t->f.stream)) {
        http_stream_write(t->f.stream, (struct str){piece, sizeof piece});
        written += sizeof piece;
        assert_true(written < (size_t)64 << 20);
        fixture_settle(&t->f);
    }
    client_resume(&c);
    AWAIT(&t->f, !http_backlogged(t->f.stream));
    http_stream_end(t->f.stream);
    AWAIT(&t->f, c.in.len > written);
    client_close(&t->f, &c);
}

/* --- without an answer --- */

static void a_server_that_is_not_there_has_done_nothing(void **state)
{
    struct rig *t = *state;
    struct client c;
    fixture_close_server(&t->f);
    fixture_settle(&t->f);
    client_open(&t->f, &c);
    client_send(&c, "POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\nx");
    client_expect(&t->f, &c, "HTTP/1.1 503 ");
    assert_int_equal(t->why, ERR_NO_OWNER);
    client_close(&t->f, &c);
}

#define CALLERS 4

/* Its queue of connections is full: it answers as little as a machine that is gone. */
static int dead_server(struct rig *t, int callers[CALLERS])
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof a;
    assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(listen(fd, 0), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &len), 0);
    for (int i = 0; i < CALLERS; i++) {
        callers[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        (void)!connect(callers[i], (struct sockaddr *)&a, sizeof a);
    }
    snprintf(t->url, sizeof t->url, "http://127.0.0.1:%d", ntohs(a.sin_port));
    return fd;
}

static void a_server_that_lets_nobody_connect_has_done_nothing(void **state)
{
    struct rig *t = *state;
    struct client c;
    int callers[CALLERS], fd = dead_server(t, callers);
    client_open(&t->f, &c);
    client_send(&c, "POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\nx");
    client_expect(&t->f, &c, "HTTP/1.1 503 ");
    assert_int_equal(t->why, ERR_NO_OWNER);
    client_close(&t->f, &c);
    for (int i = 0; i < CALLERS; i++)
        close(callers[i]);
    close(fd);
}

/* Over a connection that was used before, where libcurl would send it once more. */
static void a_request_whose_answer_is_lost_is_not_repeated(void **state)
{
    struct rig *t = *state;
    struct client c;
    client_open(&t->f, &c);
    client_send(&c, "POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\nx");
    client_expect(&t->f, &c, "\r\n\r\nx");
    client_send(&c, "POST /held HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\nx");
    AWAIT(&t->f, t->f.held_count == 1);
    fixture_close_server(&t->f);
    fixture_answer(t->f.held[0], "lost");
    client_expect(&t->f, &c, "HTTP/1.1 502 ");
    assert_int_equal(t->why, ERR_OWNER_LOST);
    assert_int_equal(t->f.served, 2);
    client_close(&t->f, &c);
}

static void what_is_under_way_at_the_end_is_refused(void **state)
{
    struct rig *t = *state;
    struct client c, s;
    open_stream(t, &s);
    client_open(&t->f, &c);
    client_send(&c, "GET /held HTTP/1.1\r\nHost: h\r\n\r\n");
    AWAIT(&t->f, t->f.held_count == 1);
    forwarder_free(t->forwarder);
    t->forwarder = NULL;
    client_expect(&t->f, &c, "HTTP/1.1 503 ");
    assert_int_equal(t->why, ERR_STOPPING);
    client_expect_end(&t->f, &s);
    fixture_answer(t->f.held[0], "nobody");
    client_close(&t->f, &c);
    client_close(&t->f, &s);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_request_and_its_answer_pass_whole),
        TEST(headers_pass_as_they_came),
        TEST(a_target_passes_as_it_is_spelt),
        TEST(a_header_without_a_value_is_one),
        TEST(an_answer_to_head_keeps_its_length),
        TEST(a_large_answer_passes_as_it_comes),
        TEST(a_stream_passes_piece_by_piece),
        TEST(a_stream_that_breaks_is_seen_to_be_incomplete),
        TEST(a_client_that_leaves_ends_its_stream),
        TEST(a_client_that_leaves_ends_its_long_poll),
        TEST(a_client_that_shuts_down_its_side_is_still_answered),
        TEST(who_does_not_read_makes_the_other_server_wait),
        TEST(a_server_that_is_not_there_has_done_nothing),
        TEST(a_server_that_lets_nobody_connect_has_done_nothing),
        TEST(a_request_whose_answer_is_lost_is_not_repeated),
        TEST(what_is_under_way_at_the_end_is_refused),
    };
    return cmocka_run_group_tests_name("net/forward", tests, NULL, NULL);
}
