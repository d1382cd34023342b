/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STORE_LOG_FILE_H
#define STORE_LOG_FILE_H

/* The log in files (log_segment.h, log_frame.h): segments of full length that are written over,
 * past the page cache and synced with each write, where the file system allows that; elsewhere each
 * write is followed by fdatasync.
 *
 * What it promises against a disk that writes each sector of 512 bytes as a whole or not at all:
 * after a power cut it opens with every batch that was durable. Damage to any other byte of them is
 * reported (ERR_CORRUPT), and so is a segment that is missing, empty or too short: a batch that was
 * durable is never lost in silence.
 *
 * What was durable is told from what was under way by what lies behind it (log_frame.h): the next
 * batch says so, and if none comes within LOG_REST_MS, or when the log is closed, a note. Until
 * then the last batch, and those that were under way with it, have no witness: if the process dies
 * before, and the disk then loses them as a whole, they are taken for a write that was cut off. */

#include "store/log.h"

/* Frames of at most that many bytes go to the ring: for larger ones the kernel would start threads,
 * which takes longer than to wait. */
#define LOG_RING_MAX ((size_t)32 * 1024)
/* An idle log says so on the disk after that time, once until the next batch. */
#define LOG_REST_MS 100

struct log_file_settings {
    const char *dir; /* exists; other files in it are left alone */
    uint64_t from;   /* the first batch that tables do not hold; 1 at the beginning */
    /* The first batch before it that is wanted all the same, if it is still there. 0: none. */
    uint64_t keep;
    /* The log is known to have had this batch: it must be there. 0: nothing is known. */
    uint64_t reached;
    bool found;    /* there was a log in dir before: nothing at all is damage */
    bool lossy;    /* what follows a gap is given up, and that is logged */
    bool unsynced; /* the same if what is missing was never synced; otherwise it is damage, too */
    /* Who writes: so many threads of its own; with 0 the one that waits; with a ring, and then no
     * threads, the kernel what log_begin is given and is not larger than LOG_RING_MAX: log_durable,
     * log_ended and log_wait look for what has ended. The ring serves this log alone until
     * log_close, and takes LOG_UNDER_WAY_MAX writes. */
    unsigned threads;
    struct log_ring *ring; /* log_ring.h; may be NULL */
    /* The first segment has the smaller size, later ones more, up to the larger one; whole blocks.
     * 0: 1 MiB, 64 MiB. A batch that is too large has a segment of its own. */
    uint64_t segment_bytes, segment_bytes_max;
    bool no_direct; /* fdatasync in any case */
    bool no_maker;  /* no thread makes the next segment in advance: who needs it does */
    bool no_rest;   /* nobody notes that the log is idle, except by log_file_rest */
    /* Called whenever batches have become durable, or the log has failed, on the thread that wrote
     * them: must do nothing but wake somebody. May be NULL. Not for writes of the ring, whose
     * descriptor tells of them. */
    void (*notify)(void *ctx);
    /* Asked before so many bytes of the disk are taken; an error, ERR_DISK_FULL, refuses. On any
     * thread. NULL: nobody minds. */
    struct err (*may_grow)(void *ctx, uint64_t bytes);
    void *ctx;
};

/* Opens the log, or creates it where there is none. Everything that log_durable then tells of is on
 * the disk. ERR_CORRUPT, ERR_DISK_FULL, ERR_IO, ERR_VERSION. */
NODISCARD struct err log_file_open(const struct log_file_settings *settings, struct log **out);
/* Notes at the log's end that all of it is durable, unless something is under way or the disk says
 * so already. On any thread; meanwhile an append waits. If the note cannot be written the log may
 * have failed. */
void log_file_rest(struct log *l);
/* Only for log_replay and log_durable, and changes nothing. ERR_CORRUPT, ERR_IO, ERR_VERSION. */
NODISCARD struct err log_file_open_reader(const struct log_file_settings *settings,
                                          struct log **out);

#endif
