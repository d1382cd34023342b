/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STORE_ROCKS_FOREIGN_H
#define STORE_ROCKS_FOREIGN_H

/* The store on RocksDB whose log is PostgreSQL's (store/log_postgres.h). PostgreSQL has the truth:
 * its table records, and its log after that. RocksDB is a copy for reads, in the folder `cache` of
 * the root directory, and is never synced. Its tables say of which database, shard, epoch and batch
 * they are (in the same write as the batch). When it is opened,
 *
 *   - a copy of what is there, to which the log has what follows, is brought up to date from it;
 *   - any other, and a damaged one, is thrown away, and made anew from records and log;
 *   - one that has batches of its own that PostgreSQL lacks is proof that acknowledged commits were
 *     lost: ERR_POSTGRES_LOST, and it is left alone. With accept_loss, or where that was accepted
 * by any server (postgres/pg_alarm.h), it is set aside, as the folder `cache-lost-EPOCH-BATCH`, and
 *     the store opens with what PostgreSQL has.
 *
 * A reopen that finds less than the store has acknowledged since it was opened fails with
 * ERR_POSTGRES_LOST, whatever the copy has and accept_loss says. An opening that takes longer than
 * the lease fails with ERR_FENCED.
 *
 * A thread with a connection of its own brings records up to date (store/records.h) and empties the
 * tables of the log that nobody needs. Commits are on the store's thread, always: notify is called
 * for each. A commit fails with ERR_FENCED, ERR_POSTGRES, ERR_POSTGRES_LOST, ERR_POSTGRES_REFUSED
 * or ERR_DISK_FULL (of PostgreSQL's disk, or this one's); store_reopen goes on in the same epoch,
 * where that is possible. */

#include "base/units.h"
#include "store/log_postgres.h"
#include "store/store.h"

#define ROCKS_FOREIGN_FOLDER "cache"

/* A member of struct rocks_settings; with it, lossy, log_bytes and no_ring do not matter. */
struct rocks_foreign {
    struct log_postgres_settings log; /* `from` and `begin` are the store's to set */
    bool accept_loss;
    /* It gets on with its opening: called now and then, with log.ctx. NULL: nobody wants to know.
     */
    void (*works)(void *ctx);
    span flush_after;   /* records show what is older than that, at about twice it; 0: 5 s */
    uint64_t log_bytes; /* of a table of the log, after which it goes on in the next; 0: 64 MiB */
};

enum rocks_foreign_start {
    ROCKS_FOREIGN_KEPT,  /* the copy was good */
    ROCKS_FOREIGN_NEW,   /* there was none */
    ROCKS_FOREIGN_STALE, /* the log has let go of what follows it, or it is of another database */
    ROCKS_FOREIGN_DAMAGED,
    ROCKS_FOREIGN_LOST, /* accept_loss */
};

struct rocks_foreign_state {
    enum rocks_foreign_start start;
    uint64_t loaded;           /* records read at the start */
    uint64_t replayed;         /* batches of the log */
    uint64_t seq;              /* the last batch */
    uint64_t acceptance;       /* of lost commits, the last one: an id of it; 0: there was none */
    uint64_t flushed;          /* records show everything up to this one */
    span lag;                  /* everything acknowledged so long ago is in records */
    uint64_t written, removed; /* records, since the start */
    uint64_t log_bytes;        /* of all tables of the log, when it was last looked */
    struct err failure;        /* of the last flush, unless it succeeded */
};

/* Of a store that was opened with rocks_settings.foreign. On the loop's thread. */
void rocks_foreign_state(struct store *s, struct rocks_foreign_state *out);
/* Whether PostgreSQL had no room for the last batch that it was sent: the disk here is not at
 * fault. Likewise. */
bool rocks_foreign_is_full(struct store *s);

#endif
