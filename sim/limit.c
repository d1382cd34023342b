/* SPDX-License-Identifier: Apache-2.0 */

/* Pause, concurrency and rate of queues, changed while jobs run. ledger_limit.c judges. */

#include "sim.h"
#include "trace.h"

static void settle(struct ticket *t, const struct reply *r)
{
    bool doubt = ticket_is_in_doubt(t, r->err.code);
    PROMISE(doubt || r->err.code == ERR_OK, "REPLY", "#%lu: %s", t->serial, err_wire(r->err.code));
    if (!doubt)
        ledger_limit_acked(&t->sim->ledger, t->queues, t->setting);
}

static void put(struct sim *s, unsigned queue, const struct mlimit *limit)
{
    struct ticket *t = ticket_new(s, CMD_QUEUE_PUT, 0);
    t->then = settle;
    t->queues = queue;
    t->setting = ledger_limit_asked(&s->ledger, queue, limit, s->now);
    trace_line("  queue %u: paused %d, concurrency %ld, per key %ld, rate %ld in %ld, burst %ld",
               queue, limit->paused, (long)limit->concurrency, (long)limit->per_key,
               (long)limit->rate, (long)limit->per_ms, (long)limit->burst);
    struct command c = {
        .queue = {.name = sim_queue_name(queue),
                  .set = QUEUE_PAUSED | QUEUE_CONCURRENCY | QUEUE_PER_KEY | QUEUE_RATE,
                  .settings = QUEUE_SETTINGS_DEFAULT}};
    c.queue.settings.paused = limit->paused;
    c.queue.settings.concurrency = (uint32_t)limit->concurrency;
    c.queue.settings.concurrency_per_key = (uint32_t)limit->per_key;
    c.queue.settings.rate = (struct rate){
        (uint32_t)limit->rate, (uint32_t)limit->burst, {limit->rate ? limit->per_ms : 0}};
    ticket_submit(t, &c);
}

void limit_step(struct sim *s)
{
    struct mlimit limit = {.paused = sim_chance(s, 20)};
    if (s->profile.narrow) {
        limit.per_key = 1;
        put(s, (unsigned)sim_draw(s, s->profile.queues), &limit);
        return;
    }
    if (sim_chance(s, 50))
        limit.concurrency = 1 + sim_draw(s, 4);
    if (sim_chance(s, 50))
        limit.per_key = 1 + sim_draw(s, 3);
    if (sim_chance(s, 40)) {
        limit.rate = 1 + (int64_t)sim_draw(s, 5);
        limit.per_ms = 1 + (int64_t)sim_draw(s, 3000);
        limit.burst = 1 + (int64_t)sim_draw(s, 4);
    }
    put(s, (unsigned)sim_draw(s, s->profile.queues), &limit);
}

void limit_unpause(struct sim *s)
{
    for (unsigned q = 0; q < s->profile.queues; q++) {
        struct mlimit limit = {.concurrency = 1 + sim_draw(s, 3), .per_key = sim_draw(s, 3)};
        limit.concurrency += s->profile.gangs ? GANG_MAX - 1 : 0;
        limit.rate = (int64_t)sim_draw(s, 3);
        limit.per_ms = limit.burst = limit.rate ? 1 + (int64_t)sim_draw(s, 2000) : 0;
        put(s, q, &limit);
    }
}

/* --- what is in force --- */

static void take_limits(struct ticket *t, const struct reply *r)
{
    struct mlimit *limit = t->ctx;
    PROMISE(r->err.code == ERR_OK, "REPLY", "#%lu: %s", t->serial, err_wire(r->err.code));
    const struct queue_settings *set = &r->queues[0].view.settings;
    *limit = (struct mlimit){.paused = set->paused,
                             .concurrency = set->concurrency,
                             .per_key = set->concurrency_per_key,
                             .rate = set->rate.count,
                             .per_ms = set->rate.per.ms,
                             .burst = set->rate.burst};
    limit->in_flight = r->queues[0].view.counts[STATUS_IN_FLIGHT];
}

struct mlimit limit_read(struct sim *s, unsigned queue)
{
    struct mlimit limit = {0};
    if (!s->profile.limits)
        return limit;
    struct ticket *t = ticket_new(s, CMD_QUEUE_READ, 0);
    t->then = take_limits;
    t->ctx = &limit;
    struct command c = {.queue = {.name = sim_queue_name(queue)}};
    ticket_submit(t, &c);
    sim_pump(s);
    ledger_limit_check(&s->ledger, queue, &limit, s->now);
    return limit;
}

uint64_t limit_room(const struct mlimit *limit)
{
    if (limit->paused)
        return 0;
    if (!limit->concurrency)
        return UINT64_MAX;
    return limit->concurrency > limit->in_flight ? limit->concurrency - limit->in_flight : 0;
}

static void check_removed(struct ticket *t, const struct reply *r)
{
    PROMISE(r->err.code == ERR_OK || r->err.code == ERR_NOT_FOUND, "LIMIT",
            "#%lu: a queue without jobs cannot be removed: %s", t->serial, r->err.msg);
}

void limit_remove_all(struct sim *s)
{
    for (unsigned q = 0; q < s->profile.queues; q++) {
        struct ticket *t = ticket_new(s, CMD_QUEUE_REMOVE, 0);
        t->then = check_removed;
        struct command c = {.queue = {.name = sim_queue_name(q)}};
        ticket_submit(t, &c);
        s->ledger.limits[q].count = 0;
    }
    sim_pump(s);
}
