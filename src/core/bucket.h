/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_BUCKET_H
#define CORE_BUCKET_H

/* A token bucket in whole numbers, so that nothing is lost or gained by rounding: a plain value
 * and functions of it. Time is persisted time. A clock that went back since costs nothing but
 * what would have flowed in meanwhile; one that jumped ahead fills the bucket and no more. */

#include <stdbool.h>
#include <stdint.h>

#include "base/units.h"

#define RATE_COUNT_MAX  1000000 /* of a queue */
#define RATE_PER_MAX_MS (31LL * 24 * 3600 * 1000)
#define RATE_PER_MAX    ((span){RATE_PER_MAX_MS})

/* count tokens in a span of that length, evenly; at most burst are saved up. All at least 1,
 * unless count is 0: no limit. Neither of the two is above INT32_MAX, nor per above RATE_PER_MAX:
 * so their products stay below 2^63. */
struct rate {
    uint32_t count, burst;
    span per;
};

struct bucket {
    int64_t level; /* in parts: a token is per.ms of them, and each ms brings count */
    instant at;    /* of the level */
};

static inline bool rate_is_set(const struct rate *r)
{
    return r->count > 0;
}

static inline bool rate_eq(const struct rate *a, const struct rate *b)
{
    return a->count == b->count && a->burst == b->burst && a->per.ms == b->per.ms;
}

/* Of no rate: empty. */
struct bucket bucket_full(const struct rate *r, instant now);
/* What has flowed in by now. */
void bucket_refill(struct bucket *b, const struct rate *r, instant now);
/* Whole tokens. */
int64_t bucket_tokens(const struct bucket *b, const struct rate *r);
/* So many must be there. */
void bucket_take(struct bucket *b, const struct rate *r, uint32_t count);
/* When so many, at most the burst, are there if none is taken meanwhile. */
instant bucket_next(const struct bucket *b, const struct rate *r, uint32_t count);
/* Another rate from now on: the level stays, as far as it fits; after no rate it is full. */
void bucket_change(struct bucket *b, const struct rate *from, const struct rate *to, instant now);
/* Makes what was read from somewhere one that can be. */
void bucket_repair(struct bucket *b, const struct rate *r, instant now);

#endif
