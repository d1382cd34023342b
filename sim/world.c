/* SPDX-License-Identifier: Apache-2.0 */

/* Clock, chance, disk, and the life of the server. */

#include "base/must.h"
#include "sim.h"
#include "trace.h"

#define TURNS_MAX 5000

uint64_t sim_draw(struct sim *s, uint64_t n)
{
    return rng_below(&s->rng, n);
}

bool sim_chance(struct sim *s, unsigned percent)
{
    return rng_below(&s->rng, 100) < percent;
}

static instant clock_now(void *ctx)
{
    const struct sim *s = ctx;
    return (instant){s->now.ms - s->behind.ms};
}

static int64_t clock_ticks(void *ctx)
{
    return ((struct sim *)ctx)->now.ms * 1000;
}

void sim_set_clock(struct sim *s, span behind)
{
    trace_line("the clock is behind by %ld", (long)behind.ms);
    s->behind = behind;
    s->arrived = true;
}

span sim_some_step(struct sim *s)
{
    int64_t ms = 60000 + (int64_t)sim_draw(s, 86400 * 1000);
    return (span){sim_chance(s, 50) ? ms : -ms};
}

/* Time does not depend on the wall clock, so this is what the backend waits for. */
static bool next_due(const struct sim *s, instant *at)
{
    bool due = backend_next_due(s->backend, at);
    at->ms += due ? s->behind.ms : 0;
    return due;
}

/* A server that starts on another machine while the clock is far behind continues from the stored
 * time. Then the clock is corrected: nobody could have told the server how long it was down. */
static void check_clock(struct sim *s)
{
    instant now = embedded_now(s->backend);
    PROMISE(now.ms >= s->stored_at.ms && now.ms <= s->now.ms, "I2",
            "time went back over a restart, to %ld", (long)now.ms);
    sim_set_clock(s, (span){0});
}

/* On a machine whose runs nobody tells apart, a server that starts cannot know a wrong clock from
 * one that is right, unless it is behind what is stored. */
static void set_right_for_start(struct sim *s)
{
    int64_t limit = s->settings.clock_jump_limit.ms;
    bool told =
        s->stored_at.ms > 0 && (s->boot || s->now.ms - s->behind.ms < s->stored_at.ms - limit);
    if (s->behind.ms && !told)
        sim_set_clock(s, (span){0});
}

void sim_boot(struct sim *s)
{
    set_right_for_start(s);
    snapshots_tamper(s);
    struct env env = {.now = clock_now,
                      .ticks = clock_ticks,
                      .boot = s->boot,
                      .ctx = s,
                      .rng = rng_from_seed(rng_next(&s->rng)),
                      .store = s->disk,
                      .evaluator = &s->evaluator.base};
    struct err err = embedded_new(&s->settings, &env, &s->backend);
    PROMISE(err.code == ERR_OK, "I2", "recovery failed: %s", err.msg);
    if (s->behind.ms && !s->turning)
        check_clock(s);
    engine_check(embedded_engine(s->backend));
    s->arrived = true;
    s->boots++;
    s->booted_at = s->now;
    ledger_booted(&s->ledger, s->now);
}

/* Some time passes until the server is started again. */
static void stay_down(struct sim *s)
{
    /* Ticks until the time at the start would be missed ones. */
    if (s->settings.engine.cron_skip_missed)
        sim_set_clock(s, (span){0});
    else if (sim_chance(s, 20))
        sim_set_clock(s, sim_some_step(s));
    if (!sim_chance(s, 40))
        return;
    s->now.ms += (int64_t)sim_draw(s, sim_chance(s, 70) ? 30 * 1000 : 3 * 3600 * 1000);
    trace_line("down until %ld", (long)s->now.ms);
}

/* The process dies, or the machine: then the disk loses what was not synced. */
static void crash(struct sim *s)
{
    bool apply = sim_chance(s, 50);
    bool lose = sim_chance(s, 50) && !s->turning;
    trace_line("crash, batch under way %s, unsynced %s", apply ? "applied" : "dropped",
               lose ? "lost" : "kept");
    disk_crash(s->disk, apply, lose);
    s->holding = false;
    unsigned claims = s->ledger.claims;
    backend_free(s->backend);
    evaluator_drop_all(&s->evaluator);
    ticket_drop_all(s);
    client_cut_off(s);
    ledger_answers_lost(&s->ledger, s->now, claims);
    if (lose && !s->settings.sync) {
        ledger_tail_lost(&s->ledger);
        policy_lost(s);
    }
    if (!s->turning)
        stay_down(s);
    if (s->profile.space && sim_chance(s, 20)) {
        trace_line("the disk is full at the start");
        disk_break(s->disk, ERR_DISK_FULL);
    }
    sim_boot(s);
}

/* Often follows soon after a recovery, when what it has read was written by the process that died,
 * but work has continued. */
void sim_crash(struct sim *s)
{
    crash(s);
    while (sim_chance(s, 25)) {
        unsigned boots = s->boots;
        sim_turn(s);
        if (s->boots == boots)
            crash(s);
    }
}

void sim_turn(struct sim *s)
{
    uint64_t failed = disk_failed(s->disk);
    unsigned claims = s->ledger.claims;
    s->arrived = false;
    struct err err = backend_turn(s->backend);
    if (err.code != ERR_OK) {
        trace_line("turn: %s", err_wire(err.code));
        PROMISE(s->may_fail, "I5", "a turn failed: %s", err.msg);
        PROMISE(err.code == ERR_STORE, "I2", "a turn failed: %s", err.msg);
        sim_crash(s);
        return;
    }
    if (disk_failed(s->disk) != failed)
        ledger_answers_lost(&s->ledger, s->now, claims);
}

static bool is_turn_due(const struct sim *s)
{
    instant at;
    if (s->arrived || (disk_is_busy(s->disk) && !s->holding))
        return true;
    return next_due(s, &at) && at.ms <= s->now.ms;
}

/* A waiting loop must have nothing to do: one more turn changes nothing. */
static void check_asleep(struct sim *s)
{
    uint64_t begun = disk_begun(s->disk), hash = trace_hash();
    sim_turn(s);
    PROMISE(begun == disk_begun(s->disk) && hash == trace_hash(), "I5",
            "the loop slept with work left");
    for (unsigned i = 0; i < CLAIMS; i++) {
        const struct ticket *t = s->claims[i].ticket;
        PROMISE(!t || t->until.ms > s->now.ms, "I5",
                "the wait of claim #%lu is over and it has no answer", t->serial);
    }
}

void sim_pump(struct sim *s)
{
    for (unsigned n = 0; is_turn_due(s) || (s->quiet && !evaluator_is_idle(&s->evaluator)); n++) {
        PROMISE(n < TURNS_MAX, "I5", "the loop spins");
        if (s->quiet)
            evaluator_step(&s->evaluator);
        sim_turn(s);
    }
    /* Nobody tells the loop that the disk became full. */
    bool full = store_free_space(s->disk) < (int64_t)s->settings.min_free_space;
    if (!s->holding && !disk_is_busy(s->disk) && !full)
        check_asleep(s);
}

void sim_hold(struct sim *s, bool hold)
{
    s->holding = hold;
    disk_set_faults(s->disk, (struct memory_faults){.hold = hold});
    if (!hold)
        sim_release(s);
}

void sim_release(struct sim *s)
{
    disk_release(s->disk);
    s->arrived = true; /* the end of a commit wakes the loop */
}

void sim_heal(struct sim *s)
{
    sim_hold(s, false);
    disk_set_free_space(s->disk, INT64_MAX);
    disk_fail_reopens(s->disk, 0);
}

void sim_restart(struct sim *s)
{
    unsigned boots = s->boots;
    trace_line("stop");
    s->quiet = s->stopping = true;
    sim_heal(s);
    backend_stop(s->backend);
    sim_pump(s);
    s->quiet = s->stopping = false;
    /* A commit that had failed before may have ended the process first. */
    if (s->boots != boots)
        return;
    PROMISE(backend_is_idle(s->backend), "I5", "a stopped server has work left");
    PROMISE(list_is_empty(&s->tickets), "REPLY", "a stopped server has unanswered commands");
    backend_free(s->backend);
    evaluator_drop_all(&s->evaluator);
    disk_crash(s->disk, true, false);
    client_cut_off(s);
    stay_down(s);
    sim_boot(s);
}

static void note_writable(struct ticket *t, const struct reply *r)
{
    *(bool *)t->ctx = r->status.writable;
}

void sim_settle(struct sim *s)
{
    bool writable = false;
    for (unsigned n = 0; !writable; n++) {
        PROMISE(n < 100, "I5", "the store works again, but the server does not");
        sim_heal(s);
        sim_pump(s);
        PROMISE(backend_is_idle(s->backend), "I5", "the loop stands still with work left");
        struct ticket *t = ticket_new(s, CMD_STATUS, 0);
        struct command c = {0};
        t->then = note_writable;
        t->ctx = &writable;
        ticket_submit(t, &c);
        sim_pump(s);
        if (!writable)
            s->now.ms += 100;
    }
}

void sim_run_until(struct sim *s, instant until)
{
    instant at;
    sim_pump(s);
    while (next_due(s, &at) && at.ms <= until.ms) {
        if (at.ms > s->now.ms)
            s->now = at;
        sim_pump(s);
    }
}
