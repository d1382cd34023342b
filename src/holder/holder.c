/* SPDX-License-Identifier: Apache-2.0 */
#include "holder/holder.h"

#include <stdlib.h>
#include <sys/random.h>

#include "base/alloc.h"
#include "base/must.h"
#include "holder/holder_internal.h"

#define PAUSE_MIN_MS  INT64_C(200)
#define PAUSE_MAX_MS  INT64_C(15000)
#define DOUBLINGS_MAX 7

struct holder *holder_new(const struct holder_settings *s, const struct holder_user *user,
                          void *ctx)
{
    struct holder *h = ALLOC(struct holder);
    uint64_t seed;
    ssize_t got = getrandom(&seed, sizeof seed, 0);
    must(got == sizeof seed);
    *h = (struct holder){
        .settings = *s, .user = *user, .ctx = ctx, .rng = rng_from_seed(seed), .claim_seed = seed};
    h->renewals = renewals_new(s->server, s->timeout);
    list_init(&h->claims);
    list_init(&h->runs);
    list_init(&h->reports);
    return h;
}

void holder_free(struct holder *h)
{
    holder_claims_free_all(h);
    holder_runs_free_all(h);
    renewals_free(h->renewals);
    free(h);
}

void holder_turn(struct holder *h, mono now, mono *next)
{
    holder_runs_turn(h, now, next);
    holder_claims_turn_all(h, now, next);
}

span holder_pause(struct holder *h, uint32_t tries)
{
    int64_t full = PAUSE_MIN_MS << (tries < DOUBLINGS_MAX ? tries : DOUBLINGS_MAX);
    full = full < PAUSE_MAX_MS ? full : PAUSE_MAX_MS;
    return (span){full / 2 + (int64_t)rng_below(&h->rng, (uint64_t)full / 2 + 1)};
}
