/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUILDS_BUILD_RABBITMQ_INTERNAL_H
#define BUILDS_BUILD_RABBITMQ_INTERNAL_H

/* What the parts of build_rabbitmq share: the broker and its deliveries (build_rabbitmq.c), orders
 * (build_rabbitmq_orders.c), what is asked of the broker on the links' threads
 * (build_rabbitmq_check.c). */

#include <stdatomic.h>

#include "amqp/amqp_link.h"
#include "base/list.h"
#include "base/rng.h"
#include "builds/build_connect.h"
#include "builds/build_rabbitmq.h"
#include "builds/build_topology.h"

#define RABBITMQ_WAITS_MAX 64

/* A message that was delivered and is not settled. */
struct rabbitmq_delivery {
    struct build_delivery shown; /* what the user has of it */
    struct list node;            /* in deliveries */
    struct list spent_node;      /* in spent, while it is to be told as exhausted */
    struct amqp_delivery *from;
    char *why;  /* while it is in spent */
    bool stale; /* its connection is gone: it comes again */
};

/* What is to be published. */
struct rabbitmq_order {
    struct list node; /* in sent, waiting or due */
    uint64_t id;      /* of the last publish */
    char *body;
    size_t body_len;
    instant started;
    uint32_t looks, errors;
    uint8_t priority;
    span after;                         /* at the broker */
    struct rabbitmq_delivery *delivery; /* acknowledged once it is confirmed; or NULL */
    build_broker_published *done;       /* then called; or NULL */
    void *ctx;
    mono due;       /* in waiting: when it is published */
    unsigned tries; /* that failed */
    bool nowhere;   /* is not published at all */
};

/* A queue for orders of one delay. */
struct rabbitmq_wait {
    struct rabbitmq *broker;
    int64_t delay_ms;
    struct amqp_queue queue;
    /* The loop's: */
    mono made, used; /* when that was last asked for; when an order last went there */
};

struct rabbitmq {
    struct build_broker broker;
    struct build_settings *settings;
    uv_loop_t *loop;
    struct rng rng;
    struct build_connect connect;
    struct build_topology topology;
    const char *queues[2]; /* consumed, by enum build_channel */
    struct amqp_link_settings in_settings, out_settings;
    struct amqp_link *in, *out; /* what consumes, what publishes */
    uv_timer_t timer;           /* for waiting, spent and waits */
    struct list deliveries;
    struct list spent;   /* of these, those that are to be told as exhausted */
    struct list sent;    /* orders on their way, by id */
    struct list waiting; /* orders that are published later */
    struct list due;     /* orders that are published in this turn */
    uint64_t order_id;
    uint64_t unsettled, unconfirmed;
    uint64_t troubled; /* orders that were refused, or that no queue took, until confirmed */
    bool verified;     /* there is a ready queue */
    bool timers;       /* and no wait queue */
    bool consuming, publishing, quiet, refusal_told;
    char said[2][256];   /* why the links were not connected, as last logged */
    atomic_bool unfit;   /* the last connection found a ready queue with too short a time to live */
    atomic_bool use_dlr; /* and no RETRY-wait, but a RETRYdlr to wait in */
    /* Appended by the loop, read by the links' threads. */
    struct rabbitmq_wait *waits[RABBITMQ_WAITS_MAX];
    atomic_size_t wait_count;
};

/* --- build_rabbitmq.c --- */
/* Settles and frees a delivery. */
void rabbitmq_settle(struct rabbitmq *r, struct rabbitmq_delivery *d, enum amqp_settlement how);
/* Sees to it that the timer fires no later. */
void rabbitmq_wake(struct rabbitmq *r, mono when);

/* --- build_rabbitmq_orders.c --- */
/* A new order with a copy of the body; the caller fills in the rest, then places it. */
struct rabbitmq_order *rabbitmq_order_new(struct str body);
/* Publishes it, now or after a delay that is kept here. */
void rabbitmq_order_place(struct rabbitmq *r, struct rabbitmq_order *o);
/* The broker's answer to the publish of that id. */
void rabbitmq_order_answered(struct rabbitmq *r, uint64_t id, enum amqp_published result);
/* Publishes those of waiting that are due. */
void rabbitmq_orders_turn(struct rabbitmq *r, mono now);
/* Forgets orders whose delivery is stale: the message comes again, and so would they. */
void rabbitmq_orders_drop_stale(struct rabbitmq *r);
void rabbitmq_orders_free(struct rabbitmq *r);

/* --- build_rabbitmq_check.c, on the links' threads --- */
/* Whether what is consumed and published to is there and as it should be. */
NODISCARD struct err rabbitmq_check(void *rabbitmq, struct amqp_session *s);

/* --- build_rabbitmq_waits.c --- */
/* The name of the queue where messages of this delay wait, made if it has to be. */
const char *rabbitmq_wait_name(struct rabbitmq *r, span delay);
/* No queue was there: the next order makes it again. */
void rabbitmq_wait_forget(struct rabbitmq *r, span delay);
/* Keeps the queues in use from expiring. */
void rabbitmq_waits_turn(struct rabbitmq *r, mono now);
/* On the links' threads: makes all of them. */
NODISCARD struct err rabbitmq_waits_make(void *rabbitmq, struct amqp_session *s);
void rabbitmq_waits_free(struct rabbitmq *r);

#endif
