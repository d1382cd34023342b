/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUILDS_BUILD_RABBITMQ_H
#define BUILDS_BUILD_RABBITMQ_H

/* The broker of builds that RabbitMQ is (build_broker.h), over two connections: one consumes, one
 * publishes, since a RabbitMQ for want of memory stops reading from those that publish.
 *
 * How it maps:
 *  - failures of a message of the main queue are its rejections there, which the broker counts in
 *    its x-death; retry rejects it, and it comes back over QUEUEdlr.
 *  - the ready queue has no dead letters, rejecting would lose the message: retry publishes it
 *    again, with its x-error-count one higher and everything else as it was, and acknowledges it
 *    when that is confirmed. Rejections there by other workers count as failures, too.
 *  - a message that has failed rabbitmq.messageReprocessLimit times before is exhausted by one
 *    more failure.
 *  - orders go to RETRY-wait with their delay as expiration; with --wait-queues to
 *    RETRY-wait-DELAY, which is made as it is needed (build_rabbitmq_waits.c); where there is no
 *    RETRY-wait but a RETRYdlr, to that; without a delay straight to the ready queue. With
 * verification.mode `timer` there is no wait queue: delays are kept in this process, and the
 * delivery stays unacknowledged until it is over.
 *  - without rabbitmq.retryQueueEnabled builds are not verified: orders count as published.
 *  - an order that is refused, or that no queue takes, is published again after a growing delay
 *    until it is confirmed; only then is its delivery acknowledged, so that a missing wait queue
 *    stops the worker rather than losing builds.
 *
 * With each connection that consumes, the exchange and queues are looked for; while one is missing
 * nothing is consumed, and the connection is made again and again. `refused` is called if the
 * ready queue has a time to live that is shorter than a verification may take, and
 * rabbitmq.readyTtlAllowed is not set. A time to live by a
 * policy of the broker cannot be seen from here. */

#include <uv.h>

#include "builds/build_broker.h"
#include "builds/build_settings.h"

/* Starts connecting at once. ERR_USAGE names a setting that is wrong. The settings must outlive the
 * broker; user is copied, and its `exhausted` and `refused` may be NULL in programs that only
 * publish. */
NODISCARD struct err build_rabbitmq_new(uv_loop_t *loop, struct build_settings *settings,
                                        const struct build_broker_user *user, void *ctx,
                                        struct build_broker **out);

#endif
