/* SPDX-License-Identifier: Apache-2.0 */
#include "core/culprit_ledger.h"

#include <string.h>

#define ENTRY     (1 + 4 * 4)
#define PREEMPTED 128
#define EVICTED   129

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

static struct culprit_counts *counts_of(struct culprit_ledger *l, unsigned number)
{
    return number < CULPRIT_COUNT ? &l->of[number]
           : number == PREEMPTED  ? &l->preempted
           : number == EVICTED    ? &l->evicted
                                  : NULL;
}

struct culprit_counts *culprit_ledger_part(struct culprit_ledger *l, const struct failure *f)
{
    if (f->culprit != CULPRIT_DISRUPTION)
        return NULL;
    return f->condition == CONDITION_PREEMPTED ? &l->preempted
           : f->condition == CONDITION_EVICTED ? &l->evicted
                                               : NULL;
}

struct culprit_ledger culprit_ledger_read(struct str bytes)
{
    struct culprit_ledger l = {0};
    for (size_t at = 0; at + ENTRY <= bytes.len; at += ENTRY) {
        const char *entry = bytes.at + at;
        struct culprit_counts *c = counts_of(&l, (unsigned char)entry[0]);
        if (c)
            *c = (struct culprit_counts){.own = get(entry + 1),
                                         .expired = get(entry + 5),
                                         .granted = get(entry + 9),
                                         .free = get(entry + 13)};
    }
    return l;
}

static size_t write_entry(char *out, unsigned number, const struct culprit_counts *c)
{
    if (!c->own && !c->expired && !c->granted)
        return 0;
    out[0] = (char)number;
    put(out + 1, c->own);
    put(out + 5, c->expired);
    put(out + 9, c->granted);
    put(out + 13, c->free);
    return ENTRY;
}

struct str culprit_ledger_write(const struct culprit_ledger *l, struct arena *a)
{
    char *out = arena_get(a, (size_t)ENTRY * (CULPRIT_COUNT + 2));
    size_t n = 0;
    for (unsigned i = 0; i < CULPRIT_COUNT; i++)
        n += write_entry(out + n, i, &l->of[i]);
    n += write_entry(out + n, PREEMPTED, &l->preempted);
    n += write_entry(out + n, EVICTED, &l->evicted);
    return (struct str){out, n};
}

uint32_t culprit_ledger_free(const struct culprit_ledger *l)
{
    uint64_t n = 0;
    for (int i = 0; i < CULPRIT_COUNT; i++)
        n += l->of[i].free;
    return n < UINT32_MAX ? (uint32_t)n : UINT32_MAX;
}
