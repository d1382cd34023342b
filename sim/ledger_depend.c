/* SPDX-License-Identifier: Apache-2.0 */

/* Dependencies. DEPEND: no job runs before its dependencies may have ended as it requires, none is
 * forgotten when they have, and a blocked job waits for exactly the dependencies that it should. */

#include "core/depend.h"
#include "ledger.h"
#include "trace.h"

/* Whether the death or removal of a dependency is as good as its completion. */
static bool takes_any_end(const struct mjob *m)
{
    return m->depend_when == DEPEND_ALL_ENDED || m->depend_death == DEPEND_RUN;
}

static bool may_be_gone(const struct ledger *l, const struct mjob *d, instant now)
{
    return ledger_there(l, d, now) != YES;
}

/* Whether the dependency d may be met. */
static bool may_be_met(const struct ledger *l, const struct mjob *m, const struct mjob *d,
                       instant now)
{
    /* d was brought back, and had completed or died before that; or m itself was, when d was gone
     * and no longer counted. */
    if (d->rerun_ever || (m->rerun_ever && may_be_gone(l, d, now)) || m->freed)
        return true;
    if (ledger_may_end(l, d, STATUS_COMPLETED, now))
        return true;
    return takes_any_end(m) &&
           (ledger_may_end(l, d, STATUS_DEAD, now) || d->may_vanish || d->gone_seq);
}

/* One that is held is freed by a patch, or by being brought back. */
static bool may_be_free(const struct mjob *m)
{
    return !m->hold || m->freed || m->rerun_ever;
}

void ledger_depend_handed(const struct ledger *l, const struct mjob *m, instant now)
{
    PROMISE(may_be_free(m), "DEPEND", "job %lu was handed out while it is held", m->serial);
    for (unsigned i = 0; i < m->dep_count; i++)
        PROMISE(may_be_met(l, m, m->deps[i], now), "DEPEND",
                "job %lu was handed out before job %lu, which it waits for", m->serial,
                m->deps[i]->serial);
}

/* Whether d, as the audit found it, still keeps m waiting; MAYBE: nobody knows how it ended. */
static enum certainty is_unmet(const struct ledger *l, const struct mjob *m, const struct mjob *d,
                               instant now)
{
    if (d->seen && d->status == STATUS_COMPLETED)
        return NO;
    if (d->seen && d->status == STATUS_DEAD)
        return takes_any_end(m) ? NO : m->depend_death == DEPEND_DIE && !m->rerun_ever ? NO : YES;
    if (d->seen)
        return YES;
    if (takes_any_end(m) || (d->ended_seq && d->ended == STATUS_COMPLETED && !d->rerun_ever &&
                             !ledger_is_foggy(d) && !d->may_vanish))
        return NO;
    /* Nobody waits for one that is gone, unless somebody deleted it, which may be undone. */
    (void)l;
    (void)now;
    bool purged = d->ended_seq && !ledger_is_foggy(d) && !d->may_vanish && !d->gone_seq;
    return purged ? NO : MAYBE;
}

static const struct mjob *dep_by_id(const struct mjob *m, struct id id)
{
    for (unsigned i = 0; i < m->dep_count; i++)
        if (id_eq(m->deps[i]->id, id))
            return m->deps[i];
    /* A job of the same request whose id nobody was ever told. */
    for (unsigned i = 0; i < m->dep_count; i++)
        if (id_is_none(m->deps[i]->id))
            return m->deps[i];
    return NULL;
}

/* The ids in the server's format: 16 bytes each. */
void ledger_depend_note(struct mjob *m, const struct job *job)
{
    struct str ids = job->state.extras.waits_for;
    m->waits_for = 0;
    m->held = job->state.extras.held;
    PROMISE(!m->held || (m->hold && job->state.status != STATUS_READY), "DEPEND",
            "job %lu is held and %s", m->serial, lifecycle_status_name(job->state.status));
    for (size_t i = 0; i < depend_count(ids); i++) {
        const struct mjob *d = dep_by_id(m, depend_at(ids, i));
        PROMISE(d, "DEPEND", "job %lu waits for a job that it never named", m->serial);
        for (unsigned k = 0; k < m->dep_count; k++)
            m->waits_for |= (unsigned)(m->deps[k] == d) << k;
    }
    m->resolution = job->state.resolution;
}

/* Long enough for one of the limits. */
static bool has_waited_long(const struct ledger *l, const struct mjob *m, instant now)
{
    int64_t waited = now.ms - id_time(m->id).ms;
    bool held = m->hold && l->settings.hold_max.ms && waited >= l->settings.hold_max.ms;
    bool gang = m->gang && l->settings.gang_wait_max.ms && waited >= l->settings.gang_wait_max.ms;
    return held || gang;
}

void ledger_depend_check(const struct ledger *l, instant now)
{
    for (size_t i = 0; i < l->count; i++) {
        const struct mjob *m = l->jobs[i];
        if (!m->seen)
            continue;
        bool blocked = m->status == STATUS_BLOCKED;
        PROMISE(!blocked || m->waits_for || m->held, "DEPEND", "job %lu is blocked by nothing",
                m->serial);
        PROMISE(m->held || m->status == STATUS_DEAD || may_be_free(m), "DEPEND",
                "job %lu is %s, but nobody freed it", m->serial, lifecycle_status_name(m->status));
        PROMISE(m->resolution != RESOLUTION_DEPENDENCY ||
                    (m->dep_count && m->depend_death != DEPEND_RUN),
                "DEPEND", "job %lu died with a job that it does not depend on", m->serial);
        PROMISE(m->resolution != RESOLUTION_WAIT || has_waited_long(l, m, now), "WAIT",
                "job %lu did not wait so long", m->serial);
        for (unsigned k = 0; k < m->dep_count; k++) {
            const struct mjob *d = m->deps[k];
            bool waits = blocked && m->waits_for >> k & 1;
            PROMISE(!waits || is_unmet(l, m, d, now) != NO, "DEPEND",
                    "job %lu was forgotten: it waits for job %lu", m->serial, d->serial);
            PROMISE(waits || m->status == STATUS_DEAD || may_be_met(l, m, d, now), "DEPEND",
                    "job %lu is %s before job %lu has ended", m->serial,
                    lifecycle_status_name(m->status), d->serial);
        }
    }
}
