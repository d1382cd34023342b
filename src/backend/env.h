/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BACKEND_ENV_H
#define BACKEND_ENV_H

/* The world outside: only the server's start and the simulator make one. */

#include "base/evaluator.h"
#include "base/rng.h"
#include "base/units.h"
#include "core/cron.h"
#include "store/store.h"

struct env {
    instant (*now)(void *ctx); /* the wall clock; people may set it */
    void *ctx;
    int64_t (*ticks)(void *ctx); /* microseconds of a clock that goes evenly; NULL: no commit is
                                  * timed, and of the wall clock nobody knows how fast it goes */
    struct rng rng;
    struct store *store; /* borrowed */
    /* The time zone of that name, valid as long as the environment, or NULL; a function that is
     * NULL itself: UTC is the only zone. */
    const struct cron_zone *(*zone)(void *zones, struct str name);
    void *zones;
    /* Of jq expressions; borrowed. NULL: whatever needs one is refused. It gives no more
     * answers once the backend is freed. */
    struct evaluator *evaluator;
};

#endif
