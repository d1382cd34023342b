/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_MATCHER_H
#define CORE_MATCHER_H

/* Whether a rule, of a retry policy or of the failure categories, is about a failure: the rule
 * types of Armada's retry policies. Pure; everything in a matcher is borrowed from the document
 * that it was read from. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/pattern.h"
#include "base/str.h"
#include "core/job.h"

enum matcher_event { MATCHER_ANY_EVENT, MATCHER_NORMAL, MATCHER_WARNING };
enum matcher_operator { MATCHER_NO_CODES, MATCHER_IN, MATCHER_NOT_IN };

/* What is stated must all hold; a matcher that states nothing holds always. */
struct matcher {
    enum matcher_operator exit_operator;
    const int64_t *exit_codes; /* as stated: an int32_t, or the same 32 bits as a uint32_t */
    size_t exit_code_count;
    unsigned conditions;           /* bits MATCHER_CONDITION(c); 0: not stated */
    unsigned culprits;             /* bits MATCHER_CULPRIT(c); 0: not stated */
    const struct pattern *message; /* NULL: not stated; as are the other patterns */
    const struct str *categories;
    size_t category_count;
    const struct str *subcategories;
    size_t subcategory_count;
    const struct str *error_types;
    size_t error_type_count;
    const struct pattern *error; /* is searched for in the error's message */
    const struct pattern *pod_error;
    const struct pattern *pod_event;
    /* Of one event of the pod, all that is stated: its message, without the reason before it; its
     * reason; whether it is normal or a warning. */
    const struct pattern *event_message;
    struct str event_reason; /* empty: not stated */
    enum matcher_event event_type;
    struct str container; /* only this container; empty: not stated */
    bool include_init;    /* init containers are looked at too */
};

#define MATCHER_CONDITION(c) (1u << (c))
#define MATCHER_CULPRIT(c)   (1u << (c))

/* A failure to be looked at by any number of matchers. */
struct matcher_subject {
    const struct failure *failure;
    bool any_failed; /* see matcher_holds */
    /* Patterns that reached their match limit; each counted as no match. After MATCHER_GIVE_UPS_MAX
     * no further pattern is tried. */
    unsigned gave_up;
    /* What all searches so far took. Many searches that each end just below their limit would block
     * the server as long as an endless one; when no steps are left a search fails. */
    uint64_t steps;
};

#define MATCHER_GIVE_UPS_MAX 4
#define MATCHER_STEPS_MAX    ((uint64_t)2 * PATTERN_STEPS_MAX)

/* - A failure that names no containers is matched by its own exit code, condition and
 *   termination message, by matchers that name no container.
 * - Otherwise exit codes and conditions are those of the first failed container: the first in
 *   the order given that has an exit code or a condition. A matcher that names a container sees
 *   only that one, and needs it to have failed unless it states nothing but a message.
 * - A condition of the failure as a whole (all but OOMKilled, which is a container's) matches
 *   whatever the containers say, unless the matcher names a container.
 * - Messages are those of all containers, whether they failed or not.
 * - Init containers are passed over, also by a matcher that names one, without include_init.
 * - Exit code 0 means that there is none: it never matches, neither In nor NotIn. Codes are
 *   compared as 32 bits: 3221225477 and -1073741819 are both 0xC0000005 of Windows. A failure
 * without containers that says which signal ended the process, and no exit code, has 128 + signal.
 * - With any_failed of the subject, what is asked of a container must hold for one and the same
 *   container that failed, whichever it is and init containers included; nothing is asked of those
 *   that did not fail.
 * - The category, the culprit, the error that the worker reported, the pod's error and its events
 *   are those of the failure as a whole. A failure of which no culprit is known has none that
 *   matches. */
bool matcher_holds(const struct matcher *m, struct matcher_subject *s);

/* Whether it may be asked about a lease that ran out. Nobody knows that anything failed, so only a
 * matcher that names LeaseExpired, the built-in category of such leases or a culprit is meant for
 * it. Policies in Armada's form are asked all the same (core/policy.h). */
bool matcher_is_for_expired(const struct matcher *m);

/* Identity of what is matched: the same for the same matchers in whatever order their lists
 * are. It is stored with jobs, so it must never change from one version to the next. */
uint64_t matcher_key(const struct matcher *m);
/* Whether `wide` is known to be asked and to hold whenever `narrow` is: after a rule with the one,
 * no rule with the other decides. Patterns count as alike only if their texts are the same. */
bool matcher_covers(const struct matcher *wide, const struct matcher *narrow);
/* Why it can never hold, in words; NULL: it may. */
const char *matcher_never(const struct matcher *m);
/* For a person: "Evicted, Preempted", "exit code in 137, 143; container main". */
void matcher_describe(const struct matcher *m, struct buf *b);

/* A hash for identities that are stored (FNV-1a, mixed). */
uint64_t matcher_hash(struct str text);
/* A well-mixed bijection (the finalizer of splitmix64). */
uint64_t matcher_mix(uint64_t x);

#endif
