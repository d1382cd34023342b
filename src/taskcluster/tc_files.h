/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TASKCLUSTER_TC_FILES_H
#define TASKCLUSTER_TC_FILES_H

/* The bytes of artifacts: files in one folder, under random names that are never used again. Which
 * artifact a file belongs to is an entry of the backend's; beside it each file has an entry under
 * its own name in TC_FILES_SPACE, with the same expiry, so that files which nothing names any more
 * are found and removed: at the start, every few minutes, and when space runs out.
 *
 * A file is whole: it is written under another name, synced and renamed before anybody hears of it.
 * It is read whole as well, and only handed out if its SHA-256 is what it was.
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
/* Ends what is going on, for which the loop runs; called before the backend is freed. What is asked
 * for afterwards is not done, and nobody is called back: the next start sweeps. */
void tc_files_stop(struct tc_files *f);
void tc_files_free(struct tc_files *f);

/* A file that is written. It, and the bytes, must stay until done() and tc_files_settle. */
struct tc_file_write {
    struct str bytes;
    void (*done)(struct tc_file_write *w);
    void *ctx;
    /* Of the result: */
    struct err err; /* ERR_DISK_FULL, also if the given space is used up; ERR_IO */
    char name[TC_FILE_NAME + 1], sha256[TC_SHA256_HEX + 1], sha512[TC_SHA512_HEX + 1];
    /* Of the module: */
    uv_work_t work;
    struct tc_files *files;
    uint64_t free_min;
};
/* Never calls back before it returns. */
void tc_files_write(struct tc_files *f, struct tc_file_write *w);
/* After a write without an error: what becomes of the file is decided. Until then nobody removes
 * it, though no entry names it. If it is not to be kept, it is removed now. */
void tc_files_settle(struct tc_files *f, const struct tc_file_write *w, bool keep);

/* Looks for files that no entry names, unless that is under way. */
void tc_files_sweep(struct tc_files *f);

/* Removes a file that no entry names any more. */
void tc_files_remove(struct tc_files *f, struct str name, uint64_t size);

struct tc_file_read {
    char name[TC_FILE_NAME + 1];
    char sha256[TC_SHA256_HEX + 1]; /* that it must have */
    uint64_t size;
    void (*done)(struct tc_file_read *r); /* afterwards the bytes are gone */
    void *ctx;
    /* Of the result: */
    struct err err; /* ERR_NOT_FOUND, ERR_CORRUPT, ERR_IO */
    struct str bytes;
    /* Of the module: */
    uv_work_t work;
    struct tc_files *files;
};
/* Reads a file into memory, on a thread of libuv's pool; r->done is called later, on the loop. */
void tc_files_read(struct tc_files *f, struct tc_file_read *r);

#endif
