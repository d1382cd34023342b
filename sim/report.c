/* SPDX-License-Identifier: Apache-2.0 */

/* Whether the answers to reports agree with what is known of the runs. */

#include "sim.h"
#include "trace.h"

/* Whether the run that is live, if one is, may be a claim's: a report of it needs its token. */
static bool may_be_leased(const struct mjob *m)
{
    return m->run_count == 0 || !m->runs[m->run_count - 1].stream || m->ghosts;
}

/* What the answer to a report may be, by what is known about its run. */
static void check_report_code(const struct ticket *t, enum err_code code)
{
    const struct mjob *m = t->jobs[0];
    enum certainty live = t->live[0];
    const char *wire = code == ERR_OK ? "ok" : err_wire(code);
    switch (code) {
    case ERR_OK:
        /* That a run which its gang has ended failed as well is told. */
        PROMISE(live != NO || (m->gang && t->kind == CMD_FAIL), "I3",
                "#%lu: a report of a run that is over was accepted (job %lu)", t->serial,
                m->serial);
        PROMISE(t->token || !t->leased[0], "I3",
                "#%lu: a report of the leased run of job %lu was accepted without its token",
                t->serial, m->serial);
        return;
    case ERR_RUN_TOKEN:
        PROMISE(!t->token && may_be_leased(m), "I3",
                "#%lu: a report of the stream's run of job %lu was to have a token", t->serial,
                m->serial);
        ticket_check_there(t, 0, true);
        return;
    case ERR_STALE:
        PROMISE(t->token && live != YES, "I3", "#%lu: the live run of job %lu was called stale",
                t->serial, m->serial);
        ticket_check_there(t, 0, true);
        return;
    case ERR_STALE_GANG:
    case ERR_RUN_LIMIT:
        PROMISE(t->token && m->gang && live != YES, "GANG",
                "#%lu: job %lu was called another generation of its gang", t->serial, m->serial);
        ticket_check_there(t, 0, true);
        return;
    case ERR_NOT_IN_FLIGHT:
        PROMISE(!t->token && live != YES, "I3", "#%lu: job %lu is in flight and was refused",
                t->serial, m->serial);
        return;
    case ERR_NOT_FOUND:
        ticket_check_there(t, 0, false);
        return;
    case ERR_UNPROCESSABLE: {
        const struct mrun *run = ledger_run(m, t->token);
        PROMISE(t->kind == CMD_RENEW && live != NO && (!run || run->stream), "LEASE",
                "#%lu: renewal of job %lu was refused", t->serial, m->serial);
        return;
    }
    default:
        PROMISE(false, "REPLY", "#%lu: answer %s", t->serial, wire);
    }
}

static void note_failed_job(struct ticket *t, const struct job *job)
{
    struct sim *s = t->sim;
    struct mjob *m = t->jobs[0];
    const struct mend *e = &m->ends[t->ends[0]];
    enum status status = job->state.status;
    PROMISE(ledger_see(&s->ledger, job, false, s->now) == m, "VALUE", "#%lu: another job",
            t->serial);
    PROMISE(job->state.reason.len > 0, "REASON", "#%lu: no reason", t->serial);
    bool late = m->gang; /* of a run that its gang had ended, perhaps without a failure */
    PROMISE(job->state.attempts > 0 || late, "RETRY", "#%lu: no attempt was counted", t->serial);
    PROMISE(!e->kill || status == STATUS_DEAD, "RETRY", "#%lu: killed and not dead", t->serial);
    PROMISE(status == STATUS_DEAD || job->state.ready_at.ms >= m->ready_at.ms ||
                e->retry_at.ms >= 0 || m->rerun_ever || m->patched & PATCH_READY_AT,
            "READY_AT", "#%lu: ready before it was enqueued for", t->serial);
    for (size_t i = 0; i < m->run_count; i++)
        if (m->runs[i].index + 1 == job->state.runs && !m->runs[i].doubt && !m->runs[i].over_seq)
            m->runs[i].over_seq = s->ledger.seq++;
    if (status == STATUS_DEAD)
        ledger_ended(&s->ledger, m, STATUS_DEAD, t->at);
    else
        PROMISE(status == (job->state.ready_at.ms <= t->at.ms ? STATUS_READY : STATUS_SCHEDULED),
                "RETRY", "#%lu: status %s after a failure", t->serial,
                lifecycle_status_name(status));
}

bool report_may_be_repeated(const struct ticket *t, size_t i)
{
    const struct mjob *m = t->jobs[i];
    return m->ends[t->ends[i]].token && ledger_was_reported(m, t->ends[i]);
}

void report_judge(struct ticket *t, const struct reply *r)
{
    struct sim *s = t->sim;
    struct mjob *m = t->jobs[0];
    bool doubt = ticket_is_in_doubt(t, r->err.code);
    if (r->err.code != ERR_OK) {
        if (!doubt)
            check_report_code(t, r->err.code);
        ledger_end_refused(m, t->ends[0], !doubt);
        return;
    }
    if (r->repeated) {
        PROMISE(ledger_was_reported(m, t->ends[0]), "I3",
                "#%lu: a report of job %lu that nobody made was called repeated", t->serial,
                m->serial);
        ledger_end_refused(m, t->ends[0], true);
        return;
    }
    if (t->together && report_may_be_repeated(t, 0)) {
        ledger_end_refused(m, t->ends[0], false);
        return;
    }
    check_report_code(t, ERR_OK);
    ledger_end_acked(&s->ledger, m, t->ends[0]);
    if (t->kind == CMD_FAIL)
        note_failed_job(t, &r->jobs[0]);
}

void report_judge_renewal(struct ticket *t, const struct reply *r)
{
    struct mjob *m = t->jobs[0];
    struct mrun *run = t->token ? ledger_run(m, t->token) : NULL;
    if (run && run->renewals)
        run->renewals--;
    if (ticket_is_in_doubt(t, r->err.code))
        return;
    check_report_code(t, r->err.code);
    if (r->err.code != ERR_OK)
        return;
    PROMISE(r->lease_end.ms == t->at.ms + t->lease.ms, "LEASE", "#%lu: another lease", t->serial);
    PROMISE(!run || !run->stream, "LEASE", "#%lu: a stream's job was renewed", t->serial);
    if (run) {
        run->confirmed = true;
        run->lease_end = r->lease_end;
        if (run->renewals == 0 && m->blind_renewal.ms < t->at.ms)
            run->lease_min = r->lease_end;
    }
}

static bool is_among(const struct reply *r, struct id id)
{
    for (size_t i = 0; i < r->count; i++)
        if (id_eq(r->renewed[i].id, id))
            return true;
    return false;
}

bool report_stored_some(const struct ticket *t, const struct reply *r)
{
    bool some = false;
    for (size_t i = 0; i < t->count; i++)
        some |= !is_among(r, t->jobs[i]->id) && !report_may_be_repeated(t, i);
    return some;
}

void report_judge_many(struct ticket *t, const struct reply *r)
{
    for (size_t i = 0; i < t->count; i++) {
        struct mjob *m = t->jobs[i];
        if (r->err.code != ERR_OK) {
            ledger_end_refused(m, t->ends[i], false);
            continue;
        }
        bool named = m->ends[t->ends[i]].token;
        if (is_among(r, m->id)) {
            PROMISE(t->live[i] != YES || (!named && may_be_leased(m)), "I3",
                    "#%lu: job %lu is in flight and was refused", t->serial, m->serial);
            ledger_end_refused(m, t->ends[i], true);
            continue;
        }
        if (report_may_be_repeated(t, i)) {
            ledger_end_refused(m, t->ends[i], false);
            continue;
        }
        PROMISE(t->live[i] != NO && t->there[i] != NO, "I3",
                "#%lu: job %lu is over and was completed", t->serial, m->serial);
        PROMISE(named || !t->leased[i], "I3",
                "#%lu: the leased run of job %lu was completed without its token", t->serial,
                m->serial);
        ledger_end_acked(&t->sim->ledger, m, t->ends[i]);
    }
}
