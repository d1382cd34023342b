/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STORE_MEMORY_H
#define STORE_MEMORY_H

/* A store in memory for tests and the simulator. It keeps what was synced apart
 * from what was only handed over, and can be told to misbehave as a disk does. */

#include "store/store.h"

/* What the next commits do. Zero: succeed at once. */
struct memory_faults {
    /* The batch stays under way until memory_release is called. */
    bool hold;
    /* The next commit fails with this code and nothing of it is kept ... */
    enum err_code fail;
    /* ... unless this is set: then the batch is there after a reopen though its commit failed. */
    bool fail_but_keep;
    /* Recovery does not sync what it has read, which breaks the promise of store_reopen: for tests
     * that must find out. */
    bool recover_unsynced;
};

struct store *memory_new(void);
void memory_set_faults(struct store *s, struct memory_faults f);
/* Lets the held batch come to its end; nothing happens if none is held. */
void memory_release(struct store *s);
/* The operating system writes back what was handed over: no crash takes it any more. */
void memory_sync(struct store *s);
/* As if a commit had failed so, or the store had been opened so. No batch is under way. */
void memory_break(struct store *s, enum err_code code);
/* What store_free_space says from now on. */
void memory_set_free_space(struct store *s, int64_t bytes);
/* A crash of the process: a batch under way is applied or dropped (by `apply`). It is also one of
 * the machine if lose_unsynced: then the unsynced commits are lost, from the first one on. The
 * store is as after store_reopen. */
void memory_crash(struct store *s, bool apply, bool lose_unsynced);

#endif
