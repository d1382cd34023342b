/* SPDX-License-Identifier: Apache-2.0 */
#include "store/log_file.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/must.h"
#include "base/folder.h"
#include "store/log_file_internal.h"
#include "store/log_ring.h"

/* A buffer that became larger than this is freed when its batch is written. */
#define KEEP_MAX ((size_t)8 * 1024 * 1024)

static struct log_file *file_of(struct log *l)
{
    return (struct log_file *)l;
}

/* --- writing; all of it with the lock held, which is let go of meanwhile --- */

static struct slot *slot_of(struct log_file *f, uint64_t number)
{
    return &f->slots[number % LOG_UNDER_WAY_MAX];
}

/* Batches become durable in order. Once one fails, none after it does. */
static void settle(struct log_file *f)
{
    while (f->failed.code == ERR_OK && f->durable < f->appended) {
        struct slot *s = slot_of(f, f->durable + 1);
        if (s->state != SLOT_DONE)
            return;
        if (s->result.code != ERR_OK) {
            f->failed = s->result;
            return;
        }
        s->state = SLOT_IDLE;
        f->durable++;
        if (s->sync)
            f->synced = f->durable;
    }
}

/* What is left of it after so many bytes; called without the lock. */
static void write_from(struct slot *s, size_t from)
{
    s->result =
        log_segment_write(s->segment, s->bytes + from, s->len - from, s->at + from, s->sync);
}

static void end_slot(struct log_file *f, struct slot *s)
{
    if (s->cap > KEEP_MAX) {
        free(s->bytes);
        s->bytes = NULL;
        s->cap = 0;
    }
    s->state = SLOT_DONE;
    settle(f);
    pthread_cond_broadcast(&f->done);
}

static void write_slot(struct log_file *f, struct slot *s)
{
    s->state = SLOT_WRITING;
    pthread_mutex_unlock(&f->lock);
    write_from(s, 0);
    pthread_mutex_lock(&f->lock);
    end_slot(f, s);
    if (f->settings.notify) {
        pthread_mutex_unlock(&f->lock);
        f->settings.notify(f->settings.ctx);
        pthread_mutex_lock(&f->lock);
    }
}

/* Writes the first batch that nobody writes yet; false if there is none. */
static bool write_next(struct log_file *f)
{
    for (uint64_t n = f->durable + 1; f->failed.code == ERR_OK && n <= f->appended; n++) {
        struct slot *s = slot_of(f, n);
        if (s->state != SLOT_QUEUED)
            continue;
        write_slot(f, s);
        return true;
    }
    return false;
}

/* --- by the ring --- */

static void begin_on_ring(struct log_file *f, struct slot *s)
{
    const struct log_segment *to = s->segment;
    bool direct = s->sync && to->direct >= 0;
    s->state = SLOT_WRITING;
    if (log_ring_write(f->settings.ring, direct ? to->direct : to->plain, s->bytes, s->len, s->at,
                       s->sync && !direct, (unsigned)(s - f->slots)))
        return;
    write_slot(f, s);
}

/* The lock is let go of. */
static void end_on_ring(struct log_file *f, struct slot *s, int result)
{
    size_t written = result > 0 ? (size_t)result : 0;
    s->result = err_none();
    if (result < 0 && result != -EINTR && result != -EAGAIN) {
        errno = -result;
        s->result = folder_error("write to", "the log");
    } else if (written < s->len) {
        pthread_mutex_unlock(&f->lock);
        write_from(s, written / LOG_BLOCK * LOG_BLOCK);
        pthread_mutex_lock(&f->lock);
    }
    end_slot(f, s);
}

/* Takes what the ring has ended; with wait there is something under way. */
static void look_at_ring(struct log_file *f, bool wait)
{
    for (;; wait = false) {
        unsigned tag;
        int result;
        pthread_mutex_unlock(&f->lock);
        bool ended = log_ring_next(f->settings.ring, wait, &tag, &result);
        pthread_mutex_lock(&f->lock);
        if (!ended)
            return;
        end_on_ring(f, &f->slots[tag], result);
    }
}

static bool is_written_to(const struct log_file *f)
{
    for (size_t i = 0; i < LOG_UNDER_WAY_MAX; i++)
        if (f->slots[i].state == SLOT_WRITING)
            return true;
    return false;
}

static void *writer(void *ctx)
{
    struct log_file *f = ctx;
    pthread_setname_np(pthread_self(), "log");
    pthread_mutex_lock(&f->lock);
    while (!f->stopping)
        if (!write_next(f))
            pthread_cond_wait(&f->work, &f->lock);
    pthread_mutex_unlock(&f->lock);
    return NULL;
}

/* Until the batch is durable, or never will be. */
static void await(struct log_file *f, uint64_t number)
{
    while (f->durable < number && (f->failed.code == ERR_OK || is_written_to(f))) {
        if (f->settings.threads == 0 && write_next(f))
            continue;
        if (f->settings.ring) {
            look_at_ring(f, true);
            continue;
        }
        if (f->durable < number && (f->failed.code == ERR_OK || is_written_to(f)))
            pthread_cond_wait(&f->done, &f->lock);
    }
}

void log_file_drain(struct log_file *f)
{
    await(f, f->appended);
}

/* --- functions of struct log_vt --- */

static void fill(struct slot *s, const struct log_frame *frame)
{
    size_t size = log_frame_size(frame->contents.len);
    if (s->cap < size) {
        free(s->bytes);
        s->bytes = log_segment_memory(size);
        s->cap = size;
    }
    s->len = size;
    log_frame_write(s->bytes, log_frame_place(s->segment->name, s->at), frame);
}

/* A batch that is synced takes along what was not: that must have reached the system before. */
NODISCARD static struct err prepare(struct log_file *f, size_t size, bool sync)
{
    uint64_t next = f->appended + 1;
    log_file_await_rest(f);
    TRY(f->failed);
    if (next > LOG_UNDER_WAY_MAX)
        await(f, next - LOG_UNDER_WAY_MAX);
    if (sync && f->dirty) {
        log_file_drain(f);
        TRY(f->failed);
        TRY(log_file_clean(f));
    }
    TRY(f->failed);
    return log_file_make_room(f, size);
}

/* Its place, and its bytes. Nobody else looks at it before it is queued, or changes what it is made
 * from. */
static struct slot *take_slot(struct log_file *f, struct str batch, bool sync)
{
    struct slot *s = slot_of(f, f->appended + 1);
    must(s->state == SLOT_IDLE);
    s->segment = f->current;
    s->at = f->at;
    s->number = f->appended + 1;
    s->sync = sync;
    struct log_frame frame = {
        .kind = LOG_BATCH, .generation = f->generation, .number = s->number, .contents = batch};
    log_file_say(f, &frame);
    pthread_mutex_unlock(&f->lock);
    fill(s, &frame);
    pthread_mutex_lock(&f->lock);
    return s;
}

NODISCARD static struct err append(struct log *l, struct str batch, bool sync, bool on_ring,
                                   uint64_t *number)
{
    struct log_file *f = file_of(l);
    size_t size = log_frame_size(batch.len);
    must(!f->read_only);
    pthread_mutex_lock(&f->lock);
    f->appending = true;
    struct err e = prepare(f, size, sync);
    if (e.code == ERR_OK) {
        struct slot *s = take_slot(f, batch, sync);
        f->at += size;
        f->dirty = !sync;
        *number = ++f->appended;
        s->state = SLOT_QUEUED;
        if (on_ring && f->settings.ring && size <= LOG_RING_MAX)
            begin_on_ring(f, s);
        else
            pthread_cond_signal(&f->work);
        log_file_stir(f);
    }
    if (e.code == ERR_DISK_FULL && f->failed.code != ERR_OK)
        e.code = ERR_IO; /* to try it again is of no use */
    f->appending = false;
    pthread_mutex_unlock(&f->lock);
    return e;
}

static struct err file_append(struct log *l, struct str batch, bool sync, uint64_t *number)
{
    return append(l, batch, sync, false, number);
}

static struct err file_begin(struct log *l, struct str batch, bool sync, uint64_t *number)
{
    return append(l, batch, sync, true, number);
}

static bool file_is_ready(const struct log *l, size_t len, bool sync)
{
    struct log_file *f = (struct log_file *)(uintptr_t)l;
    pthread_mutex_lock(&f->lock);
    bool ready = f->failed.code == ERR_OK && f->appended - f->durable < LOG_UNDER_WAY_MAX &&
                 !(sync && f->dirty) && !f->resting && log_file_has_room(f, log_frame_size(len));
    pthread_mutex_unlock(&f->lock);
    return ready;
}

static uint64_t file_durable(struct log *l)
{
    struct log_file *f = file_of(l);
    pthread_mutex_lock(&f->lock);
    if (f->settings.ring)
        look_at_ring(f, false);
    uint64_t number = f->durable;
    pthread_mutex_unlock(&f->lock);
    return number;
}

static uint64_t file_first(struct log *l)
{
    const struct log_file *f = file_of(l);
    must(f->appended == f->found.last);
    return f->found.first ? f->found.first->before + 1 : f->found.last + 1;
}

static bool file_ended(struct log *l, uint64_t number, struct err *result)
{
    struct log_file *f = file_of(l);
    pthread_mutex_lock(&f->lock);
    must(number <= f->appended);
    if (f->settings.ring)
        look_at_ring(f, false);
    bool durable = f->durable >= number;
    *result = durable ? err_none() : f->failed;
    bool ended = durable || (f->failed.code != ERR_OK && !is_written_to(f));
    pthread_mutex_unlock(&f->lock);
    return ended;
}

static struct err file_wait(struct log *l, uint64_t number)
{
    struct log_file *f = file_of(l);
    pthread_mutex_lock(&f->lock);
    must(number <= f->appended);
    await(f, number);
    struct err e = f->durable >= number ? err_none() : f->failed;
    pthread_mutex_unlock(&f->lock);
    return e;
}

static struct err file_replay(struct log *l, uint64_t from, log_replay_fn fn, void *ctx)
{
    struct log_file *f = file_of(l);
    must(f->appended == f->found.last);
    /* The list may grow at any time, by a spare. What is found stays. */
    struct log_recovery found = f->found;
    pthread_mutex_lock(&f->lock);
    found.list = alloc_get(f->count * sizeof *f->list);
    found.count = f->count;
    memcpy(found.list, f->list, f->count * sizeof *f->list);
    pthread_mutex_unlock(&f->lock);
    struct err e = log_recover_replay(&found, from, fn, ctx);
    free(found.list);
    return e;
}

static void file_release(struct log *l, uint64_t number)
{
    struct log_file *f = file_of(l);
    pthread_mutex_lock(&f->lock);
    must(number <= f->durable);
    log_file_let_go(f, number);
    pthread_mutex_unlock(&f->lock);
}

static void stop_threads(struct log_file *f)
{
    pthread_mutex_lock(&f->lock);
    log_file_drain(f);
    if (!f->settings.no_rest)
        log_file_note_rest(f);
    f->stopping = true;
    f->needed = true;
    pthread_cond_broadcast(&f->work);
    pthread_cond_signal(&f->to_maker);
    pthread_cond_signal(&f->to_rester);
    pthread_mutex_unlock(&f->lock);
    for (unsigned i = 0; i < f->thread_count; i++)
        pthread_join(f->threads[i], NULL);
    if (f->has_maker)
        pthread_join(f->maker, NULL);
    if (f->has_rester)
        pthread_join(f->rester, NULL);
}

static void file_close(struct log *l)
{
    struct log_file *f = file_of(l);
    stop_threads(f);
    for (size_t i = 0; i < f->count; i++)
        log_segment_free(f->list[i]);
    for (size_t i = 0; i < LOG_UNDER_WAY_MAX; i++)
        free(f->slots[i].bytes);
    free(f->list);
    free(f->dir);
    pthread_cond_destroy(&f->work);
    pthread_cond_destroy(&f->done);
    pthread_cond_destroy(&f->to_maker);
    pthread_cond_destroy(&f->to_rester);
    pthread_mutex_destroy(&f->lock);
    free(f);
}

/* --- opening --- */

NODISCARD static struct err recover(struct log_file *f)
{
    struct log_recovery *r = &f->found;
    *r = (struct log_recovery){.dir = f->dir,
                               .from = f->settings.from,
                               .keep = f->settings.keep,
                               .reached = f->settings.reached,
                               .found = f->settings.found,
                               .lossy = f->settings.lossy,
                               .unsynced = f->settings.unsynced};
    struct err e =
        log_segment_list(f->dir, f->read_only, f->settings.no_direct, &r->list, &r->count);
    f->list = r->list;
    f->count = r->count;
    TRY(e);
    TRY(log_recover(r));
    for (size_t i = 0; i < f->count; i++)
        if (f->list[i]->name > f->names)
            f->names = f->list[i]->name;
    f->current = r->current;
    f->at = r->at;
    f->generation = r->generation;
    f->newest = r->newest;
    f->appended = f->durable = f->synced = f->rested = r->last;
    return err_none();
}

NODISCARD static struct err start_threads(struct log_file *f)
{
    sigset_t all, before;
    int no = 0;
    must(f->settings.threads <= LOG_UNDER_WAY_MAX);
    /* Signals are for the loop's thread: the threads started here inherit the mask. */
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    while (f->thread_count < f->settings.threads && no == 0) {
        no = pthread_create(&f->threads[f->thread_count], NULL, writer, f);
        f->thread_count += no == 0;
    }
    if (no == 0 && !f->settings.no_maker) {
        no = pthread_create(&f->maker, NULL, log_file_maker, f);
        f->has_maker = no == 0;
    }
    if (no == 0 && !f->settings.no_rest) {
        no = pthread_create(&f->rester, NULL, log_file_rester, f);
        f->has_rester = no == 0;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return no == 0 ? err_none() : err_make(ERR_IO, "cannot start a thread: %s", strerror(no));
}

NODISCARD static struct err begin(struct log_file *f)
{
    TRY(recover(f));
    if (f->read_only)
        return err_none();
    pthread_mutex_lock(&f->lock);
    struct err e = log_file_begin(f);
    pthread_mutex_unlock(&f->lock);
    if (e.code == ERR_OK)
        e = start_threads(f);
    return e;
}

static void init_locks(struct log_file *f)
{
    pthread_condattr_t monotonic;
    pthread_mutex_init(&f->lock, NULL);
    pthread_cond_init(&f->work, NULL);
    pthread_cond_init(&f->done, NULL);
    pthread_cond_init(&f->to_maker, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&f->to_rester, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

NODISCARD static struct err open_log(const struct log_file_settings *settings, bool read_only,
                                     struct log **out)
{
    static const struct log_vt vt = {
        .append = file_append,
        .begin = file_begin,
        .is_ready = file_is_ready,
        .durable = file_durable,
        .first = file_first,
        .ended = file_ended,
        .wait = file_wait,
        .replay = file_replay,
        .release = file_release,
        .close = file_close,
    };
    struct log_file *f = ALLOC(struct log_file);
    f->base.vt = &vt;
    f->settings = *settings;
    f->settings.dir = f->dir = alloc_text(settings->dir, strlen(settings->dir));
    f->read_only = read_only;
    init_locks(f);
    struct err e = begin(f);
    if (e.code != ERR_OK) {
        file_close(&f->base);
        return e;
    }
    *out = &f->base;
    return e;
}

struct err log_file_open(const struct log_file_settings *settings, struct log **out)
{
    return open_log(settings, false, out);
}

struct err log_file_open_reader(const struct log_file_settings *settings, struct log **out)
{
    return open_log(settings, true, out);
}
