/* SPDX-License-Identifier: Apache-2.0 */

/* POST /backup: a thread makes the backup and fills a buffer, the loop empties it into the
 * reply. Both wait for each other: the thread while the buffer is full, the reply while the
 * peer does not read. */

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

#include "api/api_internal.h"
#include "base/alloc.h"
#include "base/log.h"
#include "base/must.h"

/* How far the thread may be ahead of the peer, beyond the connection's own backlog. */
#define PENDING_MAX ((size_t)1024 * 1024)

struct api_backup {
    struct api *api;
    uv_async_t wake;         /* sent by the thread */
    struct http_exchange *x; /* NULL: the peer has gone */
    bool streaming;          /* the head of the reply is out */
    bool running;            /* the thread is there and must be joined */
    pthread_t thread;
    pthread_mutex_t lock; /* of all below */
    pthread_cond_t room;
    struct buf pending;
    bool cancelled, ended;
    struct err result; /* once it has ended */
};

/* --- on the thread --- */

static struct err put(void *ctx, struct str bytes)
{
    struct api_backup *b = ctx;
    pthread_mutex_lock(&b->lock);
    while (b->pending.len >= PENDING_MAX && !b->cancelled)
        pthread_cond_wait(&b->room, &b->lock);
    bool cancelled = b->cancelled;
    if (!cancelled)
        buf_str(&b->pending, bytes);
    pthread_mutex_unlock(&b->lock);
    uv_async_send(&b->wake);
    return cancelled ? err_make(ERR_STOPPING, "the backup was given up") : err_none();
}

static void *make(void *ctx)
{
    struct api_backup *b = ctx;
    const struct api_settings *s = &b->api->settings;
    pthread_setname_np(pthread_self(), "backup");
    struct sink sink = {put, b};
    struct err e = s->backup(s->backup_ctx, &sink);
    pthread_mutex_lock(&b->lock);
    b->result = e;
    b->ended = true;
    pthread_mutex_unlock(&b->lock);
    uv_async_send(&b->wake);
    return NULL;
}

/* --- on the loop --- */

static void cancel(struct api_backup *b)
{
    pthread_mutex_lock(&b->lock);
    b->cancelled = true;
    b->pending.len = 0;
    pthread_cond_signal(&b->room);
    pthread_mutex_unlock(&b->lock);
}

/* The peer went before there was a first byte; the exchange waits for its reply. */
static void on_gone(void *ctx)
{
    cancel(ctx);
}

static void on_closed(void *ctx)
{
    struct api_backup *b = ctx;
    b->x = NULL;
    cancel(b);
}

static void pump(struct api_backup *b);

static void on_drained(void *ctx)
{
    pump(ctx);
}

static void begin(struct api_backup *b)
{
    b->streaming = true;
    http_on_gone(b->x, NULL, NULL);
    http_stream_begin(b->x, 200, STR("application/octet-stream"), on_closed, b);
    if (b->x)
        http_stream_on_drain(b->x, on_drained);
}

static void end(struct api_backup *b)
{
    pthread_join(b->thread, NULL);
    b->running = false;
    /* Even if it was complete: what the thread had left for the peer is gone. */
    struct err e = b->cancelled ? err_make(ERR_STOPPING, "the backup was given up") : b->result;
    if (e.code != ERR_OK && !b->cancelled)
        log_error("a backup failed: %s", e.msg);
    struct http_exchange *x = b->x;
    if (x && !b->streaming) {
        must(e.code != ERR_OK); /* a backup that worked has bytes */
        b->x = NULL;
        api_reply_error(x, &e, NULL);
    } else if (x && e.code == ERR_OK) {
        http_stream_end(x);
    } else if (x) {
        http_stream_abort(x); /* closed() follows; half a backup must not look like one */
    }
}

/* Writes what the peer takes, and ends the reply once the thread is done. */
static void pump(struct api_backup *b)
{
    struct buf out = {0};
    bool flows = b->x && (!b->streaming || !http_must_wait(b->x));
    pthread_mutex_lock(&b->lock);
    if (flows) {
        out = b->pending;
        b->pending = (struct buf){0};
        pthread_cond_signal(&b->room);
    }
    bool over = b->ended && b->pending.len == 0;
    pthread_mutex_unlock(&b->lock);
    if (out.len && !b->streaming)
        begin(b);
    if (out.len && b->x)
        http_stream_write(b->x, buf_view(&out));
    buf_fini(&out);
    if (over && b->running)
        end(b);
}

static void on_wake(uv_async_t *wake)
{
    pump(wake->data);
}

static struct err start(struct api_backup *b, struct http_exchange *x)
{
    if (b->running || b->x)
        return err_make(ERR_BUSY, "a backup is being made; one at a time");
    b->x = x;
    b->streaming = b->cancelled = b->ended = false;
    b->pending.len = 0;
    /* Signals are for the loop's thread. */
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    int no = pthread_create(&b->thread, NULL, make, b);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    b->running = no == 0;
    if (b->running) {
        http_on_gone(x, on_gone, b);
        return err_none();
    }
    b->x = NULL;
    return err_make(ERR_INTERNAL, "cannot start a thread: %s", strerror(no));
}

/* Recorded or not: where nothing can be written any more a backup is needed most. */
static void on_recorded(void *ctx, const struct reply *r)
{
    struct call *c = ctx;
    if (r->err.code != ERR_OK)
        log_warn("a backup is not in the audit: %s", r->err.msg);
    struct err err = start(c->api->backup, c->x);
    if (err.code != ERR_OK)
        api_reply_error(c->x, &err, NULL);
}

void api_backup(struct api *a, const struct api_request *r)
{
    struct command c = {.kind = CMD_RECORD, .done = on_recorded};
    struct err err =
        a->backup ? err_none() : err_make(ERR_NOT_SUPPORTED, "this server has no backups");
    api_submit(a, r, &c, err);
}

/* --- beginning and end --- */

struct api_backup *api_backup_new(struct api *a)
{
    if (!a->settings.backup)
        return NULL;
    struct api_backup *b = ALLOC(struct api_backup);
    b->api = a;
    must(uv_async_init(a->settings.loop, &b->wake, on_wake) == 0);
    b->wake.data = b;
    /* What is under way has a connection, which keeps the loop alive. */
    uv_unref((uv_handle_t *)&b->wake);
    pthread_mutex_init(&b->lock, NULL);
    pthread_cond_init(&b->room, NULL);
    return b;
}

void api_backup_stop(struct api_backup *b)
{
    if (!b || !b->running)
        return;
    cancel(b);
    end(b);
}

void api_backup_free(struct api_backup *b)
{
    if (!b)
        return;
    must(!b->running);
    buf_fini(&b->pending);
    pthread_mutex_destroy(&b->lock);
    pthread_cond_destroy(&b->room);
    free(b);
}
