/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUILDS_BUILD_WORKER_H
#define BUILDS_BUILD_WORKER_H

/* What the worker does with each message: both seeds' diagrams, over a broker, a cluster and a
 * place to tell statuses, none of which it knows. Loop thread only.
 *
 * A message is acknowledged once all that must follow from it is kept: the verify message
 * confirmed, the status on disk. So a worker that is killed between any two steps does the same
 * again, and every step may be done twice: a build's pod has one name, pods are deleted by label,
 * and a build that has ended takes no other status.
 *
 * Messages of one build are worked on one after the other, in the order of their arrival: a stop
 * never overtakes the start whose pod it is to delete. */

#include <stdint.h>

#include "base/buf.h"
#include "builds/build_broker.h"
#include "builds/build_kube.h"
#include "builds/build_message.h"
#include "builds/build_pod.h"
#include "builds/build_status.h"
#include "builds/build_timers.h"
#include "builds/build_verify.h"

struct build_worker;

/* Borrowed as long as the worker lives. */
struct build_worker_settings {
    const struct build_settings *all;
    const struct build_pod_template *pods;
    struct build_verify_limits limits;
    bool verify;       /* builds are verified */
    bool timer;        /* as in seed 001; else as in seed 000 */
    span init_timeout; /* of `timer`: from a start to its timer */
    instant (*now)(void);
    /* The broker is such that the worker must not run; or NULL. */
    void (*refused)(void *ctx, const char *why);
    void *refused_ctx;
};

/* Of the settings. ERR_USAGE names the one that is wrong. */
NODISCARD struct err build_worker_settings_make(const struct build_settings *s,
                                                const struct build_pod_template *pods,
                                                struct build_worker_settings *out);

/* Borrowed. */
struct build_worker_ports {
    struct build_broker *broker;
    struct build_kube *kube;
    struct build_status *status;
    struct build_timers *timers; /* iff `timer` */
};

/* What came of messages. */
#define BUILD_WORKER_COUNTERS(COUNTER)                                                             \
    COUNTER(starts, "start messages")                                                              \
    COUNTER(stops, "stop messages")                                                                \
    COUNTER(clears, "clear messages")                                                              \
    COUNTER(verifies, "verify messages")                                                           \
    COUNTER(malformed, "messages that could not be read")                                          \
    COUNTER(pods_created, "pods created, or found in place")                                       \
    COUNTER(pods_deleted, "builds whose pods were deleted")                                        \
    COUNTER(caches_cleared, "caches removed")                                                      \
    COUNTER(caches_refused, "clear messages that could not be carried out")                        \
    COUNTER(retries, "messages put back because something failed")                                 \
    COUNTER(looks_again, "looks at a pod that was not ready")                                      \
    COUNTER(builds_running, "builds that were seen running")                                       \
    COUNTER(builds_gone, "builds to be verified that had no pod any more")                         \
    COUNTER(builds_failed, "builds that were ended as FAILURE")                                    \
    COUNTER(timers_fired, "timers that fired")

struct build_worker_counters {
#define COUNTER(name, help) uint64_t name;
    BUILD_WORKER_COUNTERS(COUNTER)
#undef COUNTER
};

/* The ports come later, since they call the worker. */
struct build_worker *build_worker_new(uv_loop_t *loop, const struct build_worker_settings *s);
void build_worker_attach(struct build_worker *w, const struct build_worker_ports *ports);
/* After the ports were closed. Threads that remove caches must have ended: see build_worker_busy.
 */
void build_worker_free(struct build_worker *w);

/* What the broker and the timers call, with the worker as ctx. */
struct build_broker_user build_worker_user(void);
void build_worker_fired(void *worker, const struct build_timer *t);

/* Messages being worked on. */
size_t build_worker_busy(const struct build_worker *w);
const struct build_worker_counters *build_worker_counters(const struct build_worker *w);

#endif
