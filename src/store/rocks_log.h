/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STORE_ROCKS_LOG_H
#define STORE_ROCKS_LOG_H

/* The format that RocksDB's write-ahead logs and its MANIFEST share ("Write Ahead Log File Format"
 * of its wiki): blocks of fragments, each with a checksum, that make up records. */

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"

#define ROCKS_LOG_BLOCK  ((size_t)32768)
#define ROCKS_LOG_HEADER ((size_t)7)

enum rocks_log_type {
    ROCKS_LOG_PADDING,
    ROCKS_LOG_FULL,
    ROCKS_LOG_FIRST,
    ROCKS_LOG_MIDDLE,
    ROCKS_LOG_LAST
};

struct rocks_log {
    int fd; /* borrowed; read from its place on */
    unsigned char block[ROCKS_LOG_BLOCK];
    size_t size, at; /* of the block */
    bool ended;      /* at the end of the file, or at what is no whole record */
};

void rocks_log_init(struct rocks_log *log, int fd);
/* The next whole record; *found is false at the end, and ever after. What is broken is the end: so
 * is what a crash leaves of the last record. ERR_IO; ERR_VERSION for a record that is whole, but of
 * a type that this RocksDB does not write: it must not be passed over. */
NODISCARD struct err rocks_log_next(struct rocks_log *log, bool *found, struct buf *record);
/* Whether a fragment has the checksum that it says; it is as long as its header says. */
bool rocks_log_is_whole(const unsigned char *fragment);
/* Adds a fragment, of at most a block with its header. */
void rocks_log_add(struct buf *out, enum rocks_log_type type, struct str bytes);
/* An unsigned little-endian number. */
uint64_t rocks_log_number(const unsigned char *at, unsigned bytes);
/* Reads a block, less at the end of the file. ERR_IO. */
NODISCARD struct err rocks_log_read_block(int fd, unsigned char *block, size_t *size);

#endif
