/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STORE_ROCKS_MANIFEST_H
#define STORE_ROCKS_MANIFEST_H

/* RocksDB's MANIFEST, the list of its changes to tables: what it says about the logs, and adding a
 * record to it. */

#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

struct rocks_manifest {
    uint64_t number;   /* of the file that CURRENT names; 0: there is no CURRENT */
    uint64_t log;      /* logs with lower numbers are no longer needed */
    uint64_t sequence; /* the one reached when it was last written */
};

/* Finds the file that is the MANIFEST of the root directory dir: sets only number. ERR_CORRUPT,
 * ERR_IO. */
NODISCARD struct err rocks_manifest_find(const char *dir, struct rocks_manifest *m);
/* Also reads its contents; anything damaged counts as its end. ERR_CORRUPT, ERR_IO, ERR_VERSION. */
NODISCARD struct err rocks_manifest_read(const char *dir, struct rocks_manifest *m);
/* Applies one of its records. Whatever is not about logs is ignored. */
void rocks_manifest_add(struct rocks_manifest *m, struct str record);
/* Appends a record, as RocksDB does, that removes a table from the database, and syncs it. Nobody
 * may have the root directory open. ERR_CORRUPT, ERR_IO, ERR_DISK_FULL. */
NODISCARD struct err rocks_manifest_drop(const char *dir, unsigned level, uint64_t table);

#endif
