/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUILDS_BUILD_BROKER_H
#define BUILDS_BUILD_BROKER_H

/* Where the messages of builds come from, and where verify messages go: RabbitMQ
 * (build_rabbitmq.h), or a queue of a Tenax server (build_tenax.h). All on the loop's thread.
 *
 * Everything is delivered at least once. A delivery must be settled by exactly one of ack, retry
 * and then, at any later time; it is freed by that. After a broken connection settling it has no
 * effect, and the message comes again. */

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"
#include "base/units.h"

enum build_channel {
    BUILD_CHANNEL_MAIN,  /* start, stop, clear */
    BUILD_CHANNEL_READY, /* verify messages that are due */
};

struct build_delivery {
    enum build_channel channel;
    struct str body;
    uint32_t failures; /* how often it has failed before; see retry */
    bool redelivered;  /* it may have been worked on before, in part, by whomever */
    uint32_t looks;    /* x-retry-count: how often the pod was looked at before */
    instant started;   /* x-build-start-time: when the build was; none: unknown */
};

/* A message that a build's pod is to be verified. */
struct build_order {
    struct str config; /* its buildConfig, JSON */
    instant started;
    uint32_t looks;
    span after; /* 0: at once */
};

struct build_broker_user {
    void (*delivered)(void *ctx, struct build_delivery *d);
    /* A message has failed too often (retry), or can never be worked on: it will not come again.
     * Its build must end, and then it must be acknowledged. */
    void (*exhausted)(void *ctx, struct build_delivery *d, const char *why);
    /* The broker is such that the worker must not run, for a reason that only people can change;
     * it consumes nothing, and tries again until it is closed. Called at most once. */
    void (*refused)(void *ctx, const char *why);
};

struct build_broker_state {
    /* Messages would arrive now, and orders be taken: false also while one of these is published
     * again, because the broker refused it or no queue is there for it. */
    bool consuming;
    bool blocked;         /* the broker takes no orders for now, for want of memory or disk */
    uint64_t unsettled;   /* deliveries */
    uint64_t unconfirmed; /* orders */
    uint64_t connections; /* made so far */
};

struct build_broker;
typedef void build_broker_published(void *ctx);

struct build_broker_ops {
    /* The message is done with. */
    void (*ack)(struct build_broker *b, struct build_delivery *d);
    /* It could not be worked on: it comes again after a while, with one failure more; or, if that
     * was too often, it is given to exhausted(), never before this call has returned. */
    void (*retry)(struct build_broker *b, struct build_delivery *d, const char *why);
    /* Publishes the order, and acknowledges the delivery once that is confirmed. */
    void (*then)(struct build_broker *b, struct build_delivery *d, const struct build_order *o);
    /* Publishes an order; done is called once it is confirmed, never before this call has
     * returned. What the broker does not take is published again until it does. */
    void (*publish)(struct build_broker *b, const struct build_order *o,
                    build_broker_published *done, void *ctx);
    struct build_broker_state (*state)(const struct build_broker *b);
    /* Takes no more deliveries; those that were given may still be settled. */
    void (*quiet)(struct build_broker *b);
    /* Ends it: nothing is called back any more, and unsettled deliveries come again to whoever
     * consumes next. Freed once the loop has turned. */
    void (*close)(struct build_broker *b);
};

/* Embedded first in each broker. */
struct build_broker {
    const struct build_broker_ops *ops;
    struct build_broker_user user;
    void *ctx;
};

#endif
