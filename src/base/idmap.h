/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_IDMAP_H
#define BASE_IDMAP_H

/* Hash map from id to a pointer that is not NULL. Open addressing, backward-shift deletion.
 * Its iteration order is the order of hashes and must not reach an output; the
 * hash is fixed, so it never depends on addresses. Zero-initialised is empty. */

#include <stdbool.h>
#include <stddef.h>

#include "base/id.h"

struct idmap_slot {
    struct id id;
    void *val; /* NULL: the slot is free */
};

struct idmap {
    struct idmap_slot *slots;
    size_t cap; /* a power of two, or 0 */
    size_t count;
};

void idmap_fini(struct idmap *m);
/* The value, or NULL. */
void *idmap_get(const struct idmap *m, struct id id);
/* Adds or replaces; val is not NULL. */
void idmap_put(struct idmap *m, struct id id, void *val);
/* Removes and returns the value, or NULL if there was none. */
void *idmap_remove(struct idmap *m, struct id id);
/* Removes everything, keeps the memory. */
void idmap_clear(struct idmap *m);

#endif
