/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STORE_LOG_POSTGRES_H
#define STORE_LOG_POSTGRES_H

/* The log in PostgreSQL: one row per batch, of one shard and one epoch (postgres/pg_shard.h). A
 * batch is durable as PostgreSQL makes commits durable, on its standbys too where it waits for
 * them; `sync` makes no difference. One is under way at a time.
 *
 * When the connection breaks under a commit, nobody knows whether it took effect. The log then
 * connects again and reads the shard, until the deadline: the batch is there, and counts once
 * another commit has been waited for, or it is not, and is sent again.
 *
 * It has failed for good when another server owns the shard or the deadline has passed
 * (ERR_FENCED), PostgreSQL cannot be reached until then (ERR_POSTGRES), or knows less than it has
 * acknowledged (ERR_POSTGRES_LOST). */

#include "postgres/pg.h"
#include "store/log.h"

struct log_postgres_settings {
    struct pg_settings pg;
    int shard;
    uint64_t epoch; /* of which the caller is the owner */
    uint64_t from;  /* the first batch that tables do not hold */
    bool begin;     /* an empty shard begins with `from` */
    bool all;       /* what is in records counts as well, as long as the log still has it */
    /* Until when the caller owns the shard, by pg_now; asked before each wait, on the log's thread.
     * NULL: for ever, and PostgreSQL has pg.timeout to come back. */
    mono (*owned_until)(void *ctx);
    /* A number that changes when the caller has had to connect anew: whoever waits for a commit
     * that was sent before may wait in vain, as another PostgreSQL may be the primary by now. NULL:
     * it never changes. On the log's thread. */
    uint64_t (*connections)(void *ctx);
    /* It commits on that backend of PostgreSQL from now on. NULL: nobody wants to know. Likewise.
     */
    void (*logs_by)(void *ctx, int backend);
    void *ctx;
};

/* ERR_CORRUPT: the log has let go of `from`, or ends before it; ERR_FENCED, ERR_POSTGRES_LOST, and
 * other errors of postgres/pg.h. */
NODISCARD struct err log_postgres_open(const struct log_postgres_settings *settings,
                                       struct log **out);

/* A batch may delete keys that no table has: that of a row of the inbox, so that the row goes with
 * the commit. Writes the LOG_POSTGRES_INBOX_KEY bytes of the key. */
#define LOG_POSTGRES_INBOX_KEY 10
void log_postgres_inbox_key(int64_t id, char out[LOG_POSTGRES_INBOX_KEY]);
/* Whether it is one, and of which row. */
bool log_postgres_inbox_id(struct str key, int64_t *id);

#endif
