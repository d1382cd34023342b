/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_POLICY_H
#define CORE_POLICY_H

/* Retry policies, as in Armada: rules that match a failure by exit code, condition, termination
 * message or category, with budgets per rule and in total. Evaluation is a pure function of
 * policies, failure, counts, settings and chance.
 *
 * Policies apply in order (the queue's, then those that the job adds; the default policy if there
 * are none). Their rules are concatenated, and the first match wins. A rule's limit is rule ??
 * policy ?? globalMaxRetries, and the total of all retries must also stay under
 * globalMaxRetries. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/rng.h"
#include "base/str.h"
#include "base/units.h"
#include "core/curve.h"
#include "core/event.h"
#include "core/job.h"
#include "core/matcher.h"
#include "core/retry.h"

#define POLICY_NO_LIMIT    (-1) /* not stated: the next level decides */
#define POLICY_RETRIES_MAX 1000000

enum policy_action { POLICY_ACTION_NONE, POLICY_RETRY, POLICY_FAIL };
enum policy_affinity_mode { POLICY_AFFINITY_UNSET, POLICY_AFFINITY_NONE, POLICY_AFFINITY_NODE };

struct policy_affinity {
    enum policy_affinity_mode mode;
    bool has_required; /* iff NODE: required_for is stated */
    span required_for; /* how long the retry must avoid the node; later it only should */
};

/* What a rule can increase. Amounts are bytes, or thousandths of a processor. */
enum policy_resource { POLICY_MEMORY, POLICY_CPU, POLICY_RESOURCES };

/* How a resource of a retry increases. */
struct policy_growth {
    double factor; /* over 1; 0: by `add` */
    uint64_t add;  /* 0: by `factor` */
    uint64_t max;  /* the upper limit; 0: it does not increase */
    bool fleeting; /* undone when a rule that does not increase the resource retries the job */
};

struct policy_rule {
    struct matcher match;      /* first, as in every rule (policy/fields.h) */
    enum policy_action action; /* POLICY_RETRY or POLICY_FAIL */
    /* Overrides of the policy. */
    int64_t retry_limit;  /* or POLICY_NO_LIMIT */
    span retry_for;       /* since the job's first failure; 0: not stated */
    struct curve backoff; /* CURVE_NONE: not stated */
    struct policy_affinity affinity;
    struct policy_growth growth[POLICY_RESOURCES];
    /* Identity of the rule for its count: a hash of action and matchers, so that a count survives
     * edits of limits and moving rules within a policy. Whoever makes the rule sets it with
     * policy_rule_key. No two rules of a policy have the same key. Not used where rules are counted
     * together. */
    uint64_t key;
};

struct policy {
    struct str name;                   /* a DNS label */
    int64_t retry_limit;               /* or POLICY_NO_LIMIT */
    span retry_for;                    /* since the job's first failure; 0: not stated */
    enum policy_action default_action; /* POLICY_ACTION_NONE: not stated */
    struct curve backoff;              /* CURVE_NONE: not stated */
    struct policy_affinity affinity;
    const struct policy_rule *rules;
    size_t rule_count;
    /* In the form of Armada's releases: its rules and its default share one count, limited by
     * retry_limit, and judge leases that ran out like any other failure. */
    bool counts_together;
};

/* The server-wide settings, changeable at run time. */
struct policy_settings {
    bool enabled;
    int64_t global_max_retries;   /* >= 0; 0 stops all retries */
    struct str default_policy;    /* name; empty: none */
    struct curve default_backoff; /* CURVE_NONE: at once */
    /* Used by core/verdict.c, like `enabled`: */
    enum retry_fallback when_no_policy; /* UNSET counts as FAIL */
    unsigned exempt;      /* bits POLICY_EXEMPT_…: retries exempt from globalMaxRetries */
    span preempted_grace; /* of a preempted run whose worker does not state how long it may continue
                           */
};

#define POLICY_EXEMPT_OWN     1u /* by the job's own, the queue's or the server's backoff */
#define POLICY_EXEMPT_EXPIRED 2u /* of expired leases, unless a rule granted them */
/* After failures of a culprit that is not the job, whoever granted them. */
#define POLICY_EXEMPT_CULPRIT(c) ((c) > CULPRIT_JOB ? 1u << (c) : 0u)
/* After disruptions with this condition. */
#define POLICY_EXEMPT_PREEMPTED (1u << 30)
#define POLICY_EXEMPT_EVICTED   (1u << 31)
#define POLICY_GLOBAL_MAX       20
#define POLICY_GRACE            ((span){30000})

/* The settings until someone changes them. */
#define POLICY_SETTINGS_DEFAULT                                                                    \
    ((struct policy_settings){.global_max_retries = POLICY_GLOBAL_MAX,                             \
                              .when_no_policy = RETRY_FALLBACK_DEFAULT,                            \
                              .preempted_grace = POLICY_GRACE})

/* Which settings a change states. */
enum policy_setting {
    POLICY_SET_ENABLED = 1,
    POLICY_SET_MAX = 2,
    POLICY_SET_EXEMPT = 4,
    POLICY_SET_NO_POLICY = 8,
    POLICY_SET_GRACE = 16,
    POLICY_SET_DEFAULT = 32,
    POLICY_SET_BACKOFF = 64,
    POLICY_SET_ALL = 127,
};
struct policy_change {
    unsigned set; /* bits of enum policy_setting; the others stay unchanged */
    struct policy_settings to;
};

/* Applies the members that the change states; texts are not copied. */
void policy_settings_change(struct policy_settings *s, const struct policy_change *c);

/* The last change of the settings. */
struct policy_changed {
    instant at;
    struct str by;                 /* who requested it; empty: unknown */
    struct policy_change from, to; /* all settings of that time */
};
/* The settings as stored. */
struct policy_settings_view {
    struct policy_settings settings;
    const struct policy_changed *last; /* NULL: nobody has changed them yet */
    bool default_missing;              /* there is no policy named settings.default_policy */
    struct str above;                  /* the first policy with a limit above global_max_retries */
    size_t above_count;                /* how many there are; 0 while that is 0: nothing retries */
};

/* How many retries of this job a rule of a policy has granted; stored with the job. */
struct policy_count {
    uint64_t policy; /* policy_name_hash */
    uint64_t rule;   /* policy_rule.key, or POLICY_DEFAULT_SLOT */
    uint32_t count;
};
#define POLICY_DEFAULT_SLOT 1

struct policy_verdict {
    bool retry;
    span delay; /* of the retry; 0 if there is none */
    /* Who decided: an index into policies (-1: no policy), and an index into its rules (-1: its
     * default action). */
    int policy, rule;
    struct policy_count slot; /* if retry: what to store; its count includes this retry */
    uint32_t count;           /* retries by whoever decided; if retry, including this one */
    int64_t limit;            /* its effective limit; globalMaxRetries if no policy decided */
    uint32_t total;           /* retries that count towards globalMaxRetries; if retry, including
                               * this one */
    enum decider decider;
    bool avoid_node;       /* the retry must not run where this run failed */
    span avoid_for;        /* if avoid_node: how long that is required; negative: not stated */
    bool over_match_limit; /* a pattern reached its match limit, and counted as no match */
    uint64_t steps;        /* used by the searches of patterns */
    /* For a person, valid UTF-8: "retry 2 of 3 by rule 1 of policy infra (Evicted, Preempted),
     * in 30 s"; "dead: rule 2 of policy ml-training (OOMKilled) allows 3 retries"; "dead: no rule
     * matched and policy infra says Fail"; "dead: 20 retries in all, as many as globalMaxRetries
     * allows, though rule 1 of policy infra allows 30". */
    char reason[256];
};

/* The total of all retries in these counts. */
uint32_t policy_total(const struct policy_count *counts, size_t n);

/* Says that a job has had as many retries as globalMaxRetries allows: "20 retries in all, as many
 * as globalMaxRetries allows". */
void policy_say_total(struct buf *b, uint32_t total, int64_t most);

/* counts: what the job has used so far (any order; slots of policies that no longer apply still
 * count towards the total); others: its retries besides, by whoever, that count towards the
 * total; negative if some of `counts` do not. Only rules that name a lease that ran out, or a
 * culprit, are asked about one, and no default action is, but for policies in Armada's form.
 * What a rule matches: see
 * matcher_holds. A policy that is named twice counts once. Nothing matched: the first policy that
 * states a default action decides, else Fail; a default Retry has a slot, a limit and a backoff of
 * its own, the policy's. The n-th delay of a backoff is for the n-th retry by the rule that
 * decided. Draws exactly once from rng whatever comes out, so that an edited policy does not shift
 * the later draws of a simulation. */
struct policy_verdict policy_evaluate(const struct policy *const *policies, size_t policy_count,
                                      const struct policy_settings *settings,
                                      const struct failure *failure,
                                      const struct policy_count *counts, size_t count_count,
                                      int64_t others, struct rng *rng);

/* The values for a rule or, if it is NULL, for the policy's default action: rule ?? policy ??
 * global. CURVE_NONE: at once. */
int64_t policy_limit(const struct policy *policy, const struct policy_rule *rule,
                     const struct policy_settings *settings);
const struct curve *policy_backoff(const struct policy *policy, const struct policy_rule *rule,
                                   const struct policy_settings *settings);
/* How long after a job's first failure its retries may begin: rule ?? policy; 0: at any time.
 * core/verdict.c enforces it, since policies know nothing of time. */
span policy_retry_for(const struct policy *policy, const struct policy_rule *rule);

/* The next amount of a job that has this much; never less. */
uint64_t policy_grow(const struct policy_growth *g, enum policy_resource what, uint64_t amount);
/* The most that there can be of it. */
uint64_t policy_resource_max(enum policy_resource what);
/* "memory", "cpu". */
const char *policy_resource_name(enum policy_resource what);
/* An amount as Kubernetes writes it. */
void policy_resource_write(struct buf *b, enum policy_resource what, uint64_t amount);
/* Whether the rule increases anything. */
bool policy_rule_grows(const struct policy_rule *rule);

/* Neither is ever 0 or POLICY_DEFAULT_SLOT. Both are stored with jobs. */
uint64_t policy_rule_key(const struct policy_rule *rule);
uint64_t policy_name_hash(struct str name);

#endif
