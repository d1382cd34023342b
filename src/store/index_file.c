/* SPDX-License-Identifier: Apache-2.0 */

/* Writing the file of a snapshot of the indexes. */

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/must.h"
#include "base/folder.h"
#include "base/release.h"
#include "store/index_file_internal.h"

#define QUEUED_MAX ((size_t)4 << 20)   /* bytes that wait for the thread */
#define SYNC_EVERY ((uint64_t)2 << 20) /* so that no sync writes much at once */
#define CHUNKS_MAX 64

struct index_writer {
    char *dir, *tmp, *path;
    bool threaded;
    pthread_t thread;
    pthread_mutex_t lock; /* of all below */
    pthread_cond_t changed;
    struct buf queue[CHUNKS_MAX];
    size_t queued, queued_bytes;
    bool finishing, ended;
    _Atomic bool stopping; /* looked at while a write is under way, too */
    _Atomic bool hurry;    /* the same */
    struct index_head head;
    struct err result;
    uint64_t written; /* the writing side's, under the lock */
    /* Only where it is written: */
    int fd;
    uint64_t at, synced;
};

/* --- on the thread --- */

static struct err write_all(struct index_writer *w, const char *at, size_t len)
{
    while (len > 0) {
        ssize_t n = write(w->fd, at, len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return folder_error("write", w->tmp);
        at += n;
        len -= (size_t)n;
        w->at += (uint64_t)n;
    }
    if (w->at - w->synced < SYNC_EVERY)
        return err_none();
    w->synced = w->at;
    return fdatasync(w->fd) == 0 ? err_none() : folder_error("sync", w->tmp);
}

static struct err write_frame(struct index_writer *w, unsigned kind, const char *contents,
                              size_t len)
{
    char head[INDEX_FRAME_HEAD];
    index_put(head, w->at, 8);
    index_put(head + 8, kind, 4);
    index_put(head + 12, len, 4);
    index_put(head + 16, index_frame_checksum(head, contents, len), 4);
    TRY(write_all(w, head, sizeof head));
    return write_all(w, contents, len);
}

static struct err begin_file(struct index_writer *w)
{
    char begin[INDEX_BEGIN_LEN];
    w->fd = open(w->tmp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (w->fd < 0)
        return folder_error("create", w->tmp);
    memcpy(begin, INDEX_MAGIC, 8);
    index_put(begin + 8, INDEX_VERSION, 4);
    return write_all(w, begin, sizeof begin);
}

/* In place of the last one, whose bytes may be many. */
static struct err name_file(struct index_writer *w)
{
    int last = open(w->path, O_WRONLY | O_CLOEXEC);
    struct err e =
        rename(w->tmp, w->path) == 0 ? folder_sync(w->dir) : folder_error("rename", w->tmp);
    if (last >= 0)
        release_file(last, &w->hurry);
    return e;
}

static struct err end_file(struct index_writer *w)
{
    char end[sizeof(struct index_head)];
    const uint64_t *numbers = (const uint64_t *)&w->head;
    for (size_t i = 0; i < sizeof end / 8; i++)
        index_put(end + 8 * i, numbers[i], 8);
    TRY(write_frame(w, INDEX_FRAME_END, end, sizeof end));
    if (fsync(w->fd) != 0)
        return folder_error("sync", w->tmp);
    return name_file(w);
}

/* What came to its end in whatever way. */
static void end(struct index_writer *w, struct err result)
{
    if (w->fd >= 0)
        close(w->fd);
    w->fd = -1;
    if (result.code != ERR_OK)
        unlink(w->tmp);
    w->result = result;
    w->ended = true;
}

/* Takes what is queued; false if there is nothing to do but wait. Under the lock, which it gives up
 * for writing. */
static bool write_some(struct index_writer *w)
{
    struct buf list[CHUNKS_MAX];
    size_t count = w->queued;
    bool finish = w->finishing;
    if (w->ended || (count == 0 && !finish))
        return false;
    memcpy(list, w->queue, count * sizeof *list);
    w->queued = w->queued_bytes = 0;
    pthread_mutex_unlock(&w->lock);
    struct err err = w->fd < 0 ? begin_file(w) : err_none();
    for (size_t i = 0; i < count; i++) {
        if (err.code == ERR_OK && w->stopping)
            err = err_make(ERR_STOPPING, "it was given up");
        if (err.code == ERR_OK)
            err = write_frame(w, INDEX_FRAME_CHUNK, list[i].at, list[i].len);
        buf_fini(&list[i]);
    }
    if (err.code == ERR_OK && finish)
        err = end_file(w);
    pthread_mutex_lock(&w->lock);
    w->written = w->at;
    if (err.code != ERR_OK || finish)
        end(w, err);
    return true;
}

static void *run(void *ctx)
{
    struct index_writer *w = ctx;
    pthread_mutex_lock(&w->lock);
    while (!w->stopping)
        if (!write_some(w) && !w->stopping)
            pthread_cond_wait(&w->changed, &w->lock);
    if (!w->ended)
        end(w, err_make(ERR_STOPPING, "it was given up"));
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

/* --- for the loop --- */

static char *path_of(const char *dir, const char *name)
{
    size_t len = strlen(dir) + strlen(name) + 2;
    char *path = alloc_get(len);
    snprintf(path, len, "%s/%s", dir, name);
    return path;
}

struct index_writer *index_writer_new(const char *dir, bool thread)
{
    struct index_writer *w = ALLOC(struct index_writer);
    w->dir = alloc_text(dir, strlen(dir));
    w->tmp = path_of(dir, INDEX_FILE_TMP);
    w->path = path_of(dir, INDEX_FILE_NAME);
    w->fd = -1;
    w->result = err_none();
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->changed, NULL);
    w->threaded = thread && pthread_create(&w->thread, NULL, run, w) == 0;
    w->hurry = !w->threaded;
    return w;
}

/* After a change, under the lock. */
static void go_on(struct index_writer *w)
{
    if (w->threaded)
        pthread_cond_signal(&w->changed);
    else
        write_some(w);
}

bool index_writer_has_room(struct index_writer *w)
{
    pthread_mutex_lock(&w->lock);
    bool room = w->queued < CHUNKS_MAX && w->queued_bytes < QUEUED_MAX;
    pthread_mutex_unlock(&w->lock);
    return room;
}

void index_writer_add(struct index_writer *w, struct buf *chunk)
{
    pthread_mutex_lock(&w->lock);
    must(w->queued < CHUNKS_MAX && !w->finishing);
    if (w->ended) { /* it has failed */
        buf_fini(chunk);
    } else {
        w->queue[w->queued++] = *chunk;
        w->queued_bytes += chunk->len;
        go_on(w);
    }
    *chunk = (struct buf){0};
    pthread_mutex_unlock(&w->lock);
}

void index_writer_finish(struct index_writer *w, const struct index_head *head)
{
    pthread_mutex_lock(&w->lock);
    w->head = *head;
    w->finishing = true;
    go_on(w);
    pthread_mutex_unlock(&w->lock);
}

void index_writer_hurry(struct index_writer *w)
{
    w->hurry = true;
}

bool index_writer_has_ended(struct index_writer *w, struct err *result)
{
    pthread_mutex_lock(&w->lock);
    bool ended = w->ended;
    *result = w->result;
    pthread_mutex_unlock(&w->lock);
    return ended;
}

uint64_t index_writer_bytes(struct index_writer *w)
{
    pthread_mutex_lock(&w->lock);
    uint64_t bytes = w->written;
    pthread_mutex_unlock(&w->lock);
    return bytes;
}

void index_writer_free(struct index_writer *w)
{
    if (!w)
        return;
    pthread_mutex_lock(&w->lock);
    w->stopping = true;
    w->hurry = true;
    pthread_cond_signal(&w->changed);
    pthread_mutex_unlock(&w->lock);
    if (w->threaded)
        pthread_join(w->thread, NULL);
    else if (!w->ended)
        end(w, err_make(ERR_STOPPING, "it was given up"));
    for (size_t i = 0; i < w->queued; i++)
        buf_fini(&w->queue[i]);
    pthread_mutex_destroy(&w->lock);
    pthread_cond_destroy(&w->changed);
    free(w->dir);
    free(w->tmp);
    free(w->path);
    free(w);
}
