/* SPDX-License-Identifier: Apache-2.0 */

/* Recovery: reads everything once, at the start and after a failed commit. */

#include <stdlib.h>

#include "backend/embedded/embedded_undo.h"
#include "base/alloc.h"
#include "base/must.h"
#include "core/correction.h"
#include "core/engine_snapshot.h"
#include "store/record.h"

/* To record a run as lost takes about as long as to restore so many jobs. */
#define RUN_COST 8

static struct err check_format(struct embedded *b)
{
    bool found;
    struct record_key key = record_meta_key(RECORD_FORMAT_KEY);
    TRY(store_get(b->env.store, record_key_view(&key), &found, &b->scratch));
    if (!found) {
        if (b->health == HEALTH_GOOD)
            batch_put(&b->building->batch, record_key_view(&key), STR(RECORD_FORMAT));
        return err_none();
    }
    return record_check_format(buf_view(&b->scratch));
}

static void add_orphan(struct embedded_walk *w, struct id id)
{
    if (w->orphan_count == w->orphan_cap) {
        w->orphan_cap = w->orphan_cap ? w->orphan_cap * 2 : 64;
        w->orphans = alloc_resize(w->orphans, w->orphan_cap * sizeof *w->orphans);
    }
    w->orphans[w->orphan_count++] = id;
}

/* Moves the cursor over states to the first id >= *id, or, without one, to the end; true if it is
 * that id. States of no job have lost it. */
static bool find_state(struct embedded_walk *w, const struct id *id, struct str *value)
{
    struct str key;
    struct id at;
    while (store_cursor_at(w->states, w->store, &key, value) && record_key_is_state(key, &at)) {
        int order = id ? id_cmp(at, *id) : -1;
        if (order >= 0)
            return order == 0;
        if (!w->seen || !id_eq(at, w->state))
            add_orphan(w, at);
        store_cursor_step(w->states, w->store, false);
    }
    return false;
}

void embedded_walk_begin(struct embedded *b, struct embedded_walk *w, struct id from)
{
    struct store *s = b->env.store;
    *w = (struct embedded_walk){
        .b = b, .store = s, .jobs = store_cursor_new(s), .states = store_cursor_new(s)};
    struct record_key first = record_job_key(from);
    store_cursor_seek(w->jobs, s, record_key_view(&first), false);
    first = record_state_key(from);
    store_cursor_seek(w->states, s, record_key_view(&first), false);
}

/* What does not decode is damage to the job, unless a newer version wrote it. */
static struct err judge(struct embedded_walk *w, struct id id, enum apart_part part, struct err err)
{
    if (err.code == ERR_CORRUPT)
        embedded_set_apart(w->b, id, part);
    return err;
}

static struct err read_job(struct embedded_walk *w, struct id id, struct str value, struct job *job,
                           struct job_extent *extent)
{
    struct str state;
    *extent = (struct job_extent){0};
    extent->has_state = find_state(w, &id, &state);
    w->seen = extent->has_state;
    w->state = id;
    TRY(judge(w, id, APART_JOB, record_read_job(value, id, job, &extent->payload_apart)));
    if (extent->has_state)
        TRY(judge(w, id, APART_STATE, record_read_state(state, &job->state)));
    extent->runs_ended = job->state.runs;
    extent->notes = job->state.extras.notes;
    return err_none();
}

bool embedded_walk_next(struct embedded_walk *w, struct job *job, struct job_extent *extent,
                        struct err *err)
{
    struct str key, value;
    struct id id;
    for (;;) {
        if (w->begun)
            store_cursor_step(w->jobs, w->store, false);
        w->begun = true;
        if (!store_cursor_at(w->jobs, w->store, &key, &value) || !record_key_is_job(key, &id)) {
            find_state(w, NULL, &value);
            return false;
        }
        *err = read_job(w, id, value, job, extent);
        if (!embedded_is_apart(w->b, id))
            return err->code == ERR_OK;
        *err = err_none();
    }
}

struct err embedded_walk_end(struct embedded_walk *w)
{
    struct err jobs = store_cursor_free(w->jobs, w->store);
    struct err states = store_cursor_free(w->states, w->store);
    /* If the walk ended where nothing could be read any more, they are none. */
    bool whole = jobs.code == ERR_OK && states.code == ERR_OK;
    for (size_t i = 0; whole && i < w->orphan_count; i++)
        embedded_set_apart(w->b, w->orphans[i], APART_JOB);
    free(w->orphans);
    return jobs.code == ERR_OK ? states : jobs;
}

static struct err restore_jobs(struct embedded *b)
{
    struct embedded_walk w;
    struct job job;
    struct job_extent extent;
    struct err err = err_none();
    embedded_walk_begin(b, &w, (struct id){0});
    while (embedded_walk_next(&w, &job, &extent, &err))
        engine_restore_job(b->engine, &job, &extent, b->now);
    struct err read = embedded_walk_end(&w);
    return err.code == ERR_OK ? read : err;
}

struct restoring {
    struct engine *engine;
    uint64_t seq;
    instant at, now;
    const struct correction *correction; /* NULL: the clock was not set back */
};

static void restore_take(void *ctx, struct take take)
{
    struct restoring *r = ctx;
    engine_restore_take(r->engine, r->seq, instant_min(r->at, r->now), take);
}

static void restore_lease(void *ctx, const struct lease *lease)
{
    struct restoring *r = ctx;
    struct lease corrected = *lease;
    if (r->correction)
        correction_lease(r->correction, &corrected);
    engine_restore_lease(r->engine, r->seq, &corrected);
}

static struct err read_handed(struct embedded *b, struct store_cursor *c)
{
    struct store *s = b->env.store;
    struct record_key first = record_takes_key(0);
    store_cursor_seek(c, s, record_key_view(&first), false);
    struct str key, value;
    const struct correction back = {b->clock.from, b->clock.turned_at};
    struct restoring r = {.engine = b->engine, .now = b->now};
    if (instant_is_set(b->clock.from) && b->health == HEALTH_GOOD)
        r.correction = &back;
    for (; store_cursor_at(c, s, &key, &value) && record_key_is_takes(key, &r.seq);
         store_cursor_step(c, s, false))
        TRY(record_is_leases(value) ? record_read_leases(value, restore_lease, &r)
                                    : record_read_takes(value, &r.at, restore_take, &r));
    return err_none();
}

/* What was handed out: to streams, which is over, and with leases, whose runs go on. */
static struct err restore_handed(struct embedded *b)
{
    struct store_cursor *c = store_cursor_new(b->env.store);
    struct err err = read_handed(b, c);
    struct err read = store_cursor_free(c, b->env.store);
    return err.code == ERR_OK ? read : err;
}

static struct err restore_ended(struct embedded *b, struct store_cursor *c)
{
    struct store *s = b->env.store;
    struct record_key first = record_ended_key(0);
    store_cursor_seek(c, s, record_key_view(&first), false);
    struct str key, value;
    uint64_t seq;
    for (; store_cursor_at(c, s, &key, &value) && record_key_is_ended(key, &seq);
         store_cursor_step(c, s, false)) {
        struct id id;
        enum depend_end end;
        TRY(record_read_ended(value, &id, &end));
        engine_restore_ended(b->engine, seq, id, end);
    }
    return err_none();
}

static struct err restore_rest(struct embedded *b)
{
    struct store *s = b->env.store;
    struct store_cursor *c = store_cursor_new(s);
    struct err err = restore_ended(b, c);
    if (err.code == ERR_OK)
        err = embedded_cron_recover(b);
    struct err read = store_cursor_free(c, s);
    if (err.code == ERR_OK)
        err = read;
    if (err.code == ERR_OK)
        embedded_damage_recovered(b);
    return err;
}

/* What is there beside the jobs, before and after them. */
static struct err restore_first(struct embedded *b)
{
    TRY(embedded_events_recover(b));
    TRY(embedded_history_recover(b));
    TRY(embedded_failures_recover(b));
    TRY(embedded_workers_recover(b));
    TRY(embedded_kv_recover(b));
    TRY(embedded_trail_recover(b));
    TRY(embedded_undo_recover(b));
    TRY(embedded_budget_recover(b));
    TRY(embedded_queue_recover(b));
    TRY(restore_handed(b));
    return embedded_group_recover(b);
}

static struct err restore_all(struct embedded *b, bool snapshot)
{
    bool done = false;
    TRY(restore_first(b));
    if (snapshot)
        TRY(embedded_index_restore(b, &done));
    if (!done)
        TRY(restore_jobs(b));
    if (snapshot && !done)
        embedded_index_missed(b);
    return restore_rest(b);
}

/* For tests: what a snapshot restored is what all records say. The engine from the snapshot stays.
 */
static struct err check_index(struct embedded *b)
{
    if (!b->settings.index_check || !b->index.has)
        return err_none();
    struct engine *restored = b->engine;
    struct buf got = {0}, want = {0};
    engine_dump(restored, &got);
    embedded_forget_writes(b->building);
    eventlog_reset(&b->events.writer);
    b->engine = embedded_engine_new(b);
    struct err err = restore_all(b, false);
    if (err.code == ERR_OK)
        engine_dump(b->engine, &want);
    bool same = str_eq(buf_view(&got), buf_view(&want));
    engine_free(b->engine);
    b->engine = restored;
    buf_fini(&got);
    buf_fini(&want);
    must(err.code != ERR_OK || same);
    return err;
}

static struct err recover(struct embedded *b)
{
    bool more;
    must(b->engine == NULL && b->building->batch.count == 0);
    b->engine = embedded_engine_new(b);
    TRY(check_format(b));
    TRY(embedded_damage_recover(b));
    TRY(embedded_clock_recover(b));
    TRY(embedded_policy_recover(b));
    TRY(restore_all(b, true));
    TRY(check_index(b));
    /* A store that cannot be written keeps its cut-off runs until it can be. */
    if (b->health != HEALTH_GOOD)
        return err_none();
    TRY(engine_restored(b->engine, b->now, SIZE_MAX, &more));
    embedded_clock_recovered(b);
    b->clock.grace = true;
    return err_none();
}

/* --- the same in slices --- */

struct err embedded_rebuild_begin(struct embedded *b)
{
    TRY(restore_first(b));
    b->rebuild = ALLOC(struct rebuild);
    embedded_walk_begin(b, &b->rebuild->walk, (struct id){0});
    return err_none();
}

void embedded_rebuild_drop(struct embedded *b)
{
    if (!b->rebuild)
        return;
    if (!b->rebuild->walked) {
        struct err ignored = embedded_walk_end(&b->rebuild->walk);
        (void)ignored;
    }
    free(b->rebuild);
    b->rebuild = NULL;
}

static struct err rebuild_jobs(struct embedded *b, size_t most)
{
    struct rebuild *r = b->rebuild;
    struct job job;
    struct job_extent extent;
    struct err err = err_none();
    for (; most > 0; most--) {
        if (embedded_walk_next(&r->walk, &job, &extent, &err)) {
            engine_restore_job(b->engine, &job, &extent, b->now);
            continue;
        }
        r->walked = true;
        struct err read = embedded_walk_end(&r->walk);
        TRY(err);
        TRY(read);
        return restore_rest(b);
    }
    return err_none();
}

struct err embedded_rebuild_step(struct embedded *b, size_t most, bool *more)
{
    *more = true;
    if (!b->rebuild->walked)
        return rebuild_jobs(b, most);
    TRY(engine_restored(b->engine, b->now, most / RUN_COST + 1, more));
    if (!*more)
        embedded_rebuild_drop(b);
    return err_none();
}

/* Half a recovery. */
static void forget_recovery(struct embedded *b)
{
    embedded_forget_writes(b->building);
    eventlog_reset(&b->events.writer);
    engine_free(b->engine);
    b->engine = NULL;
}

/* An empty engine, for who goes on without. */
static struct err give_up(struct embedded *b, struct err why)
{
    forget_recovery(b);
    b->engine = embedded_engine_new(b);
    b->blind = true;
    b->health = HEALTH_FAILED;
    b->failure = why;
    return why;
}

/* Damaged tables are set apart one after the other, as they are met, and so are jobs. */
struct err embedded_recover(struct embedded *b)
{
    b->blind = false;
    for (;;) {
        size_t fresh = b->damage.fresh;
        struct err err = recover(b);
        if (err.code == ERR_OK)
            return err;
        if (err.code != ERR_CORRUPT)
            return give_up(b, err);
        struct store_damage damage;
        store_damage(b->env.store, &damage);
        if (!damage.found && b->damage.fresh == fresh)
            return give_up(b, err);
        if (damage.found)
            err = store_reopen(b->env.store);
        if (damage.found && err.code != ERR_OK)
            return give_up(b, err);
        forget_recovery(b);
    }
}
