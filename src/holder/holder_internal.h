/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOLDER_HOLDER_INTERNAL_H
#define HOLDER_HOLDER_INTERNAL_H

/* What claims (holder_claims.c) and runs (holder_runs.c) of a holder share. */

#include "base/list.h"
#include "base/rng.h"
#include "client/when.h"
#include "holder/holder.h"
#include "holder/renewals.h"

struct holder_batch;

struct holder {
    struct holder_settings settings;
    struct holder_user user;
    void *ctx;
    struct rng rng;
    uint64_t claim_seed; /* of claim_ids */
    uint64_t claim_count;
    struct list claims;
    /* Runs: all of them, and those of which a report is to be sent, in the order of the reports. */
    struct list runs, reports;
    size_t run_count, calls;
    mono renew_next;            /* no lease is to be renewed sooner */
    struct holder_batch *batch; /* of successes, under way; or NULL */
    struct renewals *renewals;
    bool unwelcome; /* a report was refused because of its sender, and that is said */
};

void holder_claims_turn_all(struct holder *h, mono now, mono *next);
void holder_claims_free_all(struct holder *h);
void holder_runs_turn(struct holder *h, mono now, mono *next);
void holder_runs_free_all(struct holder *h);

/* The server may have acted on the request although it did not say so. */
static inline bool holder_is_unanswered(const struct remote_answer *a)
{
    return a->result == CALL_UNREACHABLE || a->result == CALL_TRY_LATER;
}

/* It is about the sender. */
static inline bool holder_is_unwelcome(const struct remote_answer *a)
{
    return a->status == 401 || a->status == 403;
}

static inline mono holder_again(struct holder *h, uint32_t *tries)
{
    return when_after(when_mono(), holder_pause(h, (*tries)++));
}

#endif
