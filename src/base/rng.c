/* SPDX-License-Identifier: Apache-2.0 */
#include "base/rng.h"

#include "base/must.h"

static uint64_t rotate(uint64_t x, unsigned by)
{
    return x << by | x >> (64 - by);
}

static uint64_t splitmix(uint64_t *state)
{
    *state += 0x9e3779b97f4a7c15;
    uint64_t z = *state;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

struct rng rng_from_seed(uint64_t seed)
{
    /* splitmix is a bijection of its counter, so at most one word can be zero:
     * the all-zero state, from which xoshiro never leaves, cannot occur. */
    struct rng r;
    for (int i = 0; i < 4; i++)
        r.s[i] = splitmix(&seed);
    return r;
}

uint64_t rng_next(struct rng *r)
{
    uint64_t *s = r->s;
    uint64_t out = rotate(s[1] * 5, 7) * 9;
    uint64_t t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotate(s[3], 45);
    return out;
}

uint64_t rng_below(struct rng *r, uint64_t n)
{
    must(n > 0);
    /* The high half of draw * n is in [0, n). It is uniform once those draws are
     * refused whose low half falls into the 2^64 mod n values too many. */
    unsigned __int128 product = (unsigned __int128)rng_next(r) * n;
    if ((uint64_t)product < n) {
        uint64_t excess = -n % n;
        while ((uint64_t)product < excess)
            product = (unsigned __int128)rng_next(r) * n;
    }
    return (uint64_t)(product >> 64);
}

double rng_unit(struct rng *r)
{
    /* 53 bits are all that a double below 1 holds. */
    return (double)(rng_next(r) >> 11) * 0x1p-53;
}
