/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STORE_BATCH_H
#define STORE_BATCH_H

/* A list of puts and deletes that becomes durable as a whole or not at all. It
 * owns copies of keys and values and can be asked for the newest operation on a
 * key, so that reads see writes that are not on disk yet. While the store
 * commits it (on another thread), nobody changes it; reads of it are fine. */

#include <stdbool.h>

#include "base/arena.h"
#include "base/str.h"

struct batch_op {
    struct str key;
    struct str value; /* at == NULL: delete */
};

struct batch {
    struct arena arena;
    struct batch_op *ops;
    size_t count, cap;
    uint32_t *index; /* open addressing: op number + 1 of the newest op on a key */
    size_t index_cap, index_used;
    size_t bytes; /* of all keys and values */
};

void batch_fini(struct batch *b);
/* Empties it, keeps memory. */
void batch_reset(struct batch *b);
void batch_put(struct batch *b, struct str key, struct str value);
/* A put whose value of len bytes the caller writes next, into the returned memory. */
char *batch_put_room(struct batch *b, struct str key, size_t len);
void batch_delete(struct batch *b, struct str key);
/* The newest operation on key, or NULL. Valid until batch_reset, batch_put, batch_delete. */
const struct batch_op *batch_find(const struct batch *b, struct str key);

#endif
