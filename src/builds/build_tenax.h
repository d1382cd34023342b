/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUILDS_BUILD_TENAX_H
#define BUILDS_BUILD_TENAX_H

/* The broker of builds that a Tenax server is (build_broker.h): messages are jobs of the queues
 * rabbitmq.queue and rabbitmq.retryQueue, of any type, with the message as payload.
 *
 * How it maps:
 *  - jobs are claimed, up to the prefetch of each queue, and their leases renewed until they are
 *    settled. A lease that is lost (404, 409) makes the delivery stale: settling it has no effect,
 *    the job comes again. A worker that is closed gives its jobs back; one that is killed loses
 *    them by their leases, which counts as a failure.
 *  - ack is a success. Failures are the job's attempts. retry reports a failure with the reason:
 *    the job's retry policies, or its retry_limit and backoff, decide when it comes again. If they
 *    say that it is dead, it is exhausted.
 *  - an order is a job of the ready queue whose ready_at is its delay from now, exact to
 *    milliseconds. Its payload has `looks` and `started` beside `job` and `buildConfig`, its
 *    retry_limit is rabbitmq.messageReprocessLimit, its backoff the delay of verification. It has a
 *    unique key, so that repeating the request, or working on its delivery twice, makes no second
 *    one: that of `then` is the id of the job that it follows.
 *  - acknowledging an exhausted delivery deletes the dead job: its build has been told. So a dead
 *    job of these queues, younger than the main queue's time to live, is one whose build was not:
 *    its worker was killed in between, or its lease ran out once too often. These are looked for at
 *    the start, whenever the server answers again, and each minute; two workers may find the same
 *    one, which tells the build the same twice. Jobs that somebody canceled are left alone. */

#include <uv.h>

#include "builds/build_broker.h"
#include "builds/build_settings.h"

/* Starts at once. ERR_USAGE names a setting that is wrong. The settings must outlive the broker;
 * user is copied. */
NODISCARD struct err build_tenax_new(uv_loop_t *loop, struct build_settings *settings,
                                     const struct build_broker_user *user, void *ctx,
                                     struct build_broker **out);

#endif
