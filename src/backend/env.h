/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BACKEND_ENV_H
#define BACKEND_ENV_H

/* The environment: only the server's start and the simulator make one. */

#include "base/evaluator.h"
#include "base/rng.h"
#include "base/units.h"
#include "core/cron.h"
#include "core/tracer.h"
#include "store/store.h"

struct env {
    instant (*now)(void *ctx); /* the wall clock; it may be set by people */
    void *ctx;
    int64_t (*ticks)(void *ctx); /* microseconds of a steady clock; NULL: commits are not timed, and
                                  * jumps of the wall clock are not detected */
    /* The run of the machine to which the ticks belong: over a restart of the process they tell how
     * long it was away. 0: not known. */
    uint64_t boot;
    /* Another wall clock, from outside of this machine, by which a start judges its own; 0: there
     * is none. Used once. */
    instant reference;
    struct rng rng;
    struct store *store; /* borrowed */
    /* The time zone with that name, valid as long as the environment, or NULL; if the function
     * itself is NULL, UTC is the only zone. */
    const struct cron_zone *(*zone)(void *zones, struct str name);
    void *zones;
    /* Evaluates jq expressions; borrowed. NULL: whatever needs one is refused. It gives no more
     * answers once the backend is freed. */
    struct evaluator *evaluator;
    /* The id of the events' history since the last restore, salvage or accepted loss of commits; 0:
     * there was none. */
    uint64_t event_history;
    const struct tracer *tracer; /* borrowed; NULL: nobody is told */
};

#endif
