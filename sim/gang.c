/* SPDX-License-Identifier: Apache-2.0 */

/* Gangs: jobs that are handed out together or not at all. GANG: whenever everything is quiet, the
 * members of a gang that have not ended are either all in flight, since the same moment and in the
 * same generation, or none of them is; none ran before all of them were there. None waits for
 * itself, over whatever jobs and gangs. A member that was brought back by hand runs alone, and does
 * not count. */

#include <stdio.h>

#include "sim.h"
#include "trace.h"

#define KNOTS 3 /* gangs that are filled at a time */

static unsigned size_of(const struct sim *s, unsigned number)
{
    return s->profile.knots ? GANG_MAX : 1 + (unsigned)((number * 7 + s->seed) % GANG_MAX);
}

/* Each is asked for by as many as it has places, but that some come late. */
static unsigned some_gang(struct sim *s)
{
    if (s->gang.number && sim_chance(s, 10))
        return 1 + (unsigned)sim_draw(s, s->gang.number); /* which may have no place left */
    if (s->gang.left == 0)
        s->gang.left = size_of(s, ++s->gang.number);
    s->gang.left--;
    return s->gang.number;
}

/* Of the newest ones, all of which may lack members. */
static unsigned some_knot(struct sim *s)
{
    if (s->gang.number < KNOTS || sim_chance(s, 20))
        return ++s->gang.number;
    return s->gang.number - (unsigned)sim_draw(s, KNOTS);
}

bool gang_join(struct sim *s, struct enqueue *spec, char name[GANG_NAME])
{
    if (!sim_chance(s, s->profile.knots ? 90 : s->profile.nodes ? 60 : 30))
        return false;
    unsigned number = s->profile.knots ? some_knot(s) : some_gang(s);
    int n = snprintf(name, GANG_NAME, "g%u", number);
    spec->options.gang = (struct str){name, (size_t)n};
    spec->options.gang_size = size_of(s, number);
    spec->options.concurrency_key = spec->unique_key = (struct str){0};
    spec->unique_while = UNIQUE_NONE;
    return true;
}

bool gang_is_member(const struct job *job)
{
    return job->options.gang.len && !job->state.extras.gang_alone;
}

/* By what was read of it. A cancel may be a run that no worker had. */
static bool was_handed_out(const struct mjob *m)
{
    return m->run_total > 0 && instant_is_set(m->dequeued_at);
}

bool gang_may_go(const struct sim *s, const struct job *job)
{
    unsigned there = 0, number = 0;
    if (instant_is_set(job->state.dequeued_at)) /* of which nobody may have been told */
        return true;
    for (size_t i = 1; i < job->options.gang.len; i++)
        number = number * 10 + (unsigned)(job->options.gang.at[i] - '0');
    for (size_t i = 0; i < s->ledger.count; i++) {
        const struct mjob *m = s->ledger.jobs[i];
        if (m->gang != number)
            continue;
        if (m->run_count || was_handed_out(m))
            return true;
        there += !m->refused && !m->never && !m->gone_seq && !m->ended_seq;
    }
    return there >= size_of(s, number);
}

/* --- audit --- */

struct tally {
    const struct mjob *in_flight, *waits;
    unsigned known, there, blocked;
    bool ever_ran, formed; /* formed: the present members ran, perhaps after taking over its id */
};

static void count(struct tally *g, const struct mjob *m)
{
    g->known += !m->refused; /* one in doubt may have existed for a while */
    g->ever_ran |= m->run_count > 0 && !m->rerun_ever;
    if (!m->seen || lifecycle_is_terminal(m->status) || m->gang_alone)
        return;
    g->there++;
    g->formed |= was_handed_out(m);
    g->blocked += m->status == STATUS_BLOCKED;
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

static struct tally tally_of(const struct sim *s, unsigned number)
{
    struct tally g = {0};
    for (size_t i = 0; i < s->ledger.count; i++)
        if (s->ledger.jobs[i]->gang == number)
            count(&g, s->ledger.jobs[i]);
    return g;
}

/* --- circles --- */

/* Whether it waits now, and for the others of its gang. */
static bool waits_in_gang(const struct mjob *m)
{
    return m->gang && !m->gang_alone && m->seen && !lifecycle_is_terminal(m->status) &&
           !was_handed_out(m);
}

static bool is_new(struct mjob *m)
{
    bool new = m->seen && !m->is_waited_for;
    m->is_waited_for = new || m->is_waited_for;
    return new;
}

static bool wait_for_deps(struct mjob *m)
{
    bool any = false;
    for (unsigned k = 0; m->status == STATUS_BLOCKED && k < m->dep_count; k++)
        if (m->waits_for >> k & 1)
            any |= is_new(m->deps[k]);
    return any;
}

/* Whoever is waited for waits for others, too. */
static bool wait_for_more(struct sim *s)
{
    bool any = false;
    for (size_t i = 0; i < s->ledger.count; i++) {
        struct mjob *m = s->ledger.jobs[i];
        if (!m->is_waited_for)
            continue;
        any |= wait_for_deps(m);
        for (size_t k = 0; k < s->ledger.count && waits_in_gang(m); k++)
            if (s->ledger.jobs[k]->gang == m->gang && waits_in_gang(s->ledger.jobs[k]))
                any |= is_new(s->ledger.jobs[k]);
    }
    return any;
}

static void check_circle(struct sim *s, unsigned number)
{
    bool any = false;
    for (size_t i = 0; i < s->ledger.count; i++)
        s->ledger.jobs[i]->is_waited_for = false;
    for (size_t i = 0; i < s->ledger.count; i++)
        if (s->ledger.jobs[i]->gang == number && waits_in_gang(s->ledger.jobs[i]))
            any |= wait_for_deps(s->ledger.jobs[i]);
    while (any)
        any = wait_for_more(s);
    for (size_t i = 0; i < s->ledger.count; i++) {
        const struct mjob *m = s->ledger.jobs[i];
        PROMISE(m->gang != number || !m->is_waited_for || !waits_in_gang(m), "GANG",
                "gang %u waits for job %lu, which is a member of it", number, m->serial);
    }
}

/* --- the fall --- */

static bool is_fallen(const struct mjob *m)
{
    return m->seen && m->gang && m->status == STATUS_DEAD && m->resolution == RESOLUTION_GANG;
}

static bool fell_by_itself(const struct mjob *m)
{
    return m->seen && m->gang && !m->gang_alone && m->status == STATUS_DEAD && m->run_count &&
           !m->rerun_ever && !m->uncanceled &&
           (m->resolution == RESOLUTION_FAILED || m->resolution == RESOLUTION_CLAIM_EXPIRED);
}

/* All of a gang is dead with the first of it, and only then. */
static void check_fallen(const struct sim *s, const struct mjob *m)
{
    PROMISE(!is_fallen(m) || ledger_may_fall(&s->ledger, m, s->now), "GANG",
            "job %lu died with its gang, of which nobody is dead", m->serial);
    for (size_t i = 0; fell_by_itself(m) && i < s->ledger.count; i++) {
        const struct mjob *o = s->ledger.jobs[i];
        bool goes_on = o->gang == m->gang && o->seen && o->status == STATUS_IN_FLIGHT &&
                       !o->gang_alone && !o->rerun_ever && !o->uncanceled &&
                       o->gang_generation == m->gang_generation;
        PROMISE(!goes_on, "GANG", "job %lu is in flight, and job %lu of its gang is dead",
                o->serial, m->serial);
    }
}

void gang_audit(struct sim *s)
{
    for (unsigned number = 1; number <= s->gang.number; number++) {
        struct tally g = tally_of(s, number);
        PROMISE(!g.in_flight || !g.waits, "GANG", "job %lu is in flight and job %lu waits",
                g.in_flight->serial, g.waits->serial);
        PROMISE(!g.ever_ran || g.known >= size_of(s, number), "GANG",
                "gang %u ran with %u members of %u", number, g.known, size_of(s, number));
        if (g.blocked)
            check_circle(s, number);
    }
    for (size_t i = 0; i < s->ledger.count; i++)
        check_fallen(s, s->ledger.jobs[i]);
}

/* --- the end --- */

size_t gang_remove_incomplete(struct sim *s)
{
    size_t removed = 0;
    for (size_t i = 0; i < s->ledger.count; i++) {
        struct mjob *m = s->ledger.jobs[i];
        if (!m->gang || m->gang_alone || !m->seen || m->status != STATUS_READY)
            continue;
        struct tally g = tally_of(s, m->gang);
        PROMISE(g.blocked || (g.there < size_of(s, m->gang) && !g.formed), "GANG",
                "gang %u is complete and was not handed out", m->gang);
        PROMISE(g.blocked || !s->settings.engine.gang_wait_max.ms, "WAIT",
                "gang %u lacks members for ever", m->gang);
        struct ticket *t = ticket_new(s, CMD_REMOVE, 1);
        ticket_about(t, 0, m, 0);
        m->removals++;
        m->may_vanish = true;
        struct command c = {.id = m->id};
        ticket_submit(t, &c);
        removed++;
    }
    return removed;
}
