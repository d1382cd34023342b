/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_HISTOGRAM_H
#define BASE_HISTOGRAM_H

/* Counts of values by size, in buckets that are fixed at compile time: adding one is a few
 * compares, and nothing is ever allocated. */

#include <stddef.h>
#include <stdint.h>

#include "base/array.h"

#define HISTOGRAM_BUCKETS_MAX 24

/* What histograms of one kind have in common. */
struct histogram_scale {
    const int64_t *upto; /* the largest value of each bucket, ascending */
    size_t count;        /* of them; what is larger goes into one more */
    double unit;         /* of a value, in the unit that is shown: 0.001 for ms as seconds */
};

struct histogram {
    uint64_t in[HISTOGRAM_BUCKETS_MAX + 1];
    int64_t sum; /* saturates; so do negative values, to 0 */
};

/* The bounds of an array. */
#define HISTOGRAM_SCALE(bounds, unit_)                                                             \
    {                                                                                              \
        .upto = (bounds), .count = COUNT(bounds), .unit = (unit_)                                  \
    }

static inline void histogram_add(struct histogram *h, const struct histogram_scale *s,
                                 int64_t value)
{
    size_t i = 0;
    if (value < 0)
        value = 0;
    while (i < s->count && value > s->upto[i])
        i++;
    h->in[i]++;
    if (__builtin_add_overflow(h->sum, value, &h->sum))
        h->sum = INT64_MAX;
}

#endif
