/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_CORE_CHANCE_H
#define TESTS_CORE_CHANCE_H

/* A generator whose next draw is chosen: the output function of xoshiro256**, rotl(s[1] * 5, 7) *
 * 9, inverted (5 and 9 have inverses modulo 2^64). */

#include "base/rng.h"

static inline struct rng chance_draw(uint64_t out)
{
    uint64_t x = out * 0x8e38e38e38e38e39u;
    x = (x >> 7 | x << 57) * 0xcccccccccccccccdu;
    return (struct rng){.s = {1, x, 2, 3}};
}

#define CHANCE_NONE chance_draw(0)          /* rng_unit gives 0 */
#define CHANCE_HALF chance_draw(1ull << 63) /* 1/2 */
#define CHANCE_MOST chance_draw(UINT64_MAX) /* the largest number below 1 */

#endif
