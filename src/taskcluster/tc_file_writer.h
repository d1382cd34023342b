/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TASKCLUSTER_TC_FILE_WRITER_H
#define TASKCLUSTER_TC_FILE_WRITER_H

/* Writes a file of tc_files.h while its bytes arrive: what has come is put to disk on libuv's
 * thread pool and hashed there, and while that lasts the next bytes gather. The file has its own
 * name only once it is whole and synced; one that is cut off is removed, by the next start if need
 * be.
 *
 * A writer takes its part of the space when it begins: as much as was announced, else as much as
 * has come. Writers hold little memory however much they write and however many there are: 64 KiB
 * each, and 32 MiB together beyond that. Loop thread only. */

#include <openssl/evp.h>

#include "base/buf.h"
#include "base/list.h"
#include "taskcluster/tc_files.h"

struct tc_file_writer {
    int64_t announced; /* bytes that it will have; negative: that is not known */
    /* There is room again after tc_file_writer_add has said that there is none; NULL: that does not
     * matter. */
    void (*ready)(struct tc_file_writer *w);
    /* Called once: the file is whole, or w->err. The writer may go then, but for tc_files_settle.
     */
    void (*done)(struct tc_file_writer *w);
    void *ctx;
    /* Of the result: */
    struct err
        err;       /* ERR_DISK_FULL, also if the given space is used up; ERR_IO; that of an abort */
    uint64_t size; /* of what has come so far */
    char name[TC_FILE_NAME + 1], sha256[TC_SHA256_HEX + 1], sha512[TC_SHA512_HEX + 1];
    /* Of the module: */
    uv_work_t work;
    struct tc_files *files;
    struct list node;
    struct buf filling, writing;
    uint64_t reserved; /* of the space */
    struct err why;    /* of an abort */
    bool busy;         /* a job has it: that may use what follows below */
    bool full, finishing, aborted;
    int fd; /* negative: not open */
    EVP_MD_CTX *hash256, *hash512;
    uint64_t written, flushed, free_min;
    bool make_folder, last;
};

/* Begins; the first four members are filled in. ERR_DISK_FULL if the given space is used up,
 * ERR_BUSY if too many are being written: then it is not begun, and nobody is called back. */
NODISCARD struct err tc_file_writer_begin(struct tc_files *f, struct tc_file_writer *w);
/* Adds bytes, which are copied. False: there is no room for more until ready(), though more would
 * be taken. After an error bytes are ignored, and done() comes. More bytes than were announced are
 * ERR_BAD_VALUE. Never calls back. */
bool tc_file_writer_add(struct tc_file_writer *w, struct str bytes);
/* These were all; done() follows, later. Fewer bytes than were announced are ERR_BAD_VALUE. */
void tc_file_writer_finish(struct tc_file_writer *w);
/* There will be no more: removes what there is, and then calls done() with that error, later. Does
 * nothing once it is finishing. */
void tc_file_writer_abort(struct tc_file_writer *w, struct err why);

#endif
