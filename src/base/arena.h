/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_ARENA_H
#define BASE_ARENA_H

/* Memory that is released all at once: a request's, a batch's. Pointers stay
 * valid until arena_reset or arena_fini. Zero-initialised is empty; where there are thousands of
 * arenas that mostly hold little, `first` keeps them small and side by side. */

#include <stddef.h>

#include "base/str.h"

struct arena_block;
struct arena_deferred;

struct arena {
    struct arena_block *head; /* the block being filled */
    char *at, *end;           /* what is left of it */
    size_t used;              /* bytes taken from all blocks */
    size_t total;             /* bytes held in all blocks */
    size_t first;             /* size of the first block; 0: of a full one */
    struct arena_deferred *deferred;
};

void arena_fini(struct arena *a);
/* Empties the arena but keeps one block, a full one if there is one, so that a steady load does not
 * go back to malloc. */
void arena_reset(struct arena *a);
/* Bytes taken from it, roughly. */
static inline size_t arena_used(const struct arena *a)
{
    return a->used;
}
/* n bytes, aligned for any type, not cleared. */
void *arena_get(struct arena *a, size_t n) __attribute__((returns_nonnull));
void *arena_zero(struct arena *a, size_t n) __attribute__((returns_nonnull));
/* n bytes that begin with the given ones, which stay where they are. */
void *arena_resize(struct arena *a, const void *old, size_t len, size_t n)
    __attribute__((returns_nonnull));
struct str arena_copy(struct arena *a, struct str s);
/* Calls fn(what) before the memory of the arena goes, at the next reset or fini: for what is not
 * memory of its own, but has to last as long. What was deferred last is called first. */
void arena_defer(struct arena *a, void (*fn)(void *what), void *what);

/* ALLOC_GROW for an array in an arena: what a full one leaves behind goes with the arena. */
#define ARENA_GROW(a, at, count, cap, first)                                                       \
    do {                                                                                           \
        if ((count) == (cap)) {                                                                    \
            (cap) = (cap) ? (cap)*2 : (first);                                                     \
            (at) = arena_resize((a), (at), (count) * sizeof *(at), (cap) * sizeof *(at));          \
        }                                                                                          \
    } while (0)

#define ARENA_NEW(a, type) ((type *)arena_zero((a), sizeof(type)))

#endif
