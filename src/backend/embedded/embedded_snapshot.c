/* SPDX-License-Identifier: Apache-2.0 */

/* Snapshots of the engine's indexes, for a quick start. One is begun when there is none, when so
 * much was changed since the last one that reading that would take long, when less was but some
 * time ago, and at a stop. It is taken in slices, one a turn, and written by a thread of its own
 * (store/index_file.h).
 *
 * Right is what it says of jobs that no batch after head.from has touched, and as it may show what
 * later batches did, up to head.upto, it counts only where these are durable. The store keeps the
 * batches after head.from, and says at the next start whom they have touched. */

#include <stdlib.h>

#include "backend/embedded/embedded_internal.h"
#include "base/alloc.h"
#include "base/log.h"
#include "base/must.h"
#include "core/engine_snapshot.h"
#include "store/record.h"

#define ENTRIES_PER_TURN 1000 /* some ten microseconds */
#define CHUNK_BYTES      ((size_t)256 << 10)
#define CHUNK_MS         10 /* between two chunks, except at a stop: so that others have the disk */
#define ENTRY_BYTES      16 /* on the disk, at most, about */
/* Batches since the last one: with more, the next is begun; with twice as many, the last one is no
 * longer worth the room that they take; and with four times as many, one under way is not, which
 * never comes to its end. */
#define HELD_BYTES    ((uint64_t)256 << 20)
#define HELD_LOW      ((uint64_t)16 << 20) /* the same on a disk that is nearly full */
#define CHANGES_LEAST 10                   /* some are those of a snapshot */
#define AGE_MS        60000                /* with fewer changes, so long after the one before */
#define RETRY_MS      60000                /* after one that failed */
#define LOOK_MS       5                    /* for the writer to have room, or to have ended */
#define STEPS_MAX     8                    /* of a cursor, before it searches */

/* --- which belongs to this store --- */

static void facts_of(struct embedded *b, uint64_t facts[INDEX_FACTS])
{
    struct store_damage damage;
    store_damage(b->env.store, &damage);
    facts[0] = (uint64_t)b->clock.turned_at.ms;
    facts[1] = b->clock.turned_events;
    facts[2] = damage.tables;
    facts[3] = damage.found;
}

static struct err check_nonce(struct embedded *b, const struct index_head *h)
{
    struct record_key key = record_index_key();
    struct record_index index = {0};
    bool found;
    TRY(store_get(b->env.store, record_key_view(&key), &found, &b->scratch));
    if (found)
        TRY(record_read_index(buf_view(&b->scratch), &index));
    for (int i = 0; found && i < 2; i++)
        if (h->nonce[0] == index.nonces[i].hi && h->nonce[1] == index.nonces[i].lo)
            return err_none();
    return err_make(ERR_CORRUPT, "the file is that of another root directory, or of another time");
}

static struct err check_head(struct embedded *b, const struct index_head *h)
{
    uint64_t facts[INDEX_FACTS];
    if (h->upto > store_number(b->env.store) || h->from > h->upto)
        return err_make(ERR_CORRUPT, "the file is newer than the tables");
    facts_of(b, facts);
    if (memcmp(facts, h->facts, sizeof facts) != 0)
        return err_make(ERR_CORRUPT, "since it was written the clock was set back, or damage to "
                                     "the tables was found");
    return check_nonce(b, h);
}

/* --- restoring --- */

struct touched {
    struct embedded *b;
    struct snapshot_ids ids;
    size_t cap;
};

static struct err touch(void *ctx, uint64_t number, const struct batch_op *op)
{
    struct touched *t = ctx;
    struct id id;
    (void)number;
    t->b->index.bytes += op->key.len + op->value.len;
    t->b->index.changes++;
    if (!record_key_is_job(op->key, &id) && !record_key_is_state(op->key, &id) &&
        !record_key_is_apart(op->key, &id))
        return err_none();
    /* Records of one job often follow one another. */
    if (t->ids.count > 0 && id_eq(t->ids.ids[t->ids.count - 1], id))
        return err_none();
    ALLOC_GROW(t->ids.ids, t->ids.count, t->cap, 1024);
    t->ids.ids[t->ids.count++] = id;
    return err_none();
}

/* Moves to that key, which lies behind those before; true if it is there. */
static bool find(struct store_cursor *c, struct store *s, const struct record_key *key,
                 struct str *value)
{
    struct str at, wanted = record_key_view(key);
    for (int i = 0; i < STEPS_MAX; i++) {
        if (!store_cursor_at(c, s, &at, value) || str_cmp(at, wanted) >= 0)
            break;
        store_cursor_step(c, s, false);
    }
    if (!store_cursor_at(c, s, &at, value) || str_cmp(at, wanted) < 0)
        store_cursor_seek(c, s, wanted, false);
    return store_cursor_at(c, s, &at, value) && str_eq(at, wanted);
}

static struct err judge(struct embedded *b, struct id id, enum apart_part part, struct err err)
{
    if (err.code == ERR_CORRUPT)
        embedded_set_apart(b, id, part);
    return err;
}

struct reading {
    struct embedded *b;
    struct store_cursor *jobs, *states;
};

static struct err restore_one(struct reading *r, struct id id)
{
    struct embedded *b = r->b;
    struct record_key key = record_job_key(id), state_key = record_state_key(id);
    struct job_extent x = {0};
    struct job job;
    struct str value;
    if (!find(r->jobs, b->env.store, &key, &value))
        return err_none();
    struct err err = judge(b, id, APART_JOB, record_read_job(value, id, &job, &x.payload_apart));
    x.has_state = err.code == ERR_OK && find(r->states, b->env.store, &state_key, &value);
    if (x.has_state)
        err = judge(b, id, APART_STATE, record_read_state(value, &job.state));
    if (embedded_is_apart(b, id))
        return err_none();
    TRY(err);
    x.runs_ended = job.state.runs;
    x.notes = job.state.extras.notes;
    engine_restore_job(b->engine, &job, &x, b->now);
    return err_none();
}

/* From the first of them on: before it may lie very many that were deleted. */
static struct err restore_rest(struct embedded *b, struct snapshot_ids rest)
{
    struct store *s = b->env.store;
    if (rest.count == 0)
        return err_none();
    struct reading r = {b, store_cursor_new(s), store_cursor_new(s)};
    struct record_key key = record_job_key(rest.ids[0]), state = record_state_key(rest.ids[0]);
    struct err err = err_none();
    store_cursor_seek(r.jobs, s, record_key_view(&key), false);
    store_cursor_seek(r.states, s, record_key_view(&state), false);
    for (size_t i = 0; i < rest.count && err.code == ERR_OK; i++)
        err = restore_one(&r, rest.ids[i]);
    struct err jobs = store_cursor_free(r.jobs, s), states = store_cursor_free(r.states, s);
    if (err.code == ERR_OK)
        err = jobs;
    return err.code == ERR_OK ? states : err;
}

/* *rest is what is to be read. After an error nothing was restored. */
static struct err load(struct embedded *b, const struct index_image *image,
                       struct snapshot_ids *rest)
{
    struct touched t = {.b = b};
    TRY(check_head(b, &image->head));
    struct err err = store_replay(b->env.store, image->head.from + 1, touch, &t);
    if (err.code == ERR_OK)
        err = engine_snapshot_load(b->engine, b->now, image->chunks, image->count, t.ids, rest);
    free(t.ids.ids);
    return err;
}

/* The one that there is is of no use, or not worth what it costs. */
static void let_go(struct embedded *b)
{
    struct index_state *x = &b->index;
    x->has = false;
    x->bytes = x->changes = 0;
    store_hold(b->env.store, x->phase == INDEX_IDLE ? STORE_HOLD_NONE : x->head.from);
    if (x->phase == INDEX_IDLE && b->settings.index_dir)
        index_file_remove(b->settings.index_dir);
}

static void refuse(struct embedded *b, const struct err *why)
{
    bool none = why->code == ERR_NOT_FOUND;
    b->index.start = none ? INDEX_START_NONE : INDEX_START_REFUSED;
    if (!none)
        log_warn("the snapshot of the indexes cannot be used, so all jobs are read: %s", why->msg);
    let_go(b);
}

static void loaded(struct embedded *b, const struct index_head *h)
{
    b->index.has = true;
    memcpy(b->index.nonce, h->nonce, sizeof h->nonce);
    store_hold(b->env.store, h->from);
}

/* Whether one may be used. A clock that is being set back changes what jobs say, and nobody keeps
 * batches for a server that was told to do without. */
static bool may_use(struct embedded *b)
{
    if (b->settings.index_dir && !b->settings.index_off && !instant_is_set(b->clock.from))
        return true;
    b->index.start = b->settings.index_off ? INDEX_START_OFF : INDEX_START_NONE;
    return false;
}

struct err embedded_index_restore(struct embedded *b, bool *done)
{
    struct index_image image;
    struct snapshot_ids rest = {0};
    struct index_state *x = &b->index;
    *done = false;
    x->bytes = x->changes = x->jobs_read = 0;
    x->began = b->now;
    if (b->settings.index_dir)
        index_file_sweep(b->settings.index_dir);
    if (!may_use(b)) {
        let_go(b);
        return err_none();
    }
    struct err err = index_image_open(b->settings.index_dir, &image);
    if (err.code == ERR_OK) {
        err = load(b, &image, &rest);
        if (err.code == ERR_NOT_FOUND)
            err = err_make(ERR_CORRUPT, "the commits that came after it are not kept any more");
        if (err.code == ERR_OK)
            loaded(b, &image.head);
        index_image_close(&image);
    }
    if (err.code != ERR_OK) {
        refuse(b, &err);
        return err_none();
    }
    *done = true;
    x->start = INDEX_START_USED;
    x->jobs_read = rest.count;
    uint64_t jobs = engine_snapshot_size(b->engine);
    err = restore_rest(b, rest);
    log_info("%llu jobs are in a snapshot of the indexes, %zu were read besides",
             (unsigned long long)jobs, rest.count);
    free(rest.ids);
    return err;
}

void embedded_index_missed(struct embedded *b)
{
    struct index_state *x = &b->index;
    x->jobs_read = engine_snapshot_size(b->engine);
    if (x->jobs_read >= b->settings.index_jobs_min && x->start == INDEX_START_NONE)
        log_info("there is no snapshot of the indexes, so all %llu jobs were read",
                 (unsigned long long)x->jobs_read);
}

/* --- taking one --- */

void embedded_index_drop(struct embedded *b)
{
    struct index_state *x = &b->index;
    index_writer_free(x->writer);
    x->writer = NULL;
    x->phase = INDEX_IDLE;
    buf_fini(&x->chunk);
    if (b->engine)
        engine_snapshot_drop(b->engine);
}

/* Told once: it is tried again and again. */
static void fail(struct embedded *b, const struct err *why)
{
    struct index_state *x = &b->index;
    if (!x->failing)
        log_warn("no snapshot of the indexes can be written for now, and a start without takes "
                 "longer: %s",
                 why->msg);
    x->failing = true;
    x->failed++;
    embedded_index_drop(b);
    if (!x->has)
        let_go(b);
    x->retry = instant_add(b->now, (span){RETRY_MS});
}

void embedded_index_let_go(struct embedded *b)
{
    embedded_index_drop(b);
    if (b->settings.index_dir)
        let_go(b);
}

static bool has_room(const struct embedded *b, uint64_t jobs)
{
    return b->free_space >= 0 &&
           (uint64_t)b->free_space > b->settings.min_free_space + jobs * ENTRY_BYTES;
}

/* Whether one is to be begun even if nothing else changes, and not before when. What a share of the
 * changes is worth: a change costs the next start some microseconds, a job in a new snapshot some
 * ten nanoseconds now. */
static bool is_wanted(const struct embedded *b, uint64_t jobs, instant *at)
{
    const struct index_state *x = &b->index;
    uint64_t least = b->settings.index_jobs_min;
    *at = x->retry;
    if (!b->settings.index_dir || b->settings.index_off || jobs < least ||
        store_number(b->env.store) == 0 || x->last)
        return false;
    if (!x->has || x->bytes >= HELD_BYTES || x->changes > jobs / 2 + least + CHANGES_LEAST)
        return true;
    if (b->stopping)
        return x->changes > jobs / 256 + least / 64 + CHANGES_LEAST;
    instant aged = instant_add(x->began, (span){AGE_MS});
    if (aged.ms > at->ms)
        *at = aged;
    return x->changes > jobs / 32 + least / 8 + CHANGES_LEAST;
}

/* At a stop nobody waits until it can be tried again. */
static bool is_due(const struct embedded *b)
{
    instant at;
    return is_wanted(b, engine_snapshot_size(b->engine), &at) && at.ms <= b->now.ms;
}

static void begin(struct embedded *b)
{
    struct index_state *x = &b->index;
    if (!has_room(b, engine_snapshot_size(b->engine))) {
        struct err why = err_make(ERR_DISK_FULL, "the disk has no room for it");
        fail(b, &why);
        return;
    }
    x->head = (struct index_head){.from = store_number(b->env.store)};
    x->head.nonce[0] = rng_next(&b->env.rng);
    x->head.nonce[1] = rng_next(&b->env.rng);
    facts_of(b, x->head.facts);
    if (!x->has)
        store_hold(b->env.store, x->head.from);
    x->new_bytes = x->new_changes = 0;
    x->new_began = x->next = b->now;
    x->last = b->stopping;
    x->writer = index_writer_new(b->settings.index_dir, !b->settings.index_inline);
    x->phase = INDEX_WALKS;
    engine_snapshot_begin(b->engine);
}

/* The batch that is being built has the last of what it may show, and says whose it is. */
static void walked(struct embedded *b)
{
    struct index_state *x = &b->index;
    struct record_index index = {.nonces = {{x->head.nonce[0], x->head.nonce[1]}}};
    if (x->has)
        index.nonces[1] = (struct id){x->nonce[0], x->nonce[1]};
    record_put_index(&b->building->batch, &index);
    x->head.upto = store_number(b->env.store) + (b->committing != NULL) + 1;
    x->phase = INDEX_COMMITS;
}

static bool may_walk(const struct embedded *b)
{
    const struct index_state *x = &b->index;
    return (b->stopping || x->next.ms <= b->now.ms) && index_writer_has_room(x->writer);
}

static void walk(struct embedded *b)
{
    struct index_state *x = &b->index;
    size_t most = b->settings.index_slice;
    if (!may_walk(b))
        return;
    bool more = engine_snapshot_step(b->engine, most ? most : ENTRIES_PER_TURN, &x->chunk);
    if (!more || x->chunk.len >= CHUNK_BYTES) {
        index_writer_add(x->writer, &x->chunk);
        x->next = instant_add(b->now, (span){b->settings.index_inline ? 0 : CHUNK_MS});
    }
    if (!more)
        walked(b);
}

static void finished(struct embedded *b)
{
    struct index_state *x = &b->index;
    log_info("a snapshot of the indexes was written: %llu jobs, %llu bytes",
             (unsigned long long)engine_snapshot_size(b->engine),
             (unsigned long long)index_writer_bytes(x->writer));
    loaded(b, &x->head);
    x->bytes = x->new_bytes;
    x->changes = x->new_changes;
    x->began = x->new_began;
    x->failing = false;
    x->written++;
    embedded_index_drop(b);
}

static bool is_short_of_room(const struct embedded *b)
{
    return b->free_space >= 0 && (uint64_t)b->free_space < b->settings.min_free_space;
}

/* What one under way should not go on for. */
static struct err obstacle(const struct embedded *b)
{
    if (is_short_of_room(b))
        return err_make(ERR_DISK_FULL, "the disk has no room for it");
    if (b->index.new_bytes > 4 * HELD_BYTES)
        return err_make(ERR_IO, "the disk is too slow for it");
    return err_none();
}

static void go_on(struct embedded *b)
{
    struct index_state *x = &b->index;
    struct err result;
    bool ended = index_writer_has_ended(x->writer, &result);
    if (b->stopping)
        index_writer_hurry(x->writer);
    if (!ended)
        result = obstacle(b);
    if (result.code != ERR_OK)
        fail(b, &result);
    else if (ended)
        finished(b);
    else if (x->phase == INDEX_WALKS)
        walk(b);
    else if (x->phase == INDEX_COMMITS && store_number(b->env.store) >= x->head.upto) {
        index_writer_finish(x->writer, &x->head);
        x->phase = INDEX_ENDS;
    }
}

/* What the store keeps for it could be the room for what is refused now. */
static bool is_too_dear(const struct embedded *b)
{
    uint64_t most = is_short_of_room(b) ? HELD_LOW : 2 * HELD_BYTES;
    return b->index.bytes > most ||
           engine_snapshot_size(b->engine) < b->settings.index_jobs_min / 2;
}

void embedded_index_step(struct embedded *b)
{
    struct index_state *x = &b->index;
    if (!b->settings.index_dir || b->settings.index_off)
        return;
    if (x->has && is_too_dear(b))
        let_go(b);
    if (x->phase != INDEX_IDLE)
        go_on(b);
    else if (is_due(b))
        begin(b);
}

void embedded_index_sealed(struct embedded *b, const struct turn *t)
{
    struct index_state *x = &b->index;
    x->bytes += t->batch.bytes;
    x->new_bytes += t->batch.bytes;
    x->changes += t->batch.count;
    x->new_changes += t->batch.count;
}

/* Of one under way. */
static instant goes_on_at(const struct embedded *b)
{
    const struct index_state *x = &b->index;
    struct err ignored;
    bool now = index_writer_has_ended(x->writer, &ignored) ||
               (x->phase == INDEX_COMMITS && store_number(b->env.store) >= x->head.upto);
    if (x->phase != INDEX_WALKS || now || !index_writer_has_room(x->writer))
        return now ? b->now : instant_add(b->now, (span){LOOK_MS});
    return b->stopping || x->next.ms < b->now.ms ? b->now : x->next;
}

bool embedded_index_due(const struct embedded *b, instant *at)
{
    if (b->index.phase == INDEX_IDLE)
        return is_wanted(b, engine_snapshot_size(b->engine), at) &&
               (!b->stopping || at->ms <= b->now.ms);
    *at = goes_on_at(b);
    return true;
}

bool embedded_index_is_idle(const struct embedded *b)
{
    return !b->stopping || b->health != HEALTH_GOOD || (b->index.phase == INDEX_IDLE && !is_due(b));
}
