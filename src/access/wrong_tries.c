/* SPDX-License-Identifier: Apache-2.0 */
#include "access/wrong_tries.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/must.h"
#include "base/strmap.h"

#define WAYS      8
#define SETS      (WRONG_TRIES_MAX / WAYS)
#define MINUTE_MS 60000

/* A bucket that leaks: the time at which it will be empty. One try fills it by a minute divided by
 * the burst, and it is full when that time is a minute away. */
struct place {
    unsigned char network[8];
    char family; /* 0: free; 4, 6, or '?' */
    int64_t empty_at;
};

struct wrong_tries {
    uint32_t burst;
    uint64_t seed;
    struct place places[SETS][WAYS];
};

struct wrong_tries *wrong_tries_new(uint32_t burst, uint64_t seed)
{
    struct wrong_tries *t = ALLOC(struct wrong_tries);
    t->burst = burst;
    t->seed = seed;
    return t;
}

void wrong_tries_free(struct wrong_tries *t)
{
    free(t);
}

static struct place place_of(struct str address)
{
    char text[INET6_ADDRSTRLEN] = "";
    unsigned char bytes[16];
    struct place p = {.family = '?'};
    if (address.len < sizeof text)
        memcpy(text, address.at, address.len);
    if (inet_pton(AF_INET, text, bytes) == 1) {
        p.family = 4;
        memcpy(p.network, bytes, 4);
    } else if (inet_pton(AF_INET6, text, bytes) == 1) {
        p.family = 6;
        memcpy(p.network, bytes, sizeof p.network);
    }
    return p;
}

static bool is_same(const struct place *a, const struct place *b)
{
    return a->family == b->family && memcmp(a->network, b->network, sizeof a->network) == 0;
}

static size_t set_of(const struct wrong_tries *t, const struct place *p)
{
    char key[sizeof p->network + 1];
    memcpy(key, p->network, sizeof p->network);
    key[sizeof p->network] = p->family;
    return strmap_hash(t->seed, (struct str){key, sizeof key}) % SETS;
}

/* NULL: nothing is known of it, or it is long ago. */
static const struct place *find(const struct wrong_tries *t, const struct place *p)
{
    const struct place *set = t->places[set_of(t, p)];
    for (int i = 0; i < WAYS; i++)
        if (is_same(&set[i], p))
            return &set[i];
    return NULL;
}

static struct place *take(struct wrong_tries *t, const struct place *p)
{
    struct place *set = t->places[set_of(t, p)], *least = set;
    for (int i = 0; i < WAYS; i++) {
        if (is_same(&set[i], p))
            return &set[i];
        if (set[i].empty_at < least->empty_at)
            least = &set[i];
    }
    *least = *p;
    return least;
}

/* How full it is after one more try, over what it may hold: milliseconds. */
static int64_t excess(const struct wrong_tries *t, int64_t empty_at, instant now)
{
    int64_t full = empty_at > now.ms ? empty_at - now.ms : 0;
    if (full > 2 * MINUTE_MS) /* the clock was set back */
        full = MINUTE_MS;
    return full + MINUTE_MS / t->burst - MINUTE_MS;
}

static uint32_t seconds(int64_t ms)
{
    return ms > 0 ? (uint32_t)((ms + 999) / 1000) : 0;
}

uint32_t wrong_tries_wait(const struct wrong_tries *t, struct str address, instant now)
{
    const struct place sought = place_of(address), *p = t->burst ? find(t, &sought) : NULL;
    return p ? seconds(excess(t, p->empty_at, now)) : 0;
}

/* Who is refused does not wait longer for having tried: others may share the address. */
uint32_t wrong_tries_note(struct wrong_tries *t, struct str address, instant now)
{
    if (!t->burst)
        return 0;
    const struct place sought = place_of(address);
    struct place *p = take(t, &sought);
    int64_t over = excess(t, p->empty_at, now);
    if (over <= 0)
        p->empty_at = now.ms + over + MINUTE_MS;
    return seconds(over);
}
