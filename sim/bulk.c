/* SPDX-License-Identifier: Apache-2.0 */

/* Bulk changes. While other commands are in progress, they may have been applied to any job that
 * matches. During quiet checks they are compared with a model: everything is read before and after,
 * and the differences must be exactly what was requested. A dry run changes nothing. */

#include <stdlib.h>

#include "base/alloc.h"
#include "sim.h"
#include "trace.h"

#define ENDED (1u << STATUS_COMPLETED | 1u << STATUS_DEAD)
#define ALL   ((1u << STATUS_COUNT) - 1)

/* --- the request --- */

struct bulk {
    struct command c;
    struct patch patch;
    unsigned queue, type;      /* of the patch; of the filter */
    struct str name, of_queue; /* for the filter */
    unsigned queues;           /* for the filter, as bits; 0: all */
};

static struct range some_range(struct sim *s, int64_t from, uint64_t width)
{
    struct range r = {.set = sim_chance(s, 25)};
    r.lo = from + (int64_t)sim_draw(s, width);
    r.hi = r.lo + (int64_t)sim_draw(s, width);
    return r;
}

/* Its strings are constants or belong to the bulk. */
static void some_bulk(struct sim *s, struct bulk *b)
{
    static const enum command_kind kinds[] = {CMD_PATCH_WHERE, CMD_RERUN_WHERE, CMD_REMOVE_WHERE};
    *b = (struct bulk){.c = {.kind = kinds[sim_draw(s, 3)]}};
    b->type = (unsigned)sim_draw(s, TYPES);
    b->name = sim_type_name(b->type);
    struct job_filter *f = &b->c.list.filter;
    f->types = &b->name;
    f->type_count = 1;
    if (sim_chance(s, 40)) {
        unsigned queue = (unsigned)sim_draw(s, s->profile.queues);
        b->of_queue = sim_queue_name(queue);
        b->queues = 1u << queue;
        f->queues = &b->of_queue;
        f->queue_count = 1;
    }
    f->priority = some_range(s, 0, 3);
    f->attempts = some_range(s, 0, 3);
    f->ready_at = some_range(s, s->now.ms - 100000, 200000);
    if (sim_chance(s, 30))
        f->expression = evaluator_even;
    f->statuses = sim_chance(s, 50) ? 0 : (unsigned)sim_draw(s, ALL + 1);
    if (b->c.kind == CMD_PATCH_WHERE) {
        b->patch = change_some_patch(s, &b->queue);
        b->c.list.patch = &b->patch;
        /* As every caller of the backend must. */
        f->statuses &= ~ENDED;
        if (!f->statuses)
            f->statuses = ALL & ~ENDED;
    } else if (b->c.kind == CMD_RERUN_WHERE) {
        f->statuses = 1u << STATUS_DEAD;
        b->c.list.per_second = sim_chance(s, 50) ? 0 : 1 + (uint32_t)sim_draw(s, 2000);
    }
}

/* --- beside other commands --- */

void bulk_step(struct sim *s)
{
    struct bulk b;
    some_bulk(s, &b);
    bool dry = sim_chance(s, 20);
    if (b.c.kind == CMD_REMOVE_WHERE || (s->ledger.bulk.running && !dry))
        return; /* clients remove by themselves */
    b.c.list.dry_run = dry;
    b.c.list.limit = dry ? 1 + (uint32_t)sim_draw(s, 5) : 0;
    struct ticket *t = ticket_new(s, b.c.kind, 0);
    t->limit = b.c.list.limit;
    t->dry = dry;
    if (!dry)
        ledger_bulk_begin(&s->ledger, b.c.kind == CMD_PATCH_WHERE ? &b.patch : NULL, b.queue,
                          b.type);
    ticket_submit(t, &b.c);
}

void bulk_judge(struct ticket *t, const struct reply *r)
{
    if (!t->dry)
        ledger_bulk_end(&t->sim->ledger);
    if (r->err.code != ERR_OK) {
        PROMISE(r->err.code == ERR_DISK_FULL || r->err.code == ERR_STORE ||
                    r->err.code == ERR_BUSY || r->err.code == ERR_INTERNAL ||
                    r->err.code == ERR_UNPROCESSABLE || r->err.code == ERR_BAD_VALUE,
                "REPLY", "#%lu: answer %s", t->serial, err_wire(r->err.code));
        return;
    }
    PROMISE(r->sampled == (t->dry ? r->count < t->limit ? r->count : t->limit : 0), "LIST",
            "#%lu: a sample of %zu among %zu", t->serial, r->sampled, r->count);
    trace_line("  in bulk: %zu", r->count);
}

/* --- during quiet checks --- */

struct snap {
    struct id id;
    unsigned queue, type;
    enum status status;
    struct job_state state;
    int64_t retry_limit;
    bool even, hit;
};

struct album {
    struct snap *snaps;
    size_t count, cap;
    bool more;
};

static void take_page(struct ticket *t, const struct reply *r)
{
    struct album *a = t->ctx;
    PROMISE(r->err.code == ERR_OK, "REPLY", "#%lu: %s", t->serial, err_wire(r->err.code));
    for (size_t i = 0; i < r->count; i++) {
        const struct job *job = &r->jobs[i];
        ledger_see(&t->sim->ledger, job, true, t->sim->now);
        ALLOC_GROW(a->snaps, a->count, a->cap, 64);
        a->snaps[a->count++] = (struct snap){.id = job->id,
                                             .queue = (unsigned)(job->queue.at[1] - '0'),
                                             .type = (unsigned)(job->type.at[1] - '0'),
                                             .status = job->state.status,
                                             .state = job->state,
                                             .retry_limit = job->retry_limit,
                                             .even = evaluator_is_even(job->payload)};
    }
    a->more = r->more;
}

static struct album read_all(struct sim *s)
{
    struct album a = {0};
    do {
        struct ticket *t = ticket_new(s, CMD_LIST, 0);
        t->then = take_page;
        t->ctx = &a;
        struct command c = {
            .list = {.from = {a.count > 0, a.count ? a.snaps[a.count - 1].id : (struct id){0}},
                     .limit = BACKEND_PAGE_MAX}};
        ticket_submit(t, &c);
        sim_pump(s);
    } while (a.more);
    return a;
}

static bool in_range(const struct range *r, int64_t v)
{
    return !r->set || (r->lo <= v && v <= r->hi);
}

static bool fits(const struct bulk *b, const struct snap *p)
{
    const struct job_filter *f = &b->c.list.filter;
    return p->type == b->type && (!b->queues || b->queues >> p->queue & 1) &&
           (!f->statuses || f->statuses >> p->status & 1) &&
           in_range(&f->priority, p->state.priority) && in_range(&f->attempts, p->state.attempts) &&
           in_range(&f->ready_at, p->state.ready_at.ms) && (!f->expression.len || p->even);
}

/* What the n-th matching job must have become. */
static struct snap changed(const struct sim *s, const struct bulk *b, const struct snap *p,
                           size_t n)
{
    struct snap to = *p;
    const struct patch *patch = &b->patch;
    bool in_flight = p->status == STATUS_IN_FLIGHT;
    if (b->c.kind == CMD_RERUN_WHERE) {
        uint32_t rate = b->c.list.per_second;
        to.state.ready_at.ms = s->now.ms + (rate ? (int64_t)(n * 1000 / rate) : 0);
        to.state.forgiven = p->state.attempts;
    }
    if (patch->set & PATCH_QUEUE)
        to.queue = b->queue;
    if (patch->set & PATCH_PRIORITY)
        to.state.priority = patch->priority;
    if (patch->set & PATCH_RETRY_LIMIT)
        to.retry_limit = patch->retry_limit;
    if (patch->set & PATCH_READY_AT)
        to.state.ready_at = instant_is_set(patch->ready_at) ? patch->ready_at : s->now;
    if (!in_flight)
        to.status = to.state.ready_at.ms <= s->now.ms ? STATUS_READY : STATUS_SCHEDULED;
    return to;
}

static void compare(const struct snap *is, const struct snap *must_be)
{
    PROMISE(is->queue == must_be->queue && is->type == must_be->type &&
                is->retry_limit == must_be->retry_limit &&
                is->state.priority == must_be->state.priority,
            "BULK", "a job has other fields than requested");
    PROMISE(is->state.ready_at.ms == must_be->state.ready_at.ms, "BULK",
            "a job is for %ld instead of %ld", is->state.ready_at.ms, must_be->state.ready_at.ms);
    PROMISE(is->state.attempts == must_be->state.attempts &&
                is->state.forgiven == must_be->state.forgiven,
            "BULK", "a job's attempts changed");
    /* A job that became ready may have found a worker. */
    bool taken = must_be->status == STATUS_READY && is->status == STATUS_IN_FLIGHT;
    PROMISE(is->status == must_be->status || taken, "BULK", "a job is %s instead of %s",
            lifecycle_status_name(is->status), lifecycle_status_name(must_be->status));
    PROMISE(is->state.runs == must_be->state.runs + taken, "BULK", "a job has other runs");
}

struct expected {
    const struct bulk *b;
    const struct album *before;
    size_t count; /* of matching jobs */
};

static void check_reply(struct ticket *t, const struct reply *r)
{
    const struct expected *o = t->ctx;
    PROMISE(r->err.code == ERR_OK, "BULK", "#%lu: %s", t->serial, err_wire(r->err.code));
    PROMISE(r->count == o->count, "BULK", "#%lu: %zu jobs match, it says %zu", t->serial, o->count,
            r->count);
    if (!t->dry)
        return;
    PROMISE(r->sampled == (o->count < t->limit ? o->count : t->limit), "BULK",
            "#%lu: a sample of %zu", t->serial, r->sampled);
    for (size_t i = 0, n = 0; i < o->before->count && n < r->sampled; i++)
        if (o->before->snaps[i].hit)
            PROMISE(id_eq(r->jobs[n++].id, o->before->snaps[i].id), "BULK",
                    "#%lu: the sample is not the first matching jobs", t->serial);
}

/* For the ledger it is one more request that may have been applied, whatever the answer. */
static void note(struct sim *s, const struct bulk *b)
{
    struct ledger *l = &s->ledger;
    if (b->c.kind == CMD_REMOVE_WHERE) {
        for (size_t i = 0; i < l->count; i++)
            l->jobs[i]->may_vanish |= l->jobs[i]->type == b->type;
        return;
    }
    ledger_bulk_begin(l, b->c.kind == CMD_PATCH_WHERE ? &b->patch : NULL, b->queue, b->type);
}

static void run(struct sim *s, struct bulk *b, struct expected *o, bool dry)
{
    struct ticket *t = ticket_new(s, b->c.kind, 0);
    b->c.list.dry_run = t->dry = dry;
    b->c.list.limit = t->limit = dry ? 1 + (uint32_t)sim_draw(s, 10) : 0;
    t->then = check_reply;
    t->ctx = o;
    ticket_submit(t, &b->c);
    sim_pump(s);
    PROMISE(t->answered, "REPLY", "#%lu has no answer", t->serial);
}

static void check_after(struct sim *s, const struct expected *o, bool dry)
{
    struct album after = read_all(s);
    bool removed = o->b->c.kind == CMD_REMOVE_WHERE && !dry;
    size_t at = 0, n = 0;
    for (size_t i = 0; i < o->before->count; i++) {
        const struct snap *was = &o->before->snaps[i];
        if (was->hit && removed)
            continue;
        PROMISE(at < after.count && id_eq(after.snaps[at].id, was->id), "BULK",
                "a job is gone, or one that should be gone is there");
        struct snap to = was->hit && !dry ? changed(s, o->b, was, n++) : *was;
        compare(&after.snaps[at++], &to);
    }
    PROMISE(at == after.count, "BULK", "%zu jobs too many", after.count - at);
    free(after.snaps);
}

void bulk_in_silence(struct sim *s)
{
    struct bulk b;
    s->quiet = true;
    sim_settle(s);
    s->may_fail = false;
    some_bulk(s, &b);
    struct album before = read_all(s);
    struct expected o = {.b = &b, .before = &before};
    for (size_t i = 0; i < before.count; i++)
        o.count += before.snaps[i].hit = fits(&b, &before.snaps[i]);
    trace_line("bulk change of kind %d, %zu of %zu", b.c.kind, o.count, before.count);
    uint64_t begun = disk_begun(s->disk);
    run(s, &b, &o, true);
    /* A snapshot of the indexes goes on, and is then noted. */
    PROMISE(*s->index_dir || begun == disk_begun(s->disk), "BULK", "a dry run stored something");
    check_after(s, &o, true);
    note(s, &b);
    run(s, &b, &o, false);
    check_after(s, &o, false);
    ledger_bulk_end(&s->ledger);
    free(before.snaps);
    quiet_audit(s);
}
