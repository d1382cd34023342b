/* SPDX-License-Identifier: Apache-2.0 */
#include "h2_client.h"

#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>

#include "base/alloc.h"
#include "base/must.h"
#include "net/http2.h"

struct h2_stream *h2_stream(struct h2_client *h, int32_t id)
{
    assert_true(id > 0 && id / 2 < H2_STREAMS_MAX);
    return &h->streams[id / 2];
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
                     size_t name_len, const uint8_t *value, size_t value_len, uint8_t flags,
                     void *ctx)
{
    (void)session;
    (void)flags;
    struct h2_stream *st = h2_stream(ctx, frame->hd.stream_id);
    if (name_len == 7 && memcmp(name, ":status", 7) == 0)
        st->status = atoi((const char *)value);
    else
        buf_print(&st->head, "%.*s: %.*s\n", (int)name_len, (const char *)name, (int)value_len,
                  (const char *)value);
    return 0;
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *ctx)
{
    (void)session;
    struct h2_client *h = ctx;
    if (frame->hd.type == NGHTTP2_GOAWAY) {
        h->goaway = true;
        h->code = frame->goaway.error_code;
    } else if (frame->hd.type == NGHTTP2_HEADERS) {
        h2_stream(h, frame->hd.stream_id)->answered = true;
    }
    return 0;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *at,
                   size_t len, void *ctx)
{
    (void)session;
    (void)flags;
    buf_add(&h2_stream(ctx, id)->body, at, len);
    return 0;
}

static int on_close(nghttp2_session *session, int32_t id, uint32_t code, void *ctx)
{
    (void)session;
    struct h2_client *h = ctx;
    struct h2_stream *st = h2_stream(h, id);
    st->closed = true;
    st->code = code;
    h->closed++;
    return 0;
}

static void new_session(struct h2_client *h, struct h2_options o)
{
    nghttp2_session_callbacks *cb;
    nghttp2_option *option;
    must(nghttp2_session_callbacks_new(&cb) == 0);
    must(nghttp2_option_new(&option) == 0);
    nghttp2_session_callbacks_set_on_header_callback(cb, on_header);
    nghttp2_session_callbacks_set_on_frame_recv_callback(cb, on_frame);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(cb, on_data);
    nghttp2_session_callbacks_set_on_stream_close_callback(cb, on_close);
    nghttp2_option_set_no_auto_window_update(option, o.shut);
    must(nghttp2_session_client_new2(&h->session, cb, h, option) == 0);
    nghttp2_option_del(option);
    nghttp2_session_callbacks_del(cb);
    const nghttp2_settings_entry shut = {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 0};
    must(nghttp2_submit_settings(h->session, 0, &shut, o.shut) == 0);
}

void h2_open(struct fixture *f, struct h2_client *h, struct h2_options o)
{
    *h = (struct h2_client){0};
    h->streams = alloc_zero(sizeof *h->streams * H2_STREAMS_MAX);
    client_open(f, &h->c);
    new_session(h, o);
}

void h2_open_served(struct fixture *f, struct h2_client *h)
{
    fixture_serve(f);
    h2_open(f, h, (struct h2_options){0});
}

void h2_close(struct fixture *f, struct h2_client *h)
{
    for (size_t i = 0; i < H2_STREAMS_MAX; i++) {
        buf_fini(&h->streams[i].head);
        buf_fini(&h->streams[i].body);
    }
    nghttp2_session_del(h->session);
    buf_fini(&h->unsent);
    client_close(f, &h->c);
    free(h->streams);
}

static ssize_t read_body(nghttp2_session *session, int32_t id, uint8_t *to, size_t room,
                         uint32_t *flags, nghttp2_data_source *source, void *ctx)
{
    (void)session;
    (void)source;
    struct h2_stream *st = h2_stream(ctx, id);
    size_t left = st->send.len - st->sent, n = left < room ? left : room;
    if (n)
        memcpy(to, st->send.at + st->sent, n);
    st->sent += n;
    if (n == left && !st->hold)
        *flags |= NGHTTP2_DATA_FLAG_EOF;
    return n || !st->hold ? (ssize_t)n : NGHTTP2_ERR_DEFERRED;
}

static nghttp2_nv field(const char *name, size_t name_len, const char *value)
{
    return (nghttp2_nv){(uint8_t *)(uintptr_t)name, (uint8_t *)(uintptr_t)value, name_len,
                        strlen(value), 0};
}

#define FIELDS_MAX 8

static int32_t submit(struct h2_client *h, const char *method, const char *path, const char *extra,
                      bool has_body)
{
    nghttp2_nv fields[FIELDS_MAX] = {field(":method", 7, method), field(":scheme", 7, "http"),
                                     field(":authority", 10, "a"), field(":path", 5, path)};
    size_t count = 4;
    for (const char *end; extra; extra = *end ? end + 1 : NULL) {
        size_t name = strcspn(extra, ":");
        end = extra + strcspn(extra, "\n");
        assert_true(count < FIELDS_MAX);
        fields[count] = field(extra, name, extra + name + 2);
        fields[count++].valuelen = (size_t)(end - extra) - name - 2;
    }
    nghttp2_data_provider body = {.read_callback = read_body};
    int32_t id =
        nghttp2_submit_request(h->session, NULL, fields, count, has_body ? &body : NULL, NULL);
    assert_true(id > 0);
    return id;
}

int32_t h2_request(struct h2_client *h, const char *method, const char *path, const char *extra,
                   struct str body)
{
    int32_t id = submit(h, method, path, extra, body.len > 0);
    h2_stream(h, id)->send = body;
    return id;
}

int32_t h2_get(struct h2_client *h, const char *path)
{
    return h2_request(h, "GET", path, NULL, (struct str){0});
}

int32_t h2_begin(struct h2_client *h, const char *path, struct str body)
{
    int32_t id = submit(h, "POST", path, NULL, true);
    h2_stream(h, id)->send = body;
    h2_stream(h, id)->hold = true;
    return id;
}

void h2_finish(struct h2_client *h, int32_t id)
{
    h2_stream(h, id)->hold = false;
    nghttp2_session_resume_data(h->session, id);
}

/* On a busy machine the server does not read as fast as this writes. False: some is left. */
static bool send_rest(struct h2_client *h)
{
    struct buf *b = &h->unsent;
    if (b->len == 0)
        return true;
    ssize_t n = send(h->c.fd, b->at, b->len, MSG_NOSIGNAL | MSG_DONTWAIT);
    assert_true(n > 0 || errno == EAGAIN);
    size_t sent = n > 0 ? (size_t)n : 0;
    b->len -= sent;
    memmove(b->at, b->at + sent, b->len);
    return b->len == 0;
}

static void send_due(struct h2_client *h)
{
    const uint8_t *at;
    ssize_t n;
    while (!h->c.ended && send_rest(h) && (n = nghttp2_session_mem_send(h->session, &at)) > 0)
        buf_add(&h->unsent, at, (size_t)n);
}

static void read_due(struct h2_client *h)
{
    struct buf *in = &h->c.in;
    if (in->len && !h->over)
        h->over = nghttp2_session_mem_recv(h->session, (uint8_t *)in->at, in->len) < 0;
    in->len = 0;
}

void h2_step(struct fixture *f, struct h2_client *h)
{
    send_due(h);
    fixture_step(f);
    read_due(h);
    send_due(h);
}

void h2_settle(struct fixture *f, struct h2_client *h)
{
    for (int i = 0; i < 5; i++) {
        send_due(h);
        fixture_settle(f);
        read_due(h);
    }
}

/* -- by hand ---------------------------------------------------------------- */

void h2_frame(struct buf *b, uint8_t type, uint8_t flags, int32_t id, const char *payload,
              size_t len)
{
    const char head[9] = {(char)(len >> 16), (char)(len >> 8), (char)len,
                          (char)type,        (char)flags,      (char)(id >> 24),
                          (char)(id >> 16),  (char)(id >> 8),  (char)id};
    buf_add(b, head, sizeof head);
    buf_add(b, payload, len);
}

void h2_preface(struct buf *b)
{
    buf_lit(b, HTTP2_PREFACE);
    h2_frame(b, NGHTTP2_SETTINGS, 0, 0, NULL, 0);
}

void h2_head(struct buf *b, int32_t id, bool open)
{
    /* GET, http, / from the static table; :authority: a */
    static const char fields[] = {(char)0x82, (char)0x86, (char)0x84, 0x01, 0x01, 'a'};
    h2_frame(b, NGHTTP2_HEADERS,
             (uint8_t)(NGHTTP2_FLAG_END_STREAM | (open ? 0 : NGHTTP2_FLAG_END_HEADERS)), id, fields,
             sizeof fields);
}

/* Looks for GOAWAY in the whole frames that have come. */
static bool find_goaway(const struct buf *in, uint32_t *code)
{
    const unsigned char *p = (const unsigned char *)in->at, *end = p + in->len;
    while (end - p >= 9) {
        size_t len = (size_t)p[0] << 16 | (size_t)p[1] << 8 | p[2];
        if ((size_t)(end - p) < 9 + len)
            return false;
        if (p[3] == NGHTTP2_GOAWAY) {
            *code = (uint32_t)p[13] << 24 | (uint32_t)p[14] << 16 | (uint32_t)p[15] << 8 | p[16];
            return true;
        }
        p += 9 + len;
    }
    return false;
}

uint32_t h2_flood(struct fixture *f, struct client *c, struct str bytes)
{
    uint32_t code;
    size_t done = 0;
    while (!find_goaway(&c->in, &code)) {
        if (c->ended)
            fail_msg("the connection ended without GOAWAY");
        ssize_t n = send(c->fd, bytes.at + done, bytes.len - done, MSG_NOSIGNAL | MSG_DONTWAIT);
        done += n > 0 ? (size_t)n : 0;
        if (done == bytes.len)
            fixture_step(f); /* fails if nothing arrives */
        else
            fixture_settle(f);
    }
    AWAIT(f, c->ended);
    return code;
}
