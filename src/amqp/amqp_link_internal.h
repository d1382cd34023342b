/* SPDX-License-Identifier: Apache-2.0 */
#ifndef AMQP_LINK_INTERNAL_H
#define AMQP_LINK_INTERNAL_H

/* What the two sides of a link share. amqp_link.c is the loop's side: it queues orders and takes
 * notices. amqp_link_thread.c is the thread's: it owns the session, and everything behind
 * `thread's` below. Only the queues between them, behind `lock`, are touched by both. */

#include "amqp/amqp_link.h"
#include "base/rng.h"

enum order_kind { ORDER_PUBLISH, ORDER_SETTLE, ORDER_DO, ORDER_QUIET };

/* From the loop to the thread. */
struct amqp_order {
    struct amqp_order *next;
    enum order_kind kind;
    /* ORDER_SETTLE: */
    size_t queue;
    uint64_t tag;
    uint32_t epoch;
    enum amqp_settlement how;
    /* ORDER_PUBLISH; the texts and headers are in the pool: */
    amqp_pool_t pool;
    struct str exchange, routing_key, body;
    amqp_basic_properties_t properties;
    uint64_t id;
    uint64_t sequence; /* of the publish on its connection, from 1 */
    bool optional, done, unroutable, refused;
    /* ORDER_DO: */
    amqp_task *task;
    void *ctx;
};

enum notice_kind { NOTICE_UP, NOTICE_DOWN, NOTICE_DELIVERED, NOTICE_PUBLISHED };

/* From the thread to the loop. */
struct amqp_notice {
    struct amqp_notice *next;
    enum notice_kind kind;
    struct amqp_delivery *delivery;
    uint64_t id;
    enum amqp_published result;
    char why[256];
};

struct amqp_orders {
    struct amqp_order *first, **last;
};

/* The consumer of one queue. */
struct amqp_consumer {
    bool live;
    uint16_t unsettled;
    bool heard;   /* something was delivered since the last check */
    bool suspect; /* the last check found that messages wait */
};

struct amqp_link {
    const struct amqp_link_settings *settings;
    /* The loop's. */
    const struct amqp_link_user *user;
    void *ctx;
    uv_async_t wake_loop;
    bool closing;
    /* Shared. */
    uv_mutex_t lock;
    struct amqp_orders orders;
    struct amqp_notice *notices, **notices_last;
    struct amqp_link_stats stats;
    bool stop;
    bool quiet;      /* consumes no longer */
    int socket;      /* -1: none; only to be shut down */
    int wake_thread; /* an eventfd */
    /* The thread's. */
    uv_thread_t thread;
    struct amqp_session session;
    uint32_t epoch;                 /* of the session, from 1 */
    struct amqp_orders unconfirmed; /* publishes, in the order of their sequence */
    uint64_t sequence;
    unsigned failures;               /* to connect, in a row */
    size_t address;                  /* to connect to next */
    uint64_t stall_check;            /* uv_hrtime of the last one */
    struct amqp_consumer *consumers; /* of each queue */
    struct rng rng;
};

/* The thread. */
void amqp_link_thread(void *link);
void amqp_order_free(struct amqp_order *o);
/* Appends a notice and wakes the loop. */
void amqp_link_tell(struct amqp_link *l, struct amqp_notice *n);

static inline void amqp_orders_init(struct amqp_orders *list)
{
    list->first = NULL;
    list->last = &list->first;
}

static inline void amqp_orders_append(struct amqp_orders *list, struct amqp_order *o)
{
    o->next = NULL;
    *list->last = o;
    list->last = &o->next;
}

static inline struct amqp_order *amqp_orders_shift(struct amqp_orders *list)
{
    struct amqp_order *o = list->first;
    list->first = o->next;
    if (!list->first)
        list->last = &list->first;
    return o;
}

#endif
