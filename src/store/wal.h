/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STORE_WAL_H
#define STORE_WAL_H

/* RocksDB's log, seen from outside (its format: "Write Ahead Log File Format" of RocksDB's wiki).
 *
 * Its recovery ends at the first damage, without a word. After a crash that is right: the batch
 * that was being written had not been acknowledged. But each batch is synced before the next is
 * begun; so if a later one is whole, the damage came afterwards, and what it took had been
 * acknowledged. */

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

/* Whether a log in dir has a whole batch beyond the one that follows `last`, the sequence number
 * that recovery has reached. ERR_IO. */
NODISCARD struct err wal_goes_on(const char *dir, uint64_t last, bool *on);
/* Makes sure that all logs in dir, and their names, are on the disk. To be called before recovery:
 * RocksDB reads what a crash of the process left with the operating system, but never syncs it, and
 * answers rely on it from then on. ERR_DISK_FULL, ERR_IO. */
NODISCARD struct err wal_sync(const char *dir);

#endif
