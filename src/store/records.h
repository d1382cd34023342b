/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STORE_RECORDS_H
#define STORE_RECORDS_H

/* Brings the table records in PostgreSQL up to date, lazily, on a thread and a connection of its
 * own, and has the log let go of what nobody needs.
 *
 * Every few seconds it asks up to which batch the tables here go. At the next time it flushes what
 * has changed up to that one, from what tables have *now*: whoever came and went meanwhile is never
 * written. It learns the keys from the log in PostgreSQL, in parts of bounded size. Records then
 * show everything up to that batch, and of what came later perhaps some; with the log's batches
 * after it they are complete.
 *
 * A key that is gone is deleted there only if it may be there: a Bloom filter has all keys that
 * were here at its making, or were written since. Batches from before its making are not known to
 * it, and all their keys that are gone are deleted.
 *
 * All of it is fenced by the epoch; when another server owns the shard the thread ends. */

#include "base/units.h"
#include "postgres/pg.h"

struct records_settings {
    struct pg_settings pg;
    int shard;
    uint64_t epoch;
    span flush_after;
    uint64_t log_bytes; /* of a table, after which the log goes on in the next one */
    /* All are called on the thread. */
    uint64_t (*upto)(void *ctx); /* the last batch that tables here have */
    uint64_t (*held)(void *ctx); /* batches after it stay in the log */
    struct err (*get)(void *ctx, struct str key, bool *found, struct buf *value);
    struct err (*each)(void *ctx, struct err (*fn)(void *to, struct str key), void *to);
    void (*rotated)(void *ctx); /* the tables here should be on the disk soon */
    void *ctx;
};

struct records_state {
    uint64_t flushed;
    span lag; /* everything acknowledged so long ago is in records */
    uint64_t written, removed;
    uint64_t log_bytes;
    struct err failure;
};

struct records;

/* Starts the thread. Records hold everything up to the batch `flushed`. ERR_IO. */
NODISCARD struct err records_new(const struct records_settings *settings, uint64_t flushed,
                                 struct records **out);
/* On any thread. */
void records_state(struct records *r, struct records_state *out);
/* Ends what is under way, and the thread. NULL is fine. */
void records_free(struct records *r);

#endif
