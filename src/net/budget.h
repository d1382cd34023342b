/* SPDX-License-Identifier: Apache-2.0 */
#ifndef NET_BUDGET_H
#define NET_BUDGET_H

/* Limits the memory of answers that clients have asked for and not read yet, over all connections
 * of the listeners that share it. It counts the bytes that a connection has not sent, answers in
 * the making whose size is known, and the bounds of those whose size is not. Beyond the limit
 * requests wait before they are served, and streams before they are written to; so one answer of
 * unknown size at most exceeds it. Loop thread only. */

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

struct conn;
TAILQ_HEAD(budget_queue, conn);

struct http_budget {
    uint64_t most; /* bytes */
    uint64_t held;
    struct budget_queue waiting; /* conn.room_link, the first has waited longest */
    uint64_t full_since;         /* loop time since when some wait; 0: there is room */
};

void budget_init(struct http_budget *b, uint64_t most);
/* Counts bytes that are held from now on. */
void budget_add(struct http_budget *b, uint64_t bytes);
/* Once a quarter is free, wakes the connections that wait (conn_wake); they ask again. */
void budget_release(struct http_budget *b, uint64_t bytes);

/* How much a connection should leave unread at most: the less, the more is held already, so that
 * thousands that do not read leave half of it to those that do. */
uint64_t budget_share(const struct http_budget *b);

/* Counts what the connection holds now. */
void budget_count(struct conn *c);
/* Whether there is room for so much more; else the connection's protocol->wake is called when
 * there may be. */
bool budget_has_room(struct conn *c, uint64_t bytes);
/* The connection is gone. */
void budget_forget(struct conn *c);
/* Whether others have waited for room for a while, and this connection has read next to nothing of
 * what it holds in all that time. Called a few times a second. */
bool budget_is_blocked_by(struct conn *c, uint64_t now);

#endif
