/* SPDX-License-Identifier: Apache-2.0 */

/* POST /compact: a thread has the store rewrite its tables, the loop answers when it is done. */

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

#include "api/api_internal.h"
#include "base/alloc.h"
#include "base/log.h"
#include "base/must.h"

struct api_compact {
    struct api *api;
    uv_async_t wake;         /* the thread: it is done */
    struct http_exchange *x; /* waits for its answer, even if its peer does not */
    bool running;            /* the thread is there and must be joined */
    pthread_t thread;
    struct err result; /* the thread's, until it is joined */
};

static void *compact(void *ctx)
{
    struct api_compact *c = ctx;
    const struct api_settings *s = &c->api->settings;
    pthread_setname_np(pthread_self(), "compact");
    c->result = s->compact(s->backup_ctx);
    uv_async_send(&c->wake);
    return NULL;
}

static void end(struct api_compact *c)
{
    pthread_join(c->thread, NULL);
    c->running = false;
    if (c->result.code != ERR_OK)
        log_error("the tables were not compacted: %s", c->result.msg);
    if (c->result.code != ERR_OK)
        api_reply_error(c->x, &c->result, NULL);
    else
        http_reply(c->x, 204, (struct str){0}, (struct str){0}, NULL);
}

static void on_wake(uv_async_t *wake)
{
    struct api_compact *c = wake->data;
    if (c->running)
        end(c);
}

static struct err start(struct api_compact *c, struct http_exchange *x)
{
    if (c->running)
        return err_make(ERR_BUSY, "the tables are being compacted");
    /* Signals are for the loop's thread. */
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    int no = pthread_create(&c->thread, NULL, compact, c);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (no != 0)
        return err_make(ERR_INTERNAL, "cannot start a thread: %s", strerror(no));
    c->running = true;
    c->x = x;
    return err_none();
}

static void on_recorded(void *ctx, const struct reply *r)
{
    struct call *c = ctx;
    struct err err = r->err;
    if (err.code == ERR_OK)
        err = start(c->api->compact, c->x);
    if (err.code != ERR_OK)
        api_reply_error(c->x, &err, NULL);
}

void api_compact(struct api *a, const struct api_request *r)
{
    struct command c = {.kind = CMD_RECORD, .done = on_recorded};
    struct err err =
        a->compact ? err_none() : err_make(ERR_NOT_SUPPORTED, "this server has no tables");
    api_submit(a, r, &c, err);
}

/* --- beginning and end --- */

struct api_compact *api_compact_new(struct api *a)
{
    if (!a->settings.compact)
        return NULL;
    struct api_compact *c = ALLOC(struct api_compact);
    c->api = a;
    must(uv_async_init(a->settings.loop, &c->wake, on_wake) == 0);
    c->wake.data = c;
    /* What is under way has a connection, which keeps the loop alive. */
    uv_unref((uv_handle_t *)&c->wake);
    return c;
}

void api_compact_stop(struct api_compact *c)
{
    if (!c || !c->running)
        return;
    end(c);
}

void api_compact_free(struct api_compact *c)
{
    must(!c || !c->running);
    free(c);
}
