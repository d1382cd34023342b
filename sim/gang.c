/* SPDX-License-Identifier: Apache-2.0 */

/* Gangs: jobs that are handed out together or not at all. GANG: whenever all is quiet, those of a
 * gang that have not ended are all in flight, since the same moment and in the same generation, or
 * none of them is; none ran before all of them were there. */

#include <stdio.h>

#include "sim.h"
#include "trace.h"

#define GANG_MAX 3

/* The next members of the gang that is not complete yet, or of a new one. */
void gang_enqueue(struct sim *s)
{
    static char texts[GANG_MAX][64], name[24];
    struct enqueue specs[GANG_MAX];
    if (s->gang.left == 0) {
        s->gang.number++;
        s->gang.left = s->gang.size = 1 + (unsigned)sim_draw(s, GANG_MAX);
    }
    size_t count = 1 + sim_draw(s, s->gang.left);
    s->gang.left -= (unsigned)count;
    trace_line("  gang %u of %u", s->gang.number, s->gang.size);
    int len = snprintf(name, sizeof name, "gang %u", s->gang.number);
    struct ticket *t = ticket_new(s, CMD_ENQUEUE, count);
    /* Whether an earlier one of them is there nobody may know. */
    t->needs_others = true;
    uint64_t group = ++s->groups;
    for (size_t i = 0; i < count; i++) {
        unsigned queue = (unsigned)sim_draw(s, s->profile.queues);
        int n = snprintf(texts[i], sizeof texts[i], "{\"n\":%lu,\"x\":1}",
                         (unsigned long)s->ledger.count);
        specs[i] =
            (struct enqueue){.queue = sim_queue_name(queue),
                             .type = sim_type_name(0),
                             .payload = {texts[i], (size_t)n},
                             .priority = (uint16_t)sim_draw(s, 2),
                             .ready_at = INSTANT_NONE,
                             .retry_limit = (int32_t)sim_draw(s, 4),
                             .completed_retention = RETENTION_DEFAULT,
                             .dead_retention = RETENTION_DEFAULT,
                             .options = {.gang = {name, (size_t)len}, .gang_size = s->gang.size}};
        struct mjob *m = ledger_add(&s->ledger, &specs[i], queue, 0, group, s->now);
        m->gang = s->gang.number;
        m->gang_size = s->gang.size;
        m->patched |= PATCH_READY_AT; /* it waits for the retries of others, too */
        m->may_vanish = s->sweeps > 0;
        t->jobs[i] = m;
    }
    struct command c = {.enqueue = {specs, count}};
    ticket_submit(t, &c);
}

/* --- audit --- */

struct tally {
    const struct mjob *in_flight, *waits;
    unsigned known;
    bool has_run;
};

static void count(struct tally *g, const struct mjob *m)
{
    g->known += !m->refused; /* one in doubt may have come and gone */
    g->has_run |= m->run_count > 0;
    if (!m->seen || lifecycle_is_terminal(m->status))
        return;
    if (m->status != STATUS_IN_FLIGHT) {
        g->waits = m;
        return;
    }
    const struct mjob *other = g->in_flight;
    PROMISE(!other || other->gang_generation == m->gang_generation, "GANG",
            "jobs %lu and %lu are in flight in two generations", other->serial, m->serial);
    PROMISE(!other || other->dequeued_at.ms == m->dequeued_at.ms, "GANG",
            "jobs %lu and %lu were not handed out together", other->serial, m->serial);
    g->in_flight = m;
}

void gang_audit(const struct sim *s)
{
    const struct ledger *l = &s->ledger;
    for (unsigned number = 1; number <= s->gang.number; number++) {
        struct tally g = {0};
        unsigned size = 0;
        for (size_t i = 0; i < l->count; i++) {
            if (l->jobs[i]->gang != number)
                continue;
            size = l->jobs[i]->gang_size;
            count(&g, l->jobs[i]);
        }
        PROMISE(!g.in_flight || !g.waits, "GANG", "job %lu is in flight and job %lu waits",
                g.in_flight->serial, g.waits->serial);
        PROMISE(!g.has_run || g.known >= size, "GANG", "gang %u ran with %u members of %u", number,
                g.known, size);
    }
}

/* Those whose others never came. */
void gang_remove_incomplete(struct sim *s)
{
    struct ledger *l = &s->ledger;
    for (size_t i = 0; i < l->count; i++) {
        struct mjob *m = l->jobs[i];
        if (!m->gang || !m->seen || m->status != STATUS_READY)
            continue;
        unsigned there = 0;
        for (size_t k = 0; k < l->count; k++)
            there += l->jobs[k]->gang == m->gang && l->jobs[k]->seen &&
                     !lifecycle_is_terminal(l->jobs[k]->status);
        PROMISE(there < m->gang_size && m->run_total == 0, "GANG",
                "gang %u is complete and was not handed out", m->gang);
        struct ticket *t = ticket_new(s, CMD_REMOVE, 1);
        ticket_about(t, 0, m, 0);
        m->removals++;
        m->may_vanish = true;
        struct command c = {.id = m->id};
        ticket_submit(t, &c);
    }
    sim_run_until(s, instant_add(s->now, (span){(int64_t)60 * 86400 * 1000}));
}
