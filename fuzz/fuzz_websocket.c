/* SPDX-License-Identifier: Apache-2.0 */

/* A client's bytes on a connection of HTTP/1.1 whose socket is never read, where GET becomes a
 * WebSocket if it asks for one: upgrade requests, and the frames behind them. What the server would
 * send is discarded. The first byte is the size of the pieces in which they arrive; of the second,
 * bit 0 puts a good request in front, so that all bytes are frames, and the others say what the
 * owner does with a message. */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/must.h"
#include "base/utf8.h"
#include "net/conn.h"
#include "net/http1_conn.h"
#include "net/http_internal.h"
#include "net/websocket.h"

#define GOOD                                                                                       \
    "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"           \
    "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct bench {
    uv_loop_t loop;
    struct http_server server;
    struct conn *conn;
    int pair[2];          /* its socket, so that it can be told to read or not; the other end */
    struct websocket *ws; /* NULL: there is none, or none any more */
    unsigned plan, messages;
    bool inside; /* the owner is called */
};

static void on_text(void *ctx, struct str message)
{
    struct bench *b = ctx;
    must(b->ws && !b->inside);
    must(message.len <= WEBSOCKET_MESSAGE_MAX && utf8_check(message) == message.len);
    b->inside = true;
    unsigned what = b->plan >> (1 + b->messages++ % 3 * 2) & 3;
    if (what == 1)
        websocket_send(b->ws, message);
    else if (what == 2)
        websocket_end(b->ws, WEBSOCKET_REFUSED, "it is not understood");
    b->inside = false;
}

static void on_drained(void *ctx)
{
    const struct bench *b = ctx;
    must(b->ws && !b->inside);
}

static void on_closed(void *ctx)
{
    struct bench *b = ctx;
    must(b->ws && !b->inside);
    b->ws = NULL;
}

static void refuse(struct http_exchange *x, const struct err *err)
{
    must(err->code != ERR_OK && err->msg[0]);
    http_reply(x, err_status(err->code), STR("text/plain"), str_from(err->msg), WEBSOCKET_VERSIONS);
}

static void handle(void *ctx, struct http_exchange *x, const struct http_request *req)
{
    static const struct websocket_owner owner = {on_text, on_drained, on_closed};
    struct bench *b = ctx;
    must(!b->ws);
    struct err err = websocket_check(req);
    if (err.code == ERR_OK) {
        must(req->method == HTTP_GET && req->websocket);
        err = websocket_accept(x, req, &owner, b, &b->ws);
    }
    if (err.code != ERR_OK)
        refuse(x, &err);
}

static void on_freed(void *owner)
{
    (void)owner;
}

static void open_bench(struct bench *b, unsigned plan)
{
    *b = (struct bench){.plan = plan};
    must(uv_loop_init(&b->loop) == 0);
    struct http_server *s = &b->server;
    s->settings = http_defaults();
    s->settings.allowed_hosts = "*";
    s->settings.body_max = 300000;
    s->settings.header_max = 2000;
    s->handler = handle;
    s->ctx = b;
    TAILQ_INIT(&s->unnotified);
    TAILQ_INIT(&s->spares);
    s->conns.backlog_max = 100000; /* it is never written */
    budget_init(&s->unlimited, UINT64_MAX);
    s->conns.budget = &s->unlimited;
    s->bodies = body_memory_new(150000);
    s->conns.tick_ms = 5000;
    conn_set_init(&s->conns, &b->loop, s, on_freed, s->bodies);
    struct conn *c = b->conn = ALLOC(struct conn);
    c->set = &s->conns;
    c->protocol = &http1_conn;
    c->tcp.data = c;
    must(uv_tcp_init(&b->loop, &c->tcp) == 0);
    must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, b->pair) == 0);
    must(uv_tcp_open(&c->tcp, b->pair[0]) == 0);
    LIST_INSERT_HEAD(&s->conns.all, c, link);
    s->conns.count = 1;
    c->protocol->open(c);
}

/* Memory of its own, so that a span that outlives it is detected. */
static void feed(struct conn *c, const void *at, size_t len)
{
    char *piece = alloc_get(len);
    memcpy(piece, at, len);
    c->protocol->input(c, piece, len);
    free(piece);
}

static void turn(struct bench *b, unsigned n)
{
    struct conn *c = b->conn;
    if (c->closing)
        return;
    c->protocol->wake(c); /* here a connection that was upgraded changes hands */
    if (b->ws && n % 5 == 4)
        websocket_send(b->ws, STR("{\"n\":1}"));
    c->protocol->before_write(c);
    c->out.len = 0;
    if (n % 3 == 2)
        c->protocol->tick(c, uv_now(&b->loop) + n * 1000);
    if (n % 11 == 10)
        c->protocol->drained(c);
}

static void close_bench(struct bench *b)
{
    struct http_server *s = &b->server;
    close(b->pair[1]);
    conn_abort(b->conn);
    conn_set_close(&s->conns);
    uv_run(&b->loop, UV_RUN_DEFAULT);
    must(!b->ws && s->live == 0 && s->conns.count == 0);
    struct http_exchange *x;
    while ((x = TAILQ_FIRST(&s->spares))) {
        TAILQ_REMOVE(&s->spares, x, link);
        arena_fini(&x->arena);
        buf_fini(&x->later);
        free(x);
    }
    conn_set_fini(&s->conns);
    body_memory_free(s->bodies);
    must(uv_loop_close(&b->loop) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    struct bench b;
    open_bench(&b, data[1]);
    size_t each = data[0] ? (size_t)data[0] * 3 : size;
    unsigned n = 0;
    if (data[1] & 1) {
        feed(b.conn, GOOD, sizeof GOOD - 1);
        must(b.ws);
        turn(&b, n++);
    }
    for (size_t at = 2; at < size && !b.conn->closing; at += each) {
        feed(b.conn, data + at, size - at < each ? size - at : each);
        turn(&b, n++);
    }
    if (data[0] & 1 && !b.conn->closing)
        b.conn->protocol->drain(b.conn);
    turn(&b, n);
    close_bench(&b);
    return 0;
}
