/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STORE_LOG_SEGMENT_H
#define STORE_LOG_SEGMENT_H

/* The files of the log: "segment-000001" and so on, in its folder. Each has its full length,
 * written out with zeros, before it is used, so that an append changes nothing but contents: no
 * size, no place on the disk, no journal of the file system. When nobody needs its batches any more
 * it is used again. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "store/log_frame.h"

#define LOG_SEGMENT_PREFIX "segment-"

struct log_segment {
    uint64_t name; /* its number in the file name */
    int direct; /* by-passes the page cache, every write is synced; -1: this file system cannot */
    int plain;
    uint64_t file_size, size; /* as it is; as its first frame says */
    enum log_head head;       /* as found */
    uint64_t generation;
    uint64_t other;        /* the generation that ended with the segment before it */
    uint64_t before, last; /* numbers of the last batch before it, and of its own last one */
    bool free;             /* may be used anew */
    bool visited;          /* by a walk: it belongs to the log */
};

/* Opens all of them, sorted by generation; the caller frees each, and the list, whatever it
 * returns. What they say is believed no further than that. With read_only nothing is changed and
 * none can be written; otherwise what is found is on the disk, with its name. ERR_IO, ERR_VERSION.
 */
NODISCARD struct err log_segment_list(const char *dir, bool read_only, bool no_direct,
                                      struct log_segment ***list, size_t *count);
/* How one is made beside others' writes, in small pieces. */
struct log_segment_pace {
    /* Called after each; `written` is the bytes so far. True: they may come first for a moment. */
    bool (*may_rest)(void *ctx, uint64_t written);
    void *ctx;
};
/* Creates a blank one of that size, a multiple of LOG_BLOCK, on the disk with its name. pace NULL:
 * as fast as possible. Called on any thread. ERR_DISK_FULL, ERR_IO. */
NODISCARD struct err log_segment_make(const char *dir, uint64_t name, uint64_t size, bool no_direct,
                                      const struct log_segment_pace *pace,
                                      struct log_segment **out);
/* Writes whole blocks from memory aligned to LOG_BLOCK; with sync they are on the disk afterwards,
 * without with the operating system. Called on any thread. ERR_DISK_FULL, ERR_IO. */
NODISCARD struct err log_segment_write(const struct log_segment *s, const void *bytes, size_t len,
                                       uint64_t at, bool sync);
/* Writes one frame without contents of a batch. ERR_DISK_FULL, ERR_IO. */
NODISCARD struct err log_segment_put(const struct log_segment *s, uint64_t at,
                                     const struct log_frame *f, bool sync);
/* Writes zeros from there to the end. ERR_DISK_FULL, ERR_IO. */
NODISCARD struct err log_segment_wipe(const struct log_segment *s, uint64_t from);
/* What was handed to the operating system is on the disk afterwards, and is read from there: a page
 * in memory may be newer than one whose write failed. ERR_DISK_FULL, ERR_IO. */
NODISCARD struct err log_segment_sync(const struct log_segment *s);
void log_segment_free(struct log_segment *s);
/* Removes the file, and frees s. The file may come back when the power fails, which does no harm.
 * Returns a descriptor of it, as there may be much to free: base/release.h. */
int log_segment_remove(const char *dir, struct log_segment *s);
/* Memory for log_segment_write, released with free. */
void *log_segment_memory(size_t len);

#endif
