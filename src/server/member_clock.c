/* SPDX-License-Identifier: Apache-2.0 */

/* Whether PostgreSQL's wall clock and this server's agree. Nothing here depends on it: leases are
 * counted by monotonic clocks. Jobs go by the clock of whoever owns them, and people by theirs. */

#include <stdlib.h>

#include "base/buf.h"
#include "base/duration.h"
#include "base/log.h"
#include "postgres/pg_log.h"
#include "server/member_internal.h"

/* They are compared so often. */
#define EVERY_MS 1000
/* A difference of more is worth a warning; with less than half of it they agree again. */
#define OFF_MS 5000

static void say(int64_t ahead)
{
    struct buf words = {0};
    duration_write(&words, (span){llabs(ahead)});
    log_warn("PostgreSQL's clock is %.*s %s this server's: one of them is wrong. Jobs go by the "
             "clock of the server that owns them, and ids of those that are enqueued by SQL carry "
             "the time of PostgreSQL's (docs/several-servers.md)",
             STR_ARG(buf_view(&words)), ahead < 0 ? "behind" : "ahead of");
    buf_fini(&words);
}

/* The answer took `trip`: what it says is of any moment in that time. */
static void note(struct member *m, int64_t ahead, int64_t trip)
{
    int64_t off = llabs(ahead) - trip / 2;
    pthread_mutex_lock(&m->lock);
    m->state.clock_ahead = (span){ahead};
    m->state.clock_compared = true;
    pthread_mutex_unlock(&m->lock);
    if (!m->clock_off && off > OFF_MS)
        say(ahead);
    else if (m->clock_off && off < OFF_MS / 2)
        log_warn("PostgreSQL's clock and this server's agree again");
    m->clock_off = off > (m->clock_off ? OFF_MS / 2 : OFF_MS);
}

void member_compare_clocks(struct member *m)
{
    int64_t theirs;
    mono asked = pg_now();
    if (!m->pg || asked.ns < pg_after(m->compared, (span){EVERY_MS}).ns)
        return;
    instant own = m->settings.now(m->settings.ctx);
    struct err err = pg_log_clock(m->pg, &theirs);
    m->compared = pg_now();
    int64_t trip = (m->compared.ns - asked.ns) / 1000000;
    if (err.code == ERR_OK)
        note(m, theirs / 1000 - own.ms - trip / 2, trip);
    else if (pg_is_broken(m->pg))
        member_disconnect(m);
}

span member_clock_ahead(struct member *m)
{
    pthread_mutex_lock(&m->lock);
    span ahead = m->state.clock_ahead;
    pthread_mutex_unlock(&m->lock);
    return ahead;
}
