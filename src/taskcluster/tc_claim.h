/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TASKCLUSTER_TC_CLAIM_H
#define TASKCLUSTER_TC_CLAIM_H

/* A run that a worker holds, as claimWork, claimTask and reclaimTask answer it. */

#include "taskcluster/tc_task.h"

struct tc_claimed {
    const struct tc_task *task;
    uint32_t run;
    struct str group, id; /* of the worker */
    instant taken_until;
};

/* {"status": …, "runId": …, "task": …, "credentials": …}; the task only if its definition is
 * wanted. The credentials are for this run alone, and end with the claim. */
void tc_claimed_write(struct buf *b, struct tc_call *c, const struct tc_claimed *k,
                      bool definition);

/* A worker is quarantined: its claims that wait are answered, with no tasks. */
void tc_claim_end_waiting(struct taskcluster *t, struct str queue, struct str group, struct str id);

#endif
