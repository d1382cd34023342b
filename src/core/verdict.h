/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_VERDICT_H
#define CORE_VERDICT_H

/* What becomes of a job whose run failed or whose lease ran out, and the sentence that says why.
 * A pure function of the job, its failure, who may decide, the time and chance. Who decides, in
 * this order: an explicit word of the worker (kill, retry_at); the job's fail_fast; the retry
 * policies, if any is effective for the job; the job's own when_no_policy or, if they are switched
 * on and none is effective, its queue's or the server's whenNoPolicy; the job's own, its queue's or
 * the server's backoff and retry limit. About a lease that ran out, rules that name it come first,
 * and then only the job's own limits. While policies are switched on, whoever grants a retry,
 * globalMaxRetries has the last word. Where the limits decide, retries after failures of others are
 * free, up to a bound for each culprit (core/retry.h). Whoever grants a retry may say how long
 * retries go on (retryFor): one that would begin later than that is not made, and the job is dead
 * at once. The time counts from the job's first failure since it was enqueued or brought back by
 * hand; a failure of others does not start it, unless the rule that retries the job says how long.
 * A free retry and one at a time that the worker named are not limited by it. The job may say so as
 * well (retry_for): the shorter of the two counts, and nothing of others' faults. A retry that
 * would begin only after the job's deadline is not made either. */

#include "base/arena.h"
#include "base/rng.h"
#include "core/culprit.h"
#include "core/event.h"
#include "core/policy.h"
#include "core/retry.h"

/* Who may decide about a job. */
struct verdict_rules {
    const struct policy *const *policies; /* effective for it, in order; or if they were enabled */
    size_t policy_count;
    const struct policy_settings *settings; /* NULL: there never are any */
    struct str
        missing;     /* policies that the job is meant to have, as "a,b", but that are not there */
    bool only_shown; /* nothing has failed: they are looked at */
    struct retry_defaults defaults;      /* its queue's, or the server's */
    enum retry_fallback when_no_policy;  /* its queue's, or UNSET */
    const struct culprit_bounds *bounds; /* of free retries; NULL: none are */
    span avoid_required; /* how long a retry must stay off a node if its policy does not say */
};

struct verdict_request {
    const struct job *job; /* with its state before this failure */
    enum outcome outcome;  /* OUTCOME_FAILED, OUTCOME_EXPIRED or an exception */
    const struct failure *failure;
    bool kill;        /* the worker says: never again */
    instant retry_at; /* the worker says: then, even past the limit; or none */
    span grace;       /* the run may go on for so long; 0: it has ended; negative: not said */
    uint64_t token;   /* of the run */
};

struct verdict {
    bool retry;
    instant at;                    /* of the retry, or none */
    enum resolution resolution;    /* of a dead job */
    char reason[RETRY_REASON_MAX]; /* for a person; never empty */
    struct ruling ruling;          /* its text is that of the policy */
    struct job_extras extras;      /* what the job's state keeps for the next time; in the arena */
    bool over_match_limit;         /* a pattern reached its match limit: it counted as no match */
    uint64_t steps;                /* that the searches of patterns took */
};

/* "rule", "no_rule" ...; NULL for DECIDER_NONE. */
const char *verdict_decider_name(enum decider d);

/* Draws exactly once from rng whatever comes out. */
struct verdict verdict_decide(const struct verdict_request *r, const struct verdict_rules *rules,
                              instant now, struct rng *rng, struct arena *a);

/* Whether a job that has lost so many workers in a row is not tried again. A limit of 0: never. */
bool verdict_is_poison(uint32_t lost_worker_limit, uint32_t losses);
/* The verdict about such a job, which has these extras. */
struct verdict verdict_poison(const struct job_extras *x, uint32_t losses);

/* The event by which the verdict moves a job that is in flight. */
enum event verdict_event(const struct verdict *v, instant now);

#endif
