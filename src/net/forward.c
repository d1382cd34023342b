/* SPDX-License-Identifier: Apache-2.0 */
#include "net/forward.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/buf.h"
#include "base/list.h"
#include "base/must.h"
#include "net/http_headers.h"
#include "net/router.h"

/* Answers up to this length are passed on when they are whole, with all of their headers. */
#define WHOLE_MAX ((uint64_t)256 * 1024)
/* Of an answer that refuses, or of one without a body. */
#define GATHER_MAX ((size_t)16 << 20)

struct forwarder {
    struct forwarder_settings settings;
    struct fetch_tls tls;
    struct fetcher *fetcher;
    struct list under_way; /* struct forward.link */
    struct forwarder_counts counts;
    bool closing; /* it goes with the last of them */
};

struct forward {
    struct list link;
    struct forwarder *owner;
    struct http_exchange *x; /* NULL: answered, or nobody reads it any more */
    struct fetch *fetch;     /* NULL: it is over */
    bool shared;             /* its connection is of several requests: TLS */
    bool streams;            /* the answer has begun to be passed on */
    struct buf whole;        /* an answer that is gathered */
};

static void free_if_unused(struct forwarder *f)
{
    if (f->closing && list_is_empty(&f->under_way))
        free(f);
}

static void forward_free(struct forward *w)
{
    struct forwarder *f = w->owner;
    list_unlink(&w->link);
    f->counts.under_way--;
    buf_fini(&w->whole);
    free(w);
    free_if_unused(f);
}

/* --- the answer --- */

/* What concerns one connection only (RFC 9110 §7.6.1), and what the reply has anyway. */
static bool is_passed_on(struct str name)
{
    static const char *const own[] = {
        "connection",        "content-length", "content-type", "date", "keep-alive",      "server",
        "transfer-encoding", "trailer",        "upgrade",      "te",   "proxy-connection"};
    for (size_t i = 0; i < COUNT(own); i++)
        if (strlen(own[i]) == name.len && strncasecmp(own[i], name.at, name.len) == 0)
            return false;
    return true;
}

static void add_header(void *ctx, struct str name, struct str value)
{
    struct buf *extra = ctx;
    if (is_passed_on(name))
        buf_print(extra, "%.*s: %.*s\r\n", (int)name.len, name.at, (int)value.len, value.at);
}

static const char *headers_of(struct forward *w, struct buf *room)
{
    fetch_each_header(w->fetch, add_header, room);
    buf_byte(room, '\0');
    return room->at;
}

/* The length of the answer, if it says one. */
static bool length_of(struct forward *w, uint64_t *length)
{
    struct str text = fetch_header(w->fetch, "content-length");
    char digits[24];
    if (text.len == 0 || text.len >= sizeof digits)
        return false;
    memcpy(digits, text.at, text.len);
    digits[text.len] = '\0';
    *length = strtoull(digits, NULL, 10);
    return true;
}

static void on_closed(void *ctx)
{
    struct forward *w = ctx;
    w->x = NULL;
    if (w->fetch)
        fetch_abort(w->fetch);
    forward_free(w);
}

static void on_drained(void *ctx)
{
    struct forward *w = ctx;
    if (w->fetch)
        fetch_resume(w->fetch);
}

static void begin_stream(struct forward *w, int status, bool sized, uint64_t length)
{
    struct buf extra = {0};
    struct str type = fetch_header(w->fetch, "content-type");
    http_on_gone(w->x, NULL, NULL);
    w->streams = true;
    if (sized)
        http_stream_begin_sized(w->x, status, type, length, headers_of(w, &extra), on_closed, w);
    else
        http_stream_begin(w->x, status, type, on_closed, w);
    buf_fini(&extra);
    http_stream_on_drain(w->x, on_drained);
}

/* A small answer of known length is gathered, and so is what refuses (fetch_spec.data). */
static void on_head(void *ctx, long status)
{
    struct forward *w = ctx;
    uint64_t length = 0;
    bool sized = length_of(w, &length);
    if (status >= 300 || status == 204 || (sized && length <= WHOLE_MAX && !http_is_head(w->x)))
        return;
    begin_stream(w, (int)status, sized, length);
}

static void on_data(void *ctx, struct str bytes)
{
    struct forward *w = ctx;
    if (!w->streams) {
        buf_str(&w->whole, bytes);
        return;
    }
    http_stream_write(w->x, bytes);
    if (http_must_wait(w->x))
        fetch_pause(w->fetch);
}

static void reply_whole(struct forward *w, const struct fetch_answer *a)
{
    struct buf extra = {0};
    struct str body = w->whole.len ? buf_view(&w->whole) : a->body;
    struct http_exchange *x = w->x;
    w->x = NULL;
    http_on_gone(x, NULL, NULL);
    http_reply(x, (int)a->status, fetch_header(w->fetch, "content-type"), body,
               headers_of(w, &extra));
    buf_fini(&extra);
}

static void refuse(struct forward *w, const struct fetch_answer *a)
{
    struct http_exchange *x = w->x;
    /* A machine that is gone does not refuse a connection: that takes too long. */
    bool never = a->fault == FETCH_UNREACHABLE || a->fault == FETCH_UNTRUSTED ||
                 (a->fault == FETCH_TIMED_OUT && a->unsent);
    struct err e =
        never
            ? err_make(ERR_NO_OWNER, "the server that keeps the jobs cannot be reached: %s", a->why)
            : err_make(ERR_OWNER_LOST,
                       "the server that keeps the jobs was lost while it worked on this request: "
                       "whether it was acted on is not known (%s)",
                       a->why);
    *(never ? &w->owner->counts.refused : &w->owner->counts.lost) += 1;
    w->x = NULL;
    http_on_gone(x, NULL, NULL);
    w->owner->settings.refuse(w->owner->settings.ctx, x, &e);
}

static void end_stream(struct forward *w, const struct fetch_answer *a)
{
    struct http_exchange *x = w->x;
    w->fetch = NULL;
    if (a->fault == FETCH_ANSWERED)
        http_stream_end(x); /* calls on_closed */
    else
        http_stream_abort(x);
}

static void on_done(void *ctx, const struct fetch_answer *a)
{
    struct forward *w = ctx;
    if (w->streams) {
        end_stream(w, a);
        return;
    }
    if (a->fault == FETCH_ANSWERED)
        reply_whole(w, a);
    else
        refuse(w, a);
    forward_free(w);
}

/* --- the request --- */

static void give_up(struct forward *w, const struct err *e);

/* The peer of a request that is not answered yet. If it is gone, that is answered all the same,
 * with nothing. If it has shut down its side, it still reads, and may have hung up: the other
 * server, which can tell what would wait from what is under way, is to see the same. */
static void on_gone(void *ctx)
{
    struct forward *w = ctx;
    struct http_exchange *x = w->x;
    const struct err e =
        err_make(ERR_OWNER_LOST, "the connection was shut down on this side before the request was "
                                 "answered: whether it was acted on is not known");
    if (!http_is_gone(x) && !w->shared) {
        fetch_shut(w->fetch);
        return;
    }
    if (!http_is_gone(x)) {
        give_up(w, &e);
        return;
    }
    w->x = NULL;
    fetch_abort(w->fetch);
    http_reply(x, 204, (struct str){0}, (struct str){0}, NULL);
    forward_free(w);
}

static const char *const names[HTTP_HEADERS] = {
#define HEADER(name, member, times) [HEADER_##member] = name,
#include "net/http_headers.def"
#undef HEADER
};

/* What this server has judged already, for which the other one would take it for the page that asks
 * or for the host that was meant (net/guard.h); and what only servers send each other, in `extra`.
 */
static bool is_kept(enum http_header h)
{
    return h == HEADER_host || h == HEADER_origin || h == HEADER_fetch_site ||
           h == HEADER_fetch_dest || h == HEADER_forwarded;
}

/* All other headers that the server knows. */
static void write_headers(struct buf *text, const char *extra, const struct http_request *req)
{
    struct http_request q = *req;
    for (int i = 0; i < HTTP_HEADERS; i++) {
        const struct str *value = http_header_value(&q, (enum http_header)i);
        if (value->at && !is_kept((enum http_header)i)) {
            buf_str(text, str_from(names[i]));
            if (value->len)
                buf_print(text, ": %.*s", (int)value->len, value->at);
            else
                buf_byte(text, ';'); /* libcurl's word for a header without a value */
            buf_byte(text, '\0');
        }
    }
    if (!req->content_type.at && req->body.len)
        buf_add(text, "Content-Type:", sizeof "Content-Type:");
    /* Whether a page sends it decides about a body without a content type. */
    if ((req->origin.at || req->fetch_site.at || req->fetch_dest.at) && !req->fetch_mode.at)
        buf_add(text, "Sec-Fetch-Mode: no-cors", sizeof "Sec-Fetch-Mode: no-cors");
    if (!req->accept.at)
        buf_add(text, "Accept:", sizeof "Accept:");
    if (extra)
        buf_add(text, extra, strlen(extra) + 1);
}

#define LINES_MAX (HTTP_HEADERS + 4)

static void split(const struct buf *text, const char *lines[LINES_MAX])
{
    size_t n = 0;
    for (size_t at = 0; at < text->len; at += strlen(text->at + at) + 1) {
        must(n < LINES_MAX - 1);
        lines[n++] = text->at + at;
    }
    lines[n] = NULL;
}

/* As it came, and not as an equal one: the other server finds it by its spelling, and
 * Tenax-Forwarded signs that. */
static void write_target(struct buf *b, const struct http_request *req)
{
    buf_str(b, req->path);
    if (req->query.len)
        buf_print(b, "?%.*s", (int)req->query.len, req->query.at);
    buf_byte(b, '\0');
}

static bool has_body(const struct http_request *req)
{
    return req->body.len > 0 || req->method == HTTP_POST || req->method == HTTP_PUT ||
           req->method == HTTP_PATCH;
}

void forwarder_send(struct forwarder *f, const char *url, const char *extra,
                    struct http_exchange *x, const struct http_request *req)
{
    struct buf target = {0}, text = {0};
    const char *lines[LINES_MAX];
    struct forward *w = ALLOC(struct forward);
    w->owner = f;
    w->x = x;
    w->shared = strncmp(url, "http:", 5) != 0;
    list_append(&f->under_way, &w->link);
    f->counts.sent++;
    f->counts.under_way++;
    write_target(&target, req);
    write_headers(&text, extra, req);
    split(&text, lines);
    const struct fetch_spec spec = {.method = router_method_name(req->method),
                                    .url = url,
                                    .target = target.at,
                                    .headers = lines,
                                    .body = req->body,
                                    .has_body = has_body(req),
                                    .tls = f->settings.tls ? &f->tls : NULL,
                                    .proxy = "",
                                    .once = true,
                                    .connect_timeout = f->settings.connect_timeout,
                                    .answer_max = GATHER_MAX,
                                    .data = on_data,
                                    .head = on_head,
                                    .done = on_done,
                                    .ctx = w};
    http_hold(x, req->body.len);
    w->fetch = fetch_start(f->fetcher, &spec);
    buf_fini(&target);
    buf_fini(&text);
    http_on_gone(x, on_gone, w);
}

/* --- the forwarder --- */

struct forwarder *forwarder_new(const struct forwarder_settings *settings)
{
    struct forwarder *f = ALLOC(struct forwarder);
    f->settings = *settings;
    if (settings->tls)
        f->tls = *settings->tls;
    f->fetcher = fetcher_new(settings->loop);
    list_init(&f->under_way);
    return f;
}

/* A stream is closed later. */
static void give_up(struct forward *w, const struct err *e)
{
    struct http_exchange *x = w->x;
    fetch_abort(w->fetch);
    w->fetch = NULL;
    if (w->streams) {
        http_stream_abort(x);
        return;
    }
    w->x = NULL;
    http_on_gone(x, NULL, NULL);
    w->owner->settings.refuse(w->owner->settings.ctx, x, e);
    forward_free(w);
}

static void give_up_all(struct forwarder *f, const struct err *e)
{
    struct list *at = f->under_way.next;
    while (at != &f->under_way) {
        struct forward *w = LIST_OF(at, struct forward, link);
        at = at->next;
        if (w->fetch)
            give_up(w, e);
    }
}

void forwarder_give_up(struct forwarder *f)
{
    const struct err e = err_make(
        ERR_OWNER_LOST, "another server has the jobs now: whether this was acted on is not "
                        "known");
    give_up_all(f, &e);
}

void forwarder_free(struct forwarder *f)
{
    if (!f)
        return;
    const struct err e = err_make(ERR_STOPPING, "the server is stopping");
    give_up_all(f, &e);
    fetcher_free(f->fetcher);
    f->closing = true;
    free_if_unused(f);
}

void forwarder_read(const struct forwarder *f, struct forwarder_counts *out)
{
    *out = f->counts;
}
