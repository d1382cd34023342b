/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STORE_STORE_H
#define STORE_STORE_H

/* Ordered keys and values on disk. Several implementations (memory, RocksDB), one contract suite
 * (tests/store/contract.c). All calls are made on one thread (the loop's) unless stated otherwise;
 * an implementation may commit on a thread of its own.
 *
 * Writes go through one batch at a time:
 *     store_commit(s, &batch, sync)      the batch is borrowed until it is reaped
 *     store_is_durable(s)                it may be acknowledged
 *     store_reap(s, &result)             true once reads see it, too (or it has failed)
 * Batches become durable in the order of their commits. Only one may be in progress.
 *
 * Batches are numbered from 1, in that order, without gaps, also over restarts. Whoever keeps a
 * copy of what he has made of the store's contents writes down the number that it goes up to, has
 * later batches kept by store_hold, and learns from store_replay at the next opening what came
 * after.
 *
 * After a failed commit the store refuses further commits (ERR_STORE) until store_reopen has
 * succeeded; reads of durable data go on. Whether a failed batch is there after a reopen is
 * undefined, as after a crash: all of it or nothing. */

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "store/batch.h"

struct store;
struct store_cursor;

/* Corrupt tables. A read or a commit that meets one fails with ERR_CORRUPT; the next store_reopen
 * sets it apart together with its keys, and the rest can be read. */
struct store_damage {
    bool found;      /* and not set apart yet */
    uint64_t tables; /* set apart so far, and kept */
};

#define STORE_HOLD_NONE UINT64_MAX

/* Told each operation of a batch in turn; views are valid during the call. An error ends it. */
typedef struct err (*store_replay_fn)(void *ctx, uint64_t number, const struct batch_op *op);

struct store_vt {
    struct err (*get)(struct store *s, struct str key, bool *found, struct buf *value);
    void (*commit)(struct store *s, const struct batch *b, bool sync);
    bool (*durable)(struct store *s); /* NULL: not before it is reaped */
    bool (*reap)(struct store *s, struct err *result);
    void (*wait)(struct store *s);
    int (*wake_fd)(const struct store *s); /* NULL: it has none */
    struct err (*reopen)(struct store *s);
    uint64_t (*number)(const struct store *s); /* NULL: its batches have no numbers */
    void (*hold)(struct store *s, uint64_t number);
    struct err (*replay)(struct store *s, uint64_t from, store_replay_fn fn, void *ctx);
    struct err (*failure)(const struct store *s);
    void (*damage)(struct store *s, struct store_damage *out); /* NULL: there never is any */
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

/* Replaces *value by the value of key; *found is false if there is none. Sees what was reaped, not
 * what is being committed (backend/embedded/embedded_port.c looks there first). ERR_STORE,
 * ERR_CORRUPT. */
NODISCARD struct err store_get(struct store *s, struct str key, bool *found, struct buf *value);

/* Begins to make the batch durable: on disk by fsync if sync, otherwise handed to the operating
 * system. */
void store_commit(struct store *s, const struct batch *b, bool sync);
/* Whether the batch in progress is durable though it has not ended: whatever store_reap says of it
 * later, it is there after a reopen. Cursors and snapshots that are made from now on have it. False
 * if none is in progress, or if nobody knows. */
bool store_is_durable(struct store *s);
/* Whether the batch in progress has ended, and with what result: ERR_DISK_FULL, ERR_STORE,
 * ERR_CORRUPT. */
bool store_reap(struct store *s, struct err *result);
/* Blocks until store_reap would return true. A batch must be in progress. */
void store_wait(struct store *s);
/* A descriptor that is readable while store_reap has something to do; the same until store_close.
 * -1: there is none, and what the store was opened with says how it tells. Batches may end without
 * it. */
int store_wake_fd(const struct store *s);
/* Closes and reopens the store, as after a crash: what was not synced may be gone. What is there
 * afterwards is synced, as after the first opening, because answers will be based on it. */
NODISCARD struct err store_reopen(struct store *s);

/* The number of the last batch that is there: that was reaped, and that reads see. 0: there never
 * was one, or the store does not number them. Of batches that were not synced a power cut may lose
 * the last ones, and their numbers are given again then: a copy that goes further than this is to
 * be thrown away before the next commit. */
uint64_t store_number(const struct store *s);
/* Batches after that number are kept for store_replay, also over restarts, until it is called with
 * a higher one or STORE_HOLD_NONE, which is how it begins. They take room on the disk: with a
 * number that stays behind, any amount of it. It is on the disk some time later; until then, and
 * whenever files are lost, what counts is the call before. */
void store_hold(struct store *s, uint64_t number);
/* Calls fn for all operations of each batch from that number on, in order. Only between the opening
 * or a reopen and the first commit. ERR_NOT_FOUND if one of them is not kept any more: before any
 * call of fn; ERR_CORRUPT, ERR_IO, and the errors of fn. */
NODISCARD struct err store_replay(struct store *s, uint64_t from, store_replay_fn fn, void *ctx);

/* Why commits are refused until store_reopen succeeds, or ERR_OK. With ERR_DISK_FULL a store may be
 * in this state from its opening: all of it can be read. No batch may be in progress. */
NODISCARD struct err store_failure(const struct store *s);

/* Reads a folder: too slow to call in every turn. */
void store_damage(struct store *s, struct store_damage *out);

/* A cursor sees a consistent snapshot of what was durable when it was made. */
struct store_cursor *store_cursor_new(struct store *s);
/* Moves to the first key >= key, or backwards to the last key < key. */
void store_cursor_seek(struct store_cursor *c, struct store *s, struct str key, bool backwards);
/* False past the end. The views are valid until the next step or seek. */
bool store_cursor_at(const struct store_cursor *c, const struct store *s, struct str *key,
                     struct str *value);
void store_cursor_step(struct store_cursor *c, struct store *s, bool backwards);
/* Returns the read error met on the way, if any. */
NODISCARD struct err store_cursor_free(struct store_cursor *c, struct store *s);

/* Bytes that may still be written to the underlying file system; INT64_MAX if unlimited. */
int64_t store_free_space(struct store *s);
/* Approximate bytes used on disk. */
uint64_t store_disk_bytes(struct store *s);
/* Creates the folder dir, on the file system of the store, with everything that is durable, as a
 * store of its own. Unlike the other functions it may be called on any thread, while the loop goes
 * on; it blocks, and store_reopen and store_close wait for it. ERR_DISK_FULL, ERR_STORE, ERR_IO,
 * ERR_NOT_SUPPORTED. */
NODISCARD struct err store_snapshot(struct store *s, const char *dir);
/* Rewrites the tables without deleted records. May be called like store_snapshot, and blocks.
 * ERR_STORE, ERR_STOPPING, ERR_NOT_SUPPORTED. */
NODISCARD struct err store_compact(struct store *s);
/* Makes current and future calls of store_compact return soon. On any thread. */
void store_compact_stop(struct store *s);
/* Waits for a batch in progress, closes, frees. */
void store_close(struct store *s);

#endif
