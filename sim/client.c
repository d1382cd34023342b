/* SPDX-License-Identifier: Apache-2.0 */

/* What virtual clients do. */

#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "sim.h"
#include "trace.h"

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
        return (struct run_ref){.id = m->id, .token = token};
    bool both = sim_chance(s, 20) || !r->stream;
    return (struct run_ref){
        .id = m->id, .token = both ? token : 0, .by_index = true, .index = r->index};
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
    if (s->profile.nodes || sim_chance(s, 30))
        e->node = node_some(s);
    if (s->profile.nodes && sim_chance(s, 40))
        e->condition = CONDITION_PREEMPTED;
    bool preempted = s->profile.graces && e->condition == CONDITION_PREEMPTED;
    bool unsaid = preempted && sim_chance(s, 20);
    if (unsaid)
        e->grace = POLICY_GRACE;
    else if (preempted && sim_chance(s, 70))
        e->grace.ms = 1 + (int64_t)sim_draw(s, 20000);
    struct command c = {.fail = {.ref = ref_of(s, m, token),
                                 .grace = unsaid ? (span){-1} : e->grace,
                                 .failure = {.message = STR("it broke"),
                                             .node = node_name(e->node),
                                             .run_time = {-1},
                                             .exit_code = e->exit_code,
                                             .condition = e->condition},
                                 .exception = e->exception,
                                 .kill = e->kill,
                                 .retry_at = e->retry_at}};
    ticket_submit(t, &c);
}

static void renewed_many(void *ctx, const struct reply *r)
{
    struct ticket *t = ctx;
    struct reply one = *r;
    if (r->err.code == ERR_OK) {
        PROMISE(r->count == 2 && r->renewed[0].code == r->renewed[1].code &&
                    id_eq(r->renewed[0].id, t->jobs[0]->id),
                "REPLY", "#%lu: of two renewals of one run only one was accepted", t->serial);
        one.err.code = r->renewed[1].code;
        one.lease_end = r->renewed[1].lease_end;
    }
    ticket_answer(t, &one);
}

/* The same run twice, in a request for many. */
static void renew_as_many(struct ticket *t, struct run_ref ref)
{
    struct sim *s = t->sim;
    const struct renewal twice[2] = {{ref, t->lease}, {ref, t->lease}};
    struct command c = {
        .kind = CMD_RENEW_MANY, .renew_many = {twice, 2}, .done = renewed_many, .ctx = t};
    trace_line("ask #%lu to renew job %lu, among many", t->serial, t->jobs[0]->serial);
    s->arrived = true;
    s->calling = true;
    backend_submit(s->backend, &c);
    s->calling = false;
}

void client_renew(struct sim *s, struct mjob *m, uint64_t token)
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
        r->spoken = true;
    }
    struct command c = {.renew = {ref_of(s, m, token), t->lease}};
    if (sim_chance(s, 50))
        ticket_submit(t, &c);
    else
        renew_as_many(t, c.renew.run);
}

static void report_something(struct sim *s)
{
    struct mjob *m = some_job(s);
    if (!m)
        return;
    uint64_t token = some_token(s, m);
    uint64_t kind = sim_draw(s, 10);
    switch (s->profile.nodes && kind >= 6 ? 0 : kind) {
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
        client_renew(s, m, token);
        return;
    default:
        report(s, CMD_SUCCEED, m, token);
    }
}

static void succeed_many(struct sim *s)
{
    struct mjob *jobs[8];
    struct run_ref runs[8];
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
        uint64_t token = sim_chance(s, 50) ? some_token(s, jobs[i]) : 0;
        ticket_about(t, i, jobs[i], token);
        runs[i] = (struct run_ref){.id = jobs[i]->id, .token = token};
    }
    struct command c = {.succeed_many = {runs, n}};
    ticket_submit(t, &c);
}

static void claim_some_job(struct sim *s)
{
    struct mjob *m = some_job(s);
    if (m)
        client_claim_job(s, m);
}

/* --- removals and reads --- */

void client_remove(struct sim *s, struct mjob *m)
{
    struct ticket *t = ticket_new(s, CMD_REMOVE, 1);
    ticket_about(t, 0, m, 0);
    m->removals++;
    m->may_vanish = true;
    struct command c = {.id = m->id};
    ticket_submit(t, &c);
}

static void remove_one(struct sim *s)
{
    struct mjob *m = some_job(s);
    if (m)
        client_remove(s, m);
}

static bool is_swept(const struct mjob *m, unsigned queue, unsigned type)
{
    return !m->gone_seq && !m->never && m->type == type &&
           (m->queue == queue || m->patched & PATCH_QUEUE);
}

static void remove_where(struct sim *s)
{
    unsigned queue = (unsigned)sim_draw(s, s->profile.queues), type = (unsigned)sim_draw(s, TYPES);
    struct str queue_name = sim_queue_name(queue), type_name = sim_type_name(type);
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
    if (s->turned) {
        clock_work(s, h);
        return;
    }
    PROMISE(st->open && st->opened, "REPLY", "a job for stream %lu, which is not open", st->serial);
    PROMISE(!s->calling, "REPLY", "a delivery from inside the call");
    ledger_handed(&s->ledger, h, st, (span){0}, s->now);
    node_handed(s, h, st->node);
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
    PROMISE(err->code == ERR_OK || st->sim->may_fail || st->sim->stopping || st->sim->resetting,
            "I5", "no stream: %s", err->msg);
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
    st->node = s->quiet ? 0 : node_some(s);
    keep_stream(s, st);
    struct queue_set set = sim_queue_set(queues);
    struct stream_spec spec = {.queues = set.names,
                               .queue_count = set.count,
                               .prefetch = prefetch,
                               .worker = STR("streamer"),
                               .node = node_name(st->node),
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
        client_enqueue(s);
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
    kv_step(s);
    if (s->profile.groups && sim_chance(s, 4)) {
        group_step(s);
        return;
    }
    if (s->profile.crons && sim_chance(s, 5)) {
        cron_step(s);
        return;
    }
    if (s->profile.turns && sim_chance(s, 1)) {
        clock_step(s);
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
    if (s->profile.budgets && sim_chance(s, 2)) {
        budget_step(s);
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
    if (s->profile.repeats && sim_chance(s, 25)) {
        client_touch_claim(s);
        return;
    }
    uint64_t choice = sim_draw(s, 100);
    if (choice < 28)
        client_enqueue(s);
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
