/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_ID_H
#define BASE_ID_H

/* Job ids in the manner of SCRU128 (its public specification, version 3): 128
 * bits, a 48-bit Unix time in milliseconds, two 24-bit counters, 32 random bits;
 * written as 25 lower-case base-36 digits. Their order, as numbers and as text,
 * is the order of their making, also within a millisecond, over restarts, and
 * when the clock goes back. */

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/rng.h"
#include "base/str.h"
#include "base/units.h"

#define ID_TEXT_LEN 25

struct id {
    uint64_t hi, lo;
};

/* A place in a walk over ids: past `id`, or, if not set, where the walk begins. Clients name any id
 * at all, so none of them can stand for "nowhere". */
struct id_place {
    bool set;
    struct id id;
};

struct id_source {
    struct id last;        /* the newest id made or seen; the next one is greater */
    int64_t counter_hi_ms; /* when counter_hi was last drawn anew */
};

/* The next id, greater than every earlier one of this source. */
struct id id_next(struct id_source *s, instant now, struct rng *rng);
/* Makes later ids greater than this one (recovery calls it for every stored id). */
void id_seen(struct id_source *s, struct id id);

/* Writes exactly 25 digits, no NUL. */
void id_format(struct id id, char out[ID_TEXT_LEN]);
/* ERR_BAD_ID unless text is exactly 25 base-36 digits (either case) below 2^128. */
NODISCARD struct err id_parse(struct str text, struct id *id);

/* The first id in a text in words, as a whole word, and where it is; false: there is none. */
bool id_find(struct str text, size_t *at, struct id *id);

/* Sixteen bytes, big-endian, so that byte order is id order. */
void id_encode(struct id id, uint8_t out[16]);
struct id id_decode(const uint8_t in[16]);

static inline bool id_eq(struct id a, struct id b)
{
    return a.hi == b.hi && a.lo == b.lo;
}

static inline int id_cmp(struct id a, struct id b)
{
    if (a.hi != b.hi)
        return a.hi < b.hi ? -1 : 1;
    return a.lo < b.lo ? -1 : a.lo > b.lo;
}

/* The next larger one. */
static inline struct id id_after(struct id a)
{
    a.lo++;
    a.hi += a.lo == 0;
    return a;
}

/* When it was made, by the clock of that time. */
static inline instant id_time(struct id a)
{
    return (instant){(int64_t)(a.hi >> 16)};
}

static inline bool id_is_none(struct id a)
{
    return a.hi == 0 && a.lo == 0;
}

#endif
