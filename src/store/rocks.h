/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STORE_ROCKS_H
#define STORE_ROCKS_H

/* The store on RocksDB. Commits happen on a thread of its own; notify(ctx) is called on that thread
 * whenever a batch has ended, and must do nothing but wake the loop. Small ones are written by the
 * kernel without the thread, where it has an io_uring: then store_wake_fd tells of their end, and
 * store_reap brings them to the tables.
 *
 * A commit that would leave too little room on the disk for what RocksDB still has to write out is
 * refused with ERR_DISK_FULL before any of it is written. store_reopen then fails with
 * ERR_DISK_FULL, while reads go on, until there is room again; it may be retried any number of
 * times. Cursors must be freed before store_reopen and store_close. */

#include "store/store.h"

struct rocks_foreign;

struct rocks_settings {
    const char *dir;      /* created if absent; locked against a second process: ERR_LOCKED */
    uint64_t cache_bytes; /* block cache */
    int files_max;        /* tables that are kept open; 0: 512 */
    /* Commits were not synced: after a power cut the log may have gaps, and everything after a gap
     * is given up. Otherwise a gap is damage: ERR_CORRUPT. */
    bool lossy;
    bool unsynced;      /* that is so of some of them: the same where those are what is missing */
    uint64_t log_bytes; /* of commits, after which they are written to tables; 0: 256 MiB */
    bool no_ring;       /* every commit on the thread */
    /* The log is PostgreSQL's, and what is here only a copy (store/rocks_foreign.h); NULL: it is in
     * dir. Valid during rocks_open; what is in it, until store_close. */
    const struct rocks_foreign *foreign;
    void (*notify)(void *ctx);
    void *ctx;
};

/* If the disk is full, opens the store for reading: see store_failure. ERR_LOCKED, ERR_CORRUPT,
 * ERR_IO; ERR_DISK_FULL if even that is impossible. */
NODISCARD struct err rocks_open(const struct rocks_settings *settings, struct store **out);

/* Locks a root directory against a server as long as fd is open. ERR_LOCKED, ERR_IO. The fd is -1
 * if nothing can be written there, in which case no server could run either. */
NODISCARD struct err rocks_lock(const char *dir, int *fd);
void rocks_unlock(int fd);
/* Opens a root directory that nobody is using (see rocks_lock) for inspection: only store_get,
 * cursors and store_close may be called. Verifies every checksum that it passes. Changes nothing.
 * ERR_CORRUPT, ERR_IO. */
NODISCARD struct err rocks_open_reader(const char *dir, uint64_t cache_bytes, struct store **out);

#endif
