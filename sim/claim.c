/* SPDX-License-Identifier: Apache-2.0 */

/* Claims of virtual clients. */

#include "sim.h"
#include "trace.h"

/* The first with the key is answered, with nothing, when it still waits. */
static void note_repeated(struct sim *s, const struct ticket *t)
{
    for (unsigned i = 0; i < CLAIMS; i++) {
        struct ticket *first = s->claims[i].ticket;
        if (first && first != t && first->key == t->key)
            first->canceled = true;
    }
}

static void send_claim(struct sim *s, unsigned slot, struct ticket *t, span wait)
{
    struct queue_set set = sim_queue_set(t->queues);
    t->is_claim = true;
    t->until = instant_add(s->now, wait);
    s->claims[slot].ticket = t;
    s->ledger.claims++;
    struct claim_spec spec = {.queues = set.names,
                              .queue_count = set.count,
                              .count = t->limit,
                              .worker = STR("claimer"),
                              .node = node_name(t->place),
                              .lease = t->lease,
                              .wait = wait,
                              .key = t->key,
                              .done = ticket_answer,
                              .ctx = t};
    trace_line("claim #%lu of %u, queues %x, lease %ld, wait %ld, key %lu%s", t->serial, t->limit,
               t->queues, t->lease.ms, wait.ms, t->key, t->again ? " again" : "");
    s->arrived = true;
    s->calling = true;
    s->claims[slot].handle = backend_claim(s->backend, &spec);
    s->calling = false;
}

void client_claim(struct sim *s, unsigned slot, unsigned queues, uint32_t count, span lease,
                  span wait)
{
    struct ticket *t = ticket_new(s, CMD_STATUS, 0);
    t->limit = count;
    t->lease = lease;
    t->queues = queues;
    t->place = s->quiet ? 0 : node_some(s);
    if (!s->quiet && sim_chance(s, s->profile.repeats ? 90 : 40)) {
        t->key = t->serial + 1;
        s->repeat = (struct mrepeat){t->key, queues, t->place, count, lease};
    }
    send_claim(s, slot, t, wait);
}

/* The newest run of the job, if the claim with this key got it and it is certainly live. */
static struct mrun *live_run(const struct sim *s, const struct mjob *m, uint64_t key)
{
    struct mrun *r = m->run_count ? &m->runs[m->run_count - 1] : NULL;
    return r && r->key == key && ledger_live(m, r, s->now) == YES ? r : NULL;
}

static bool is_unspoken(const struct mjob *m, const struct mrun *r)
{
    return !r->spoken && !instant_is_set(m->blind_renewal);
}

static void speak_of_one(struct sim *s, uint64_t key)
{
    for (size_t i = 0; i < s->ledger.count; i++) {
        struct mjob *m = s->ledger.jobs[i];
        const struct mrun *r = live_run(s, m, key);
        if (r && is_unspoken(m, r)) {
            client_renew(s, m, r->token);
            return;
        }
    }
}

static void want_again(struct sim *s, const struct ticket *t)
{
    for (size_t i = 0; i < s->ledger.count; i++) {
        struct mrun *r = live_run(s, s->ledger.jobs[i], t->key);
        if (r && is_unspoken(s->ledger.jobs[i], r))
            r->wanted = t->serial;
    }
}

/* A claim that is repeated gets each run of which nothing was said. */
void client_claimed_again(const struct ticket *t)
{
    const struct sim *s = t->sim;
    for (size_t i = 0; t->again && !t->canceled && i < s->ledger.count; i++) {
        const struct mjob *m = s->ledger.jobs[i];
        const struct mrun *r = live_run(s, m, t->key);
        PROMISE(!r || r->wanted != t->serial || !is_unspoken(m, r), "I3",
                "#%lu: job %lu was not handed out again", t->serial, m->serial);
    }
}

/* As its worker does when it has no answer; the answer may yet come, or have come. */
static void claim_again(struct sim *s, unsigned slot, span wait)
{
    struct ticket *t = ticket_new(s, CMD_STATUS, 0);
    const struct mrepeat *r = &s->repeat;
    t->limit = r->count;
    t->lease = r->lease;
    t->queues = r->queues;
    t->place = r->place;
    t->key = r->key;
    t->again = true;
    note_repeated(s, t);
    if (s->profile.repeats && sim_chance(s, 50))
        speak_of_one(s, r->key);
    want_again(s, t);
    send_claim(s, slot, t, wait);
}

void client_claim_over(struct sim *s, const struct ticket *t)
{
    for (unsigned i = 0; i < CLAIMS; i++)
        if (s->claims[i].ticket == t)
            s->claims[i] = (struct mclaim){0};
    s->ledger.claims--;
}

void client_cancel_claim(struct sim *s, unsigned slot)
{
    struct mclaim *c = &s->claims[slot];
    trace_line("cancel #%lu", c->ticket->serial);
    c->ticket->canceled = true;
    s->arrived = true;
    s->calling = true;
    backend_claim_cancel(s->backend, c->handle);
    s->calling = false;
}

void client_touch_claim(struct sim *s)
{
    unsigned slot = (unsigned)sim_draw(s, CLAIMS);
    if (s->claims[slot].ticket) {
        if (sim_chance(s, 30))
            client_cancel_claim(s, slot);
        return;
    }
    span wait = {sim_chance(s, 40) ? 0 : (int64_t)sim_draw(s, 20000)};
    if (s->repeat.key && sim_chance(s, s->profile.repeats ? 60 : 20)) {
        claim_again(s, slot, wait);
        return;
    }
    bool brief = sim_chance(s, 50) && !s->profile.repeats;
    span lease = {1 + (int64_t)sim_draw(s, brief ? 500 : 60000)};
    client_claim(s, slot, sim_some_queues(s), 1 + (uint32_t)sim_draw(s, 5), lease, wait);
}

/* --- claims of a given job --- */

void client_claim_job(struct sim *s, struct mjob *m)
{
    struct ticket *t = ticket_new(s, CMD_CLAIM_JOB, 1);
    ticket_about(t, 0, m, 0);
    t->lease.ms = 1 + (int64_t)sim_draw(s, sim_chance(s, 50) ? 500 : 60000);
    t->any_run = sim_chance(s, 50);
    t->limit = m->run_count ? m->runs[m->run_count - 1].index + (uint32_t)sim_draw(s, 2) : 0;
    s->ledger.claims++;
    struct command c = {.claim_job = {.id = m->id,
                                      .any_run = t->any_run,
                                      .run = t->limit,
                                      .worker = sim_chance(s, 80) ? STR("direct") : STR("claimer"),
                                      .lease = t->lease}};
    ticket_submit(t, &c);
}

/* A run whose first answer was lost: its lease need not begin with it. */
static void handed_late(struct sim *s, const struct handout *h)
{
    span lease = instant_diff(h->lease_end, h->job.state.dequeued_at);
    ledger_handed(&s->ledger, h, NULL, lease, s->now);
}

/* The run may be one that was handed over before, or one whose first answer was lost. */
static void judge_again(struct ticket *t, const struct handout *h)
{
    struct sim *s = t->sim;
    const struct mjob *m = t->jobs[0];
    struct mrun *run = ledger_run(m, h->token);
    PROMISE(h->job.state.status == STATUS_IN_FLIGHT && h->job.state.runs == h->run + 1, "I3",
            "#%lu: job %lu was handed out in a wrong state", t->serial, m->serial);
    if (!run) {
        handed_late(s, h);
        run = ledger_run(m, h->token);
        if (run)
            run->adopted = true;
        return;
    }
    PROMISE(!run->stream && run->index == h->run && ledger_live(m, run, t->at) != NO, "I3",
            "#%lu: a run of job %lu that is over was handed out again", t->serial, m->serial);
}

/* A claim that is repeated gets runs of the first that nobody has spoken of, with leases from now
 * on; or others, if the first got none. */
void client_handed(struct ticket *t, const struct handout *h)
{
    struct sim *s = t->sim;
    struct mjob *m = ledger_find(&s->ledger, h->job.id);
    struct mrun *run = t->again && m ? ledger_run(m, h->token) : NULL;
    if (!t->again)
        ledger_handed(&s->ledger, h, NULL, t->lease, s->now);
    else if (!run)
        handed_late(s, h);
    if (!run) {
        node_handed(s, h, t->place);
        m = ledger_find(&s->ledger, h->job.id);
        m->runs[m->run_count - 1].key = t->key;
        return;
    }
    PROMISE((run->key == t->key || run->adopted) && !run->confirmed && run->index == h->run &&
                ledger_live(m, run, t->at) != NO,
            "I3", "#%lu: run %u of job %lu is not to be handed out again", t->serial, h->run,
            m->serial);
    run->wanted = 0;
    run->lease_end = h->lease_end;
    if (run->renewals == 0 && m->blind_renewal.ms < t->at.ms)
        run->lease_min = h->lease_end;
}

/* Refused because another worker holds it, or it is not ready: it must not be known to be ready. */
static void judge_refusal(const struct ticket *t, enum err_code code)
{
    const struct mjob *m = t->jobs[0];
    const struct profile *p = &t->sim->profile;
    switch (code) {
    case ERR_NOT_FOUND:
        PROMISE(t->there[0] != YES, "I2", "#%lu: job %lu is lost", t->serial, m->serial);
        return;
    case ERR_STALE:
        PROMISE(!t->any_run, "REPLY", "#%lu: no run of job %lu was asked for", t->serial,
                m->serial);
        return;
    case ERR_CONFLICT:
        return;
    case ERR_UNPROCESSABLE:
        PROMISE(t->live[0] != YES && (p->limits || p->budgets || p->gangs || p->policies ||
                                      t->sim->settings.engine.in_flight_max),
                "ORDER", "#%lu: job %lu was kept back", t->serial, m->serial);
        return;
    default:
        PROMISE(ticket_is_in_doubt(t, code) || t->sim->stopping, "REPLY", "#%lu: answer %s",
                t->serial, err_wire(code));
    }
}

void client_job_claimed(struct ticket *t, const struct reply *r)
{
    struct sim *s = t->sim;
    s->ledger.claims--;
    if (r->err.code != ERR_OK) {
        judge_refusal(t, r->err.code);
        return;
    }
    const struct handout *h = &r->handouts[0];
    PROMISE(r->count == 1 && id_eq(h->job.id, t->jobs[0]->id), "VALUE", "#%lu: another job",
            t->serial);
    PROMISE(t->any_run || h->run == t->limit, "I3", "#%lu: run %u of job %lu, not run %u",
            t->serial, h->run, t->jobs[0]->serial, t->limit);
    trace_line("  leased job %lu run %u token %lx%s", t->jobs[0]->serial, h->run, h->token,
               r->repeated ? " again" : "");
    if (r->repeated)
        judge_again(t, h);
    else
        ledger_handed(&s->ledger, h, NULL, t->lease, s->now);
}
