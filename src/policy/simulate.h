/* SPDX-License-Identifier: Apache-2.0 */
#ifndef POLICY_SIMULATE_H
#define POLICY_SIMULATE_H

/* What other policies would have decided about past failures: each failure of a job is evaluated by
 * the engine's own code, once with a draft and once with the policies in effect today, with counts
 * that start at 0. Changes nothing. */

#include "base/arena.h"
#include "core/verdict.h"
#include "wire/document.h"

struct simulate_job {
    const struct job *job;    /* its own backoff and limit are used, its state is not */
    const struct run *failed; /* in order */
    size_t failures;
    bool completed; /* it needed no further attempt */
    bool stored;    /* it has an id, and its runs have numbers, times and recorded reasons */
    bool deleted;   /* it was stored once */
};

#define SIMULATE_MORE_MAX 100

/* The result for one job on one side. */
struct simulate_side {
    bool dead;        /* at one of its failures or, if it is not completed, by failing further */
    bool died_early;  /* before or at the last failure: what a completed job would have lost */
    bool more;        /* it would get more than SIMULATE_MORE_MAX further retries */
    uint32_t retries; /* in total, if it keeps failing like the last time until it is dead */
    span window;      /* the sum of all delays */
};

/* The verdict of one side on one failure. */
struct simulate_verdict {
    bool asked; /* otherwise the job would have been dead already, and the rest is meaningless */
    bool retry;
    span delay; /* of the retry */
    struct ruling ruling;
    struct str reason;
};

#define SIMULATE_TEXT_MAX 200

struct simulate_step {
    struct run run; /* categorized and judged; texts are truncated to SIMULATE_TEXT_MAX bytes, and
                     * it has no others than message, error type, category, culprit, termination
                     * message and reason */
    struct simulate_verdict draft, today;
};

/* All of it lives in the arena. */
struct simulate_result {
    struct simulate_side draft, today;
    bool truncated; /* not all of its failures were evaluated: patterns took too long */
    const struct simulate_step *steps;
    size_t count;
};

/* If a side has no policies, the job's own or the server's backoff and limit decide there. */
void simulate_run(const struct simulate_job *what, const struct verdict_rules *draft,
                  const struct verdict_rules *today, struct arena *a, struct simulate_result *out);

#endif
