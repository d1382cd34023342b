/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STORE_ROCKS_MANIFEST_H
#define STORE_ROCKS_MANIFEST_H

/* What RocksDB's MANIFEST, the list of its changes of tables, says of its logs, and one word to it.
 */

#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

struct rocks_manifest {
    uint64_t number;   /* of the file that CURRENT names; 0: there is no CURRENT */
    uint64_t log;      /* logs with lower numbers are not needed any more */
    uint64_t sequence; /* that was reached when it was last written */
};

/* Reads which file is the MANIFEST of the root directory dir: number alone. ERR_CORRUPT, ERR_IO. */
NODISCARD struct err rocks_manifest_find(const char *dir, struct rocks_manifest *m);
/* And what it says; what is broken is its end. ERR_CORRUPT, ERR_IO, ERR_VERSION. */
NODISCARD struct err rocks_manifest_read(const char *dir, struct rocks_manifest *m);
/* Takes in one of its records. What does not concern logs is passed over. */
void rocks_manifest_add(struct rocks_manifest *m, struct str record);
/* Adds a record, as RocksDB does, by which a table is none of its own any more, and syncs it.
 * Nobody has the root directory open. ERR_CORRUPT, ERR_IO, ERR_DISK_FULL. */
NODISCARD struct err rocks_manifest_drop(const char *dir, unsigned level, uint64_t table);

#endif
