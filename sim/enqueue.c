/* SPDX-License-Identifier: Apache-2.0 */

/* The jobs that virtual clients enqueue. */

#include <stdio.h>
#include <string.h>

#include "base/array.h"
#include "sim.h"

#define SPECS_MAX     6
#define PAYLOAD_LARGE 6000

static const struct str queue_names[QUEUES] = {{"q0", 2}, {"q1", 2}, {"q2", 2}, {"q3", 2}};
static const struct str keys[KEYS + 1] = {{"", 0},   {"k1", 2}, {"k2", 2},
                                          {"k3", 2}, {"k4", 2}, {"k5", 2}};
static const struct str type_names[TYPES] = {{"t0", 2}, {"t1", 2}, {"t2", 2}};

struct str sim_queue_name(unsigned queue)
{
    return queue_names[queue];
}

struct str sim_type_name(unsigned type)
{
    return type_names[type];
}

struct queue_set sim_queue_set(unsigned bits)
{
    struct queue_set set = {0};
    for (unsigned q = 0; q < QUEUES; q++)
        if (bits >> q & 1)
            set.names[set.count++] = queue_names[q];
    return set;
}

unsigned sim_some_queues(struct sim *s)
{
    return sim_chance(s, 30) ? 0 : 1 + (unsigned)sim_draw(s, (1u << s->profile.queues) - 1);
}

/* --- enqueue --- */

static instant some_ready_at(struct sim *s)
{
    switch (sim_draw(s, 10)) {
    case 0:
        return (instant){s->now.ms - (int64_t)sim_draw(s, 5000)};
    case 1:
        return (instant){s->now.ms + (int64_t)sim_draw(s, 200)};
    case 2:
        return (instant){s->now.ms + (int64_t)sim_draw(s, 3600 * 1000)};
    case 3:
        return (instant){s->now.ms + (int64_t)sim_draw(s, 3 * 86400 * 1000)};
    default:
        return INSTANT_NONE;
    }
}

static span some_retention(struct sim *s)
{
    static const int64_t choices[] = {-1, -1, 0, 1, 5000, 3600 * 1000, 2 * 86400 * 1000};
    return (span){choices[sim_draw(s, COUNT(choices))]};
}

static struct enqueue some_spec(struct sim *s, unsigned *queue, unsigned *type)
{
    static const int32_t limits[] = {RETRY_LIMIT_DEFAULT, RETRY_LIMIT_DEFAULT, 0, 1, 2, 5};
    static const uint16_t priorities[] = {JOB_PRIORITY_DEFAULT, 0, 1, 65535};
    *queue = (unsigned)sim_draw(s, s->profile.queues);
    *type = (unsigned)sim_draw(s, TYPES);
    struct enqueue spec = {
        .queue = queue_names[*queue],
        .type = type_names[*type],
        .priority = priorities[sim_draw(s, s->profile.priorities)],
        .ready_at = some_ready_at(s),
        .retry_limit = limits[sim_draw(s, COUNT(limits))],
        .completed_retention = some_retention(s),
        .dead_retention = some_retention(s),
    };
    if (sim_chance(s, s->profile.keys)) {
        spec.unique_key = keys[1 + sim_draw(s, KEYS)];
        spec.unique_while = (enum unique)(UNIQUE_QUEUED + sim_draw(s, 3));
    }
    static const struct str ckeys[CKEYS] = {{"c1", 2}, {"c2", 2}, {"c3", 2}};
    if (s->profile.limits && sim_chance(s, s->profile.narrow ? 90 : 50))
        spec.options.concurrency_key = ckeys[sim_draw(s, s->profile.narrow ? 2 : CKEYS)];
    if (s->profile.budgets)
        budget_draw(s, &spec);
    if (s->profile.deadlines && sim_chance(s, 15))
        spec.options.deadline = instant_add(s->now, (span){1 + (int64_t)sim_draw(s, 120000)});
    if (s->profile.deadlines && sim_chance(s, 15))
        spec.options.retain_until = instant_add(s->now, (span){(int64_t)sim_draw(s, 300000)});
    spec.options.pending_runs = sim_chance(s, 20);
    spec.options.hold = s->profile.deps && sim_chance(s, 10);
    if (sim_chance(s, 15))
        spec.options.when_no_policy = 1 + sim_draw(s, 2);
    if (s->profile.policies && sim_chance(s, 30))
        spec.options.retry_policies = policy_name((unsigned)sim_draw(s, POLICIES));
    if (sim_chance(s, 50))
        spec.backoff = (struct curve){.shape = CURVE_POWER,
                                      .base = {(int64_t)sim_draw(s, 5000)},
                                      .exponent = rng_unit(&s->rng) * 3,
                                      .jitter = {(int64_t)sim_draw(s, 1000)}};
    return spec;
}

static struct str some_payload(struct sim *s, char *text, size_t cap, uint64_t serial)
{
    size_t fill = sim_chance(s, 4) ? 4000 + sim_draw(s, 1000) : sim_draw(s, 60);
    int n = snprintf(text, cap, "{\"n\":%lu,\"x\":\"", (unsigned long)serial);
    memset(text + n, 'a', fill);
    memcpy(text + n + fill, "\"}", 2);
    return (struct str){text, (size_t)n + fill + 2};
}

/* Some of an enqueue's jobs may be folded into waiting jobs, or into each other. */
static struct str batch_up(struct sim *s, struct enqueue *spec, char *text, size_t cap)
{
    static const struct str batches[BATCHES] = {{"b1", 2}, {"b2", 2}, {"b3", 2}};
    unsigned long serial = s->ledger.count;
    spec->unique_key = (struct str){0};
    spec->unique_while = UNIQUE_NONE;
    spec->options.hold = 0;
    spec->batch = (struct job_batch){.key = batches[sim_draw(s, BATCHES)],
                                     .when = evaluator_whens[sim_draw(s, EVALUATOR_WHENS)],
                                     .fold = sim_chance(s, 2) ? evaluator_bad : evaluator_fold};
    int n = snprintf(text, cap, "{\"n\":%lu,\"b\":[%lu]}", serial, serial);
    return (struct str){text, (size_t)n};
}

static bool is_key_held(const struct sim *s, const struct enqueue *spec)
{
    unsigned key = spec->unique_while ? (unsigned)(spec->unique_key.at[1] - '0') : 0;
    struct str a = spec->options.alias;
    unsigned alias = a.len ? (unsigned)(a.at[1] - '0') : 0;
    return ledger_key_holder(&s->ledger, key, s->now) ||
           ledger_alias_holder(&s->ledger, alias, s->now);
}

/* Whether the key or alias of specs[i] is taken, by this enqueue's own jobs or by older ones. */
static bool is_taken(const struct sim *s, const struct enqueue *specs, size_t i)
{
    for (size_t k = 0; k < i; k++) {
        /* One that has both may be a duplicate for the other one's sake. */
        bool key = specs[k].unique_while, alias = specs[k].options.alias.len;
        if (key && !alias && specs[i].unique_while &&
            str_eq(specs[k].unique_key, specs[i].unique_key))
            return true;
        if (alias && !key && str_eq(specs[k].options.alias, specs[i].options.alias))
            return true;
    }
    return is_key_held(s, &specs[i]);
}

/* Iff it is applied at an unknown later time. */
static void expect_later(struct ticket *t, size_t count)
{
    for (size_t i = 0; t->batched && i < count; i++) {
        t->held[i] = false;
        t->jobs[i]->late = true;
        t->jobs[i]->patched |= PATCH_READY_AT;
    }
}

void client_enqueue(struct sim *s)
{
    static char texts[SPECS_MAX][PAYLOAD_LARGE];
    static struct some_deps deps[SPECS_MAX];
    static char gangs[SPECS_MAX][GANG_NAME];
    struct enqueue specs[SPECS_MAX];
    size_t count = sim_chance(s, 60) ? 1 : 1 + sim_draw(s, SPECS_MAX);
    struct ticket *t = ticket_new(s, CMD_ENQUEUE, count);
    uint64_t group = ++s->groups;
    bool folds = sim_chance(s, s->profile.folds), looked = false;
    for (size_t i = 0; i < count; i++) {
        unsigned queue, type;
        specs[i] = some_spec(s, &queue, &type);
        specs[i].payload = folds && sim_chance(s, 80)
                               ? batch_up(s, &specs[i], texts[i], PAYLOAD_LARGE)
                               : some_payload(s, texts[i], PAYLOAD_LARGE, s->ledger.count);
        /* Whatever is evaluated or looked up first is stored later: the holder of a key may release
         * it until then. */
        t->batched |= specs[i].batch.key.len > 0;
        if (s->profile.gangs && !specs[i].batch.key.len)
            t->needs_others |= gang_join(s, &specs[i], gangs[i]);
        if (s->profile.groups && !specs[i].batch.key.len)
            group_join(s, &specs[i]);
        if (s->profile.aliases && !specs[i].batch.key.len)
            alias_give(s, &specs[i]);
        t->held[i] = !folds && is_taken(s, specs, i);
        deps[i].count = 0;
        if (s->profile.deps && !folds)
            depend_some(s, t, specs, i, &deps[i]);
        t->jobs[i] = ledger_add(&s->ledger, &specs[i], queue, type, group, s->now);
        depend_note(t, &specs[i], i, &deps[i]);
        bool looks = deps[i].count || specs[i].unique_while || specs[i].options.alias.len;
        looked |= looks && s->settings.depend_slice;
        t->jobs[i]->may_vanish = s->sweeps > 0;
    }
    t->batched |= looked;
    for (size_t i = 0; i < count; i++)
        t->jobs[i]->looked = looked;
    expect_later(t, count);
    struct command c = {.enqueue = {specs, count}};
    ticket_submit(t, &c);
    if (looked && s->profile.deps && sim_chance(s, 40))
        depend_take_away(s, deps, count);
}

bool client_enqueue_keys(struct sim *s, enum unique scope)
{
    static char texts[KEYS][PAYLOAD_LARGE];
    struct enqueue specs[KEYS];
    if (!s->profile.keys)
        return false;
    struct ticket *t = ticket_new(s, CMD_ENQUEUE, KEYS);
    uint64_t group = ++s->groups;
    for (size_t i = 0; i < KEYS; i++) {
        specs[i] = (struct enqueue){.queue = queue_names[0],
                                    .type = type_names[0],
                                    .ready_at = INSTANT_NONE,
                                    .retry_limit = RETRY_LIMIT_DEFAULT,
                                    .unique_key = keys[i + 1],
                                    .unique_while = scope};
        specs[i].payload = some_payload(s, texts[i], PAYLOAD_LARGE, s->ledger.count);
        t->held[i] = is_taken(s, specs, i);
        t->jobs[i] = ledger_add(&s->ledger, &specs[i], 0, 0, group, s->now);
    }
    t->batched = s->settings.depend_slice > 0;
    expect_later(t, KEYS);
    struct command c = {.enqueue = {specs, KEYS}};
    ticket_submit(t, &c);
    return true;
}
