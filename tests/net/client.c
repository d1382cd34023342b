/* SPDX-License-Identifier: Apache-2.0 */
#include "client.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/must.h"
#include "net/body_memory.h"
#include "net/io_threads.h"

#define GUARD_MS 60000
#define LARGE    ((size_t)1024 * 1024)

static void on_guard(uv_timer_t *timer)
{
    (void)timer;
    fail_msg("nothing of what the test awaits came");
}

static void on_stream_closed(void *ctx)
{
    struct fixture *f = ctx;
    f->closed++;
    f->stream = NULL;
}

const char *const header_names[] = {
#define HEADER(name, member, times) name,
#include "net/http_headers.def"
#undef HEADER
    NULL};

const char *header_sample(const char *name)
{
    if (strcmp(name, "host") == 0)
        return "a";
    if (strcmp(name, "origin") == 0)
        return "http://a";
    return strcmp(name, "sec-fetch-site") == 0 ? "none" : name;
}

static void reply_headers(struct http_exchange *x, const struct http_request *req)
{
    struct buf b = {0};
#define HEADER(name, member, times)                                                                \
    if (req->member.at)                                                                            \
        buf_print(&b, "%s: %.*s\n", name, STR_ARG(req->member));
#include "net/http_headers.def"
#undef HEADER
    http_reply(x, 200, STR("text/plain"), buf_view(&b), NULL);
    buf_fini(&b);
}

/* -- bodies in pieces ------------------------------------------------------- */

static void answer_taker(struct taker *t, int status, const char *text)
{
    struct http_exchange *x = t->x;
    t->x = NULL;
    http_reply(x, status, STR("text/plain"), str_from(text), NULL);
}

static void on_piece(void *ctx, struct str bytes)
{
    struct taker *t = ctx;
    struct fixture *f = t->f;
    size_t before = t->got.len;
    assert_true(bytes.len > 0 && t->ends + t->aborts == 0 && t->x);
    buf_str(&t->got, bytes);
    t->pieces++;
    if (f->pause_each && before / f->pause_each != t->got.len / f->pause_each)
        http_body_pause(t->x);
    if (f->refuse_at && t->got.len >= f->refuse_at)
        answer_taker(t, 507, "full");
}

static void on_body_end(void *ctx)
{
    struct taker *t = ctx;
    char text[32];
    snprintf(text, sizeof text, "%zu bytes", t->got.len);
    t->ends++;
    answer_taker(t, 200, text);
}

static void on_body_abort(void *ctx, const struct err *why)
{
    struct taker *t = ctx;
    t->aborts++;
    t->why = why->code;
    answer_taker(t, err_status(why->code), err_wire(why->code));
}

void fixture_take(struct taker *t)
{
    static const struct http_receiver receiver = {on_piece, on_body_end, on_body_abort};
    http_body_take(t->x, &receiver, t);
}

void fixture_go_on(struct taker *t)
{
    http_body_resume(t->x);
}

static void begin_taker(struct fixture *f, struct http_exchange *x, const struct http_request *req)
{
    assert_true(f->taker_count < TAKERS_MAX);
    struct taker *t = &f->takers[f->taker_count++];
    *t = (struct taker){.f = f, .x = x, .length = req->length};
    assert_int_equal(req->body.len, 0);
    if (!f->takes_later)
        fixture_take(t);
}

static bool in_pieces(void *ctx, enum http_method method, struct str path)
{
    (void)ctx;
    return method != HTTP_GET && path.len >= 7 && memcmp(path.at, "/pieces", 7) == 0;
}

/* -- the handler ------------------------------------------------------------ */

static void stream_eleven(struct fixture *f, struct http_exchange *x)
{
    f->stream = x;
    http_stream_begin_sized(x, 200, STR("text/plain"), 11, "X-Extra: 1\r\n", on_stream_closed, f);
}

static void handle(void *ctx, struct http_exchange *x, const struct http_request *req)
{
    struct fixture *f = ctx;
    f->served++;
    if (str_eq(req->path, STR("/echo"))) {
        http_reply(x, 200, STR("text/plain"), req->body, "X-Extra: 1\r\n");
    } else if (str_eq(req->path, STR("/headers"))) {
        reply_headers(x, req);
    } else if (str_eq(req->path, STR("/held"))) {
        assert_true(f->held_count < HELD_MAX);
        f->held[f->held_count++] = x;
    } else if (str_eq(req->path, STR("/stream"))) {
        f->stream = x;
        http_stream_begin(x, 200, STR("application/x-ndjson"), on_stream_closed, f);
    } else if (str_eq(req->path, STR("/sized"))) {
        stream_eleven(f, x);
    } else if (in_pieces(f, req->method, req->path)) {
        begin_taker(f, x, req);
    } else if (str_eq(req->path, STR("/large"))) {
        struct buf b = {0};
        memset(buf_room(&b, LARGE), 'x', LARGE);
        b.len = LARGE;
        http_reply(x, 200, STR("text/plain"), buf_view(&b), NULL);
        buf_fini(&b);
    } else if (str_eq(req->path, STR("/close"))) {
        fixture_close_server(f);
        http_reply(x, 200, STR("text/plain"), STR("unseen"), NULL);
    } else {
        http_reply(x, 204, (struct str){0}, (struct str){0}, NULL);
    }
}

void fixture_init(struct fixture *f)
{
    *f = (struct fixture){.settings = http_defaults()};
    f->settings.allowed_hosts = "*";
    f->settings.in_pieces = in_pieces;
    must(uv_loop_init(&f->loop) == 0);
    must(uv_timer_init(&f->loop, &f->guard) == 0);
}

void fixture_serve(struct fixture *f)
{
    if (f->threads && !f->settings.budget)
        f->settings.budget = http_budget_new((uint64_t)64 * 1024 * 1024);
    if (!f->settings.bodies)
        f->settings.bodies = body_memory_new((uint64_t)256 * 1024 * 1024);
    struct err e = f->threads
                       ? io_threads_new(&f->loop, &f->settings, f->threads, handle, f, &f->io)
                       : http_server_new(&f->loop, &f->settings, handle, f, &f->server);
    assert_int_equal(e.code, ERR_OK);
    assert_true(fixture_port(f) > 0);
}

int fixture_port(const struct fixture *f)
{
    return f->io ? io_threads_port(f->io) : http_server_port(f->server);
}

void fixture_step(struct fixture *f)
{
    uv_timer_start(&f->guard, on_guard, GUARD_MS, 0);
    uv_run(&f->loop, UV_RUN_ONCE);
    uv_timer_stop(&f->guard);
}

void fixture_settle(struct fixture *f)
{
    /* More turns than any chain of events here takes, and each returns at once. */
    for (int i = 0; i < 20; i++)
        uv_run(&f->loop, UV_RUN_NOWAIT);
}

void fixture_close_server(struct fixture *f)
{
    if (f->io)
        io_threads_close(f->io);
    else
        http_server_close(f->server);
    f->server_closed = true;
}

void fixture_fini(struct fixture *f)
{
    if ((f->server || f->io) && !f->server_closed)
        fixture_close_server(f);
    uv_close((uv_handle_t *)&f->guard, NULL);
    uv_run(&f->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&f->loop), 0);
    io_threads_free(f->io);
    http_budget_free(f->settings.budget);
    body_memory_free(f->settings.bodies);
    for (int i = 0; i < f->taker_count; i++)
        buf_fini(&f->takers[i].got);
}

static void on_readable(uv_poll_t *poll, int status, int events)
{
    (void)status;
    (void)events;
    struct client *c = poll->data;
    char *to = buf_room(&c->in, 65537);
    ssize_t n = recv(c->fd, to, 65536, MSG_DONTWAIT);
    if (n < 0 && errno == EAGAIN)
        return;
    if (n <= 0) {
        c->ended = true;
        c->reset = n < 0;
        client_pause(c);
        return;
    }
    c->in.len += (size_t)n;
    c->in.at[c->in.len] = '\0';
}

void client_open(struct fixture *f, struct client *c)
{
    *c = (struct client){.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    assert_true(c->fd >= 0);
    int port = f->front_port ? f->front_port : fixture_port(f);
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)port),
                             .sin_addr = {htonl(INADDR_LOOPBACK)}};
    assert_int_equal(connect(c->fd, (struct sockaddr *)&to, sizeof to), 0);
    must(uv_poll_init(&f->loop, &c->poll, c->fd) == 0);
    c->poll.data = c;
    *buf_room(&c->in, 1) = '\0';
    client_resume(c);
}

void client_pause(struct client *c)
{
    uv_poll_stop(&c->poll);
    c->watched = false;
}

void client_resume(struct client *c)
{
    uv_poll_start(&c->poll, UV_READABLE, on_readable);
    c->watched = true;
}

static void on_poll_closed(uv_handle_t *handle)
{
    struct client *c = handle->data;
    c->fd = -1;
}

void client_close(struct fixture *f, struct client *c)
{
    int fd = c->fd;
    uv_close((uv_handle_t *)&c->poll, on_poll_closed);
    AWAIT(f, c->fd < 0);
    close(fd);
    buf_fini(&c->in);
}

void client_send(struct client *c, const char *text)
{
    size_t len = strlen(text);
    ssize_t n = send(c->fd, text, len, MSG_NOSIGNAL);
    assert_int_equal(n, len);
}

void client_send_bytes(struct fixture *f, struct client *c, size_t count)
{
    static const char bytes[65536];
    while (count) {
        size_t len = count < sizeof bytes ? count : sizeof bytes;
        ssize_t n = send(c->fd, bytes, len, MSG_NOSIGNAL | MSG_DONTWAIT);
        assert_true(n > 0 || errno == EAGAIN);
        count -= n > 0 ? (size_t)n : 0;
        fixture_settle(f);
    }
}

bool client_has(const struct client *c, const char *text)
{
    return strstr(c->in.at, text) != NULL;
}

void client_expect(struct fixture *f, struct client *c, const char *text)
{
    while (!client_has(c, text)) {
        if (c->ended)
            fail_msg("the connection ended before %s; there was %s", text, c->in.at);
        fixture_step(f);
    }
    size_t end = (size_t)(strstr(c->in.at, text) - c->in.at) + strlen(text);
    buf_drop(&c->in, end);
    c->in.at[c->in.len] = '\0';
}

void client_expect_end(struct fixture *f, struct client *c)
{
    AWAIT(f, c->ended);
    assert_string_equal(c->in.at, "");
}

int fixture_setup(void **state)
{
    struct fixture *f = alloc_zero(sizeof *f);
    fixture_init(f);
    *state = f;
    return 0;
}

int fixture_teardown(void **state)
{
    fixture_fini(*state);
    free(*state);
    return 0;
}

void fixture_answer(struct http_exchange *x, const char *body)
{
    http_reply(x, 200, STR("text/plain"), str_from(body), NULL);
}
