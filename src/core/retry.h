/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_RETRY_H
#define CORE_RETRY_H

/* What becomes of a failed job of which no retry policy decides, for core/verdict.c. A pure
 * function of its arguments. Who decides, in this order: an explicit word of the worker (kill,
 * retry_at); the job's own, the queue's or the server's backoff and retry limit. After a failure
 * that is somebody else's fault the retry is free, so many times for each culprit: it spends
 * nothing of that limit, and its delay is counted by itself. */

#include <stdbool.h>
#include <stdint.h>

#include "base/rng.h"
#include "base/units.h"
#include "core/job.h"

#define RETRY_REASON_MAX 256

/* Who decides about a failure while policies are switched on and none is effective for the job. */
enum retry_fallback {
    RETRY_FALLBACK_UNSET,   /* of a queue: the server's */
    RETRY_FALLBACK_DEFAULT, /* the job's own, the queue's or the server's backoff and retry limit */
    RETRY_FALLBACK_FAIL,    /* nobody: the job fails */
};

struct retry_defaults {
    int64_t limit; /* retries after the first failure */
    struct curve backoff;
    bool of_queue; /* this backoff was set for the job's queue; else it is the server's */
};

/* As in Zizq: 25 retries on curve_default(). */
struct retry_defaults retry_defaults(void);

struct retry_request {
    const struct job *job; /* with the attempts before this failure */
    enum outcome outcome;  /* OUTCOME_FAILED, OUTCOME_EXPIRED or an exception */
    bool kill;             /* the worker says: never again */
    instant retry_at;      /* the worker says: then, even past the limit; or none */
    uint32_t uncharged;    /* of the attempts, those that are no part of the job's own limit:
                            * retried by policies, or for free */
    /* Somebody else is to blame, and so many retries after failures of this culprit are free; NULL:
     * the failure is charged. */
    const char *culprit;
    uint32_t free_had, free_max;
};

struct retry_verdict {
    bool retry;
    bool free;                     /* it is no part of the job's own limit */
    instant at;                    /* of the retry */
    enum resolution resolution;    /* of a dead job */
    char reason[RETRY_REASON_MAX]; /* for a person; never empty */
};

/* The failures that count against the limit, this one included unless it is retried for free. */
uint32_t retry_failures(const struct retry_request *r);

/* Draws exactly once from rng, whatever the verdict. */
struct retry_verdict retry_decide(const struct retry_request *r,
                                  const struct retry_defaults *defaults, instant now,
                                  struct rng *rng);

#endif
