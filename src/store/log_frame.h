/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STORE_LOG_FRAME_H
#define STORE_LOG_FRAME_H

/* The bytes of a segment of the log.
 *
 * A frame begins at a multiple of LOG_BLOCK and consists of sectors of LOG_SECTOR bytes, up to the
 * next block filled with zeros that nobody reads. A disk writes a sector as a whole or not at all;
 * so each has a header of its own, and what a power cut leaves of a frame is told from damage:
 *
 *     0   checksum (CRC-32C) of the sector's place (log_frame_place) and of the bytes from 4 on
 *     4   kind, version
 *     6   1 + how many of the batches before the frame were not durable when it was written; 0: not
 *         said
 *     7   1 + how many of them were not synced, and 0 likewise, or if they were more than 254
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
 *              generation of that segment, which was written before this
 *     REST     the log was idle: number of the last batch. The next frame takes its place
 *
 * What a frame says of the batches before it tells damage from what a crash may leave: a batch that
 * is missing was under way, and nobody was told of it, unless something behind it says that it was
 * durable. What is durable was synced, or, in a log that need not sync, left with the operating
 * system. Frames of version 1 do not say so: of these, LOG_UNDER_WAY_MAX may have been under way.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

#define LOG_SECTOR      ((size_t)512)
#define LOG_BLOCK       ((size_t)4096)
#define LOG_SECTOR_ROOM ((size_t)480) /* for contents */

enum log_frame_kind { LOG_SEGMENT = 1, LOG_BATCH, LOG_MARK, LOG_SEAL, LOG_REST };

struct log_frame {
    enum log_frame_kind kind;
    uint64_t generation, number;
    uint64_t durable, synced; /* batches up to these were, when it was written */
    struct str contents;      /* of a batch */
    uint64_t other;           /* of the rest: the other generation */
    uint64_t size;            /* of a segment */
};

/* The bytes of a frame, a multiple of LOG_BLOCK. */
size_t log_frame_size(size_t contents_len);
/* A place in the segment of that name: what a disk has put anywhere else is not taken for what
 * belongs there. Version 1 knew only the place within a segment. */
static inline uint64_t log_frame_place(uint64_t segment, uint64_t at)
{
    return segment << 40 ^ at;
}
/* Writes log_frame_size bytes, for that place. */
void log_frame_write(unsigned char *to, uint64_t place, const struct log_frame *f);

/* What the first sector of a file says of it. */
enum log_head {
    LOG_HEAD_BLANK,  /* zeros: never used */
    LOG_HEAD_BROKEN, /* or too short */
    LOG_HEAD_UNUSED, /* a segment in which nothing was written yet */
    LOG_HEAD_USED,
};

/* Reads one segment. */
struct log_reader {
    int fd;                   /* borrowed */
    uint64_t segment;         /* its name */
    uint64_t size;            /* of the segment, as far as the file has it */
    uint64_t at;              /* of the next frame */
    uint64_t generation;      /* at this place */
    uint64_t last;            /* number of the batch before it */
    uint64_t durable, synced; /* up to these they were, by what has been read */
    const char *fault;        /* a sentence about the damage */
    unsigned char *chunk;
    uint64_t chunk_at;
    size_t chunk_len;
};

enum log_found {
    LOG_FOUND_BATCH,
    LOG_FOUND_SEAL, /* f->other is the generation of the segment where it goes on */
    /* Nothing that was acknowledged can have been here: at most batches that were under way. */
    LOG_FOUND_END,
    /* What was never synced, and was acknowledged nevertheless, is missing: a power cut does that,
     * and so does damage. */
    LOG_FOUND_UNSYNCED,
    LOG_FOUND_DAMAGE, /* see fault, as with the one before; the reader stays where it is */
};

/* Looks at the file, of which f tells if it is a segment. ERR_IO, ERR_VERSION. */
NODISCARD struct err log_reader_open(struct log_reader *r, uint64_t segment, int fd,
                                     enum log_head *head, struct log_frame *f);
/* The next frame that is no mark; contents are replaced by those of a batch. ERR_IO, ERR_VERSION.
 */
NODISCARD struct err log_reader_next(struct log_reader *r, enum log_found *found,
                                     struct log_frame *f, struct buf *contents);
void log_reader_fini(struct log_reader *r);
/* The frame that begins at that place, whatever comes before it; *there is false if there is none,
 * or not as a whole. f->size is that of the frame. The reader stays where it is. ERR_IO,
 * ERR_VERSION. */
NODISCARD struct err log_reader_peek(struct log_reader *r, uint64_t at, bool *there,
                                     struct log_frame *f, struct buf *contents);

#endif
