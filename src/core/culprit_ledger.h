/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_CULPRIT_LEDGER_H
#define CORE_CULPRIT_LEDGER_H

/* How often a job was retried after failures of each culprit but the job itself, by who granted
 * the retry, as the bytes that its state carries (job_extras.culprit_counts). Per culprit: a byte,
 * its number; then four counts of 4 bytes, little-endian, in the order of the struct. Preemptions
 * and evictions among the disruptions have numbers of their own, 128 and 129. */

#include "base/arena.h"
#include "core/job.h"

struct culprit_counts {
    uint32_t own;     /* by the backoff of the job, its queue or the server */
    uint32_t expired; /* because a lease ran out, without a rule */
    uint32_t granted; /* by rules of policies */
    uint32_t free;    /* of the first two, those that cost the job nothing of its retry limit */
};

struct culprit_ledger {
    struct culprit_counts of[CULPRIT_COUNT];
    struct culprit_counts preempted, evicted; /* parts of of[CULPRIT_DISRUPTION]; free stays 0 */
};

/* The part for such a failure; NULL if there is none. */
struct culprit_counts *culprit_ledger_part(struct culprit_ledger *l, const struct failure *f);

/* Damaged bytes, and culprits of later versions, are skipped. */
struct culprit_ledger culprit_ledger_read(struct str bytes);
/* In the arena; empty if nothing was counted. */
struct str culprit_ledger_write(const struct culprit_ledger *l, struct arena *a);
/* Of all culprits. */
uint32_t culprit_ledger_free(const struct culprit_ledger *l);

#endif
