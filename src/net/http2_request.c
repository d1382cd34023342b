/* SPDX-License-Identifier: Apache-2.0 */

/* Reads requests: header sections, bodies, and the limits on them. */

#include <stdlib.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/must.h"
#include "net/http1.h"
#include "net/http2_internal.h"
#include "net/http_headers.h"
#include "net/reply.h"

#define SPARES_MAX    64
#define HEADS_MAX     ((uint64_t)1024 * 1024)
#define BODY_KEEP_MAX ((size_t)4 * 1024)
/* What a request takes beside its head and its body, here and in nghttp2. */
#define STREAM_COST ((uint64_t)2 * 1024)

static const struct http_settings *settings_of(const struct http2 *h)
{
    return &http2_server(h)->settings;
}

/* -- the head --------------------------------------------------------------- */

static struct stream *take_spare(struct http2 *h)
{
    struct stream *st = TAILQ_FIRST(&h->spares);
    if (!st)
        return ALLOC(struct stream);
    TAILQ_REMOVE(&h->spares, st, link);
    h->spare_count--;
    return st;
}

static void give_back(struct http2 *h, struct stream *st)
{
    if (h->spare_count == SPARES_MAX) {
        buf_fini(&st->body);
        free(st);
        return;
    }
    *st = (struct stream){.body = st->body};
    TAILQ_INSERT_HEAD(&h->spares, st, link);
    h->spare_count++;
}

static void begin_request(struct http2 *h, int32_t id)
{
    struct stream *st = take_spare(h);
    st->h = h;
    st->id = id;
    st->length = -1;
    st->x = exchange_new(http2_server(h), h->conn);
    st->x->stream = st;
    TAILQ_INSERT_TAIL(&h->streams, st, link);
    h->unserved++;
    int e = nghttp2_session_set_stream_user_data(h->session, id, st);
    must(e == 0);
}

int http2_on_begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *ctx)
{
    (void)session;
    struct http2 *h = ctx;
    h->in_head = true;
    h->head_at = http2_now(h);
    if (frame->headers.cat == NGHTTP2_HCAT_REQUEST)
        begin_request(h, frame->hd.stream_id);
    return 0;
}

static enum http_method method_of(struct str name)
{
    static const struct {
        struct str name;
        enum http_method method;
    } methods[] = {
        {{"GET", 3}, HTTP_GET},         {{"HEAD", 4}, HTTP_HEAD},   {{"POST", 4}, HTTP_POST},
        {{"PUT", 3}, HTTP_PUT},         {{"PATCH", 5}, HTTP_PATCH}, {{"DELETE", 6}, HTTP_DELETE},
        {{"OPTIONS", 7}, HTTP_OPTIONS},
    };
    for (size_t i = 0; i < COUNT(methods); i++)
        if (str_eq(methods[i].name, name))
            return methods[i].method;
    return HTTP_OTHER;
}

/* nghttp2 has checked the digits, and checks the length of the body against them. */
static int64_t length_of(struct str digits)
{
    int64_t n = 0;
    for (size_t i = 0; i < digits.len; i++)
        if (__builtin_mul_overflow(n, 10, &n) || __builtin_add_overflow(n, digits.at[i] - '0', &n))
            return INT64_MAX;
    return n;
}

/* :authority and Host may both be present, but must agree (RFC 9113 §8.3.1). */
static void recognise_host(struct stream *st, struct str value)
{
    struct str *host = &st->req.host;
    if (host->at && !str_eq(*host, value)) {
        st->refusal = ERR_BAD_REQUEST;
        st->repeated = HEADER_host;
    }
    *host = arena_copy(&st->x->arena, value);
}

static void hold_head(struct stream *st, size_t len)
{
    st->head_held += len;
    st->h->heads += len;
    st->h->unserved_heads += len;
}

static void keep(struct stream *st, enum http_header h, struct str value)
{
    struct arena *a = &st->x->arena;
    struct str *kept = http_header_value(&st->req, h);
    if (kept->at && !http_header_is_list(h)) {
        st->refusal = ERR_BAD_REQUEST;
        st->repeated = h;
        return;
    }
    if (!kept->at) {
        *kept = arena_copy(a, value);
        return;
    }
    size_t before = kept->len;
    char *list = arena_resize(a, kept->at, before, before + 2 + value.len);
    memcpy(list + before, ", ", 2);
    if (value.len)
        memcpy(list + before + 2, value.at, value.len);
    *kept = (struct str){list, before + 2 + value.len};
    hold_head(st, before + 2); /* what it was lies in the arena as well */
}

static void recognise_pseudo(struct stream *st, struct str name, struct str value)
{
    struct http_request *q = &st->req;
    if (str_eq(name, STR(":method")))
        q->method = method_of(value);
    else if (str_eq(name, STR(":path")))
        q->path = arena_copy(&st->x->arena, value);
    else if (str_eq(name, STR(":authority")))
        recognise_host(st, value);
}

static void recognise(struct stream *st, struct str name, struct str value)
{
    enum http_header h = http_header_find(name);
    if (name.len && *name.at == ':')
        recognise_pseudo(st, name, value);
    else if (h == HEADER_host)
        recognise_host(st, value);
    else if (h < HTTP_HEADERS)
        keep(st, h, value);
    else if (str_eq(name, STR("content-length")))
        st->length = length_of(value);
    else if (str_eq(name, STR("expect")))
        st->expects = str_eq(value, STR("100-continue"));
}

/* Limits the memory of header sections: a client can begin any number of requests. */
static bool has_room_for_head(struct stream *st, size_t len)
{
    struct http2 *h = st->h;
    if (h->heads + len > HEADS_MAX && h->heads > st->head_held)
        return false;
    hold_head(st, len);
    return true;
}

/* Counts the decoded size: a few bytes can refer to a large entry of the compression table again
 * and again. Decoding goes on beyond the limit, since the table belongs to the connection, but not
 * without end. */
static bool is_too_large(struct stream *st, size_t name_len, size_t value_len)
{
    uint64_t most = settings_of(st->h)->header_max;
    st->head_size += name_len + value_len + 4; /* as ": " and CRLF in HTTP/1.1 */
    st->fields++;
    if (st->head_size > 8 * most)
        http2_end(st->h, NGHTTP2_ENHANCE_YOUR_CALM);
    return st->head_size > most || st->fields > HTTP1_HEADERS_MAX;
}

int http2_on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
                    size_t name_len, const uint8_t *value, size_t value_len, uint8_t flags,
                    void *ctx)
{
    (void)flags;
    (void)ctx;
    struct stream *st = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
    if (!st)
        return 0;
    struct str n = {(const char *)name, name_len}, v = {(const char *)value, value_len};
    bool target = str_eq(n, STR(":path")); /* nghttp2 takes none of more than 64 KiB, packed */
    if (is_too_large(st, name_len, target ? 0 : value_len)) {
        st->refusal = st->refusal ? st->refusal : ERR_HEADERS;
        return st->h->over ? NGHTTP2_ERR_CALLBACK_FAILURE : 0;
    }
    if (frame->headers.cat != NGHTTP2_HCAT_REQUEST) /* trailers are passed over */
        return 0;
    if (has_room_for_head(st, v.len))
        recognise(st, n, v);
    else
        st->refusal = st->refusal ? st->refusal : ERR_BUSY;
    return 0;
}

/* Splits the target at its '?'. */
static bool split_target(struct http_request *q)
{
    struct str t = q->path;
    if (t.len == 0 || memchr(t.at, '#', t.len) || (*t.at != '/' && !str_eq(t, STR("*"))))
        return false;
    const char *mark = memchr(t.at, '?', t.len);
    if (mark) {
        q->path.len = (size_t)(mark - t.at);
        q->query = (struct str){mark + 1, t.len - q->path.len - 1};
    }
    return true;
}

static struct err too_long(const struct http2 *h)
{
    return err_make(ERR_LENGTH, "the body is larger than the limit of %llu bytes",
                    (unsigned long long)settings_of(h)->body_max);
}

static struct err check_length(const struct stream *st)
{
    const struct http_settings *set = settings_of(st->h);
    if (st->length > 0 && (uint64_t)st->length > set->body_max)
        return err_make(ERR_LENGTH, "the body of %llu bytes is larger than the limit of %llu",
                        (unsigned long long)st->length, (unsigned long long)set->body_max);
    return err_none();
}

static struct err check_head(struct stream *st)
{
    const struct http_settings *set = settings_of(st->h);
    if (st->fields > HTTP1_HEADERS_MAX)
        return err_make(ERR_HEADERS, "more than %d header fields", HTTP1_HEADERS_MAX);
    if (st->refusal == ERR_HEADERS)
        return err_make(ERR_HEADERS, "the header section is larger than %llu bytes",
                        (unsigned long long)set->header_max);
    if (st->refusal == ERR_BUSY)
        return err_make(ERR_BUSY, "the requests that wait on this connection are too large");
    if (st->refusal == ERR_BAD_REQUEST && st->repeated != HEADER_host)
        return http_header_repeated(st->repeated);
    if (st->refusal == ERR_BAD_REQUEST)
        return err_make(ERR_BAD_REQUEST, ":authority and Host name different hosts");
    if (!split_target(&st->req))
        return err_make(ERR_BAD_REQUEST, "the request target must be a path");
    st->pieces = server_takes_pieces(http2_server(st->h), st->req.method, st->req.path);
    return st->pieces ? err_none() : check_length(st);
}

/* -- the body --------------------------------------------------------------- */

/* The body that has waited longest may always be sent on, so that half-sent bodies never block each
 * other. */
static bool is_oldest(const struct stream *st)
{
    const struct stream *s;
    TAILQ_FOREACH(s, &st->h->streams, link)
    if (!s->complete && !s->served && s->head_done && !s->pieces)
        return s == st;
    return false;
}

void http2_count(struct http2 *h)
{
    uint64_t streams = (uint64_t)h->unserved * STREAM_COST;
    conn_hold(h->conn, h->bodies + h->unserved_heads + streams, h->queued);
}

/* Whether all connections together leave memory for more of a large body. */
static bool has_memory(const struct stream *st)
{
    struct conn *c = st->h->conn;
    if (st->body.len <= BODY_MEMORY_TINY)
        return true;
    http2_count(st->h);
    return body_memory_may_grow(&c->set->bodies, &c->bodies);
}

/* All bodies together may take as much memory as the largest one, plus the first window of each
 * stream, which the client has in any case. */
static bool may_send_on(const struct stream *st)
{
    if (st->pieces)
        return st->x->body == BODY_FLOWS && st->body.len == 0;
    return (st->h->bodies <= settings_of(st->h)->body_max || is_oldest(st)) && has_memory(st);
}

static void give_window(struct stream *st)
{
    int e = nghttp2_session_consume_stream(st->h->session, st->id, st->withheld);
    must(e == 0 || e == NGHTTP2_ERR_NOMEM);
    st->withheld = 0;
    st->read_at = http2_now(st->h); /* the server made the pause, not the client */
}

static void hold(struct stream *st, struct str bytes)
{
    size_t len = st->body.len + bytes.len;
    if (st->length > 0 && st->body.cap < len && 2 * st->body.cap >= (size_t)st->length)
        buf_reserve(&st->body, len > (size_t)st->length ? len : (size_t)st->length);
    buf_str(&st->body, bytes);
    st->h->bodies += bytes.len;
}

/* Whether somebody wants, or may want, what comes of the body. */
static bool is_wanted(const struct stream *st)
{
    return st->pieces ? st->x->body != BODY_OVER : !st->served;
}

int http2_on_data(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *at,
                  size_t len, void *ctx)
{
    (void)flags;
    struct http2 *h = ctx;
    struct stream *st = nghttp2_session_get_stream_user_data(session, id);
    struct str bytes = {(const char *)at, len};
    nghttp2_session_consume_connection(session, len);
    if (!st || !is_wanted(st)) /* its window stays shut */
        return 0;
    st->read_at = http2_now(h);
    if (!st->pieces && len > settings_of(h)->body_max - st->body.len) {
        struct err e = too_long(h);
        http2_refuse(st, &e);
        return 0;
    }
    h->withheld += st->withheld == 0;
    st->withheld += len;
    if (st->pieces && may_send_on(st))
        server_body_piece(st->x, bytes);
    else
        hold(st, bytes);
    if (st->withheld && may_send_on(st)) {
        give_window(st);
        h->withheld--;
    }
    return 0;
}

static void stop_waiting(struct stream *st)
{
    st->h->waiting--;
    st->h->pages -= st->bound > 0;
    st->h->queued -= st->pieces ? 0 : st->body.len;
}

static void drop_body(struct stream *st)
{
    st->h->bodies -= st->body.len;
    st->body.len = 0;
    if (st->body.cap > BODY_KEEP_MAX)
        buf_fini(&st->body);
    st->h->withheld -= st->withheld > 0;
    st->withheld = 0;
}

void http2_leave_body(struct stream *st)
{
    if (!st->pieces || st->x->body == BODY_OVER)
        return;
    st->x->body = BODY_OVER;
    drop_body(st);
}

static void end_body(struct stream *st)
{
    if (st->complete && may_send_on(st))
        server_body_end(st->x);
}

static void hand_on_body(struct stream *st)
{
    struct buf held = st->body;
    st->body = (struct buf){0}; /* the receiver may reply, which drops it */
    st->h->bodies -= held.len;
    server_body_piece(st->x, buf_view(&held));
    buf_fini(&held);
    end_body(st);
}

static void hand_on_bodies(struct http2 *h)
{
    struct stream *st;
    h->body_due = false;
    TAILQ_FOREACH(st, &h->streams, link)
    if (st->pieces && st->x->body == BODY_FLOWS)
        hand_on_body(st);
}

void http2_body_go_on(struct http_exchange *x)
{
    struct stream *st = x->stream;
    st->h->body_due = true;
    st->read_at = http2_now(st->h);
    if (st->expects && !st->complete)
        http2_continue(st);
    st->expects = false;
    conn_out(st->h->conn);
}

bool http2_awaits_body(const struct stream *st)
{
    if (!st->head_done || st->complete || st->withheld)
        return false;
    return st->pieces ? st->x->body == BODY_FLOWS : !st->served;
}

void http2_time_out_body(struct stream *st)
{
    struct err e = err_make(ERR_REQUEST_TIMEOUT, "no byte of the body arrived for %lld ms",
                            (long long)settings_of(st->h)->body_timeout.ms);
    if (st->pieces)
        server_body_abort(st->x, e);
    else
        http2_refuse(st, &e);
}

void http2_refuse_bodies(struct http2 *h, const struct err *e)
{
    struct stream *st;
    TAILQ_FOREACH(st, &h->streams, link)
    if (st->head_done && !st->complete && !st->served && !st->pieces)
        http2_refuse(st, e);
}

/* -- on to the handler ------------------------------------------------------ */

static void set_served(struct stream *st)
{
    if (st->served)
        return;
    st->served = true;
    st->h->unserved--;
    st->h->unserved_heads -= st->head_held;
}

void http2_refuse(struct stream *st, const struct err *e)
{
    set_served(st);
    drop_body(st);
    struct buf body = {0};
    reply_error_body(&body, e);
    http2_reply(st->x, err_status(e->code), STR("application/json"), buf_view(&body),
                e->code == ERR_BUSY ? "Retry-After: 1\r\n" : NULL);
    buf_fini(&body);
}

static void serve(struct stream *st)
{
    struct http_server *s = http2_server(st->h);
    struct http_request req = st->req;
    set_served(st);
    req.body = st->pieces ? (struct str){0} : buf_view(&st->body);
    req.length = st->length;
    req.arena = &st->x->arena;
    server_serve(s, st->x, &req, st->bound);
    if (!st->pieces)
        drop_body(st);
}

/* Limits the memory of answers to a peer that sends requests without reading replies. */
static bool may_be_served(const struct stream *st, uint64_t most)
{
    struct http2 *h = st->h;
    return h->replies + h->conn->pending_bytes <= most && server_has_room(h->conn, st->bound);
}

bool http2_is_waiting(const struct stream *st)
{
    return !st->served && st->head_done && (st->complete || st->pieces);
}

/* Serves what needs nothing more of the client, or puts it into the line. */
static void admit(struct stream *st)
{
    struct http2 *h = st->h;
    st->bound = server_reply_bound(http2_server(h), &st->req);
    bool first = st->bound || h->waiting == h->pages;
    if (first && may_be_served(st, settings_of(h)->backlog_max)) {
        serve(st);
        return;
    }
    h->waiting++;
    h->pages += st->bound > 0;
    h->queued += st->pieces ? 0 : st->body.len;
}

void http2_head_done(struct stream *st)
{
    st->head_done = true;
    st->read_at = http2_now(st->h);
    st->x->no_body = st->req.method == HTTP_HEAD;
    struct err e = check_head(st);
    if (e.code != ERR_OK) {
        http2_refuse(st, &e);
    } else if (st->pieces) {
        st->x->body = BODY_OFFERED;
        admit(st);
    } else if (st->expects) {
        http2_continue(st);
    }
}

void http2_request_done(struct stream *st)
{
    st->complete = true;
    if (st->pieces)
        end_body(st);
    else if (!st->served)
        admit(st);
}

/* The first request that waits. Those with large answers wait in a line of their own, so that
 * others pass them. */
static struct stream *find_waiting(struct http2 *h, bool page)
{
    struct stream *st;
    TAILQ_FOREACH(st, &h->streams, link)
    if (http2_is_waiting(st) && (st->bound > 0) == page)
        break;
    return st;
}

static void serve_waiting(struct http2 *h, bool page)
{
    struct stream *st;
    while (!h->conn->closing && (st = find_waiting(h, page)) &&
           may_be_served(st, settings_of(h)->backlog_max / 2)) {
        stop_waiting(st);
        serve(st);
    }
}

static void give_windows(struct http2 *h)
{
    struct stream *st;
    TAILQ_FOREACH(st, &h->streams, link)
    if (st->withheld && may_send_on(st)) {
        give_window(st);
        h->withheld--;
        conn_out(h->conn);
    }
}

void http2_go_on(struct http2 *h)
{
    if (h->waiting > h->pages)
        serve_waiting(h, false);
    if (h->pages)
        serve_waiting(h, true);
    if (h->body_due)
        hand_on_bodies(h);
    if (h->withheld)
        give_windows(h);
}

/* -- its end ---------------------------------------------------------------- */

void http2_forget(struct stream *st)
{
    struct http2 *h = st->h;
    struct http_exchange *x = st->x;
    struct http_server *s = http2_server(h);
    struct exchange_queue gone = TAILQ_HEAD_INITIALIZER(gone);
    TAILQ_REMOVE(&h->streams, st, link);
    if (http2_is_waiting(st))
        stop_waiting(st);
    if (x->state == EXCHANGE_DONE)
        h->replies -= stream_unsent(st);
    else
        h->streamed -= stream_unsent(st);
    h->heads -= st->head_held;
    bool served = st->served;
    set_served(st);
    drop_body(st);
    if (TAILQ_EMPTY(&h->streams))
        h->idle_at = http2_now(h);
    x->stream = NULL;
    if (served && x->state != EXCHANGE_DONE) {
        TAILQ_INSERT_TAIL(&gone, x, link);
        exchange_orphan(s, &gone);
    } else {
        exchange_free(x);
    }
    give_back(h, st);
}
