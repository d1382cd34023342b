/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_TALLY_H
#define CORE_TALLY_H

/* How often each rule of a retry policy has made a job be retried, as the bytes that its state
 * carries (job_state.retry_counts). Per rule: a byte, the length of the policy's name; the
 * name; the rule's key in 8 bytes and the count in 4, both little-endian. */

#include "base/arena.h"
#include "core/policy.h"

struct tally {
    struct str policy;
    uint64_t rule; /* policy_rule.key, or POLICY_DEFAULT_SLOT */
    uint32_t count;
};

/* Takes the first off; false at the end, or where the bytes are none of ours. */
bool tally_next(struct str *bytes, struct tally *t);
/* The bytes with the count of that rule as given; in the arena. */
struct str tally_set(struct str bytes, const struct tally *t, struct arena *a);
/* As policy_evaluate takes them; in the arena. */
size_t tally_counts(struct str bytes, struct arena *a, struct policy_count **counts);

#endif
