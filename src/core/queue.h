/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_QUEUE_H
#define CORE_QUEUE_H

/* What people set for a queue, as a plain value. */

#include "core/bucket.h"
#include "core/job.h"
#include "core/retry.h"

#define QUEUE_CONCURRENCY_MAX 1000000
#define QUEUE_SETTINGS_MAX    100000 /* queues that have settings */

struct queue_settings {
    bool paused;
    uint32_t concurrency;         /* most jobs in flight; 0: any number */
    uint32_t concurrency_per_key; /* of those with the same key; 0: any number */
    struct rate rate;             /* of hand-outs */
    /* Of jobs that give none of their own; where these give none, the server's. */
    int64_t retry_limit;
    struct curve backoff;
    span completed_retention, dead_retention;
    enum retry_fallback when_no_policy; /* UNSET: the server's */
    span max_run;                       /* that a run may take; 0: any time */
};

/* None of all that. */
#define QUEUE_SETTINGS_DEFAULT                                                                     \
    ((struct queue_settings){.retry_limit = RETRY_LIMIT_DEFAULT,                                   \
                             .completed_retention = RETENTION_DEFAULT,                             \
                             .dead_retention = RETENTION_DEFAULT})

/* What is stored. */
struct queue_record {
    struct queue_settings settings;
    struct bucket bucket; /* of the rate, if there is one */
};

#endif
