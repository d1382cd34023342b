/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STORE_LOG_FRAME_H
#define STORE_LOG_FRAME_H

/* The bytes of a segment of the log.
 *
 * A frame begins at a multiple of LOG_BLOCK and consists of sectors of LOG_SECTOR bytes, up to the
 * next block filled with zeros that nobody reads. A disk writes a sector as a whole or not at all;
 * so each has a header of its own, and what a power cut leaves of a frame is told from damage:
 *
 *     0   checksum (CRC-32C) of the sector's place in the segment and of the bytes from 4 on
 *     4   kind, version, two zeros
 *     8   generation
 *     16  number
 *     24  index of the sector in its frame
 *     28  length of the frame's contents
 *     32  contents, zeros at the end
 *
 * with all numbers little-endian. The generation rises with every use of a segment and with every
 * opening of the log, and never falls: a sector of an earlier generation is free.
 *
 *     SEGMENT  the first frame: number of the last batch before; the generation that ended with the
 *              segment before, and the size of this one
 *     BATCH    a batch and its number
 *     MARK     the log was opened: its generation counts from here. Number of the last batch; the
 *              generation before
 *     SEAL     the last frame: the log goes on in another segment. Number of the last batch; the
 *              generation of that segment, which was written before this */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

#define LOG_SECTOR      ((size_t)512)
#define LOG_BLOCK       ((size_t)4096)
#define LOG_SECTOR_ROOM ((size_t)480) /* for contents */

enum log_frame_kind { LOG_SEGMENT = 1, LOG_BATCH, LOG_MARK, LOG_SEAL };

struct log_frame {
    enum log_frame_kind kind;
    uint64_t generation, number;
    struct str contents; /* of a batch */
    uint64_t other;      /* of the rest: the other generation */
    uint64_t size;       /* of a segment */
};

/* The bytes of a frame, a multiple of LOG_BLOCK. */
size_t log_frame_size(size_t contents_len);
/* Writes log_frame_size bytes, for that place in the segment. */
void log_frame_write(unsigned char *to, uint64_t at, const struct log_frame *f);

/* What the first sector of a file says of it. */
enum log_head {
    LOG_HEAD_BLANK,  /* zeros: never used */
    LOG_HEAD_BROKEN, /* or too short */
    LOG_HEAD_UNUSED, /* a segment in which nothing was written yet */
    LOG_HEAD_USED,
};

/* Reads one segment. */
struct log_reader {
    int fd;              /* borrowed */
    uint64_t size;       /* of the segment, as far as the file has it */
    uint64_t at;         /* of the next frame */
    uint64_t generation; /* at this place */
    uint64_t last;       /* number of the batch before it */
    const char *fault;   /* a sentence about the damage */
    unsigned char *chunk;
    uint64_t chunk_at;
    size_t chunk_len;
};

enum log_found {
    LOG_FOUND_BATCH,
    LOG_FOUND_SEAL, /* f->other is the generation of the segment where it goes on */
    /* Nothing that was acknowledged can have been here: at most batches that were under way. */
    LOG_FOUND_END,
    LOG_FOUND_DAMAGE, /* see fault; the reader stays where it is */
};

/* Looks at the file, of which f tells if it is a segment. ERR_IO, ERR_VERSION. */
NODISCARD struct err log_reader_open(struct log_reader *r, int fd, enum log_head *head,
                                     struct log_frame *f);
/* The next frame that is no mark; contents are replaced by those of a batch. ERR_IO, ERR_VERSION.
 */
NODISCARD struct err log_reader_next(struct log_reader *r, enum log_found *found,
                                     struct log_frame *f, struct buf *contents);
void log_reader_fini(struct log_reader *r);

#endif
