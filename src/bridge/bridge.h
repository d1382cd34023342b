/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BRIDGE_BRIDGE_H
#define BRIDGE_BRIDGE_H

/* A bridge between RabbitMQ and Tenax: messages of a queue become jobs, jobs of a queue become
 * messages, and events are published to exchanges; any of these at the same time. One loop; each
 * direction has a connection to RabbitMQ of its own, for a broker that takes no messages still has
 * its own to be taken.
 *
 * Everything arrives at least once:
 *  - a message is acknowledged when the server has stored its job;
 *  - a job succeeds when RabbitMQ has confirmed its message;
 *  - the number of the newest event that was confirmed, with all before it, is kept on disk. */

#include "amqp/amqp_session.h"
#include "bridge/bridge_message.h"
#include "client/call.h"

struct bridge_settings {
    const char *server; /* its URL, without a slash at the end */
    struct call_tls tls;
    struct amqp_settings amqp;
    const char *name;         /* of this bridge, as a worker, the same after a restart */
    const char *state_dir;    /* where the place in the events is kept */
    const char *metrics_host; /* for GET /metrics and /health */
    int64_t metrics_port;     /* negative: nowhere */
    int64_t prefetch;         /* messages, or jobs, that are under way at the same time */
    bool declare;             /* makes the queues and exchanges that RabbitMQ does not have */

    /* From RabbitMQ. */
    const char *from_rabbitmq; /* NULL: nothing */
    struct bridge_intake intake;
    bool dead_letter; /* what cannot be a job is rejected; otherwise it is held */

    /* To RabbitMQ. */
    const char *from;        /* a queue of Tenax; NULL: nothing */
    const char *to_rabbitmq; /* a queue of RabbitMQ to be declared, or NULL */
    struct bridge_outlet outlet;
    span lease;

    /* Events. */
    bool events;
    const char *events_exchange;        /* NULL: only Taskcluster's messages */
    bool taskcluster;                   /* its messages, to its exchanges */
    const char *queues, *types, *kinds; /* only those, "a,b"; NULL: all */
    /* Where to begin if nothing was published yet; NULL: with the next event. */
    const struct event_cursor *since;
};

/* Runs until a signal, or until no further try would mend what is wrong, which is logged. Returns
 * an exit code of client/subcommand.h. */
int bridge_run(const struct bridge_settings *settings);

#endif
