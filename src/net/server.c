/* SPDX-License-Identifier: Apache-2.0 */
#include "net/http_internal.h"

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/log.h"
#include "base/must.h"
#include "net/cors.h"
#include "net/http1_conn.h"
#include "net/http2.h"
#include "net/listen.h"

/* Exchanges, with their memory, kept for reuse. */
#define SPARES_MAX     1024
#define LATER_KEEP_MAX ((size_t)4 * 1024)
/* What most requests need in memory: of hundreds under way all of it stays in the cache. */
#define ARENA_FIRST ((size_t)512)
/* Connections over the limit that may wait to read their 503; more are closed without. */
#define REFUSED_MAX 64
/* How many answers of unknown size are made for a connection at a time. */
#define PAGES_MAX 4
/* A peer with more unsent bytes than this is handed no further jobs. */
#define UNREAD_MAX ((uint64_t)8 * 1024 * 1024)

struct http_settings http_defaults(void)
{
    return (struct http_settings){
        .host = "127.0.0.1",
        .port = 0,
        .body_max = (uint64_t)16 * 1024 * 1024,
        .header_max = (uint64_t)32 * 1024,
        .connections_max = 10000,
        .header_timeout = {10000},
        .body_timeout = {30000},
        .idle_timeout = {75000},
        .write_timeout = {30000},
        .tcp_user_timeout = {30000},
        .pipeline_max = 128,
        .backlog_max = (uint64_t)1024 * 1024,
        .streams_max = 256,
        .handshake_timeout = {10000},
    };
}

/* -- exchanges -------------------------------------------------------------- */

struct http_exchange *exchange_new(struct http_server *s, struct conn *c)
{
    struct http_exchange *x = TAILQ_FIRST(&s->spares);
    if (x) {
        TAILQ_REMOVE(&s->spares, x, link);
        s->spare_count--;
    } else {
        x = ALLOC(struct http_exchange);
        x->server = s;
        x->arena.first = ARENA_FIRST;
    }
    x->conn = c;
    s->live++;
    return x;
}

static void release_if_over(struct http_server *s);

static void count_pending(struct http_exchange *x, uint64_t bytes, uint64_t reserved)
{
    x->pending_bytes += bytes;
    x->reserved += reserved;
    x->conn->pending_bytes += bytes;
    x->conn->reserved += reserved;
    budget_add(x->conn->set->budget, bytes + reserved);
    if (x->server->relays)
        budget_reserve(x->conn->set->budget, bytes + reserved);
}

/* The connection no longer counts the answer; the budget does while it is being made. */
static void disown(struct http_exchange *x)
{
    if (!x->conn)
        return;
    x->conn->pending_bytes -= x->pending_bytes;
    x->conn->reserved -= x->reserved;
}

/* The answer is made, or will not be. */
static void settle(struct http_exchange *x)
{
    disown(x);
    uint64_t bytes = x->pending_bytes + x->reserved;
    if (x->server->relays)
        budget_unreserve(x->server->conns.budget, bytes);
    budget_release(x->server->conns.budget, bytes);
    x->pending_bytes = x->reserved = 0;
    if (x->kept)
        body_memory_release(&x->server->conns.bodies, x->kept);
    x->kept = 0;
}

void exchange_free(struct http_exchange *x)
{
    struct http_server *s = x->server;
    settle(x);
    if (s->serving == x)
        s->serving = NULL;
    if (x->unnotified)
        TAILQ_REMOVE(&s->unnotified, x, link);
    if (x->later.cap > LATER_KEEP_MAX)
        buf_fini(&x->later);
    if (x->arena.head)
        arena_reset(&x->arena);
    s->live--;
    if (s->closing || s->spare_count == SPARES_MAX) {
        arena_fini(&x->arena);
        buf_fini(&x->later);
        free(x);
        release_if_over(s);
        return;
    }
    struct http_exchange fresh = {.server = s, .later = x->later, .arena = x->arena};
    fresh.later.len = 0;
    *x = fresh;
    /* The one used last is used next: its memory is still in the cache. */
    TAILQ_INSERT_HEAD(&s->spares, x, link);
    s->spare_count++;
}

/* An owner that is notified may reply to any other exchange of the list. */
static void notify_gone(void *owner)
{
    struct http_server *s = owner;
    struct http_exchange *x;
    while ((x = TAILQ_FIRST(&s->unnotified))) {
        TAILQ_REMOVE(&s->unnotified, x, link);
        x->unnotified = false;
        if (x->state == EXCHANGE_STREAM) {
            x->closed(x->stream_ctx);
            exchange_free(x);
        } else if (x->receiver) {
            server_body_abort(x, err_make(ERR_IO, "the client has gone before its body was whole"));
        } else if (x->gone) {
            x->gone(x->gone_ctx);
        }
    }
}

void exchange_orphan(struct http_server *s, struct exchange_queue *q)
{
    struct http_exchange *x;
    while ((x = TAILQ_FIRST(q))) {
        TAILQ_REMOVE(q, x, link);
        disown(x);
        x->conn = NULL;
        if (x->state == EXCHANGE_DONE) {
            exchange_free(x);
        } else if (x->state == EXCHANGE_STREAM || x->receiver || x->gone) {
            x->unnotified = true;
            TAILQ_INSERT_TAIL(&s->unnotified, x, link);
        }
    }
    notify_gone(s);
}

const char *server_date(struct http_server *s)
{
    uint64_t now = uv_now(s->conns.loop) / 1000;
    if (s->date_at != now + 1) {
        uv_timeval64_t t;
        must(uv_gettimeofday(&t) == 0);
        reply_date(s->date, t.tv_sec);
        s->date_at = now + 1;
    }
    return s->date;
}

/* Only its own thread writes, others may read. */
static void count(_Atomic uint64_t *n)
{
    atomic_store_explicit(n, atomic_load_explicit(n, memory_order_relaxed) + 1,
                          memory_order_relaxed);
}

static void count_reply(struct http_server *s, int status)
{
    must(status >= 100 && status / 100 < HTTP_CLASSES);
    count(&s->counts.replies[status / 100]);
}

uint64_t server_reply_bound(const struct http_server *s, const struct http_request *req)
{
    return s->settings.reply_bound ? s->settings.reply_bound(s->settings.replies_ctx, req) : 0;
}

bool server_has_room(struct conn *c, uint64_t bound)
{
    const struct http_server *s = c->set->owner;
    if (bound && c->reserved && c->reserved + bound > PAGES_MAX * bound)
        return false; /* it is woken when one of its answers is there */
    if (s->relays && s->relays->is_saturated(s->ctx, c)) {
        budget_wait(c);
        return false;
    }
    return budget_has_room(c, bound);
}

/* The size of the answer is known as soon as the handler has gathered it, or has a bound. */
void server_hand_on(struct http_server *s, struct http_exchange *x, const struct http_request *req,
                    uint64_t bound)
{
    uint64_t before = s->settings.gathered ? s->settings.gathered(s->settings.replies_ctx) : 0;
    count_pending(x, 0, bound);
    s->serving = x;
    s->handler(s->ctx, x, req);
    bool pending = s->serving == x && x->state == EXCHANGE_PENDING && x->conn;
    s->serving = NULL;
    if (pending && s->settings.gathered)
        count_pending(x, s->settings.gathered(s->settings.replies_ctx) - before, 0);
}

/* A reader follows a link: whoever wrote it learns nothing of the answer. */
static bool follows_link(const struct http_server *s, const struct http_request *req)
{
    bool reads = req->method == HTTP_GET || req->method == HTTP_HEAD;
    return reads && s->settings.opens_by_link && str_eq(req->fetch_dest, STR("document")) &&
           s->settings.opens_by_link(s->ctx, req->path);
}

/* The page of another origin that may ask; empty: none does. */
static struct str allowed_page(const struct http_server *s, const struct http_request *req)
{
    struct str page = cors_find(s->settings.allowed_origins, req->origin);
    bool open =
        page.len && s->settings.opens_to_origins && s->settings.opens_to_origins(s->ctx, req->path);
    return open ? page : (struct str){0};
}

void server_serve(struct http_server *s, struct http_exchange *x, const struct http_request *req,
                  uint64_t bound)
{
    static const struct str unsaid;
    struct str page = allowed_page(s, req);
    bool skips_site = page.len || follows_link(s, req);
    const struct guard_request asks = {req->host, page.len ? unsaid : req->origin,
                                       skips_site ? unsaid : req->fetch_site};
    struct err e = guard_check(&s->guard, &asks);
    x->page = e.code == ERR_OK ? page : unsaid;
    if (x->page.len && req->method == HTTP_OPTIONS) { /* only browsers ask so, before they do */
        http_reply(x, 204, (struct str){0}, (struct str){0}, cors_preflight);
        return;
    }
    if (e.code == ERR_OK) {
        server_hand_on(s, x, req, bound);
        return;
    }
    struct buf body = {0};
    reply_error_body(&body, &e);
    http_reply(x, err_status(e.code), STR("application/json"), buf_view(&body), NULL);
    buf_fini(&body);
}

void http_on_settled(struct http_exchange *x, void (*settled)(void *ctx, bool lost), void *ctx)
{
    must(x->state == EXCHANGE_PENDING);
    x->settled = settled;
    x->settled_ctx = ctx;
}

static void expect_receipt(struct http_exchange *x)
{
    void (*settled)(void *ctx, bool lost) = x->settled;
    x->settled = NULL;
    if (settled && x->conn && !x->conn->closing && !x->conn->input_ended)
        receipt_add(&x->conn->receipts, settled, x->settled_ctx);
    else if (settled)
        settled(x->settled_ctx, true);
}

void http_reply(struct http_exchange *x, int status, struct str content_type, struct str body,
                const char *extra)
{
    must(x->state == EXCHANGE_PENDING);
    count_reply(x->server, status);
    settle(x);
    x->receiver = NULL;
    struct conn *c = x->conn;
    expect_receipt(x);
    if (!c) {
        exchange_free(x);
        return;
    }
    struct buf lines = {0};
    c->protocol->reply(x, status, content_type, body, cors_lines(extra, x->page, &lines));
    buf_fini(&lines);
    budget_count(c);
}

bool server_upgrade(struct http_exchange *x, const char *extra, const struct protocol *next,
                    void *next_state)
{
    must(x->state == EXCHANGE_PENDING);
    struct http_server *s = x->server;
    struct conn *c = x->conn;
    if (!c || !c->protocol->upgrade || !c->protocol->upgrade(x, extra, next, next_state))
        return false;
    count_reply(s, 101);
    budget_count(c);
    return true;
}

static void begin_stream(struct http_exchange *x, int status, struct str content_type,
                         const char *extra, void (*closed)(void *ctx), void *ctx)
{
    must(x->state == EXCHANGE_PENDING && closed);
    count_reply(x->server, status);
    settle(x);
    x->receiver = NULL;
    x->state = EXCHANGE_STREAM;
    x->closed = closed;
    x->stream_ctx = ctx;
    x->gone = NULL;
    if (x->conn) {
        struct buf lines = {0};
        x->conn->protocol->stream_begin(x, status, content_type,
                                        cors_lines(extra, x->page, &lines));
        buf_fini(&lines);
    } else {
        closed(ctx);
        exchange_free(x);
    }
}

void http_stream_begin(struct http_exchange *x, int status, struct str content_type,
                       void (*closed)(void *ctx), void *ctx)
{
    /* A proxy that gathers answers before it passes them on, as nginx does unless told otherwise,
     * would hold back the jobs of a stream for ever. */
    begin_stream(x, status, content_type, "X-Accel-Buffering: no\r\n", closed, ctx);
}

void http_stream_begin_sized(struct http_exchange *x, int status, struct str content_type,
                             uint64_t length, const char *extra, void (*closed)(void *ctx),
                             void *ctx)
{
    x->sized = true;
    x->unwritten = length;
    begin_stream(x, status, content_type, extra, closed, ctx);
}

void http_stream_write(struct http_exchange *x, struct str bytes)
{
    must(x->state == EXCHANGE_STREAM);
    struct conn *c = x->conn;
    if (!c)
        return;
    must(!x->sized || bytes.len <= x->unwritten);
    x->unwritten -= x->sized ? bytes.len : 0;
    c->protocol->stream_write(x, bytes);
    budget_count(c);
}

void http_stream_end(struct http_exchange *x)
{
    must(x->state == EXCHANGE_STREAM);
    void (*closed)(void *ctx) = x->closed;
    void *ctx = x->stream_ctx;
    if (!x->conn)
        return; /* the owner of another stream does this before its own closed() was called */
    must(!x->sized || x->unwritten == 0 || x->no_body);
    x->conn->protocol->stream_end(x);
    closed(ctx);
}

void http_set_note(struct http_exchange *x, void *note)
{
    x->note = note;
}

void *http_note(const struct http_exchange *x)
{
    return x->note;
}

void http_stream_abort(struct http_exchange *x)
{
    must(x->state == EXCHANGE_STREAM);
    if (x->conn)
        x->conn->protocol->stream_abort(x);
}

bool http_backlogged(const struct http_exchange *x)
{
    /* The protocol marks the connection; the exchange itself stays as it is. */
    return x->conn && x->conn->protocol->backlogged((struct http_exchange *)x);
}

bool http_must_wait(const struct http_exchange *x)
{
    if (http_backlogged(x))
        return true;
    if (!x->conn || budget_has_room(x->conn, 0))
        return false;
    x->conn->stream_waits = true;
    return true;
}

uint64_t http_stream_share(const struct http_exchange *x)
{
    /* Who has read much will read more: a peer that does not cannot have made more than the
     * kernel's buffers leave. */
    uint64_t most = x->conn ? conn_limit(x->conn) : UINT64_MAX;
    uint64_t proven = x->conn ? x->conn->left / 8 : 0;
    return proven > most ? proven : most;
}

bool http_is_overloaded(const struct http_exchange *x)
{
    const struct conn *c = x->conn;
    const struct http_budget *b = x->server->conns.budget;
    return c &&
           (c->counted + c->elsewhere + c->pending_bytes > UNREAD_MAX || budget_is_exhausted(b));
}

bool http_is_head(const struct http_exchange *x)
{
    return x->no_body;
}

bool http_is_tls(const struct http_exchange *x)
{
    return x->server->settings.tls;
}

const struct http_peer *http_peer(struct http_exchange *x)
{
    static const struct http_peer unknown;
    return x->peer ? x->peer : x->conn ? conn_peer(x->conn) : &unknown;
}

void http_set_peer(struct http_exchange *x, const struct http_peer *peer)
{
    x->peer = peer;
}

bool http_is_gone(const struct http_exchange *x)
{
    return !x->conn;
}

void http_stream_on_drain(struct http_exchange *x, void (*drained)(void *ctx))
{
    x->drained = drained;
}

/* The peer has gone already: notifies its owner, but not from in here. */
static void notify_later(struct http_exchange *x)
{
    if (x->unnotified)
        return;
    x->unnotified = true;
    TAILQ_INSERT_TAIL(&x->server->unnotified, x, link);
    conn_set_call(&x->server->conns);
}

void http_on_gone(struct http_exchange *x, void (*gone)(void *ctx), void *ctx)
{
    x->gone = gone;
    x->gone_ctx = ctx;
    if (!gone)
        return;
    if (x->conn && x->conn->input_ended)
        conn_wake(x->conn);
    if (!x->conn)
        notify_later(x);
}

/* -- bodies in pieces ------------------------------------------------------- */

void http_body_take(struct http_exchange *x, const struct http_receiver *receiver, void *ctx)
{
    must(x->state == EXCHANGE_PENDING && x->body == BODY_OFFERED);
    x->receiver = receiver;
    x->receiver_ctx = ctx;
    x->body = BODY_FLOWS;
    if (x->conn)
        x->conn->protocol->body_go_on(x);
    else
        notify_later(x);
}

/* -- the server ------------------------------------------------------------- */

static void release_if_over(struct http_server *s)
{
    if (!s->closing || s->listening || s->conns.count || s->conns.handles || s->live)
        return;
    struct http_exchange *x;
    while ((x = TAILQ_FIRST(&s->spares))) {
        TAILQ_REMOVE(&s->spares, x, link);
        arena_fini(&x->arena);
        buf_fini(&x->later);
        free(x);
    }
    conn_set_fini(&s->conns);
    body_memory_free(s->bodies);
    free(s);
}

static void notify_drained(struct http_server *s)
{
    if (!s->draining || s->listening || s->conns.count || !s->drained)
        return;
    void (*drained)(void *ctx) = s->drained;
    s->drained = NULL;
    drained(s->drained_ctx);
}

static void on_freed(void *owner)
{
    notify_drained(owner);
    release_if_over(owner);
}

static void on_listener_closed(uv_handle_t *handle)
{
    struct http_server *s = handle->data;
    s->listening = false;
    on_freed(s);
}

/* Logs at most once a second: if accepting fails, it fails often. */
static void warn_of_accept(struct http_server *s, int status)
{
    uint64_t now = uv_now(s->conns.loop);
    if (s->warned_at && now - s->warned_at < 1000)
        return;
    s->warned_at = now;
    log_warn("cannot accept a connection: %s", uv_strerror(status));
}

/* How many connections over the limit get a 503: fewer where few files may be open. */
static int refused_max(const struct http_server *s)
{
    int some = 8 + s->settings.connections_max / 4;
    return some < REFUSED_MAX ? some : REFUSED_MAX;
}

/* c may be NULL; others: how many connections there are beside it. */
static void welcome(struct http_server *s, struct conn *c, int others)
{
    int most = s->settings.connections_max;
    if (!c)
        return;
    count(&s->counts.accepted);
    if (others >= most + refused_max(s))
        conn_abort(c);
    else if (others >= most)
        c->protocol->refuse(
            c, err_make(ERR_BUSY, "the server has all the connections it may have, %d", most));
}

/* When no file descriptor is left, libuv accepts and drops connections with one that it keeps in
 * reserve, so that it does not report the same connection again and again. */
static void on_connection(uv_stream_t *listener, int status)
{
    struct http_server *s = listener->data;
    int fd = -1, others = s->conns.count;
    if (status == 0 && s->hand_over)
        status = fd = listen_take(listener);
    if (status < 0)
        warn_of_accept(s, status);
    else if (s->hand_over)
        s->hand_over(s->hand_over_ctx, fd);
    else
        welcome(s, conn_accept(&s->conns, listener, &http1_conn), others);
}

void server_adopt(struct http_server *s, int fd, int others)
{
    welcome(s, conn_adopt(&s->conns, fd, &http1_conn), others);
}

/* How often timeouts are checked: a quarter of the shortest. */
static uint64_t tick_of(const struct http_settings *t)
{
    int64_t least = t->header_timeout.ms;
    const int64_t others[] = {t->body_timeout.ms, t->idle_timeout.ms, t->write_timeout.ms,
                              t->handshake_timeout.ms};
    for (size_t i = 0; i < COUNT(others); i++)
        least = others[i] < least ? others[i] : least;
    least /= 4;
    return least < 5 ? 5 : least > 500 ? 500 : (uint64_t)least;
}

static void ignore_sigpipe(void)
{
    struct sigaction now;
    if (sigaction(SIGPIPE, NULL, &now) == 0 && now.sa_handler == SIG_DFL)
        signal(SIGPIPE, SIG_IGN);
}

struct http_server *server_new(uv_loop_t *loop, const struct http_settings *settings,
                               http_handler handler, void *ctx)
{
    struct http_server *s = ALLOC(struct http_server);
    s->settings = *settings;
    s->handler = handler;
    s->ctx = ctx;
    TAILQ_INIT(&s->unnotified);
    TAILQ_INIT(&s->spares);
    ignore_sigpipe();
    s->conns.tick_ms = tick_of(settings);
    s->conns.write_timeout = settings->write_timeout;
    s->conns.tcp_user_timeout = settings->tcp_user_timeout;
    s->conns.backlog_max = settings->backlog_max;
    budget_init(&s->unlimited, UINT64_MAX);
    s->conns.budget = settings->budget ? settings->budget : &s->unlimited;
    s->conns.handshake_timeout = settings->handshake_timeout;
    s->conns.tls = settings->tls;
    s->conns.h2 = &http2_conn;
    s->conns.called = notify_gone;
    s->guard.allowed = settings->allowed_hosts;
    s->guard.tls = settings->tls;
    s->bodies = settings->bodies ? NULL : body_memory_new(UINT64_MAX);
    conn_set_init(&s->conns, loop, s, on_freed, settings->bodies ? settings->bodies : s->bodies);
    return s;
}

struct err http_server_new(uv_loop_t *loop, const struct http_settings *settings,
                           http_handler handler, void *ctx, struct http_server **out)
{
    struct http_server *s = server_new(loop, settings, handler, ctx);
    must(uv_tcp_init(loop, &s->listener) == 0);
    s->listener.data = s;
    s->listening = true;
    int e = listen_on(&s->listener, settings, on_connection, &s->guard, &s->port);
    if (e < 0) {
        http_server_close(s);
        return err_make(ERR_IO, "cannot listen on %s port %d: %s", settings->host, settings->port,
                        uv_strerror(e));
    }
    *out = s;
    return err_none();
}

int http_server_port(const struct http_server *s)
{
    return s->port;
}

int http_server_socket(const struct http_server *s)
{
    uv_os_fd_t fd;
    return s->listening && uv_fileno((const uv_handle_t *)&s->listener, &fd) == 0 ? fd : -1;
}

int http_server_connections(const struct http_server *s)
{
    return s->conns.count;
}

void http_server_stats(const struct http_server *s, struct http_stats *out)
{
    out->accepted = atomic_load_explicit(&s->counts.accepted, memory_order_relaxed);
    for (int i = 0; i < HTTP_CLASSES; i++)
        out->replies[i] = atomic_load_explicit(&s->counts.replies[i], memory_order_relaxed);
    out->connections = (uint64_t)s->conns.count;
}

static void stop_listening(struct http_server *s)
{
    if (s->listening && !uv_is_closing((uv_handle_t *)&s->listener))
        uv_close((uv_handle_t *)&s->listener, on_listener_closed);
}

void http_server_drain(struct http_server *s, void (*done)(void *ctx), void *ctx)
{
    must(!s->draining && !s->closing);
    s->draining = true;
    s->drained = done;
    s->drained_ctx = ctx;
    stop_listening(s);
    struct conn *c;
    LIST_FOREACH(c, &s->conns.all, link)
    if (!c->closing)
        c->protocol->drain(c);
    notify_drained(s);
}

void http_server_close(struct http_server *s)
{
    must(!s->closing);
    s->closing = true;
    stop_listening(s);
    conn_set_close(&s->conns);
}
