/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STORE_WAL_H
#define STORE_WAL_H

/* RocksDB's logs, seen from outside.
 *
 * RocksDB's recovery ends at the first damage, and silently skips a log that is missing. After a
 * crash that is right: the batch that was being written had not been acknowledged. But each batch
 * is synced before the next is begun; so if a later one is whole, the damage happened afterwards,
 * and what it destroyed had been acknowledged. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct wal_file {
    uint64_t number, size;
};

/* The logs in dir, sorted by number; the caller frees *files. ERR_IO. */
NODISCARD struct err wal_list(const char *dir, struct wal_file **files, size_t *count);
/* Raises *last, the sequence number that the tables have reached, to the one that recovery from the
 * logs with at least the number `first` reaches. Verifies every checksum on the way. ERR_IO,
 * ERR_VERSION. */
NODISCARD struct err wal_reach(const char *dir, uint64_t first, uint64_t *last);
/* Whether a log in dir has a whole batch beyond the one that follows `last`, the sequence number
 * that recovery has reached. ERR_IO. */
NODISCARD struct err wal_goes_on(const char *dir, uint64_t last, bool *on);
/* Syncs all logs in dir and their names. To be called before recovery: RocksDB reads what a crashed
 * process left with the operating system, but never syncs it, and answers depend on it from then
 * on. ERR_DISK_FULL, ERR_IO. */
NODISCARD struct err wal_sync(const char *dir);
/* Syncs one log, if it exists. ERR_DISK_FULL, ERR_IO. */
NODISCARD struct err wal_sync_one(const char *dir, uint64_t number);

#endif
