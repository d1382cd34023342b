/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STORE_STORE_H
#define STORE_STORE_H

/* Ordered keys and values on disk. Several implementations (memory, RocksDB), one
 * contract suite (tests/store/contract.c). All calls are made on one thread (the
 * loop's); an implementation may commit on a thread of its own.
 *
 * Writes go through one batch at a time:
 *     store_commit(s, &batch, sync)      the batch is borrowed until it is reaped
 *     store_reap(s, &done, &result)      true once it is durable (or failed)
 * Batches become durable in the order of their commits. Only one may be under way.
 *
 * After a failed commit the store refuses further commits (ERR_STORE) until
 * store_reopen has succeeded; reads of what was durable go on. Whether a failed batch
 * is there after a reopen is open, as after a crash: all of it or nothing. */

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "store/batch.h"

struct store;
struct store_cursor;

/* Bytes of tables that are not what was written. A read or a commit that meets them is ERR_CORRUPT;
 * the next store_reopen sets them apart, with the keys that they had, and the rest can be read. */
struct store_damage {
    bool found;      /* and not set apart yet */
    uint64_t tables; /* that were set apart so far, and are kept */
};

struct store_vt {
    struct err (*get)(struct store *s, struct str key, bool *found, struct buf *value);
    void (*commit)(struct store *s, const struct batch *b, bool sync);
    bool (*reap)(struct store *s, struct err *result);
    void (*wait)(struct store *s);
    struct err (*reopen)(struct store *s);
    struct err (*failure)(const struct store *s);
    void (*damage)(struct store *s, struct store_damage *out); /* NULL: there is none */
    struct store_cursor *(*cursor_new)(struct store *s);
    void (*cursor_seek)(struct store_cursor *c, struct str key, bool backwards);
    bool (*cursor_at)(const struct store_cursor *c, struct str *key, struct str *value);
    void (*cursor_step)(struct store_cursor *c, bool backwards);
    struct err (*cursor_free)(struct store_cursor *c);
    int64_t (*free_space)(struct store *s);
    uint64_t (*disk_bytes)(struct store *s);
    struct err (*snapshot)(struct store *s, const char *dir); /* NULL: it cannot */
    struct err (*compact)(struct store *s);                   /* likewise */
    void (*compact_stop)(struct store *s);
    void (*close)(struct store *s);
};

/* First member of every implementation. */
struct store {
    const struct store_vt *vt;
};

/* Replaces *value by the value of key; *found false if there is none. Sees what is
 * durable, not what is being committed (backend/embedded/embedded.c looks there first). ERR_STORE,
 * ERR_CORRUPT. */
NODISCARD struct err store_get(struct store *s, struct str key, bool *found, struct buf *value);

/* Begins to make the batch durable: on disk by fsync if sync, else handed to the
 * operating system. */
void store_commit(struct store *s, const struct batch *b, bool sync);
/* Whether the batch under way has come to its end, and how: ERR_DISK_FULL, ERR_STORE, ERR_CORRUPT.
 */
bool store_reap(struct store *s, struct err *result);
/* Blocks until store_reap would return true. Only with a batch under way. */
void store_wait(struct store *s);
/* Closes and opens again, as after a crash: what was not synced may be gone. What is there
 * afterwards is synced, as it is after the first opening: it is answered with. */
NODISCARD struct err store_reopen(struct store *s);

/* Why commits are refused until store_reopen succeeds, or ERR_OK. A store may be opened so, with
 * ERR_DISK_FULL: all of it can be read. Not with a batch under way. */
NODISCARD struct err store_failure(const struct store *s);

/* A look into a folder: not for every turn. */
void store_damage(struct store *s, struct store_damage *out);

/* A cursor sees a consistent snapshot of what was durable when it was made. */
struct store_cursor *store_cursor_new(struct store *s);
/* To the first key >= key, or backwards to the last key < key. */
void store_cursor_seek(struct store_cursor *c, struct store *s, struct str key, bool backwards);
/* False past the end. The views are valid until the next step or seek. */
bool store_cursor_at(const struct store_cursor *c, const struct store *s, struct str *key,
                     struct str *value);
void store_cursor_step(struct store_cursor *c, struct store *s, bool backwards);
/* Reports a read error met on the way. */
NODISCARD struct err store_cursor_free(struct store_cursor *c, struct store *s);

/* Bytes that may still be written to the file system below; INT64_MAX if that is no question. */
int64_t store_free_space(struct store *s);
/* Bytes used on disk, about. */
uint64_t store_disk_bytes(struct store *s);
/* Makes the folder dir, which is on the file system of the store, with all that is durable,
 * as a store of its own. Unlike all else it may be called on any thread, while the loop goes
 * on; it blocks, and store_reopen and store_close wait for it. ERR_DISK_FULL, ERR_STORE,
 * ERR_IO, ERR_NOT_SUPPORTED. */
NODISCARD struct err store_snapshot(struct store *s, const char *dir);
/* Rewrites the tables without what was deleted. May be called as store_snapshot is, and blocks.
 * ERR_STORE, ERR_STOPPING, ERR_NOT_SUPPORTED. */
NODISCARD struct err store_compact(struct store *s);
/* Makes those under way, and all to come, return soon. On any thread. */
void store_compact_stop(struct store *s);
/* Waits for a batch under way, closes, frees. */
void store_close(struct store *s);

#endif
