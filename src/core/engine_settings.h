/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_ENGINE_SETTINGS_H
#define CORE_ENGINE_SETTINGS_H

/* What may be set about the engine, at its start and while it runs. */

#include "core/culprit.h"
#include "core/retry.h"

struct engine_settings {
    struct retry_defaults retry;
    span completed_retention, dead_retention;
    /* So many completed jobs are kept by completed_retention, the newest; see engine_surplus.c.
     * 0: no limit. */
    uint64_t completed_kept_max;
    bool cron_skip_missed;        /* core/crons.h */
    struct culprit_bounds bounds; /* of retries that cost a job nothing */
    /* After so many runs in a row that ended with their worker lost a job is dead, whatever is
     * left of its retries; 0: never. */
    uint32_t lost_worker_limit;
    /* A run that a stream held for less does not count as one of these when the stream breaks: a
     * client that just stops says nothing of its jobs. */
    span lost_worker_min_held;
    /* Of the jobs that a queue hands out while retries that policies granted and other jobs of the
     * same priority wait, so many in a hundred are such retries; 1 to 100. */
    uint32_t retries_share;
    /* How long a retry must stay off a node if its policy does not say. */
    span avoid_required;
    /* What one dispatch hands out at most, so that a turn takes a bounded time and memory; 0: the
     * default. It ends after the job with which it reaches the bytes. So many runs at most end in
     * one turn with the streams that held them, too. */
    uint32_t hand_out_max;
    uint64_t hand_out_bytes_max;
    /* No more jobs are in flight at a time, over all queues; 0: no limit. Lowering it takes none
     * away. */
    uint64_t in_flight_max;
    bool trace_runs;      /* who is handed a run of a job in a sampled trace gets the run's span */
    uint32_t budgets_max; /* no more can be created; 0: BUDGETS_MAX_DEFAULT */
    /* So long a held job waits to be freed, and the ready members of a gang for those that are
     * missing; see engine_waits.c. 0: no limit. */
    span hold_max, gang_wait_max;
};
#define ENGINE_HAND_OUT_MAX       4000
#define ENGINE_HAND_OUT_BYTES_MAX ((uint64_t)8 << 20)

#endif
