/* SPDX-License-Identifier: Apache-2.0 */

/* Preempted runs: their retry waits until they have ended or their grace period is over, and no
 * longer. */

#include "sim.h"
#include "trace.h"

/* Some job whose newest run failed with a grace period. */
static const struct mend *some_grace(struct sim *s, struct mjob **job)
{
    struct ledger *l = &s->ledger;
    size_t first = l->count ? sim_draw(s, l->count) : 0;
    for (size_t i = 0; i < l->count; i++) {
        struct mjob *m = l->jobs[(first + i) % l->count];
        const struct mend *e = m->end_count ? &m->ends[m->end_count - 1] : NULL;
        if (e && e->grace.ms && e->token && ledger_run(m, e->token) && e->how != REFUSED) {
            *job = m;
            return e;
        }
    }
    return NULL;
}

void grace_step(struct sim *s)
{
    struct mjob *m;
    const struct mend *e = some_grace(s, &m);
    if (!e)
        return;
    struct ticket *t = ticket_new(s, CMD_TERMINATED, 1);
    uint64_t token = e->token;
    ticket_about(t, 0, m, token);
    /* Nothing can have happened in between: it must still wait for that run. */
    t->waits = e->how == OK && !e->kill && !e->old && !t->ended && !ledger_is_foggy(m) &&
               !m->may_vanish && !m->patched && m->run_count &&
               m->runs[m->run_count - 1].token == token && !instant_is_set(m->terminated_at) &&
               s->ledger.sync && instant_add(e->at, e->grace).ms > s->now.ms;
    if (!instant_is_set(m->terminated_at))
        m->terminated_at = s->now;
    struct command c = {.terminated = {{m->id, token}, ledger_run(m, token)->index}};
    ticket_submit(t, &c);
}

void grace_judge(struct ticket *t, const struct reply *r)
{
    const struct mjob *m = t->jobs[0];
    enum err_code code = r->err.code;
    if (ticket_is_in_doubt(t, code))
        return;
    if (code != ERR_OK) {
        PROMISE(code == ERR_NOT_FOUND || code == ERR_STALE || code == ERR_UNPROCESSABLE, "REPLY",
                "#%lu: answer %s", t->serial, err_wire(code));
        PROMISE(!t->waits || t->there[0] != YES, "GRACE",
                "#%lu: job %lu does not wait for its run: %s", t->serial, m->serial, r->err.msg);
        return;
    }
    const struct job_state *st = &r->jobs[0].state;
    const struct job_extras *x = &st->extras;
    PROMISE(st->status == STATUS_READY || st->status == STATUS_SCHEDULED, "GRACE",
            "#%lu: job %lu is %s", t->serial, m->serial, lifecycle_status_name(st->status));
    PROMISE(x->grace_token == t->token && x->terminated_at.ms > 0 &&
                x->terminated_at.ms <= t->at.ms,
            "GRACE", "#%lu: job %lu did not learn of it", t->serial, m->serial);
    /* Only the rest of the backoff. */
    PROMISE(m->patched & PATCH_READY_AT || st->ready_at.ms <= t->at.ms ||
                st->ready_at.ms <= x->backoff_end.ms,
            "GRACE", "#%lu: job %lu still waits for the end of its run", t->serial, m->serial);
    trace_line("  job %lu waits no longer", m->serial);
}
