/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STORE_BATCH_H
#define STORE_BATCH_H

/* Puts and deletes that become durable as a whole or not at all, with one operation per key: a
 * later one on the same key replaces the earlier one. It owns copies of keys and values, and can be
 * asked for the operation on a key, so that reads see writes that are not on disk yet.
 * Zero-initialised is empty. While the store commits it (on another thread), nobody may change it;
 * reading it is fine. */

#include <stdbool.h>

#include <stdint.h>

#include "base/str.h"

struct batch_op {
    struct str key;
    struct str value; /* at == NULL: delete */
    bool is_new;      /* see batch_put_new */
};

struct batch_block;
struct batch_slot;

struct batch {
    struct batch_op *ops; /* one for each key, in any order */
    size_t count, cap;
    struct batch_slot *index; /* open addressing, by key */
    size_t index_cap;
    uint32_t generation; /* of the current contents: slots of earlier generations are free */
    size_t bytes;        /* of the keys and values in ops */
    /* Where the bytes lie: blocks first .. filling are in use, those after are spare. */
    struct batch_block *first, *filling;
    size_t held; /* bytes of memory in all blocks */
};

void batch_fini(struct batch *b);
/* Empties it, and keeps its memory for the next turn unless it had grown unusually large. */
void batch_reset(struct batch *b);
void batch_put(struct batch *b, struct str key, struct str value);
/* A put whose value of len bytes the caller then writes to the returned memory. */
char *batch_put_room(struct batch *b, struct str key, size_t len);
/* To be called right before a put: nothing was ever stored with that key, so that a delete in the
 * same batch leaves nothing of both. */
void batch_put_new(struct batch *b, struct str key);
void batch_delete(struct batch *b, struct str key);
/* The operation on key, or NULL. Valid until batch_reset, batch_put, batch_delete. */
const struct batch_op *batch_find(const struct batch *b, struct str key);

#endif
