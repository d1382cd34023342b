/* SPDX-License-Identifier: Apache-2.0 */

/* Whether PostgreSQL has lost commits, as far as a member can know. */

#include <string.h>

#include "base/log.h"
#include "server/member_internal.h"

static void keep(struct member *m)
{
    if (memcmp(&m->seen, &m->kept, sizeof m->seen) == 0)
        return;
    m->kept = m->seen;
    if (m->settings.keep)
        m->settings.keep(m->settings.ctx, &m->seen);
}

void member_note_seen(struct member *m, uint64_t epoch, uint64_t seq)
{
    pg_seen_note(&m->seen, epoch, seq);
    keep(m);
}

NODISCARD static struct err accept(struct member *m, const struct err *why)
{
    const struct member_settings *s = &m->settings;
    TRY(pg_alarm_accept(m->pg, s->shard, s->name, &m->seen));
    log_warn("the loss of commits is accepted, the servers go on with what PostgreSQL has: %s",
             why->msg);
    m->seen.epoch = m->seen.seq = 0;
    keep(m);
    return err_none();
}

struct err member_heed_alarm(struct member *m)
{
    struct pg_alarm a;
    bool may_accept = m->accept;
    TRY(pg_alarm_read(m->pg, m->settings.shard, &m->seen, &a));
    if (memcmp(a.cluster, m->seen.cluster, sizeof a.cluster) != 0) {
        m->seen = (struct pg_seen){0};
        memcpy(m->seen.cluster, a.cluster, sizeof a.cluster);
    }
    if (a.raised || a.lacks) {
        struct err why = pg_alarm_error(&a, &m->seen);
        if (!may_accept && !a.raised)
            TRY(pg_alarm_raise(m->pg, m->settings.shard, m->settings.name, &m->seen, why.msg));
        TRY(may_accept ? accept(m, &why) : why);
    }
    m->accept = false;
    return err_none();
}
