/* SPDX-License-Identifier: Apache-2.0 */

/* Changes of many jobs that are undone. During quiet checks everything is read, many jobs are
 * deleted, canceled, retried or patched, perhaps the server is restarted, and that is undone: what
 * is read then must be what it was before, but for jobs that a worker has taken in between. */

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "core/operations.h"
#include "sim.h"
#include "trace.h"

#define ENDED   (1u << STATUS_COMPLETED | 1u << STATUS_DEAD)
#define WAITING (1u << STATUS_BLOCKED | 1u << STATUS_SCHEDULED | 1u << STATUS_READY)
#define WINDOW  ((span){3600000})

/* --- everything that there is to see --- */

struct shot {
    struct id id;
    uint64_t look; /* of all that does not follow from the status */
    enum status status;
    instant ready_at, purge_at;
    uint32_t runs;
    bool gang;
};

struct album {
    struct shot *shots;
    size_t count, cap;
    bool more;
};

static uint64_t mix(uint64_t h, uint64_t v)
{
    return (h ^ v) * 0x9e3779b97f4a7c15u + (h >> 29);
}

static uint64_t mix_text(uint64_t h, struct str s)
{
    for (size_t i = 0; i < s.len; i++)
        h = mix(h, (unsigned char)s.at[i]);
    return mix(h, s.len);
}

static uint64_t mix_numbers(uint64_t h, const int64_t *numbers, size_t count)
{
    for (size_t i = 0; i < count; i++)
        h = mix(h, (uint64_t)numbers[i]);
    return h;
}

static uint64_t look_of_state(uint64_t h, const struct job_state *s)
{
    const struct job_extras *x = &s->extras;
    const int64_t numbers[] = {(int64_t)s->resolution,
                               s->priority,
                               s->ready_at.ms,
                               s->dequeued_at.ms,
                               s->failed_at.ms,
                               s->completed_at.ms,
                               s->purge_at.ms,
                               s->attempts,
                               s->forgiven,
                               s->losses,
                               (int64_t)x->asked_retries,
                               (int64_t)x->expired_retries,
                               x->avoid_until.ms,
                               (int64_t)x->held,
                               (int64_t)x->memory,
                               (int64_t)x->cpu,
                               (int64_t)x->granted,
                               (int64_t)x->gang_alone,
                               (int64_t)x->notes,
                               (int64_t)x->grace_token,
                               x->grace_end.ms,
                               x->backoff_end.ms,
                               x->terminated_at.ms};
    h = mix_numbers(h, numbers, sizeof numbers / sizeof *numbers);
    h = mix_text(mix_text(h, s->reason), x->retry_counts);
    return mix_text(mix_text(h, x->avoid_node), x->waits_for);
}

static uint64_t look_of(const struct job *job)
{
    const struct job_options *o = &job->options;
    const int64_t numbers[] = {job->retry_limit,       (int64_t)job->backoff.shape,
                               job->backoff.base.ms,   job->completed_retention.ms,
                               job->dead_retention.ms, (int64_t)job->unique_while,
                               o->deadline.ms,         o->retain_until.ms,
                               (int64_t)o->gang_size};
    const struct str texts[] = {job->queue, job->type,        job->payload, job->unique_key,
                                o->alias,   o->group,         o->budgets,   o->concurrency_key,
                                o->gang,    o->retry_policies};
    uint64_t h = mix_numbers(1, numbers, sizeof numbers / sizeof *numbers);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        h = mix_text(h, texts[i]);
    return look_of_state(h, &job->state);
}

static void take_page(struct ticket *t, const struct reply *r)
{
    struct album *a = t->ctx;
    PROMISE(r->err.code == ERR_OK, "REPLY", "#%lu: %s", t->serial, err_wire(r->err.code));
    for (size_t i = 0; i < r->count; i++) {
        const struct job *job = &r->jobs[i];
        ALLOC_GROW(a->shots, a->count, a->cap, 64);
        a->shots[a->count++] = (struct shot){.id = job->id,
                                             .look = look_of(job),
                                             .status = job->state.status,
                                             .ready_at = job->state.ready_at,
                                             .purge_at = job->state.purge_at,
                                             .runs = job->state.runs,
                                             .gang = job->options.gang.len > 0};
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
            .list = {.from = {a.count > 0, a.count ? a.shots[a.count - 1].id : (struct id){0}},
                     .limit = BACKEND_PAGE_MAX}};
        ticket_submit(t, &c);
        sim_pump(s);
    } while (a.more);
    return a;
}

/* What the runs of a job were. */
static void take_runs(struct ticket *t, const struct reply *r)
{
    uint64_t *h = t->ctx;
    PROMISE(r->err.code == ERR_OK, "REPLY", "#%lu: %s", t->serial, err_wire(r->err.code));
    for (size_t i = 0; i < r->count; i++) {
        const struct run *run = &r->runs[i];
        const int64_t numbers[] = {run->index, (int64_t)run->outcome, run->taken_at.ms,
                                   run->ended_at.ms, run->attempt};
        *h = mix_text(mix_numbers(*h, numbers, sizeof numbers / sizeof *numbers), run->worker);
    }
}

static void read_runs(struct sim *s, struct album *a)
{
    for (size_t i = 0; i < a->count; i++) {
        struct shot *p = &a->shots[i];
        if (p->status == STATUS_IN_FLIGHT || p->runs == 0)
            continue;
        struct ticket *t = ticket_new(s, CMD_RUNS, 0);
        t->then = take_runs;
        t->ctx = &p->look;
        struct command c = {.runs = {.id = p->id, .from = -1, .limit = 100}};
        ticket_submit(t, &c);
        sim_pump(s);
    }
}

static struct album photograph(struct sim *s)
{
    struct album a = read_all(s);
    read_runs(s, &a);
    return a;
}

/* --- the change, and its undo --- */

struct change {
    struct command c;
    struct patch patch;
    unsigned queue, type;
    struct str name;
    uint64_t operation;
    bool full;    /* it met the limit of what may be kept */
    bool expired; /* it could not be undone any more */
    struct operation_undo undo;
};

static void some_change(struct sim *s, struct change *ch)
{
    static const enum command_kind kinds[] = {CMD_REMOVE_WHERE, CMD_CANCEL_WHERE, CMD_RERUN_WHERE,
                                              CMD_PATCH_WHERE};
    *ch = (struct change){.c = {.kind = kinds[sim_draw(s, 4)]}};
    struct job_filter *f = &ch->c.list.filter;
    ch->type = (unsigned)sim_draw(s, TYPES);
    ch->name = sim_type_name(ch->type);
    f->types = &ch->name;
    f->type_count = 1;
    f->statuses = ch->c.kind == CMD_REMOVE_WHERE  ? WAITING | ENDED
                  : ch->c.kind == CMD_RERUN_WHERE ? 1u << STATUS_DEAD
                                                  : WAITING;
    ch->c.list.undo = WINDOW;
    if (ch->c.kind == CMD_PATCH_WHERE) {
        ch->patch = change_some_patch(s, &ch->queue);
        ch->patch.set &= ~(unsigned)PATCH_FREE;
        ch->c.list.patch = &ch->patch;
    }
}

static void on_changed(struct ticket *t, const struct reply *r)
{
    struct change *ch = t->ctx;
    ch->full = r->err.code == ERR_UNDO_FULL;
    PROMISE(r->err.code == ERR_OK || ch->full, "UNDO", "#%lu: %s", t->serial,
            err_wire(r->err.code));
    ch->operation = r->operation;
    PROMISE(ch->operation || ch->full, "UNDO", "#%lu names no operation", t->serial);
}

static void on_undone(struct ticket *t, const struct reply *r)
{
    struct change *ch = t->ctx;
    ch->expired = r->err.code == ERR_UNDO_EXPIRED;
    PROMISE(r->err.code == ERR_OK || ch->expired, "UNDO", "#%lu: %s", t->serial,
            err_wire(r->err.code));
    if (ch->expired)
        return;
    ch->undo = r->operations[0].undo;
    PROMISE(ch->undo.state == UNDO_ENDED && ch->undo.bytes == 0, "UNDO",
            "#%lu: it is not over, or %lu bytes are left", t->serial, ch->undo.bytes);
}

static void send(struct sim *s, struct change *ch, struct command *c,
                 void (*then)(struct ticket *t, const struct reply *r))
{
    struct ticket *t = ticket_new(s, c->kind, 0);
    t->then = then;
    t->ctx = ch;
    ticket_submit(t, c);
    sim_pump(s);
    PROMISE(t->answered, "REPLY", "#%lu has no answer", t->serial);
}

/* What may keep a job from being as it was, while nobody but workers with room acts. */
static void check_outcomes(const struct change *ch)
{
    const uint64_t *n = ch->undo.outcomes;
    uint64_t sum = 0;
    bool moves = ch->c.kind == CMD_RERUN_WHERE || ch->c.kind == CMD_PATCH_WHERE;
    for (int i = 0; i < UNDO_OUTCOMES; i++)
        sum += n[i];
    PROMISE(sum == ch->undo.entries, "UNDO", "%lu of %lu jobs have an outcome", sum,
            ch->undo.entries);
    PROMISE(n[UNDO_LOST] + n[UNDO_UNIQUE_KEY] + n[UNDO_ALIAS] + n[UNDO_GROUP] + n[UNDO_BUDGET] == 0,
            "UNDO", "a job was not undone, and nobody has taken its place");
    PROMISE(moves || n[UNDO_IN_FLIGHT] + n[UNDO_FINISHED] + n[UNDO_CHANGED] + n[UNDO_DELETED] == 0,
            "UNDO", "a job was not undone that nobody can have had");
}

/* --- the comparison --- */

/* *gangs: how many more jobs may have been left as they are because the rest of their gang runs. */
static void compare(const struct sim *s, const struct shot *was, const struct shot *is,
                    uint64_t *gangs)
{
    if (was->status == STATUS_IN_FLIGHT || is->status == STATUS_IN_FLIGHT || is->runs != was->runs)
        return; /* a worker had it meanwhile, or its stream was cut off */
    bool due = was->status == STATUS_SCHEDULED && is->status == STATUS_READY &&
               is->ready_at.ms <= s->now.ms;
    if (was->gang && *gangs && 1u << was->status & WAITING && is->status == STATUS_DEAD) {
        --*gangs;
        return;
    }
    PROMISE(is->status == was->status || due, "UNDO", "a job is %s, and was %s",
            lifecycle_status_name(is->status), lifecycle_status_name(was->status));
    PROMISE(is->look == was->look, "UNDO", "a job that is %s is not what it was",
            lifecycle_status_name(is->status));
}

static void check_after(struct sim *s, const struct change *ch, const struct album *before)
{
    struct album after = photograph(s);
    uint64_t refused = ch->undo.outcomes[UNDO_GANG];
    bool gangs = refused > 0;
    uint64_t canceled = ch->c.kind == CMD_CANCEL_WHERE ? refused : 0;
    size_t at = 0;
    for (size_t i = 0; i < before->count; i++) {
        const struct shot *was = &before->shots[i];
        bool there = at < after.count && id_eq(after.shots[at].id, was->id);
        bool ended = 1u << was->status & ENDED;
        if (there)
            compare(s, was, &after.shots[at++], &canceled);
        else
            PROMISE((ended && was->purge_at.ms <= s->now.ms) || (was->gang && gangs) ||
                        was->status == STATUS_IN_FLIGHT,
                    "UNDO", "a job that was %s is gone", lifecycle_status_name(was->status));
    }
    PROMISE(at == after.count, "UNDO", "%zu jobs too many", after.count - at);
    free(after.shots);
}

/* For the ledger it is one more request that may have been applied to any of them. */
static void note(struct sim *s, const struct change *ch)
{
    struct ledger *l = &s->ledger;
    if (ch->c.kind == CMD_RERUN_WHERE || ch->c.kind == CMD_PATCH_WHERE)
        ledger_bulk_begin(l, ch->c.kind == CMD_PATCH_WHERE ? &ch->patch : NULL, ch->queue,
                          ch->type);
    for (size_t i = 0; i < l->count && ch->c.kind == CMD_CANCEL_WHERE; i++)
        l->jobs[i]->uncanceled |= l->jobs[i]->pending_runs && l->jobs[i]->type == ch->type;
    if (ch->c.kind != CMD_REMOVE_WHERE || (!ch->expired && !ch->undo.outcomes[UNDO_GANG]))
        return;
    for (size_t i = 0; i < l->count; i++)
        l->jobs[i]->may_vanish |= l->jobs[i]->type == ch->type;
}

void undo_in_silence(struct sim *s)
{
    struct change ch;
    s->quiet = true;
    sim_settle(s);
    s->may_fail = false;
    some_change(s, &ch);
    struct album before = photograph(s);
    instant at = s->now;
    trace_line("kind %d of type %u is done, and undone", ch.c.kind, ch.type);
    if (ch.c.kind != CMD_REMOVE_WHERE)
        note(s, &ch);
    send(s, &ch, &ch.c, on_changed);
    if (ch.c.kind != CMD_CANCEL_WHERE && sim_chance(s, 30)) {
        sim_restart(s);
        s->quiet = true;
        sim_settle(s);
        s->may_fail = false;
    }
    struct command undo = {.kind = CMD_OPERATION_UNDO, .operation = ch.operation};
    if (ch.operation)
        send(s, &ch, &undo, on_undone);
    if (ch.operation && !ch.expired) {
        check_outcomes(&ch);
        check_after(s, &ch, &before);
    }
    if (ch.c.kind == CMD_CANCEL_WHERE)
        ledger_cancel_undone(&s->ledger, ch.type, at, ch.undo.outcomes[UNDO_GANG] > 0);
    if (ch.c.kind == CMD_REMOVE_WHERE) {
        ledger_deletion_undone(&s->ledger, ch.type);
        note(s, &ch);
    } else if (s->ledger.bulk.running) {
        ledger_bulk_end(&s->ledger);
    }
    free(before.shots);
    quiet_audit(s);
}
