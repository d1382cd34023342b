/* SPDX-License-Identifier: Apache-2.0 */
#include "net/http2.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/log.h"
#include "base/must.h"
#include "net/http1.h"
#include "net/http2_internal.h"

/* What a client may send of a body before the server opens the window again: enough for a round
 * trip at speed, little enough to hold it once per stream. */
#define STREAM_WINDOW     (256 * 1024)
#define CONNECTION_WINDOW (1024 * 1024)
/* CONTINUATION. */
#define FRAME_KNOWN_MAX 9

void http2_end(struct http2 *h, uint32_t code)
{
    if (h->over)
        return;
    h->over = true;
    log_debug("ending an HTTP/2 connection: %s", nghttp2_http2_strerror(code));
    nghttp2_session_terminate_session(h->session, code);
    conn_out(h->conn);
}

void http2_spend(struct http2 *h, int64_t cost)
{
    if (!frame_budget_spend(&h->frames, http2_now(h), cost))
        http2_end(h, NGHTTP2_ENHANCE_YOUR_CALM);
}

/* -- frames ----------------------------------------------------------------- */

static int64_t cost_of(const nghttp2_frame_hd *hd)
{
    switch (hd->type) {
    case NGHTTP2_HEADERS:
    case NGHTTP2_DATA: /* see spend_on_data */
        return 0;
    case NGHTTP2_PRIORITY:
        return COST_PRIORITY;
    case NGHTTP2_RST_STREAM:
        return COST_RESET;
    case NGHTTP2_SETTINGS:
        return hd->flags & NGHTTP2_FLAG_ACK ? 0 : COST_SETTINGS;
    case NGHTTP2_PING:
        return COST_PING;
    case NGHTTP2_WINDOW_UPDATE:
        return COST_WINDOW;
    case NGHTTP2_CONTINUATION:
        return COST_CONTINUATION;
    default:
        return COST_UNKNOWN;
    }
}

/* Data without a byte of a body: empty, padding alone, or for a stream that is none. */
static void spend_on_data(struct http2 *h, const nghttp2_frame_hd *hd, size_t padding)
{
    if (hd->length <= padding && !(hd->flags & NGHTTP2_FLAG_END_STREAM))
        http2_spend(h, COST_EMPTY_DATA);
}

static int on_begin_frame(nghttp2_session *session, const nghttp2_frame_hd *hd, void *ctx)
{
    struct http2 *h = ctx;
    if (hd->type != NGHTTP2_CONTINUATION)
        h->in_head = false;
    int64_t cost = cost_of(hd);
    if (hd->type == NGHTTP2_DATA && !nghttp2_session_get_stream_user_data(session, hd->stream_id))
        cost = COST_EMPTY_DATA;
    if (cost)
        http2_spend(h, cost);
    /* Stop parsing: the rest of the input is ignored. */
    return h->over || h->conn->closing ? NGHTTP2_ERR_CALLBACK_FAILURE : 0;
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *ctx)
{
    struct http2 *h = ctx;
    h->in_head = false;
    if (frame->hd.type != NGHTTP2_HEADERS && frame->hd.type != NGHTTP2_DATA)
        return 0;
    if (frame->hd.type == NGHTTP2_DATA)
        spend_on_data(h, &frame->hd, frame->data.padlen);
    struct stream *st = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
    if (!st)
        return 0;
    if (frame->hd.type == NGHTTP2_HEADERS && frame->headers.cat == NGHTTP2_HCAT_REQUEST)
        http2_head_done(st);
    if (frame->hd.flags & NGHTTP2_FLAG_END_STREAM)
        http2_request_done(st);
    return h->conn->closing ? NGHTTP2_ERR_CALLBACK_FAILURE : 0;
}

/* Ignores frames of unknown types (RFC 9113 §4.1); they spend from the budget. */
static int on_unknown_frame(nghttp2_session *session, void **payload, const nghttp2_frame_hd *hd,
                            void *ctx)
{
    (void)session;
    (void)payload;
    (void)hd;
    struct http2 *h = ctx;
    http2_spend(h, COST_UNKNOWN);
    return h->over ? NGHTTP2_ERR_CALLBACK_FAILURE : NGHTTP2_ERR_CANCEL;
}

static int on_bad_frame(nghttp2_session *session, const nghttp2_frame *frame, int code, void *ctx)
{
    (void)session;
    (void)frame;
    (void)code;
    struct http2 *h = ctx;
    h->in_head = false;
    http2_spend(h, COST_BAD_FRAME);
    return 0;
}

static int on_stream_close(nghttp2_session *session, int32_t id, uint32_t code, void *ctx)
{
    struct http2 *h = ctx;
    struct stream *st = nghttp2_session_get_stream_user_data(session, id);
    if (st)
        http2_forget(st);
    if (code == NGHTTP2_NO_ERROR)
        frame_budget_earn(&h->frames, GAIN_REQUEST);
    return 0;
}

/* -- the connection --------------------------------------------------------- */

static bool is_at_end(const struct http2 *h)
{
    if (h->conn->input_ended && TAILQ_EMPTY(&h->streams))
        return true;
    return !nghttp2_session_want_read(h->session) && !nghttp2_session_want_write(h->session);
}

/* The pause that this makes is the server's. */
static void read_again(struct http2 *h)
{
    struct stream *st;
    h->unread = false;
    TAILQ_FOREACH(st, &h->streams, link)
    st->read_at = st->progress_at = http2_now(h);
    conn_read(h->conn, true);
}

static void check_memory(struct conn *c)
{
    struct http2 *h = c->state;
    http2_count(h);
    c->bodies.grows = c->bodies.grows && h->withheld;
    bool may_read = conn_may_read(c) || h->over;
    if (h->unread && may_read) {
        read_again(h);
    } else if (c->reading && !may_read && !c->finishing) {
        h->unread = true;
        conn_read(c, false);
    }
}

static void before_write(struct conn *c)
{
    struct http2 *h = c->state;
    http2_send(h);
    http2_go_on(h);
    check_memory(c);
    if (h->drain_due)
        http2_notify_drained(h);
    if (!c->closing && !c->finishing && is_at_end(h)) {
        h->over = true;
        conn_finish(c);
    }
}

static uint32_t code_of(int error)
{
    switch (error) {
    case NGHTTP2_ERR_BAD_CLIENT_MAGIC:
        return NGHTTP2_PROTOCOL_ERROR;
    case NGHTTP2_ERR_NOMEM:
    case NGHTTP2_ERR_CALLBACK_FAILURE:
        return NGHTTP2_INTERNAL_ERROR;
    default: /* too many acknowledgements due, too many CONTINUATIONs, … */
        return NGHTTP2_ENHANCE_YOUR_CALM;
    }
}

static void input(struct conn *c, const char *at, size_t len)
{
    struct http2 *h = c->state;
    if (h->over)
        return;
    ssize_t n = nghttp2_session_mem_recv(h->session, (const uint8_t *)at, len);
    if (n < 0 && !c->closing)
        http2_end(h, code_of((int)n));
    check_memory(c);
    conn_out(c);
}

static void drained(struct conn *c)
{
    http2_notify_drained(c->state);
}

static void notify_gone(struct http2 *h)
{
    struct stream *st;
    do {
        TAILQ_FOREACH(st, &h->streams, link)
        if (st->x->gone)
            break;
        if (st) { /* gone() may answer others: start again */
            void (*gone)(void *ctx) = st->x->gone;
            st->x->gone = NULL;
            gone(st->x->gone_ctx);
        }
    } while (st);
}

/* A client that has shut down its side can open no more windows. Short replies still reach it; an
 * endless stream does not. */
static void input_end(struct conn *c)
{
    struct http2 *h = c->state;
    struct stream *st;
    TAILQ_FOREACH(st, &h->streams, link)
    if (!st->complete || st->x->state == EXCHANGE_STREAM) {
        conn_abort(c);
        return;
    }
    notify_gone(h);
    conn_out(c);
}

static void wake(struct conn *c)
{
    struct http2 *h = c->state;
    struct stream *st;
    if (c->stream_waits) {
        c->stream_waits = false;
        TAILQ_FOREACH(st, &h->streams, link)
        st->congested = st->congested || st->x->state == EXCHANGE_STREAM;
        http2_notify_drained(h);
    }
    if (h->waiting || h->withheld || h->unread)
        conn_out(c);
    if (c->input_ended)
        notify_gone(h);
}

static uint64_t held(const struct conn *c)
{
    const struct http2 *h = c->state;
    return h->replies + h->streamed;
}

/* Whether the rest of a body has waited that long for the peer to open a window. A stream whose
 * windows are open waits for the socket or for other streams, which is not the peer's fault. */
static bool is_stalled(const struct stream *st, uint64_t now, uint64_t limit)
{
    const struct http2 *h = st->h;
    uint64_t since = st->progress_at;
    if (!stream_unsent(st))
        return false;
    if (nghttp2_session_get_stream_remote_window_size(h->session, st->id) > 0) {
        if (nghttp2_session_get_remote_window_size(h->session) > 0)
            return false;
        since = since > h->sent_at ? since : h->sent_at;
    }
    return now - since >= limit;
}

static void check_stream(struct stream *st, uint64_t now)
{
    struct http2 *h = st->h;
    const struct http_settings *t = &http2_server(h)->settings;
    if (!h->unread && is_stalled(st, now, (uint64_t)t->write_timeout.ms)) {
        log_debug("resetting an HTTP/2 stream whose peer does not read");
        nghttp2_submit_rst_stream(h->session, NGHTTP2_FLAG_NONE, st->id, NGHTTP2_CANCEL);
        st->progress_at = now;
        conn_out(h->conn);
        http2_spend(h, COST_STALLED);
    }
    if (http2_awaits_body(st) && !h->unread && now - st->read_at >= (uint64_t)t->body_timeout.ms)
        http2_time_out_body(st);
}

static void tick(struct conn *c, uint64_t now)
{
    struct http2 *h = c->state;
    const struct http_settings *t = &http2_server(h)->settings;
    uint64_t quiet_since = c->read_at > h->idle_at ? c->read_at : h->idle_at;
    struct stream *st;
    enum body_memory_verdict verdict = conn_judge(c, (uint64_t)t->body_timeout.ms);
    if (verdict != BODY_MEMORY_FINE) {
        struct err e = body_memory_error(verdict);
        http2_refuse_bodies(h, &e);
    }
    TAILQ_FOREACH(st, &h->streams, link)
    check_stream(st, now);
    if (h->in_head && now - h->head_at >= (uint64_t)t->header_timeout.ms)
        http2_end(h, NGHTTP2_ENHANCE_YOUR_CALM);
    else if (TAILQ_EMPTY(&h->streams) && now - quiet_since >= (uint64_t)t->idle_timeout.ms)
        http2_end(h, NGHTTP2_NO_ERROR);
}

/* GOAWAY names the last stream that will be served; the client may retry later ones elsewhere. */
static void drain(struct conn *c)
{
    struct http2 *h = c->state;
    if (h->over)
        return;
    nghttp2_submit_goaway(h->session, NGHTTP2_FLAG_NONE,
                          nghttp2_session_get_last_proc_stream_id(h->session), NGHTTP2_NO_ERROR,
                          NULL, 0);
    conn_out(c);
}

static void refuse(struct conn *c, struct err e)
{
    (void)e; /* GOAWAY has no place for it */
    http2_end(c->state, NGHTTP2_REFUSED_STREAM);
}

static void set_callbacks(nghttp2_session_callbacks *cb)
{
    nghttp2_session_callbacks_set_on_begin_frame_callback(cb, on_begin_frame);
    nghttp2_session_callbacks_set_on_begin_headers_callback(cb, http2_on_begin_headers);
    nghttp2_session_callbacks_set_on_header_callback(cb, http2_on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(cb, http2_on_data);
    nghttp2_session_callbacks_set_on_frame_recv_callback(cb, on_frame);
    nghttp2_session_callbacks_set_unpack_extension_callback(cb, on_unknown_frame);
    nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(cb, on_bad_frame);
    nghttp2_session_callbacks_set_on_stream_close_callback(cb, on_stream_close);
    http2_set_send_callbacks(cb);
}

static void new_session(struct http2 *h)
{
    nghttp2_session_callbacks *callbacks;
    nghttp2_option *option;
    int e = nghttp2_session_callbacks_new(&callbacks);
    must(e == 0);
    e = nghttp2_option_new(&option);
    must(e == 0);
    set_callbacks(callbacks);
    nghttp2_option_set_no_auto_window_update(option, 1);
    for (unsigned type = FRAME_KNOWN_MAX + 1; type <= UINT8_MAX; type++)
        nghttp2_option_set_user_recv_extension_type(option, (uint8_t)type);
    e = nghttp2_session_server_new2(&h->session, callbacks, h, option);
    must(e == 0);
    nghttp2_option_del(option);
    nghttp2_session_callbacks_del(callbacks);
}

static void greet(struct http2 *h)
{
    const struct http_settings *set = &http2_server(h)->settings;
    uint64_t header_max = set->header_max + HTTP1_TARGET_MAX;
    header_max = header_max < UINT32_MAX ? header_max : UINT32_MAX;
    const nghttp2_settings_entry ours[] = {
        {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, (uint32_t)set->streams_max},
        {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, STREAM_WINDOW},
        {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, (uint32_t)header_max},
        {NGHTTP2_SETTINGS_NO_RFC7540_PRIORITIES, 1},
    };
    int e = nghttp2_submit_settings(h->session, NGHTTP2_FLAG_NONE, ours, COUNT(ours));
    must(e == 0);
    e = nghttp2_session_set_local_window_size(h->session, NGHTTP2_FLAG_NONE, 0, CONNECTION_WINDOW);
    must(e == 0);
}

static void open_state(struct conn *c)
{
    struct http2 *h = ALLOC(struct http2);
    h->conn = c;
    c->state = h;
    TAILQ_INIT(&h->streams);
    TAILQ_INIT(&h->spares);
    h->idle_at = uv_now(c->set->loop);
    h->frames = frame_budget_new(h->idle_at);
    new_session(h);
    greet(h);
    conn_out(c);
    if (http2_server(h)->draining)
        drain(c);
}

static void closed(struct conn *c)
{
    struct http2 *h = c->state;
    struct exchange_queue served = TAILQ_HEAD_INITIALIZER(served);
    struct stream *st;
    while ((st = TAILQ_FIRST(&h->streams))) {
        TAILQ_REMOVE(&h->streams, st, link);
        if (st->served)
            TAILQ_INSERT_TAIL(&served, st->x, link);
        else
            exchange_free(st->x);
        buf_fini(&st->body);
        free(st);
    }
    while ((st = TAILQ_FIRST(&h->spares))) {
        TAILQ_REMOVE(&h->spares, st, link);
        buf_fini(&st->body);
        free(st);
    }
    exchange_orphan(http2_server(h), &served);
    nghttp2_session_del(h->session);
    free(h);
    c->state = NULL;
}

const struct protocol http2_conn = {
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
    .reply = http2_reply,
    .stream_begin = http2_stream_begin,
    .stream_write = http2_stream_write,
    .stream_end = http2_stream_end,
    .stream_abort = http2_stream_abort,
    .body_go_on = http2_body_go_on,
    .backlogged = http2_backlogged,
};
