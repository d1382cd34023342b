/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_ARENA_H
#define BASE_ARENA_H

/* Memory that is released all at once: a request's, a batch's. Pointers stay
 * valid until arena_reset or arena_fini. Zero-initialised is empty. */

#include <stddef.h>

#include "base/str.h"

struct arena_block;

struct arena {
    struct arena_block *head; /* the block being filled */
    size_t used;              /* bytes taken from head */
    size_t before;            /* and from the others */
    size_t total;             /* bytes held in all blocks */
};

void arena_fini(struct arena *a);
/* Empties the arena but keeps one block, so that a steady load does not go
 * back to malloc. */
void arena_reset(struct arena *a);
/* Bytes taken from it, roughly. */
static inline size_t arena_used(const struct arena *a)
{
    return a->before + a->used;
}
/* n bytes, aligned for any type, not cleared. */
void *arena_get(struct arena *a, size_t n) __attribute__((returns_nonnull));
void *arena_zero(struct arena *a, size_t n) __attribute__((returns_nonnull));
struct str arena_copy(struct arena *a, struct str s);

#define ARENA_NEW(a, type) ((type *)arena_zero((a), sizeof(type)))

#endif
