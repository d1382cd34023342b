/* SPDX-License-Identifier: Apache-2.0 */

/* What virtual clients do. */

#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/array.h"
#include "sim.h"
#include "store/memory.h"
#include "trace.h"

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
    if (s->profile.limits && sim_chance(s, 50))
        spec.options.concurrency_key = ckeys[sim_draw(s, CKEYS)];
    if (s->profile.deadlines && sim_chance(s, 15))
        spec.options.deadline = instant_add(s->now, (span){1 + (int64_t)sim_draw(s, 120000)});
    if (s->profile.deadlines && sim_chance(s, 15))
        spec.options.retain_until = instant_add(s->now, (span){(int64_t)sim_draw(s, 300000)});
    if (!s->profile.gangs && sim_chance(s, 15))
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

static void enqueue(struct sim *s)
{
    static char texts[SPECS_MAX][PAYLOAD_LARGE];
    static struct some_deps deps[SPECS_MAX];
    static char gangs[SPECS_MAX][GANG_NAME];
    struct enqueue specs[SPECS_MAX];
    size_t count = sim_chance(s, 60) ? 1 : 1 + sim_draw(s, SPECS_MAX);
    struct ticket *t = ticket_new(s, CMD_ENQUEUE, count);
    uint64_t group = ++s->groups;
    bool folds = sim_chance(s, s->profile.folds);
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
        if (s->profile.aliases && !specs[i].batch.key.len)
            alias_give(s, &specs[i]);
        t->held[i] = !folds && is_taken(s, specs, i);
        deps[i].count = 0;
        if (s->profile.deps && !folds)
            depend_some(s, t, specs, i, &deps[i]);
        t->jobs[i] = ledger_add(&s->ledger, &specs[i], queue, type, group, s->now);
        depend_note(t, &specs[i], i, &deps[i]);
        bool looks = deps[i].count || specs[i].unique_while || specs[i].options.alias.len;
        t->batched |= looks && s->settings.depend_slice;
        t->jobs[i]->may_vanish = s->sweeps > 0;
    }
    expect_later(t, count);
    struct command c = {.enqueue = {specs, count}};
    ticket_submit(t, &c);
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

/* --- reports --- */

/* A job that existed at some time; mostly a new one, mostly one that was handed out. */
static struct mjob *some_job(struct sim *s)
{
    struct ledger *l = &s->ledger;
    struct mjob *m = NULL;
    for (int tries = 0; tries < 8 && l->count; tries++) {
        size_t back = sim_draw(s, sim_chance(s, 80) && l->count > 30 ? 30 : l->count);
        struct mjob *found = l->jobs[l->count - 1 - back];
        if (id_is_none(found->id))
            continue;
        m = found;
        if (m->run_count && ledger_live(m, &m->runs[m->run_count - 1], s->now) != NO)
            break;
    }
    return m;
}

static uint64_t some_token(struct sim *s, const struct mjob *m)
{
    uint64_t kind = sim_draw(s, 20);
    if (kind == 0)
        return rng_next(&s->rng) | 1;
    if (kind <= 3 || m->run_count == 0)
        return 0;
    if (kind <= 6)
        return m->runs[sim_draw(s, m->run_count)].token;
    return m->runs[m->run_count - 1].token;
}

/* A run that was handed over is sometimes named by its index. Where the tail of the log may be
 * lost, another run may get the same index. */
static struct run_ref ref_of(struct sim *s, const struct mjob *m, uint64_t token)
{
    const struct mrun *r = token && s->profile.sync ? ledger_run(m, token) : NULL;
    if (!r || !sim_chance(s, 20))
        return (struct run_ref){m->id, token};
    return (struct run_ref){m->id, sim_chance(s, 20) ? token : 0, true, r->index};
}

static void report(struct sim *s, enum command_kind kind, struct mjob *m, uint64_t token)
{
    struct ticket *t = ticket_new(s, kind, 1);
    ticket_about(t, 0, m, token);
    struct command c = {.run = ref_of(s, m, token)};
    ticket_submit(t, &c);
}

void client_succeed(struct sim *s, struct mjob *m, uint64_t token)
{
    report(s, CMD_SUCCEED, m, token);
}

#define EXCEPTIONS (OUTCOME_COUNT - OUTCOME_WORKER_SHUTDOWN)

static void fail(struct sim *s, struct mjob *m, uint64_t token)
{
    struct ticket *t = ticket_new(s, CMD_FAIL, 1);
    ticket_about(t, 0, m, token);
    struct mend *e = &m->ends[t->ends[0]];
    e->kill = sim_chance(s, 10);
    if (sim_chance(s, 20))
        e->retry_at.ms = s->now.ms - 1000 + (int64_t)sim_draw(s, 20000);
    static const int32_t codes[] = {0, 1, 2, 137};
    e->exit_code = codes[sim_draw(s, 4)];
    e->condition = (enum condition)sim_draw(s, CONDITION_PREEMPTED + 1);
    if (sim_chance(s, 20))
        e->exception = (enum outcome)(OUTCOME_WORKER_SHUTDOWN + sim_draw(s, EXCEPTIONS));
    bool preempted = s->profile.graces && e->condition == CONDITION_PREEMPTED;
    bool unsaid = preempted && sim_chance(s, 20);
    if (unsaid)
        e->grace = POLICY_GRACE;
    else if (preempted && sim_chance(s, 70))
        e->grace.ms = 1 + (int64_t)sim_draw(s, 20000);
    struct command c = {.fail = {.ref = ref_of(s, m, token),
                                 .grace = unsaid ? (span){-1} : e->grace,
                                 .failure = {.message = STR("it broke"),
                                             .run_time = {-1},
                                             .exit_code = e->exit_code,
                                             .condition = e->condition},
                                 .exception = e->exception,
                                 .kill = e->kill,
                                 .retry_at = e->retry_at}};
    ticket_submit(t, &c);
}

static void renew(struct sim *s, struct mjob *m, uint64_t token)
{
    struct ticket *t = ticket_new(s, CMD_RENEW, 1);
    ticket_about(t, 0, m, token);
    t->lease.ms = 1 + (int64_t)sim_draw(s, 60000);
    if (!token)
        m->blind_renewal = s->now;
    for (size_t i = 0; i < m->run_count; i++) {
        struct mrun *r = &m->runs[i];
        if (r->stream || (token && token != r->token))
            continue;
        if (r->lease_min.ms > s->now.ms + t->lease.ms)
            r->lease_min.ms = s->now.ms + t->lease.ms;
        r->renewals += token != 0;
    }
    struct command c = {.renew = {ref_of(s, m, token), t->lease}};
    ticket_submit(t, &c);
}

static void report_something(struct sim *s)
{
    struct mjob *m = some_job(s);
    if (!m)
        return;
    uint64_t token = some_token(s, m);
    switch (sim_draw(s, 10)) {
    case 0:
    case 1:
    case 2:
        fail(s, m, token);
        return;
    case 3:
        report(s, CMD_RELEASE, m, token);
        return;
    case 4:
    case 5:
        renew(s, m, token);
        return;
    default:
        report(s, CMD_SUCCEED, m, token);
    }
}

static void succeed_many(struct sim *s)
{
    struct mjob *jobs[8];
    struct id ids[8];
    size_t n = 0;
    for (int tries = 0; tries < 8; tries++) {
        struct mjob *m = some_job(s);
        bool known = !m;
        for (size_t i = 0; i < n; i++)
            known |= jobs[i] == m;
        if (!known)
            jobs[n++] = m;
    }
    struct ticket *t = ticket_new(s, CMD_SUCCEED_MANY, n);
    for (size_t i = 0; i < n; i++) {
        ticket_about(t, i, jobs[i], 0);
        ids[i] = jobs[i]->id;
    }
    struct command c = {.succeed_many = {ids, n}};
    ticket_submit(t, &c);
}

static void claim_some_job(struct sim *s)
{
    struct mjob *m = some_job(s);
    if (m)
        client_claim_job(s, m);
}

/* --- removals and reads --- */

static void remove_one(struct sim *s)
{
    struct mjob *m = some_job(s);
    if (!m)
        return;
    struct ticket *t = ticket_new(s, CMD_REMOVE, 1);
    ticket_about(t, 0, m, 0);
    m->removals++;
    m->may_vanish = true;
    struct command c = {.id = m->id};
    ticket_submit(t, &c);
}

static bool is_swept(const struct mjob *m, unsigned queue, unsigned type)
{
    return !m->gone_seq && !m->never && m->type == type &&
           (m->queue == queue || m->patched & PATCH_QUEUE);
}

static void remove_where(struct sim *s)
{
    unsigned queue = (unsigned)sim_draw(s, s->profile.queues), type = (unsigned)sim_draw(s, TYPES);
    struct str queue_name = queue_names[queue], type_name = type_names[type];
    size_t n = 0;
    for (size_t i = 0; i < s->ledger.count; i++)
        n += is_swept(s->ledger.jobs[i], queue, type);
    struct ticket *t = ticket_new(s, CMD_REMOVE_WHERE, n);
    n = 0;
    for (size_t i = 0; i < s->ledger.count; i++) {
        struct mjob *m = s->ledger.jobs[i];
        if (!is_swept(m, queue, type))
            continue;
        t->jobs[n++] = m;
        m->removals++;
        m->may_vanish = true;
    }
    s->sweeps++;
    unsigned statuses = sim_chance(s, 50) ? 0 : (unsigned)sim_draw(s, 1u << STATUS_COUNT);
    struct command c = {.list = {.filter = {.queues = &queue_name,
                                            .queue_count = 1,
                                            .types = &type_name,
                                            .type_count = 1,
                                            .statuses = statuses}}};
    ticket_submit(t, &c);
}

static void read_one(struct sim *s)
{
    if (s->profile.aliases && sim_chance(s, 30)) {
        alias_read(s);
        return;
    }
    struct mjob *m = some_job(s);
    if (!m)
        return;
    if (sim_chance(s, 30)) {
        struct ticket *t = ticket_new(s, CMD_RUNS, 0);
        struct command c = {.runs = {.id = m->id,
                                     .failures_only = sim_chance(s, 50),
                                     .backwards = sim_chance(s, 50),
                                     .from = (int64_t)sim_draw(s, 4) - 1,
                                     .limit = 1 + (uint32_t)sim_draw(s, 5)}};
        ticket_submit(t, &c);
        return;
    }
    bool explain = sim_chance(s, 25);
    struct ticket *t = ticket_new(s, explain ? CMD_EXPLAIN : CMD_READ, 1);
    ticket_about(t, 0, m, 0);
    struct command c = {.read = {m->id, sim_chance(s, 50)}};
    if (explain)
        c.id = m->id;
    ticket_submit(t, &c);
}

/* The next page of a walk through all jobs, or its first. */
static void walk(struct sim *s)
{
    if (s->walk.waiting)
        return;
    if (!s->walk.start_seq) {
        s->walk.number++;
        s->walk.start_seq = s->ledger.seq;
        s->walk.at = (struct id){0};
    }
    struct ticket *t = ticket_new(s, CMD_LIST, 0);
    t->walk = s->walk.number;
    t->limit = 1 + (uint32_t)sim_draw(s, 40);
    t->from = s->walk.at;
    s->walk.waiting = true;
    struct command c = {.list = {.from = {!id_is_none(t->from), t->from}, .limit = t->limit}};
    ticket_submit(t, &c);
}

static void list_some(struct sim *s)
{
    struct queue_set set = sim_queue_set(sim_some_queues(s));
    bool count = sim_chance(s, 20);
    struct ticket *t = ticket_new(s, count ? CMD_COUNT : CMD_LIST, 0);
    t->limit = 1 + (uint32_t)sim_draw(s, 20);
    struct command c = {.list = {.filter = {.queues = set.names,
                                            .queue_count = set.count,
                                            .statuses = (unsigned)sim_draw(s, 1u << STATUS_COUNT)},
                                 .limit = t->limit}};
    ticket_submit(t, &c);
}

/* --- streams --- */

static void on_deliver(void *ctx, const struct handout *h)
{
    struct mstream *st = ctx;
    struct sim *s = st->sim;
    PROMISE(st->open && st->opened, "REPLY", "a job for stream %lu, which is not open", st->serial);
    PROMISE(!s->calling, "REPLY", "a delivery from inside the call");
    ledger_handed(&s->ledger, h, st, (span){0}, s->now);
    struct mjob *m = ledger_find(&s->ledger, h->job.id);
    trace_line("stream %lu gets job %lu run %u token %lx", st->serial, m->serial, h->run, h->token);
    PROMISE(disk_has_take(s->disk, h->job.id, h->run), "I1",
            "job %lu was delivered before that was durable", m->serial);
    if (s->working || (!s->quiet && s->profile.eager && sim_chance(s, 30)))
        client_succeed(s, m, h->token);
    client_react(s);
}

static void stream_over(struct mstream *st)
{
    struct sim *s = st->sim;
    st->open = false;
    ledger_stream_over(&s->ledger, st);
    for (unsigned i = 0; i < STREAMS; i++)
        if (s->streams[i] == st)
            s->streams[i] = NULL;
}

static void on_closed(void *ctx)
{
    struct mstream *st = ctx;
    trace_line("stream %lu was closed", st->serial);
    PROMISE(st->open, "REPLY", "stream %lu was closed twice", st->serial);
    stream_over(st);
    client_react(st->sim);
}

static void on_opened(void *ctx, const struct err *err)
{
    struct mstream *st = ctx;
    trace_line("stream %lu is open: %d", st->serial, err->code);
    PROMISE(st->open && !st->opened && !st->sim->calling, "REPLY", "stream %lu was opened twice",
            st->serial);
    PROMISE(err->code == ERR_OK || st->sim->may_fail || st->sim->stopping, "I5", "no stream: %s",
            err->msg);
    st->opened = true;
    if (err->code != ERR_OK)
        stream_over(st);
}

static void keep_stream(struct sim *s, struct mstream *st)
{
    ALLOC_GROW(s->all_streams, s->stream_count, s->stream_cap, 16);
    s->all_streams[s->stream_count++] = st;
}

void client_open_stream(struct sim *s, unsigned slot, unsigned queues, uint32_t prefetch)
{
    struct mstream *st = ALLOC(struct mstream);
    *st =
        (struct mstream){.serial = ++s->serials, .prefetch = prefetch, .queues = queues, .sim = s};
    keep_stream(s, st);
    struct queue_set set = sim_queue_set(queues);
    struct stream_spec spec = {.queues = set.names,
                               .queue_count = set.count,
                               .prefetch = prefetch,
                               .worker = STR("streamer"),
                               .opened = on_opened,
                               .deliver = on_deliver,
                               .closed = on_closed,
                               .ctx = st};
    s->arrived = true;
    s->calling = true;
    st->handle = backend_stream_open(s->backend, &spec);
    s->calling = false;
    trace_line("open stream %lu of %u, queues %x", st->serial, prefetch, queues);
    st->open = true;
    s->streams[slot] = st;
}

static void close_stream(struct mstream *st)
{
    struct sim *s = st->sim;
    trace_line("close stream %lu", st->serial);
    stream_over(st);
    s->arrived = true;
    s->calling = true;
    backend_stream_close(s->backend, st->handle);
    s->calling = false;
}

static void touch_stream(struct sim *s)
{
    unsigned slot = (unsigned)sim_draw(s, STREAMS);
    struct mstream *st = s->streams[slot];
    if (!st) {
        client_open_stream(s, slot, sim_some_queues(s), 1 + (uint32_t)sim_draw(s, 6));
        return;
    }
    if (sim_chance(s, 40)) {
        close_stream(st);
        return;
    }
    st->paused = !st->paused;
    trace_line("stream %lu paused %d", st->serial, st->paused);
    s->arrived = true;
    backend_stream_pause(s->backend, st->handle, st->paused);
}

/* --- connecting and disconnecting --- */

void client_react(struct sim *s)
{
    if (s->quiet || !s->profile.eager || !sim_chance(s, 15))
        return;
    switch (sim_draw(s, 5)) {
    case 0:
        client_touch_claim(s);
        return;
    case 1:
        touch_stream(s);
        return;
    case 2:
        enqueue(s);
        return;
    default:
        report_something(s);
    }
}

void client_leave(struct sim *s)
{
    for (unsigned i = 0; i < STREAMS; i++)
        if (s->streams[i])
            close_stream(s->streams[i]);
    for (unsigned i = 0; i < CLAIMS; i++)
        if (s->claims[i].ticket && !s->claims[i].ticket->canceled)
            client_cancel_claim(s, i);
}

void client_cut_off(struct sim *s)
{
    for (unsigned i = 0; i < STREAMS; i++)
        if (s->streams[i])
            stream_over(s->streams[i]);
    memset(s->claims, 0, sizeof s->claims);
    s->ledger.claims = 0;
    s->walk.start_seq = 0;
    s->walk.waiting = false;
}

static void change_something(struct sim *s)
{
    struct mjob *m = some_job(s);
    uint64_t kind = sim_draw(s, 10);
    if (kind < 4)
        change_rerun(s);
    else if (m && kind < 7)
        change_cancel(s, m);
    else if (m)
        change_patch(s, m);
}

void client_step(struct sim *s)
{
    if (s->profile.crons && sim_chance(s, 5)) {
        cron_step(s);
        return;
    }
    if (sim_chance(s, s->profile.changes)) {
        change_something(s);
        return;
    }
    if (s->profile.limits && sim_chance(s, 4)) {
        limit_step(s);
        return;
    }
    if (s->profile.graces && sim_chance(s, 5)) {
        grace_step(s);
        return;
    }
    if (s->profile.policies && sim_chance(s, 2)) {
        policy_step(s);
        return;
    }
    if (s->profile.bulks && sim_chance(s, 3)) {
        bulk_step(s);
        return;
    }
    uint64_t choice = sim_draw(s, 100);
    if (choice < 28)
        enqueue(s);
    else if (choice < 58)
        report_something(s);
    else if (choice < 62)
        succeed_many(s);
    else if (choice < 72)
        touch_stream(s);
    else if (choice < 80)
        client_touch_claim(s);
    else if (choice < 84)
        claim_some_job(s);
    else if (choice < 90)
        read_one(s);
    else if (choice < 94)
        walk(s);
    else if (choice < 96)
        list_some(s);
    else if (choice < 99)
        remove_one(s);
    else if (!s->profile.crons && sim_chance(s, 40))
        remove_where(s);
}
