/* SPDX-License-Identifier: Apache-2.0 */

/* Turns: from commands to a batch, from a durable batch to replies. */

#include "backend/embedded/embedded.h"

#include <stdlib.h>

#include "backend/embedded/embedded_undo.h"
#include "base/alloc.h"
#include "base/log.h"
#include "base/must.h"

#define DUE_PER_TURN       1000
#define TRIM_PER_TURN      4000 /* of jobs that need not be read; of others a quarter */
#define SETTLE_PER_TURN    1000
#define SPACE_CHECK_MS     100
#define REOPEN_INTERVAL_MS 1000
#define TRACED_KEPT        ((size_t)256 << 10) /* of memory for what is traced */
#define AHEAD_MAX_MS       1000                /* an open cursor keeps old files alive */

static struct embedded *self(struct backend *b)
{
    return (struct embedded *)b;
}

/* --- effects --- */

static struct turn *free_turn(struct embedded *b)
{
    struct turn *t = b->turns;
    while (t->busy)
        t++;
    must(t < b->turns + TURNS);
    t->busy = true;
    return t;
}

struct effect *embedded_effect_add(struct embedded *b)
{
    struct turn *t = b->building;
    ALLOC_GROW(t->effects, t->count, t->cap, 256);
    struct effect *fx = &t->effects[t->count++];
    *fx = (struct effect){0};
    return fx;
}

struct reply *embedded_effect(struct embedded *b, reply_fn done, void *ctx)
{
    struct effect *fx = embedded_effect_add(b);
    fx->done = done;
    fx->ctx = ctx;
    fx->reply = arena_get(&b->building->arena, sizeof *fx->reply);
    *fx->reply = (struct reply){.err.code = ERR_OK};
    return fx->reply;
}

/* Who asked for what is damaged need not ask again. */
static struct err error_for(const struct reply *r, const struct err *failed)
{
    if (r->err.code != ERR_CORRUPT)
        return *failed;
    return err_make(ERR_DAMAGED, "what was asked for could not be read from the disk: it is lost, "
                                 "and is being set apart; the log says more");
}

static void release_effect(struct embedded *b, struct effect *fx, const struct err *failed)
{
    if (fx->done) {
        if (failed)
            *fx->reply = (struct reply){.err = error_for(fx->reply, failed)};
        fx->done(fx->ctx, fx->reply);
        return;
    }
    embedded_stream_release(b, fx->stream, fx->handout, failed != NULL);
}

void embedded_forget_writes(struct turn *t)
{
    batch_reset(&t->batch);
    t->kv.count = 0;
    t->rewrote = t->adds = t->syncs = false;
    t->last_event = 0;
    memset(t->events, 0, sizeof t->events);
    t->traced.len = 0;
    if (t->traced.cap > TRACED_KEPT)
        buf_fini(&t->traced);
}

/* Receivers may submit commands; those go into another turn. */
static void release_effects(struct embedded *b, struct turn *t, const struct err *failed)
{
    must(t != b->building);
    for (size_t i = 0; i < t->count; i++)
        release_effect(b, &t->effects[i], failed);
    t->count = t->statuses = 0;
    t->handed_out = 0;
}

/* Lets go of what a turn promised, and of the turn. */
static void release(struct embedded *b, struct turn *t, const struct err *failed)
{
    must(t != b->committing);
    release_effects(b, t, failed);
    t->released = false;
    embedded_forget_writes(t);
    arena_reset(&t->arena);
    t->busy = false;
}

/* --- space --- */

void embedded_check_space(struct embedded *b)
{
    if (b->free_space >= 0 && b->now.ms - b->free_space_at.ms < SPACE_CHECK_MS)
        return;
    b->free_space = store_free_space(b->env.store);
    b->free_space_at = b->now;
}

struct err embedded_no_space(const struct embedded *b)
{
    return err_make(ERR_DISK_FULL,
                    "the disk has %lld MiB left and %llu MiB are kept in reserve; "
                    "nothing was stored",
                    (long long)(b->free_space >> 20),
                    (unsigned long long)(b->settings.min_free_space >> 20));
}

/* --- failure --- */

/* Without room damage cannot be set apart, and so not everything can be read: then nothing is
 * answered until there is. */
static struct err recover_or_go_blind(struct embedded *b)
{
    struct err err = embedded_recover(b);
    if (err.code != ERR_DISK_FULL)
        return err;
    b->retry_reopen = instant_add(b->now, (span){REOPEN_INTERVAL_MS});
    return err_none();
}

/* The commit of a turn failed: nothing that memory says since the last durable
 * batch can be trusted, so all of it goes. */
static struct err fail_over(struct embedded *b, struct turn *failed, struct err why)
{
    b->health = HEALTH_FAILED;
    b->failure = why;
    b->hurt = false;
    b->retry_reopen = instant_add(b->now, (span){REOPEN_INTERVAL_MS});
    b->free_space = -1;
    b->more_due = false; /* of the engine that goes; nothing fires until the store is open again */
    struct turn *built = b->building;
    b->building = free_turn(b);
    embedded_takers_forget(b, &why);
    embedded_index_drop(b);
    engine_free(b->engine);
    b->engine = NULL;
    embedded_ahead_close(b);
    embedded_rebuild_drop(b);
    embedded_old_free(b);
    /* On a disk that is still full the store stays closed for writing, but reads go on. */
    struct err reopened = store_reopen(b->env.store);
    if (reopened.code != ERR_OK && reopened.code != ERR_DISK_FULL)
        return reopened;
    if (reopened.code == ERR_OK && why.code == ERR_STORE)
        b->health = HEALTH_GOOD; /* damage; there is room */
    if (reopened.code == ERR_DISK_FULL)
        b->failure = reopened;
    TRY(recover_or_go_blind(b));

    if (failed)
        release(b, failed, &why);
    release(b, built, &why);
    embedded_scan_abort_all(b, &why);
    embedded_intake_abort_all(b, &why);
    embedded_successes_abort_all(b, &why);
    embedded_fold_abort_all(b, &why);
    embedded_streams_end(b);
    embedded_clock_recovered_amid(b, &why);
    return err_none();
}

/* Sets apart what was found damaged. A commit under way comes to its end before. */
static struct err heal(struct embedded *b)
{
    struct turn *t = b->committing;
    struct err result = err_none();
    struct err why = err_make(ERR_STORE, "damage to the disk is being set apart; try again");
    log_warn("%s", "damage was found while serving: everything is read again, to set it apart");
    if (t) {
        store_wait(b->env.store);
        must(store_reap(b->env.store, &result));
        b->committing = NULL;
        if (result.code != ERR_OK && result.code != ERR_DISK_FULL && result.code != ERR_CORRUPT)
            return result;
    }
    if (t && result.code == ERR_OK) {
        embedded_events_durable(b, t);
        embedded_meter_durable(b, t);
        release(b, t, NULL);
        t = NULL;
    }
    return fail_over(b, t, result.code == ERR_DISK_FULL ? result : why);
}

/* Damage that can be set apart ends nothing but the turn. */
static struct err mended(struct embedded *b, struct turn **durable, struct err err)
{
    if (err.code != ERR_CORRUPT || !embedded_can_heal(b))
        return err;
    if (b->health == HEALTH_FAILED) {
        b->hurt = false; /* there is no room to; when there is, all is read again */
        return err_none();
    }
    if (*durable)
        release(b, *durable, NULL);
    *durable = NULL;
    return heal(b);
}

void embedded_old_free(struct embedded *b)
{
    engine_free(b->old);
    b->old = NULL;
}

void embedded_start_over(struct embedded *b, const struct err *why)
{
    must(!b->committing && b->building->batch.count == 0 && b->events.writer.count == 0);
    embedded_takers_forget(b, why);
    embedded_streams_refuse(b, why);
    embedded_index_let_go(b);
    b->old = b->engine;
    b->engine = embedded_engine_new(b);
    embedded_ahead_close(b);
    embedded_scan_abort_all(b, why);
    embedded_intake_abort_all(b, why);
    embedded_successes_abort_all(b, why);
    embedded_fold_abort_all(b, why);
    embedded_streams_end(b);
}

/* What another try cannot change: another server has the jobs, or PostgreSQL has lost commits. */
static bool is_over(const struct err *e)
{
    return e->code == ERR_FENCED || e->code == ERR_POSTGRES_LOST;
}

static struct err try_reopen(struct embedded *b)
{
    if (b->now.ms < b->retry_reopen.ms)
        return err_none();
    b->retry_reopen = instant_add(b->now, (span){REOPEN_INTERVAL_MS});
    b->free_space = -1;
    embedded_ahead_close(b);
    /* Whether there is room enough to open is the store's to say. The reserve is no question
     * here: below it jobs may still be finished and removed. */
    struct err err = store_reopen(b->env.store);
    if (err.code == ERR_DISK_FULL)
        b->failure = err;
    if (err.code != ERR_OK)
        return is_over(&err) ? err : err_none();
    embedded_index_drop(b);
    engine_free(b->engine);
    b->engine = NULL;
    b->health = HEALTH_GOOD;
    err = embedded_recover(b);
    if (err.code != ERR_OK)
        embedded_scan_abort_all(b, &err);
    return err_none();
}

/* --- turns --- */

/* Sends the turn that was being built on its way. Returns it if it has nothing to store: its
 * replies only waited for what they may have seen. */
static struct turn *seal(struct embedded *b)
{
    if (b->committing)
        return NULL;
    struct turn *t = b->building;
    engine_flush(b->engine, b->now);
    embedded_failures_seal(b, t);
    embedded_events_seal(b, t);
    embedded_clock_seal(b, t);
    if (t->batch.count > 0) {
        b->committing = t;
        b->building = free_turn(b);
        embedded_meter_sealed(b, t);
        embedded_kv_sealed(b);
        embedded_index_sealed(b, t);
        store_commit(b->env.store, &t->batch,
                     b->settings.sync || t->syncs || (t->adds && b->settings.sync_enqueues));
        return NULL;
    }
    if (t->count == 0)
        return NULL;
    b->building = free_turn(b);
    return t;
}

static bool handouts_are_many(const struct embedded *b)
{
    uint64_t bytes = 0;
    for (int i = 0; i < TURNS; i++)
        bytes += b->turns[i].handed_out;
    return bytes >= b->handout_limit;
}

static struct err hand_out(struct embedded *b)
{
    bool many = handouts_are_many(b);
    b->held_back = many && engine_dispatch_waits(b->engine);
    return many ? err_none() : engine_dispatch(b->engine, b->now, &b->building->arena);
}

/* A cursor that is opened now would wait until the tables have what is durable, and hold the turn
 * up meanwhile. The end of the commit makes another turn. */
static bool awaits_tables(const struct embedded *b)
{
    return b->committing && b->committing->released;
}

static struct err advance(struct embedded *b)
{
    embedded_check_space(b);
    if (b->ahead.cursor && b->now.ms - b->ahead.opened.ms > AHEAD_MAX_MS)
        embedded_ahead_close(b);
    /* Ticks are new work: they get as little of the reserve as an enqueue does. */
    engine_cron_hold(b->engine, (uint64_t)b->free_space < b->settings.min_free_space);
    TRY(embedded_due_advance(b));
    embedded_index_step(b);
    bool more_events;
    TRY(embedded_events_purge(b, &more_events));
    b->more_due |= more_events;
    b->more_due |= embedded_history_trim(b);
    b->more_due |= embedded_failures_trim(b);
    b->more_due |= embedded_undo_expire(b);
    bool more_expired;
    TRY(embedded_kv_tidy(b, &more_expired));
    b->more_due |= more_expired;
    if (!awaits_tables(b))
        TRY(embedded_scan_step(b));
    TRY(embedded_intake_step(b));
    embedded_successes_step(b);
    bool more;
    TRY(engine_trim(b->engine, b->now, TRIM_PER_TURN, &more));
    b->more_due |= more;
    TRY(engine_settle(b->engine, b->now, SETTLE_PER_TURN, &more));
    b->more_due |= more;
    b->starved = (uint64_t)b->free_space < b->settings.min_free_space / 2;
    if (b->starved) {
        struct err why = embedded_no_space(b);
        embedded_claims_refuse(b, &why);
        return err_none();
    }
    return hand_out(b);
}

/* Whoever waits for a job that has ended is notified in the batch of its end. And what is due has
 * its event first: afterwards a job whose time has come is taken for one that was announced
 * (embedded_clock_mark). */
static struct err finish_due(struct embedded *b)
{
    bool more;
    TRY(engine_advance(b->engine, b->now, DUE_PER_TURN, &b->more_due));
    TRY(engine_settle(b->engine, b->now, SETTLE_PER_TURN, &more));
    b->more_due |= more;
    engine_flush(b->engine, b->now);
    return err_none();
}

/* What is under way is finished before, and nothing new is begun. */
static struct err turn_clock_back(struct embedded *b, struct turn **durable)
{
    if (*durable)
        release(b, *durable, NULL);
    *durable = NULL;
    if (b->health == HEALTH_GOOD && b->clock.phase == RESET_WAITS)
        TRY(finish_due(b));
    if (b->committing || b->more_due || b->building->batch.count || b->events.writer.count)
        return err_none();
    struct err err = embedded_clock_turn_back(b);
    if (err.code == ERR_CORRUPT && embedded_can_heal(b))
        return heal(b);
    return err.code == ERR_DISK_FULL ? fail_over(b, NULL, err) : err;
}

static bool builds_nothing(const struct embedded *b)
{
    return b->building->count == 0 && b->building->batch.count == 0 && b->events.writer.count == 0;
}

/* The effects of a batch that is durable need not wait for the rest of its commit. */
static bool release_early(struct embedded *b)
{
    struct turn *t = b->committing;
    if (t->released || !store_is_durable(b->env.store))
        return false;
    t->released = b->settling = true;
    release_effects(b, t, NULL);
    return true;
}

/* Where another batch waits, that comes first: the disk writes it while effects are released. */
static bool reap(struct embedded *b, struct err *result)
{
    if (!b->committing || (builds_nothing(b) && release_early(b)))
        return false;
    if (store_reap(b->env.store, result))
        return true;
    release_early(b);
    return false;
}

static struct err turn(struct backend *base)
{
    struct embedded *b = self(base);
    struct turn *durable = NULL;
    struct err result;
    TRY(b->broken);
    embedded_refresh_now(b);
    b->wake_needed = b->settling = b->held_back = false;
    if (reap(b, &result)) {
        durable = b->committing;
        b->committing = NULL;
        if (result.code == ERR_DISK_FULL)
            return fail_over(b, durable, result);
        if (result.code == ERR_CORRUPT && embedded_can_heal(b))
            return fail_over(
                b, durable,
                err_make(ERR_STORE, "damage to the disk is being set apart; try again"));
        if (result.code != ERR_OK)
            return result;
        if (durable->rewrote)
            embedded_ahead_close(b);
        embedded_events_durable(b, durable);
        embedded_meter_durable(b, durable);
    }
    embedded_status_tell(b);
    if (b->health == HEALTH_FAILED)
        TRY(try_reopen(b));
    if (b->hurt)
        return mended(b, &durable, err_make(ERR_CORRUPT, "damage to the disk"));
    embedded_leases_grace(b);
    struct err err = b->clock.reset_done        ? turn_clock_back(b, &durable)
                     : b->health == HEALTH_GOOD ? advance(b)
                                                : embedded_scan_step(b);
    if (err.code == ERR_OK && b->hurt)
        err = err_make(ERR_CORRUPT, "damage to the disk");
    if (err.code != ERR_OK)
        return mended(b, &durable, err);
    embedded_room_log(b);
    struct turn *read_only = seal(b);
    if (durable)
        release(b, durable, NULL);
    if (read_only)
        release(b, read_only, NULL);
    embedded_event_reads_serve(b);
    return err_none();
}

static void no_later(bool is_due, instant then, bool *due, instant *at)
{
    if (is_due && (!*due || then.ms < at->ms))
        *at = then;
    *due |= is_due;
}

static bool engine_or_purge_due(const struct embedded *b, instant *at)
{
    instant purge, expiry;
    instant index;
    bool due = !embedded_due_waits(b) && engine_next_due(b->engine, at);
    bool indexes = embedded_index_due(b, &index);
    no_later(indexes, index, &due, at);
    bool purges = embedded_events_due(b, &purge), expires = embedded_kv_due(b, &expiry);
    instant window;
    bool ends = embedded_undo_due(b, &window);
    no_later(ends, window, &due, at);
    no_later(purges, purge, &due, at);
    no_later(expires, expiry, &due, at);
    return due;
}

/* Something that goes on in every turn until it is done. */
static bool has_slices(const struct embedded *b)
{
    return (!list_is_empty(&b->scans) && !awaits_tables(b)) || !list_is_empty(&b->intakes) ||
           !list_is_empty(&b->successes);
}

static bool again(const struct embedded *b)
{
    return b->health == HEALTH_GOOD && engine_dispatch_again(b->engine);
}

static bool due_next(const struct embedded *b, instant *at)
{
    if (b->settling) {
        *at = b->now;
        return true;
    }
    bool work = b->hurt || b->clock.reset_done || b->building->batch.count || b->building->count ||
                b->events.writer.count || b->more_due || b->wake_needed || embedded_beats(b) ||
                (!b->starved && (b->held_back ? !handouts_are_many(b) : again(b)));
    if ((work && !b->committing) || has_slices(b)) {
        *at = b->now;
        return true;
    }
    if (b->health == HEALTH_FAILED) {
        *at = b->retry_reopen;
        return true;
    }
    bool due = engine_or_purge_due(b, at);
    instant look = instant_add(b->free_space_at, (span){SPACE_CHECK_MS});
    if (!b->starved || (due && at->ms <= look.ms))
        return due;
    *at = look;
    return true;
}

/* By the wall clock, by which the caller waits. */
static bool next_due(const struct backend *base, instant *at)
{
    const struct embedded *b = (const struct embedded *)base;
    instant hangs;
    bool due = due_next(b, at), asked = embedded_status_due(b, &hangs);
    no_later(asked, hangs, &due, at);
    at->ms -= due ? b->clock.ahead.ms : 0;
    return due;
}

static bool is_settling(const struct backend *base)
{
    return ((const struct embedded *)base)->settling;
}

static void limit_handouts(struct backend *base, uint64_t bytes)
{
    ((struct embedded *)base)->handout_limit = bytes;
}

static bool holds_back(const struct backend *base)
{
    return ((const struct embedded *)base)->held_back;
}

static bool is_idle(const struct backend *base)
{
    const struct embedded *b = (const struct embedded *)base;
    return !b->committing && !b->clock.reset_done && b->building->count == 0 &&
           b->building->batch.count == 0 && b->events.writer.count == 0 &&
           list_is_empty(&b->asking) && list_is_empty(&b->folds) && !has_slices(b) &&
           embedded_index_is_idle(b);
}

instant embedded_now(const struct backend *base)
{
    return ((const struct embedded *)base)->now;
}

const struct engine *embedded_engine(const struct backend *base)
{
    return ((const struct embedded *)base)->engine;
}

/* --- opening and closing --- */

static void configure(struct backend *backend, const struct backend_settings *settings)
{
    struct embedded *b = (struct embedded *)backend;
    b->settings.engine = settings->engine;
    b->settings.min_free_space = settings->min_free_space;
    b->settings.clock_jump_limit = settings->clock_jump_limit;
    b->settings.lease_grace = settings->lease_grace;
    b->settings.jq_request_limit = settings->jq_request_limit;
    b->settings.event_retention = settings->event_retention;
    b->settings.event_max_bytes = settings->event_max_bytes;
    b->settings.failure_history = settings->failure_history;
    b->settings.audit_retention = settings->audit_retention;
    b->settings.audit_max = settings->audit_max;
    b->settings.failure_groups_max = settings->failure_groups_max;
    b->settings.failure_group_retention = settings->failure_group_retention;
    b->settings.idempotency_retention = settings->idempotency_retention;
    b->settings.idempotency_bytes = settings->idempotency_bytes;
    b->settings.undo_max = settings->undo_max;
    b->settings.undo_max_bytes = settings->undo_max_bytes;
    b->more_due = true; /* some of what is kept may be too much now */
    engine_configure(b->engine, &settings->engine);
}

static void free_backend(struct backend *base)
{
    struct embedded *b = self(base);
    if (b->committing)
        store_wait(b->env.store);
    embedded_ahead_close(b);
    embedded_index_drop(b);
    embedded_rebuild_drop(b);
    embedded_old_free(b);
    embedded_scan_free_all(b);
    embedded_intake_free_all(b);
    embedded_successes_free_all(b);
    embedded_fold_free_all(b);
    embedded_ask_free_all(b);
    for (int i = 0; i < TURNS; i++) {
        struct turn *t = &b->turns[i];
        batch_fini(&t->batch);
        free(t->kv.list);
        buf_fini(&t->traced);
        arena_fini(&t->arena);
        free(t->effects);
    }
    embedded_takers_free_all(b);
    embedded_damage_fini(b);
    failure_groups_fini(&b->failures);
    workers_fini(&b->workers);
    operations_fini(&b->operations);
    engine_free(b->engine);
    policies_free(b->policies);
    meter_free(b->meter);
    eventlog_writer_fini(&b->events.writer);
    embedded_event_reads_free_all(b);
    buf_fini(&b->scratch);
    free(b);
}

static const struct backend_vt vt = {
    .free = free_backend,
    .configure = configure,
    .turn = turn,
    .next_due = next_due,
    .time = embedded_time,
    .is_settling = is_settling,
    .stop = embedded_stop,
    .is_idle = is_idle,
    .beat = embedded_beat,
    .limit_handouts = limit_handouts,
    .holds_back = holds_back,
    .submit = embedded_submit,
    .gathered = embedded_gathered,
    .stream_open = embedded_stream_open,
    .stream_close = embedded_stream_close,
    .stream_pause = embedded_stream_pause,
    .claim = embedded_claim,
    .claim_cancel = embedded_claim_cancel,
    .events = embedded_event_read,
    .events_cancel = embedded_event_read_cancel,
};

/* On a disk that is full it begins as it goes on after a failed commit. */
static struct err open_as_it_is(struct embedded *b)
{
    b->failure = store_failure(b->env.store);
    if (b->failure.code != ERR_OK && b->failure.code != ERR_DISK_FULL)
        return b->failure;
    if (b->failure.code == ERR_DISK_FULL) {
        b->health = HEALTH_FAILED;
        b->retry_reopen = instant_add(b->now, (span){REOPEN_INTERVAL_MS});
    }
    return recover_or_go_blind(b);
}

struct err embedded_new(const struct backend_settings *settings, const struct env *env,
                        struct backend **out)
{
    struct embedded *b = ALLOC(struct embedded);
    b->backend.vt = &vt;
    b->settings = *settings;
    b->env = *env;
    b->clock.turned_at = b->clock.from = INSTANT_NONE;
    b->free_space = -1;
    b->handout_limit = UINT64_MAX;
    b->building = free_turn(b);
    failure_groups_init(&b->failures);
    list_init(&b->streams);
    list_init(&b->claims);
    list_init(&b->scans);
    list_init(&b->answered);
    list_init(&b->asking);
    list_init(&b->asks);
    list_init(&b->folds);
    list_init(&b->intakes);
    list_init(&b->successes);
    list_init(&b->events.reads);
    b->lanes.seed = rng_next(&b->env.rng);
    workers_init(&b->workers, b->lanes.seed);
    b->meter = meter_new(settings->metrics_queues, rng_next(&b->env.rng));
    embedded_refresh_now(b);
    struct err err = open_as_it_is(b);
    if (err.code != ERR_OK) {
        free_backend(&b->backend);
        return err;
    }
    *out = &b->backend;
    return err;
}
