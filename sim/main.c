/* SPDX-License-Identifier: Apache-2.0 */

/* sim --seed N [--steps M] [--trace] [--servers | --tenants]    one simulation
 * sim --seeds A..B [--steps M] [--servers | --tenants]          many; each is run twice and must
 * repeat itself
 * sim --rate A..B [--part NAME] [--steps M]                     how many of the seeds fail in each
 * part, or that one, once each: how well it finds a planted fault (tools/mutant --rate)
 *
 * --tenants: only two tenants (tenants.h). --servers: also several servers on a double of
 * PostgreSQL. Of its seeds some fail, for reasons that are not known yet (235, 239, 265 and 277 of
 * the first 300): it is a search, no check.
 *
 * Exit code 0: every promise was kept; 1: one was broken; 2: wrong arguments. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/array.h"
#include "base/log.h"
#include "base/must.h"
#include "servers.h"
#include "sim.h"
#include "tasks.h"
#include "tenants.h"
#include "trace.h"

#define STEPS_DEFAULT 250
#define MIN_FREE      1000
#define PART_LIMIT    60 /* seconds of the processor, which a busy machine does not make longer */

/* What goes wrong only where limits are reached all the time is rare among seeds that draw them at
 * large: these make it common. By the seed, so that every run of a few has all of them. */
static void sharpen(struct profile *p, uint64_t seed)
{
    if (seed % 8 == 1) {
        p->repeats = true;
        p->gangs = p->crons = p->deadlines = p->limits = false;
        p->queues = 1;
    }
    if (seed % 8 == 3) {
        p->limits = p->narrow = true;
        p->crons = p->gangs = false;
        p->queues = 1;
    }
    if (seed % 8 == 5) {
        p->nodes = p->policies = p->graces = true;
        p->limits = p->crons = p->deps = p->deadlines = false;
        p->gangs = p->bulks = true;
        p->queues = 1;
    }
    if (seed % 8 == 7) {
        p->gangs = p->deps = p->knots = true;
        p->limits = p->crons = p->bulks = false;
        p->folds = 0;
        p->queues = 1;
    }
}

static struct profile some_profile(struct sim *s)
{
    struct profile p = {
        .sync = sim_chance(s, 75),
        .faults = sim_chance(s, 75),
        .space = sim_chance(s, 25),
        .holds = sim_chance(s, 60),
        .eager = sim_chance(s, 50),
        .lazy = sim_chance(s, 50),
        .queues = 1 + (unsigned)sim_draw(s, QUEUES),
        .priorities = 1 + (unsigned)sim_draw(s, 4),
        .crons = sim_chance(s, 30),
        .changes = sim_chance(s, 50) ? 0 : 5 + (unsigned)sim_draw(s, 15),
        .keys = sim_chance(s, 50) ? 0 : 10 + (unsigned)sim_draw(s, 60),
        .folds = sim_chance(s, 60) ? 0 : 20 + (unsigned)sim_draw(s, 70),
    };
    p.cron_batch = sim_chance(s, 50);
    p.cron_unique = sim_chance(s, 50) ? UNIQUE_NONE : (enum unique)sim_draw(s, UNIQUE_COUNT);
    p.limits = sim_chance(s, 30);
    p.graces = sim_chance(s, 30);
    p.policies = sim_chance(s, 35);
    p.deps = sim_chance(s, 25);
    p.bulks = !p.crons && !p.deps && sim_chance(s, 40);
    p.turns = sim_chance(s, 25);
    p.gangs = sim_chance(s, 20);
    p.aliases = sim_chance(s, 70) ? 0 : 5 + (unsigned)sim_draw(s, 40);
    p.groups = sim_chance(s, 40);
    p.budgets = sim_chance(s, 30);
    p.deadlines = !p.bulks && !p.folds && sim_chance(s, 40);
    sharpen(&p, s->seed);
    return p;
}

/* From none to everything that happens. */
static uint64_t history_size(uint64_t seed)
{
    static const uint64_t sizes[] = {0, 1, 3, 10, 1000, 5, 20};
    return sizes[seed % COUNT(sizes)];
}

/* Of a wait that only a client ends: none, so short that it is over while clients are at work, or
 * for days. */
static span some_limit(struct sim *s)
{
    static const int64_t most[] = {0, 5000, 600000, (int64_t)3 * 86400 * 1000};
    int64_t ms = most[sim_draw(s, COUNT(most))];
    return (span){ms ? 1000 + (int64_t)sim_draw(s, (uint64_t)ms) : 0};
}

/* A gang that waits for something else is looked at so often, for many days, where a clock was set
 * back or gangs wait for others. */
static span some_gang_limit(struct sim *s)
{
    span limit = some_limit(s);
    int64_t least = s->profile.knots ? 6 * 3600000 : s->profile.turns ? 60000 : 0;
    return limit.ms && limit.ms < least ? (span){least} : limit;
}

static struct backend_settings some_settings(struct sim *s)
{
    uint64_t in_flight_max = sim_chance(s, 70) ? 0 : 1 + sim_draw(s, 6);
    if (s->profile.gangs && in_flight_max)
        in_flight_max += GANG_MAX; /* the largest gang must fit */
    return (struct backend_settings){
        .engine = {.in_flight_max = in_flight_max,
                   .retry = {.limit = (int32_t)sim_draw(s, 4),
                             .backoff = {.shape = CURVE_POWER,
                                         .base = {(int64_t)sim_draw(s, 2000)},
                                         .exponent = 2,
                                         .jitter = {(int64_t)sim_draw(s, 500)}}},
                   .completed_retention = {sim_chance(s, 50) ? 0 : 60 * 1000},
                   .completed_kept_max = sim_chance(s, 60) ? 0 : 1 + sim_draw(s, 20),
                   .dead_retention = {sim_chance(s, 30) ? 0 : 86400 * 1000},
                   .lost_worker_limit = sim_chance(s, 70) ? 0 : 1 + (uint32_t)sim_draw(s, 4),
                   .hold_max = some_limit(s),
                   .gang_wait_max = some_gang_limit(s),
                   .retries_share = 1 + (uint32_t)sim_draw(s, 100),
                   .lost_worker_min_held = {sim_chance(s, 50) ? 0 : (int64_t)sim_draw(s, 20000)},
                   .cron_skip_missed = sim_chance(s, 40),
                   .hand_out_max = sim_chance(s, 60) ? 0 : 1 + (uint32_t)sim_draw(s, 8)},
        .depend_slice = sim_chance(s, 50) ? 0 : 1 + (uint32_t)sim_draw(s, 4),
        .sync = s->profile.sync,
        .event_retention = {sim_chance(s, 20) ? 0 : (int64_t)1000 * 86400 * 1000},
        .event_max_bytes = UINT64_MAX / 2,
        .undo_max = {3600000},
        .undo_max_bytes = 1 << 20,
        .failure_history = history_size(s->seed),
        .failure_groups_max = (uint32_t)history_size(s->seed + 1),
        .failure_group_retention = {24 * 3600000},
        .min_free_space = MIN_FREE,
        .clock_jump_limit = {30000},
        .lease_grace = {sim_chance(s, 40) ? 0 : (int64_t)sim_draw(s, 60000)},
    };
}

static void begin(struct sim *s, uint64_t seed)
{
    *s = (struct sim){.seed = seed, .rng = rng_from_seed(seed), .now = {1700000000000}};
    s->profile = some_profile(s);
    s->kv.rng = rng_from_seed(~seed);
    s->settings = some_settings(s);
    s->boot = sim_chance(s, 70) ? 1 : 0;
    snapshots_begin(s);
    for (unsigned i = 0; i < CRONS; i++)
        s->put_at[i] = INSTANT_NONE;
    list_init(&s->tickets);
    list_init(&s->answered);
    ledger_init(&s->ledger, &s->settings.engine, s->profile.sync);
    s->disk = disk_new(seed, s->profile.sync);
    evaluator_init(&s->evaluator, s);
    sim_boot(s);
    if (s->profile.policies)
        policy_set_up(s);
    s->ledger.budget_most[0] = BUDGET_LEAST;
    s->ledger.budget_most[1] = BUDGET_LEAST + 1;
    /* A failed commit, too, makes it full again; and time that is turned back has no order. */
    s->ledger.timed.unknown = s->profile.faults || s->profile.space || s->profile.turns;
    s->may_fail = s->profile.faults || s->profile.space;
}

static void free_tickets(struct list *tickets)
{
    while (!list_is_empty(tickets)) {
        struct ticket *t = LIST_OF(tickets->next, struct ticket, node);
        list_unlink(&t->node);
        free(t->jobs);
        free(t->ends);
        free(t->live);
        free(t->held);
        free(t->there);
        free(t->leased);
        free(t->sent);
        free(t);
    }
}

static void end(struct sim *s)
{
    backend_free(s->backend);
    evaluator_drop_all(&s->evaluator);
    store_close(s->disk);
    ledger_fini(&s->ledger);
    free_tickets(&s->tickets);
    free_tickets(&s->answered);
    for (size_t i = 0; i < s->stream_count; i++)
        free(s->all_streams[i]);
    free(s->all_streams);
    snapshots_end(s);
}

static void pass_time(struct sim *s)
{
    static const int64_t most[] = {100, 100, 10000, 3600 * 1000, (int64_t)3 * 86400 * 1000};
    if (sim_chance(s, 60))
        return;
    uint64_t kind = sim_draw(s, 100);
    unsigned i = kind < 60 ? 0 : kind < 80 ? 1 : kind < 95 ? 2 : kind < 99 ? 3 : 4;
    s->now.ms += (int64_t)sim_draw(s, (uint64_t)most[i]);
    trace_line("now %ld", (long)s->now.ms);
}

static void fail_a_commit(struct sim *s)
{
    struct memory_faults f = {.hold = s->holding,
                              .fail = sim_chance(s, 75) ? ERR_DISK_FULL : ERR_STORE,
                              .fail_but_keep = sim_chance(s, 50)};
    trace_line("the next commit fails: %s, kept %d", err_wire(f.fail), f.fail_but_keep);
    disk_set_faults(s->disk, f);
    if (sim_chance(s, 10))
        disk_fail_reopens(s->disk, 1);
}

static void disturb(struct sim *s)
{
    const struct profile *p = &s->profile;
    static const int64_t spaces[] = {INT64_MAX, INT64_MAX, MIN_FREE - 1, MIN_FREE / 2 - 1};
    if (p->holds && sim_chance(s, 25))
        sim_hold(s, !s->holding);
    else if (s->holding && sim_chance(s, 30))
        sim_release(s);
    if (p->faults && sim_chance(s, 2))
        fail_a_commit(s);
    if (p->faults && sim_chance(s, 1))
        sim_crash(s);
    if (sim_draw(s, 200) == 0)
        sim_restart(s);
    if (p->space && sim_chance(s, 5))
        disk_set_free_space(s->disk, spaces[sim_draw(s, 4)]);
    if (sim_draw(s, 100) == 0) {
        unsigned boots = s->boots;
        sim_turn(s); /* to set its time */
        if (boots == s->boots)
            sim_set_clock(s, s->behind.ms ? (span){0} : sim_some_step(s));
    }
    if (!p->sync && sim_chance(s, 5)) {
        trace_line("synced");
        disk_sync(s->disk);
        ledger_synced(&s->ledger);
    }
}

static uint64_t simulate(uint64_t seed, uint64_t steps, bool print)
{
    struct sim s;
    trace_begin(seed, print);
    begin(&s, seed);
    for (uint64_t step = 1; step <= steps; step++) {
        trace_step(step);
        client_step(&s);
        if (sim_chance(&s, 50))
            evaluator_step(&s.evaluator);
        disturb(&s);
        if (s.profile.lazy)
            sim_pump(&s);
        else if (sim_chance(&s, 60))
            sim_turn(&s);
        pass_time(&s);
        if (sim_chance(&s, 1))
            quiet_audit(&s);
        if (s.profile.bulks && sim_chance(&s, 2))
            bulk_in_silence(&s);
        if (s.profile.bulks && sim_chance(&s, 2))
            undo_in_silence(&s);
        if (sim_chance(&s, 2))
            quiet_order(&s);
        if (s.profile.keys && sim_chance(&s, 1))
            quiet_keys(&s);
        if (step % 4 == 0)
            engine_check(embedded_engine(s.backend));
    }
    trace_step(steps + 1);
    quiet_audit(&s);
    if (s.profile.turns && sim_chance(&s, 70))
        clock_finish(&s);
    else
        quiet_finish(&s);
    end(&s);
    return trace_hash();
}

enum also { NOTHING_ELSE, SERVERS_TOO, ONLY_TENANTS };

/* In a process of its own, so that one failure does not hide the others. */
static bool passes(uint64_t seed, uint64_t steps, enum also also)
{
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0 && also == ONLY_TENANTS) {
        tenants_simulate(seed, steps, false);
        exit(0);
    } else if (pid == 0) {
        uint64_t first = simulate(seed, steps, false);
        uint64_t tasks = tasks_simulate(seed, steps, false);
        bool same =
            first == simulate(seed, steps, false) && tasks == tasks_simulate(seed, steps, false);
        if (also == SERVERS_TOO)
            same &= servers_simulate(seed, steps, false) == servers_simulate(seed, steps, false);
        if (!same)
            fprintf(stderr, "sim: seed %lu does not repeat itself\n", seed);
        exit(same ? 0 : 1);
    }
    int status = 1;
    if (pid < 0 || waitpid(pid, &status, 0) != pid)
        return false;
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static int run_many(uint64_t first, uint64_t last, uint64_t steps, enum also also)
{
    uint64_t passed = 0, failed = 0;
    for (uint64_t seed = first; seed <= last; seed++) {
        if (passes(seed, steps, also)) {
            passed++;
            continue;
        }
        failed++;
        fprintf(stderr, "sim: seed %lu failed; repeat it with: make sim SEED=%lu\n", seed, seed);
    }
    printf("sim: %lu passed, %lu failed\n", passed, failed);
    return failed ? 1 : 0;
}

/* --- how many fail --- */

static void simulate_part(uint64_t seed, uint64_t steps, unsigned part)
{
    if (part == 0)
        simulate(seed, steps, false);
    else if (part == 1)
        tasks_simulate(seed, steps, false);
    else if (part == 2)
        servers_simulate(seed, steps, false);
    else
        tenants_simulate(seed, steps, false);
}

/* Of one that hangs nobody learns more by waiting. */
static bool part_passes(uint64_t seed, uint64_t steps, unsigned part)
{
    const struct rlimit limit = {PART_LIMIT, PART_LIMIT};
    int status = 1;
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        must(setrlimit(RLIMIT_CPU, &limit) == 0);
        simulate_part(seed, steps, part);
        exit(0);
    }
    return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}

static int print_rates(uint64_t first, uint64_t last, uint64_t steps, const char *only)
{
    static const char *const names[] = {"jobs", "tasks", "servers", "tenants"};
    must(freopen("/dev/null", "w", stderr) != NULL);
    for (unsigned part = 0; part < COUNT(names); part++) {
        unsigned failed = 0;
        if (*only && strcmp(only, names[part]) != 0)
            continue;
        for (uint64_t seed = first; seed <= last; seed++)
            failed += !part_passes(seed, steps, part);
        printf("%s %u\n", names[part], failed);
    }
    return 0;
}

static int usage(void)
{
    fprintf(stderr, "usage: sim --seed N [--steps M] [--trace] [--servers | --tenants]\n"
                    "       sim --seeds A..B [--steps M] [--servers | --tenants]\n"
                    "       sim --rate A..B [--part jobs|tasks|servers|tenants] [--steps M]\n"
                    "--servers: also several servers on a double of PostgreSQL\n"
                    "--tenants: only two tenants, neither of whom must notice the other\n");
    return 2;
}

static int run_one(uint64_t seed, uint64_t steps, bool print, enum also also)
{
    uint64_t hash = 0;
    if (also == ONLY_TENANTS)
        tenants_simulate(seed, steps, print);
    else
        hash = simulate(seed, steps, print) ^ tasks_simulate(seed, steps, print);
    hash ^= also == SERVERS_TOO ? servers_simulate(seed, steps, print) : 0;
    printf("sim: seed %lu passed, trace %016lx\n", seed, hash);
    return 0;
}

int main(int argc, char **argv)
{
    unsigned long seed = 0, last = 0, steps = STEPS_DEFAULT;
    bool one = false, many = false, rate = false, print = false;
    const char *part = "";
    enum also also = NOTHING_ELSE;
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        if (strcmp(argv[i], "--seed") == 0 && sscanf(value, "%lu", &seed) == 1)
            one = ++i;
        else if (strcmp(argv[i], "--seeds") == 0 && sscanf(value, "%lu..%lu", &seed, &last) == 2)
            many = ++i;
        else if (strcmp(argv[i], "--rate") == 0 && sscanf(value, "%lu..%lu", &seed, &last) == 2)
            rate = ++i;
        else if (strcmp(argv[i], "--part") == 0)
            part = argv[++i] ? value : "";
        else if (strcmp(argv[i], "--steps") == 0 && sscanf(value, "%lu", &steps) == 1)
            i++;
        else if (strcmp(argv[i], "--trace") == 0)
            print = true;
        else if (strcmp(argv[i], "--servers") == 0)
            also = SERVERS_TOO;
        else if (strcmp(argv[i], "--tenants") == 0)
            also = ONLY_TENANTS;
        else
            return usage();
    }
    if (one + many + rate != 1 || (!one && last < seed))
        return usage();
    /* Above all, warnings about clocks that jump. */
    log_set(LOG_NONE, LOG_TEXT);
    if (rate)
        return print_rates(seed, last, steps, part);
    return many ? run_many(seed, last, steps, also) : run_one(seed, steps, print, also);
}
