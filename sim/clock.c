/* SPDX-License-Identifier: Apache-2.0 */

/* Setting the clock back (CMD_CLOCK_RESET). CLOCK: it is done completely or not at all, whatever
 * fails. What has happened according to the wrong clock has happened now. Waits last as long as
 * they still had to. The ready_at of a job that never failed stays as its client gave it.
 *
 * Among other commands it is requested while the clock is right; then it does what a restart does.
 * At the end of some simulations the clock is wrong. The ledger, whose times are those of the wrong
 * clock, is not used after that: every job is compared with what it was before, and all must still
 * end. */

#include <stdlib.h>

#include "base/alloc.h"
#include "sim.h"
#include "store/memory.h"
#include "trace.h"

/* --- among other commands --- */

static void judge_reset(struct ticket *t, const struct reply *r)
{
    struct sim *s = t->sim;
    if (ticket_is_in_doubt(t, r->err.code))
        return;
    PROMISE(r->err.code == ERR_OK, "REPLY", "#%lu: answer %s", t->serial, err_wire(r->err.code));
    PROMISE(r->clock.from.ms == r->clock.to.ms && r->clock.corrected == 0, "CLOCK",
            "#%lu: the clock was right and was set back by %ld", t->serial,
            (long)(r->clock.from.ms - r->clock.to.ms));
    s->resets++;
    s->booted_at = s->reset_at = s->now;
    ledger_booted(&s->ledger, s->now);
}

void clock_step(struct sim *s)
{
    if (s->behind.ms)
        return;
    sim_hold(s, false);
    struct ticket *t = ticket_new(s, CMD_CLOCK_RESET, 0);
    t->then = judge_reset;
    struct command c = {0};
    s->resetting = true;
    ticket_submit(t, &c);
    sim_pump(s);
    s->resetting = false;
}

static void be_done(struct ticket *t, const struct reply *r)
{
    PROMISE(r->err.code == ERR_OK || r->err.code == ERR_NOT_FOUND, "REPLY", "#%lu: %s", t->serial,
            err_wire(r->err.code));
}

/* --- all jobs --- */

struct snap {
    struct id id;
    struct job_state state; /* its strings and lists are not valid */
};

struct listing {
    struct snap *snaps;
    size_t count, cap;
    bool more;
    struct events_audit *events;
};

static void take_page(struct ticket *t, const struct reply *r)
{
    struct listing *f = t->ctx;
    PROMISE(r->err.code == ERR_OK, "REPLY", "#%lu: %s", t->serial, err_wire(r->err.code));
    for (size_t i = 0; i < r->count; i++) {
        ALLOC_GROW(f->snaps, f->count, f->cap, 64);
        f->snaps[f->count++] = (struct snap){r->jobs[i].id, r->jobs[i].state};
        events_see(f->events, &r->jobs[i]);
    }
    f->more = r->more;
}

static struct listing list_all(struct sim *s)
{
    struct events_audit events;
    struct listing f = {.events = &events};
    events_open(s, &events);
    do {
        struct ticket *t = ticket_new(s, CMD_LIST, 0);
        t->then = take_page;
        t->ctx = &f;
        struct command c = {
            .list = {.from = {f.count > 0, f.count ? f.snaps[f.count - 1].id : (struct id){0}},
                     .limit = BACKEND_PAGE_MAX}};
        ticket_submit(t, &c);
        sim_pump(s);
    } while (f.more);
    events_close(&events);
    free(events.history.at);
    return f;
}

/* --- what they must have become --- */

struct turn {
    struct sim *sim;
    instant at; /* the simulation's time at the request */
    instant from, to;
    bool done;
};

static instant clamped(const struct turn *turn, instant t)
{
    return t.ms > turn->to.ms ? turn->to : t;
}

static instant shifted(const struct turn *turn, instant t)
{
    return t.ms > turn->from.ms ? (instant){turn->to.ms + (t.ms - turn->from.ms)}
                                : clamped(turn, t);
}

static bool is_turned(const struct turn *turn, const struct job_state *was,
                      const struct job_state *is)
{
    bool by_somebody = was->attempts == 0 && was->ready_at.ms > turn->from.ms;
    instant ready_at = by_somebody ? was->ready_at : shifted(turn, was->ready_at);
    return is->ready_at.ms == ready_at.ms &&
           is->dequeued_at.ms == clamped(turn, was->dequeued_at).ms &&
           is->failed_at.ms == clamped(turn, was->failed_at).ms &&
           is->completed_at.ms == clamped(turn, was->completed_at).ms &&
           is->extras.terminated_at.ms == clamped(turn, was->extras.terminated_at).ms &&
           is->purge_at.ms == shifted(turn, was->purge_at).ms &&
           /* or longer, as nobody could renew it meanwhile */
           is->lease_end.ms >= shifted(turn, was->lease_end).ms &&
           is->extras.avoid_until.ms == shifted(turn, was->extras.avoid_until).ms &&
           is->extras.grace_end.ms == shifted(turn, was->extras.grace_end).ms &&
           is->extras.backoff_end.ms == shifted(turn, was->extras.backoff_end).ms;
}

static void compare(const struct turn *turn, const struct listing *before,
                    const struct listing *after)
{
    PROMISE(before->count == after->count, "CLOCK", "%zu jobs were there, and %zu are",
            before->count, after->count);
    for (size_t i = 0; i < before->count; i++) {
        const struct job_state *was = &before->snaps[i].state, *is = &after->snaps[i].state;
        PROMISE(id_eq(before->snaps[i].id, after->snaps[i].id), "CLOCK", "there are other jobs");
        PROMISE(was->status == is->status && was->runs == is->runs &&
                    was->attempts == is->attempts && was->priority == is->priority,
                "CLOCK", "job %zu was %s and is %s", i, lifecycle_status_name(was->status),
                lifecycle_status_name(is->status));
        PROMISE(is_turned(turn, was, is), "CLOCK", "job %zu, %s, has wrong times", i,
                lifecycle_status_name(is->status));
    }
}

/* --- setting it back --- */

static void judge_turn(struct ticket *t, const struct reply *r)
{
    struct turn *turn = t->ctx;
    if (r->err.code == ERR_DISK_FULL || r->err.code == ERR_STORE)
        return;
    PROMISE(r->err.code == ERR_OK, "REPLY", "#%lu: answer %s", t->serial, err_wire(r->err.code));
    PROMISE(r->clock.from.ms == turn->from.ms && r->clock.to.ms == turn->to.ms, "CLOCK",
            "#%lu: from %ld to %ld", t->serial, (long)r->clock.from.ms, (long)r->clock.to.ms);
    turn->done = true;
}

/* Whether it was done, even if the answer says otherwise. */
static bool has_turned(const struct turn *turn)
{
    struct sim *s = turn->sim;
    instant now = embedded_now(s->backend);
    int64_t passed = s->now.ms - turn->at.ms;
    bool turned = now.ms == turn->to.ms + passed;
    PROMISE(turned || (now.ms >= turn->from.ms && now.ms <= turn->from.ms + passed), "CLOCK",
            "it is %ld after a failure, neither %ld nor %ld", (long)now.ms, (long)turn->from.ms,
            (long)turn->to.ms);
    return turned;
}

/* Enqueues a job, so that the current time is stored. */
static void store_time(struct sim *s)
{
    struct enqueue spec = {.queue = sim_queue_name(0),
                           .type = sim_type_name(0),
                           .payload = STR("{}"),
                           .ready_at = INSTANT_NONE,
                           .retry_limit = RETRY_LIMIT_DEFAULT,
                           .completed_retention = RETENTION_DEFAULT,
                           .dead_retention = RETENTION_DEFAULT};
    struct ticket *t = ticket_new(s, CMD_ENQUEUE, 0);
    t->then = be_done;
    struct command c = {.enqueue = {&spec, 1}};
    ticket_submit(t, &c);
    sim_pump(s);
}

/* The `fails`-th commit from now on fails; 0: none. */
static void try_to_turn(struct sim *s, struct turn *turn, unsigned fails)
{
    struct ticket *t = ticket_new(s, CMD_CLOCK_RESET, 0);
    struct command c = {0};
    t->then = judge_turn;
    t->ctx = turn;
    disk_fail_commit(s->disk, fails, sim_chance(s, 50) ? ERR_STORE : ERR_DISK_FULL,
                     sim_chance(s, 50));
    s->may_fail = s->turning = true;
    ticket_submit(t, &c);
    sim_pump(s);
    sim_settle(s);
    s->may_fail = s->turning = false;
    disk_fail_commit(s->disk, 0, ERR_OK, false);
    turn->done |= has_turned(turn);
}

static struct listing turn_back(struct sim *s, struct turn *turn)
{
    struct listing before = {0};
    for (unsigned fails = (unsigned)sim_draw(s, 4); !turn->done; fails = 0) {
        free(before.snaps);
        store_time(s);
        *turn = (struct turn){s, s->now, s->now, {s->now.ms - s->behind.ms}, false};
        before = list_all(s);
        trace_line("the clock is set back to %ld", (long)turn->to.ms);
        try_to_turn(s, turn, fails);
    }
    return before;
}

static void check_crons(struct ticket *t, const struct reply *r)
{
    const struct turn *turn = t->ctx;
    for (size_t i = 0; r->err.code == ERR_OK && i < r->cron->count; i++) {
        const struct cron_entry *e = &r->cron->entries[i];
        int64_t period = ledger_cron_period((unsigned)(e->name.at[1] - '0'));
        PROMISE(e->clock.next_at.ms == (turn->to.ms / period + 1) * period &&
                    e->clock.last_at.ms <= turn->to.ms,
                "CLOCK", "entry %zu ticks next at %ld", i, (long)e->clock.next_at.ms);
    }
}

/* --- afterwards --- */

void clock_work(struct sim *s, const struct handout *h)
{
    trace_line("a job of %.*s in run %u at %ld: %.*s", STR_ARG(h->job.queue), h->run,
               (long)h->job.state.dequeued_at.ms, STR_ARG(h->job.payload));
    struct ticket *t = ticket_new(s, CMD_SUCCEED, 0);
    t->then = be_done;
    struct command c = {.run = {.id = h->job.id, .token = h->token}};
    ticket_submit(t, &c);
}

/* A dead job is kept as long as others wait for it; deleted for good, it takes them along. */
static bool may_be_dead(const struct reply *r, const struct job *job)
{
    bool awaited = false;
    for (size_t i = 0; i < r->count; i++)
        awaited |= r->jobs[i].state.status == STATUS_BLOCKED;
    return awaited || job->state.resolution == RESOLUTION_DEPENDENCY ||
           job->state.resolution == RESOLUTION_WAIT;
}

static void remove_left(struct ticket *t, const struct reply *r)
{
    bool *any = t->ctx;
    for (size_t i = 0; i < r->count; i++) {
        const struct job *job = &r->jobs[i];
        bool waits = job->state.status == STATUS_BLOCKED || gang_is_member(job);
        waits |= job->state.status == STATUS_DEAD && may_be_dead(r, job);
        PROMISE(waits, "I5", "a job is still %s", lifecycle_status_name(job->state.status));
        struct ticket *removal = ticket_new(t->sim, CMD_REMOVE, 0);
        removal->then = be_done;
        struct command c = {.id = job->id};
        ticket_submit(removal, &c);
        *any = true;
    }
}

/* Every job must end and be deleted, unless it waits for something that will never happen. */
static void finish(struct sim *s)
{
    bool any = true;
    cron_remove_all(s);
    if (s->profile.limits)
        limit_unpause(s);
    if (s->profile.budgets)
        budget_widen(s);
    sim_pump(s);
    for (unsigned i = 0; i < 3; i++)
        client_open_stream(s, i, 0, GANG_MAX + (uint32_t)sim_draw(s, 4));
    while (any) {
        any = false;
        sim_run_until(s, instant_add(s->now, (span){(int64_t)60 * 86400 * 1000}));
        struct ticket *t = ticket_new(s, CMD_LIST, 0);
        t->then = remove_left;
        t->ctx = &any;
        struct command c = {.list = {.limit = BACKEND_PAGE_MAX}};
        ticket_submit(t, &c);
        sim_pump(s);
    }
    limit_remove_all(s);
    budget_remove_all(s);
    kv_remove_all(s);
    char kinds[64];
    uint64_t left = disk_records(s->disk, kinds, sizeof kinds);
    PROMISE(left == 0, "I2", "%lu records are left of jobs that are gone: %s", left, kinds);
}

static void check_entries(struct sim *s, struct turn *turn)
{
    struct ticket *t = ticket_new(s, CMD_CRON_READ, 0);
    t->then = check_crons;
    t->ctx = turn;
    struct command c = {.cron = {.group = STR("g")}};
    ticket_submit(t, &c);
    sim_pump(s);
}

void clock_finish(struct sim *s)
{
    s->quiet = true;
    s->profile.eager = s->profile.faults = s->profile.space = false;
    sim_settle(s);
    s->may_fail = false;
    client_leave(s);
    sim_pump(s);
    sim_turn(s); /* so that it has read the clock */
    sim_set_clock(s, (span){60000 + (int64_t)sim_draw(s, 2 * 86400 * 1000)});
    sim_run_until(s, instant_add(s->now, (span){(int64_t)sim_draw(s, 600 * 1000)}));
    struct turn turn = {0};
    struct listing before = turn_back(s, &turn);
    s->turned = true;
    struct listing after = list_all(s);
    /* If time has passed, jobs may have changed since. */
    if (s->now.ms == turn.at.ms) {
        compare(&turn, &before, &after);
        check_entries(s, &turn);
    }
    engine_check(embedded_engine(s->backend));
    free(before.snaps);
    free(after.snaps);
    finish(s);
    client_leave(s);
    sim_pump(s);
    PROMISE(backend_is_idle(s->backend), "I5", "the loop has work left");
}
