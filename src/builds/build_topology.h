/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUILDS_BUILD_TOPOLOGY_H
#define BUILDS_BUILD_TOPOLOGY_H

/* The exchange and the queues of builds at RabbitMQ (seed 000, with exactly its arguments):
 *
 *   QUEUE         start, stop and clear; rejected messages go to QUEUEdlr
 *   QUEUEdlr      holds them for a while, then gives them back to QUEUE
 *   RETRY         verify messages that are due; it must have no time to live
 *   RETRY-wait    holds them for the time that each message says, then gives them to RETRY
 *   default       what is published for it */

#include "amqp/amqp_topology.h"
#include "builds/build_settings.h"

enum build_queue {
    BUILD_QUEUE_MAIN,
    BUILD_QUEUE_DLR,
    BUILD_QUEUE_READY,
    BUILD_QUEUE_WAIT,
    BUILD_QUEUE_DEFAULT,
    BUILD_QUEUE_COUNT
};

struct build_topology {
    struct amqp_queue queues[BUILD_QUEUE_COUNT];
    struct amqp_topology topology; /* of these */
};

/* Names live in the memory of the settings. */
void build_topology_make(struct build_topology *t, struct build_settings *s);

/* As RabbitMQ's own tools import it: {"exchanges", "queues", "bindings"}. */
void build_topology_write(const struct build_topology *t, const char *vhost, struct buf *b);

#endif
