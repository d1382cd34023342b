/* SPDX-License-Identifier: Apache-2.0 */
#include "fake_http.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/list.h"
#include "base/must.h"
#include "net/websocket.h"

struct http_exchange {
    struct list node; /* of those that were forgotten */
    struct arena arena;
    fake_answered answered;
    void *ctx;
    struct http_exchange **slot; /* of whoever asked */
    void (*gone)(void *ctx);
    void *gone_ctx;
    void (*settled)(void *ctx, bool lost);
    void *settled_ctx;
    bool head, left;
    /* A body in pieces: what is left of it, and who takes it. */
    struct str body;
    const struct http_receiver *receiver;
    void *receiver_ctx;
    bool paused, over;
    /* An answer in pieces. */
    int status;
    struct buf out;
    void (*closed)(void *ctx);
    void *stream_ctx;
    bool aborted;
    void *note;
};

/* Few, so that most bodies come in several. */
#define PIECE 5

static struct list forgotten = {&forgotten, &forgotten};

static void exchange_free(struct http_exchange *x)
{
    buf_fini(&x->out);
    arena_fini(&x->arena);
    free(x);
}

void fake_ask(struct router *r, const struct fake_request *asked, fake_answered answered, void *ctx,
              struct http_exchange **slot)
{
    struct http_exchange *x = ALLOC(struct http_exchange);
    enum http_method method = asked->method;
    struct str target = asked->target, body = asked->body;
    const char *mark = target.len ? memchr(target.at, '?', target.len) : NULL;
    size_t path = mark ? (size_t)(mark - target.at) : target.len;
    bool pieces = router_takes_pieces(r, method, (struct str){target.at, path});
    const struct http_request req = {.method = method,
                                     .path = {target.at, path},
                                     .query = mark ? (struct str){mark + 1, target.len - path - 1}
                                                   : (struct str){0},
                                     .host = STR("localhost"),
                                     .content_type = STR("application/json"),
                                     .authorization = asked->authorization,
                                     .idempotency_key = asked->idempotency_key,
                                     .body = pieces ? (struct str){0} : body,
                                     .length = (int64_t)body.len,
                                     .arena = &x->arena};
    x->answered = answered;
    x->ctx = ctx;
    x->slot = slot;
    x->head = method == HTTP_HEAD;
    x->body = arena_copy(&x->arena, body);
    *slot = x;
    router_handle(r, x, &req);
}

static void answer(struct http_exchange *x, int status, struct str body)
{
    *x->slot = NULL;
    x->answered(x->ctx, status, body);
}

/* The end of an answer in pieces, whole or not. */
static void close_stream(struct http_exchange *x)
{
    answer(x, x->status, buf_view(&x->out));
    x->closed(x->stream_ctx);
    exchange_free(x);
}

static void give_up_body(struct http_exchange *x)
{
    struct err why = err_make(ERR_IO, "the peer has gone");
    x->over = true;
    x->receiver->abort(x->receiver_ctx, &why);
}

static void next_piece(struct http_exchange *x)
{
    struct http_exchange **slot = x->slot;
    struct str piece = {x->body.at, x->body.len < PIECE ? x->body.len : PIECE};
    x->body = (struct str){x->body.at + piece.len, x->body.len - piece.len};
    if (piece.len)
        x->receiver->piece(x->receiver_ctx, piece);
    if (*slot != x || x->body.len || x->paused)
        return;
    x->over = true;
    x->receiver->end(x->receiver_ctx);
}

void fake_step(struct http_exchange *x)
{
    if (x->closed && (x->aborted || x->left))
        close_stream(x);
    else if (x->receiver && !x->paused && !x->over && x->left)
        give_up_body(x);
    else if (x->receiver && !x->paused && !x->over)
        next_piece(x);
}

struct str fake_sent(const struct http_exchange *x)
{
    return buf_view(&x->out);
}

void fake_leave(struct http_exchange *x)
{
    x->left = true;
    if (x->gone)
        x->gone(x->gone_ctx);
}

void fake_forget(struct http_exchange *x)
{
    list_append(&forgotten, &x->node);
}

void fake_free_all(void)
{
    while (!list_is_empty(&forgotten)) {
        struct http_exchange *x = LIST_OF(forgotten.next, struct http_exchange, node);
        list_unlink(&x->node);
        exchange_free(x);
    }
}

/* --- what front ends call --- */

void http_reply(struct http_exchange *x, int status, struct str content_type, struct str body,
                const char *extra)
{
    (void)content_type;
    (void)extra;
    void (*settled)(void *ctx, bool lost) = x->settled;
    void *settled_ctx = x->settled_ctx;
    bool lost = x->left;
    must(!x->closed);
    answer(x, status, body);
    exchange_free(x);
    if (settled)
        settled(settled_ctx, lost);
}

void http_on_settled(struct http_exchange *x, void (*settled)(void *ctx, bool lost), void *ctx)
{
    x->settled = settled;
    x->settled_ctx = ctx;
}

void http_body_take(struct http_exchange *x, const struct http_receiver *receiver, void *ctx)
{
    must(!x->receiver);
    x->receiver = receiver;
    x->receiver_ctx = ctx;
}

void http_body_pause(struct http_exchange *x)
{
    x->paused = true;
}

void http_body_resume(struct http_exchange *x)
{
    x->paused = false;
}

void http_stream_begin_sized(struct http_exchange *x, int status, struct str content_type,
                             uint64_t length, const char *extra, void (*closed)(void *ctx),
                             void *ctx)
{
    (void)content_type;
    (void)extra;
    (void)length;
    must(!x->closed);
    x->status = status;
    x->closed = closed;
    x->stream_ctx = ctx;
    x->gone = NULL;
}

void http_stream_begin(struct http_exchange *x, int status, struct str content_type,
                       void (*closed)(void *ctx), void *ctx)
{
    http_stream_begin_sized(x, status, content_type, 0, NULL, closed, ctx);
}

void http_stream_write(struct http_exchange *x, struct str bytes)
{
    must(x->closed);
    buf_str(&x->out, bytes);
}

void http_stream_end(struct http_exchange *x)
{
    must(x->closed);
    close_stream(x);
}

void http_stream_abort(struct http_exchange *x)
{
    must(x->closed);
    x->aborted = true;
}

/* The peer reads as fast as it can. */
void http_stream_on_drain(struct http_exchange *x, void (*drained)(void *ctx))
{
    (void)x;
    (void)drained;
}

bool http_must_wait(const struct http_exchange *x)
{
    (void)x;
    return false;
}

bool http_is_head(const struct http_exchange *x)
{
    return x->head;
}

void http_on_gone(struct http_exchange *x, void (*gone)(void *ctx), void *ctx)
{
    x->gone = gone;
    x->gone_ctx = ctx;
}

bool http_is_tls(const struct http_exchange *x)
{
    (void)x;
    return false;
}

const struct http_peer *http_peer(struct http_exchange *x)
{
    static const struct http_peer peer = {.address = "192.0.2.1"};
    (void)x;
    return &peer;
}

bool http_is_gone(const struct http_exchange *x)
{
    return x->left;
}

bool http_is_overloaded(const struct http_exchange *x)
{
    (void)x;
    return false;
}

bool http_backlogged(const struct http_exchange *x)
{
    (void)x;
    return false;
}

uint64_t http_stream_share(const struct http_exchange *x)
{
    (void)x;
    return UINT64_MAX;
}

void http_set_note(struct http_exchange *x, void *note)
{
    x->note = note;
}

void *http_note(const struct http_exchange *x)
{
    return x->note;
}

/* No request here asks for a WebSocket. */
struct err websocket_check(const struct http_request *req)
{
    (void)req;
    return err_make(ERR_BAD_REQUEST, "there are no WebSockets here");
}

struct err websocket_accept(struct http_exchange *x, const struct http_request *req,
                            const struct websocket_owner *owner, void *ctx, struct websocket **out)
{
    (void)x;
    (void)owner;
    (void)ctx;
    *out = NULL;
    return websocket_check(req);
}

void websocket_send(struct websocket *w, struct str text)
{
    (void)text;
    must(!w);
}

bool websocket_is_congested(struct websocket *w)
{
    must(!w);
    return false;
}

void websocket_end(struct websocket *w, enum websocket_code code, const char *why)
{
    (void)code;
    (void)why;
    must(!w);
}
