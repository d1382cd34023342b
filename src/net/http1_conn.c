/* SPDX-License-Identifier: Apache-2.0 */
#include "net/http1_conn.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/must.h"
#include "net/http1.h"
#include "net/http2.h"
#include "net/http_headers.h"
#include "net/reply.h"
#include "net/http_internal.h"

/* Input put aside while requests wait; beyond it reading stops. */
#define ASIDE_MAX ((size_t)64 * 1024)
/* How much of a body that nobody wants is read, so that the connection can go on. */
#define DISCARD_MAX ((int64_t)256 * 1024)

struct state {
    struct http1 *reader;
    struct exchange_queue queue;    /* in the order of their requests */
    int waiting;                    /* length of the queue */
    int streams;                    /* of these, how many are streams */
    uint64_t later;                 /* bytes of answers that wait for earlier ones */
    struct http_exchange *parked;   /* of the queue, waits for memory before it is handed on */
    struct http_request request;    /* the parked one, in its arena */
    uint64_t bound;                 /* of its answer */
    struct http_exchange *incoming; /* of the queue, its body comes in pieces */
    int64_t rest;                   /* of the body that comes in pieces; negative: not known */
    struct buf aside;               /* input not looked at yet, from aside_at on */
    size_t aside_at;
    const struct protocol *next; /* takes over in the next turn; NULL: none does */
    void *next_state;
    bool over;         /* no further request will be read; input is thrown away */
    bool draining;     /* the next request, if one is under way, is the last */
    bool used;         /* something other than HTTP/2's preface has come */
    bool preface;      /* HTTP/2 takes over */
    bool continue_due; /* send "100 Continue" once the earlier replies are out */
    bool expects;      /* the client of `incoming` waits for that */
    bool body_ended;   /* the body of `incoming` is there to its end */
    bool discarding;   /* the rest of a body is thrown away */
    bool last;         /* no request follows the one with that body */
    uint64_t began_at; /* when the request being read began */
    uint64_t idle_at;  /* when the last reply was complete */
};

static struct http_server *server_of(const struct conn *c)
{
    return c->set->owner;
}

static struct buf *output_of(struct http_exchange *x)
{
    struct state *h = x->conn->state;
    return TAILQ_FIRST(&h->queue) == x ? conn_out(x->conn) : &x->later;
}

/* -- the order of replies --------------------------------------------------- */

static bool has_aside(const struct state *h)
{
    return h->aside.len > h->aside_at;
}

/* A stream has the connection to itself, and the requests and replies in memory are limited. */
static bool is_blocked(struct conn *c)
{
    const struct http_settings *t = &server_of(c)->settings;
    struct state *h = c->state;
    if (h->incoming)
        return h->incoming->body != BODY_FLOWS;
    return h->next || h->streams || h->parked || h->waiting >= t->pipeline_max ||
           h->later + c->pending_bytes > t->backlog_max || conn_congested(c) ||
           !server_has_room(c, 0);
}

static void send_continue(struct conn *c)
{
    struct state *h = c->state;
    if (!h->continue_due || TAILQ_FIRST(&h->queue) != h->incoming)
        return;
    h->continue_due = false;
    buf_lit(conn_out(c), "HTTP/1.1 100 Continue\r\n\r\n");
}

/* Ends the connection if nothing is under way and nothing more can come. */
static void settle(struct conn *c)
{
    struct state *h = c->state;
    if (!TAILQ_EMPTY(&h->queue)) {
        send_continue(c);
        return;
    }
    h->idle_at = uv_now(c->set->loop);
    if (h->draining && http1_phase(h->reader) == HTTP1_IDLE && !has_aside(h))
        h->over = true;
    if (h->over || (c->input_ended && !has_aside(h)))
        conn_finish(c);
    else
        send_continue(c);
}

static void unblock(struct conn *c)
{
    struct state *h = c->state;
    if (h->parked || (!h->over && (has_aside(h) || !c->reading)))
        conn_wake(c);
}

/* Takes what is answered off the front of the queue. The one that is in front then may have
 * gathered output meanwhile. */
static void advance(struct conn *c)
{
    struct state *h = c->state;
    struct http_exchange *x;
    while ((x = TAILQ_FIRST(&h->queue)) && x->state == EXCHANGE_DONE) {
        TAILQ_REMOVE(&h->queue, x, link);
        h->waiting--;
        exchange_free(x);
        struct http_exchange *next = TAILQ_FIRST(&h->queue);
        if (next && next->later.len) {
            h->later -= next->later.len;
            exchange_chunk_end(next, &next->later);
            buf_str(conn_out(c), buf_view(&next->later));
            next->later.len = 0;
            conn_congested(c);
        }
    }
    settle(c);
    unblock(c);
}

static struct http_exchange *enqueue(struct conn *c)
{
    struct state *h = c->state;
    struct http_exchange *x = exchange_new(server_of(c), c);
    TAILQ_INSERT_TAIL(&h->queue, x, link);
    h->waiting++;
    return x;
}

/* -- replies ---------------------------------------------------------------- */

static struct reply_head head_of(struct http_exchange *x, int status, struct str type)
{
    struct state *h = x->conn->state;
    return (struct reply_head){
        .status = status,
        .date = server_date(x->server),
        .type = type,
        .close = h->over && !TAILQ_NEXT(x, link),
    };
}

static void stop_reading(struct state *h)
{
    h->over = true;
    h->aside.len = h->aside_at = 0;
}

/* The exchange is answered, so that nobody wants its body any more. A client that waits for "100
 * Continue" may send it or not: then nobody knows where the next request would begin. */
static void leave_body(struct conn *c, struct http_exchange *x)
{
    struct state *h = c->state;
    if (h->incoming != x)
        return;
    bool known = !h->expects && !h->continue_due && h->rest >= 0 && h->rest <= DISCARD_MAX;
    h->incoming = NULL;
    h->continue_due = false;
    x->body = BODY_OVER;
    if (h->body_ended)
        h->over = h->over || h->last || h->draining;
    else if (known && !h->last && !h->draining)
        h->discarding = true;
    else
        stop_reading(h);
}

static void reply(struct http_exchange *x, int status, struct str type, struct str body,
                  const char *extra)
{
    struct state *h = x->conn->state;
    leave_body(x->conn, x);
    struct reply_head head = head_of(x, status, type);
    head.extra = extra;
    h->later -= x->later.len;
    reply_add(output_of(x), &head, body, x->no_body);
    h->later += x->later.len;
    x->state = EXCHANGE_DONE;
    advance(x->conn);
}

/* What its requests take: of one that is not whole, or that waits to be handed on, and of what was
 * not looked at yet. */
static void count_memory(struct conn *c)
{
    const struct state *h = c->state;
    uint64_t busy = h->parked ? h->request.body.len : 0;
    conn_hold(c, http1_held(h->reader) + h->aside.cap + busy, busy);
}

/* Answers a malformed request, and reads no further. */
static void refuse(struct conn *c, struct err e)
{
    struct state *h = c->state;
    if (h->over || c->closing)
        return;
    stop_reading(h);
    struct buf body = {0};
    reply_error_body(&body, &e);
    reply(enqueue(c), err_status(e.code), STR("application/json"), buf_view(&body),
          e.code == ERR_BUSY ? "Retry-After: 1\r\n" : NULL);
    buf_fini(&body);
    http1_drop(h->reader);
    buf_fini(&h->aside);
    count_memory(c);
}

static void stream_begin(struct http_exchange *x, int status, struct str type, const char *extra)
{
    struct state *h = x->conn->state;
    leave_body(x->conn, x);
    h->streams++;
    if (x->old)
        h->over = true;
    struct reply_head head = head_of(x, status, type);
    head.chunked = !x->old && !x->sized;
    head.sized = x->sized;
    head.length = x->unwritten;
    head.extra = extra;
    h->later -= x->later.len;
    reply_open(output_of(x), &head);
    h->later += x->later.len;
    /* A peer that has shut down its side and waits for an endless stream counts as gone. */
    if (x->conn->input_ended && !x->sized)
        conn_abort(x->conn);
}

static void stream_write(struct http_exchange *x, struct str bytes)
{
    if (x->no_body || bytes.len == 0)
        return;
    struct state *h = x->conn->state;
    struct buf *out = output_of(x);
    h->later -= x->later.len;
    if (!x->old && !x->sized)
        exchange_chunk_begin(x, out);
    buf_str(out, bytes);
    h->later += x->later.len;
}

static void stream_end(struct http_exchange *x)
{
    struct conn *c = x->conn;
    struct state *h = c->state;
    struct buf *out = output_of(x);
    h->later -= x->later.len;
    exchange_chunk_end(x, out);
    if (!x->old && !x->sized && !x->no_body)
        buf_lit(out, "0\r\n\r\n");
    h->later += x->later.len;
    h->streams--;
    x->state = EXCHANGE_DONE;
    advance(c);
}

/* HTTP/1.1 can only say it by closing without the last chunk. */
static void stream_abort(struct http_exchange *x)
{
    conn_abort(x->conn);
}

/* Only the first one in the queue, for the answers to others come before. The bytes that the reader
 * and the handler look at are still in use, so that it happens in the next turn. */
static bool upgrade(struct http_exchange *x, const char *extra, const struct protocol *next,
                    void *next_state)
{
    struct conn *c = x->conn;
    struct state *h = c->state;
    if (TAILQ_FIRST(&h->queue) != x || h->incoming == x || h->over || h->draining || x->old)
        return false;
    struct reply_head head = head_of(x, 101, (struct str){0});
    head.extra = extra;
    reply_open(conn_out(c), &head);
    TAILQ_REMOVE(&h->queue, x, link);
    h->waiting--;
    exchange_free(x);
    h->next = next;
    h->next_state = next_state;
    conn_wake(c);
    return true;
}

static void hand_over(struct conn *c)
{
    struct state *h = c->state;
    struct buf rest = h->aside;
    size_t from = h->aside_at;
    void *next_state = h->next_state;
    const struct protocol *next = h->next;
    h->aside = (struct buf){0};
    h->next = NULL;
    http1_conn.closed(c);
    conn_hold(c, 0, 0);
    c->protocol = next;
    c->state = next_state;
    next->wake(c);
    if (from < rest.len)
        next->input(c, rest.at + from, rest.len - from);
    buf_fini(&rest);
}

/* -- requests --------------------------------------------------------------- */

/* Keeps a request, which lies in the bytes that were read, until there is room for its answer. */
static void park(struct state *h, struct http_exchange *x, const struct http_request *req,
                 uint64_t bound)
{
    h->parked = x;
    h->bound = bound;
    h->request = *req;
    exchange_keep_request(x, &h->request);
}

static void serve_parked(struct conn *c)
{
    struct state *h = c->state;
    if (!h->parked || !server_has_room(c, h->bound))
        return;
    struct http_exchange *x = h->parked;
    h->parked = NULL;
    server_serve(server_of(c), x, &h->request, h->bound);
}

static void begin_body(struct state *h, struct http_exchange *x, const struct http1_request *r,
                       bool ended)
{
    h->incoming = x;
    h->rest = r->req.length;
    h->last = !r->keep_alive;
    h->expects = r->expects && !ended;
    h->body_ended = ended;
    x->body = BODY_OFFERED;
}

static void serve(struct conn *c, bool whole)
{
    struct state *h = c->state;
    struct http_server *s = server_of(c);
    struct http1_request *r = http1_request(h->reader);
    struct http_exchange *x = enqueue(c);
    x->no_body = r->req.method == HTTP_HEAD;
    x->old = r->old;
    h->continue_due = false;
    r->req.arena = &x->arena;
    if (r->pieces)
        begin_body(h, x, r, whole);
    else if (!r->keep_alive || h->draining)
        h->over = true;
    uint64_t bound = server_reply_bound(s, &r->req);
    if (server_has_room(c, bound))
        server_serve(s, x, &r->req, bound);
    else
        park(h, x, &r->req, bound);
}

static void greet(struct conn *c)
{
    struct state *h = c->state;
    h->continue_due = true;
    settle(c);
}

/* -- bodies in pieces ------------------------------------------------------- */

static void end_body(struct conn *c)
{
    struct state *h = c->state;
    struct http_exchange *x = h->incoming;
    if (!x || !h->body_ended || x->body != BODY_FLOWS)
        return;
    h->incoming = NULL;
    h->continue_due = false;
    h->over = h->over || h->last || h->draining;
    server_body_end(x);
}

/* Without the rest of it nothing that follows can be understood. */
static void abort_body(struct conn *c, struct err why)
{
    struct state *h = c->state;
    struct http_exchange *x = h->incoming;
    h->incoming = NULL;
    h->continue_due = false;
    stop_reading(h);
    server_body_abort(x, why);
}

static void take_piece(struct conn *c)
{
    struct state *h = c->state;
    struct str bytes = http1_piece(h->reader);
    bool ended = http1_phase(h->reader) == HTTP1_IDLE;
    h->rest -= h->rest > 0 ? (int64_t)bytes.len : 0;
    if (h->incoming) {
        h->body_ended = ended;
        server_body_piece(h->incoming, bytes);
        end_body(c);
    } else if (ended) {
        h->discarding = false;
        h->over = h->over || h->draining;
        settle(c);
    }
}

/* The peer has shut down its side in the middle of a body. */
static void miss_body(struct conn *c)
{
    struct state *h = c->state;
    if (h->incoming && !h->body_ended && h->incoming->body == BODY_FLOWS && !has_aside(h))
        abort_body(c, err_make(ERR_BAD_REQUEST, "the body is not whole: the client sends no more"));
}

static void body_go_on(struct http_exchange *x)
{
    struct state *h = x->conn->state;
    h->continue_due = h->expects && !h->body_ended;
    h->expects = false;
    send_continue(x->conn);
    conn_wake(x->conn);
}

/* -- input ------------------------------------------------------------------ */

static void fail_request(struct conn *c, struct err e)
{
    struct state *h = c->state;
    if (h->discarding) { /* of a request that is answered */
        stop_reading(h);
        settle(c);
    } else if (h->incoming) {
        abort_body(c, e);
    } else {
        refuse(c, e);
    }
}

/* Reads requests until the bytes are used up or no further one may be served now. */
static size_t read_requests(struct conn *c, const char *at, size_t len)
{
    struct state *h = c->state;
    size_t used = 0;
    while (used < len && !h->over && !h->preface && !c->closing && !is_blocked(c)) {
        size_t n;
        bool fresh = http1_phase(h->reader) == HTTP1_IDLE;
        enum http1_event event = http1_feed(h->reader, at + used, len - used, &n);
        used += n;
        if (fresh)
            h->began_at = c->read_at;
        if (event == HTTP1_PREFACE && !h->used)
            h->preface = true;
        else if (event == HTTP1_PREFACE)
            refuse(c, err_make(ERR_BAD_REQUEST, "HTTP/2 must begin with the connection"));
        else if (event == HTTP1_REQUEST || event == HTTP1_BEGIN)
            serve(c, event == HTTP1_REQUEST);
        else if (event == HTTP1_PIECE)
            take_piece(c);
        else if (event == HTTP1_CONTINUE)
            greet(c);
        else if (event == HTTP1_BAD)
            fail_request(c, *http1_error(h->reader));
        h->used = h->used || event != HTTP1_MORE;
        http1_release(h->reader);
    }
    return h->over ? len : used;
}

/* While a request is parked reading goes on for a while, so that a reset is noticed. */
static bool may_read_on(struct conn *c)
{
    const struct state *h = c->state;
    bool is_short = body_memory_is_short(c->set->bodies.memory);
    if (h->aside.len >= (is_short ? BODY_MEMORY_TINY : ASIDE_MAX))
        return false;
    return is_blocked(c) ? h->parked || h->streams : conn_may_read(c);
}

static void input(struct conn *c, const char *at, size_t len)
{
    struct state *h = c->state;
    if (h->over)
        return;
    size_t used = has_aside(h) ? 0 : read_requests(c, at, len);
    if (h->preface) { /* the first bytes of a connection are never put aside */
        conn_become(c, &http2_conn);
        c->protocol->input(c, HTTP2_PREFACE, sizeof HTTP2_PREFACE - 1);
        c->protocol->input(c, at + used, len - used);
        return;
    }
    if (used < len && !c->closing) {
        buf_add(&h->aside, at + used, len - used);
        if (!is_blocked(c))
            conn_wake(c);
    }
    count_memory(c);
    if (!h->over && !may_read_on(c))
        conn_read(c, false);
}

static bool backlogged(struct http_exchange *x)
{
    return x->later.len > x->server->settings.backlog_max || conn_congested(x->conn);
}

static void drained(struct conn *c)
{
    struct state *h = c->state;
    struct http_exchange *x = TAILQ_FIRST(&h->queue);
    unblock(c);
    if (x && x->state == EXCHANGE_STREAM && x->drained)
        x->drained(x->stream_ctx);
}

static void before_write(struct conn *c)
{
    struct state *h = c->state;
    struct http_exchange *x = TAILQ_FIRST(&h->queue);
    if (x)
        exchange_chunk_end(x, &c->out);
}

/* -- the peer's end, ours, and time ----------------------------------------- */

/* A client may shut down its side after its last request and wait for the replies. But a stream
 * never ends, and owners of long-pending exchanges are notified (http_on_gone). */
static void input_end(struct conn *c)
{
    struct state *h = c->state;
    if (exchange_any_is_endless(&h->queue)) {
        conn_abort(c);
        return;
    }
    miss_body(c);
    exchange_tell_gone(&h->queue);
    settle(c);
}

static void wake(struct conn *c)
{
    struct state *h = c->state;
    struct http_exchange *first = TAILQ_FIRST(&h->queue);
    if (h->next) {
        hand_over(c);
        return;
    }
    if (c->stream_waits && first && first->state == EXCHANGE_STREAM && first->drained)
        first->drained(first->stream_ctx);
    c->stream_waits = false;
    serve_parked(c);
    c->read_at = h->began_at = uv_now(c->set->loop); /* the server made the pause, not the client */
    end_body(c); /* it may have waited for nothing but to be wanted */
    if (has_aside(h) && !h->over) {
        h->aside_at += read_requests(c, h->aside.at + h->aside_at, h->aside.len - h->aside_at);
        if (h->over)
            h->aside.len = h->aside_at = 0;
    }
    if (!has_aside(h)) {
        buf_fini(&h->aside);
        h->aside_at = 0;
        count_memory(c);
        if (h->over || (!is_blocked(c) && conn_may_read(c)))
            conn_read(c, true);
        settle(c);
    }
    count_memory(c);
    if (c->input_ended) {
        miss_body(c);
        exchange_tell_gone(&h->queue);
    }
}

/* No byte of a body has come for too long. */
static void time_out_body(struct conn *c)
{
    struct state *h = c->state;
    struct err e = err_make(ERR_REQUEST_TIMEOUT, "no byte of the body arrived for %lld ms",
                            (long long)server_of(c)->settings.body_timeout.ms);
    if (!h->incoming || h->incoming->body == BODY_FLOWS)
        fail_request(c, e);
}

/* So that others may go on. A body that its receiver has paused is no fault of the peer. */
static void check_memory(struct conn *c)
{
    struct state *h = c->state;
    int64_t most = server_of(c)->settings.body_timeout.ms;
    enum body_memory_verdict verdict = conn_judge(c, (uint64_t)most);
    if (verdict == BODY_MEMORY_FINE || h->over || h->parked ||
        (h->incoming && h->incoming->body != BODY_FLOWS))
        return;
    fail_request(c, body_memory_error(verdict));
    conn_wake(c); /* it is read again, so that its end is noticed */
}

static void tick(struct conn *c, uint64_t now)
{
    struct state *h = c->state;
    const struct http_settings *t = &server_of(c)->settings;
    check_memory(c);
    if (h->over || !c->reading || h->streams || has_aside(h))
        return;
    enum http1_phase phase = http1_phase(h->reader);
    uint64_t quiet_since = c->read_at > h->idle_at ? c->read_at : h->idle_at;
    if (phase == HTTP1_HEAD && now - h->began_at >= (uint64_t)t->header_timeout.ms)
        refuse(c, err_make(ERR_REQUEST_TIMEOUT, "the headers did not arrive within %lld ms",
                           (long long)t->header_timeout.ms));
    else if (phase == HTTP1_BODY && now - c->read_at >= (uint64_t)t->body_timeout.ms)
        time_out_body(c);
    else if (phase == HTTP1_IDLE && TAILQ_EMPTY(&h->queue) &&
             now - quiet_since >= (uint64_t)t->idle_timeout.ms)
        conn_abort(c);
}

static void drain(struct conn *c)
{
    struct state *h = c->state;
    h->draining = true;
    if (http1_phase(h->reader) == HTTP1_IDLE && !has_aside(h))
        h->over = true;
    settle(c);
}

static uint64_t held(const struct conn *c)
{
    const struct state *h = c->state;
    return h->later;
}

static void open_state(struct conn *c)
{
    struct state *h = ALLOC(struct state);
    struct http_server *s = server_of(c);
    h->reader = http1_new(s->settings.header_max, s->settings.body_max);
    if (s->settings.in_pieces)
        http1_ask(h->reader, s->settings.in_pieces, s->ctx);
    TAILQ_INIT(&h->queue);
    h->idle_at = uv_now(c->set->loop);
    c->state = h;
}

static void closed(struct conn *c)
{
    struct state *h = c->state;
    if (h->parked) { /* no answer has been begun */
        TAILQ_REMOVE(&h->queue, h->parked, link);
        exchange_free(h->parked);
    }
    exchange_orphan(server_of(c), &h->queue);
    if (h->next) {
        c->protocol = h->next;
        c->state = h->next_state;
        c->protocol->closed(c);
    }
    http1_free(h->reader);
    buf_fini(&h->aside);
    free(h);
    c->state = NULL;
}

const struct protocol http1_conn = {
    .open = open_state,
    .input = input,
    .input_end = input_end,
    .wake = wake,
    .before_write = before_write,
    .drained = drained,
    .tick = tick,
    .drain = drain,
    .refuse = refuse,
    .held = held,
    .closed = closed,
    .reply = reply,
    .stream_begin = stream_begin,
    .stream_write = stream_write,
    .stream_end = stream_end,
    .stream_abort = stream_abort,
    .upgrade = upgrade,
    .body_go_on = body_go_on,
    .backlogged = backlogged,
};
