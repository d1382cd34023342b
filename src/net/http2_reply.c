/* SPDX-License-Identifier: Apache-2.0 */

/* Writes replies and streams as HEADERS and DATA. The bytes of a body wait in
 * x->later until nghttp2 asks for as many as the windows take, and go straight to the
 * connection's output. */

#include "base/must.h"
#include "net/http2_internal.h"

#define FIELDS_MAX 12
/* Larger buffers are freed when they are empty. */
#define LATER_KEEP_MAX ((size_t)64 * 1024)

static uint64_t stream_limit(const struct stream *st)
{
    uint64_t share = budget_share(st->h->conn->set->budget);
    uint64_t most = http2_server(st->h)->settings.backlog_max / 4;
    return share < most ? share : most;
}

/* Then nghttp2 keeps the rest, and goes on when the connection has written. */
static bool is_full(const struct http2 *h)
{
    return conn_backlog(h->conn) > h->conn->set->backlog_max;
}

/* -- heads ------------------------------------------------------------------ */

struct head {
    nghttp2_nv at[FIELDS_MAX];
    size_t count;
    char status[3], length[20];
    struct buf names; /* of extra fields, in lower case */
};

static void add_field(struct head *f, struct str name, struct str value)
{
    must(f->count < FIELDS_MAX);
    /* nghttp2 copies both; its types lack the const. */
    f->at[f->count++] = (nghttp2_nv){(uint8_t *)(uintptr_t)name.at, (uint8_t *)(uintptr_t)value.at,
                                     name.len, value.len, NGHTTP2_NV_FLAG_NONE};
}

/* "Allow: GET\r\nRetry-After: 1\r\n", as HTTP/1.1 writes them. */
static void add_extra(struct head *f, const char *lines)
{
    size_t room = strlen(lines);
    buf_room(&f->names, room); /* so that it does not move below */
    while (*lines) {
        const char *colon = strchr(lines, ':'), *end = strstr(lines, "\r\n");
        must(colon && end && colon < end);
        size_t from = f->names.len;
        for (const char *p = lines; p < colon; p++)
            buf_byte(&f->names, *p >= 'A' && *p <= 'Z' ? (char)(*p | 0x20) : *p);
        const char *value = colon + 1 + (colon[1] == ' ');
        add_field(f, (struct str){f->names.at + from, f->names.len - from},
                  (struct str){value, (size_t)(end - value)});
        lines = end + 2;
    }
}

static void add_status(struct head *f, int status)
{
    must(status >= 100 && status <= 999);
    for (int i = 2; i >= 0; i--, status /= 10)
        f->status[i] = (char)('0' + status % 10);
    add_field(f, STR(":status"), (struct str){f->status, 3});
}

/* Does not clear what is not used. */
static void empty_head(struct head *f)
{
    f->count = 0;
    f->names = (struct buf){0};
}

static void begin_head(struct head *f, struct http_server *s, int status, struct str type)
{
    empty_head(f);
    add_status(f, status);
    /* "Date: …\r\n" without its name and line end */
    add_field(f, STR("date"), (struct str){server_date(s) + 6, REPLY_DATE_LEN - 8});
    if (type.len)
        add_field(f, STR("content-type"), type);
}

static void add_length(struct head *f, uint64_t len)
{
    size_t at = sizeof f->length;
    do {
        f->length[--at] = (char)('0' + len % 10);
        len /= 10;
    } while (len);
    add_field(f, STR("content-length"), (struct str){f->length + at, sizeof f->length - at});
}

/* -- bodies ----------------------------------------------------------------- */

static ssize_t read_body(nghttp2_session *session, int32_t id, uint8_t *to, size_t room,
                         uint32_t *flags, nghttp2_data_source *source, void *ctx)
{
    (void)session;
    (void)id;
    (void)to;
    (void)ctx;
    struct stream *st = source->ptr;
    size_t left = stream_unsent(st);
    if (st->x->state == EXCHANGE_DONE && left <= room)
        *flags |= NGHTTP2_DATA_FLAG_EOF;
    else if (left == 0)
        return NGHTTP2_ERR_DEFERRED;
    *flags |= NGHTTP2_DATA_FLAG_NO_COPY;
    return (ssize_t)(left < room ? left : room);
}

static void note_sent(struct stream *st, size_t len)
{
    struct http2 *h = st->h;
    struct buf *later = &st->x->later;
    st->sent += len;
    st->progress_at = h->sent_at = http2_now(h);
    if (st->x->state == EXCHANGE_DONE)
        h->replies -= len;
    else
        h->streamed -= len;
    if (st->sent == later->len) {
        st->sent = later->len = 0;
        if (later->cap > LATER_KEEP_MAX)
            buf_fini(later);
    }
    if (st->congested && stream_unsent(st) <= stream_limit(st) / 2)
        h->drain_due = true;
    frame_budget_earn(&h->frames, GAIN_DATA);
}

static int send_body(nghttp2_session *session, nghttp2_frame *frame, const uint8_t *head,
                     size_t len, nghttp2_data_source *source, void *ctx)
{
    (void)session;
    (void)frame;
    struct http2 *h = ctx;
    struct stream *st = source->ptr;
    if (is_full(h))
        return NGHTTP2_ERR_WOULDBLOCK;
    struct buf *out = conn_gather(h->conn);
    buf_add(out, head, 9);
    buf_add(out, st->x->later.at + st->sent, len);
    note_sent(st, len);
    return 0;
}

static ssize_t send_bytes(nghttp2_session *session, const uint8_t *at, size_t len, int flags,
                          void *ctx)
{
    (void)session;
    (void)flags;
    struct http2 *h = ctx;
    if (is_full(h))
        return NGHTTP2_ERR_WOULDBLOCK;
    buf_add(conn_gather(h->conn), at, len);
    return (ssize_t)len;
}

/* After an answer that precedes the end of the request, asks the peer to stop sending it (RFC 9113
 * §8.1). */
static int on_frame_sent(nghttp2_session *session, const nghttp2_frame *frame, void *ctx)
{
    struct http2 *h = ctx;
    uint8_t type = frame->hd.type;
    if (type == NGHTTP2_RST_STREAM && frame->rst_stream.error_code != NGHTTP2_NO_ERROR)
        http2_spend(h, COST_RESET);
    if ((type != NGHTTP2_HEADERS && type != NGHTTP2_DATA) ||
        !(frame->hd.flags & NGHTTP2_FLAG_END_STREAM))
        return 0;
    struct stream *st = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
    if (st && !st->complete)
        nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, st->id, NGHTTP2_NO_ERROR);
    return 0;
}

void http2_set_send_callbacks(nghttp2_session_callbacks *callbacks)
{
    nghttp2_session_callbacks_set_send_callback(callbacks, send_bytes);
    nghttp2_session_callbacks_set_send_data_callback(callbacks, send_body);
    nghttp2_session_callbacks_set_on_frame_send_callback(callbacks, on_frame_sent);
}

void http2_send(struct http2 *h)
{
    if (nghttp2_session_send(h->session) < 0)
        conn_abort(h->conn);
}

/* -- replies ---------------------------------------------------------------- */

static void submit(struct stream *st, struct head *f, bool has_body)
{
    nghttp2_data_provider body = {.source.ptr = st, .read_callback = read_body};
    int e =
        nghttp2_submit_response(st->h->session, st->id, f->at, f->count, has_body ? &body : NULL);
    must(e == 0 || e == NGHTTP2_ERR_NOMEM);
    buf_fini(&f->names);
    st->progress_at = http2_now(st->h);
    conn_out(st->h->conn);
}

void http2_continue(struct stream *st)
{
    struct head f;
    empty_head(&f);
    add_status(&f, 100);
    nghttp2_submit_headers(st->h->session, NGHTTP2_FLAG_NONE, st->id, NULL, f.at, f.count, NULL);
    conn_out(st->h->conn);
}

void http2_reply(struct http_exchange *x, int status, struct str type, struct str body,
                 const char *extra)
{
    struct stream *st = x->stream;
    struct head f;
    begin_head(&f, x->server, status, type);
    if (extra)
        add_extra(&f, extra);
    if (body.len || (status != 204 && status != 304))
        add_length(&f, body.len);
    x->state = EXCHANGE_DONE;
    http2_leave_body(st);
    if (body.len && !x->no_body) {
        buf_str(&x->later, body);
        st->h->replies += body.len;
    }
    submit(st, &f, x->later.len > 0);
}

void http2_stream_begin(struct http_exchange *x, int status, struct str type, const char *extra)
{
    struct stream *st = x->stream;
    struct head f;
    http2_leave_body(st);
    begin_head(&f, x->server, status, type);
    if (extra)
        add_extra(&f, extra);
    if (x->sized)
        add_length(&f, x->unwritten);
    submit(st, &f, !x->no_body);
    /* Streams take turns; replies precede endless streams. */
    nghttp2_extpri low = {.urgency = NGHTTP2_EXTPRI_URGENCY_LOW, .inc = 1};
    nghttp2_session_change_extpri_stream_priority(st->h->session, st->id, &low, 1);
    if (x->conn->input_ended)
        conn_abort(x->conn);
}

void http2_stream_write(struct http_exchange *x, struct str bytes)
{
    struct stream *st = x->stream;
    if (x->no_body || st->aborted || bytes.len == 0)
        return;
    if (st->sent > LATER_KEEP_MAX && st->sent > x->later.len / 2) {
        buf_drop(&x->later, st->sent);
        st->sent = 0;
    }
    if (stream_unsent(st) == 0)
        st->progress_at = http2_now(st->h);
    buf_str(&x->later, bytes);
    st->h->streamed += bytes.len;
    nghttp2_session_resume_data(st->h->session, st->id);
    conn_out(st->h->conn);
}

void http2_stream_end(struct http_exchange *x)
{
    struct stream *st = x->stream;
    x->state = EXCHANGE_DONE;
    st->h->replies += stream_unsent(st);
    st->h->streamed -= stream_unsent(st);
    nghttp2_session_resume_data(st->h->session, st->id);
    conn_out(st->h->conn);
}

/* Resets this stream; others of the connection go on. nghttp2 sends the reset before waiting data,
 * and drops that; http2_forget calls closed() when the reset has left. */
void http2_stream_abort(struct http_exchange *x)
{
    struct stream *st = x->stream;
    if (st->aborted)
        return;
    st->aborted = true;
    nghttp2_submit_rst_stream(st->h->session, NGHTTP2_FLAG_NONE, st->id, NGHTTP2_INTERNAL_ERROR);
    conn_out(st->h->conn);
}

bool http2_backlogged(struct http_exchange *x)
{
    struct stream *st = x->stream;
    bool congested = stream_unsent(st) > stream_limit(st) || conn_congested(x->conn);
    st->congested = st->congested || congested;
    return congested;
}

void http2_notify_drained(struct http2 *h)
{
    struct stream *st;
    h->drain_due = false;
    TAILQ_FOREACH(st, &h->streams, link)
    {
        if (!st->congested || stream_unsent(st) > stream_limit(st) / 2)
            continue;
        st->congested = false;
        if (st->x->state == EXCHANGE_STREAM && st->x->drained)
            st->x->drained(st->x->stream_ctx);
    }
}
