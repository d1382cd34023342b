/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STORE_ROCKS_MEND_INTERNAL_H
#define STORE_ROCKS_MEND_INTERNAL_H

/* Shared by the files of rocks_mend. */

#include <rocksdb/c.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/id.h"
#include "store/batch.h"
#include "store/record.h"

/* Keys from .. to, exclusive, that cannot be read. */
struct mend_gap {
    struct buf from, to;
};

#define MEND_NAMED_MAX 20 /* jobs, in the log */

struct mend {
    const char *dir;
    uint64_t table;
    unsigned level;
    struct buf first, end; /* of the table's keys; end is exclusive */
    struct buf path;       /* temporary */
    rocksdb_options_t *options;
    rocksdb_readoptions_t *reading;
    rocksdb_t *all;  /* as it is, for reading */
    rocksdb_t *rest; /* as it would be without the table */
    rocksdb_t *db;   /* for writing */
    struct batch batch;
    struct mend_gap *gaps;
    size_t gap_count;
    uint64_t saved, lost; /* keys: rewritten; lost, as far as known */
    uint64_t jobs;        /* set apart */
    struct id named[MEND_NAMED_MAX];
};

/* The result of reading a key from the database as it is. */
enum mend_got { MEND_NOTHING, MEND_VALUE, MEND_LOST };
enum mend_got mend_get(struct mend *m, struct str key, struct buf *value);

/* rocks_mend_jobs.c: sets apart the jobs of which a part lies in a gap and cannot be read. */
NODISCARD struct err mend_jobs(struct mend *m);
/* Writes the batch if it has at least `enough` bytes. */
NODISCARD struct err mend_write(struct mend *m, size_t enough);

#endif
