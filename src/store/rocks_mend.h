/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STORE_ROCKS_MEND_H
#define STORE_ROCKS_MEND_H

/* Removes a table of RocksDB's that cannot be read, or only in part, from a root directory that
 * nobody has open.
 *
 * The file is kept, in the folder DAMAGED of the root directory. What can be read of it is written
 * to a new table. What cannot be read are whole ranges of keys; a key in one of them counts as
 * lost, unless a newer table has it, to which whoever calls this has brought what the log has: an
 * older value must not replace a lost one. Jobs
 * that have lost a part are set apart (record_put_apart), as far as their ids are known from other
 * records: those of the job, and the event log.
 *
 * Every step leaves a root directory that can be mended again from the start. */

#include <rocksdb/c.h>

#include "base/err.h"

#define ROCKS_MEND_FOLDER "damaged"

/* The options are those with which the root directory is opened. Logs what was lost. ERR_CORRUPT if
 * it is impossible; ERR_DISK_FULL, ERR_IO. */
NODISCARD struct err rocks_mend(const char *dir, const rocksdb_options_t *options, uint64_t table);
/* Removes what an interrupted mend has left. */
NODISCARD struct err rocks_mend_sweep(const char *dir);
/* The number of tables in that folder. */
uint64_t rocks_mend_kept(const char *dir);

#endif
