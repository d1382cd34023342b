/* SPDX-License-Identifier: Apache-2.0 */
#include "access/nonces.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/must.h"
#include "base/strmap.h"

/* The nonces of one second, as a hash set of their hashes with open addressing. */
struct second {
    int64_t seconds; /* which one, while slots is not NULL */
    uint64_t *slots; /* 0: free */
    uint32_t cap, count;
};

struct nonces {
    span window;
    size_t most, count;
    uint64_t seed;
    int64_t first;       /* earlier seconds are refused: they were forgotten */
    struct second *ring; /* the seconds of a window, indexed modulo its length */
    int64_t ring_len;
};

struct nonces *nonces_new(span window, size_t most, uint64_t seed)
{
    must(window.ms > 0 && window.ms <= NONCES_WINDOW_MAX.ms && most > 0);
    struct nonces *n = ALLOC(struct nonces);
    n->window = window;
    n->most = most;
    n->seed = seed;
    n->ring_len = 2 * (window.ms / 1000 + 1) + 1;
    n->ring = alloc_zero((size_t)n->ring_len * sizeof *n->ring);
    return n;
}

static void forget(struct nonces *n, struct second *s)
{
    n->count -= s->count;
    free(s->slots);
    *s = (struct second){0};
}

void nonces_free(struct nonces *n)
{
    if (!n)
        return;
    for (int64_t i = 0; i < n->ring_len; i++)
        free(n->ring[i].slots);
    free(n->ring);
    free(n);
}

size_t nonces_count(const struct nonces *n)
{
    return n->count;
}

/* --- the window --- */

static bool within(int64_t seconds, instant now, span window)
{
    int64_t apart = seconds * 1000 - now.ms;
    return apart <= window.ms && apart >= -window.ms;
}

/* When memory is short, no request may use up what the coming seconds need. */
static bool takes_from_later(const struct nonces *n, int64_t seconds, instant now)
{
    return n->count > n->most / 2 && seconds * 1000 > now.ms + NONCES_WINDOW_MIN.ms;
}

bool nonces_in_window(const struct nonces *n, int64_t seconds, instant now)
{
    return within(seconds, now, n->window) && seconds >= n->first &&
           !takes_from_later(n, seconds, now);
}

static struct second *place_of(const struct nonces *n, int64_t seconds)
{
    return &n->ring[seconds % n->ring_len];
}

static int64_t right_since(instant now)
{
    return (now.ms - NONCES_WINDOW_MIN.ms) / 1000;
}

/* Forgets every second that has left the window. */
static void sweep(struct nonces *n, instant now)
{
    if (n->first > right_since(now))
        n->first = right_since(now);
    int64_t first = (now.ms - n->window.ms) / 1000;
    int64_t from = first - n->first > n->ring_len ? first - n->ring_len : n->first;
    for (int64_t s = from < 0 ? 0 : from; s < first; s++)
        if (place_of(n, s)->seconds == s)
            forget(n, place_of(n, s));
    if (n->first < first)
        n->first = first;
}

/* Makes the window begin later, but never so late that a correct clock is refused. */
static bool make_room(struct nonces *n, instant now)
{
    while (n->count >= n->most && n->first < right_since(now)) {
        if (place_of(n, n->first)->seconds == n->first)
            forget(n, place_of(n, n->first));
        n->first++;
    }
    return n->count < n->most;
}

/* --- the set of a second --- */

static uint64_t *slot_of(const struct second *s, uint64_t hash)
{
    uint32_t i = (uint32_t)hash & (s->cap - 1);
    while (s->slots[i] && s->slots[i] != hash)
        i = (i + 1) & (s->cap - 1);
    return &s->slots[i];
}

static void grow(struct second *s)
{
    struct second bigger = *s;
    bigger.cap = s->cap ? s->cap * 2 : 8;
    bigger.slots = alloc_zero(bigger.cap * sizeof *bigger.slots);
    for (uint32_t i = 0; i < s->cap; i++)
        if (s->slots[i])
            *slot_of(&bigger, s->slots[i]) = s->slots[i];
    free(s->slots);
    *s = bigger;
}

static enum nonces_verdict add(struct nonces *n, int64_t seconds, uint64_t hash)
{
    struct second *s = place_of(n, seconds);
    /* Left from a second that is a whole ring away: in the past, or before a clock was set back. */
    if (s->seconds != seconds)
        forget(n, s);
    s->seconds = seconds;
    if (s->count >= s->cap / 4 * 3)
        grow(s);
    uint64_t *slot = slot_of(s, hash);
    if (*slot)
        return NONCES_SEEN;
    *slot = hash;
    s->count++;
    n->count++;
    return NONCES_NEW;
}

enum nonces_verdict nonces_see(struct nonces *n, struct str id, struct str nonce, int64_t seconds,
                               instant now)
{
    sweep(n, now);
    if (!nonces_in_window(n, seconds, now))
        return NONCES_STALE;
    uint64_t hash = strmap_hash(strmap_hash(n->seed, id), nonce);
    hash += hash == 0;
    const struct second *s = place_of(n, seconds);
    if (s->seconds == seconds && s->slots && *slot_of(s, hash))
        return NONCES_SEEN;
    if (n->count >= n->most && !make_room(n, now))
        return NONCES_FULL;
    /* The request's own second may have been forgotten. */
    return nonces_in_window(n, seconds, now) ? add(n, seconds, hash) : NONCES_STALE;
}
