/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUILDS_BUILD_TOPOLOGY_H
#define BUILDS_BUILD_TOPOLOGY_H

/* The exchange and the queues of builds at RabbitMQ (seed 000, with exactly its arguments):
 *
 *   QUEUE         start, stop and clear; rejected messages go to QUEUEdlr
 *   QUEUEdlr      holds them for a while, then gives them back to QUEUE
 *   RETRY         verify messages that are due; it must have no time to live
 *   RETRY-wait-N  holds those that wait for N milliseconds, with --wait-queues
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

/* Wait queues of one delay each (--wait-queues): RETRY-wait-MILLISECONDS. Each vanishes when it has
 * not been declared for a while. */
#define BUILD_WAIT_MAX_MS               (INT64_C(20) * 24 * 3600 * 1000)
#define BUILD_WAIT_EXPIRES_MS(delay_ms) (2 * (delay_ms) + INT64_C(3600) * 1000)

#define BUILD_WAITS_MAX 32

struct build_topology {
    /* Those above, and with --wait-queues the ones of usual delays. */
    struct amqp_queue queues[BUILD_QUEUE_COUNT + BUILD_WAITS_MAX];
    struct amqp_topology topology; /* of these */
};

/* Names live in the memory of the settings. */
void build_topology_make(struct build_topology *t, struct build_settings *s);

/* The wait queue of that delay, at most BUILD_WAIT_MAX_MS; the same for its names. */
void build_topology_wait(struct build_settings *s, int64_t delay_ms, struct amqp_queue *out);

/* As RabbitMQ's own tools import it: {"exchanges", "queues", "bindings"}. */
void build_topology_write(const struct build_topology *t, const char *vhost, struct buf *b);

#endif
