/* SPDX-License-Identifier: Apache-2.0 */
#ifndef POSTGRES_PG_LOG_H
#define POSTGRES_PG_LOG_H

/* The rows of the log and of records, for store/, which knows what is in them. Each call is one
 * transaction, refused unless the epoch is that of the owner: ERR_FENCED, ERR_POSTGRES_LOST. */

#include "postgres/pg.h"

#define PG_LOG_TABLES 4

/* Begins to append a batch, and ends that. inbox is "{1,2}", the rows that go with it, or empty.
 * ERR_CONFLICT: not all of them were there. */
NODISCARD struct err pg_log_send(struct pg *pg, int shard, uint64_t epoch, uint64_t seq,
                                 struct str batch, struct str inbox);
NODISCARD struct err pg_log_sent(struct pg *pg);

/* An empty shard begins after that batch. */
NODISCARD struct err pg_log_begin(struct pg *pg, int shard, uint64_t epoch, uint64_t seq);
/* Calls fn for the batches from that number on, in order. Not fenced. */
NODISCARD struct err pg_log_each(struct pg *pg, int shard, uint64_t from,
                                 struct err (*fn)(void *ctx, uint64_t seq, struct str batch),
                                 void *ctx);
/* Whether epoch had batch `seq` as its last one so far, or had just begun after it; its batches are
 * then those that a copy of that epoch and number was made of. */
NODISCARD struct err pg_log_has(struct pg *pg, int shard, uint64_t epoch, uint64_t seq, bool *has);

/* Records hold everything up to that batch. */
NODISCARD struct err pg_log_flushed(struct pg *pg, int shard, uint64_t epoch, uint64_t seq);
/* The log goes on in its next table; *done is false if that is not empty. */
NODISCARD struct err pg_log_rotate(struct pg *pg, int shard, uint64_t epoch, bool *done);
/* Empties the tables that nobody needs. That somebody reads one is no error: it is for next time.
 */
NODISCARD struct err pg_log_let_go(struct pg *pg, int shard, uint64_t epoch);
/* What the tables take on the disk that are not empty, and what the current one does. */
NODISCARD struct err pg_log_size(struct pg *pg, int shard, uint64_t *all, uint64_t *current);
/* The oldest table but the current one that records lack something of: its last batch; 0: none. */
NODISCARD struct err pg_log_full(struct pg *pg, int shard, uint64_t *last);

/* Calls fn for all records. */
NODISCARD struct err pg_records_each(struct pg *pg, int shard,
                                     struct err (*fn)(void *ctx, struct str key, struct str value),
                                     void *ctx);
/* Puts values and deletes keys. Each is an array in PostgreSQL's binary form (pg_array.h). */
NODISCARD struct err pg_records_flush(struct pg *pg, int shard, uint64_t epoch, struct str keys,
                                      struct str values, struct str gone);

#endif
