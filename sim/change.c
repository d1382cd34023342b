/* SPDX-License-Identifier: Apache-2.0 */

/* What virtual operators do to jobs: patch, cancel, rerun. */

#include "sim.h"
#include "trace.h"

struct patch change_some_patch(struct sim *s, unsigned *queue)
{
    struct patch p = {.set = 1 + (unsigned)sim_draw(s, 15), .ready_at = INSTANT_NONE};
    *queue = (unsigned)sim_draw(s, s->profile.queues);
    p.queue = sim_queue_name(*queue);
    if (s->profile.deps && sim_chance(s, 20))
        p.set |= PATCH_FREE;
    p.priority = (uint16_t)sim_draw(s, 4);
    p.retry_limit = (int32_t)sim_draw(s, 4) - 1;
    if (sim_chance(s, 60))
        p.ready_at.ms = s->now.ms - 1000 + (int64_t)sim_draw(s, 5000);
    return p;
}

void change_patch(struct sim *s, struct mjob *m)
{
    unsigned queue;
    struct patch p = change_some_patch(s, &queue);
    struct ticket *t = ticket_new(s, CMD_PATCH, 1);
    ticket_about(t, 0, m, 0);
    t->patch = p;
    t->queues = queue;
    ledger_patch_asked(m, &p, queue);
    m->may_vanish |= s->sweeps > 0; /* a sweep may reach it */
    struct command c = {.patch = {m->id, &p}};
    ticket_submit(t, &c);
}

void change_cancel(struct sim *s, struct mjob *m)
{
    struct ticket *t = ticket_new(s, CMD_CANCEL, 1);
    ticket_about(t, 0, m, 0);
    struct command c = {.id = m->id};
    ticket_submit(t, &c);
}

void change_rerun(struct sim *s)
{
    struct ledger *l = &s->ledger;
    struct mjob *m = NULL;
    bool completed = sim_chance(s, 25);
    size_t first = l->count ? sim_draw(s, l->count) : 0;
    for (size_t i = 0; i < l->count && !m; i++) {
        struct mjob *at = l->jobs[(first + i) % l->count];
        bool ended = at->ended_seq && (completed || at->ended == STATUS_DEAD);
        bool fits = sim_chance(s, 2) || ended;
        if (fits && !at->gone_seq && !id_is_none(at->id))
            m = at;
    }
    if (!m)
        return;
    struct ticket *t = ticket_new(s, CMD_RERUN, 1);
    ticket_about(t, 0, m, 0);
    t->end_mark = m->end_count;
    t->completed = completed;
    ledger_rerun_asked(m);
    struct command c = {.rerun = {m->id, completed}};
    ticket_submit(t, &c);
}

/* --- answers --- */

static void check_missing(const struct ticket *t)
{
    PROMISE(t->there[0] != YES, "I2", "#%lu: job %lu is lost", t->serial, t->jobs[0]->serial);
}

void change_judge_patch(struct ticket *t, const struct reply *r)
{
    struct mjob *m = t->jobs[0];
    enum err_code code = r->err.code;
    if (code == ERR_NOT_FOUND)
        check_missing(t);
    PROMISE(code != ERR_UNPROCESSABLE || t->live[0] != YES, "PATCH",
            "#%lu: job %lu is in flight and cannot be changed", t->serial, m->serial);
    if (code == ERR_OK) {
        const struct job_state *st = &r->jobs[0].state;
        unsigned set = t->patch.set;
        instant at = instant_is_set(t->patch.ready_at) ? t->patch.ready_at : t->at;
        PROMISE(!t->ended, "I4", "#%lu: job %lu had ended and was changed", t->serial, m->serial);
        PROMISE(t->there[0] != NO, "I2", "#%lu: job %lu is gone and was changed", t->serial,
                m->serial);
        PROMISE(!(set & PATCH_QUEUE) || str_eq(r->jobs[0].queue, sim_queue_name(t->queues)),
                "PATCH", "#%lu: another queue", t->serial);
        PROMISE(!(set & PATCH_PRIORITY) || st->priority == t->patch.priority, "PATCH",
                "#%lu: another priority", t->serial);
        bool set_free = set & PATCH_FREE && at.ms < t->at.ms && st->ready_at.ms == t->at.ms;
        PROMISE(!(set & PATCH_READY_AT) || set_free || st->ready_at.ms == at.ms, "PATCH",
                "#%lu: another ready_at", t->serial);
        PROMISE(st->status == STATUS_IN_FLIGHT ||
                    (st->status == STATUS_BLOCKED && !(set & PATCH_FREE)) ||
                    st->status == (st->ready_at.ms <= t->at.ms ? STATUS_READY : STATUS_SCHEDULED),
                "PATCH", "#%lu: job %lu is %s", t->serial, m->serial,
                lifecycle_status_name(st->status));
        PROMISE(t->live[0] != YES || st->status == STATUS_IN_FLIGHT, "I3",
                "#%lu: the patch took job %lu from its worker", t->serial, m->serial);
    } else if (!ticket_is_in_doubt(t, code)) {
        PROMISE(code == ERR_NOT_FOUND || code == ERR_UNPROCESSABLE, "REPLY", "#%lu: answer %s",
                t->serial, err_wire(code));
    }
    ledger_patch_over(&t->sim->ledger, m, &t->patch, t->queues, code == ERR_OK);
}

void change_judge_cancel(struct ticket *t, const struct reply *r)
{
    struct ledger *l = &t->sim->ledger;
    struct mjob *m = t->jobs[0];
    enum err_code code = r->err.code;
    if (code != ERR_OK) {
        ledger_end_refused(m, t->ends[0], !ticket_is_in_doubt(t, code));
        if (ticket_is_in_doubt(t, code))
            return;
        PROMISE(code == ERR_NOT_FOUND || code == ERR_UNPROCESSABLE, "REPLY", "#%lu: answer %s",
                t->serial, err_wire(code));
        if (code == ERR_NOT_FOUND)
            check_missing(t);
        else
            PROMISE(t->live[0] != YES, "CANCEL", "#%lu: job %lu is in flight and was not canceled",
                    t->serial, m->serial);
        return;
    }
    const struct job_state *st = &r->jobs[0].state;
    PROMISE(!t->ended && t->there[0] != NO, "I4", "#%lu: job %lu had ended and was canceled",
            t->serial, m->serial);
    PROMISE(st->status == STATUS_DEAD && st->resolution == RESOLUTION_CANCELED && st->reason.len,
            "CANCEL", "#%lu: job %lu is %s", t->serial, m->serial,
            lifecycle_status_name(st->status));
    ledger_end_acked(l, m, t->ends[0]);
    ledger_runs_over(l, m);
    ledger_ended(l, m, STATUS_DEAD, t->at);
}

void change_judge_rerun(struct ticket *t, const struct reply *r)
{
    struct ledger *l = &t->sim->ledger;
    struct mjob *m = t->jobs[0];
    enum err_code code = r->err.code;
    ledger_rerun_over(m, ticket_is_in_doubt(t, code));
    if (ticket_is_in_doubt(t, code))
        return;
    PROMISE(code == ERR_OK || code == ERR_NOT_FOUND || code == ERR_UNPROCESSABLE, "REPLY",
            "#%lu: answer %s", t->serial, err_wire(code));
    if (code == ERR_NOT_FOUND)
        check_missing(t);
    bool fits = t->completed || t->ended_as == STATUS_DEAD;
    if (code == ERR_UNPROCESSABLE)
        PROMISE(t->there[0] != YES || !t->ended || !fits ||
                    (m->deadline.ms && m->deadline.ms <= t->at.ms),
                "RERUN", "#%lu: job %lu is dead and was not brought back", t->serial, m->serial);
    if (code != ERR_OK)
        return;
    const struct job_state *st = &r->jobs[0].state;
    PROMISE(!t->ended || fits, "I4", "#%lu: job %lu was completed", t->serial, m->serial);
    PROMISE(t->live[0] != YES, "I3", "#%lu: job %lu was in flight", t->serial, m->serial);
    bool waits = st->status == STATUS_BLOCKED && m->dep_count;
    PROMISE((st->status == STATUS_READY || waits) && st->resolution == RESOLUTION_NONE &&
                !instant_is_set(st->purge_at),
            "RERUN", "#%lu: job %lu is %s", t->serial, m->serial,
            lifecycle_status_name(st->status));
    PROMISE(st->forgiven == st->attempts, "RERUN", "#%lu: %u of %u attempts are forgiven",
            t->serial, st->forgiven, st->attempts);
    ledger_rerun(l, m, st, t->end_mark);
}
