/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STORE_MEMORY_H
#define STORE_MEMORY_H

/* A store in memory for tests and the simulator. It keeps what was synced apart from what was only
 * written, and can be told to misbehave as a disk does. */

#include "store/store.h"

/* What the next commits do. Zero: succeed at once. */
struct memory_faults {
    /* The batch stays in progress until memory_release is called. */
    bool hold;
    /* The next commit fails with this code and nothing of it is kept ... */
    enum err_code fail;
    /* ... unless this is set: then the batch is there after a reopen although its commit failed. */
    bool fail_but_keep;
    /* Recovery does not sync what it has read, which breaks the promise of store_reopen: for tests
     * that must detect it. */
    bool recover_unsynced;
};

struct store *memory_new(void);
/* Applies to the commits that follow. */
void memory_set_faults(struct store *s, struct memory_faults f);
/* Completes the held batch, if there is one. */
void memory_release(struct store *s);
/* The operating system writes everything back: no crash can lose it any more. */
void memory_sync(struct store *s);
/* As if a commit, or the opening of the store, had failed with that code. No batch may be in
 * progress. */
void memory_break(struct store *s, enum err_code code);
/* Sets what store_free_space returns from now on. */
void memory_set_free_space(struct store *s, int64_t bytes);
/* A crash of the process: a batch in progress is applied or dropped, as `apply` says. With
 * lose_unsynced also a crash of the machine: the unsynced commits are lost, from the first one on.
 * The store is as after store_reopen. */
void memory_crash(struct store *s, bool apply, bool lose_unsynced);

#endif
