/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TASKCLUSTER_TC_LOST_H
#define TASKCLUSTER_TC_LOST_H

/* Claims whose answer was lost on its way (net/receipt.h): the worker that asks again gets the same
 * runs, instead of new ones while these wait for nobody until their claims expire. Kept in memory
 * until then. */

#include "taskcluster/tc_internal.h"

/* What an answer of claimWork hands out. */
struct tc_handed;

struct tc_handed_run {
    struct str task_id;
    uint32_t run;
    instant lease_end; /* a claim that ends later was renewed: somebody has the run */
};

/* Of an answer to this worker; nothing yet. */
struct tc_handed *tc_handed_new(struct taskcluster *t, struct str queue, struct str group,
                                struct str id);
/* At most as many as one claim asks for. */
void tc_handed_add(struct tc_handed *h, struct tc_handed_run run);
/* Before the answer. Keeps h if that is lost, and frees it if not. */
void tc_handed_watch(struct tc_handed *h, struct http_exchange *x);

/* The oldest that was lost of this worker, which is the caller's; NULL: none. */
struct tc_handed *tc_lost_take(struct taskcluster *t, struct str queue, struct str group,
                               struct str id);
/* The next of its runs, NULL behind the last; valid as long as h. */
const struct tc_handed_run *tc_handed_next(struct tc_handed *h);
/* Frees h, or keeps it for those of its runs that were not taken out. */
void tc_lost_give_back(struct tc_handed *h);
/* All of them. */
void tc_lost_free(struct taskcluster *t);

#endif
