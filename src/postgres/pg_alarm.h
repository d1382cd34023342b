/* SPDX-License-Identifier: Apache-2.0 */
#ifndef POSTGRES_PG_ALARM_H
#define POSTGRES_PG_ALARM_H

/* The alarm: PostgreSQL lacks commits that a server knows of, as after a fail-over to a standby
 * that was behind. It is a row in PostgreSQL, so that every server meets it, however the one that
 * noticed has ended: nobody takes the shard or renews a lease until somebody has accepted the loss.
 *
 * All functions block, until pg_until at most. Errors: postgres/pg.h. */

#include "postgres/pg_shard.h"

/* The newest batch that a server has seen, and the newest epoch of then. */
struct pg_seen {
    char cluster[16]; /* which schema it was: a UUID; zeros: none */
    uint64_t epoch, seq;
};

/* Takes over what is newer than what was seen. */
void pg_seen_note(struct pg_seen *seen, uint64_t epoch, uint64_t seq);

struct pg_alarm {
    char cluster[16];
    bool raised;
    bool lacks; /* PostgreSQL lacks what was seen, and nobody has accepted that */
    /* Of an alarm that was raised: */
    char server[PG_OWNER_MAX + 1], why[161], at[33];
};

/* What was seen of another schema is none of this one's. */
NODISCARD struct err pg_alarm_read(struct pg *pg, int shard, const struct pg_seen *seen,
                                   struct pg_alarm *out);
/* Raises it, unless it was raised before, or that loss was accepted. */
NODISCARD struct err pg_alarm_raise(struct pg *pg, int shard, const char *server,
                                    const struct pg_seen *seen, const char *why);
/* Ends it: whatever servers know of epochs up to now may be missing. Whoever owns the shard is
 * fenced off. */
NODISCARD struct err pg_alarm_accept(struct pg *pg, int shard, const char *server,
                                     const struct pg_seen *seen);
/* What an operator is told: ERR_POSTGRES_LOST. */
struct err pg_alarm_error(const struct pg_alarm *a, const struct pg_seen *seen);

#endif
