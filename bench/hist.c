/* SPDX-License-Identifier: Apache-2.0 */
#include "hist.h"

#include <math.h>

#include "base/must.h"

/* Values below HIST_PARTS have a bucket each; above, the HIST_PART_BITS bits after the leading one
 * choose the part, and its position the power. */
static size_t bucket_of(uint64_t value)
{
    if (value < HIST_PARTS)
        return (size_t)value;
    unsigned shift = 63u - (unsigned)__builtin_clzll(value) - HIST_PART_BITS;
    return (shift + 1) * HIST_PARTS + (size_t)(value >> shift) - HIST_PARTS;
}

static uint64_t upper_edge(size_t bucket)
{
    if (bucket < HIST_PARTS)
        return bucket;
    unsigned shift = (unsigned)(bucket / HIST_PARTS) - 1;
    uint64_t first = (uint64_t)(bucket % HIST_PARTS + HIST_PARTS) << shift;
    return first + (((uint64_t)1 << shift) - 1);
}

void hist_add(struct hist *h, uint64_t value)
{
    h->buckets[bucket_of(value)]++;
    h->count++;
    if (value > h->max)
        h->max = value;
}

uint64_t hist_at(const struct hist *h, double share)
{
    must(share > 0 && share <= 1);
    if (h->count == 0)
        return 0;
    uint64_t rank = (uint64_t)ceil(share * (double)h->count);
    uint64_t seen = 0;
    for (size_t i = 0; i < HIST_BUCKETS; i++) {
        seen += h->buckets[i];
        if (seen >= rank) {
            uint64_t edge = upper_edge(i);
            return edge < h->max ? edge : h->max;
        }
    }
    return h->max;
}
