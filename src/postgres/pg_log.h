/* SPDX-License-Identifier: Apache-2.0 */
#ifndef POSTGRES_PG_LOG_H
#define POSTGRES_PG_LOG_H

/* The rows of the log and of records, for store/, which knows what is in them. Each call is one
 * transaction, refused unless the epoch is that of the owner: ERR_FENCED, ERR_POSTGRES_LOST. */

#include "postgres/pg.h"

#define PG_LOG_TABLES 4

/* A row of the log, and one of records. sum is its checksum as it is stored, which is the caller's
 * to make and to compare; at NULL: there is none. */
struct pg_log_row {
    uint64_t seq, epoch;
    struct str batch, sum;
};
struct pg_record {
    struct str key, value, sum;
};

typedef struct err (*pg_log_fn)(void *ctx, const struct pg_log_row *row);
typedef struct err (*pg_record_fn)(void *ctx, const struct pg_record *record);

/* Begins to append a batch, and ends that. inbox is "{1,2}", the rows that go with it, or empty.
 * ERR_CONFLICT: not all of them were there. */
NODISCARD struct err pg_log_send(struct pg *pg, int shard, const struct pg_log_row *row,
                                 struct str inbox);
NODISCARD struct err pg_log_sent(struct pg *pg);

/* An empty shard begins after that batch. */
NODISCARD struct err pg_log_begin(struct pg *pg, int shard, uint64_t epoch, uint64_t seq);
/* Calls fn for the batches from that number on, in order. Not fenced. */
NODISCARD struct err pg_log_each(struct pg *pg, int shard, uint64_t from, pg_log_fn fn, void *ctx);
/* The same up to `upto`, and for `most` batches. */
struct pg_log_part {
    uint64_t from, upto;
    int most;
};
NODISCARD struct err pg_log_some(struct pg *pg, int shard, const struct pg_log_part *part,
                                 pg_log_fn fn, void *ctx);
/* The first batch that pg_log_each has, if none is missing after it; one above the last, if it has
 * none. 0: some are missing. */
NODISCARD struct err pg_log_first(struct pg *pg, int shard, uint64_t *first);

struct pg_log_place {
    char cluster[16]; /* which schema it is: a UUID */
    uint64_t seq, flushed;
    bool known;        /* the epoch */
    uint64_t oldest;   /* that is known, if earlier ones were let go of; or 0 */
    uint64_t accepted; /* what copies have of this epoch, and of those before it, may be missing */
    uint64_t last;     /* batch of the epoch, if it is known, or of those before it */
};

/* What PostgreSQL says to a copy that the owner of some epoch has made. ERR_NOT_FOUND: there is no
 * such shard. */
NODISCARD struct err pg_log_place(struct pg *pg, int shard, uint64_t epoch,
                                  struct pg_log_place *out);

/* Records hold everything up to that batch, and all that was acknowledged before `at`, by
 * pg_log_clock; 0: no word on that. */
NODISCARD struct err pg_log_flushed(struct pg *pg, int shard, uint64_t epoch, uint64_t seq,
                                    int64_t at);
/* PostgreSQL's clock, in microseconds of Unix time. */
NODISCARD struct err pg_log_clock(struct pg *pg, int64_t *at);
/* The log goes on in its next table; *done is false if that is not empty. */
NODISCARD struct err pg_log_rotate(struct pg *pg, int shard, uint64_t epoch, bool *done);
/* Empties the tables that have no batch after `held`, and none that records lack. That somebody
 * reads one is no error: it is for next time. */
NODISCARD struct err pg_log_let_go(struct pg *pg, int shard, uint64_t epoch, uint64_t held);
/* What the tables take on the disk that are not empty, and what the current one does. */
NODISCARD struct err pg_log_size(struct pg *pg, int shard, uint64_t *all, uint64_t *current);

/* Calls fn for all records. */
NODISCARD struct err pg_records_each(struct pg *pg, int shard, pg_record_fn fn, void *ctx);
/* What to put and to delete. Each is an array in PostgreSQL's binary form (pg_array.h). */
struct pg_records_change {
    struct str keys, values, sums; /* as many of each */
    struct str gone;               /* keys */
};
NODISCARD struct err pg_records_flush(struct pg *pg, int shard, uint64_t epoch,
                                      const struct pg_records_change *change);

#endif
