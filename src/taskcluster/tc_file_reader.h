/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TASKCLUSTER_TC_FILE_READER_H
#define TASKCLUSTER_TC_FILE_READER_H

/* Reads a file of tc_files.h, or some of its bytes, piece by piece, on libuv's thread pool, with
 * one piece in memory at a time. The last piece is handed out only if the SHA-256 of the whole file
 * is what it was. Only a part of a file of several pieces is not checked, which would take reading
 * all of it. Loop thread only. */

#include <openssl/evp.h>

#include "taskcluster/taskcluster.h"
#include "taskcluster/tc_files.h"

#define TC_FILE_READER_PIECE ((size_t)TASKCLUSTER_CONTENT_PIECE)

struct tc_file_reader {
    char name[TC_FILE_NAME + 1];
    char sha256[TC_SHA256_HEX + 1]; /* that it must have */
    uint64_t size;                  /* likewise */
    uint64_t from, until;           /* the bytes that are wanted: from..until - 1 */
    /* The next piece is there, r->bytes, or r->err; afterwards the bytes are gone. */
    void (*read)(struct tc_file_reader *r);
    void *ctx;
    /* Of the result: */
    struct err err; /* ERR_NOT_FOUND, ERR_CORRUPT, ERR_IO */
    struct str bytes;
    bool end; /* it was the last piece */
    /* Of the module: */
    uv_work_t work;
    struct tc_files *files;
    int fd;
    EVP_MD_CTX *hash; /* NULL: the bytes are not checked */
    char *piece;      /* that the bytes are in */
    uint64_t at, end_at;
};

/* Nothing is opened yet. */
void tc_file_reader_init(struct tc_files *f, struct tc_file_reader *r);
/* Reads the next piece; r->read is called later. After an error or the end there is none. False:
 * the server stops, and nothing is read. */
bool tc_file_reader_next(struct tc_file_reader *r);
/* Not while a piece is being read. */
void tc_file_reader_close(struct tc_file_reader *r);

#endif
