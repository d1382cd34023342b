/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STORE_WAL_H
#define STORE_WAL_H

/* RocksDB's logs, seen from outside: which files there are. What is in them RocksDB alone knows.
 * They are empty since there is a log of our own (log.h); those of an older tenax are not. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct wal_file {
    uint64_t number, size;
};

/* The logs in dir, sorted by number; the caller frees *files. ERR_IO. */
NODISCARD struct err wal_list(const char *dir, struct wal_file **files, size_t *count);
/* Whether one of them is not empty. ERR_IO. */
NODISCARD struct err wal_any(const char *dir, bool *any);
/* Syncs all logs in dir and their names. To be called before recovery: RocksDB reads what a crashed
 * process left with the operating system, but never syncs it, and answers depend on it from then
 * on. ERR_DISK_FULL, ERR_IO. */
NODISCARD struct err wal_sync(const char *dir);

#endif
