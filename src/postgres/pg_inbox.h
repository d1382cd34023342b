/* SPDX-License-Identifier: Apache-2.0 */
#ifndef POSTGRES_PG_INBOX_H
#define POSTGRES_PG_INBOX_H

/* The inbox: jobs that transactions of applications have enqueued by tenax.enqueue, for the owner
 * of the shard. */

#include "postgres/pg.h"

#define PG_INBOX_CHANNEL "tenax_inbox"

/* Some of the rows, in the order of their ids: `most` at most, of some megabytes together. Columns:
 * number of the row, id of the job, body of POST /jobs. The caller frees them. */
NODISCARD struct err pg_inbox_read(struct pg *pg, int shard, int most, struct pg_rows **rows);
/* Whether tenax.enqueue has to NOTIFY. */
NODISCARD struct err pg_inbox_sleep(struct pg *pg, int shard, bool asleep);
/* A row makes no job: it goes to tenax.inbox_refused. ERR_FENCED. */
NODISCARD struct err pg_inbox_refuse(struct pg *pg, int shard, uint64_t epoch, int64_t row,
                                     struct str reason);

#endif
