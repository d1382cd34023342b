/* SPDX-License-Identifier: Apache-2.0 */

/* The side of a relay that has the handler. */

#include <stdlib.h>

#include "base/alloc.h"
#include "base/must.h"
#include "net/relay_internal.h"

/* What is posted before the loop's turn is over. */
#define POST_AT ((size_t)64 * 1024)
/* Bytes that may be on their way to the front before streams wait. */
#define WRITTEN_MAX ((uint64_t)1024 * 1024)
/* Bytes of a stream that may be on their way to the front. */
#define STREAM_MAX ((uint64_t)256 * 1024)
/* With more than this unread the front is to say when it is less. */
#define UNREAD_SMALL ((uint64_t)1024 * 1024)

/* Of a connection. */
struct relay_state {
    struct relay *relay;
    struct relay_line *line;
    struct exchange_queue queue;
    uint64_t streamed; /* bytes on their way to the front */
    uint64_t replied;  /* bytes of replies so far */
    bool gone;         /* the front has said so */
    bool asked;        /* for a report, because requests wait for it */
    /* Requests that wait until the peer has read, or until there is memory; parked_at is the first
     * of them. */
    struct buf parked;
    size_t parked_at;
    bool waits; /* in relay->waiting: for memory */
    TAILQ_ENTRY(relay_state) link;
};

/* Of an exchange; x->stream. */
struct part {
    struct relay_call *call;
    uint64_t number;
    uint64_t streamed; /* part of the connection's */
    bool congested;    /* drained() is due once there is room */
    bool taken;        /* the body */
    bool ended, aborted;
    struct buf body; /* pieces that came while it was paused */
    struct err why;  /* iff aborted */
};

static bool has_parked(const struct relay_state *h)
{
    return h->parked_at < h->parked.len;
}

static struct part *part_of(const struct http_exchange *x)
{
    return x->stream;
}

static void post(struct relay *r, struct relay_message m)
{
    relay_add(&r->to_front.filling, &m);
    if (r->to_front.filling.len >= POST_AT)
        relay_back_post(r);
}

/* The bytes count as held until the front has read them, and counts what it makes of them. */
void relay_back_post(struct relay *r)
{
    size_t len = r->to_front.filling.len;
    if (!len)
        return;
    budget_add(r->back->conns.budget, len);
    r->written += len;
    mailbox_post(&r->to_front);
}

/* --- answers --- */

static struct str line_text(const char *s)
{
    return s ? (struct str){s, strlen(s) + 1} : (struct str){0};
}

static void end_exchange(struct relay_state *h, struct http_exchange *x)
{
    TAILQ_REMOVE(&h->queue, x, link);
    exchange_free(x);
}

static void reply(struct http_exchange *x, int status, struct str type, struct str body,
                  const char *extra)
{
    struct conn *c = x->conn;
    struct relay_state *h = c->state;
    h->replied += body.len;
    c->elsewhere += body.len;
    post(h->relay, (struct relay_message){.kind = RELAY_REPLY,
                                          .status = status,
                                          .call = part_of(x)->call,
                                          .report = c->elsewhere >= UNREAD_SMALL,
                                          .texts = {type, body, line_text(extra)}});
    end_exchange(h, x);
    if (has_parked(h))
        conn_wake(c);
}

static void stream_begin(struct http_exchange *x, int status, struct str type, const char *extra)
{
    struct relay_state *h = x->conn->state;
    post(h->relay, (struct relay_message){.kind = RELAY_BEGIN,
                                          .status = status,
                                          .call = part_of(x)->call,
                                          .sized = x->sized,
                                          .amount = x->unwritten,
                                          .texts = {type, {0}, line_text(extra)}});
}

static void stream_write(struct http_exchange *x, struct str bytes)
{
    struct relay_state *h = x->conn->state;
    if (x->no_body || bytes.len == 0)
        return;
    post(h->relay,
         (struct relay_message){.kind = RELAY_WRITE, .call = part_of(x)->call, .texts = {bytes}});
    part_of(x)->streamed += bytes.len;
    h->streamed += bytes.len;
}

static void stream_end(struct http_exchange *x)
{
    struct relay_state *h = x->conn->state;
    post(h->relay, (struct relay_message){.kind = RELAY_END, .call = part_of(x)->call});
    h->streamed -= part_of(x)->streamed; /* the front counts it by now, or soon */
    end_exchange(h, x);
}

static void stream_abort(struct http_exchange *x)
{
    struct relay_state *h = x->conn->state;
    post(h->relay, (struct relay_message){.kind = RELAY_ABORT, .call = part_of(x)->call});
}

static uint64_t stream_limit(const struct http_exchange *x)
{
    uint64_t most = conn_limit(x->conn);
    return most < STREAM_MAX ? most : STREAM_MAX;
}

static bool is_full(const struct relay *r)
{
    return r->written + r->to_front.filling.len - atomic_load(&r->read) > WRITTEN_MAX;
}

/* So much is on its way to the front that no stream should add to it. Once more after the front can
 * know of it. */
static bool is_choked(struct relay *r)
{
    if (!is_full(r))
        return false;
    atomic_store(&r->choked, true);
    return is_full(r);
}

static bool backlogged(struct http_exchange *x)
{
    struct part *p = part_of(x);
    struct relay_state *h = x->conn->state;
    if (is_choked(h->relay)) {
        x->conn->stream_waits = true;
        budget_wait(x->conn);
        return true;
    }
    p->congested = p->congested || p->streamed > stream_limit(x);
    return p->congested;
}

/* Nothing: the front counts what the peer has not read, and relay_back_post what is on its way. */
static uint64_t held(const struct conn *c)
{
    (void)c;
    return 0;
}

/* --- bodies in pieces --- */

static struct http_exchange *find(const struct relay_state *h, uint64_t number)
{
    struct http_exchange *x;
    TAILQ_FOREACH(x, &h->queue, link)
    if (part_of(x)->number == number)
        return x;
    return NULL;
}

static bool flows(const struct http_exchange *x)
{
    return x->receiver && x->body == BODY_FLOWS;
}

static void hand_piece(struct relay_state *h, struct http_exchange *x, struct str bytes)
{
    post(h->relay, (struct relay_message){
                       .kind = RELAY_CONSUMED, .call = part_of(x)->call, .amount = bytes.len});
    server_body_piece(x, bytes);
}

/* What was held back. The exchange may be answered by any of these. */
static void hand_on(struct relay_state *h, struct http_exchange *x)
{
    uint64_t number = part_of(x)->number;
    struct part *p = part_of(x);
    if (p->body.len && flows(x)) {
        struct buf pieces = p->body;
        p->body = (struct buf){0};
        hand_piece(h, x, buf_view(&pieces));
        buf_fini(&pieces);
        x = find(h, number);
    }
    if (!x || !flows(x))
        return;
    if (p->aborted)
        server_body_abort(x, p->why);
    else if (p->ended)
        server_body_end(x);
}

static void take_piece(struct relay_state *h, struct http_exchange *x, struct str bytes)
{
    if (flows(x) && !part_of(x)->body.len)
        hand_piece(h, x, bytes);
    else if (x->receiver)
        buf_str(&part_of(x)->body, bytes);
}

static void body_go_on(struct http_exchange *x)
{
    struct relay_state *h = x->conn->state;
    if (part_of(x)->taken) {
        conn_wake(x->conn);
        return;
    }
    part_of(x)->taken = true;
    post(h->relay, (struct relay_message){.kind = RELAY_TAKE, .call = part_of(x)->call});
}

static void free_part(void *part)
{
    buf_fini(&((struct part *)part)->body);
}

/* --- what a connection waits for --- */

static bool has_more(const struct http_exchange *x)
{
    const struct part *p = part_of(x);
    return flows(x) && (p->body.len || p->ended || p->aborted);
}

static void hand_on_bodies(struct relay_state *h)
{
    struct http_exchange *x;
    do {
        TAILQ_FOREACH(x, &h->queue, link)
        if (has_more(x))
            break;
        if (x)
            hand_on(h, x);
    } while (x);
}

/* Of the streams whose bytes have left; each may end meanwhile. */
static void notify_drained(struct relay_state *h)
{
    struct http_exchange *x;
    do {
        TAILQ_FOREACH(x, &h->queue, link)
        if (part_of(x)->congested && part_of(x)->streamed <= stream_limit(x) / 2)
            break;
        if (x) {
            part_of(x)->congested = false;
            if (x->drained)
                x->drained(x->stream_ctx);
        }
    } while (x);
}

static void read_parked(struct conn *c);

static void wake(struct conn *c)
{
    struct relay_state *h = c->state;
    struct http_exchange *x;
    if (c->stream_waits) {
        c->stream_waits = false;
        TAILQ_FOREACH(x, &h->queue, link)
        part_of(x)->congested = part_of(x)->congested || x->state == EXCHANGE_STREAM;
    }
    notify_drained(h);
    hand_on_bodies(h);
    read_parked(c);
    if (c->input_ended)
        exchange_tell_gone(&h->queue);
}

/* --- a connection --- */

static void open_state(struct conn *c)
{
    struct relay_state *h = ALLOC(struct relay_state);
    TAILQ_INIT(&h->queue);
    c->state = h;
}

/* The front may not know yet. */
static void closed(struct conn *c)
{
    struct relay_state *h = c->state;
    struct http_exchange *x;
    TAILQ_FOREACH(x, &h->queue, link)
    post(h->relay, (struct relay_message){.kind = RELAY_ENDED, .call = part_of(x)->call});
    for (; has_parked(h); h->parked_at += relay_at(&h->parked, h->parked_at)->size) {
        struct relay_call *call = relay_at(&h->parked, h->parked_at)->call;
        post(h->relay, (struct relay_message){.kind = RELAY_ENDED, .call = call});
    }
    if (h->waits)
        TAILQ_REMOVE(&h->relay->waiting, h, link);
    enum relay_kind last = h->gone ? RELAY_FREE : RELAY_CLOSE;
    h->line->there = NULL;
    h->line->dead = true;
    post(h->relay, (struct relay_message){.kind = last, .line = h->line});
    exchange_orphan(c->set->owner, &h->queue);
    buf_fini(&h->parked);
    free(h);
    c->state = NULL;
}

static void ignore(struct conn *c)
{
    (void)c;
}

static void ignore_input(struct conn *c, const char *at, size_t len)
{
    (void)c;
    (void)at;
    (void)len;
}

static void ignore_time(struct conn *c, uint64_t now)
{
    (void)c;
    (void)now;
}

static void refuse(struct conn *c, struct err e)
{
    (void)e;
    conn_abort(c);
}

static const struct protocol relayed = {
    .open = open_state,
    .input = ignore_input,
    .input_end = ignore,
    .wake = wake,
    .before_write = ignore,
    .drained = ignore,
    .tick = ignore_time,
    .drain = ignore,
    .refuse = refuse,
    .held = held,
    .closed = closed,
    .reply = reply,
    .stream_begin = stream_begin,
    .stream_write = stream_write,
    .stream_end = stream_end,
    .stream_abort = stream_abort,
    .body_go_on = body_go_on,
    .backlogged = backlogged,
};

static struct conn *open_line(struct relay *r, struct relay_line *line)
{
    struct conn *c = conn_imagine(&r->back->conns, &relayed);
    struct relay_state *h = c->state;
    h->relay = r;
    h->line = line;
    line->there = c;
    c->peer = line->peer;
    c->peer_is_lent = true;
    return c;
}

/* --- what the front says --- */

static void note_unread(struct conn *c, const struct relay_message *m)
{
    const struct relay_state *h = c->state;
    c->elsewhere = m->amount + (h->replied - m->received);
}

static void serve(struct conn *c, const struct relay_message *m)
{
    struct relay_state *h = c->state;
    if (atomic_load(&m->call->lost)) {
        post(h->relay, (struct relay_message){.kind = RELAY_ENDED, .call = m->call});
        return;
    }
    struct http_server *s = c->set->owner;
    struct http_exchange *x = exchange_new(s, c);
    struct http_request req = relay_request(m);
    struct part *p = ARENA_NEW(&x->arena, struct part);
    p->call = m->call;
    p->number = m->number;
    x->stream = p;
    x->no_body = req.method == HTTP_HEAD;
    if (m->pieces) {
        x->body = BODY_OFFERED;
        arena_defer(&x->arena, free_part, p);
    }
    req.arena = &x->arena;
    TAILQ_INSERT_TAIL(&h->queue, x, link);
    server_hand_on(s, x, &req, 0);
}

/* --- requests that wait --- */

static bool has_no_memory(const struct relay *r)
{
    const struct conn_set *set = &r->back->conns;
    return budget_is_full(set->budget, uv_now(set->loop));
}

/* The peer has much to read before it gets more; or there is no memory for more. */
static bool may_be_served(struct conn *c)
{
    struct relay_state *h = c->state;
    if (c->elsewhere + c->pending_bytes >= UNREAD_SMALL) {
        if (c->elsewhere && !h->asked)
            post(h->relay, (struct relay_message){.kind = RELAY_REPORT, .line = h->line});
        h->asked = c->elsewhere > 0;
        return false;
    }
    if (!has_no_memory(h->relay))
        return true;
    if (!h->waits)
        TAILQ_INSERT_TAIL(&h->relay->waiting, h, link);
    h->waits = true;
    return false;
}

static void read_parked(struct conn *c)
{
    struct relay_state *h = c->state;
    while (has_parked(h) && !c->closing && may_be_served(c)) {
        const struct relay_message *m = relay_at(&h->parked, h->parked_at);
        h->parked_at += m->size;
        serve(c, m);
    }
    if (!has_parked(h)) {
        buf_fini(&h->parked);
        h->parked_at = 0;
    }
}

static void take_request(struct relay *r, const struct relay_message *m)
{
    struct conn *c = m->line->there;
    if (m->line->dead || (c && c->closing)) {
        post(r, (struct relay_message){.kind = RELAY_ENDED, .call = m->call});
        return;
    }
    if (!c)
        c = open_line(r, m->line);
    struct relay_state *h = c->state;
    note_unread(c, m);
    if (!has_parked(h) && may_be_served(c))
        serve(c, m);
    else
        buf_add(&h->parked, m, m->size);
}

/* There is still a reply to be had, but not for what would have no end. */
static void halve(struct conn *c)
{
    c->input_ended = true;
    struct relay_state *h = c->state;
    exchange_tell_gone(&h->queue);
}

static void lose(struct relay_state *h, struct http_exchange *x)
{
    struct exchange_queue lost = TAILQ_HEAD_INITIALIZER(lost);
    post(h->relay, (struct relay_message){.kind = RELAY_ENDED, .call = part_of(x)->call});
    h->streamed -= part_of(x)->streamed;
    TAILQ_REMOVE(&h->queue, x, link);
    TAILQ_INSERT_TAIL(&lost, x, link);
    exchange_orphan(x->server, &lost);
}

static void leave(struct relay *r, struct relay_line *line)
{
    struct conn *c = line->there;
    if (!c) {
        post(r, (struct relay_message){.kind = RELAY_FREE, .line = line});
        return;
    }
    ((struct relay_state *)c->state)->gone = true;
    conn_abort(c);
}

static void count_written(struct conn *c, struct http_exchange *x, uint64_t amount)
{
    struct relay_state *h = c->state;
    must(amount <= part_of(x)->streamed);
    part_of(x)->streamed -= amount;
    h->streamed -= amount;
    c->left += amount;
    notify_drained(h);
}

/* Of one call that is not over. */
static void handle_call(struct conn *c, struct http_exchange *x, const struct relay_message *m)
{
    struct relay_state *h = c->state;
    struct part *p = part_of(x);
    switch (m->kind) {
    case RELAY_LOST:
        lose(h, x);
        return;
    case RELAY_WRITTEN:
        count_written(c, x, m->amount);
        return;
    case RELAY_PIECE:
        take_piece(h, x, m->texts[0]);
        return;
    case RELAY_BODY_END:
        p->ended = true;
        break;
    default:
        must(m->kind == RELAY_BODY_ABORT && m->texts[0].len == sizeof p->why);
        memcpy(&p->why, m->texts[0].at, sizeof p->why);
        p->aborted = true;
    }
    if (has_more(x))
        hand_on(h, x);
}

static void hear_of_unread(struct conn *c, const struct relay_message *m)
{
    struct relay_state *h = c->state;
    h->asked = false;
    note_unread(c, m);
    read_parked(c);
}

static void handle(struct relay *r, const struct relay_message *m)
{
    struct conn *c = m->line ? m->line->there : NULL;
    struct http_exchange *x = c && m->number ? find(c->state, m->number) : NULL;
    switch (m->kind) {
    case RELAY_REQUEST:
        take_request(r, m);
        break;
    case RELAY_DRAINED:
        r->drained(r->drained_ctx);
        break;
    case RELAY_GONE:
        leave(r, m->line);
        break;
    case RELAY_HALF:
        if (c)
            halve(c);
        break;
    case RELAY_UNREAD:
        if (c)
            hear_of_unread(c, m);
        break;
    default:
        if (x)
            handle_call(c, x, m);
    }
}

/* --- the mailbox --- */

bool relay_back_is_due(const struct relay *r)
{
    return !TAILQ_EMPTY(&r->waiting) && !has_no_memory(r);
}

void relay_back_begin(struct relay *r)
{
    TAILQ_INIT(&r->waiting);
}

void relay_back_read(struct relay *r)
{
    while (relay_back_is_due(r)) {
        struct relay_state *h = TAILQ_FIRST(&r->waiting);
        TAILQ_REMOVE(&r->waiting, h, link);
        h->waits = false;
        read_parked(h->line->there);
    }
    if (!mailbox_take(&r->to_back, &r->requests))
        return;
    const struct relay_message *m;
    for (size_t at = 0; at < r->requests.len; at += m->size) {
        m = relay_at(&r->requests, at);
        handle(r, m);
    }
    atomic_fetch_add(&r->taken, r->requests.len);
    r->requests.len = 0;
    if (atomic_exchange(&r->saturated, false))
        uv_async_send(r->to_front.wake);
}
