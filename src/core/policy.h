/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_POLICY_H
#define CORE_POLICY_H

/* Retry policies (seed 004): rules that match a failure by exit code, condition,
 * termination message or category, with budgets per rule and in total. Evaluation
 * is a pure function of policies, failure, counts, settings, time and chance.
 *
 * Policies apply in order (the queue's, then those the job adds; the default policy if there are
 * none). Their rules are concatenated, the first match wins. A rule's limit is rule ?? policy ??
 * globalMaxRetries, and the total of all retries must stay under globalMaxRetries too. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/pattern.h"
#include "base/rng.h"
#include "base/str.h"
#include "base/units.h"
#include "core/curve.h"
#include "core/job.h"

#define POLICY_NO_LIMIT (-1) /* not stated: the next level decides */

enum policy_action { POLICY_ACTION_NONE, POLICY_RETRY, POLICY_FAIL };
enum policy_affinity { POLICY_AFFINITY_UNSET, POLICY_AFFINITY_NONE, POLICY_AFFINITY_NODE };
enum policy_operator { POLICY_OPERATOR_NONE, POLICY_IN, POLICY_NOT_IN };

struct policy_rule {
    enum policy_action action; /* POLICY_RETRY or POLICY_FAIL */
    /* Matchers; those that are stated must all hold. */
    enum policy_operator exit_operator;
    const int32_t *exit_codes; /* never 0 */
    size_t exit_code_count;
    unsigned conditions;           /* bits 1 << enum condition; 0: not stated */
    const struct pattern *message; /* unanchored; NULL: not stated */
    const struct str *categories;
    size_t category_count;
    struct str container; /* only this container; empty: see policy_evaluate */
    bool include_init;    /* consider init containers too */
    /* What overrides the policy. */
    int64_t retry_limit;  /* or POLICY_NO_LIMIT */
    struct curve backoff; /* CURVE_NONE: not stated */
    enum policy_affinity affinity;
    /* Identity of the rule for its count: a hash of action and matchers, so that a count survives
     * edits of limits and the moving of rules within a policy. Set by whoever parses the rule
     * with policy_rule_key. */
    uint64_t key;
};

struct policy {
    struct str name;                   /* a DNS label */
    int64_t retry_limit;               /* or POLICY_NO_LIMIT */
    enum policy_action default_action; /* POLICY_ACTION_NONE: not stated */
    struct curve backoff;
    enum policy_affinity affinity;
    const struct policy_rule *rules;
    size_t rule_count;
};

/* The server-wide settings, changeable at run time. */
struct policy_settings {
    bool enabled;
    int64_t global_max_retries; /* 0 stops all policy retries */
    struct str default_policy;  /* name; empty: none */
    struct curve default_backoff;
};

/* How often a rule of a policy made this job be retried; stored with the job. */
struct policy_count {
    uint64_t policy; /* hash of the policy's name */
    uint64_t rule;   /* policy_rule.key, or POLICY_DEFAULT_SLOT */
    uint32_t count;
};
#define POLICY_DEFAULT_SLOT 1

struct policy_verdict {
    bool retry;
    span delay;
    /* Which rule decided: an index into policies (-1: no policy did), an index into its rules
     * (-1: its default action). */
    int policy, rule;
    struct policy_count slot; /* with the count after this retry, if retry */
    uint32_t count;           /* retries by that rule, this one included */
    int64_t limit;            /* its effective limit */
    uint32_t total;           /* retries by all rules, this one included */
    bool avoid_node;          /* of this failed run */
    bool over_match_limit;    /* a pattern gave up: it counted as no match */
    char reason[256]; /* for a person: "retry 2 of 3 by rule 1 of policy infra (Preempted, Evicted),
                         in 30 s"; "dead: rule 2 of policy ml-training (OOMKilled) allows 3
                         retries"; "dead: no rule matched and policy infra says Fail"; "dead: 20
                         retries in all, as many as globalMaxRetries allows" */
};

/* counts: what the job has used so far (any order; slots of policies that no longer apply still
 * count towards the total). Draws exactly once from rng. Without a container name, exit codes and
 * conditions look at the first failed container (init containers only with include_init),
 * messages at those of all non-init containers (and init ones with include_init); a failure that
 * names no containers is matched by its own exit code, condition and termination message. Exit code
 * 0 never matches, NotIn included. A condition of the failure as a whole (Evicted, Preempted,
 * DeadlineExceeded, Unschedulable) matches whatever the containers say, unless the rule names a
 * container. */
struct policy_verdict policy_evaluate(const struct policy *const *policies, size_t policy_count,
                                      const struct policy_settings *settings,
                                      const struct failure *failure,
                                      const struct policy_count *counts, size_t count_count,
                                      struct rng *rng);

uint64_t policy_rule_key(const struct policy_rule *rule);
uint64_t policy_name_hash(struct str name);

#endif
