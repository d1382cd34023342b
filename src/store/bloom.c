/* SPDX-License-Identifier: Apache-2.0 */
#include "store/bloom.h"

#include <stdint.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/strmap.h"

#define KEYS_MIN ((size_t)1000000)
#define PER_KEY  16 /* bits */
#define HASHES   4
#define SEED     0x7e4a

struct bloom {
    uint64_t *words;
    uint64_t mask; /* of a bit's number */
    size_t keys, count;
};

struct bloom *bloom_new(size_t keys)
{
    struct bloom *b = ALLOC(struct bloom);
    uint64_t bits = 64;
    b->keys = keys > KEYS_MIN ? keys : KEYS_MIN;
    while (bits < (uint64_t)b->keys * PER_KEY)
        bits *= 2;
    b->mask = bits - 1;
    b->words = alloc_zero(bits / 8);
    return b;
}

void bloom_free(struct bloom *b)
{
    if (b)
        free(b->words);
    free(b);
}

/* The further hashes are sums of the halves of one (Kirsch, Mitzenmacher). */
static uint64_t bit_of(const struct bloom *b, uint64_t hash, unsigned i)
{
    return (hash + i * ((hash >> 32) | 1)) & b->mask;
}

void bloom_add(struct bloom *b, struct str key)
{
    uint64_t hash = strmap_hash(SEED, key), fresh = 0;
    for (unsigned i = 0; i < HASHES; i++) {
        uint64_t bit = bit_of(b, hash, i), one = (uint64_t)1 << (bit % 64);
        fresh |= ~b->words[bit / 64] & one;
        b->words[bit / 64] |= one;
    }
    b->count += fresh != 0;
}

bool bloom_has(const struct bloom *b, struct str key)
{
    uint64_t hash = strmap_hash(SEED, key);
    for (unsigned i = 0; i < HASHES; i++) {
        uint64_t bit = bit_of(b, hash, i);
        if (!(b->words[bit / 64] >> (bit % 64) & 1))
            return false;
    }
    return true;
}

size_t bloom_count(const struct bloom *b)
{
    return b->count;
}

bool bloom_is_full(const struct bloom *b)
{
    return b->count > b->keys;
}
