/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STORE_INVENTORY_H
#define STORE_INVENTORY_H

/* What must be there: a file INVENTORY in the root directory, which says how far the MANIFEST and
 * the logs had come when it was written, and what the MANIFEST had in it. RocksDB takes whatever is
 * left of these for all there ever was, and removes what nothing names any more; so a start holds
 * them against the inventory first.
 *
 * The file has two places that are written in turn, each with a checksum, and never grows: a full
 * disk does not keep it from being written. All that it names is synced before it is. A root
 * directory without one is from an older tenax, or a backup, and is taken as it is. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"
#include "store/wal.h"

#define INVENTORY_FILE  "INVENTORY"
#define INVENTORY_PLACE ((size_t)16384)
#define INVENTORY_LOGS  ((size_t)700) /* so many fit */

struct inventory {
    uint64_t generation; /* the place with the higher one counts */
    uint64_t manifest, manifest_size;
    uint32_t manifest_checksum; /* of so many bytes from its beginning */
    uint64_t sequence;          /* of the newest write that is in tables or logs */
    bool damaged;               /* a table could not be read; see store/rocks.c */
    size_t log_count;
    struct wal_file logs[INVENTORY_LOGS]; /* that had something in them; they may have grown */
};

/* Decodes one place of the file. ERR_CORRUPT. */
NODISCARD struct err inventory_decode(struct str place, struct inventory *out);
/* Into INVENTORY_PLACE bytes. */
void inventory_encode(const struct inventory *inv, char *place);

/* Reads the one of dir; *found is false if there is none. ERR_CORRUPT, ERR_IO. */
NODISCARD struct err inventory_read(const char *dir, bool *found, struct inventory *out);
/* Holds what is in dir, which nobody uses, against its inventory and itself. Nothing is changed.
 * With `lossy`, the end of the logs may have been lost, which is logged. *damaged as the inventory
 * says. ERR_CORRUPT says what is missing or damaged and what to do; ERR_IO, ERR_VERSION. */
NODISCARD struct err inventory_check(const char *dir, bool lossy, bool *damaged);

/* Whether a store may be made in dir, where there is none: not if something is in it that is not
 * ours, or tables or logs whose CURRENT is gone. ERR_USAGE, ERR_CORRUPT, ERR_IO. */
NODISCARD struct err inventory_check_new(const char *dir);

/* Writes the inventory of a root directory in use. */
struct inventory_writer;
/* Makes the file if there is none. ERR_DISK_FULL, ERR_IO, ERR_CORRUPT. */
NODISCARD struct err inventory_writer_new(const char *dir, struct inventory_writer **out);
void inventory_writer_free(struct inventory_writer *w);
/* Syncs and writes down what is there. Nobody writes to the logs meanwhile; sequence is that of the
 * last write to them. ERR_DISK_FULL, ERR_IO, ERR_CORRUPT. */
NODISCARD struct err inventory_write(struct inventory_writer *w, uint64_t sequence, bool damaged);

#endif
