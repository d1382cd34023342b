/* SPDX-License-Identifier: Apache-2.0 */
#include "core/tally.h"

#include "base/must.h"

#define FIXED (1 + 8 + 4)

static uint64_t get(const char *at, int bytes)
{
    uint64_t v = 0;
    for (int i = bytes; i-- > 0;)
        v = v << 8 | (unsigned char)at[i];
    return v;
}

static void put(char *at, uint64_t v, int bytes)
{
    for (int i = 0; i < bytes; i++)
        at[i] = (char)(v >> (8 * i));
}

bool tally_next(struct str *bytes, struct tally *t)
{
    size_t name = bytes->len ? (unsigned char)bytes->at[0] : 0;
    if (bytes->len < FIXED + name)
        return false;
    const char *at = bytes->at + 1;
    t->policy = (struct str){at, name};
    t->rule = get(at + name, 8);
    t->count = (uint32_t)get(at + name + 8, 4);
    *bytes = (struct str){bytes->at + FIXED + name, bytes->len - FIXED - name};
    return true;
}

static char *write(char *at, const struct tally *t)
{
    *at++ = (char)t->policy.len;
    memcpy(at, t->policy.at, t->policy.len);
    at += t->policy.len;
    put(at, t->rule, 8);
    put(at + 8, t->count, 4);
    return at + 12;
}

struct str tally_set(struct str bytes, const struct tally *t, struct arena *a)
{
    must(t->policy.len > 0 && t->policy.len <= UINT8_MAX);
    char *out = arena_get(a, bytes.len + FIXED + t->policy.len), *at = out;
    struct tally old;
    bool found = false;
    while (tally_next(&bytes, &old)) {
        bool same = old.rule == t->rule && str_eq(old.policy, t->policy);
        found = found || same;
        at = write(at, same ? t : &old);
    }
    if (!found)
        at = write(at, t);
    return (struct str){out, (size_t)(at - out)};
}

size_t tally_counts(struct str bytes, struct arena *a, struct policy_count **counts)
{
    size_t n = 0;
    struct tally t;
    *counts = arena_get(a, (bytes.len / FIXED + 1) * sizeof **counts);
    while (tally_next(&bytes, &t))
        (*counts)[n++] = (struct policy_count){policy_name_hash(t.policy), t.rule, t.count};
    return n;
}
