/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_CULPRIT_H
#define CORE_CULPRIT_H

/* Whose fault it is that a run failed, and the sentence that says how that is known. Pure functions
 * of the run's end and its failure, by the tables core/culprits.def and core/culprit_signs.def. */

#include "base/arena.h"
#include "base/err.h"
#include "core/job.h"

#define CULPRIT_FREE_MAX     1000000 /* retries without a charge */
#define CULPRIT_EVIDENCE_MAX 1024    /* bytes that are kept of a reporter's */

/* "job" …; NULL for CULPRIT_NONE. */
const char *culprit_name(enum culprit c);
/* What it means, as a sentence. */
const char *culprit_sentence(enum culprit c);
/* The one with that name; false if there is none. */
bool culprit_parse(struct str name, enum culprit *c);
/* So many retries of a job after failures of each culprit cost nothing of its own retry limit. */
struct culprit_bounds {
    uint32_t free[CULPRIT_COUNT];
};
struct culprit_bounds culprit_bounds_default(void);
/* Replaces those that the text names, as in "worker=3,cluster=0". ERR_BAD_VALUE says what is wrong
 * with it, and which culprit may be meant. */
NODISCARD struct err culprit_bounds_read(struct str text, struct culprit_bounds *b);
/* The culprit whose name may have been meant; empty if none is near. */
struct str culprit_closest(struct str name);

/* Completes a failure that was reported, or that a lease which ran out stands for: culprit and
 * culprit_evidence. What its reporter named stands; else, in this order: an exception, a condition,
 * a category with the name of a culprit, a signal, an exit code; else it is the job. outcome:
 * OUTCOME_FAILED, OUTCOME_EXPIRED or an exception. away: the lease ran out while the server was
 * away. The evidence is in the arena or static. */
void culprit_judge(struct failure *f, enum outcome outcome, bool away, struct arena *a);

#endif
