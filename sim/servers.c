/* SPDX-License-Identifier: Apache-2.0 */

/* The world of the simulation of several servers: time, chance, what goes wrong. */

#include "servers_internal.h"

#include <stdlib.h>
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/lsan_interface.h>
#endif

#include "base/alloc.h"
#include "base/must.h"
#include "trace.h"

/* For a step of other simulations. */
#define STEPS 2
/* At one moment. */
#define RUNS_MAX 100000
#define YEARS_MS ((int64_t)365 * 86400 * 1000)

struct sworld *sworld;

uint64_t servers_draw(uint64_t n)
{
    return rng_below(&sworld->rng, n);
}

bool servers_chance(unsigned percent)
{
    return servers_draw(100) < percent;
}

int64_t servers_now(void)
{
    return sworld->now;
}

/* --- what the double tells --- */

void servers_committed(int node, const struct prow *row)
{
    const struct process *p = sworld->nodes[node].process;
    PROMISE(row->epoch >= sworld->taken, "EPOCH", "batch %lu of epoch %lu, and %lu was taken",
            row->seq, row->epoch, sworld->taken);
    PROMISE(!p || p->epoch != row->epoch || row->seq > p->acked, "LOST",
            "server %d goes on with batch %lu, and had acknowledged %lu", node, row->seq, p->acked);
}

void servers_taken(int node, uint64_t epoch)
{
    trace_line("%d has taken epoch %lu", node, epoch);
    PROMISE(!sworld->pg.now.alarm.epoch, "LOST", "server %d takes the jobs amid an alarm", node);
    sworld->taken = epoch;
}

/* --- time --- */

/* A loop that hangs does nothing, and its threads go on. */
static int64_t wake_of(const struct snode *n, int fiber)
{
    const struct process *p = n->process;
    int64_t at = fiber_wake_at(p->fibers[fiber]);
    bool hangs = fiber == F_MAIN && !p->dead && at != FIBER_NEVER && at < n->hung_until;
    return hangs ? n->hung_until : at;
}

static int64_t due_of(const struct snode *n)
{
    const struct process *p = n->process;
    int64_t at = FIBER_NEVER;
    if (!p)
        return n->start_at;
    for (int i = 0; i < FIBERS; i++)
        at = wake_of(n, i) < at ? wake_of(n, i) : at;
    if (at != FIBER_NEVER && !p->dead && at < n->frozen_until)
        at = n->frozen_until;
    return at;
}

static void drop_copy(struct copy *k)
{
    store_close(k->tables);
    *k = (struct copy){0};
}

static void lose_disk(struct snode *n)
{
    if (n->copy.tables)
        drop_copy(&n->copy);
    n->seen = (struct pg_seen){0};
}

static void run_node(int node)
{
    struct snode *n = &sworld->nodes[node];
    struct process *p = n->process;
    if (!p) {
        process_start(node);
        return;
    }
    for (int i = 0; i < FIBERS; i++)
        if (wake_of(n, i) <= sworld->now)
            fiber_run(p->fibers[i]);
    if (!process_has_ended(p))
        return;
    process_free(p);
    n->process = NULL;
    if (n->machine_lost)
        lose_disk(n);
    n->machine_lost = false;
}

static int64_t next_due(void)
{
    int64_t at = pdouble_next(&sworld->pg);
    for (int i = 0; i < NODES; i++)
        at = due_of(&sworld->nodes[i]) < at ? due_of(&sworld->nodes[i]) : at;
    return at;
}

void servers_pass(int64_t ns)
{
    int64_t until = sworld->now + ns, at;
    unsigned runs = 0;
    while ((at = next_due()) <= until) {
        runs = at > sworld->now ? 0 : runs + 1;
        PROMISE(runs < RUNS_MAX, "I5", "time stands still");
        sworld->now = at > sworld->now ? at : sworld->now;
        pdouble_run(&sworld->pg, sworld->now);
        for (int i = 0; i < NODES; i++)
            if (due_of(&sworld->nodes[i]) <= sworld->now)
                run_node(i);
    }
    sworld->now = until;
}

/* --- what goes wrong --- */

static int64_t some_ms(uint64_t most)
{
    return (int64_t)servers_draw(most + 1) * MS;
}

static void kill_one(struct snode *n)
{
    if (!n->process || n->process->dead)
        return;
    n->machine_lost = servers_chance(10);
    trace_line("%d is killed%s", n->process->node, n->machine_lost ? ", and its disk is lost" : "");
    n->start_at = sworld->now + some_ms(servers_chance(50) ? 100 : 3000);
    n->not_before_ms = 0;
    sworld->tally.kills++;
    process_kill(n->process);
}

static void freeze(struct snode *n)
{
    n->frozen_until = sworld->now + some_ms((uint64_t)sworld->lease.ms * 3);
    sworld->tally.freezes++;
    trace_line("%ld is frozen for %ld ms", (long)(n - sworld->nodes),
               (long)((n->frozen_until - sworld->now) / MS));
}

static void hang(struct snode *n)
{
    n->hung_from = sworld->now;
    n->hung_until = sworld->now + some_ms((uint64_t)sworld->lease.ms * 8);
    sworld->tally.hangs++;
    trace_line("the loop of %ld hangs for %ld ms", (long)(n - sworld->nodes),
               (long)((n->hung_until - sworld->now) / MS));
}

static void cut_off(struct snode *n)
{
    n->cut_off_until = sworld->now + some_ms((uint64_t)sworld->lease.ms * 3);
    trace_line("%ld is cut off for %ld ms", (long)(n - sworld->nodes),
               (long)((n->cut_off_until - sworld->now) / MS));
}

static void break_one(const struct snode *n)
{
    struct pg *pg = n->process ? n->process->conns[servers_draw(CONNS_MAX)] : NULL;
    if (!pg)
        return;
    trace_line("a connection of %d breaks", n->process->node);
    servers_cut(pg);
}

static void step_down(const struct snode *n)
{
    if (!n->process || !n->process->answers)
        return;
    trace_line("%d is to step down", n->process->node);
    n->process->leaving = true;
}

/* PostgreSQL has nothing after that batch any more. */
static void note_ahead(uint64_t seq)
{
    for (int i = 0; i < NODES; i++) {
        struct process *p = sworld->nodes[i].process;
        if (p && p->answers && p->acked > seq && !p->ahead_since)
            p->ahead_since = sworld->now;
    }
}

static void end_postgres(bool lossy)
{
    struct pdouble *p = &sworld->pg;
    int64_t back_at = sworld->now + some_ms((uint64_t)sworld->lease.ms * 3 / 2);
    uint64_t before = p->now.seq;
    if (lossy)
        pdouble_fall_back(p, sworld->now, back_at, 1 + servers_draw(20));
    else
        pdouble_crash(p, sworld->now, back_at);
    trace_line("PostgreSQL ends at %lu, comes back at %lu, epoch %lu", before, p->now.seq,
               p->now.epoch);
    if (lossy) {
        note_ahead(p->now.seq);
        sworld->taken = p->now.epoch;
        clients_fell_back(p->now.seq);
    }
}

static void disturb(void)
{
    static const int64_t slow[] = {0, 1, 30, 400};
    struct snode *n = &sworld->nodes[servers_draw(NODES)];
    uint64_t what = servers_draw(1000);
    if (what < 20)
        kill_one(n);
    else if (what < 45)
        freeze(n);
    else if (what < 70)
        cut_off(n);
    else if (what < 130)
        break_one(n);
    else if (what < 150)
        step_down(n);
    else if (what < 165)
        end_postgres(false);
    else if (what < 175 && sworld->falls)
        end_postgres(true);
    else if (what < 200)
        sworld->pg.slow_ms = slow[servers_draw(4)];
    else if (what < 210)
        sworld->pg.full = !sworld->pg.full;
    else if (what < 230)
        sworld->pg.full = false;
    else if (what < 240)
        hang(n);
}

static void heal(void)
{
    struct sworld *w = sworld;
    trace_line("all is well from now on");
    w->healing = true;
    w->pg.full = false;
    w->pg.slow_ms = 1;
    w->pg.away_until = 0;
    for (int i = 0; i < NODES; i++)
        w->nodes[i].frozen_until = w->nodes[i].cut_off_until = w->nodes[i].hung_until = 0;
}

/* --- the simulation --- */

/* Statements, rows and what a process had in memory nobody frees. */
static void ignore_leaks(bool on)
{
#ifdef __SANITIZE_ADDRESS__
    if (on)
        __lsan_disable();
    else
        __lsan_enable();
#else
    (void)on;
#endif
}

static void begin_node(struct snode *n)
{
    int64_t most = sworld->alike ? 20000 : 500000; /* 2 percent; by the half */
    *n = (struct snode){.base_ns = (int64_t)servers_draw(1000000) * 1000 * MS + 1,
                        .drift_ppm = (int64_t)servers_draw((uint64_t)(2 * most)) - most};
    if (servers_chance(60))
        n->wall_ms = (int64_t)servers_draw((uint64_t)(10 * YEARS_MS)) - 5 * YEARS_MS;
    n->start_at = some_ms(servers_chance(70) ? 50 : 5000);
    n->lease = sworld->lease;
    if (servers_chance(40))
        n->lease.ms = 400 + (int64_t)servers_draw(4000);
}

static void begin(struct sworld *w, uint64_t seed)
{
    *w = (struct sworld){.seed = seed, .rng = rng_from_seed(seed ^ 0x5e7e75)};
    sworld = w;
    w->faults = servers_chance(10) ? 0 : 5 + (unsigned)servers_draw(45);
    w->falls = w->faults && servers_chance(35);
    w->alike = servers_chance(75);
    w->lease.ms = 400 + (int64_t)servers_draw(servers_chance(50) ? 400 : 3000);
    w->jobs = alloc_zero(SJOBS_MAX * sizeof *w->jobs);
    w->events = alloc_zero(SEVENTS_MAX * sizeof *w->events);
    w->settings = (struct backend_settings){
        .engine = {.retry = {.limit = 1000000, .backoff = {.shape = CURVE_POWER, .base = {10}}},
                   .completed_retention = {100 * YEARS_MS},
                   .dead_retention = {100 * YEARS_MS},
                   .retries_share = 50},
        .sync = true,
        .event_retention = {100 * YEARS_MS},
        .event_max_bytes = UINT64_MAX / 2,
        .clock_jump_limit = {30000}};
    list_init(&w->tickets);
    pdouble_init(&w->pg, rng_next(&w->rng));
    for (int i = 0; i < NODES; i++)
        begin_node(&w->nodes[i]);
}

static void end(struct sworld *w)
{
    for (int i = 0; i < NODES; i++) {
        struct snode *n = &w->nodes[i];
        n->start_at = FIBER_NEVER;
        if (n->process && !n->process->dead)
            process_kill(n->process);
    }
    servers_pass(1000 * MS);
    for (int i = 0; i < NODES; i++) {
        must(!w->nodes[i].process);
        if (w->nodes[i].copy.tables)
            drop_copy(&w->nodes[i].copy);
    }
    free(w->jobs);
    free(w->events);
}

uint64_t servers_simulate(uint64_t seed, uint64_t steps, bool print)
{
    struct sworld w;
    ignore_leaks(true);
    trace_begin(seed, print);
    begin(&w, seed);
    for (uint64_t step = 1; step <= STEPS * steps; step++) {
        trace_step(step);
        clients_step();
        if (servers_chance(w.faults))
            disturb();
        servers_pass(some_ms(servers_chance(80) ? 40 : 300));
    }
    trace_step(STEPS * steps + 1);
    heal();
    clients_finish();
    trace_line(
        "%u owners, %u alarms, %u accepted, %u anew, %u kills, %u freezes, %u hangs, %u answers, "
        "%lu commits, %lu fenced",
        w.tally.owners, w.tally.alarms, w.tally.accepted, w.tally.anew, w.tally.kills,
        w.tally.freezes, w.tally.hangs, w.tally.answers, w.pg.commits, w.pg.fenced);
    end(&w);
    ignore_leaks(false);
    return trace_hash();
}
