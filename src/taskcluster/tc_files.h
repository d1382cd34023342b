/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TASKCLUSTER_TC_FILES_H
#define TASKCLUSTER_TC_FILES_H

/* The bytes of artifacts: files in one folder, under random names that are never used again. Which
 * artifact a file belongs to is an entry of the backend's; beside it each file has an entry under
 * its own name in TC_FILES_SPACE, with the same expiry, so that files which nothing names any more
 * are found and removed: at the start, every few minutes, and when space runs out.
 *
 * A file is whole: it is written under another name, synced and renamed before anybody hears of it
 * (tc_file_writer.h). Its end is only handed out if its SHA-256 is what it was (tc_file_reader.h).
 *
 * Functions are called, and call back, on the loop thread; the disk is used on libuv's thread pool.
 * All files together take at most the given space, each of them being counted in blocks of 4 KiB,
 * which bounds their number as well. */

#include <uv.h>

#include "backend/backend.h"
#include "base/rng.h"
#include "base/strmap.h"

#define TC_FILES_SPACE "taskcluster/file"
#define TC_FILE_NAME   32 /* hexadecimal digits */
#define TC_SHA256_HEX  64
#define TC_SHA512_HEX  128

struct tc_files;

struct tc_files_settings {
    const char *dir;   /* it is made when it is needed */
    uint64_t space;    /* bytes */
    uint64_t free_min; /* bytes of the disk that are left for the rest */
    struct backend *backend;
    uv_loop_t *loop;
    uint64_t seed; /* unpredictable */
};

/* Counts what is there, and removes what was cut off. ERR_IO. */
NODISCARD struct err tc_files_open(const struct tc_files_settings *settings, struct tc_files **out);
/* At run time. */
void tc_files_set_free_min(struct tc_files *f, uint64_t bytes);
/* Ends what is going on, for which the loop runs; called before the backend is freed. Files that
 * are not whole are removed, and their writers called back with ERR_BUSY. What is asked for
 * afterwards is not done, and nobody is called back: the next start sweeps. */
void tc_files_stop(struct tc_files *f);
void tc_files_free(struct tc_files *f);

/* After a file was written without an error (tc_file_writer.h): what becomes of it is decided.
 * Until then nobody removes it, though no entry names it. If it is not to be kept, it is removed
 * now. */
void tc_files_settle(struct tc_files *f, struct str name, uint64_t size, bool keep);

/* Looks for files that no entry names, unless that is under way. */
void tc_files_sweep(struct tc_files *f);

/* Removes a file that no entry names any more. */
void tc_files_remove(struct tc_files *f, struct str name, uint64_t size);

struct tc_files_stats {
    uint64_t used;    /* bytes; what is reserved for uploads included */
    uint64_t space;   /* that there are for it */
    uint64_t uploads; /* that are in progress */
};
/* Counts as they are now. */
void tc_files_read_stats(const struct tc_files *f, struct tc_files_stats *out);

#endif
