/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_STRMAP_H
#define BASE_STRMAP_H

/* Hash map from a byte string to a pointer that is not NULL, for names (queues). Keys are copied.
 * Lookups are keyed by a per-map seed against chosen collisions. */

#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

struct strmap_slot {
    char *key; /* owned; NULL: the slot is free */
    size_t len;
    uint64_t hash;
    void *val;
};

struct strmap {
    struct strmap_slot *slots;
    size_t cap;
    size_t count;
    uint64_t seed;
};

/* The hash behind the map (SipHash-1-3): not to be predicted without the seed. */
uint64_t strmap_hash(uint64_t seed, struct str key);

void strmap_fini(struct strmap *m);
/* The value of the key, or NULL. */
void *strmap_get(const struct strmap *m, struct str key);
/* Adds or replaces. Returns the map's own copy of the key, valid while it is in the map. */
struct str strmap_put(struct strmap *m, struct str key, void *val);
/* Returns the value that was removed, or NULL. */
void *strmap_remove(struct strmap *m, struct str key);

#endif
