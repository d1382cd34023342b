/* SPDX-License-Identifier: Apache-2.0 */

/* The side of a relay that has the sockets. */

#include <stdlib.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/must.h"
#include "net/peer.h"
#include "net/relay_internal.h"

/* What may be on its way to the back before further requests wait, and what is posted before the
 * loop's turn is over. */
#define SENT_MAX ((uint64_t)8 * 1024 * 1024)
#define POST_AT  ((size_t)64 * 1024)
/* The same for what is not answered yet of one connection. */
#define LINE_MAX_BYTES ((uint64_t)1024 * 1024)
/* Bytes of a body that may be on their way. */
#define BODY_MAX ((uint64_t)256 * 1024)
/* Below this much the back need not know what a peer has not read. */
#define UNREAD_SMALL ((uint64_t)1024 * 1024)

static void sent(struct relay *r, size_t before)
{
    r->sent += r->to_back.filling.len - before;
    if (r->to_back.filling.len >= POST_AT)
        mailbox_post(&r->to_back);
}

static void post(struct relay *r, struct relay_message m)
{
    size_t before = r->to_back.filling.len;
    relay_add(&r->to_back.filling, &m);
    sent(r, before);
}

static struct relay *relay_of(const struct relay_line *line)
{
    const struct http_server *s = line->conn->set->owner;
    return s->ctx;
}

/* --- calls --- */

/* Small requests are many, and over soon. */
static uint64_t counted(uint64_t size)
{
    return size > BODY_MEMORY_TINY ? size : 0;
}

static struct relay_call *call_new(struct relay *r, struct relay_line *line,
                                   struct http_exchange *x)
{
    struct relay_call *call = LIST_FIRST(&r->spares);
    if (call)
        LIST_REMOVE(call, link);
    else
        call = ALLOC(struct relay_call);
    *call = (struct relay_call){.line = line, .x = x, .number = ++line->numbers};
    LIST_INSERT_HEAD(&line->calls, call, link);
    return call;
}

static void call_free(struct relay *r, struct relay_call *call)
{
    struct relay_line *line = call->line;
    LIST_REMOVE(call, link);
    LIST_INSERT_HEAD(&r->spares, call, link);
    line->asked -= call->size;
    body_memory_release(&r->bodies, counted(call->size) + call->unconsumed);
    if (!line->limited || line->asked > LINE_MAX_BYTES / 2)
        return;
    line->limited = false;
    if (line->conn)
        conn_wake(line->conn);
}

static void post_of(struct relay *r, const struct relay_call *call, enum relay_kind kind,
                    uint64_t amount)
{
    post(r, (struct relay_message){
                .kind = kind, .line = call->line, .number = call->number, .amount = amount});
}

/* What the back gave to a stream no longer takes memory here. Not of a call that is lost: its line
 * may have gone, and after it has said so nothing may mention it, or the back could read of a line
 * that is freed. */
static void settle(struct relay *r, struct relay_call *call)
{
    if (call->owed && call->x && !call->over)
        post_of(r, call, RELAY_WRITTEN, call->owed);
    call->owed = 0;
}

/* Nobody reads the answer. A stream's exchange is not ours any more by then. */
static void lose(struct relay *r, struct relay_call *call)
{
    struct http_exchange *x = call->x;
    call->x = NULL;
    atomic_store(&call->lost, true);
    if (call->over)
        call_free(r, call);
    else
        post_of(r, call, RELAY_LOST, 0);
    if (x->state == EXCHANGE_PENDING)
        exchange_free(x);
}

/* The peer of a pending exchange has gone, or will at least send no more. */
static void on_gone(void *ctx)
{
    struct relay_call *call = ctx;
    struct relay_line *line = call->line;
    struct relay *r = call->x->server->ctx;
    if (http_is_gone(call->x)) {
        lose(r, call);
    } else if (!line->half) {
        line->half = true;
        post(r, (struct relay_message){.kind = RELAY_HALF, .line = line});
    }
}

static void on_closed(void *ctx)
{
    struct relay_call *call = ctx;
    if (call->x)
        lose(call->x->server->ctx, call);
}

static struct relay_line *line_of(struct relay *r, struct conn *c)
{
    if (c->line)
        return c->line;
    struct relay_line *line = aligned_alloc(64, sizeof *line);
    must(line);
    *line = (struct relay_line){.conn = c, .peer = peer_new(&c->tcp, c->tls)};
    LIST_INIT(&line->calls);
    LIST_INSERT_HEAD(&r->lines, line, link);
    c->line = line;
    return line;
}

void relay_front_handle(void *ctx, struct http_exchange *x, const struct http_request *req)
{
    struct relay *r = ctx;
    struct conn *c = x->conn;
    struct relay_line *line = line_of(r, c);
    struct relay_call *call = call_new(r, line, x);
    struct relay_message m = {.kind = RELAY_REQUEST,
                              .line = line,
                              .call = call,
                              .number = call->number,
                              .amount = c->counted,
                              .received = line->received,
                              .pieces = x->body == BODY_OFFERED};
    size_t before = r->to_back.filling.len;
    relay_add_request(&r->to_back.filling, &m, req);
    call->size = m.size;
    body_memory_add(&r->bodies, counted(m.size));
    line->asked += m.size;
    sent(r, before);
    http_on_gone(x, on_gone, call);
}

bool relay_front_takes_pieces(void *ctx, enum http_method method, struct str path)
{
    const struct relay *r = ctx;
    return r->in_pieces(r->in_pieces_ctx, method, path);
}

/* --- bodies in pieces --- */

static void on_piece(void *ctx, struct str bytes)
{
    struct relay_call *call = ctx;
    struct relay *r = call->x->server->ctx;
    post(r, (struct relay_message){
                .kind = RELAY_PIECE, .line = call->line, .number = call->number, .texts = {bytes}});
    call->unconsumed += bytes.len;
    body_memory_add(&r->bodies, bytes.len);
    if (call->unconsumed < (body_memory_is_short(r->bodies.memory) ? BODY_MEMORY_TINY : BODY_MAX))
        return;
    call->paused = true;
    http_body_pause(call->x);
}

static void on_body_end(void *ctx)
{
    const struct relay_call *call = ctx;
    post_of(call->x->server->ctx, call, RELAY_BODY_END, 0);
}

static void on_body_abort(void *ctx, const struct err *why)
{
    struct relay_call *call = ctx;
    struct relay *r = call->x->server->ctx;
    if (http_is_gone(call->x))
        lose(r, call);
    else
        post(r, (struct relay_message){.kind = RELAY_BODY_ABORT,
                                       .line = call->line,
                                       .number = call->number,
                                       .texts = {{(const char *)why, sizeof *why}}});
}

static void take_body(struct relay_call *call)
{
    static const struct http_receiver receiver = {on_piece, on_body_end, on_body_abort};
    if (call->x)
        http_body_take(call->x, &receiver, call);
}

static void consume(struct relay *r, struct relay_call *call, uint64_t amount)
{
    must(amount <= call->unconsumed);
    call->unconsumed -= amount;
    body_memory_release(&r->bodies, amount);
    if (!call->x || !call->paused || call->unconsumed > BODY_MAX / 2)
        return;
    call->paused = false;
    http_body_resume(call->x);
}

/* --- answers --- */

/* The back is to hear when the peer has read what there is for it. */
static void report_later(struct relay *r, struct relay_line *line)
{
    if (!line->conn || line->reports)
        return;
    line->reports = true;
    LIST_INSERT_HEAD(&r->reports, line, report_link);
}

static void reply(struct relay *r, const struct relay_message *m)
{
    struct relay_call *call = m->call;
    struct http_exchange *x = call->x;
    call->line->received += m->texts[1].len;
    if (m->report)
        report_later(r, call->line);
    call_free(r, call);
    if (x)
        http_reply(x, m->status, m->texts[0], m->texts[1], m->texts[2].at);
}

static void begin_stream(const struct relay_message *m)
{
    struct http_exchange *x = m->call->x;
    if (!x)
        return;
    if (m->sized)
        http_stream_begin_sized(x, m->status, m->texts[0], m->amount, m->texts[2].at, on_closed,
                                m->call);
    else
        http_stream_begin(x, m->status, m->texts[0], on_closed, m->call);
}

static void on_drained(void *ctx)
{
    struct relay_call *call = ctx;
    if (call->x)
        settle(call->x->server->ctx, call);
}

static void write_stream(struct relay *r, const struct relay_message *m)
{
    struct relay_call *call = m->call;
    call->owed += m->texts[0].len;
    if (call->x) {
        http_stream_write(call->x, m->texts[0]);
        http_stream_on_drain(call->x, on_drained);
    }
    if (!call->x || !http_must_wait(call->x))
        settle(r, call);
}

static void end_stream(struct relay *r, struct relay_call *call)
{
    struct http_exchange *x = call->x;
    call->x = NULL;
    if (x)
        http_stream_end(x); /* calls on_closed */
    call_free(r, call);
}

static void end_call(struct relay *r, struct relay_call *call)
{
    if (call->x)
        call->over = true; /* its line is being closed */
    else
        call_free(r, call);
}

/* --- lines --- */

static void close_line(struct relay_line *line)
{
    if (line->conn)
        conn_abort(line->conn);
}

static void free_line(struct relay_line *line)
{
    must(!line->conn && LIST_EMPTY(&line->calls));
    LIST_REMOVE(line, link);
    peer_free(line->peer);
    free(line);
}

/* Whoever asked and was told of the half is told of nothing else. */
static void on_leaving(struct conn *c)
{
    struct relay_line *line = c->line;
    struct relay_call *call, *next;
    if (line) {
        struct relay *r = relay_of(line);
        for (call = LIST_FIRST(&line->calls); call; call = next) {
            next = LIST_NEXT(call, link);
            if (call->x)
                lose(r, call);
        }
        if (line->reports)
            LIST_REMOVE(line, report_link);
        line->reports = false;
        line->conn = NULL;
        c->line = NULL;
        post(r, (struct relay_message){.kind = RELAY_GONE, .line = line});
    }
    const struct http_server *s = c->set->owner;
    atomic_fetch_sub(((const struct relay *)s->ctx)->open, 1);
}

static void on_front_drained(void *ctx)
{
    post(ctx, (struct relay_message){.kind = RELAY_DRAINED});
}

static void stop(struct relay *r)
{
    r->stopping = true;
    http_server_close(r->front);
}

/* --- both ways --- */

static void handle(struct relay *r, const struct relay_message *m)
{
    switch (m->kind) {
    case RELAY_REPLY:
        reply(r, m);
        break;
    case RELAY_BEGIN:
        begin_stream(m);
        break;
    case RELAY_WRITE:
        write_stream(r, m);
        break;
    case RELAY_END:
        end_stream(r, m->call);
        break;
    case RELAY_ABORT:
        if (m->call->x)
            http_stream_abort(m->call->x);
        break;
    case RELAY_TAKE:
        take_body(m->call);
        break;
    case RELAY_CONSUMED:
        consume(r, m->call, m->amount);
        break;
    case RELAY_ENDED:
        end_call(r, m->call);
        break;
    case RELAY_REPORT:
        report_later(r, m->line);
        break;
    case RELAY_CLOSE:
        close_line(m->line);
        break;
    case RELAY_FREE:
        free_line(m->line);
        break;
    case RELAY_ACCEPT:
        server_adopt(r->front, m->status, (int)m->amount);
        break;
    case RELAY_DRAIN:
        http_server_drain(r->front, on_front_drained, r);
        break;
    default:
        must(m->kind == RELAY_STOP);
        stop(r);
    }
}

/* Nothing comes after RELAY_STOP. */
void relay_front_read(struct relay *r)
{
    if (r->stopping)
        return;
    if (mailbox_take(&r->to_front, &r->letters)) {
        const struct relay_message *m;
        for (size_t at = 0; at < r->letters.len; at += m->size) {
            m = relay_at(&r->letters, at);
            handle(r, m);
        }
        budget_release(&r->budget, r->letters.len);
        atomic_fetch_add(&r->read, r->letters.len);
        if (atomic_exchange(&r->choked, false))
            uv_async_send(r->to_back.wake);
        r->letters.len = 0;
    }
    if (r->stopping)
        return;
    budget_retry(&r->budget);
    body_memory_retry(&r->front->conns.bodies);
}

static bool is_full(struct relay *r)
{
    return r->sent - atomic_load(&r->taken) > SENT_MAX;
}

/* Once more after the back can know of it. */
static bool is_saturated(void *ctx, struct conn *c)
{
    struct relay *r = ctx;
    struct relay_line *line = c->line;
    if (line && line->asked > LINE_MAX_BYTES) {
        line->limited = true;
        return true;
    }
    if (!is_full(r))
        return false;
    atomic_store(&r->saturated, true);
    return is_full(r);
}

static void on_flushed(void *owner)
{
    const struct http_server *s = owner;
    struct relay *r = s->ctx;
    struct relay_line *line, *next;
    for (line = LIST_FIRST(&r->reports); line; line = next) {
        next = LIST_NEXT(line, report_link);
        if (line->conn->counted >= UNREAD_SMALL)
            continue;
        LIST_REMOVE(line, report_link);
        line->reports = false;
        post(r, (struct relay_message){.kind = RELAY_UNREAD,
                                       .line = line,
                                       .amount = line->conn->counted,
                                       .received = line->received});
    }
    mailbox_post(&r->to_back);
}

void relay_front_begin(struct relay *r)
{
    static const struct server_relay relays = {is_saturated};
    r->front->relays = &relays;
    r->front->conns.leaving = on_leaving;
    r->front->conns.flushed = on_flushed;
}

void relay_front_free(struct relay *r)
{
    struct relay_line *line;
    struct relay_call *call;
    while ((line = LIST_FIRST(&r->lines))) {
        while ((call = LIST_FIRST(&line->calls)))
            call_free(r, call);
        LIST_REMOVE(line, link);
        peer_free(line->peer);
        free(line);
    }
    while ((call = LIST_FIRST(&r->spares))) {
        LIST_REMOVE(call, link);
        free(call);
    }
    buf_fini(&r->letters);
}
