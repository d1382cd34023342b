/* SPDX-License-Identifier: Apache-2.0 */

/* What a server has seen, and what it says when that is gone: without a connection. */

#include <inttypes.h>

#include "postgres/pg_alarm.h"

void pg_seen_note(struct pg_seen *seen, uint64_t epoch, uint64_t seq)
{
    if (epoch < seen->epoch || (epoch == seen->epoch && seq <= seen->seq))
        return;
    seen->epoch = epoch;
    seen->seq = seq;
}

struct err pg_alarm_error(const struct pg_alarm *a, const struct pg_seen *seen)
{
    if (a->raised)
        return err_make(
            ERR_POSTGRES_LOST,
            "the alarm of %s stands: PostgreSQL has lost commits, as %.60s found. Bring "
            "them back, or start one server with --accept-lost-commits",
            a->at, a->server);
    return err_make(ERR_POSTGRES_LOST,
                    "PostgreSQL lacks batch %" PRIu64 " of epoch %" PRIu64
                    ", which this server has "
                    "seen: a fail-over or a restore has lost commits; bring them back, or accept "
                    "that",
                    seen->seq, seen->epoch);
}
