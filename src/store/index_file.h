/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STORE_INDEX_FILE_H
#define STORE_INDEX_FILE_H

/* The file INDEX in the root directory: a snapshot of the engine's indexes
 * (core/engine_snapshot.h), which saves a start from reading every job. Nothing depends on it:
 * without it, and whenever anything about it is odd, all is read. It is written under another name,
 * synced, and renamed; each part of it has a checksum, and so has the end, without which it is no
 * such file. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

#define INDEX_FILE_NAME "INDEX"
#define INDEX_FILE_TMP  "INDEX.tmp"
#define INDEX_FACTS     4

/* What it belongs to. */
struct index_head {
    uint64_t from;     /* jobs that batches after this one have touched may be wrong in it */
    uint64_t upto;     /* it may show effects of batches up to this one: the store must have them */
    uint64_t nonce[2]; /* which the store has, too: of this snapshot */
    uint64_t facts[INDEX_FACTS]; /* the writer's; the reader compares */
};

/* --- writing --- */

struct index_writer;

/* Begins a file in that folder, on a thread of its own or, without `thread`, in each call. */
struct index_writer *index_writer_new(const char *dir, bool thread);
/* Whether it may be given another chunk now, or has to write first. */
bool index_writer_has_room(struct index_writer *w);
/* Takes the bytes, and leaves the buffer empty. */
void index_writer_add(struct index_writer *w, struct buf *chunk);
/* No further chunks come. The file takes the place of the one before it when it is on the disk. */
void index_writer_finish(struct index_writer *w, const struct index_head *head);
/* Somebody waits for the end: what the file before took is freed at once. */
void index_writer_hurry(struct index_writer *w);
/* Whether it has ended: finished or, with an error, failed. ERR_DISK_FULL, ERR_IO. */
bool index_writer_has_ended(struct index_writer *w, struct err *result);
/* Bytes written so far. */
uint64_t index_writer_bytes(struct index_writer *w);
/* What has not ended is given up, and its file removed. Waits for a write under way. */
void index_writer_free(struct index_writer *w);

/* --- reading --- */

struct index_image {
    struct index_head head;
    struct str *chunks; /* views */
    size_t count;
    struct str bytes;
    bool mapped;
};

/* ERR_NOT_FOUND if there is none; ERR_CORRUPT, ERR_VERSION, ERR_IO. */
NODISCARD struct err index_image_open(const char *dir, struct index_image *image);
/* The same from memory, which must outlive the image. */
NODISCARD struct err index_image_read(struct str bytes, struct index_image *image);
void index_image_close(struct index_image *image);

/* Removes what a writer that was killed has left, if anything. */
void index_file_sweep(const char *dir);
/* Removes the file, if there is one. */
void index_file_remove(const char *dir);

#endif
