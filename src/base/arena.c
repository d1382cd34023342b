/* SPDX-License-Identifier: Apache-2.0 */
#include "base/arena.h"

#include <stdalign.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/alloc.h"

#define BLOCK_SIZE ((size_t)64 * 1024)

struct arena_block {
    struct arena_block *next;
    size_t cap;
    alignas(max_align_t) char bytes[];
};

struct arena_deferred {
    struct arena_deferred *next;
    void (*fn)(void *what);
    void *what;
};

void arena_defer(struct arena *a, void (*fn)(void *what), void *what)
{
    struct arena_deferred *d = arena_get(a, sizeof *d);
    *d = (struct arena_deferred){a->deferred, fn, what};
    a->deferred = d;
}

static void run_deferred(struct arena *a)
{
    for (const struct arena_deferred *d = a->deferred; d; d = d->next)
        d->fn(d->what);
}

static void fill(struct arena *a, struct arena_block *b)
{
    b->next = a->head;
    a->head = b;
    a->at = b->bytes;
    a->end = b->bytes + b->cap;
    a->total += b->cap;
}

void arena_fini(struct arena *a)
{
    run_deferred(a);
    while (a->head) {
        struct arena_block *next = a->head->next;
        free(a->head);
        a->head = next;
    }
    *a = (struct arena){.first = a->first};
}

static bool is_worth_keeping(const struct arena *a, const struct arena_block *b,
                             const struct arena_block *kept)
{
    return b->cap == BLOCK_SIZE ? !kept || kept->cap < BLOCK_SIZE : !kept && b->cap == a->first;
}

void arena_reset(struct arena *a)
{
    struct arena_block *keep = NULL;
    run_deferred(a);
    while (a->head) {
        struct arena_block *next = a->head->next;
        struct arena_block *spare = a->head;
        if (is_worth_keeping(a, spare, keep)) {
            spare = keep;
            keep = a->head;
        }
        free(spare);
        a->head = next;
    }
    *a = (struct arena){.first = a->first};
    if (keep)
        fill(a, keep);
}

static void add_block(struct arena *a, size_t n)
{
    size_t least = a->first && !a->head ? a->first : BLOCK_SIZE;
    size_t cap = n > least ? n : least;
    struct arena_block *b = alloc_get(sizeof *b + cap);
    b->cap = cap;
    fill(a, b);
}

/* Does not look at the block, which may have left the cache since it was filled last. */
void *arena_get(struct arena *a, size_t n)
{
    const size_t align = alignof(max_align_t);
    n = (n + align - 1) & ~(align - 1);
    if (!a->at || (size_t)(a->end - a->at) < n)
        add_block(a, n);
    char *p = a->at;
    a->at += n;
    a->used += n;
    return p;
}

void *arena_zero(struct arena *a, size_t n)
{
    return memset(arena_get(a, n), 0, n);
}

void *arena_resize(struct arena *a, const void *old, size_t len, size_t n)
{
    void *p = arena_get(a, n);
    return len ? memcpy(p, old, len) : p;
}

struct str arena_copy(struct arena *a, struct str s)
{
    if (s.len == 0)
        return (struct str){"", 0};
    char *p = arena_get(a, s.len);
    memcpy(p, s.at, s.len);
    return (struct str){p, s.len};
}
