/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STORE_ROCKS_H
#define STORE_ROCKS_H

/* The store on RocksDB. Commits happen on one thread of its own; notify(ctx) is
 * called on that thread whenever a batch has come to its end, and must only wake
 * the loop.
 *
 * A commit that would leave too little room on the disk for what RocksDB still has
 * to write out is refused with ERR_DISK_FULL before any of it is written. store_reopen
 * then fails with ERR_DISK_FULL, and reads go on, until there is room again; it can
 * be tried as often as one likes. Cursors must be freed before store_reopen and
 * store_close. */

#include "store/store.h"

struct rocks_settings {
    const char *dir;      /* made if absent; locked against a second process: ERR_LOCKED */
    uint64_t cache_bytes; /* block cache */
    int files_max;        /* tables that are kept open; 0: 512 */
    /* Commits were not synced: after a power cut the log may have holes, and what lies behind
     * one is given up. Otherwise a hole is damage: ERR_CORRUPT. */
    bool lossy;
    void (*notify)(void *ctx);
    void *ctx;
};

/* On a full disk what is there is opened for reading: see store_failure. ERR_LOCKED, ERR_CORRUPT,
 * ERR_IO; ERR_DISK_FULL if not even that can be. */
NODISCARD struct err rocks_open(const struct rocks_settings *settings, struct store **out);

/* Locks a root directory against a server as long as fd is open. ERR_LOCKED, ERR_IO. The fd is
 * -1 where nothing can be written, so that no server could run either. */
NODISCARD struct err rocks_lock(const char *dir, int *fd);
void rocks_unlock(int fd);
/* Opens a root directory that nobody uses (see rocks_lock) to look at it: for store_get,
 * cursors and store_close alone. Every checksum on the way is verified. Nothing is changed.
 * ERR_CORRUPT, ERR_IO. */
NODISCARD struct err rocks_open_reader(const char *dir, uint64_t cache_bytes, struct store **out);

#endif
