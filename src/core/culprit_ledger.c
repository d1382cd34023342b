/* SPDX-License-Identifier: Apache-2.0 */
#include "core/culprit_ledger.h"

#include <string.h>

#define ENTRY (1 + 4 * 4)

static uint32_t get(const char *at)
{
    uint32_t v = 0;
    for (int i = 4; i-- > 0;)
        v = v << 8 | (unsigned char)at[i];
    return v;
}

static void put(char *at, uint32_t v)
{
    for (int i = 0; i < 4; i++)
        at[i] = (char)(v >> (8 * i));
}

struct culprit_ledger culprit_ledger_read(struct str bytes)
{
    struct culprit_ledger l = {0};
    for (size_t at = 0; at + ENTRY <= bytes.len; at += ENTRY) {
        const char *entry = bytes.at + at;
        unsigned c = (unsigned char)entry[0];
        if (c < CULPRIT_COUNT)
            l.of[c] = (struct culprit_counts){.own = get(entry + 1),
                                              .expired = get(entry + 5),
                                              .granted = get(entry + 9),
                                              .free = get(entry + 13)};
    }
    return l;
}

struct str culprit_ledger_write(const struct culprit_ledger *l, struct arena *a)
{
    char *out = arena_get(a, (size_t)ENTRY * CULPRIT_COUNT);
    size_t n = 0;
    for (int i = 0; i < CULPRIT_COUNT; i++) {
        const struct culprit_counts *c = &l->of[i];
        if (!c->own && !c->expired && !c->granted)
            continue;
        out[n] = (char)i;
        put(out + n + 1, c->own);
        put(out + n + 5, c->expired);
        put(out + n + 9, c->granted);
        put(out + n + 13, c->free);
        n += ENTRY;
    }
    return (struct str){out, n};
}

uint32_t culprit_ledger_free(const struct culprit_ledger *l)
{
    uint64_t n = 0;
    for (int i = 0; i < CULPRIT_COUNT; i++)
        n += l->of[i].free;
    return n < UINT32_MAX ? (uint32_t)n : UINT32_MAX;
}
