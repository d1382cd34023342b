/* SPDX-License-Identifier: Apache-2.0 */

/* Bytes after the client's preface are fed to the server's side of HTTP/2, on a connection without
 * a socket: what it would send is discarded. The first byte is the size of the pieces in which they
 * arrive, the second says what the handler does with each request; bodies of PUT come to it in
 * pieces. After each piece the
 * connection's counters must agree with its streams. */

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/must.h"
#include "net/http2.h"
#include "net/http2_internal.h"

#define HELD_MAX   8
#define TAKERS_MAX 32

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Takes the body of a PUT: at once or in a later turn, with pauses, to its end or not. */
struct taker {
    struct http_exchange *x; /* NULL: answered */
    unsigned what;
    size_t got;
    bool taken, over; /* over: end or abort was called */
};

struct bench {
    uv_loop_t loop;
    struct http_server server;
    struct conn *conn;
    struct http_exchange *held[HELD_MAX], *stream;
    int held_count, streams;
    struct taker takers[TAKERS_MAX];
    int taker_count;
    unsigned plan, turn;
};

static void on_stream_closed(void *ctx)
{
    struct bench *b = ctx;
    b->stream = NULL;
    b->streams--;
    must(b->streams == 0);
}

static void on_gone(void *ctx)
{
    (void)ctx;
}

static void answer_taker(struct taker *t, int status)
{
    struct http_exchange *x = t->x;
    t->x = NULL;
    http_reply(x, status, STR("text/plain"), STR("taken"), NULL);
}

static void on_piece(void *ctx, struct str bytes)
{
    struct taker *t = ctx;
    must(bytes.len > 0 && t->x && t->taken && !t->over);
    t->got += bytes.len;
    if (t->what == 1)
        http_body_pause(t->x);
    else if (t->what == 2 && t->got > 3)
        answer_taker(t, 507);
}

static void on_body_end(void *ctx)
{
    struct taker *t = ctx;
    must(t->x && !t->over);
    t->over = true;
    if (t->what != 3) /* else in a later turn */
        answer_taker(t, 200);
}

static void on_body_abort(void *ctx, const struct err *why)
{
    struct taker *t = ctx;
    must(t->x && !t->over && why->code != ERR_OK);
    t->over = true;
    answer_taker(t, err_status(why->code));
}

static const struct http_receiver receiver = {on_piece, on_body_end, on_body_abort};

static void take(struct taker *t)
{
    t->taken = true;
    http_body_take(t->x, &receiver, t);
}

static bool in_pieces(void *ctx, enum http_method method, struct str path)
{
    (void)ctx;
    must(path.len > 0);
    return method == HTTP_PUT;
}

static void begin_taker(struct bench *b, struct http_exchange *x, unsigned what)
{
    if (b->taker_count == TAKERS_MAX) {
        http_reply(x, 503, STR("text/plain"), STR("busy"), NULL);
        return;
    }
    struct taker *t = &b->takers[b->taker_count++];
    *t = (struct taker){.x = x, .what = what};
    if (what != 3)
        take(t);
}

/* What takers do in a turn of the loop. */
static void serve_takers(struct bench *b, bool last)
{
    for (int i = 0; i < b->taker_count; i++) {
        struct taker *t = &b->takers[i];
        if (t->x && (t->over || last))
            answer_taker(t, 200);
        else if (t->x && !t->taken)
            take(t);
        else if (t->x)
            http_body_resume(t->x);
    }
}

static void handle(void *ctx, struct http_exchange *x, const struct http_request *req)
{
    struct bench *b = ctx;
    must(req->path.len > 0);
    must(req->path.at[0] == '/' || str_eq(req->path, STR("*")));
    unsigned what = (b->plan >> (b->turn++ % 4 * 2)) & 3;
    if (req->method == HTTP_PUT)
        begin_taker(b, x, what);
    else if (what == 1 && b->held_count < HELD_MAX) {
        b->held[b->held_count++] = x;
        http_on_gone(x, on_gone, b);
    } else if (what == 2 && !b->stream) {
        b->streams++;
        b->stream = x;
        http_stream_begin(x, 200, STR("text/plain"), on_stream_closed, b);
    } else if (what == 3) {
        http_reply(x, 405, STR("text/plain"), req->path, "Allow: GET\r\nX-Y: z\r\n");
    } else {
        http_reply(x, 200, STR("text/plain"), req->body, NULL);
    }
}

static void check_books(struct http2 *h)
{
    uint64_t bodies = 0, replies = 0, streamed = 0, heads = 0;
    int waiting = 0, withheld = 0;
    struct stream *st;
    TAILQ_FOREACH(st, &h->streams, link)
    {
        must(st->x && st->x->stream == st && st->x->conn == h->conn);
        must(st->sent <= st->x->later.len);
        bodies += st->body.len;
        replies += st->x->state == EXCHANGE_DONE ? stream_unsent(st) : 0;
        streamed += st->x->state == EXCHANGE_DONE ? 0 : stream_unsent(st);
        heads += st->head_held;
        waiting += http2_is_waiting(st);
        withheld += st->withheld > 0;
        bool holds = st->pieces && st->x->body != BODY_OVER;
        must(!st->served || holds || st->body.len == 0);
    }
    must(bodies == h->bodies && replies == h->replies);
    must(streamed == h->streamed && heads == h->heads && h->pages == 0);
    must(waiting == h->waiting && withheld == h->withheld);
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
    s->settings.backlog_max = 2000;
    s->settings.streams_max = 20;
    s->settings.in_pieces = in_pieces;
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
    c->protocol = &http2_conn;
    c->tcp.data = c;
    must(uv_tcp_init(&b->loop, &c->tcp) == 0);
    LIST_INSERT_HEAD(&s->conns.all, c, link);
    s->conns.count = 1;
    c->protocol->open(c);
}

static void answer_held(struct bench *b)
{
    for (int i = 0; i < b->held_count; i++)
        http_reply(b->held[i], 200, STR("text/plain"), STR("late"), NULL);
    b->held_count = 0;
}

/* Events in a turn of the loop other than input. */
static void turn(struct bench *b, unsigned n)
{
    struct conn *c = b->conn;
    if (b->stream && !http_backlogged(b->stream))
        http_stream_write(b->stream, STR("a line\n"));
    if (n % 5 == 4)
        answer_held(b);
    if (n % 2 == 1)
        serve_takers(b, false);
    if (n % 7 == 6 && b->stream)
        http_stream_end(b->stream);
    c->protocol->before_write(c);
    c->out.len = 0;
    if (n % 3 == 2)
        c->protocol->tick(c, uv_now(&b->loop) + n * 1000);
    if (n % 11 == 10)
        c->protocol->drained(c);
    check_books(c->state);
}

static void close_bench(struct bench *b)
{
    struct http_server *s = &b->server;
    conn_abort(b->conn);
    conn_set_close(&s->conns);
    uv_run(&b->loop, UV_RUN_DEFAULT);
    must(b->streams == 0);
    answer_held(b);
    serve_takers(b, true);
    must(s->live == 0 && s->conns.count == 0);
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
    struct conn *c = b.conn;
    size_t each = data[0] ? (size_t)data[0] * 3 : size;
    c->protocol->input(c, HTTP2_PREFACE, sizeof HTTP2_PREFACE - 1);
    unsigned n = 0;
    for (size_t at = 2; at < size; at += each) {
        size_t len = size - at < each ? size - at : each;
        /* Memory of its own, so that a span that outlives it is detected. */
        char *piece = alloc_get(len);
        memcpy(piece, data + at, len);
        c->protocol->input(c, piece, len);
        free(piece);
        turn(&b, n++);
    }
    if (data[0] & 1)
        c->protocol->drain(c);
    turn(&b, n);
    close_bench(&b);
    return 0;
}
