/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_ENQUEUE_H
#define CORE_ENQUEUE_H

/* A job to be added, and what became of it. */

#include "core/budgets.h"
#include "core/job.h"
#include "core/retry.h"

/* Of one request, which is applied at once: so many take some ten milliseconds. */
#define ENQUEUE_JOBS_MAX    20000
#define ENQUEUE_BATCHED_MAX 10000 /* jobs of a request in which some are batched */
#define ENQUEUE_DEPENDS_MAX 50000 /* jobs that all of them wait for */

struct enqueue {
    struct id id;     /* none: the engine makes one */
    uint64_t receipt; /* from whom it was taken in the same commit; 0: nobody (backend/embedded) */
    struct str queue, type, payload; /* checked by the caller: job_check_name, valid JSON */
    uint16_t priority;
    instant ready_at; /* or none: now */
    int64_t retry_limit;
    struct curve backoff;
    span completed_retention, dead_retention;
    struct str unique_key; /* iff unique_while */
    enum unique unique_while;
    struct job_batch batch;                     /* open only if ready at once */
    struct job_options options;                 /* the names in it exist */
    const struct budget_create *budget_creates; /* those of its budgets that it may create */
    size_t budget_create_count;
};

/* What the sender of an enqueue may have at most. */
struct enqueue_quota {
    struct str mark;  /* in front of the sender's own names (base/mark.h); or empty */
    uint64_t maker;   /* of its jobs (struct job_options), iff waiting or keys */
    uint64_t waiting; /* jobs of its own that have not begun; 0: no limit */
    uint64_t keys;    /* unique keys and aliases that its jobs hold; 0: no limit */
    uint64_t budgets; /* that it makes by enqueueing; 0: as many as leave room for operators */
    bool operates;    /* it may have the budgets that are left to operators */
};

struct enqueued {
    struct job job;    /* without payload */
    bool duplicate;    /* not added: this job holds the unique key, or has the alias */
    bool folded;       /* not added: its payload went into this job's */
    bool as_requested; /* of a repeated enqueue: the job is not known any more but by its id; the
                          rest is what the request says */
};

#endif
