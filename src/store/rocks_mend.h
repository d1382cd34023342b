/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STORE_ROCKS_MEND_H
#define STORE_ROCKS_MEND_H

/* Takes a table of RocksDB's that cannot be read, or only in part, out of a root directory that
 * nobody has open.
 *
 * The file is kept, in the folder DAMAGED of the root directory. What can be read of it is written
 * anew. What cannot be read are whole ranges of keys; a key in one of them counts as lost, unless a
 * newer table or the log has it: an older value must not come back in the place of a lost one. Jobs
 * of which a part was lost are set apart (record_put_apart), as far as their ids are known from
 * other records: those of the job, and the log of events.
 *
 * Every step leaves a root directory that can be mended again from the start. */

#include <rocksdb/c.h>

#include "base/err.h"

#define ROCKS_MEND_FOLDER "damaged"

/* The options are those the root directory is opened with. Says in the log what was lost.
 * ERR_CORRUPT if it cannot be done; ERR_DISK_FULL, ERR_IO. */
NODISCARD struct err rocks_mend(const char *dir, const rocksdb_options_t *options, uint64_t table);
/* Removes what a mend that was cut off has left. */
NODISCARD struct err rocks_mend_sweep(const char *dir);
/* How many tables are kept in that folder. */
uint64_t rocks_mend_kept(const char *dir);

#endif
