/* SPDX-License-Identifier: Apache-2.0 */
#ifndef AMQP_LINK_H
#define AMQP_LINK_H

/* A lasting connection to a RabbitMQ, for a loop: it consumes queues and publishes with confirms.
 * librabbitmq blocks when a peer stalls, so the connection lives on a thread of its own; everything
 * below is called on the loop's thread, and so are the callbacks.
 *
 * The link reconnects by itself, to one address after the other, with a random, growing delay; then
 * it consumes all queues again and repeats every publish that was not confirmed. Hence everything
 * is delivered and published at least once:
 *  - a delivery that was not settled when the connection broke comes again, perhaps while it is
 *    still being worked on; settling the old one has no effect;
 *  - a publish may reach the broker twice.
 *
 * A broker that blocks publishers (an alarm about memory or disk) stops reading from connections
 * that publish, acknowledgements included. Whoever does both uses two links. */

#include <stdint.h>
#include <uv.h>

#include "amqp/amqp_session.h"

struct amqp_link;

/* What a link's thread is to do with its session. */
typedef struct err amqp_task(void *ctx, struct amqp_session *s);

/* Borrowed as long as the link lives. */
struct amqp_link_settings {
    struct amqp_settings connection;
    const char *const *queues; /* consumed */
    size_t queue_count;
    uint16_t prefetch;             /* unsettled deliveries per queue */
    span backoff_min, backoff_max; /* before a new connection */
    /* How often to ask whether messages wait although none are delivered. Two such answers in a row
     * mean that the consumer is dead, however healthy the connection looks. */
    span stall;
    uint64_t seed; /* of the random part of delays */
    /* NULL, or called on the link's thread with each new connection, before anything is consumed or
     * published on it; an error ends the connection, which is then tried again. */
    amqp_task *prepare;
    void *prepare_ctx;
};

struct amqp_delivery {
    size_t queue; /* index into the settings' queues */
    struct str body;
    amqp_table_t headers; /* amqp_headers.h */
    bool redelivered;
    uint8_t priority;
    struct str exchange, routing_key; /* that it was published with */
    const amqp_basic_properties_t *properties;
    /* private: */
    amqp_envelope_t envelope;
    uint32_t epoch;
    struct amqp_delivery *next;
};

/* Copied by amqp_publish. It is published as mandatory, and as persistent unless its properties say
 * otherwise. */
struct amqp_message {
    struct str exchange, routing_key, body;
    /* NULL, or all properties of the message, in the place of the next four members; then its
     * message_id tells it from others with the same routing key. */
    const amqp_basic_properties_t *properties;
    struct str content_type;
    const amqp_table_t *headers; /* or NULL */
    span expiration;             /* the message's time to live; negative: none */
    uint8_t priority;
    uint64_t id;   /* for the callback; also its message_id, "tenax-ID" */
    bool optional; /* not mandatory: nobody needs to be there to get it */
};

enum amqp_settlement {
    AMQP_ACK,
    AMQP_REJECT,  /* dead-lettered, where the queue has an exchange for that; else discarded */
    AMQP_REQUEUE, /* to be delivered again at once */
};

enum amqp_published {
    AMQP_CONFIRMED,
    AMQP_REFUSED,    /* the broker could not store it */
    AMQP_UNROUTABLE, /* no queue is bound for its routing key */
};

/* Any may be NULL but for the callbacks that the use needs. */
struct amqp_link_user {
    /* All queues are being consumed. */
    void (*connected)(void *ctx);
    /* The connection broke, or could not be made: a sentence, without secrets. */
    void (*disconnected)(void *ctx, const char *why);
    /* Whoever gets a delivery must settle it. */
    void (*delivered)(void *ctx, struct amqp_delivery *d);
    void (*published)(void *ctx, uint64_t id, enum amqp_published result);
};

struct amqp_link_stats {
    uint64_t connections;    /* made so far */
    uint64_t stalls;         /* of these ended because a consumer was dead */
    bool connected, blocked; /* blocked: the broker takes no messages for now */
};

/* Starts connecting at once. */
struct amqp_link *amqp_link_new(uv_loop_t *loop, const struct amqp_link_settings *settings,
                                const struct amqp_link_user *user, void *ctx);
/* Closes the connection after what was asked before has been written, but waits for no confirm; no
 * callback follows. Frees the link once the loop has turned. Unsettled deliveries must have been
 * settled or freed by amqp_delivery_free. */
void amqp_link_close(struct amqp_link *l);
/* Settles the delivery and frees it. */
void amqp_settle(struct amqp_link *l, struct amqp_delivery *d, enum amqp_settlement how);
/* Frees a delivery unsettled: it comes again once the connection ends. */
void amqp_delivery_free(struct amqp_delivery *d);
/* Keeps the message until the broker has confirmed or refused it. The caller limits how many of
 * them are on their way. */
void amqp_publish(struct amqp_link *l, const struct amqp_message *m);
/* Has the link's thread do something with its session, between what was asked before and after; an
 * error ends the connection. Not done at all if there is none. */
void amqp_link_do(struct amqp_link *l, amqp_task *task, void *ctx);
/* Consumes no longer, on this connection and later ones. What is on its way is still delivered. */
void amqp_link_quiet(struct amqp_link *l);
struct amqp_link_stats amqp_link_stats(const struct amqp_link *l);

#endif
