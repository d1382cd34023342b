/* SPDX-License-Identifier: Apache-2.0 */
#ifndef NET_BUDGET_H
#define NET_BUDGET_H

/* Limits the memory of answers that clients have asked for and not read yet, over all connections
 * of the listeners that share it. It counts the bytes that a connection has not sent, answers in
 * the making whose size is known, and the bounds of those whose size is not. Beyond the limit
 * requests wait before they are served, and streams before they are written to; so one answer of
 * unknown size at most exceeds it.
 *
 * Loops on several threads share one limit: each has a budget of its own, whose connections wait on
 * its thread, and all count in one pool. */

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

struct conn;
TAILQ_HEAD(budget_queue, conn);

/* What has a meaning for all threads. */
struct budget_pool {
    uint64_t most; /* bytes */
    _Atomic uint64_t held;
    _Atomic uint64_t reserved;   /* of those: for requests that another thread is to serve */
    _Atomic uint64_t full_since; /* loop time since when some wait; 0: there is room */
    _Atomic uint32_t waiting;    /* budgets for which something waits */
    struct http_budget *first;   /* of all that count in it; fixed before they are used */
};

struct http_budget {
    struct budget_pool *pool; /* its own, or that of the budget it shares with */
    struct budget_pool own;
    struct budget_queue waiting; /* conn.room_link, the first has waited longest */
    _Atomic bool waits;          /* pool.waiting counts it */
    void (*room)(void *ctx);     /* there may be room again; called on any thread. NULL: alone */
    void *room_ctx;
    struct http_budget *next; /* in the pool */
};

void budget_init(struct http_budget *b, uint64_t most);
/* Counts with `of`. When others make room while something of b waits, room(ctx) is called, on their
 * thread: it must have budget_retry called on that of b. Before the threads begin. */
void budget_join(struct http_budget *b, struct http_budget *of, void (*room)(void *ctx), void *ctx);
/* Wakes the connections that wait if there is room now. */
void budget_retry(struct http_budget *b);
/* Leaves the pool, once the threads have ended. */
void budget_leave(struct http_budget *b);
/* Counts bytes that are held from now on. */
void budget_add(struct http_budget *b, uint64_t bytes);
/* Once a quarter is free, wakes the connections that wait (conn_wake); they ask again. */
void budget_release(struct http_budget *b, uint64_t bytes);

/* Says that so many of the bytes held are for a request that another thread is to serve, or are no
 * longer: they do not count for budget_is_full. */
void budget_reserve(struct http_budget *b, uint64_t bytes);
void budget_unreserve(struct http_budget *b, uint64_t bytes);
/* Answers that are made, and nothing else, hold everything. If so, room() will be called. now: the
 * loop's time. */
bool budget_is_full(struct http_budget *b, uint64_t now);
/* Everything is held, whatever it is for. */
bool budget_is_exhausted(const struct http_budget *b);

/* How many bytes are free. waits: something of b that is no connection would have them; if there
 * are none it keeps others from being read no longer than a connection would, and room() will be
 * called. now: the loop's time. */
uint64_t budget_room(struct http_budget *b, bool waits, uint64_t now);

/* How much a connection should leave unread at most: the less, the more is held already, so that
 * thousands that do not read leave half of it to those that do. */
uint64_t budget_share(const struct http_budget *b);

/* Counts what the connection holds now. */
void budget_count(struct conn *c);
/* Whether there is room for so much more; else the connection's protocol->wake is called when
 * there may be. */
bool budget_has_room(struct conn *c, uint64_t bytes);
/* Has protocol->wake called when there may be room, though it is not the budget that has none. */
void budget_wait(struct conn *c);
/* The connection is gone. */
void budget_forget(struct conn *c);
/* Whether others have waited for room for a while, and this connection has read next to nothing of
 * what it holds in all that time. Called a few times a second. */
bool budget_is_blocked_by(struct conn *c, uint64_t now);

#endif
