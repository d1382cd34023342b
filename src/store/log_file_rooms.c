/* SPDX-License-Identifier: Apache-2.0 */

/* The segments of the log in files: which is written to, which are spare, which come next. */

#include <unistd.h>

#include "base/alloc.h"
#include "base/must.h"
#include "base/folder.h"
#include "base/release.h"
#include "store/log_file_internal.h"

#define SIZE_FIRST   ((uint64_t)1024 * 1024)
#define SIZE_LARGEST ((uint64_t)64 * 1024 * 1024)
#define GROWTH       4
/* The first frame, a small batch, and the seal. */
#define SIZE_LEAST (3 * LOG_BLOCK)

static uint64_t whole_blocks(uint64_t bytes)
{
    return (bytes + LOG_BLOCK - 1) / LOG_BLOCK * LOG_BLOCK;
}

static uint64_t largest(const struct log_file *f)
{
    uint64_t v = f->settings.segment_bytes_max;
    return whole_blocks(v ? v : SIZE_LARGEST);
}

/* Of the segment after the current one. */
static uint64_t next_size(const struct log_file *f)
{
    uint64_t first = f->settings.segment_bytes ? f->settings.segment_bytes : SIZE_FIRST;
    uint64_t size = f->current ? f->current->size * GROWTH : whole_blocks(first);
    return size < largest(f) ? size : largest(f);
}

static void add(struct log_file *f, struct log_segment *s)
{
    f->list = alloc_resize(f->list, (f->count + 1) * sizeof *f->list);
    f->list[f->count++] = s;
}

/* To free it all takes time, which a commit would wait for. */
static void drop(struct log_file *f, size_t i)
{
    int fd = log_segment_remove(f->dir, f->list[i]);
    f->list[i] = f->list[--f->count];
    if (f->has_maker && f->leaving_count < LOG_LEAVING_MAX && release_takes_time(fd)) {
        f->leaving[f->leaving_count++] = fd;
        pthread_cond_signal(&f->to_maker);
    } else {
        close(fd);
    }
}

/* Makes a file; meanwhile others go on. */
NODISCARD static struct err make(struct log_file *f, uint64_t size,
                                 const struct log_segment_pace *pace, struct log_segment **out)
{
    uint64_t name = ++f->names;
    pthread_mutex_unlock(&f->lock);
    struct err e = f->settings.may_grow ? f->settings.may_grow(f->settings.ctx, size) : err_none();
    if (e.code == ERR_OK)
        e = log_segment_make(f->dir, name, size, f->settings.no_direct, pace, out);
    pthread_mutex_lock(&f->lock);
    if (e.code == ERR_OK)
        add(f, *out);
    return e;
}

/* The largest that is free, if it is large enough. */
static struct log_segment *find_free(const struct log_file *f, uint64_t need)
{
    struct log_segment *best = NULL;
    for (size_t i = 0; i < f->count; i++) {
        struct log_segment *s = f->list[i];
        if (s->free && s->size >= need && (!best || s->size > best->size))
            best = s;
    }
    return best;
}

NODISCARD static struct err get_free(struct log_file *f, uint64_t need, struct log_segment **out)
{
    while (f->making && !find_free(f, need)) {
        f->hurry = true;
        pthread_cond_wait(&f->done, &f->lock);
    }
    *out = find_free(f, need);
    if (*out)
        return err_none();
    uint64_t usual = next_size(f), least = need > SIZE_FIRST ? need : SIZE_FIRST;
    for (uint64_t size = usual > need ? usual : need;;) {
        struct err e = make(f, size, NULL, out);
        /* Where the disk is nearly full a small one does. */
        if (e.code != ERR_DISK_FULL || size <= least)
            return e;
        size = size / GROWTH > least ? whole_blocks(size / GROWTH) : least;
    }
}

/* --- the next segment --- */

void log_file_say(const struct log_file *f, struct log_frame *frame)
{
    frame->durable = f->durable;
    frame->synced = f->synced;
}

/* A frame of the log itself: it is on the disk before anything relies on it. */
NODISCARD static struct err put(struct log_file *f, const struct log_segment *s, uint64_t at,
                                struct log_frame *frame)
{
    log_file_say(f, frame);
    f->rested = frame->durable;
    pthread_mutex_unlock(&f->lock);
    struct err e = log_segment_put(s, at, frame, true);
    pthread_mutex_lock(&f->lock);
    if (e.code != ERR_OK)
        f->failed = e;
    return e;
}

NODISCARD static struct err start_segment(struct log_file *f, struct log_segment *s)
{
    struct log_frame head = {.kind = LOG_SEGMENT,
                             .generation = f->newest + 1,
                             .number = f->appended,
                             .other = f->generation,
                             .size = s->size};
    TRY(put(f, s, 0, &head));
    s->free = false;
    s->generation = f->newest = head.generation;
    s->other = f->generation;
    s->before = s->last = f->appended;
    return err_none();
}

static void go_on_in(struct log_file *f, struct log_segment *s)
{
    f->current = s;
    f->at = LOG_BLOCK;
    f->generation = s->generation;
    f->dirty = false;
    f->wanted = 0;
    pthread_cond_signal(&f->to_maker);
}

struct err log_file_clean(struct log_file *f)
{
    if (!f->dirty)
        return err_none();
    pthread_mutex_unlock(&f->lock);
    struct err e = log_segment_sync(f->current);
    pthread_mutex_lock(&f->lock);
    f->dirty = e.code != ERR_OK;
    if (e.code != ERR_OK)
        f->failed = e;
    else
        f->synced = f->durable;
    return e;
}

/* The new one is there before the seal names it. */
NODISCARD static struct err change_segment(struct log_file *f, uint64_t need)
{
    struct log_segment *next, *old = f->current;
    log_file_drain(f);
    TRY(f->failed);
    TRY(get_free(f, need, &next));
    TRY(log_file_clean(f));
    TRY(start_segment(f, next));
    struct log_frame seal = {.kind = LOG_SEAL,
                             .generation = f->generation,
                             .number = f->appended,
                             .other = next->generation};
    TRY(put(f, old, f->at, &seal));
    old->last = f->appended;
    go_on_in(f, next);
    return err_none();
}

/* Once half of the segment is used, the next one is made. */
static void order_spare(struct log_file *f)
{
    if (f->wanted || f->at < f->current->size / 2 || find_free(f, SIZE_LEAST))
        return;
    f->wanted = next_size(f);
    f->needed = true;
    pthread_cond_signal(&f->to_maker);
}

bool log_file_has_room(const struct log_file *f, size_t size)
{
    return f->at + size + LOG_BLOCK <= f->current->size;
}

struct err log_file_make_room(struct log_file *f, size_t size)
{
    if (!log_file_has_room(f, size))
        TRY(change_segment(f, 2 * LOG_BLOCK + size));
    order_spare(f);
    return err_none();
}

/* Of the second half of the current segment not more may be used than half of what is written of
 * the spare: so that is there in time. */
static bool may_rest(void *ctx, uint64_t written)
{
    struct log_file *f = ctx;
    pthread_mutex_lock(&f->lock);
    uint64_t half = f->current->size / 2;
    uint64_t used = f->at > half ? f->at - half : 0;
    bool in_time = written * half >= 2 * used * f->wanted;
    bool may = in_time && !f->hurry && !f->stopping;
    pthread_mutex_unlock(&f->lock);
    return may;
}

static void release_one(struct log_file *f)
{
    int fd = f->leaving[--f->leaving_count];
    f->needed = f->wanted || f->stopping;
    pthread_mutex_unlock(&f->lock);
    release_file(fd, &f->needed);
    pthread_mutex_lock(&f->lock);
}

/* If it fails, who needs the segment tries again and says so. Until then it stays wanted, so that a
 * full disk is not asked with every append. */
static void make_wanted(struct log_file *f)
{
    const struct log_segment_pace pace = {may_rest, f};
    struct log_segment *made;
    f->making = true;
    f->hurry = false;
    f->needed = false;
    struct err e = make(f, f->wanted, &pace, &made);
    f->making = false;
    pthread_cond_broadcast(&f->done);
    while (e.code != ERR_OK && f->wanted && !f->stopping)
        if (f->leaving_count > 0)
            release_one(f);
        else
            pthread_cond_wait(&f->to_maker, &f->lock);
    f->wanted = 0;
}

void *log_file_maker(void *ctx)
{
    struct log_file *f = ctx;
    pthread_setname_np(pthread_self(), "log-spare");
    pthread_mutex_lock(&f->lock);
    while (!f->stopping)
        if (f->wanted)
            make_wanted(f);
        else if (f->leaving_count > 0)
            release_one(f);
        else
            pthread_cond_wait(&f->to_maker, &f->lock);
    while (f->leaving_count > 0)
        release_one(f);
    pthread_mutex_unlock(&f->lock);
    return NULL;
}

/* --- the beginning --- */

NODISCARD static struct err begin_first(struct log_file *f)
{
    struct log_segment *s;
    TRY(get_free(f, SIZE_LEAST, &s));
    TRY(start_segment(f, s));
    go_on_in(f, s);
    return err_none();
}

/* What is found behind the end, and was not acknowledged, is not of the new generation. */
NODISCARD static struct err mark(struct log_file *f)
{
    struct log_frame frame = {.kind = LOG_MARK,
                              .generation = f->newest + 1,
                              .number = f->appended,
                              .other = f->generation};
    TRY(put(f, f->current, f->at, &frame));
    f->generation = f->newest = frame.generation;
    f->at += LOG_BLOCK;
    return err_none();
}

/* Only what was in use once, or never, may be used again: anything else could be mistaken for a
 * part of the log by the next opening. */
static void sweep(struct log_file *f, bool all)
{
    for (size_t i = f->count; i > 0; i--) {
        const struct log_segment *s = f->list[i - 1];
        bool keep = s->head == LOG_HEAD_BLANK || s->head == LOG_HEAD_USED;
        if (s->free && (all || !keep || s->file_size < s->size || s->size < SIZE_LEAST))
            drop(f, i - 1);
    }
}

struct err log_file_begin(struct log_file *f)
{
    size_t before = f->count;
    sweep(f, f->found.lost);
    if (f->count != before)
        TRY(folder_sync(f->dir));
    if (!f->current)
        return begin_first(f);
    if (f->found.lost)
        TRY(log_segment_wipe(f->current, f->at)); /* or it would be found again */
    if (f->at + 2 * LOG_BLOCK > f->current->size)
        return change_segment(f, SIZE_LEAST);
    return mark(f);
}

/* --- letting go --- */

/* The largest are kept, those of unusual size never. */
static void trim(struct log_file *f)
{
    for (;;) {
        size_t spares = 0, worst = f->count;
        for (size_t i = 0; i < f->count; i++) {
            const struct log_segment *s = f->list[i];
            if (!s->free)
                continue;
            spares++;
            bool odd = s->size > largest(f);
            if (worst == f->count || odd || s->size < f->list[worst]->size)
                worst = i;
            if (odd) {
                spares = LOG_SPARES_MAX + 1;
                break;
            }
        }
        if (spares <= LOG_SPARES_MAX)
            return;
        drop(f, worst);
    }
}

/* The one before the current stays until that has a batch of its own: by it the next opening knows
 * that the current one is in use. */
void log_file_let_go(struct log_file *f, uint64_t number)
{
    for (size_t i = 0; i < f->count; i++) {
        struct log_segment *s = f->list[i];
        bool leads = s->last == f->current->before && f->durable == f->current->before;
        if (s != f->current && !s->free && s->last <= number && !leads)
            s->free = true;
    }
    trim(f);
}
