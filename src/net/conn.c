/* SPDX-License-Identifier: Apache-2.0 */
#include "net/conn.h"

#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/log.h"
#include "base/must.h"
#include "net/liveness.h"
#include "net/peer.h"
#include "net/tls.h"

#define INPUT_SIZE ((size_t)64 * 1024)
/* Larger output buffers are freed when they are empty. */
#define SPARE_SIZE_MAX ((size_t)256 * 1024)
/* What one write takes; libuv counts in int. */
#define WRITE_MAX ((size_t)1 << 30)
#define LINGER_MS 1000
/* So many connections keep OpenSSL's buffers, of 33 KiB each; all others get them anew for each
 * record. */
#define TLS_BUFFERS_MAX 256

static uv_stream_t *stream_of(struct conn *c)
{
    return (uv_stream_t *)&c->tcp;
}

static void stay_awake(struct conn_set *set);
static void on_tick(uv_timer_t *handle);

static void touch(struct conn *c)
{
    if (c->dirty || c->closing)
        return;
    c->dirty = true;
    TAILQ_INSERT_TAIL(&c->set->dirty, c, dirty_link);
    stay_awake(c->set);
}

static void take_spare(struct conn_set *set, struct buf *b)
{
    if (!b->at && set->spare_count)
        *b = set->spares[--set->spare_count];
}

struct buf *conn_gather(struct conn *c)
{
    take_spare(c->set, &c->out);
    return &c->out;
}

struct buf *conn_out(struct conn *c)
{
    touch(c);
    return conn_gather(c);
}

static void give_back(struct conn_set *set, struct buf *b)
{
    if (b->at && b->cap <= SPARE_SIZE_MAX && set->spare_count < CONN_SPARES) {
        b->len = 0;
        set->spares[set->spare_count++] = *b;
        *b = (struct buf){0};
    } else {
        buf_fini(b);
    }
}

uint64_t conn_backlog(const struct conn *c)
{
    return c->out.len + c->wire.len + uv_stream_get_write_queue_size((const uv_stream_t *)&c->tcp);
}

uint64_t conn_limit(const struct conn *c)
{
    uint64_t share = budget_share(c->set->budget);
    return share < c->set->backlog_max ? share : c->set->backlog_max;
}

bool conn_congested(struct conn *c)
{
    if (conn_backlog(c) <= conn_limit(c))
        return false;
    c->congested = true;
    touch(c);
    return true;
}

void conn_wake(struct conn *c)
{
    if (c->waking || c->closing)
        return;
    c->waking = true;
    TAILQ_INSERT_TAIL(&c->set->wakers, c, wake_link);
    stay_awake(c->set);
}

/* -- whether answers arrived ------------------------------------------------ */

static bool has_left(const struct conn *c)
{
    return !conn_backlog(c) && !(c->protocol->held && c->protocol->held(c));
}

/* The peer says something, and has all that was sent to it. */
static void confirm_answers(struct conn *c)
{
    if (!LIST_EMPTY(&c->receipts) && has_left(c))
        receipts_settle(&c->receipts, false);
}

/* The peer will say nothing more. */
static void judge_answers(struct conn *c)
{
    if (!LIST_EMPTY(&c->receipts))
        receipts_settle(&c->receipts,
                        c->failed || !has_left(c) || liveness_is_unacknowledged(&c->tcp));
}

/* -- closing ---------------------------------------------------------------- */

static void on_closed(uv_handle_t *handle)
{
    struct conn *c = handle->data;
    struct conn_set *set = c->set;
    c->protocol->closed(c);
    if (set->leaving)
        set->leaving(c);
    budget_forget(c);
    body_memory_forget(&set->bodies, &c->bodies);
    if (c->dirty)
        TAILQ_REMOVE(&set->dirty, c, dirty_link);
    if (c->waking)
        TAILQ_REMOVE(&set->wakers, c, wake_link);
    LIST_REMOVE(c, link);
    give_back(set, &c->out);
    give_back(set, &c->wire);
    give_back(set, &c->sending);
    tls_free(c->tls);
    if (!c->peer_is_lent)
        peer_free(c->peer);
    free(c);
    if (--set->count == 0)
        uv_timer_stop(&set->tick);
    set->freed(set->owner);
}

void conn_abort(struct conn *c)
{
    if (c->closing)
        return;
    c->closing = true;
    judge_answers(c);
    uv_close((uv_handle_t *)&c->tcp, on_closed);
}

static void on_shutdown(uv_shutdown_t *req, int status)
{
    struct conn *c = req->data;
    if (status < 0)
        conn_abort(c);
}

static void linger(struct conn *c)
{
    if (c->lingering)
        return;
    c->lingering = true;
    c->linger_until = uv_now(c->set->loop) + LINGER_MS;
    /* All input was read, so that closing sends no reset. */
    if (c->input_ended) {
        conn_abort(c);
        return;
    }
    conn_read(c, true);
    c->shutdown.data = c;
    if (uv_shutdown(&c->shutdown, stream_of(c), on_shutdown) < 0)
        conn_abort(c);
}

void conn_finish(struct conn *c)
{
    c->finishing = true;
    touch(c);
}

/* -- output ----------------------------------------------------------------- */

static void check_drained(struct conn *c)
{
    if (!c->congested || c->closing || conn_backlog(c) > conn_limit(c) / 2)
        return;
    c->congested = false;
    c->protocol->drained(c);
}

static void on_written(uv_write_t *req, int status)
{
    struct conn *c = req->data;
    c->left += c->sending.len;
    c->sending.len = 0;
    if (status < 0) {
        c->failed = true;
        conn_abort(c);
        return;
    }
    give_back(c->set, &c->sending);
    budget_count(c);
    touch(c);
}

/* Bytes that the socket does not take at once go to libuv. New output gathers meanwhile. */
static void send_rest(struct conn *c, struct buf *out, size_t done)
{
    c->sending = *out;
    *out = (struct buf){0};
    c->progress_at = uv_now(c->set->loop);
    c->unsent = c->sending.len - done;
    c->write.data = c;
    uv_buf_t rest[4];
    unsigned count = 0;
    for (size_t at = done; at < c->sending.len; at += WRITE_MAX) {
        size_t left = c->sending.len - at;
        must(count < COUNT(rest));
        rest[count++] =
            uv_buf_init(c->sending.at + at, (unsigned)(left < WRITE_MAX ? left : WRITE_MAX));
    }
    if (uv_write(&c->write, stream_of(c), rest, count, on_written) < 0)
        conn_abort(c);
}

static void send_out(struct conn *c, struct buf *out)
{
    size_t len = out->len < WRITE_MAX ? out->len : WRITE_MAX;
    uv_buf_t all = uv_buf_init(out->at, (unsigned)len);
    int n = uv_try_write(stream_of(c), &all, 1);
    if (n < 0 && n != UV_EAGAIN) {
        c->failed = true;
        conn_abort(c);
    } else if (n >= 0 && (size_t)n == out->len) {
        c->left += out->len;
        give_back(c->set, out);
    } else {
        send_rest(c, out, n < 0 ? 0 : (size_t)n);
    }
}

/* Nothing is encrypted while the socket is busy, so that output waits in one place. */
static struct buf *seal(struct conn *c)
{
    if (c->sending.len)
        return &c->wire;
    take_spare(c->set, &c->wire);
    tls_seal(c->tls, &c->out, &c->wire);
    if (!c->out.len)
        give_back(c->set, &c->out);
    if (c->finishing && !c->out.len)
        tls_finish(c->tls, &c->wire);
    if (!c->wire.len)
        give_back(c->set, &c->wire);
    return &c->wire;
}

static void flush(struct conn *c)
{
    if (c->closing)
        return;
    c->protocol->before_write(c);
    struct buf *out = c->tls ? seal(c) : &c->out;
    if (out->len && !c->sending.len)
        send_out(c, out);
    if (c->finishing && !c->out.len && !c->wire.len && !c->sending.len && !c->closing)
        linger(c);
    budget_count(c);
    check_drained(c);
}

/* -- input ------------------------------------------------------------------ */

static void on_alloc(uv_handle_t *handle, size_t hint, uv_buf_t *buf)
{
    (void)hint;
    struct conn *c = handle->data;
    bool is_short = body_memory_is_short(c->set->bodies.memory);
    *buf = uv_buf_init(c->set->input, is_short ? (unsigned)BODY_MEMORY_TINY : INPUT_SIZE);
}

static void end_input(struct conn *c)
{
    if (c->lingering) {
        conn_abort(c);
        return;
    }
    conn_read(c, false);
    c->input_ended = true;
    judge_answers(c);
    c->protocol->input_end(c);
}

void conn_become(struct conn *c, const struct protocol *p)
{
    c->protocol->closed(c);
    conn_hold(c, 0, 0);
    c->protocol = p;
    p->open(c);
}

static void settle_handshake(struct conn *c)
{
    if (c->secured || !tls_is_ready(c->tls))
        return;
    c->secured = true;
    if (tls_speaks_h2(c->tls))
        conn_become(c, c->set->h2);
}

/* The TLS alert still leaves; application data does not. */
static void fail_tls(struct conn *c)
{
    log_debug("TLS with a client failed: %s", tls_why(c->tls));
    c->out.len = 0;
    conn_read(c, false);
    conn_finish(c);
}

static void input_sealed(struct conn *c, const char *at, size_t len)
{
    char *plain = c->set->plain;
    enum tls_event event = TLS_DATA;
    tls_feed(c->tls, at, len);
    touch(c); /* the handshake may have something to say */
    while (event == TLS_DATA && !c->closing && !c->lingering) {
        size_t n = 0;
        event = tls_read(c->tls, plain, INPUT_SIZE, &n);
        settle_handshake(c);
        if (event == TLS_DATA)
            c->protocol->input(c, plain, n);
        else if (event == TLS_END && !c->input_ended)
            end_input(c);
        else if (event == TLS_FAILED)
            fail_tls(c);
    }
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    struct conn *c = stream->data;
    if (n == 0 || c->closing)
        return;
    if (n == UV_EOF) {
        end_input(c);
        return;
    }
    if (n < 0) {
        c->failed = true;
        conn_abort(c);
        return;
    }
    confirm_answers(c);
    c->read_at = uv_now(c->set->loop);
    c->got += (uint64_t)n;
    if (c->lingering)
        return;
    if (c->tls)
        input_sealed(c, buf->base, (size_t)n);
    else
        c->protocol->input(c, buf->base, (size_t)n);
}

void conn_read(struct conn *c, bool on)
{
    if (c->reading == on || c->closing || c->input_ended)
        return;
    c->reading = on;
    if (!on)
        uv_read_stop(stream_of(c));
    else if (uv_read_start(stream_of(c), on_alloc, on_read) < 0)
        conn_abort(c);
}

void conn_hold(struct conn *c, uint64_t bytes, uint64_t busy)
{
    body_memory_count(&c->set->bodies, &c->bodies, bytes, busy);
}

bool conn_may_read(struct conn *c)
{
    return body_memory_may_read(&c->set->bodies, &c->bodies);
}

enum body_memory_verdict conn_judge(struct conn *c, uint64_t wait_max)
{
    return body_memory_judge(&c->set->bodies, &c->bodies, c->got, c->reading, c->set->tick_ms,
                             wait_max);
}

static struct conn *conn_new(struct conn_set *set, const struct protocol *p)
{
    struct conn *c = ALLOC(struct conn);
    c->set = set;
    c->protocol = p;
    c->tcp.data = c;
    must(uv_tcp_init(set->loop, &c->tcp) == 0);
    if (set->count++ == 0)
        uv_timer_start(&set->tick, on_tick, set->tick_ms, set->tick_ms);
    LIST_INSERT_HEAD(&set->all, c, link);
    c->opened_at = c->moved_at = uv_now(set->loop);
    if (set->tls)
        c->tls = tls_new(set->tls, set->count <= TLS_BUFFERS_MAX);
    p->open(c);
    return c;
}

/* e: of taking its socket. */
static struct conn *begin(struct conn *c, int e)
{
    if (e < 0) {
        conn_abort(c);
        return NULL;
    }
    uv_tcp_nodelay(&c->tcp, 1);
    liveness_watch(&c->tcp, c->set->tcp_user_timeout);
    c->read_at = uv_now(c->set->loop);
    conn_read(c, true);
    return c->closing ? NULL : c;
}

struct conn *conn_accept(struct conn_set *set, uv_stream_t *listener, const struct protocol *p)
{
    struct conn *c = conn_new(set, p);
    return begin(c, uv_accept(listener, stream_of(c)));
}

struct conn *conn_adopt(struct conn_set *set, int fd, const struct protocol *p)
{
    struct conn *c = conn_new(set, p);
    int e = uv_tcp_open(&c->tcp, fd);
    if (e < 0)
        close(fd);
    return begin(c, e);
}

const struct http_peer *conn_peer(struct conn *c)
{
    if (!c->peer)
        c->peer = peer_new(&c->tcp, c->tls);
    return c->peer;
}

struct conn *conn_imagine(struct conn_set *set, const struct protocol *p)
{
    return conn_new(set, p);
}

/* -- what a set shares ------------------------------------------------------ */

static void on_flush(uv_prepare_t *handle)
{
    struct conn_set *set = handle->data;
    /* Whatever becomes dirty meanwhile waits for the next turn, which follows at once. */
    struct conn_queue now = TAILQ_HEAD_INITIALIZER(now);
    TAILQ_CONCAT(&now, &set->dirty, dirty_link);
    struct conn *c;
    while ((c = TAILQ_FIRST(&now))) {
        TAILQ_REMOVE(&now, c, dirty_link);
        c->dirty = false;
        flush(c);
    }
    if (TAILQ_EMPTY(&set->dirty) && TAILQ_EMPTY(&set->wakers) && !set->call_due)
        uv_idle_stop(&set->awake);
    if (set->flushed)
        set->flushed(set->owner);
}

static void on_awake(uv_idle_t *handle)
{
    struct conn_set *set = handle->data;
    struct conn_queue now = TAILQ_HEAD_INITIALIZER(now);
    TAILQ_CONCAT(&now, &set->wakers, wake_link);
    struct conn *c;
    while ((c = TAILQ_FIRST(&now))) {
        TAILQ_REMOVE(&now, c, wake_link);
        c->waking = false;
        if (!c->closing)
            c->protocol->wake(c);
    }
    if (set->call_due) {
        set->call_due = false;
        set->called(set->owner);
    }
}

static void stay_awake(struct conn_set *set)
{
    uv_idle_start(&set->awake, on_awake);
}

/* Closes a connection whose peer does not read: nothing has left for write_timeout. */
static void check_progress(struct conn *c, uint64_t now)
{
    size_t unsent = uv_stream_get_write_queue_size(stream_of(c));
    if (!c->sending.len)
        return;
    if (unsent < c->unsent) {
        c->unsent = unsent;
        c->progress_at = now;
    } else if (now - c->progress_at >= (uint64_t)c->set->write_timeout.ms) {
        log_debug("closing a connection whose peer does not read");
        conn_abort(c);
    }
}

static void tick(struct conn *c, uint64_t now)
{
    bool shaking_hands = c->tls && !c->secured;
    check_progress(c, now);
    bool too_late = (c->lingering && now >= c->linger_until) ||
                    (shaking_hands && now - c->opened_at >= (uint64_t)c->set->handshake_timeout.ms);
    if (!c->reading && liveness_is_over(&c->tcp)) {
        log_debug("closing a connection whose peer has vanished");
        too_late = true;
    }
    if (budget_is_blocked_by(c, now)) {
        log_debug("closing a connection that does not read while others wait for memory");
        too_late = true;
    }
    if (too_late)
        conn_abort(c);
    else if (!shaking_hands && !c->closing && !c->finishing)
        c->protocol->tick(c, now);
}

static void on_tick(uv_timer_t *handle)
{
    struct conn_set *set = handle->data;
    uint64_t now = uv_now(set->loop);
    struct conn *c;
    LIST_FOREACH(c, &set->all, link)
    { /* none leaves the list before its close callback */
        if (!c->closing)
            tick(c, now);
    }
    body_memory_retry(&set->bodies); /* other threads may have made room */
}

static void on_body_room(struct body_memory_share *share)
{
    conn_wake((struct conn *)((char *)share - offsetof(struct conn, bodies)));
}

void conn_set_init(struct conn_set *set, uv_loop_t *loop, void *owner, void (*freed)(void *owner),
                   struct body_memory *bodies)
{
    set->loop = loop;
    set->owner = owner;
    set->freed = freed;
    set->input = alloc_get(INPUT_SIZE);
    set->plain = alloc_get(INPUT_SIZE);
    body_memory_open(&set->bodies, bodies, on_body_room);
    LIST_INIT(&set->all);
    TAILQ_INIT(&set->dirty);
    TAILQ_INIT(&set->wakers);
    set->handles = 3;
    must(uv_prepare_init(loop, &set->flush) == 0);
    must(uv_idle_init(loop, &set->awake) == 0);
    must(uv_timer_init(loop, &set->tick) == 0);
    set->flush.data = set->awake.data = set->tick.data = set;
    uv_prepare_start(&set->flush, on_flush);
    uv_unref((uv_handle_t *)&set->flush);
}

static void on_handle_closed(uv_handle_t *handle)
{
    struct conn_set *set = handle->data;
    set->handles--;
    set->freed(set->owner);
}

void conn_set_call(struct conn_set *set)
{
    if (set->closing)
        return;
    set->call_due = true;
    stay_awake(set);
}

void conn_set_close(struct conn_set *set)
{
    set->closing = true;
    struct conn *c;
    LIST_FOREACH(c, &set->all, link)
    conn_abort(c);
    uv_close((uv_handle_t *)&set->flush, on_handle_closed);
    uv_close((uv_handle_t *)&set->awake, on_handle_closed);
    uv_close((uv_handle_t *)&set->tick, on_handle_closed);
}

void conn_set_fini(struct conn_set *set)
{
    must(set->count == 0 && set->handles == 0);
    while (set->spare_count)
        buf_fini(&set->spares[--set->spare_count]);
    body_memory_close(&set->bodies);
    free(set->input);
    free(set->plain);
}
