/* SPDX-License-Identifier: Apache-2.0 */

/* An idle log says on the disk that all of it is durable: then damage to the last batch is told
 * from a write that was cut off, as it is for the others by what follows them. The note is written
 * once the log has been idle for a moment, so that one who commits again and again need not wait
 * for it, and not again before the next batch. */

#include <time.h>

#include "store/log_file_internal.h"

#define NS_PER_MS ((int64_t)1000000)
#define NS_PER_S  ((int64_t)1000000000)

/* With the lock held, which is let go of meanwhile. */
static void write_note(struct log_file *f)
{
    struct log_frame note = {.kind = LOG_REST, .generation = f->generation, .number = f->appended};
    const struct log_segment *to = f->current;
    uint64_t at = f->at;
    /* Whoever does not sync batches does not wait for this either. */
    bool sync = !f->dirty;
    log_file_say(f, &note);
    f->resting = true;
    pthread_mutex_unlock(&f->lock);
    struct err e = log_segment_put(to, at, &note, sync);
    pthread_mutex_lock(&f->lock);
    f->resting = false;
    f->rested = note.durable;
    /* Where the disk is full nothing is lost by doing without; but a sync that failed may have lost
     * something else. */
    if (e.code != ERR_OK && !(e.code == ERR_DISK_FULL && to->direct >= 0))
        f->failed = e;
    pthread_cond_broadcast(&f->done);
}

static bool has_nothing_under_way(const struct log_file *f)
{
    return f->failed.code == ERR_OK && f->current && !f->appending && !f->resting &&
           f->durable == f->appended;
}

void log_file_note_rest(struct log_file *f)
{
    if (!f->read_only && has_nothing_under_way(f) && f->rested < f->durable)
        write_note(f);
}

void log_file_await_rest(struct log_file *f)
{
    while (f->resting)
        pthread_cond_wait(&f->done, &f->lock);
}

void log_file_rest(struct log *l)
{
    struct log_file *f = (struct log_file *)l;
    pthread_mutex_lock(&f->lock);
    log_file_note_rest(f);
    pthread_mutex_unlock(&f->lock);
}

/* --- the thread --- */

void log_file_stir(struct log_file *f)
{
    if (f->rester_sleeps)
        pthread_cond_signal(&f->to_rester);
}

static void wait_a_moment(struct log_file *f)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    int64_t ns = at.tv_nsec + LOG_REST_MS * NS_PER_MS;
    at.tv_sec += ns / NS_PER_S;
    at.tv_nsec = ns % NS_PER_S;
    while (!f->stopping && pthread_cond_timedwait(&f->to_rester, &f->lock, &at) == 0)
        ;
}

void *log_file_rester(void *ctx)
{
    struct log_file *f = ctx;
    pthread_setname_np(pthread_self(), "log-rest");
    pthread_mutex_lock(&f->lock);
    while (!f->stopping) {
        uint64_t before = f->appended;
        if (f->failed.code != ERR_OK || f->rested >= f->appended) {
            f->rester_sleeps = true;
            pthread_cond_wait(&f->to_rester, &f->lock);
            f->rester_sleeps = false;
            continue;
        }
        wait_a_moment(f);
        if (!f->stopping && f->appended == before)
            log_file_note_rest(f);
    }
    pthread_mutex_unlock(&f->lock);
    return NULL;
}
