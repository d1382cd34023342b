/* SPDX-License-Identifier: Apache-2.0 */
#include "net/budget.h"

#include "base/must.h"
#include "net/conn.h"

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

void budget_init(struct http_budget *b, uint64_t most)
{
    *b = (struct http_budget){.most = most};
    TAILQ_INIT(&b->waiting);
}

void budget_add(struct http_budget *b, uint64_t bytes)
{
    b->held += bytes;
}

static void stop_waiting(struct http_budget *b, struct conn *c)
{
    if (!c->wants_room)
        return;
    TAILQ_REMOVE(&b->waiting, c, room_link);
    c->wants_room = false;
}

void budget_release(struct http_budget *b, uint64_t bytes)
{
    must(bytes <= b->held);
    b->held -= bytes;
    if (b->held < b->most / 2)
        b->full_since = 0;
    struct conn *c;
    while (b->held <= b->most - b->most / 4 && (c = TAILQ_FIRST(&b->waiting))) {
        stop_waiting(b, c);
        conn_wake(c);
    }
}

uint64_t budget_share(const struct http_budget *b)
{
    uint64_t half = b->most / 2;
    if (b->held <= half / 2)
        return UINT64_MAX;
    uint64_t share = b->held < half ? (half - b->held) / SHARES : 0;
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

bool budget_has_room(struct conn *c, uint64_t bytes)
{
    struct http_budget *b = c->set->budget;
    /* An answer that is larger than the budget needs all of it. */
    if (b->held == 0 || (b->held < b->most && bytes <= b->most - b->held))
        return true;
    if (c->closing || c->wants_room)
        return false;
    c->wants_room = true;
    TAILQ_INSERT_TAIL(&b->waiting, c, room_link);
    if (!b->full_since)
        b->full_since = uv_now(c->set->loop);
    return false;
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
    uint64_t small = b->held >= b->most ? SHARE_MIN / 2 : SMALL;
    uint64_t progress = c->counted <= SMALL ? 1 : PROGRESS;
    if (c->counted <= small || moved - c->moved >= progress) {
        c->moved = moved;
        c->moved_at = now;
    }
    return b->full_since && now - b->full_since >= PATIENCE_MS && now - c->moved_at >= IDLE_MS;
}
