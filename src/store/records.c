/* SPDX-License-Identifier: Apache-2.0 */
#include "store/records.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/log.h"
#include "postgres/pg_array.h"
#include "postgres/pg_log.h"
#include "store/batch.h"
#include "store/batch_bytes.h"
#include "store/bloom.h"
#include "store/row_sum.h"

#define FLUSH_AFTER_MS 5000
#define LOG_BYTES      ((uint64_t)64 << 20)

/* Of a part: keys are read until there are so many, in steps of so many batches. */
#define PART_KEYS    ((size_t)100000)
#define PART_BATCHES 128
/* What one statement writes: it holds off another server that takes the shard. */
#define WRITE_KEYS  ((size_t)2000)
#define WRITE_BYTES ((size_t)512 * 1024)

struct sample {
    uint64_t upto;
    int64_t at; /* by PostgreSQL's clock */
    mono when;
};

struct records {
    struct records_settings settings;
    pthread_t thread;
    pthread_mutex_t lock; /* of stopping and state */
    pthread_cond_t wake;
    bool stopping;
    struct records_state state;
    struct sample shown; /* records show everything up to it */
    /* The thread's. */
    struct pg *pg;
    struct sample last;
    struct bloom *bloom; /* of keys that may be in records */
    uint64_t unknown;    /* of batches up to this one it does not know the keys */
    struct batch keys;   /* of a part: deletes */
    uint64_t part, next; /* its first batch; the next one to be read */
    struct pg_array put, values, sums, gone;
    struct buf value;
};

/* --- stopping --- */

static bool is_stopping(struct records *r)
{
    pthread_mutex_lock(&r->lock);
    bool stopping = r->stopping;
    pthread_mutex_unlock(&r->lock);
    return stopping;
}

NODISCARD static struct err check_stopping(struct records *r)
{
    return is_stopping(r) ? err_make(ERR_STOPPING, "the store is being closed") : err_none();
}

/* What PostgreSQL is asked may take its time, until the store closes. */
static mono until(void *ctx)
{
    struct records *r = ctx;
    mono now = pg_now();
    if (is_stopping(r))
        return now;
    span s = r->settings.pg.timeout;
    return pg_after(now, s.ms ? s : (span){10000});
}

static void rest(struct records *r, span s)
{
    mono end = pg_after(pg_now(), s);
    struct timespec at = {end.ns / 1000000000, end.ns % 1000000000};
    pthread_mutex_lock(&r->lock);
    while (!r->stopping && pthread_cond_timedwait(&r->wake, &r->lock, &at) == 0)
        ;
    pthread_mutex_unlock(&r->lock);
}

/* --- the keys that may be in records --- */

static struct err add_key(void *to, struct str key)
{
    struct records *r = to;
    bloom_add(r->bloom, key);
    return is_stopping(r) ? err_make(ERR_STOPPING, "the store is being closed") : err_none();
}

/* Anew, of all keys here, until it has room for them. */
NODISCARD static struct err make_bloom(struct records *r)
{
    while (!r->bloom || bloom_is_full(r->bloom)) {
        size_t room = r->bloom ? 2 * bloom_count(r->bloom) : 0;
        bloom_free(r->bloom);
        r->bloom = bloom_new(room);
        struct err e = r->settings.each(r->settings.ctx, add_key, r);
        if (e.code != ERR_OK) {
            bloom_free(r->bloom);
            r->bloom = NULL;
            return e;
        }
        r->unknown = r->settings.upto(r->settings.ctx);
    }
    return err_none();
}

/* --- writing --- */

static size_t waiting(const struct records *r)
{
    return (size_t)r->put.count + r->gone.count;
}

NODISCARD static struct err write_out(struct records *r)
{
    const struct records_settings *s = &r->settings;
    if (waiting(r) == 0)
        return err_none();
    TRY(check_stopping(r));
    const struct pg_records_change change = {pg_array_view(&r->put), pg_array_view(&r->values),
                                             pg_array_view(&r->sums), pg_array_view(&r->gone)};
    TRY(pg_records_flush(r->pg, s->shard, s->epoch, &change));
    pthread_mutex_lock(&r->lock);
    r->state.written += r->put.count;
    r->state.removed += r->gone.count;
    pthread_mutex_unlock(&r->lock);
    pg_array_reset(&r->put);
    pg_array_reset(&r->values);
    pg_array_reset(&r->sums);
    pg_array_reset(&r->gone);
    return err_none();
}

NODISCARD static struct err write_key(struct records *r, struct str key)
{
    bool found;
    TRY(r->settings.get(r->settings.ctx, key, &found, &r->value));
    if (found) {
        bloom_add(r->bloom, key);
        pg_array_add(&r->put, key);
        pg_array_add(&r->values, buf_view(&r->value));
        char sum[ROW_SUM_LEN];
        row_sum_of_record(key, buf_view(&r->value), sum);
        pg_array_add(&r->sums, (struct str){sum, sizeof sum});
    } else if (r->part <= r->unknown || bloom_has(r->bloom, key)) {
        pg_array_add(&r->gone, key);
    }
    bool full = waiting(r) >= WRITE_KEYS || r->values.bytes.len >= WRITE_BYTES;
    return full ? write_out(r) : err_none();
}

/* --- a part of what has changed --- */

static struct err read_op(void *ctx, const struct batch_op *op)
{
    struct records *r = ctx;
    batch_delete(&r->keys, op->key);
    return err_none();
}

static struct err read_batch(void *ctx, const struct pg_log_row *row)
{
    struct records *r = ctx;
    if (row->seq == r->next && !row_sum_is_right(row))
        return err_make(ERR_CORRUPT, "batch %llu in PostgreSQL's log does not have its checksum",
                        (unsigned long long)r->next);
    if (row->seq != r->next)
        return err_make(ERR_CORRUPT, "batch %llu is missing in PostgreSQL's log",
                        (unsigned long long)r->next);
    r->next++;
    return batch_bytes_read(row->batch, read_op, r);
}

NODISCARD static struct err read_part(struct records *r, uint64_t upto)
{
    batch_reset(&r->keys);
    r->part = r->next;
    while (r->next <= upto && r->keys.count < PART_KEYS) {
        uint64_t before = r->next;
        TRY(check_stopping(r));
        const struct pg_log_part part = {before, upto, PART_BATCHES};
        TRY(pg_log_some(r->pg, r->settings.shard, &part, read_batch, r));
        if (r->next == before)
            return err_make(ERR_CORRUPT, "batch %llu is missing in PostgreSQL's log",
                            (unsigned long long)before);
    }
    return err_none();
}

NODISCARD static struct err flush_part(struct records *r, uint64_t upto)
{
    TRY(read_part(r, upto));
    for (size_t i = 0; i < r->keys.count; i++)
        TRY(write_key(r, r->keys.ops[i].key));
    return write_out(r);
}

static void forget_part(struct records *r)
{
    batch_reset(&r->keys);
    pg_array_reset(&r->put);
    pg_array_reset(&r->values);
    pg_array_reset(&r->sums);
    pg_array_reset(&r->gone);
}

NODISCARD static struct err note_flushed(struct records *r, const struct sample *to)
{
    uint64_t seq = r->next - 1;
    bool all = seq >= to->upto;
    TRY(pg_log_flushed(r->pg, r->settings.shard, r->settings.epoch, seq, all ? to->at : 0));
    pthread_mutex_lock(&r->lock);
    r->state.flushed = seq;
    if (all)
        r->shown = *to;
    pthread_mutex_unlock(&r->lock);
    return err_none();
}

/* Records come to show everything up to the sample. */
NODISCARD static struct err flush_upto(struct records *r, const struct sample *to)
{
    struct err e = err_none();
    TRY(make_bloom(r));
    r->next = r->state.flushed + 1;
    do {
        e = flush_part(r, to->upto);
        if (e.code == ERR_OK)
            e = note_flushed(r, to);
    } while (e.code == ERR_OK && r->next <= to->upto);
    forget_part(r);
    return e;
}

/* --- the log --- */

NODISCARD static struct err keep_log_small(struct records *r)
{
    const struct records_settings *s = &r->settings;
    uint64_t all, current, most = s->log_bytes ? s->log_bytes : LOG_BYTES;
    TRY(pg_log_let_go(r->pg, s->shard, s->epoch, s->held(s->ctx)));
    TRY(pg_log_size(r->pg, s->shard, &all, &current));
    pthread_mutex_lock(&r->lock);
    r->state.log_bytes = all;
    pthread_mutex_unlock(&r->lock);
    bool rotated = false;
    if (current >= most)
        TRY(pg_log_rotate(r->pg, s->shard, s->epoch, &rotated));
    if (rotated)
        s->rotated(s->ctx);
    return err_none();
}

/* --- the thread --- */

/* A crash of PostgreSQL's may forget what it has written here last, but not in another order: the
 * log is emptied by a statement that waits for the disk. */
NODISCARD static struct err connect(struct records *r)
{
    if (r->pg)
        return err_none();
    TRY(pg_open(&r->settings.pg, &r->pg));
    pg_until_asked(r->pg, until, r);
    return pg_script(r->pg, "SET synchronous_commit = off");
}

/* The clock is asked before the number: what was acknowledged before that moment is in it. */
NODISCARD static struct err take_sample(struct records *r, struct sample *out)
{
    out->when = pg_now();
    TRY(pg_log_clock(r->pg, &out->at));
    out->upto = r->settings.upto(r->settings.ctx);
    return err_none();
}

NODISCARD static struct err once(struct records *r)
{
    struct sample now;
    TRY(connect(r));
    if (r->last.upto >= r->state.flushed && r->last.when.ns)
        TRY(flush_upto(r, &r->last));
    TRY(take_sample(r, &now));
    r->last = now;
    return keep_log_small(r);
}

/* False: it is of no use to try again. */
static bool note_result(struct records *r, struct err e)
{
    bool over = e.code == ERR_STOPPING || e.code == ERR_FENCED || e.code == ERR_POSTGRES_LOST;
    pthread_mutex_lock(&r->lock);
    bool again = r->state.failure.code == e.code, stopping = r->stopping;
    r->state.failure = e;
    pthread_mutex_unlock(&r->lock);
    if (e.code != ERR_OK) {
        pg_close(r->pg);
        r->pg = NULL;
        if (!again && !stopping)
            log_warn("records in PostgreSQL are not brought up to date: %s", e.msg);
    }
    return !over;
}

static void *run(void *arg)
{
    struct records *r = arg;
    span between = r->settings.flush_after.ms ? r->settings.flush_after : (span){FLUSH_AFTER_MS};
    pthread_setname_np(pthread_self(), "records");
    while (!is_stopping(r) && note_result(r, once(r)))
        rest(r, between);
    pg_close(r->pg);
    r->pg = NULL;
    return NULL;
}

void records_state(struct records *r, struct records_state *out)
{
    uint64_t upto = r->settings.upto(r->settings.ctx);
    pthread_mutex_lock(&r->lock);
    *out = r->state;
    bool all = out->flushed >= upto;
    out->lag = (span){all ? 0 : (pg_now().ns - r->shown.when.ns) / 1000000};
    pthread_mutex_unlock(&r->lock);
}

static void fini(struct records *r)
{
    bloom_free(r->bloom);
    batch_fini(&r->keys);
    pg_array_fini(&r->put);
    pg_array_fini(&r->values);
    pg_array_fini(&r->sums);
    pg_array_fini(&r->gone);
    buf_fini(&r->value);
    pthread_cond_destroy(&r->wake);
    pthread_mutex_destroy(&r->lock);
    free(r);
}

static void init_wake(struct records *r)
{
    pthread_condattr_t a;
    pthread_condattr_init(&a);
    pthread_condattr_setclock(&a, CLOCK_MONOTONIC);
    pthread_cond_init(&r->wake, &a);
    pthread_condattr_destroy(&a);
}

struct err records_new(const struct records_settings *settings, uint64_t flushed,
                       struct records **out)
{
    struct records *r = ALLOC(struct records);
    r->settings = *settings;
    r->settings.pg.purpose = "records";
    r->state.flushed = flushed;
    r->shown.when = pg_now();
    pthread_mutex_init(&r->lock, NULL);
    init_wake(r);
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    int no = pthread_create(&r->thread, NULL, run, r);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (no != 0) {
        fini(r);
        return err_make(ERR_IO, "cannot start a thread: %s", strerror(no));
    }
    *out = r;
    return err_none();
}

void records_free(struct records *r)
{
    if (!r)
        return;
    pthread_mutex_lock(&r->lock);
    r->stopping = true;
    pthread_cond_signal(&r->wake);
    pthread_mutex_unlock(&r->lock);
    pthread_join(r->thread, NULL);
    fini(r);
}
