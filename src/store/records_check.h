/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STORE_RECORDS_CHECK_H
#define STORE_RECORDS_CHECK_H

/* Reads every record and every batch in PostgreSQL, and compares their checksums. Servers may run
 * meanwhile. */

#include "postgres/pg.h"

struct records_check {
    uint64_t records, batches;
    uint64_t damaged_records, damaged_batches; /* which do not have their checksum */
    uint64_t without;                          /* rows that have none: of an older tenax */
    uint64_t missing; /* the first batch that neither records nor the log have; 0: none */
};

/* tell is called for each damage with a line that names it. */
NODISCARD struct err records_check(struct pg *pg, int shard, void (*tell)(const char *line),
                                   struct records_check *out);
/* The record in words: "payload of job 0…", or its key in hexadecimal digits. */
void records_check_name(struct str key, struct buf *out);

#endif
