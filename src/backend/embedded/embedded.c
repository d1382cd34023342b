/* SPDX-License-Identifier: Apache-2.0 */

/* Turns: from commands to a batch, from a durable batch to replies. */

#include "backend/embedded/embedded.h"

#include <stdlib.h>

#include "backend/embedded/embedded_internal.h"
#include "base/alloc.h"
#include "base/must.h"
#include "core/job_fields.h"
#include "store/record.h"

#define DUE_PER_TURN       1000
#define SETTLE_PER_TURN    1000
#define SPACE_CHECK_MS     100
#define REOPEN_INTERVAL_MS 1000
#define AHEAD_MAX_MS       1000 /* an open cursor keeps old files alive */

static struct embedded *self(struct backend *b)
{
    return (struct embedded *)b;
}

void embedded_refresh_now(struct embedded *b)
{
    instant now = b->env.now(b->env.ctx);
    must(now.ms >= b->now.ms);
    b->now = now;
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
    if (t->count == t->cap) {
        t->cap = t->cap ? t->cap * 2 : 256;
        t->effects = alloc_resize(t->effects, t->cap * sizeof *t->effects);
    }
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

static void release_effect(struct effect *fx, const struct err *failed)
{
    if (fx->done) {
        if (failed)
            *fx->reply = (struct reply){.err = *failed};
        fx->done(fx->ctx, fx->reply);
        return;
    }
    embedded_stream_release(fx->stream, failed ? NULL : fx->handout);
}

/* Lets go of what a turn promised. Receivers may submit commands; those go into another turn. */
static void release(struct embedded *b, struct turn *t, const struct err *failed)
{
    must(t != b->building && t != b->committing);
    for (size_t i = 0; i < t->count; i++)
        release_effect(&t->effects[i], failed);
    t->count = 0;
    batch_reset(&t->batch);
    arena_reset(&t->arena);
    t->busy = t->rewrote = false;
    t->last_event = 0;
    memset(t->events, 0, sizeof t->events);
}

/* --- commands --- */

void embedded_check_space(struct embedded *b)
{
    if (b->free_space >= 0 && b->now.ms - b->free_space_at.ms < SPACE_CHECK_MS)
        return;
    b->free_space = store_free_space(b->env.store);
    b->free_space_at = b->now;
}

static struct err no_space(const struct embedded *b)
{
    return err_make(ERR_DISK_FULL,
                    "the disk has %lld MiB left and %llu MiB are kept in reserve; "
                    "nothing was stored",
                    (long long)(b->free_space >> 20),
                    (unsigned long long)(b->settings.min_free_space >> 20));
}

struct err embedded_refuse_to_store(struct embedded *b, enum command_kind kind)
{
    if (b->health == HEALTH_FAILED)
        return b->failure;
    embedded_check_space(b);
    /* Reports get the lower half of the reserve: finishing work frees space, new
     * work takes it. Removals are always welcome. */
    uint64_t reserve = b->settings.min_free_space;
    if (kind != CMD_ENQUEUE && kind != CMD_CRON_PUT)
        reserve /= 2;
    if (kind == CMD_REMOVE || kind == CMD_REMOVE_WHERE || kind == CMD_CRON_REMOVE ||
        kind == CMD_QUEUE_REMOVE || (uint64_t)b->free_space >= reserve)
        return err_none();
    return no_space(b);
}

static bool stores(enum command_kind kind)
{
    switch (kind) {
    case CMD_ENQUEUE:
    case CMD_SUCCEED:
    case CMD_SUCCEED_MANY:
    case CMD_FAIL:
    case CMD_TERMINATED:
    case CMD_RENEW:
    case CMD_PROGRESS:
    case CMD_RELEASE:
    case CMD_REMOVE:
    case CMD_REMOVE_WHERE:
    case CMD_CRON_PUT:
    case CMD_CRON_SWITCH:
    case CMD_CRON_REMOVE:
    case CMD_POLICY_PUT:
    case CMD_POLICY_REMOVE:
    case CMD_CATEGORIES_PUT:
    case CMD_CATEGORIES_REMOVE:
    case CMD_QUEUE_PUT:
    case CMD_QUEUE_REMOVE:
    case CMD_RETRY_SETTINGS_PUT:
    case CMD_PATCH:
    case CMD_PATCH_WHERE:
    case CMD_CANCEL:
    case CMD_RERUN:
    case CMD_RERUN_WHERE:
        return true;
    case CMD_READ:
    case CMD_LIST:
    case CMD_COUNT:
    case CMD_RUNS:
    case CMD_EXPLAIN:
    case CMD_QUEUES:
    case CMD_STATUS:
    case CMD_METER:
    case CMD_CRON_READ:
    case CMD_POLICY_READ:
    case CMD_POLICY_SIMULATE:
    case CMD_CATEGORIES_READ:
    case CMD_QUEUE_READ:
    case CMD_QUEUE_LIST:
    case CMD_RETRY_SETTINGS_READ:
        return false;
    }
    must(false);
    return false;
}

/* The reply outlives the request, so its names must not be the request's. */
static void own_names(struct arena *a, struct enqueued *jobs, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct job *job = &jobs[i].job;
        const struct job *last = i ? &jobs[i - 1].job : NULL;
        if (jobs[i].duplicate)
            continue;
        bool same = last && str_eq(job->queue, last->queue);
        job->queue = same ? last->queue : arena_copy(a, job->queue);
        same = last && str_eq(job->type, last->type);
        job->type = same ? last->type : arena_copy(a, job->type);
        job->unique_key = arena_copy(a, job->unique_key);
        job->options = job_options_copy(a, &job->options);
    }
}

static void step_enqueue(struct embedded *b, const struct command *c, struct reply *r)
{
    struct arena *a = &b->building->arena;
    r->count = c->enqueue.count;
    r->enqueued = arena_get(a, r->count * sizeof *r->enqueued);
    r->err = engine_enqueue(b->engine, b->now, c->enqueue.specs, r->count, a, r->enqueued);
    if (r->err.code == ERR_OK)
        own_names(a, r->enqueued, r->count);
    else
        b->broken = r->err; /* some may be in the batch already: it must not be committed */
}

static void step_succeed_many(struct embedded *b, const struct command *c, struct reply *r)
{
    r->ids = arena_get(&b->building->arena, c->succeed_many.count * sizeof *r->ids + 1);
    for (size_t i = 0; i < c->succeed_many.count; i++) {
        struct run_ref ref = {.id = c->succeed_many.ids[i]};
        struct err err = engine_succeed(b->engine, b->now, ref);
        if (err.code == ERR_NOT_FOUND || err.code == ERR_NOT_IN_FLIGHT)
            r->ids[r->count++] = ref.id;
        else if (err.code != ERR_OK)
            r->err = err;
    }
}

static void step_read(struct embedded *b, struct id id, struct reply *r)
{
    struct arena *a = &b->building->arena;
    struct job_extent extent;
    struct run run;
    r->jobs = arena_get(a, sizeof *r->jobs);
    r->count = 1;
    r->err = engine_read(b->engine, b->now, id, true, a, r->jobs, &extent);
    if (r->err.code == ERR_OK && (r->has_live = engine_live_run(b->engine, id, &run, &r->token)))
        r->lease_end = run.lease_end;
    if (r->err.code == ERR_OK) {
        r->notes = arena_get(a, sizeof *r->notes);
        r->err = engine_read_notes(b->engine, r->jobs, a, r->notes);
    }
}

struct names {
    struct arena *arena;
    struct str *at;
    size_t count, cap;
};

static void add_name(void *ctx, struct str name)
{
    struct names *n = ctx;
    if (n->count == n->cap) {
        size_t cap = n->cap ? n->cap * 2 : 64;
        struct str *at = arena_get(n->arena, cap * sizeof *at);
        if (n->count)
            memcpy(at, n->at, n->count * sizeof *at);
        n->at = at;
        n->cap = cap;
    }
    n->at[n->count++] = arena_copy(n->arena, name);
}

static void step_queues(struct embedded *b, struct reply *r)
{
    struct names n = {.arena = &b->building->arena};
    engine_each_queue(b->engine, n.arena, add_name, &n);
    r->names = n.at;
    r->count = n.count;
}

static void step_status(struct embedded *b, struct reply *r)
{
    embedded_check_space(b);
    r->status.writable = embedded_refuse_to_store(b, CMD_ENQUEUE).code == ERR_OK;
    engine_count(b->engine, (struct str){0}, r->status.jobs);
    r->status.memory = engine_memory(b->engine);
    r->status.disk_bytes = store_disk_bytes(b->env.store);
    memcpy(r->status.events, b->events.counts, sizeof r->status.events);
    r->status.newest_event = b->events.durable;
}

static void step_change(struct embedded *b, const struct command *c, struct reply *r)
{
    struct arena *a = &b->building->arena;
    r->jobs = arena_get(a, sizeof *r->jobs);
    r->count = 1;
    if (c->kind == CMD_PATCH) {
        struct patch patch = *c->patch.patch;
        patch.queue = arena_copy(a, patch.queue);
        r->err = engine_patch(b->engine, b->now, c->patch.id, &patch, a, r->jobs);
    } else if (c->kind == CMD_CANCEL) {
        r->err = engine_cancel(b->engine, b->now, c->id, a, r->jobs);
    } else {
        r->err = engine_rerun(b->engine, b->now, c->id, b->now, a, r->jobs);
    }
}

/* The worker's connection broke before it heard the answer, and it asks again. */
static bool is_repeated(struct embedded *b, const struct command *c, struct reply *r)
{
    if (c->kind != CMD_SUCCEED && c->kind != CMD_FAIL)
        return false;
    struct run_ref ref = c->kind == CMD_FAIL ? c->fail.ref : c->run;
    enum outcome outcome = c->kind == CMD_FAIL ? OUTCOME_FAILED : OUTCOME_COMPLETED;
    struct arena *a = &b->building->arena;
    struct job *job = arena_get(a, sizeof *job);
    r->repeated = engine_is_repeated(b->engine, b->now, ref, outcome, a, job);
    if (r->repeated) {
        r->jobs = job;
        r->count = 1;
    }
    return r->repeated;
}

/* The news first: they belong to the run that the report may end. A renewal changes nothing that
 * they need, and may be refused. */
static void step_report(struct embedded *b, const struct command *c, struct reply *r)
{
    struct engine *e = b->engine;
    struct arena *a = &b->building->arena;
    if (is_repeated(b, c, r))
        return;
    if (c->news && c->kind != CMD_RENEW) {
        r->err = engine_note(e, b->now, c->kind == CMD_FAIL ? c->fail.ref : c->run, c->news);
        if (r->err.code != ERR_OK)
            return;
    }
    if (c->kind == CMD_SUCCEED)
        r->err = engine_succeed(e, b->now, c->run);
    else if (c->kind == CMD_SUCCEED_MANY)
        step_succeed_many(b, c, r);
    else if (c->kind == CMD_RELEASE)
        r->err = engine_release(e, b->now, c->run);
    else if (c->kind == CMD_RENEW)
        r->err = engine_renew(e, b->now, c->renew.run, c->renew.lease, &r->lease_end);
    else if (c->kind == CMD_FAIL) {
        r->jobs = arena_get(a, sizeof *r->jobs);
        r->count = 1;
        r->err = engine_fail(e, b->now, &c->fail, a, r->jobs);
    }
    if (c->news && c->kind == CMD_RENEW && r->err.code == ERR_OK)
        r->err = engine_note(e, b->now, c->renew.run, c->news);
}

static void step(struct embedded *b, const struct command *c, struct reply *r)
{
    struct engine *e = b->engine;
    switch (c->kind) {
    case CMD_ENQUEUE:
        step_enqueue(b, c, r);
        return;
    case CMD_SUCCEED:
    case CMD_SUCCEED_MANY:
    case CMD_FAIL:
    case CMD_RENEW:
    case CMD_PROGRESS:
    case CMD_RELEASE:
        step_report(b, c, r);
        return;
    case CMD_TERMINATED:
        r->jobs = arena_get(&b->building->arena, sizeof *r->jobs);
        r->count = 1;
        r->err = engine_terminated(e, b->now, c->terminated.run, c->terminated.index,
                                   &b->building->arena, r->jobs);
        return;
    case CMD_REMOVE:
        r->err = engine_remove(e, b->now, c->id);
        return;
    case CMD_READ:
        step_read(b, c->id, r);
        return;
    case CMD_PATCH:
    case CMD_CANCEL:
    case CMD_RERUN:
        step_change(b, c, r);
        return;
    case CMD_RUNS:
        embedded_runs(b, &c->runs, r);
        return;
    case CMD_EXPLAIN:
        embedded_explain(b, c->id, r);
        return;
    case CMD_QUEUES:
        step_queues(b, r);
        return;
    case CMD_STATUS:
        step_status(b, r);
        return;
    case CMD_METER:
        embedded_meter(b, r);
        return;
    case CMD_CRON_PUT:
    case CMD_CRON_READ:
    case CMD_CRON_SWITCH:
    case CMD_CRON_REMOVE:
        embedded_cron(b, c, r);
        return;
    case CMD_POLICY_PUT:
    case CMD_POLICY_READ:
    case CMD_POLICY_SIMULATE:
    case CMD_POLICY_REMOVE:
    case CMD_CATEGORIES_PUT:
    case CMD_CATEGORIES_READ:
    case CMD_CATEGORIES_REMOVE:
    case CMD_RETRY_SETTINGS_PUT:
    case CMD_RETRY_SETTINGS_READ:
        embedded_policy(b, c, r);
        return;
    case CMD_QUEUE_PUT:
    case CMD_QUEUE_READ:
    case CMD_QUEUE_LIST:
    case CMD_QUEUE_REMOVE:
        embedded_queue(b, c, r);
        return;
    case CMD_LIST:
    case CMD_COUNT:
    case CMD_REMOVE_WHERE:
    case CMD_PATCH_WHERE:
    case CMD_RERUN_WHERE:
        break;
    }
    must(false);
}

/* Those that may look at many jobs. */
static bool is_scan(enum command_kind kind)
{
    return kind == CMD_LIST || kind == CMD_COUNT || kind == CMD_REMOVE_WHERE ||
           kind == CMD_PATCH_WHERE || kind == CMD_RERUN_WHERE;
}

static void submit(struct backend *base, const struct command *c)
{
    struct embedded *b = self(base);
    embedded_refresh_now(b);
    struct err refused = stores(c->kind) ? embedded_refuse_to_store(b, c->kind) : err_none();
    if (refused.code == ERR_OK)
        refused = embedded_policy_check(b, c);
    if (refused.code == ERR_OK && c->kind == CMD_ENQUEUE)
        refused = engine_depend_check(b->engine, b->now, c->enqueue.specs, c->enqueue.count);
    if (refused.code == ERR_OK && c->kind == CMD_ENQUEUE)
        refused = engine_gang_check(b->engine, c->enqueue.specs, c->enqueue.count);
    if (refused.code != ERR_OK) {
        embedded_effect(b, c->done, c->ctx)->err = refused;
        return;
    }
    if (is_scan(c->kind)) {
        embedded_scan_start(b, c);
        return;
    }
    if (c->kind == CMD_ENQUEUE && embedded_fold_is_wanted(c)) {
        embedded_fold_start(b, c);
        return;
    }
    step(b, c, embedded_effect(b, c->done, c->ctx));
}

/* --- failure --- */

/* The commit of a turn failed: nothing that memory says since the last durable
 * batch can be trusted, so all of it goes. */
static struct err fail_over(struct embedded *b, struct turn *failed, struct err why)
{
    b->health = HEALTH_FAILED;
    b->failure = why;
    b->retry_reopen = instant_add(b->now, (span){REOPEN_INTERVAL_MS});
    b->free_space = -1;
    struct turn *built = b->building;
    b->building = free_turn(b);
    embedded_takers_forget(b, &why);
    engine_free(b->engine);
    b->engine = NULL;
    embedded_ahead_close(b);
    /* On a disk that is still full the store stays closed for writing, but reads go on. */
    struct err reopened = store_reopen(b->env.store);
    if (reopened.code != ERR_OK && reopened.code != ERR_DISK_FULL)
        return reopened;
    TRY(embedded_recover(b));

    release(b, failed, &why);
    release(b, built, &why);
    embedded_scan_abort_all(b, &why);
    embedded_fold_abort_all(b, &why);
    embedded_streams_end(b);
    return err_none();
}

static void try_reopen(struct embedded *b)
{
    if (b->now.ms < b->retry_reopen.ms)
        return;
    b->retry_reopen = instant_add(b->now, (span){REOPEN_INTERVAL_MS});
    b->free_space = -1;
    embedded_ahead_close(b);
    /* Whether there is room enough to open is the store's to say. The reserve is no question
     * here: below it jobs may still be finished and removed. */
    if (store_reopen(b->env.store).code != ERR_OK)
        return;
    engine_free(b->engine);
    b->engine = NULL;
    b->health = HEALTH_GOOD;
    struct err err = embedded_recover(b);
    if (err.code != ERR_OK) {
        batch_reset(&b->building->batch); /* half a recovery */
        eventlog_reset(&b->events.writer);
        b->health = HEALTH_FAILED;
        b->failure = err;
    }
}

/* --- turns --- */

/* Sends the turn that was being built on its way. Returns it if it has nothing to store: its
 * replies only waited for what they may have seen. */
static struct turn *seal(struct embedded *b)
{
    if (b->committing)
        return NULL;
    struct turn *t = b->building;
    embedded_events_seal(b, t);
    if (t->batch.count > 0) {
        b->committing = t;
        b->building = free_turn(b);
        embedded_meter_sealed(b, t);
        store_commit(b->env.store, &t->batch, b->settings.sync);
        return NULL;
    }
    if (t->count == 0)
        return NULL;
    b->building = free_turn(b);
    return t;
}

static struct err advance(struct embedded *b)
{
    embedded_check_space(b);
    if (b->ahead.cursor && b->now.ms - b->ahead.opened.ms > AHEAD_MAX_MS)
        embedded_ahead_close(b);
    /* Ticks are new work: they get as little of the reserve as an enqueue does. */
    engine_cron_hold(b->engine, (uint64_t)b->free_space < b->settings.min_free_space);
    TRY(engine_advance(b->engine, b->now, DUE_PER_TURN, &b->more_due));
    bool more_events;
    TRY(embedded_events_purge(b, &more_events));
    b->more_due |= more_events;
    TRY(embedded_scan_step(b));
    bool more;
    TRY(engine_settle(b->engine, b->now, SETTLE_PER_TURN, &more));
    b->more_due |= more;
    b->starved = (uint64_t)b->free_space < b->settings.min_free_space / 2;
    if (b->starved) {
        struct err why = no_space(b);
        embedded_claims_refuse(b, &why);
        return err_none();
    }
    return engine_dispatch(b->engine, b->now, &b->building->arena);
}

struct err embedded_turn(struct backend *base)
{
    struct embedded *b = self(base);
    struct turn *durable = NULL;
    struct err result;
    TRY(b->broken);
    embedded_refresh_now(b);
    b->stirred = false;
    if (b->committing && store_reap(b->env.store, &result)) {
        durable = b->committing;
        b->committing = NULL;
        if (result.code == ERR_DISK_FULL)
            return fail_over(b, durable, result);
        if (result.code != ERR_OK)
            return result;
        if (durable->rewrote)
            embedded_ahead_close(b);
        embedded_events_durable(b, durable);
        embedded_meter_durable(b, durable);
    }
    if (b->health == HEALTH_FAILED)
        try_reopen(b);
    if (b->health == HEALTH_GOOD)
        TRY(advance(b));
    else
        TRY(embedded_scan_step(b));
    embedded_room_tell(b);
    struct turn *read_only = seal(b);
    if (durable)
        release(b, durable, NULL);
    if (read_only)
        release(b, read_only, NULL);
    embedded_event_reads_serve(b);
    return err_none();
}

static bool next_due(const struct embedded *b, instant *at)
{
    instant purge;
    bool due = engine_next_due(b->engine, at);
    if (!embedded_events_due(b, &purge) || (due && at->ms <= purge.ms))
        return due;
    *at = purge;
    return true;
}

static bool again(const struct embedded *b)
{
    return b->health == HEALTH_GOOD && engine_dispatch_again(b->engine);
}

bool embedded_next_due(const struct backend *base, instant *at)
{
    const struct embedded *b = (const struct embedded *)base;
    bool work = b->building->batch.count || b->building->count || b->events.writer.count ||
                b->more_due || b->stirred || (!b->starved && again(b));
    if ((work && !b->committing) || !list_is_empty(&b->scans)) {
        *at = b->now;
        return true;
    }
    if (b->health == HEALTH_FAILED) {
        *at = b->retry_reopen;
        return true;
    }
    bool due = next_due(b, at);
    instant look = instant_add(b->free_space_at, (span){SPACE_CHECK_MS});
    if (!b->starved || (due && at->ms <= look.ms))
        return due;
    *at = look;
    return true;
}

bool embedded_is_idle(const struct backend *base)
{
    const struct embedded *b = (const struct embedded *)base;
    return !b->committing && b->building->count == 0 && b->building->batch.count == 0 &&
           b->events.writer.count == 0 && list_is_empty(&b->scans) && list_is_empty(&b->asking) &&
           list_is_empty(&b->folds);
}

const struct engine *embedded_engine(const struct backend *base)
{
    return ((const struct embedded *)base)->engine;
}

/* --- opening and closing --- */

static const struct backend_vt vt = {
    .submit = submit,
    .stream_open = embedded_stream_open,
    .stream_close = embedded_stream_close,
    .stream_pause = embedded_stream_pause,
    .claim = embedded_claim,
    .claim_cancel = embedded_claim_cancel,
    .events_place = embedded_event_place,
    .events = embedded_event_read,
    .events_cancel = embedded_event_read_cancel,
};

struct engine *embedded_engine_new(struct embedded *b)
{
    struct engine_sink sink = embedded_sink(b);
    struct port port = embedded_port(b);
    return engine_new(&b->settings.engine, &port, &sink, rng_from_seed(rng_next(&b->env.rng)));
}

void embedded_configure(struct backend *backend, const struct embedded_settings *settings)
{
    struct embedded *b = (struct embedded *)backend;
    b->settings.engine = settings->engine;
    b->settings.min_free_space = settings->min_free_space;
    b->settings.event_retention = settings->event_retention;
    b->settings.event_max_bytes = settings->event_max_bytes;
    engine_configure(b->engine, &settings->engine);
}

struct err embedded_new(const struct embedded_settings *settings, const struct env *env,
                        struct backend **out)
{
    struct embedded *b = ALLOC(struct embedded);
    b->backend.vt = &vt;
    b->settings = *settings;
    b->env = *env;
    b->free_space = -1;
    b->building = free_turn(b);
    list_init(&b->streams);
    list_init(&b->claims);
    list_init(&b->scans);
    list_init(&b->answered);
    list_init(&b->asking);
    list_init(&b->asks);
    list_init(&b->folds);
    list_init(&b->events.reads);
    b->lanes.seed = rng_next(&b->env.rng);
    b->meter = meter_new(settings->metrics_queues, rng_next(&b->env.rng));
    embedded_refresh_now(b);
    struct err err = embedded_recover(b);
    if (err.code != ERR_OK) {
        embedded_free(&b->backend);
        return err;
    }
    *out = &b->backend;
    return err;
}

void embedded_free(struct backend *base)
{
    struct embedded *b = self(base);
    if (b->committing)
        store_wait(b->env.store);
    embedded_ahead_close(b);
    embedded_scan_free_all(b);
    embedded_fold_free_all(b);
    embedded_ask_free_all(b);
    for (int i = 0; i < TURNS; i++) {
        struct turn *t = &b->turns[i];
        batch_fini(&t->batch);
        arena_fini(&t->arena);
        free(t->effects);
    }
    embedded_takers_free_all(b);
    engine_free(b->engine);
    policies_free(b->policies);
    meter_free(b->meter);
    eventlog_writer_fini(&b->events.writer);
    embedded_event_reads_free_all(b);
    buf_fini(&b->scratch);
    free(b);
}
