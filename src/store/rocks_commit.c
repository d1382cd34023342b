/* SPDX-License-Identifier: Apache-2.0 */

/* Commits: to the log, then to the tables, on a thread of their own. */

#include "base/must.h"
#include "store/batch_bytes.h"
#include "store/rocks_internal.h"

NODISCARD struct err rocks_make_room(struct rocks *r)
{
    TRY(rocks_check_room(r, 0));
    TRY(rocks_flush(r));
    rocks_note(r);
    return err_none();
}

NODISCARD static struct err try_append(struct rocks *r, bool sync, uint64_t *number)
{
    TRY(rocks_check_room(r, SPARE_ROOM + (int64_t)r->bytes.len));
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

/* Every error of the log is ERR_STORE, except for a full disk. */
NODISCARD static struct err write_batch(struct rocks *r, const struct batch *b, bool sync)
{
    uint64_t number;
    batch_bytes_write(b, &r->bytes);
    size_t len = r->bytes.len;
    struct err logged = append(r, sync, &number);
    if (logged.code == ERR_OK)
        logged = log_wait(r->log, number);
    if (logged.code != ERR_OK && logged.code != ERR_DISK_FULL)
        logged.code = ERR_STORE;
    TRY(logged);
    if (sync)
        r->reached = number;
    r->committed = number;
    if (len > ROCKS_KEEP_MAX)
        buf_fini(&r->bytes);
    return rocks_apply(r, b, number, len);
}

/* Commits r->batch. Called without the lock: until it has ended, nobody else changes what this
 * reads. */
static void commit_batch(struct rocks *r)
{
    if (r->broken) {
        r->result = err_make(ERR_STORE, "the store has failed and was not reopened yet");
        return;
    }
    r->result = write_batch(r, r->batch, r->sync);
    r->broken = r->result.code != ERR_OK;
    r->failure = r->result;
    if (!r->broken)
        rocks_note_commit(r);
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
        r->phase = ENDED;
        pthread_cond_signal(&r->to_loop);
        pthread_mutex_unlock(&r->lock);
        r->notify(r->ctx);
        pthread_mutex_lock(&r->lock);
    }
    pthread_mutex_unlock(&r->lock);
    return NULL;
}

void rocks_commit(struct store *s, const struct batch *b, bool sync)
{
    struct rocks *r = rocks_of(s);
    pthread_mutex_lock(&r->lock);
    must(r->phase == IDLE);
    r->batch = b;
    r->sync = sync;
    r->phase = UNDER_WAY;
    pthread_cond_signal(&r->to_thread);
    pthread_mutex_unlock(&r->lock);
}

bool rocks_reap(struct store *s, struct err *result)
{
    struct rocks *r = rocks_of(s);
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
    pthread_mutex_lock(&r->lock);
    while (r->phase == UNDER_WAY)
        pthread_cond_wait(&r->to_loop, &r->lock);
    pthread_mutex_unlock(&r->lock);
}

void rocks_wait(struct store *s)
{
    struct rocks *r = rocks_of(s);
    pthread_mutex_lock(&r->lock);
    must(r->phase != IDLE);
    pthread_mutex_unlock(&r->lock);
    rocks_await_end(r);
}
