/* SPDX-License-Identifier: Apache-2.0 */
#include "net/websocket.h"

#include <openssl/evp.h>
#include <stdlib.h>
#include <wslay/wslay.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/base64.h"
#include "base/must.h"
#include "net/frame_budget.h"
#include "net/http_internal.h"
#include "net/query.h"

#define KEY_BYTES 16
#define SHA1_SIZE 20
#define GUID      "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
#define WHY_MAX   120
/* A message costs its sender at least so much of the budget of useless frames; a control frame as
 * well. */
#define FRAME_COST 1

struct websocket {
    struct conn *conn;
    wslay_event_context_ptr frames;
    const struct websocket_owner *owner;
    void *ctx;
    struct str input;   /* what wslay has not taken yet */
    uint64_t incoming;  /* bytes of the message that is not whole */
    uint64_t pinged_at; /* when the peer was last asked whether it is there */
    struct frame_budget budget;
    bool reading; /* wslay is called: nobody may end the connection under it */
    bool ended;   /* goodbye was said, or is about to be */
    bool over;    /* nothing is read or sent any more */
};

/* --- the handshake --- */

struct err websocket_check(const struct http_request *req)
{
    struct str key;
    if (!req->websocket || req->method != HTTP_GET)
        return err_make(ERR_BAD_REQUEST,
                        "a WebSocket begins with GET over HTTP/1.1 and the headers "
                        "Connection: Upgrade and Upgrade: websocket");
    if (!str_eq(req->websocket_version, STR("13")))
        return err_make(ERR_BAD_REQUEST, "Sec-WebSocket-Version must be 13");
    if (!base64_read(req->websocket_key, req->arena, &key) || key.len != KEY_BYTES)
        return err_make(ERR_BAD_REQUEST, "Sec-WebSocket-Key must be 16 bytes in Base64");
    return err_none();
}

static void write_accept(struct buf *b, struct str key)
{
    unsigned char hash[EVP_MAX_MD_SIZE];
    unsigned len = 0;
    struct buf text = {0};
    buf_str(&text, key);
    buf_lit(&text, GUID);
    must(EVP_Digest(text.at, text.len, hash, &len, EVP_sha1(), NULL) == 1 && len == SHA1_SIZE);
    buf_fini(&text);
    base64_write(b, (struct str){(const char *)hash, len});
}

/* --- frames --- */

static ssize_t take_input(wslay_event_context_ptr frames, uint8_t *to, size_t len, int flags,
                          void *ctx)
{
    struct websocket *w = ctx;
    size_t n = w->input.len < len ? w->input.len : len;
    (void)flags;
    if (n == 0) {
        wslay_event_set_error(frames, WSLAY_ERR_WOULDBLOCK);
        return -1;
    }
    memcpy(to, w->input.at, n);
    w->input.at += n;
    w->input.len -= n;
    return (ssize_t)n;
}

static ssize_t add_output(wslay_event_context_ptr frames, const uint8_t *data, size_t len,
                          int flags, void *ctx)
{
    const struct websocket *w = ctx;
    (void)frames;
    (void)flags;
    buf_add(conn_out(w->conn), (const char *)data, len);
    return (ssize_t)len;
}

/* wslay keeps a message until it is whole, and refuses one that is too long. */
static void on_frame(wslay_event_context_ptr frames,
                     const struct wslay_event_on_frame_recv_start_arg *frame, void *ctx)
{
    struct websocket *w = ctx;
    (void)frames;
    if (!wslay_is_ctrl_frame(frame->opcode))
        w->incoming += frame->payload_length;
    if (!frame_budget_spend(&w->budget, uv_now(w->conn->set->loop), FRAME_COST))
        websocket_end(w, WEBSOCKET_REFUSED, "too many frames");
}

static void on_message(wslay_event_context_ptr frames,
                       const struct wslay_event_on_msg_recv_arg *message, void *ctx)
{
    struct websocket *w = ctx;
    (void)frames;
    if (wslay_is_ctrl_frame(message->opcode))
        return;
    w->incoming = 0;
    if (w->ended)
        return;
    if (message->opcode == WSLAY_TEXT_FRAME)
        w->owner->text(w->ctx, (struct str){(const char *)message->msg, message->msg_length});
    else
        (void)wslay_event_queue_close(w->frames, WSLAY_CODE_UNSUPPORTED_DATA, NULL, 0);
}

static const struct wslay_event_callbacks callbacks = {
    .recv_callback = take_input,
    .send_callback = add_output,
    .on_frame_recv_start_callback = on_frame,
    .on_msg_recv_callback = on_message,
};

static void finish(struct websocket *w)
{
    w->over = w->ended = true;
    conn_finish(w->conn);
}

/* Sends what is due; after a farewell of either side the connection ends. */
static void flush(struct websocket *w)
{
    if (w->over || w->reading)
        return;
    if (wslay_event_send(w->frames) != 0) {
        w->over = true;
        conn_abort(w->conn);
        return;
    }
    if (wslay_event_get_close_sent(w->frames))
        finish(w);
    budget_count(w->conn);
}

/* --- the connection --- */

static void input(struct conn *c, const char *at, size_t len)
{
    struct websocket *w = c->state;
    if (w->over)
        return;
    w->input = (struct str){at, len};
    w->reading = true;
    bool failed = wslay_event_recv(w->frames) != 0;
    w->reading = false;
    w->input = (struct str){0};
    conn_hold(c, w->incoming < WEBSOCKET_MESSAGE_MAX ? w->incoming : WEBSOCKET_MESSAGE_MAX, 0);
    flush(w);
    if (failed && !w->over)
        finish(w);
    else if (!w->over && conn_congested(c))
        conn_read(c, false);
}

static void input_end(struct conn *c)
{
    conn_abort(c);
}

static void wake(struct conn *c)
{
    const struct websocket *w = c->state;
    if (!w->over && !c->input_ended)
        conn_read(c, true);
}

static void drained(struct conn *c)
{
    struct websocket *w = c->state;
    wake(c);
    if (!w->over)
        w->owner->drained(w->ctx);
}

/* A peer that says nothing is asked whether it is there, for its programs answer without its doing;
 * one that says nothing all the same is given up. */
static void tick(struct conn *c, uint64_t now)
{
    struct websocket *w = c->state;
    const struct http_server *s = c->set->owner;
    uint64_t quiet = now - c->read_at, most = (uint64_t)s->settings.idle_timeout.ms;
    if (w->over || !c->reading)
        return;
    if (quiet >= most) {
        conn_abort(c);
    } else if (quiet >= most / 2 && w->pinged_at <= c->read_at) {
        w->pinged_at = now;
        (void)wslay_event_queue_msg(w->frames, &(struct wslay_event_msg){.opcode = WSLAY_PING});
        flush(w);
    }
}

static void drain(struct conn *c)
{
    websocket_end(c->state, WEBSOCKET_AWAY, "the server stops");
}

static void refuse(struct conn *c, struct err e)
{
    websocket_end(c->state, WEBSOCKET_FAILED, e.msg);
}

static void on_closed(struct conn *c)
{
    struct websocket *w = c->state;
    c->state = NULL;
    w->owner->closed(w->ctx);
    wslay_event_context_free(w->frames);
    free(w);
}

static void before_write(struct conn *c)
{
    (void)c;
}

static uint64_t held(const struct conn *c)
{
    (void)c;
    return 0;
}

static const struct protocol websocket_conn = {
    .input = input,
    .input_end = input_end,
    .wake = wake,
    .before_write = before_write,
    .drained = drained,
    .tick = tick,
    .drain = drain,
    .refuse = refuse,
    .held = held,
    .closed = on_closed,
};

/* --- the owner --- */

struct err websocket_accept(struct http_exchange *x, const struct http_request *req,
                            const struct websocket_owner *owner, void *ctx, struct websocket **out)
{
    struct websocket *w = ALLOC(struct websocket);
    struct conn *c = x->conn;
    *w = (struct websocket){.conn = c, .owner = owner, .ctx = ctx};
    must(wslay_event_context_server_init(&w->frames, &callbacks, w) == 0);
    wslay_event_config_set_max_recv_msg_length(w->frames, WEBSOCKET_MESSAGE_MAX);
    struct buf lines = {0};
    buf_lit(&lines, "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ");
    write_accept(&lines, req->websocket_key);
    buf_add(&lines, "\r\n", 3); /* with its NUL */
    bool done = server_upgrade(x, lines.at, &websocket_conn, w);
    buf_fini(&lines);
    if (!done) {
        wslay_event_context_free(w->frames);
        free(w);
        return err_make(ERR_CONFLICT,
                        "this connection cannot become a WebSocket: it ends, or earlier "
                        "requests on it are not answered yet");
    }
    w->budget = frame_budget_new(uv_now(c->set->loop));
    *out = w;
    return err_none();
}

void websocket_send(struct websocket *w, struct str text)
{
    const struct wslay_event_msg message = {
        .opcode = WSLAY_TEXT_FRAME, .msg = (const uint8_t *)text.at, .msg_length = text.len};
    if (w->ended || wslay_event_queue_msg(w->frames, &message) != 0)
        return;
    flush(w);
}

bool websocket_is_congested(struct websocket *w)
{
    return !w->over && conn_congested(w->conn);
}

void websocket_end(struct websocket *w, enum websocket_code code, const char *why)
{
    size_t len = strnlen(why, WHY_MAX);
    if (w->ended)
        return;
    w->ended = true;
    (void)wslay_event_queue_close(w->frames, (uint16_t)code, (const uint8_t *)why, len);
    flush(w);
}
