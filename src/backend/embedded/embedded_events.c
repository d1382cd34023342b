/* SPDX-License-Identifier: Apache-2.0 */

/* The log of events: stored in one batch with the changes themselves, and kept for a while. */

#include "backend/embedded/embedded_internal.h"
#include "base/log.h"
#include "base/must.h"
#include "core/trace.h"

/* Records looked at in one turn. */
#define PURGE_PER_TURN 256
/* Records are deleted only when the limit is exceeded by this part of it, or by a minute: to delete
 * many at a time costs little more than one. */
#define SLACK          64
#define SLACK_TIME_MAX 60000
#define HISTORY        STR("event-history")
/* Numbers that are passed over when nobody knows which were given: more than a thousand events a
 * second for a month. */
#define LEAP ((uint64_t)1 << 32)

/* --- writing --- */

static void put_event(void *ctx, const struct job_event *ev)
{
    struct embedded *b = ctx;
    struct eventlog_writer *w = &b->events.writer;
    struct turn *t = b->building;
    eventlog_add(w, ev);
    t->last_event = ev->number;
    t->events[ev->event]++;
    if (b->env.tracer && trace_is_sampled(ev->traceparent))
        b->env.tracer->write(b->env.tracer->ctx, ev, &t->traced);
    if (eventlog_is_full(w))
        embedded_events_seal(b, t);
}

void embedded_events_port(struct port *port)
{
    port->put_event = put_event;
}

/* With the first events of it: nobody can have missed one before. */
static void put_history(struct embedded *b, struct turn *t)
{
    struct events *log = &b->events;
    struct record_key key = record_meta_key(HISTORY);
    struct buf value = {0};
    if (log->history_kept)
        return;
    event_history_write(&value, &log->history);
    batch_put(&t->batch, record_key_view(&key), buf_view(&value));
    buf_fini(&value);
    log->history_kept = true;
}

void embedded_events_seal(struct embedded *b, struct turn *t)
{
    struct events *log = &b->events;
    if (log->writer.count == 0)
        return;
    if (log->oldest == 0) {
        log->oldest = log->writer.first;
        log->oldest_at = log->writer.began;
        log->oldest_before = log->writer.before;
    }
    log->newest = log->writer.first;
    struct event_mark mark = engine_event_mark(b->engine);
    eventlog_flush(&log->writer, &mark, &t->batch);
    put_history(b, t);
}

void embedded_events_durable(struct embedded *b, const struct turn *t)
{
    if (t->last_event == 0)
        return;
    b->events.durable = t->last_event;
    for (int e = 0; e < EVENT_COUNT; e++)
        b->events.counts[e] += t->events[e];
    if (t->traced.len)
        b->env.tracer->durable(b->env.tracer->ctx, buf_view(&t->traced));
}

/* --- recovery --- */

static struct err restore_newest(struct embedded *b, struct store_cursor *c)
{
    struct events *log = &b->events;
    struct record_key end = eventlog_key(UINT64_MAX);
    struct str key, value;
    uint64_t first;
    store_cursor_seek(c, b->env.store, record_key_view(&end), true);
    if (!store_cursor_at(c, b->env.store, &key, &value) || !eventlog_key_is(key, &first))
        return err_none();
    struct eventlog_head head;
    struct eventlog_reader r;
    TRY(eventlog_open(value, first, &head, &r));
    log->newest = first;
    log->durable = first + head.count - 1;
    log->writer.before = head.before + key.len + value.len;
    engine_restore_events(b->engine, log->durable + 1, embedded_clock_mark(b, head.mark));
    return err_none();
}

/* When a stored record was written. What has a time to come is from a clock that was set back, and
 * was written before that. */
static instant written_at(const struct embedded *b, const struct eventlog_head *head)
{
    if (head->at.ms <= b->now.ms)
        return head->at;
    return instant_is_set(b->clock.turned_at) ? b->clock.turned_at : b->now;
}

/* The oldest record that is left, from that number on. */
static struct err find_oldest(struct embedded *b, struct store_cursor *c, uint64_t from)
{
    struct events *log = &b->events;
    struct record_key start = eventlog_key(from);
    struct str key, value;
    store_cursor_seek(c, b->env.store, record_key_view(&start), false);
    if (!store_cursor_at(c, b->env.store, &key, &value) || !eventlog_key_is(key, &log->oldest))
        return err_none();
    struct eventlog_head head;
    struct eventlog_reader r;
    TRY(eventlog_open(value, log->oldest, &head, &r));
    log->oldest_before = head.before;
    log->oldest_at = written_at(b, &head);
    return err_none();
}

/* A number is never given twice. The clock knows how many were given; if that was lost, too, so
 * many are passed over that there cannot have been more. */
static void pass_over_lost(struct embedded *b)
{
    struct events *log = &b->events;
    struct store_damage damage;
    store_damage(b->env.store, &damage);
    uint64_t given = b->clock.events;
    if (!b->clock.stored && damage.tables > 0)
        given = log->durable + LEAP;
    if (given <= log->durable)
        return;
    log_error("the records of the events from number %llu on were lost by damage to the disk; the "
              "next event gets number %llu",
              (unsigned long long)log->durable + 1, (unsigned long long)given + 1);
    log->durable = log->lost = given;
    engine_restore_events(b->engine, given + 1, engine_event_mark(b->engine));
}

/* It is drawn apart from all else, so that what is drawn else is the same with it. */
static uint64_t draw_id(const struct embedded *b)
{
    struct rng rng = rng_from_seed(b->lanes.seed ^ UINT64_C(0x6576656e7473));
    uint64_t id = rng_next(&rng);
    return id && id != EVENT_CURSOR_NOBODYS ? id : 1;
}

/* One that was not stored stays when memory is dropped and recovered: readers have its id. */
static struct err recover_history(struct embedded *b)
{
    struct events *log = &b->events;
    struct record_key key = record_meta_key(HISTORY);
    TRY(store_get(b->env.store, record_key_view(&key), &log->history_kept, &b->scratch));
    uint64_t id = log->history.id;
    if (log->history_kept)
        TRY(event_history_read(buf_view(&b->scratch), &log->history));
    else if (!id)
        log->history.id = b->env.event_history ? b->env.event_history : draw_id(b);
    if (b->env.event_history && log->history_kept) {
        uint64_t before = log->history.id;
        event_history_turn(&log->history, b->env.event_history, log->durable);
        log->history_kept = before == log->history.id;
    }
    return err_none();
}

struct err embedded_events_recover(struct embedded *b)
{
    struct events *log = &b->events;
    eventlog_reset(&log->writer);
    log->writer.before = log->oldest_before = 0;
    log->oldest = log->newest = log->durable = log->lost = 0;
    struct store_cursor *c = store_cursor_new(b->env.store);
    struct err err = restore_newest(b, c);
    if (err.code == ERR_OK)
        err = find_oldest(b, c, 0);
    struct err read = store_cursor_free(c, b->env.store);
    if (err.code == ERR_OK)
        err = read;
    if (err.code == ERR_OK)
        pass_over_lost(b);
    return err.code == ERR_OK ? recover_history(b) : err;
}

/* --- purging --- */

static uint64_t size_of(const struct events *log)
{
    return log->writer.before - log->oldest_before;
}

static instant end_of_retention(const struct embedded *b)
{
    return instant_add(b->events.oldest_at, b->settings.event_retention);
}

bool embedded_events_due(const struct embedded *b, instant *at)
{
    const struct events *log = &b->events;
    int64_t slack = b->settings.event_retention.ms / SLACK;
    if (log->oldest == log->newest || b->health != HEALTH_GOOD || b->committing)
        return false;
    *at = instant_add(end_of_retention(b), (span){slack < SLACK_TIME_MAX ? slack : SLACK_TIME_MAX});
    return true;
}

/* The next record after the oldest takes its place, if there is one that is durable. */
static struct err drop_oldest(struct embedded *b, struct store_cursor *c, bool *dropped)
{
    struct events *log = &b->events;
    struct str key, value;
    uint64_t first;
    *dropped = false;
    store_cursor_step(c, b->env.store, false);
    if (!store_cursor_at(c, b->env.store, &key, &value) || !eventlog_key_is(key, &first))
        return err_none();
    struct eventlog_head head;
    struct eventlog_reader r;
    TRY(eventlog_open(value, first, &head, &r));
    struct record_key old = eventlog_key(log->oldest);
    batch_delete(&b->building->batch, record_key_view(&old));
    log->oldest = first;
    log->oldest_at = written_at(b, &head);
    log->oldest_before = head.before;
    *dropped = true;
    return err_none();
}

static struct err purge(struct embedded *b, struct store_cursor *c, bool *more)
{
    struct events *log = &b->events;
    struct record_key start = eventlog_key(log->oldest);
    struct str key, value;
    uint64_t first;
    store_cursor_seek(c, b->env.store, record_key_view(&start), false);
    /* It may be on its way to the disk yet. */
    if (!store_cursor_at(c, b->env.store, &key, &value) || !eventlog_key_is(key, &first) ||
        first != log->oldest)
        return err_none();
    for (int i = 0; i < PURGE_PER_TURN; i++) {
        if (end_of_retention(b).ms > b->now.ms && size_of(log) <= b->settings.event_max_bytes)
            return err_none();
        bool dropped;
        TRY(drop_oldest(b, c, &dropped));
        if (!dropped)
            return err_none();
    }
    *more = true;
    return err_none();
}

struct err embedded_events_purge(struct embedded *b, bool *more)
{
    const struct events *log = &b->events;
    uint64_t most = b->settings.event_max_bytes;
    instant due;
    *more = false;
    if (!embedded_events_due(b, &due))
        return err_none();
    if (due.ms > b->now.ms && size_of(log) <= most + most / SLACK)
        return err_none();
    struct store_cursor *c = store_cursor_new(b->env.store);
    struct err err = purge(b, c, more);
    struct err read = store_cursor_free(c, b->env.store);
    return err.code == ERR_OK ? read : err;
}
