/* SPDX-License-Identifier: Apache-2.0 */

/* Checks that need quiet: nothing in progress, no client acting, the clock stopped. */

#include <string.h>

#include "base/must.h"
#include "base/units.h"
#include "sim.h"
#include "trace.h"

/* --- walking through everything --- */

struct tally {
    struct sim *sim;
    bool backwards, more;
    struct id_place at;
    size_t count;
    uint64_t statuses[QUEUES][STATUS_COUNT];
    struct events_audit *events; /* or NULL */
};

static void tally_page(struct ticket *t, const struct reply *r)
{
    struct tally *w = t->ctx;
    struct sim *s = w->sim;
    PROMISE(r->err.code == ERR_OK && r->count <= t->limit, "LIST", "#%lu: a page failed",
            t->serial);
    for (size_t i = 0; i < r->count; i++) {
        const struct job *job = &r->jobs[i];
        struct mjob *m = ledger_see(&s->ledger, job, true, s->now);
        int order = w->at.set ? id_cmp(job->id, w->at.id) : 1;
        PROMISE(w->backwards ? order < 0 || !w->at.set : order > 0, "LIST",
                "#%lu: job %lu is out of order", t->serial, m->serial);
        PROMISE(ledger_there(&s->ledger, m, s->now) != NO, "I2", "job %lu is gone and listed",
                m->serial);
        ledger_check_status(&s->ledger, m, job, s->now);
        PROMISE(!m->deadline.ms || m->deadline.ms > s->now.ms ||
                    lifecycle_is_terminal(job->state.status),
                "DEADLINE", "job %lu outlives its deadline", m->serial);
        if (w->events)
            events_see(w->events, job);
        w->at = (struct id_place){true, job->id};
        w->count++;
        w->statuses[job->queue.at[1] - '0'][job->state.status]++;
        m->seen |= !w->backwards;
        PROMISE(m->seen, "LIST", "job %lu is only listed backwards", m->serial);
    }
    PROMISE(!r->more || r->count == t->limit, "LIST", "#%lu: a short page", t->serial);
    w->more = r->more;
}

static void walk_all(struct sim *s, struct tally *w)
{
    do {
        struct ticket *t = ticket_new(s, CMD_LIST, 0);
        t->limit = 1 + (uint32_t)sim_draw(s, 100);
        t->then = tally_page;
        t->ctx = w;
        struct command c = {.list = {.from = w->at, .backwards = w->backwards, .limit = t->limit}};
        ticket_submit(t, &c);
        sim_pump(s);
    } while (w->more);
}

/* --- counters --- */

static void take_count(struct ticket *t, const struct reply *r)
{
    *(uint64_t *)t->ctx = r->count;
}

static uint64_t count_of(struct sim *s, struct str queue, unsigned statuses, bool slowly)
{
    uint64_t count = UINT64_MAX;
    struct str types[TYPES] = {sim_type_name(0), sim_type_name(1), sim_type_name(2)};
    struct ticket *t = ticket_new(s, CMD_COUNT, 0);
    t->then = take_count;
    t->ctx = &count;
    /* A filter by type makes the server read each job. */
    struct command c = {.list = {.filter = {.queues = &queue,
                                            .queue_count = 1,
                                            .types = types,
                                            .type_count = slowly ? TYPES : 0,
                                            .statuses = statuses}}};
    ticket_submit(t, &c);
    sim_pump(s);
    return count;
}

static void check_counts(struct sim *s, const struct tally *w)
{
    for (unsigned q = 0; q < s->profile.queues; q++) {
        uint64_t all = 0;
        for (unsigned st = 0; st < STATUS_COUNT; st++) {
            uint64_t walked = w->statuses[q][st];
            uint64_t counted = count_of(s, sim_queue_name(q), 1u << st, sim_chance(s, 20));
            PROMISE(walked == counted, "COUNT", "queue %u has %lu jobs %s, counted %lu", q, walked,
                    lifecycle_status_name((enum status)st), counted);
            all += walked;
        }
        PROMISE(count_of(s, sim_queue_name(q), 0, false) == all, "COUNT", "queue %u has %lu jobs",
                q, all);
    }
}

static void check_queues(struct ticket *t, const struct reply *r)
{
    const struct tally *w = t->ctx;
    size_t n = 0;
    for (unsigned q = 0; q < QUEUES; q++) {
        uint64_t jobs = 0;
        for (unsigned st = 0; st < STATUS_COUNT; st++)
            jobs += w->statuses[q][st];
        if (jobs)
            PROMISE(n < r->count && str_eq(r->names[n++], sim_queue_name(q)), "COUNT",
                    "queue %u is not listed", q);
    }
    PROMISE(n == r->count, "COUNT", "%zu queues are listed, %zu have jobs", r->count, n);
}

/* --- job by job --- */

struct pair {
    struct sim *sim;
    struct mjob *job;
    struct ticket *read;
    bool found;
    struct reply reply;
    struct job copy;
    char counts[256], waits_for[64], avoid_node[8];
};

static struct str keep(struct str text, char *room, size_t size)
{
    must(text.len <= size);
    if (text.len)
        memcpy(room, text.at, text.len);
    return (struct str){room, text.len};
}

static void take_read(struct ticket *t, const struct reply *r)
{
    struct pair *p = t->ctx;
    struct sim *s = p->sim;
    PROMISE(r->err.code == ERR_OK || r->err.code == ERR_NOT_FOUND, "REPLY", "#%lu: %s", t->serial,
            err_wire(r->err.code));
    p->found = r->err.code == ERR_OK;
    if (!p->found)
        return;
    PROMISE(ledger_there(&s->ledger, p->job, s->now) != NO, "I2", "job %lu is gone and was read",
            p->job->serial);
    PROMISE(ledger_see(&s->ledger, &r->jobs[0], true, s->now) == p->job, "VALUE",
            "another job was read");
    ledger_fold_whole(&s->ledger, p->job, r->jobs[0].payload);
    ledger_ticks_whole(p->job, r->jobs[0].payload, s->now);
    p->reply = *r;
    p->copy = r->jobs[0];
    /* Only numbers, some lists and whether there is a reason remain valid after the answer. */
    struct job_extras *x = &p->copy.state.extras;
    x->retry_counts = keep(x->retry_counts, p->counts, sizeof p->counts);
    x->waits_for = keep(x->waits_for, p->waits_for, sizeof p->waits_for);
    x->avoid_node = keep(x->avoid_node, p->avoid_node, sizeof p->avoid_node);
    p->copy.state.reason.at = p->copy.state.reason.len ? "?" : NULL;
    p->copy.state.reason.len = p->copy.state.reason.len != 0;
    p->reply.jobs = &p->copy;
}

static void take_runs(struct ticket *t, const struct reply *r)
{
    struct pair *p = t->ctx;
    struct sim *s = p->sim;
    PROMISE((r->err.code == ERR_OK) == p->found, "LIST", "job %lu and its runs disagree",
            p->job->serial);
    if (p->found)
        ledger_audit(&s->ledger, p->job, &p->reply, r, s->now);
    else
        ledger_missing(&s->ledger, p->job, s->now);
    trace_line("audit of job %lu: %s, %zu runs", p->job->serial,
               p->found ? lifecycle_status_name(p->copy.state.status) : "gone", r->count);
}

static void audit_job(struct sim *s, struct mjob *m)
{
    struct pair p = {.sim = s, .job = m};
    struct ticket *read = ticket_new(s, CMD_READ, 0), *runs = ticket_new(s, CMD_RUNS, 0);
    read->then = take_read;
    runs->then = take_runs;
    read->ctx = runs->ctx = &p;
    struct command c = {.read = {m->id}};
    ticket_submit(read, &c);
    struct command d = {.runs = {.id = m->id, .from = -1, .limit = BACKEND_PAGE_MAX}};
    ticket_submit(runs, &d);
    sim_pump(s);
}

/* How many more may be in flight, over all queues. */
static uint64_t in_flight_room(const struct sim *s, uint64_t in_flight)
{
    uint64_t most = s->settings.engine.in_flight_max;
    if (most == 0)
        return UINT64_MAX;
    return in_flight < most ? most - in_flight : 0;
}

/* A ready job whose taker waits with room is stuck. */
static void check_not_stuck(struct sim *s, const struct tally *w)
{
    bool stuck[QUEUES] = {0};
    uint64_t in_flight = 0;
    for (unsigned q = 0; q < s->profile.queues; q++)
        in_flight += w->statuses[q][STATUS_IN_FLIGHT];
    if (in_flight_room(s, in_flight) == 0)
        return;
    for (unsigned q = 0; q < s->profile.queues; q++) {
        struct mlimit limit = limit_read(s, q);
        /* Only time shows whether there is a token. */
        stuck[q] = w->statuses[q][STATUS_READY] && limit_room(&limit) > 0 && !limit.rate &&
                   ledger_limit_has_ready(&s->ledger, q, &limit, s->now);
    }
    for (unsigned i = 0; i < STREAMS; i++) {
        const struct mstream *st = s->streams[i];
        if (!st || st->paused || ledger_holds(&s->ledger, st) >= st->prefetch)
            continue;
        for (unsigned q = 0; q < QUEUES; q++)
            PROMISE((st->queues && !(st->queues >> q & 1)) || !stuck[q], "I5",
                    "queue %u has ready jobs, and stream %lu has room", q, st->serial);
    }
    for (unsigned i = 0; i < CLAIMS; i++) {
        const struct ticket *t = s->claims[i].ticket;
        for (unsigned q = 0; t && q < QUEUES; q++)
            PROMISE((t->queues && !(t->queues >> q & 1)) || !stuck[q], "I5",
                    "queue %u has ready jobs, and claim #%lu waits", q, t->serial);
        PROMISE(!t || t->until.ms > s->now.ms, "I5", "the wait of claim #%lu is over", t->serial);
    }
}

static void check_all(struct sim *s)
{
    struct ledger *l = &s->ledger;
    struct events_audit events;
    struct tally w = {.sim = s, .events = &events}, back = {.sim = s, .backwards = true};
    for (size_t i = 0; i < l->count; i++)
        l->jobs[i]->seen = false;
    events_open(s, &events);
    walk_all(s, &w);
    events_close(&events);
    history_close(s, &events.history);
    walk_all(s, &back);
    PROMISE(w.count == back.count, "LIST", "%zu jobs forwards, %zu backwards", w.count, back.count);
    for (size_t i = 0; i < l->count; i++) {
        struct mjob *m = l->jobs[i];
        if (!m->seen)
            ledger_missing(l, m, s->now);
        else
            audit_job(s, m);
    }
    ledger_check_groups(l);
    ledger_fold_check_groups(l);
    ledger_check_holders(l);
    alias_audit(s);
    ledger_depend_check(l, s->now);
    gang_audit(s);
    budget_audit(s);
    group_audit(s);
    kv_audit(s);
    check_counts(s, &w);
    struct ticket *t = ticket_new(s, CMD_QUEUES, 0);
    struct command c = {0};
    t->then = check_queues;
    t->ctx = &w;
    ticket_submit(t, &c);
    sim_pump(s);
    cron_audit(s);
    check_not_stuck(s, &w);
    engine_check(embedded_engine(s->backend));
}

void quiet_audit(struct sim *s)
{
    s->quiet = true;
    sim_settle(s);
    s->may_fail = false;
    cron_catch_up(s);
    trace_line("audit");
    check_all(s);
    s->may_fail = s->profile.faults || s->profile.space;
    s->quiet = false;
}

void quiet_keys(struct sim *s)
{
    struct ledger *l = &s->ledger;
    bool taken[KEYS + 1];
    quiet_audit(s);
    s->quiet = true;
    sim_settle(s);
    s->may_fail = false;
    for (unsigned key = 1; key <= KEYS; key++)
        taken[key] = ledger_has_holder(l, key);
    trace_line("keys");
    size_t first = l->count;
    client_enqueue_keys(s, UNIQUE_ACTIVE);
    sim_pump(s);
    for (unsigned key = 1; key <= KEYS; key++)
        PROMISE(l->jobs[first + key - 1]->duplicate == taken[key], "UNIQUE",
                "key %u is %s and was %s", key, taken[key] ? "taken" : "free",
                taken[key] ? "given" : "refused");
    s->may_fail = s->profile.faults || s->profile.space;
    s->quiet = false;
}

/* --- the order of delivery --- */

#define ORDER_MAX 200

struct order {
    struct sim *sim;
    struct order_job {
        struct id id;
        uint16_t priority;
        unsigned queue, key;
        bool granted, gone;
    } ready[ORDER_MAX];
    size_t count, claimable;
    /* Claimed while both kinds waited in their queue at one priority: granted retries, others. */
    int64_t given[QUEUES][2];
    uint32_t asked;
    uint64_t all_room, room[QUEUES], key_room[QUEUES][CKEYS + 1];
    bool cut;   /* there are more than these */
    bool gangs; /* some gang may be complete, or a job draws on budgets: they come in another order
                 */
};

static bool has_room(const struct order *o, const struct order_job *j)
{
    return !j->gone && o->all_room > 0 && o->room[j->queue] > 0 &&
           o->key_room[j->queue][j->key] > 0;
}

static void take_room(struct order *o, struct order_job *j)
{
    uint64_t *room = &o->room[j->queue], *key_room = &o->key_room[j->queue][j->key];
    *room -= *room != UINT64_MAX;
    *key_room -= *key_room != UINT64_MAX;
    o->all_room -= o->all_room != UINT64_MAX;
    j->gone = true;
}

/* Jobs beyond the room of their queue and key stay, whichever they are. */
static size_t count_claimable(struct order o)
{
    size_t n = 0;
    for (size_t i = 0; i < o.count; i++) {
        if (!has_room(&o, &o.ready[i]))
            continue;
        take_room(&o, &o.ready[i]);
        n++;
    }
    return n;
}

/* The share of granted retries: only the engine knows its current state, but that is bounded. */
static void count_share(struct order *o, const struct order_job *j)
{
    bool contested = false;
    for (size_t i = 0; i < o->count; i++) {
        const struct order_job *c = &o->ready[i];
        contested |= has_room(o, c) && c->queue == j->queue && c->priority == j->priority &&
                     c->granted != j->granted;
    }
    if (!contested) {
        o->given[j->queue][0] = o->given[j->queue][1] = 0;
        return;
    }
    int64_t share = o->sim->ledger.settings.retries_share;
    int64_t others = (o->given[j->queue][0] += !j->granted) * share;
    int64_t granted = (o->given[j->queue][1] += j->granted) * (100 - share);
    PROMISE(granted <= 100 + others, "SHARE", "too many retries come before other jobs");
    PROMISE(others <= 100 + granted, "SHARE", "too few retries come before other jobs");
}

/* Whether c had to come before j, whatever the share. */
static bool comes_before(const struct order_job *c, const struct order_job *j)
{
    if (c->priority != j->priority)
        return c->priority < j->priority;
    if (c->granted != j->granted || (c->granted && c->queue != j->queue))
        return false;
    return id_cmp(c->id, j->id) < 0;
}

static void check_place(struct order *o, struct id id, size_t place)
{
    size_t at = 0;
    while (at < o->count && !id_eq(o->ready[at].id, id))
        at++;
    struct order_job *j = &o->ready[at];
    PROMISE(at < o->count && has_room(o, j), "ORDER", "the job claimed at place %zu may not go",
            place);
    for (size_t i = 0; i < o->count; i++)
        PROMISE(!has_room(o, &o->ready[i]) || !comes_before(&o->ready[i], j), "ORDER",
                "the job claimed at place %zu is not the first in line", place);
    count_share(o, j);
    take_room(o, j);
}

static void take_ready(struct ticket *t, const struct reply *r)
{
    struct order *o = t->ctx;
    o->cut = r->more;
    for (size_t i = 0; i < r->count; i++) {
        unsigned queue = (unsigned)(r->jobs[i].queue.at[1] - '0');
        struct str name = r->jobs[i].options.concurrency_key;
        unsigned key = name.len ? (unsigned)(name.at[1] - '0') : 0;
        if (r->jobs[i].state.status == STATUS_IN_FLIGHT) {
            uint64_t *room = &o->key_room[queue][key];
            *room -= *room != UINT64_MAX && *room > 0;
            continue;
        }
        if (r->jobs[i].options.budgets.len) {
            o->gangs = true;
            continue;
        }
        if (gang_is_member(&r->jobs[i])) {
            o->gangs |= gang_may_go(o->sim, &r->jobs[i]);
            continue;
        }
        o->ready[o->count++] = (struct order_job){.id = r->jobs[i].id,
                                                  .priority = r->jobs[i].state.priority,
                                                  .queue = queue,
                                                  .key = key,
                                                  .granted = r->jobs[i].state.extras.granted != 0};
    }
    o->claimable = count_claimable(*o);
}

static void check_claimed(struct ticket *t, const struct reply *r)
{
    struct order *o = t->ctx;
    struct sim *s = o->sim;
    size_t expected = o->claimable < o->asked ? o->claimable : o->asked;
    size_t most = s->settings.engine.hand_out_max; /* in one turn, and so to one claim */
    if (most && expected > most)
        expected = most;
    client_claim_over(s, t);
    PROMISE(r->count == expected, "I5", "%zu jobs were claimed of %zu ready, %u asked", r->count,
            o->claimable, o->asked);
    for (size_t i = 0; i < r->count; i++) {
        check_place(o, r->handouts[i].job.id, i);
        ledger_handed(&s->ledger, &r->handouts[i], NULL, t->lease, s->now);
    }
}

static unsigned free_slot(const struct sim *s)
{
    unsigned slot = 0;
    while (slot < CLAIMS && s->claims[slot].ticket)
        slot++;
    return slot;
}

void quiet_order(struct sim *s)
{
    s->quiet = true;
    sim_settle(s);
    unsigned slot = free_slot(s);
    unsigned queues = (unsigned)sim_draw(s, 1u << s->profile.queues);
    struct queue_set set = sim_queue_set(queues);
    struct order o = {.sim = s};
    bool rated = false;
    uint64_t in_flight = 0;
    for (unsigned q = 0; q < s->profile.queues; q++) {
        in_flight += count_of(s, sim_queue_name(q), 1u << STATUS_IN_FLIGHT, false);
        struct mlimit limit = limit_read(s, q);
        o.room[q] = limit_room(&limit);
        for (unsigned key = 0; key <= CKEYS; key++)
            o.key_room[q][key] = key && limit.per_key ? limit.per_key : UINT64_MAX;
        rated |= limit.rate != 0;
    }
    struct ticket *t = ticket_new(s, CMD_LIST, 0);
    struct command c = {
        .list = {.filter = {.queues = set.names,
                            .queue_count = set.count,
                            .statuses = 1u << STATUS_READY | 1u << STATUS_IN_FLIGHT},
                 .limit = ORDER_MAX}};
    t->then = take_ready;
    t->ctx = &o;
    o.all_room = in_flight_room(s, in_flight);
    ticket_submit(t, &c);
    sim_pump(s);
    if (slot < CLAIMS && !rated && !o.cut && !o.gangs) {
        o.asked = 1 + (uint32_t)sim_draw(s, 8);
        trace_line("order of queues %x, %zu ready", queues, o.count);
        client_claim(s, slot, queues, o.asked, (span){1000}, (span){0});
        s->claims[slot].ticket->then = check_claimed;
        s->claims[slot].ticket->ctx = &o;
        sim_pump(s);
        PROMISE(!s->claims[slot].ticket, "REPLY", "a claim that does not wait has no answer");
    }
    s->quiet = false;
}

/* --- the end --- */

static uint64_t unfinished(struct sim *s)
{
    uint64_t n = 0;
    for (unsigned q = 0; q < s->profile.queues; q++)
        n += count_of(s, sim_queue_name(q),
                      1u << STATUS_READY | 1u << STATUS_SCHEDULED | 1u << STATUS_IN_FLIGHT, false);
    return n;
}

/* Jobs that wait for something that will not happen. */
static size_t remove_blocked(struct sim *s)
{
    struct ledger *l = &s->ledger;
    size_t removed = 0;
    for (size_t n = 0; n < l->count; n++) {
        struct mjob *m = l->jobs[n];
        if (!m->seen || m->status != STATUS_BLOCKED)
            continue;
        PROMISE(!m->held || !s->settings.engine.hold_max.ms || m->deadline.ms, "WAIT",
                "job %lu is held for ever", m->serial);
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

/* Ready times and retries are at most days away, retention weeks. */
static void run_to_the_end(struct sim *s)
{
    sim_run_until(s, instant_add(s->now, (span){(int64_t)60 * 86400 * 1000}));
    check_all(s);
}

/* Each removal may unblock others, or leave members of a gang alone. */
static void remove_rest(struct sim *s)
{
    while (gang_remove_incomplete(s) || remove_blocked(s))
        run_to_the_end(s);
    PROMISE(unfinished(s) == 0, "I5", "%lu jobs did not come to their end", unfinished(s));
}

void quiet_finish(struct sim *s)
{
    s->quiet = s->working = true;
    s->profile.eager = s->profile.faults = s->profile.space = false;
    sim_settle(s);
    s->may_fail = false;
    trace_line("finish");
    cron_remove_all(s);
    if (s->profile.limits)
        limit_unpause(s);
    if (s->profile.budgets)
        budget_widen(s);
    sim_pump(s);
    client_leave(s);
    sim_pump(s);
    for (unsigned i = 0; i < 3; i++)
        client_open_stream(s, i, i == 2 ? 0 : 1 + (unsigned)sim_draw(s, 15),
                           (s->profile.gangs ? 4 : 1) + (uint32_t)sim_draw(s, 4));
    run_to_the_end(s);
    remove_rest(s);
    PROMISE(list_is_empty(&s->tickets), "REPLY", "a command was never answered");
    limit_remove_all(s);
    budget_remove_all(s);
    kv_remove_all(s);
    char kinds[64];
    uint64_t left = disk_records(s->disk, kinds, sizeof kinds);
    PROMISE(left == 0, "I2", "%lu records are left of jobs that are gone: %s", left, kinds);
    if (client_enqueue_keys(s, UNIQUE_EXISTS)) {
        sim_run_until(s, instant_add(s->now, (span){60 * 1000}));
        check_all(s);
        PROMISE(disk_records(s->disk, kinds, sizeof kinds) == 0, "I2", "records are left: %s",
                kinds);
    }
    s->working = false;
    client_leave(s);
    sim_pump(s);
    PROMISE(backend_is_idle(s->backend), "I5", "the loop has work left");
}
