/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUILDS_BUILD_TOPOLOGY_H
#define BUILDS_BUILD_TOPOLOGY_H

/* The exchange and the queues of builds at RabbitMQ (seed 000, with exactly its arguments):
 *
 *   QUEUE         start, stop and clear; rejected messages go to QUEUEdlr
 *   QUEUEdlr      holds them for a while, then gives them back to QUEUE
 *   RETRY         verify messages that are due; it must keep them for as long as they may wait
 *   RETRY-wait-N  holds those that wait for N milliseconds, with --wait-queues
 *   RETRY-wait    holds them for the time that each message says, then gives them to RETRY
 *   default       what is published for it
 *
 * Screwdriver's guide for administrators has RETRYdlr instead of RETRY-wait: rejected verify
 * messages wait there for a minute. Where that is what there is, ours wait in it, too. */

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
    struct amqp_queue retry_dlr;   /* RETRYdlr, with what it needs to serve as RETRY-wait */
};

/* Names live in the memory of the settings. */
void build_topology_make(struct build_topology *t, struct build_settings *s);

/* The wait queue of that delay, at most BUILD_WAIT_MAX_MS; the same for its names. */
void build_topology_wait(struct build_settings *s, int64_t delay_ms, struct amqp_queue *out);

/* How long the ready queue must keep a message at least, in milliseconds: as long as a verification
 * may take, by its looks or by its time without a node. */
int64_t build_topology_ready_ms(const struct build_settings *s);

/* Whether a difference keeps the worker from working or loses messages; has_dlr: RETRYdlr exists.
 */
bool build_topology_matters(const struct build_topology *t, const struct build_settings *s,
                            const struct amqp_difference *d, bool has_dlr);

/* As RabbitMQ's own tools import it: {"exchanges", "queues", "bindings"}. */
void build_topology_write(const struct build_topology *t, const char *vhost, struct buf *b);

#endif
