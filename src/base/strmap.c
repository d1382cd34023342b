/* SPDX-License-Identifier: Apache-2.0 */
#include "base/strmap.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/must.h"

#define CAP_MIN 16

static uint64_t rotate(uint64_t x, unsigned by)
{
    return x << by | x >> (64 - by);
}

static void sip_round(uint64_t v[4])
{
    v[0] += v[1];
    v[2] += v[3];
    v[1] = rotate(v[1], 13) ^ v[0];
    v[3] = rotate(v[3], 16) ^ v[2];
    v[0] = rotate(v[0], 32);
    v[2] += v[1];
    v[0] += v[3];
    v[1] = rotate(v[1], 17) ^ v[2];
    v[3] = rotate(v[3], 21) ^ v[0];
    v[2] = rotate(v[2], 32);
}

static void sip_absorb(uint64_t v[4], uint64_t word)
{
    v[3] ^= word;
    sip_round(v);
    v[0] ^= word;
}

/* SipHash-1-3 (Aumasson, Bernstein): names come from clients, so without the
 * seed nobody must be able to find names that collide. */
uint64_t strmap_hash(uint64_t seed, struct str key)
{
    uint64_t seed2 = seed ^ 0x9e3779b97f4a7c15;
    uint64_t v[4] = {seed ^ 0x736f6d6570736575, seed2 ^ 0x646f72616e646f6d,
                     seed ^ 0x6c7967656e657261, seed2 ^ 0x7465646279746573};
    size_t at = 0;
    for (; key.len - at >= 8; at += 8) {
        uint64_t word;
        memcpy(&word, key.at + at, 8);
        sip_absorb(v, word);
    }
    uint64_t tail = (uint64_t)key.len << 56;
    for (unsigned shift = 0; at < key.len; at++, shift += 8)
        tail |= (uint64_t)(uint8_t)key.at[at] << shift;
    sip_absorb(v, tail);
    v[2] ^= 0xff;
    for (int i = 0; i < 3; i++)
        sip_round(v);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

/* The slot of key, or the free slot where it would go. At least one is free. */
static size_t find(const struct strmap *m, struct str key, uint64_t hash)
{
    size_t mask = m->cap - 1;
    size_t i = hash & mask;
    for (; m->slots[i].key; i = (i + 1) & mask)
        if (m->slots[i].hash == hash && str_eq((struct str){m->slots[i].key, m->slots[i].len}, key))
            break;
    return i;
}

static void grow(struct strmap *m)
{
    struct strmap old = *m;
    m->cap = old.cap ? old.cap * 2 : CAP_MIN;
    m->slots = alloc_zero(m->cap * sizeof *m->slots);
    for (size_t i = 0; i < old.cap; i++) {
        const struct strmap_slot *s = &old.slots[i];
        if (s->key)
            m->slots[find(m, (struct str){s->key, s->len}, s->hash)] = *s;
    }
    free(old.slots);
}

/* Closes the gap by moving back every later slot of the same run that may stand
 * there, so that no tombstones pile up. */
static void close_gap(struct strmap *m, size_t gap)
{
    size_t mask = m->cap - 1;
    for (size_t i = (gap + 1) & mask; m->slots[i].key; i = (i + 1) & mask) {
        size_t from_home = (i - m->slots[i].hash) & mask;
        if (from_home >= ((i - gap) & mask)) {
            m->slots[gap] = m->slots[i];
            gap = i;
        }
    }
    m->slots[gap] = (struct strmap_slot){0};
}

void strmap_fini(struct strmap *m)
{
    for (size_t i = 0; i < m->cap; i++)
        free(m->slots[i].key);
    free(m->slots);
    *m = (struct strmap){0};
}

void *strmap_get(const struct strmap *m, struct str key)
{
    return m->count ? m->slots[find(m, key, strmap_hash(m->seed, key))].val : NULL;
}

struct str strmap_put(struct strmap *m, struct str key, void *val)
{
    must(val != NULL);
    if (m->count >= m->cap / 4 * 3)
        grow(m);
    uint64_t hash = strmap_hash(m->seed, key);
    struct strmap_slot *slot = &m->slots[find(m, key, hash)];
    if (!slot->key) {
        *slot = (struct strmap_slot){alloc_text(key.at, key.len), key.len, hash, NULL};
        m->count++;
    }
    slot->val = val;
    return (struct str){slot->key, slot->len};
}

void *strmap_remove(struct strmap *m, struct str key)
{
    if (!m->count)
        return NULL;
    size_t i = find(m, key, strmap_hash(m->seed, key));
    void *val = m->slots[i].val;
    if (val) {
        free(m->slots[i].key);
        close_gap(m, i);
        m->count--;
    }
    return val;
}
