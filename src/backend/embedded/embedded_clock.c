/* SPDX-License-Identifier: Apache-2.0 */

/* What time it is. Time never goes back, not even over a restart: the newest instant is part of
 * every batch, and so is the number of the newest event. Time goes by the wall clock as long as
 * that makes no step that is longer than a limit. If it is a little behind, time stands still until
 * it has caught up.
 *
 * A longer step, ahead or back, is not followed: a wrong clock would make everything due at once,
 * or nothing for long. Time goes on at its usual pace by the steady clock, until the wall clock is
 * near again or somebody says that it is right (CMD_CLOCK_RESET): time that is behind it then
 * follows, and time that is ahead of it is set back. That works like a restart, and corrects the
 * times of all jobs (core/correction.h).
 *
 * Steps over a restart are known for what they are if the machine went on running, for the steady
 * clock went on with it; or by a clock of somebody else's (env.reference). */

#include <stdlib.h>

#include "backend/embedded/embedded_undo.h"
#include "base/duration.h"
#include "base/log.h"
#include "base/must.h"
#include "base/rfc3339.h"
#include "core/correction.h"
#include "store/record.h"

#define CHUNK_BYTES ((size_t)1 << 20) /* of corrected jobs in one batch */
/* Jobs in one turn while the clock is set back, which takes some milliseconds. */
#define SLICE 10000

/* --- what time it is --- */

static void add_time(struct buf *b, instant t)
{
    buf_print(b, "%lld", (long long)t.ms);
}

static void add_both(struct buf *words, const struct embedded *b)
{
    buf_lit(words, "the clock says ");
    rfc3339_write(words, b->clock.wall);
    buf_lit(words, ", and jobs go by ");
    rfc3339_write(words, b->now);
}

static void log_jump(struct embedded *b, span leap)
{
    struct buf words = {0};
    b->clock.jumped_at = b->clock.wall;
    b->clock.jump = leap;
    duration_write(&words, leap);
    buf_lit(&words, ", more than --clock-jump-limit, and is not followed: ");
    add_both(&words, b);
    log_error("the clock jumped ahead by %.*s. If it is right, run `tenax crons --reset-clock`; if "
              "it is set right, nothing is to be done",
              STR_ARG(buf_view(&words)));
    buf_fini(&words);
}

static void log_behind(const struct embedded *b)
{
    struct buf words = {0};
    duration_write(&words, b->clock.ahead);
    buf_lit(&words, " before ");
    add_time(&words, b->now);
    log_warn("the clock is %.*s, the newest time that is stored: time goes on from there, so what "
             "is given as a time of day (ready_at, cron entries) comes that much early; if the "
             "clock is right now, run `tenax crons --reset-clock`",
             STR_ARG(buf_view(&words)));
    buf_fini(&words);
}

/* Whole milliseconds since the last look, by a clock that nobody sets; the rest is left for the
 * next one. */
static int64_t passed_since(struct embedded *b)
{
    struct clock *c = &b->clock;
    int64_t ticks = b->env.ticks ? b->env.ticks(b->env.ctx) : 0;
    int64_t ms = c->looked ? (ticks - c->ticks) / 1000 : 0;
    c->ticks = c->looked ? c->ticks + ms * 1000 : ticks;
    return ms;
}

/* Notes whether the wall clock is followed. */
static void set_off(struct embedded *b, bool off, span leap)
{
    struct clock *c = &b->clock;
    if (off && !c->off)
        leap.ms > 0 ? log_jump(b, leap) : log_behind(b);
    else if (!off && c->off)
        log_warn("%s", "the clock is near the time that jobs go by again: they follow it");
    c->off = off;
}

/* Both clocks are read one after the other, and in whole milliseconds: what they differ by
 * trembles. The end of a lease is shown, and must not. */
#define LEAD_NOISE_MS 20

void embedded_clock_lead(struct embedded *b, struct engine *e)
{
    struct clock *c = &b->clock;
    span lead = instant_diff(b->now, c->steady);
    if (!b->env.ticks)
        return;
    if (llabs(lead.ms - c->lead.ms) > LEAD_NOISE_MS)
        c->lead = lead;
    if (e)
        engine_set_lead(e, c->lead);
}

/* Whether a wall clock that went by so much more than time has passed is not followed. */
static bool is_off(const struct embedded *b, int64_t leap)
{
    int64_t limit = b->settings.clock_jump_limit.ms;
    bool known = b->clock.looked && b->env.ticks && !b->clock.unsure;
    return leap < -limit || (leap > limit && known);
}

void embedded_refresh_now(struct embedded *b)
{
    struct clock *c = &b->clock;
    int64_t passed = passed_since(b);
    c->wall = b->env.now(b->env.ctx);
    if (!c->looked)
        c->steady = c->wall;
    c->steady.ms += passed;
    int64_t leap = c->wall.ms - b->now.ms - passed;
    bool off = is_off(b, leap);
    b->now = off ? instant_add(b->now, (span){passed}) : instant_max(b->now, c->wall);
    c->unsure = c->unsure && off;
    c->ahead.ms = b->now.ms - c->wall.ms;
    set_off(b, off, (span){leap});
    c->looked = true;
    embedded_clock_lead(b, b->engine);
}

instant embedded_time(const struct backend *base)
{
    const struct embedded *b = (const struct embedded *)base;
    int64_t ticks = b->env.ticks ? b->env.ticks(b->env.ctx) : 0;
    int64_t passed = b->clock.looked ? (ticks - b->clock.ticks) / 1000 : 0;
    instant wall = b->env.now(b->env.ctx);
    bool off = is_off(b, wall.ms - b->now.ms - passed);
    return off ? instant_add(b->now, (span){passed}) : instant_max(b->now, wall);
}

/* --- leases that nobody could renew --- */

/* A turn that comes so long after something was due shows that the process was stopped, or busy. */
#define LATE_MS 1000

void embedded_leases_grace(struct embedded *b)
{
    struct clock *c = &b->clock;
    instant due;
    if (b->env.ticks && !b->more_due && engine_leases_due(b->engine, &due) &&
        b->now.ms - due.ms > LATE_MS && c->steady.ms - c->turned.ms > LATE_MS)
        c->grace = true;
    c->turned = c->steady;
    if (!c->grace || b->health != HEALTH_GOOD || b->clock.reset_done)
        return;
    c->grace = false;
    engine_leases_grace(b->engine, b->now, b->settings.lease_grace);
}

/* --- what is kept of it --- */

static struct record_clock record_of(const struct embedded *b)
{
    const struct clock *c = &b->clock;
    return (struct record_clock){.newest = b->now,
                                 .events = c->events,
                                 .turned_at = c->turned_at,
                                 .turned_events = c->turned_events,
                                 .from = c->from,
                                 .next = c->next,
                                 .boot = b->env.ticks ? b->env.boot : 0,
                                 .ticks = c->ticks};
}

void embedded_clock_seal(struct embedded *b, struct turn *t)
{
    if (t->batch.count == 0 && !embedded_beats(b))
        return;
    b->beats = false;
    uint64_t events = engine_next_event(b->engine) - 1;
    if (events > b->clock.events) /* a new engine does not know yet */
        b->clock.events = events;
    struct record_clock record = record_of(b);
    record_put_clock(&t->batch, &record);
}

struct event_mark embedded_clock_mark(const struct embedded *b, struct event_mark stored)
{
    const struct clock *c = &b->clock;
    /* No event since the clock was set back: the mark is of the clock before. What is due by the
     * time that it was set to is what was announced before. */
    if (instant_is_set(c->turned_at) && c->turned_events == b->events.durable)
        return (struct event_mark){c->turned_at, {UINT64_MAX, UINT64_MAX}};
    return stored;
}

/* --- correcting jobs --- */

static struct err commit(struct embedded *b, struct batch *batch)
{
    struct err result;
    struct record_clock record = record_of(b);
    record_put_clock(batch, &record);
    store_commit(b->env.store, batch, b->settings.sync);
    store_wait(b->env.store);
    must(store_reap(b->env.store, &result));
    batch_reset(batch);
    return result;
}

/* Corrects jobs from the next one on until the batch is full, `most` were looked at, or there are
 * none left. */
static struct err correct_some(struct embedded *b, size_t most, struct batch *batch, bool *more)
{
    const struct correction c = {b->clock.from, b->clock.turned_at};
    struct embedded_walk w;
    struct job job;
    struct job_extent extent;
    struct err err = err_none();
    *more = false;
    embedded_walk_begin(b, &w, b->clock.next);
    while (!*more && embedded_walk_next(&w, &job, &extent, &err)) {
        if (correction_apply(&c, &job.state)) {
            record_put_state(batch, job.id, &job.state);
            b->clock.corrected++;
        }
        *more = batch->bytes >= CHUNK_BYTES || --most == 0;
        b->clock.next = id_after(job.id);
    }
    struct err read = embedded_walk_end(&w);
    return err.code == ERR_OK ? read : err;
}

/* How far it has come is part of each batch: after a crash it goes on from there. */
static struct err correct_jobs(struct embedded *b)
{
    struct batch batch = {0};
    struct err err = err_none();
    for (bool more = true; more && err.code == ERR_OK;) {
        err = correct_some(b, SIZE_MAX, &batch, &more);
        if (err.code == ERR_OK)
            err = commit(b, &batch);
    }
    batch_fini(&batch);
    return err;
}

/* --- recovery --- */

/* From what is known of the time at a start, it goes on as if the process had run on. */
static void start_from(struct embedded *b, instant known, int64_t ticks)
{
    struct clock *c = &b->clock;
    c->unsure = false;
    c->steady = b->now = known;
    c->ticks = ticks;
    /* What was noted by the wall clock. */
    b->free_space = -1;
    b->retry_reopen = instant_min(b->retry_reopen, known);
    c->off = false;
    c->looked = true;
}

/* Only at the first recovery of the process: for later ones time went on. */
static void judge_wall_clock(struct embedded *b, const struct record_clock *stored)
{
    struct clock *c = &b->clock;
    if (c->started || !b->env.ticks)
        return;
    c->started = c->unsure = true;
    bool same = stored && stored->boot && stored->boot == b->env.boot && stored->ticks <= c->ticks;
    if (same)
        start_from(b, stored->newest, stored->ticks);
    else if (b->env.reference.ms > 0)
        start_from(b, stored ? instant_max(stored->newest, b->env.reference) : b->env.reference,
                   c->ticks);
}

struct err embedded_clock_recover(struct embedded *b)
{
    struct record_key key = record_clock_key();
    struct record_clock record;
    struct clock *c = &b->clock;
    bool found;
    c->events = 0;
    TRY(store_get(b->env.store, record_key_view(&key), &found, &b->scratch));
    c->stored = found;
    if (!found) {
        judge_wall_clock(b, NULL);
        embedded_refresh_now(b);
        return err_none();
    }
    TRY(record_read_clock(buf_view(&b->scratch), &record));
    c->events = record.events;
    c->turned_at = record.turned_at;
    c->turned_events = record.turned_events;
    c->from = record.from;
    c->next = record.next;
    judge_wall_clock(b, &record);
    b->now = instant_max(b->now, record.newest);
    embedded_refresh_now(b);
    return instant_is_set(c->from) && b->health == HEALTH_GOOD ? correct_jobs(b) : err_none();
}

void embedded_clock_recovered(struct embedded *b)
{
    if (!instant_is_set(b->clock.from))
        return;
    engine_cron_clock_back(b->engine, b->now);
    engine_leases_clock_back(b->engine);
    b->clock.from = INSTANT_NONE;
    struct record_clock record = record_of(b);
    record_put_clock(&b->building->batch, &record);
}

/* --- setting it back --- */

void embedded_clock_reset(struct embedded *b, const struct command *c, struct reply *r)
{
    must(r == NULL && !b->clock.reset_done);
    /* The times of what was kept could not be corrected. */
    embedded_undo_expire_all(b);
    b->clock.phase = RESET_WAITS;
    b->clock.reset_done = c->done;
    b->clock.reset_ctx = c->ctx;
    b->clock.reset_trail = c->trail.len ? embedded_trail_begin(b, c->trail, true) : 0;
}

static void answer(struct embedded *b, instant from, struct err err)
{
    struct reply *r = embedded_effect(b, b->clock.reset_done, b->clock.reset_ctx);
    r->err = err;
    r->clock = (struct clock_reply){from, b->now, b->clock.corrected};
    b->clock.reset_done = NULL;
    if (b->clock.reset_trail && err.code == ERR_OK)
        embedded_trail_end(b, b->clock.reset_trail, b->clock.corrected);
}

/* From here on it is to be done, whatever happens. */
static struct err decide(struct embedded *b, instant from)
{
    struct clock *c = &b->clock;
    const struct clock was = *c;
    instant before = b->now;
    b->now = c->turned_at = instant_min(c->wall, from);
    c->turned_events = b->events.durable;
    c->from = c->turned_from = from;
    c->next = (struct id){0};
    c->corrected = 0;
    struct batch batch = {0};
    struct err err = commit(b, &batch);
    batch_fini(&batch);
    if (err.code == ERR_OK) {
        c->ahead = c->jump = (span){0};
        c->off = false;
        return err;
    }
    *c = was;
    b->now = before;
    return err;
}

/* Time was behind the wall clock, which somebody says is right. Nothing is to be corrected. */
static void follow(struct embedded *b, instant from)
{
    struct clock *c = &b->clock;
    b->now = c->wall;
    c->ahead = c->jump = (span){0};
    c->off = false;
    c->corrected = 0;
    embedded_clock_lead(b, b->engine);
    answer(b, from, err_none());
}

static struct err begin(struct embedded *b)
{
    instant from = b->now;
    if (b->clock.wall.ms > from.ms) {
        follow(b, from);
        return err_none();
    }
    struct err refused = embedded_refuse_to_store(b, CMD_CLOCK_RESET);
    struct err err = refused.code == ERR_OK ? decide(b, from) : err_none();
    if (refused.code != ERR_OK || err.code == ERR_DISK_FULL)
        answer(b, from, refused.code != ERR_OK ? refused : err);
    if (refused.code != ERR_OK)
        return err_none();
    TRY(err);
    struct err why = err_make(ERR_BUSY, "the clock was set back; try again");
    embedded_start_over(b, &why);
    b->clock.phase = RESET_CORRECTS;
    return err_none();
}

static size_t slice(const struct embedded *b)
{
    return b->settings.depend_slice ? b->settings.depend_slice : SLICE;
}

static struct err correct(struct embedded *b)
{
    bool more;
    TRY(correct_some(b, slice(b), &b->building->batch, &more));
    if (!more)
        b->clock.phase = RESET_REBUILDS;
    return err_none();
}

static void log_turned(const struct embedded *b, instant from)
{
    struct buf words = {0};
    duration_write(&words, instant_diff(from, b->now));
    log_warn("the clock was set back by %.*s: %llu jobs were corrected, and cron entries tick by "
             "the time that it is now",
             STR_ARG(buf_view(&words)), (unsigned long long)b->clock.corrected);
    buf_fini(&words);
}

static struct err rebuild(struct embedded *b)
{
    bool more;
    instant from = b->clock.turned_from;
    if (!b->rebuild) /* what was corrected last is durable by now */
        TRY(embedded_rebuild_begin(b));
    TRY(embedded_rebuild_step(b, slice(b), &more));
    if (more)
        return err_none();
    embedded_clock_recovered(b);
    b->clock.grace = true;
    answer(b, from, err_none());
    log_turned(b, from);
    return err_none();
}

struct err embedded_clock_turn_back(struct embedded *b)
{
    must(b->clock.reset_done && !b->committing && b->building->batch.count == 0);
    switch (b->clock.phase) {
    case RESET_WAITS:
        return begin(b);
    case RESET_CORRECTS:
        if (b->old && engine_free_some(b->old, slice(b)))
            return err_none();
        embedded_old_free(b);
        return correct(b);
    case RESET_REBUILDS:
        return rebuild(b);
    }
    must(false);
    return err_none();
}

/* If it could not be finished, it is when the store can be written again. */
void embedded_clock_recovered_amid(struct embedded *b, const struct err *why)
{
    const struct clock *c = &b->clock;
    if (c->reset_done && c->phase != RESET_WAITS)
        answer(b, c->turned_from, instant_is_set(c->from) ? *why : err_none());
}
