/* SPDX-License-Identifier: Apache-2.0 */
#ifndef POLICY_SIMULATE_H
#define POLICY_SIMULATE_H

/* What other policies would have made of failures that have happened: each failure of a job is
 * judged by the engine's own evaluation, once with a draft and once with what holds today, with
 * counts that begin at 0. Changes nothing. */

#include "base/arena.h"
#include "core/verdict.h"
#include "wire/document.h"

struct simulate_job {
    const struct job *job;    /* its own backoff and limit count, its state does not */
    const struct run *failed; /* in order */
    size_t failures;
    bool completed; /* it needed no further attempt */
    bool stored;    /* it has an id, and its runs have numbers, times and recorded reasons */
    bool deleted;   /* it was stored once */
};

#define SIMULATE_MORE_MAX 100

/* What comes of one job on one side. */
struct simulate_side {
    bool dead;        /* at one of its failures, or, if it is not completed, by failing on */
    bool died_early;  /* before or at the last of them: of a completed job, what it lost by that */
    bool more;        /* it would go on for more than SIMULATE_MORE_MAX further retries */
    uint32_t retries; /* in all, if it goes on failing like the last time until it is dead */
    span window;      /* of all their delays together */
};

/* What one side says to one failure. */
struct simulate_verdict {
    bool asked; /* else the job would not have come so far, and the rest says nothing */
    bool retry;
    span delay; /* of the retry */
    struct ruling ruling;
    struct str reason;
};

#define SIMULATE_TEXT_MAX 200

struct simulate_step {
    struct run run; /* categorized; texts are cut to SIMULATE_TEXT_MAX bytes, and it has no others
                     * than message, error type, category, termination message and reason */
    struct simulate_verdict draft, today;
};

/* All of it lives in the arena. */
struct simulate_result {
    struct simulate_side draft, today;
    bool truncated; /* its failures were not all looked at: patterns took too long */
    const struct simulate_step *steps;
    size_t count;
};

/* Without policies on a side, nobody but the job's own or the server's backoff and limit decides
 * there. */
void simulate_run(const struct simulate_job *what, const struct verdict_rules *draft,
                  const struct verdict_rules *today, struct arena *a, struct simulate_result *out);

#endif
