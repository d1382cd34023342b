/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STORE_ROCKS_FRAGMENT_H
#define STORE_ROCKS_FRAGMENT_H

/* The records of RocksDB's MANIFEST: blocks of fragments, each with a checksum, which make up
 * records. (Its logs are framed likewise; nobody but RocksDB reads these.) */

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"

#define ROCKS_FRAGMENT_BLOCK  ((size_t)32768)
#define ROCKS_FRAGMENT_HEADER ((size_t)7)

enum rocks_fragment_type {
    ROCKS_FRAGMENT_PADDING,
    ROCKS_FRAGMENT_FULL,
    ROCKS_FRAGMENT_FIRST,
    ROCKS_FRAGMENT_MIDDLE,
    ROCKS_FRAGMENT_LAST
};

struct rocks_fragments {
    int fd; /* borrowed; read from its current position */
    unsigned char block[ROCKS_FRAGMENT_BLOCK];
    size_t size, at; /* of the block */
    bool ended;      /* at the end of the file, or at an incomplete record */
};

void rocks_fragment_init(struct rocks_fragments *log, int fd);
/* The next whole record; *found is false at the end, and ever after. Anything damaged counts as the
 * end, and so does an incomplete last record, as a crash leaves it. ERR_IO; ERR_VERSION for a whole
 * record of a type that this RocksDB does not write: it must not be skipped. */
NODISCARD struct err rocks_fragment_next(struct rocks_fragments *log, bool *found,
                                         struct buf *record);
/* Appends a fragment, which with its header takes at most one block. */
void rocks_fragment_add(struct buf *out, enum rocks_fragment_type type, struct str bytes);

#endif
