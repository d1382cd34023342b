/* SPDX-License-Identifier: Apache-2.0 */
#include "net/budget.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/must.h"
#include "net/conn.h"
#include "net/http.h"

/* A connection that holds no more than this blocks nobody, unless thousands of them hold all. */
#define SMALL ((uint64_t)64 * 1024)
/* What a peer must read in that time while others wait. */
#define PROGRESS ((uint64_t)32 * 1024)
/* Of what is left of the first half, once a half of that is held. */
#define SHARES    64
#define SHARE_MIN ((uint64_t)4 * 1024)
/* How long others wait before a connection is closed for them; and how long that one must have
 * read next to nothing. */
#define PATIENCE_MS 2000
#define IDLE_MS     400

static bool is_shared(const struct budget_pool *p)
{
    return p->first->next != NULL;
}

/* Alone in its pool, a thread need not lock the bus. */
static uint64_t change(const struct budget_pool *p, _Atomic uint64_t *n, uint64_t by)
{
    if (is_shared(p))
        return atomic_fetch_add(n, by) + by;
    uint64_t now = atomic_load_explicit(n, memory_order_relaxed) + by;
    atomic_store_explicit(n, now, memory_order_relaxed);
    return now;
}

static uint64_t held_now(const struct http_budget *b)
{
    return atomic_load_explicit(&b->pool->held, memory_order_relaxed);
}

void budget_init(struct http_budget *b, uint64_t most)
{
    *b = (struct http_budget){.pool = &b->own};
    b->own.most = most;
    b->own.first = b;
    TAILQ_INIT(&b->waiting);
}

void budget_join(struct http_budget *b, struct http_budget *of, void (*room)(void *ctx), void *ctx)
{
    if (b != of) {
        budget_init(b, 0);
        b->pool = of->pool;
        b->next = of->pool->first;
        of->pool->first = b;
    }
    b->room = room;
    b->room_ctx = ctx;
}

void budget_leave(struct http_budget *b)
{
    struct http_budget **at = &b->pool->first;
    while (*at != b)
        at = &(*at)->next;
    *at = b->next;
}

void budget_add(struct http_budget *b, uint64_t bytes)
{
    change(b->pool, &b->pool->held, bytes);
}

/* Something of b waits from now on; or nothing any more. */
static void set_waits(struct http_budget *b, bool waits)
{
    if (atomic_exchange(&b->waits, waits) == waits)
        return;
    if (waits)
        atomic_fetch_add(&b->pool->waiting, 1);
    else
        atomic_fetch_sub(&b->pool->waiting, 1);
}

static void stop_waiting(struct http_budget *b, struct conn *c)
{
    if (!c->wants_room)
        return;
    TAILQ_REMOVE(&b->waiting, c, room_link);
    c->wants_room = false;
}

/* A quarter is free. */
static bool is_roomy(const struct budget_pool *p, uint64_t held)
{
    return held <= p->most - p->most / 4;
}

void budget_retry(struct http_budget *b)
{
    struct conn *c;
    if (!atomic_load(&b->waits) || !is_roomy(b->pool, held_now(b)))
        return;
    set_waits(b, false);
    while ((c = TAILQ_FIRST(&b->waiting))) {
        stop_waiting(b, c);
        conn_wake(c);
    }
}

static void notify_others(const struct http_budget *b)
{
    for (struct http_budget *other = b->pool->first; other; other = other->next)
        if (other != b && atomic_load(&other->waits))
            other->room(other->room_ctx);
}

void budget_release(struct http_budget *b, uint64_t bytes)
{
    struct budget_pool *p = b->pool;
    if (bytes == 0 && !atomic_load_explicit(&p->waiting, memory_order_relaxed))
        return;
    uint64_t held = change(p, &p->held, -bytes);
    must(held + bytes >= held);
    if (held < p->most / 2)
        atomic_store_explicit(&p->full_since, 0, memory_order_relaxed);
    if (!is_roomy(p, held) || !atomic_load(&p->waiting))
        return;
    budget_retry(b);
    if (is_shared(p))
        notify_others(b);
}

void budget_reserve(struct http_budget *b, uint64_t bytes)
{
    change(b->pool, &b->pool->reserved, bytes);
}

void budget_unreserve(struct http_budget *b, uint64_t bytes)
{
    change(b->pool, &b->pool->reserved, -bytes);
}

bool budget_is_exhausted(const struct http_budget *b)
{
    return held_now(b) >= b->pool->most;
}

static void note_full(struct http_budget *b, uint64_t now)
{
    uint64_t none = 0;
    atomic_compare_exchange_strong(&b->pool->full_since, &none, now);
}

static bool is_full(const struct budget_pool *p)
{
    uint64_t reserved = atomic_load(&p->reserved), held = atomic_load(&p->held);
    return held > reserved && held - reserved >= p->most;
}

/* Once more after what waits is known: others release without looking at it before. */
bool budget_is_full(struct http_budget *b, uint64_t now)
{
    if (!is_full(b->pool))
        return false;
    set_waits(b, true);
    note_full(b, now);
    return is_full(b->pool);
}

static uint64_t room_now(const struct http_budget *b)
{
    uint64_t held = atomic_load(&b->pool->held);
    return held < b->pool->most ? b->pool->most - held : 0;
}

uint64_t budget_room(struct http_budget *b, bool waits, uint64_t now)
{
    uint64_t room = room_now(b);
    if (room || !waits)
        return room;
    set_waits(b, true);
    note_full(b, now);
    return room_now(b);
}

uint64_t budget_share(const struct http_budget *b)
{
    uint64_t half = b->pool->most / 2, held = held_now(b);
    if (held <= half / 2)
        return UINT64_MAX;
    uint64_t share = held < half ? (half - held) / SHARES : 0;
    return share > SHARE_MIN ? share : SHARE_MIN;
}

void budget_count(struct conn *c)
{
    struct http_budget *b = c->set->budget;
    uint64_t before = c->counted;
    c->counted = c->out.len + c->wire.len + c->sending.len;
    if (!c->closing && c->state)
        c->counted += c->protocol->held(c);
    if (c->counted > before)
        budget_add(b, c->counted - before);
    else if (c->counted < before)
        budget_release(b, before - c->counted);
}

/* An answer that is larger than the budget needs all of it. */
static bool fits(const struct budget_pool *p, uint64_t bytes)
{
    uint64_t held = atomic_load(&p->held);
    return held == 0 || (held < p->most && bytes <= p->most - held);
}

void budget_wait(struct conn *c)
{
    struct http_budget *b = c->set->budget;
    if (c->closing || c->wants_room)
        return;
    c->wants_room = true;
    TAILQ_INSERT_TAIL(&b->waiting, c, room_link);
    set_waits(b, true);
}

bool budget_has_room(struct conn *c, uint64_t bytes)
{
    struct http_budget *b = c->set->budget;
    if (fits(b->pool, bytes))
        return true;
    if (c->closing || c->wants_room)
        return false;
    budget_wait(c);
    note_full(b, uv_now(c->set->loop));
    if (!is_shared(b->pool) || !fits(b->pool, bytes))
        return false;
    stop_waiting(b, c); /* others made room before they could know that this one waits */
    return true;
}

void budget_forget(struct conn *c)
{
    stop_waiting(c->set->budget, c);
    uint64_t counted = c->counted;
    c->counted = 0;
    budget_release(c->set->budget, counted);
}

bool budget_is_blocked_by(struct conn *c, uint64_t now)
{
    const struct http_budget *b = c->set->budget;
    uint64_t moved = c->left;
    if (c->sending.len)
        moved += c->sending.len - uv_stream_get_write_queue_size((const uv_stream_t *)&c->tcp);
    uint64_t small = budget_is_exhausted(b) ? SHARE_MIN / 2 : SMALL;
    uint64_t full_since = atomic_load_explicit(&b->pool->full_since, memory_order_relaxed);
    uint64_t progress = c->counted <= SMALL ? 1 : PROGRESS;
    if (c->counted <= small || moved - c->moved >= progress) {
        c->moved = moved;
        c->moved_at = now;
    }
    return full_since && now >= full_since + PATIENCE_MS && now - c->moved_at >= IDLE_MS;
}

struct http_budget *http_budget_new(uint64_t bytes)
{
    struct http_budget *b = ALLOC(struct http_budget);
    budget_init(b, bytes);
    return b;
}

void http_budget_free(struct http_budget *budget)
{
    free(budget);
}

uint64_t http_budget_room(struct http_budget *budget, uv_loop_t *loop, bool waits)
{
    return budget_room(budget, waits, uv_now(loop));
}
