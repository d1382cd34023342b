/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_RNG_H
#define BASE_RNG_H

/* Chance is a parameter: whoever draws is handed a generator (xoshiro256**,
 * seeded by splitmix64), so a seed repeats a whole simulation. Fencing tokens
 * only need to differ, not to be secret. */

#include <stdint.h>

struct rng {
    uint64_t s[4];
};

/* The same seed gives the same numbers, on every machine. */
struct rng rng_from_seed(uint64_t seed);
/* Uniform over all 64 bits. */
uint64_t rng_next(struct rng *r);
/* Uniform in [0, n), n > 0. */
uint64_t rng_below(struct rng *r, uint64_t n);
/* Uniform in [0, 1). */
double rng_unit(struct rng *r);

#endif
