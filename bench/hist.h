/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BENCH_HIST_H
#define BENCH_HIST_H

/* Counts of measured times in log-linear buckets: every power of two is divided into 128 equal
 * parts, so a value read back is at most 1/128 above the one that was added, and recording costs a
 * few instructions however long the tail is. Zero-initialised is empty. */

#include <stddef.h>
#include <stdint.h>

#define HIST_PART_BITS 7
#define HIST_PARTS     ((size_t)1 << HIST_PART_BITS)
#define HIST_BUCKETS   ((64 - HIST_PART_BITS + 1) * HIST_PARTS)

struct hist {
    uint64_t count;
    uint64_t max; /* exact */
    uint64_t buckets[HIST_BUCKETS];
};

void hist_add(struct hist *h, uint64_t value);
/* The smallest bucket edge that at least this share (0 < share <= 1) of the
 * values does not exceed; never above the maximum. 0 if the histogram is empty. */
uint64_t hist_at(const struct hist *h, double share);

#endif
