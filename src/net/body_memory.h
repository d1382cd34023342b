/* SPDX-License-Identifier: Apache-2.0 */
#ifndef NET_BODY_MEMORY_H
#define NET_BODY_MEMORY_H

/* Limits the memory of requests that have not arrived in full or wait for their turn, over all
 * connections of the listeners that share it. It counts what connections really hold: bodies as far
 * as they have come, heads, input that was put aside. When three quarters of it are held, large
 * requests are no longer read, which makes their clients wait; the rest is for small ones. When all
 * of it is, only connections that hold next to nothing are read.
 *
 * Progress: as long as half-sent requests hold most of that memory, one of the connections that
 * wait is read on, on each thread: that which has waited longest. One that waits for too long, or
 * that sends next to nothing while others wait, is refused by its protocol, which frees what it
 * holds. So no more than the largest request of each thread exceeds the limit, and what one read of
 * each connection takes.
 *
 * Each thread (each server) has an account, which it alone changes, so that no lock and no atomic
 * operation that others feel is needed; their sum is read by all. */

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "base/err.h"

/* What a connection may hold in any case, and while not everything is held. */
#define BODY_MEMORY_TINY  ((uint64_t)16 * 1024)
#define BODY_MEMORY_SMALL ((uint64_t)256 * 1024)
/* What a connection must send while others wait, and in which time. */
#define BODY_MEMORY_PROGRESS    ((uint64_t)32 * 1024)
#define BODY_MEMORY_PATIENCE_MS 5000
/* Who has sent that much may wait anew. */
#define BODY_MEMORY_ADVANCE ((uint64_t)4 * 1024 * 1024)

struct body_memory;

/* Of a connection. */
struct body_memory_share {
    TAILQ_ENTRY(body_memory_share) link;
    uint64_t held;
    uint64_t busy;   /* of it, what waits for the server and not for the peer */
    uint64_t marked; /* bytes received when it last sent as much as it must */
    uint64_t began;  /* bytes received when waited_ms began to count */
    uint64_t idle_ms, waited_ms;
    bool waits; /* in account->waiting */
    bool grows; /* then: for body_memory_may_grow */
    bool aged;  /* it has waited before for the same request */
};

TAILQ_HEAD(body_memory_queue, body_memory_share);

struct body_memory_account {
    struct body_memory *memory;
    struct body_memory_slot *slot;
    struct body_memory_queue waiting;    /* the first has waited longest */
    struct body_memory_share *preferred; /* read on though there is no room; NULL: none */
    /* It may be read on, or had better ask again. */
    void (*wake)(struct body_memory_share *share);
};

struct body_memory *body_memory_new(uint64_t most);
/* NULL is allowed. All accounts are closed. */
void body_memory_free(struct body_memory *m);
/* Bytes held now; any thread. */
uint64_t body_memory_held(const struct body_memory *m);
/* Connections wait, so that reads should be small; any thread. */
bool body_memory_is_short(const struct body_memory *m);

/* Any thread. */
void body_memory_open(struct body_memory_account *a, struct body_memory *m,
                      void (*wake)(struct body_memory_share *share));
/* Nothing is held any more. */
void body_memory_close(struct body_memory_account *a);

/* The connection holds that much now. Wakes others when that made room. */
void body_memory_count(struct body_memory_account *a, struct body_memory_share *share,
                       uint64_t held, uint64_t busy);
/* Whether the connection may be read on, and whether its large body may be sent on. If not, it is
 * woken when that may have changed. */
bool body_memory_may_read(struct body_memory_account *a, struct body_memory_share *share);
bool body_memory_may_grow(struct body_memory_account *a, struct body_memory_share *share);
/* The connection is gone. */
void body_memory_forget(struct body_memory_account *a, struct body_memory_share *share);
/* Counts bytes that are no connection's: of requests that were handed on. */
void body_memory_add(struct body_memory_account *a, uint64_t bytes);
void body_memory_release(struct body_memory_account *a, uint64_t bytes);
/* Wakes connections if there is room now, which other threads may have made. */
void body_memory_retry(struct body_memory_account *a);

enum body_memory_verdict {
    BODY_MEMORY_FINE,
    BODY_MEMORY_WAITED, /* in all as long as it may wait */
    BODY_MEMORY_SLOW,   /* others wait, and it sends next to nothing of what it has begun */
};

/* Called every `ms`. received: bytes in all; reading: the connection is read, so that its peer is
 * to blame for a pause. */
enum body_memory_verdict body_memory_judge(const struct body_memory_account *a,
                                           struct body_memory_share *share, uint64_t received,
                                           bool reading, uint64_t ms, uint64_t wait_max);
/* What its client is told. */
struct err body_memory_error(enum body_memory_verdict verdict);

#endif
