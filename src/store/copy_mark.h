/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STORE_COPY_MARK_H
#define STORE_COPY_MARK_H

/* What a copy of PostgreSQL's records says of itself, in the record of its last batch's number, and
 * what is to become of it when a server opens it as the owner. */

#include "base/str.h"
#include "postgres/pg_log.h"
#include "store/rocks_foreign.h"
#include "store/writer.h"

/* Of which database, shard and epoch the tables are. */
struct copy_mark {
    char cluster[16];
    uint64_t number, shard, epoch;
    bool own; /* the batch was committed by this server, so that it had been acknowledged */
    uint64_t held;
};

/* What follows the number. */
void copy_mark_write(const struct copy_mark *m, struct writer *w);
/* With the number before it. False: it is none. */
bool copy_mark_read(struct str value, struct copy_mark *m);
/* What it is, by what PostgreSQL says of its epoch; NULL: none was found. */
enum rocks_foreign_start copy_mark_judge(const struct copy_mark *m, int shard,
                                         const struct pg_log_place *p);
/* An id of the last time that lost commits were accepted, the same for all servers; 0: they never
 * were. */
uint64_t copy_mark_acceptance(const struct pg_log_place *p);

#endif
