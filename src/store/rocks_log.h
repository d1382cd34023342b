/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STORE_ROCKS_LOG_H
#define STORE_ROCKS_LOG_H

/* The format of RocksDB's write-ahead logs and its MANIFEST ("Write Ahead Log File Format" of its
 * wiki): blocks of fragments, each with a checksum, which make up records. */

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
    int fd; /* borrowed; read from its current position */
    unsigned char block[ROCKS_LOG_BLOCK];
    size_t size, at; /* of the block */
    bool ended;      /* at the end of the file, or at an incomplete record */
};

void rocks_log_init(struct rocks_log *log, int fd);
/* The next whole record; *found is false at the end, and ever after. Anything damaged counts as the
 * end, and so does an incomplete last record, as a crash leaves it. ERR_IO; ERR_VERSION for a whole
 * record of a type that this RocksDB does not write: it must not be skipped. */
NODISCARD struct err rocks_log_next(struct rocks_log *log, bool *found, struct buf *record);
/* Whether the fragment matches the checksum in its header; its length is that in its header. */
bool rocks_log_is_whole(const unsigned char *fragment);
/* Appends a fragment, which with its header takes at most one block. */
void rocks_log_add(struct buf *out, enum rocks_log_type type, struct str bytes);
/* An unsigned little-endian number. */
uint64_t rocks_log_number(const unsigned char *at, unsigned bytes);
/* Reads a block, which is shorter at the end of the file. ERR_IO. */
NODISCARD struct err rocks_log_read_block(int fd, unsigned char *block, size_t *size);

#endif
