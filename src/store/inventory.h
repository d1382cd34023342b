/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STORE_INVENTORY_H
#define STORE_INVENTORY_H

/* A file INVENTORY in the root directory, which lists what must be there: how long the MANIFEST was
 * when it was written and what it contained, and how far the log (log_file.h) had come. If some of
 * these files are lost, RocksDB takes the rest for all that there ever was, and removes what
 * nothing refers to any more; so a start checks them against the inventory first.
 *
 * The file has two places that are written in turn, each with a checksum, and never grows: it can
 * be written even if the disk is full. Everything that it names is synced before. A root directory
 * without one is from an older tenax, or a backup, and is accepted as it is.
 *
 * One of version 1 is from the time when the log was RocksDB's, and lists its files: it is read, so
 * that an upgrade begins with everything. Such a tenax refuses one of version 2, and with it a log
 * that it would not read; and so does one of version 2 with one of version 3. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"
#include "store/wal.h"

#define INVENTORY_FILE  "INVENTORY"
#define INVENTORY_PLACE ((size_t)16384)
#define INVENTORY_LOGS  ((size_t)700) /* how many fit */

struct inventory_state {
    uint64_t tables, reached; /* last batches that tables hold, and that is on the disk at all */
    uint64_t held;            /* batches after it are kept in any case; UINT64_MAX: none are */
    bool damaged;             /* a table could not be read; see store/rocks.c */
};

struct inventory {
    uint64_t generation; /* the place with the higher one counts */
    uint64_t manifest, manifest_size;
    uint32_t manifest_checksum; /* of its first manifest_size bytes */
    bool has_log;               /* the log is ours; else what follows `is` is of RocksDB's */
    struct inventory_state is;  /* without a log: only `damaged` */
    uint64_t sequence;          /* of the newest write that is in tables or logs */
    size_t log_count;
    struct wal_file logs[INVENTORY_LOGS]; /* those that were not empty; they may have grown since */
};

/* Decodes one place of the file. ERR_CORRUPT. */
NODISCARD struct err inventory_decode(struct str place, struct inventory *out);
/* Into INVENTORY_PLACE bytes. */
void inventory_encode(const struct inventory *inv, char *place);

/* Reads the inventory of dir; *found is false if there is none. ERR_CORRUPT, ERR_IO. */
NODISCARD struct err inventory_read(const char *dir, bool *found, struct inventory *out);
/* Checks which files are in dir, which nobody may be using, against its inventory, except for our
 * log, which whoever opens it checks. Changes nothing. *out is the inventory, zeros if there is
 * none. ERR_CORRUPT says what is missing or damaged and what to do; ERR_IO, ERR_VERSION. */
NODISCARD struct err inventory_check(const char *dir, struct inventory *out);

/* Whether a store may be created in dir, which has none: not if it contains foreign files, or
 * tables or logs without a CURRENT. ERR_USAGE, ERR_CORRUPT, ERR_IO. */
NODISCARD struct err inventory_check_new(const char *dir);

/* Writes the inventory of a root directory in use. */
struct inventory_writer;
/* Creates the file if there is none. ERR_DISK_FULL, ERR_IO, ERR_CORRUPT. */
NODISCARD struct err inventory_writer_new(const char *dir, struct inventory_writer **out);
void inventory_writer_free(struct inventory_writer *w);
/* Syncs and records what is there: of `is`, the numbers, and damage if there is any. ERR_DISK_FULL,
 * ERR_IO, ERR_CORRUPT. */
NODISCARD struct err inventory_write(struct inventory_writer *w, const struct inventory_state *is);

#endif
