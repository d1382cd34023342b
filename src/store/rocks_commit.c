/* SPDX-License-Identifier: Apache-2.0 */

/* Commits: to the log, then to the tables. A small one is begun and ended by the loop itself, and
 * written by the kernel meanwhile (log_ring.h): to wake a thread and be woken by it takes as long
 * as the disk. All that may block is for a thread: large batches, a log or a table that has to be
 * made ready, the inventory.
 *
 * What the log has is durable, and may be acknowledged while the tables lack it. Whoever is told so
 * may look for it: so cursors and snapshots wait for the tables. */

#include "base/must.h"
#include "store/batch_bytes.h"
#include "store/log_file.h"
#include "store/log_frame.h"
#include "store/rocks_internal.h"

/* Of a batch that the loop itself brings to the tables, in some tens of microseconds. */
#define SMALL_OPS   ((size_t)24)
#define SMALL_BYTES ((size_t)16 * 1024)
/* Of a batch that is said to be durable while the thread brings it to the tables: a cursor may have
 * to wait for that, some milliseconds at most. */
#define ANNOUNCED_BYTES ((size_t)512 * 1024)

NODISCARD struct err rocks_make_room(struct rocks *r)
{
    TRY(rocks_check_room(r, 0));
    TRY(rocks_flush(r));
    rocks_note(r);
    return err_none();
}

NODISCARD static struct err try_append(struct rocks *r, bool sync, uint64_t *number)
{
    TRY(rocks_check_room_to_commit(r, SPARE_ROOM + (int64_t)r->bytes.len));
    return log_append(r->log, buf_view(&r->bytes), sync, number);
}

/* If the disk has no room, it is as if the batch had never come. */
NODISCARD static struct err append(struct rocks *r, bool sync, uint64_t *number)
{
    atomic_store(&r->pending, r->bytes.len);
    struct err e = try_append(r, sync, number);
    if (e.code == ERR_DISK_FULL && rocks_make_room(r).code == ERR_OK)
        e = try_append(r, sync, number);
    r->refused = e.code == ERR_DISK_FULL;
    return e;
}

/* Every error of the log is ERR_STORE, except for a full disk, and what only PostgreSQL says. */
static struct err err_of_log(struct err e)
{
    switch (e.code) {
    case ERR_OK:
    case ERR_DISK_FULL:
    case ERR_FENCED:
    case ERR_POSTGRES:
    case ERR_POSTGRES_LOST:
    case ERR_POSTGRES_REFUSED:
        break;
    default:
        e.code = ERR_STORE;
    }
    return e;
}

static void note_logged(struct rocks *r, uint64_t number)
{
    if (r->sync)
        r->reached = number;
    r->committed = number;
}

NODISCARD static struct err apply(struct rocks *r)
{
    size_t len = r->bytes.len;
    if (len > ROCKS_KEEP_MAX)
        buf_fini(&r->bytes);
    return rocks_apply(r, r->batch, r->committed, len);
}

NODISCARD static struct err write_batch(struct rocks *r)
{
    uint64_t number;
    batch_bytes_write(r->batch, &r->bytes);
    struct err logged = append(r, r->sync, &number);
    if (logged.code == ERR_OK) {
        logged = log_wait(r->log, number);
        rocks_foreign_judge(r, &logged);
    }
    TRY(err_of_log(logged));
    note_logged(r, number);
    bool early = r->batch->bytes <= ANNOUNCED_BYTES;
    pthread_mutex_lock(&r->lock);
    r->in_log = early;
    pthread_mutex_unlock(&r->lock);
    if (early)
        r->notify(r->ctx);
    return apply(r);
}

static void end(struct rocks *r, struct err result)
{
    r->result = result;
    r->broken = result.code != ERR_OK;
    r->failure = result;
}

/* Commits r->batch, or what is left of that. Called without the lock: until it has ended, nobody
 * else changes what this reads. */
static void commit_batch(struct rocks *r)
{
    if (r->broken) {
        r->result = err_make(ERR_STORE, "the store has failed and was not reopened yet");
        return;
    }
    end(r, r->in_log ? apply(r) : write_batch(r));
    if (!r->broken && r->foreign)
        rocks_foreign_note(r);
    else if (!r->broken)
        rocks_note_commit(r);
}

/* With the lock. */
static void to_end(struct rocks *r)
{
    r->phase = ENDED;
    r->announced = false;
    r->ended++;
    pthread_cond_broadcast(&r->to_loop);
}

void *rocks_commit_thread(void *arg)
{
    pthread_setname_np(pthread_self(), "commit");
    struct rocks *r = arg;
    pthread_mutex_lock(&r->lock);
    for (;;) {
        while (r->phase != UNDER_WAY && !r->stopping)
            pthread_cond_wait(&r->to_thread, &r->lock);
        if (r->phase != UNDER_WAY)
            break;
        pthread_mutex_unlock(&r->lock);
        commit_batch(r);
        pthread_mutex_lock(&r->lock);
        to_end(r);
        pthread_mutex_unlock(&r->lock);
        r->notify(r->ctx);
        pthread_mutex_lock(&r->lock);
    }
    pthread_mutex_unlock(&r->lock);
    return NULL;
}

static enum phase phase_of(struct rocks *r)
{
    pthread_mutex_lock(&r->lock);
    enum phase phase = r->phase;
    pthread_mutex_unlock(&r->lock);
    return phase;
}

static void set_phase(struct rocks *r, enum phase phase)
{
    pthread_mutex_lock(&r->lock);
    if (phase == ENDED)
        to_end(r);
    r->phase = phase;
    if (phase == UNDER_WAY)
        pthread_cond_signal(&r->to_thread);
    pthread_mutex_unlock(&r->lock);
}

/* --- by the loop --- */

/* Whether nothing of it would block. The tables' answer may have changed by then:
 * rocks_try_apply. */
static bool is_for_loop(struct rocks *r)
{
    const struct batch *b = r->batch;
    return r->ring && !r->broken && b->count <= SMALL_OPS && b->bytes <= SMALL_BYTES &&
           !rocks_note_is_due(r);
}

/* False: nothing was begun, and it is for the thread. */
static bool begin_on_loop(struct rocks *r)
{
    if (!is_for_loop(r))
        return false;
    batch_bytes_write(r->batch, &r->bytes);
    size_t len = r->bytes.len;
    atomic_store(&r->pending, len);
    r->refused = false;
    return log_frame_size(len) <= LOG_RING_MAX && log_is_ready(r->log, len, r->sync) &&
           !rocks_log_is_full(r, len) &&
           rocks_check_room_to_commit(r, SPARE_ROOM + (int64_t)len).code == ERR_OK &&
           log_begin(r->log, buf_view(&r->bytes), r->sync, &r->logging).code == ERR_OK;
}

/* The log has it, or has failed. */
static void end_of_log(struct rocks *r, struct err logged)
{
    struct err e = err_of_log(logged);
    if (e.code != ERR_OK) {
        end(r, e);
        set_phase(r, ENDED);
        return;
    }
    note_logged(r, r->logging);
    r->in_log = true;
    set_phase(r, LOGGED);
}

/* What the tables cannot take at once is left to the thread. */
static void apply_on_loop(struct rocks *r)
{
    struct err e = err_none();
    if (!rocks_try_apply(r, r->batch, r->committed, r->bytes.len, &e)) {
        set_phase(r, UNDER_WAY);
        return;
    }
    r->unnoted++;
    end(r, e);
    set_phase(r, ENDED);
}

static void look_at_log(struct rocks *r)
{
    struct err logged;
    if (phase_of(r) == LOGGING && log_ended(r->log, r->logging, &logged))
        end_of_log(r, logged);
}

void rocks_commit(struct store *s, const struct batch *b, bool sync)
{
    struct rocks *r = rocks_of(s);
    must(phase_of(r) == IDLE);
    r->batch = b;
    r->sync = sync;
    r->in_log = false;
    set_phase(r, begin_on_loop(r) ? LOGGING : UNDER_WAY);
}

bool rocks_is_durable(struct store *s)
{
    struct rocks *r = rocks_of(s);
    look_at_log(r);
    pthread_mutex_lock(&r->lock);
    r->announced = r->phase == LOGGED || (r->phase == UNDER_WAY && r->in_log);
    bool durable = r->announced;
    pthread_mutex_unlock(&r->lock);
    return durable;
}

bool rocks_reap(struct store *s, struct err *result)
{
    struct rocks *r = rocks_of(s);
    look_at_log(r);
    if (phase_of(r) == LOGGED)
        apply_on_loop(r);
    pthread_mutex_lock(&r->lock);
    bool ended = r->phase == ENDED;
    if (ended) {
        *result = r->result;
        r->phase = IDLE;
        if (r->result.code == ERR_OK)
            r->number = r->committed;
    }
    pthread_mutex_unlock(&r->lock);
    return ended;
}

void rocks_await_end(struct rocks *r)
{
    if (phase_of(r) == LOGGING)
        end_of_log(r, log_wait(r->log, r->logging));
    if (phase_of(r) == LOGGED)
        apply_on_loop(r);
    pthread_mutex_lock(&r->lock);
    while (r->phase == UNDER_WAY)
        pthread_cond_wait(&r->to_loop, &r->lock);
    pthread_mutex_unlock(&r->lock);
}

void rocks_catch_up(struct rocks *r)
{
    pthread_mutex_lock(&r->lock);
    bool announced = r->announced;
    pthread_mutex_unlock(&r->lock);
    if (announced)
        rocks_await_end(r);
}

void rocks_await_tables(struct rocks *r)
{
    pthread_mutex_lock(&r->lock);
    uint64_t before = r->ended;
    while (r->announced && r->ended == before)
        pthread_cond_wait(&r->to_loop, &r->lock);
    pthread_mutex_unlock(&r->lock);
}

void rocks_wait(struct store *s)
{
    struct rocks *r = rocks_of(s);
    must(phase_of(r) != IDLE);
    rocks_await_end(r);
}

int rocks_wake_fd(const struct store *s)
{
    const struct rocks *r = (const struct rocks *)s;
    return r->ring ? log_ring_fd(r->ring) : -1;
}
