/* SPDX-License-Identifier: Apache-2.0 */
#include "net/io_threads.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/must.h"
#include "net/relay_internal.h"

struct io_thread {
    struct relay relay;
    struct io_threads *all;
    uv_loop_t loop;
    uv_async_t wake; /* the back has posted, or there may be memory */
    uv_thread_t thread;
    char name[16];
};

struct io_threads {
    struct http_server *server; /* listens, and has the connections without sockets */
    struct io_thread *threads;
    int count, next; /* next: which of them is given the next connection */
    uv_async_t wake; /* a front has posted, or there may be memory */
    struct http_budget *budget;
    _Atomic int open;
    uint64_t accepted;
    int undrained;
    bool closed;
    void (*drained)(void *ctx);
    void *drained_ctx;
};

/* --- the threads --- */

static void run(void *arg)
{
    struct io_thread *t = arg;
    pthread_setname_np(pthread_self(), t->name);
    uv_run(&t->loop, UV_RUN_DEFAULT);
}

static void on_front_wake(uv_async_t *wake)
{
    struct io_thread *t = wake->data;
    relay_front_read(&t->relay);
    if (t->relay.stopping)
        uv_unref((uv_handle_t *)wake); /* others may still send it */
}

static void on_front_room(void *ctx)
{
    uv_async_send(&((struct io_thread *)ctx)->wake);
}

/* Signals are for the thread that began. */
static void start(struct io_thread *t)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    must(uv_thread_create(&t->thread, run, t) == 0);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* Before the first thread runs. */
static void prepare(struct io_threads *all, int i, const struct http_settings *settings)
{
    struct io_thread *t = &all->threads[i];
    struct relay *r = &t->relay;
    t->all = all;
    snprintf(t->name, sizeof t->name, "tenax-io-%d", i + 1);
    must(uv_loop_init(&t->loop) == 0);
    must(uv_async_init(&t->loop, &t->wake, on_front_wake) == 0);
    t->wake.data = t;
    mailbox_init(&r->to_back, &all->wake);
    mailbox_init(&r->to_front, &t->wake);
    budget_join(&r->budget, settings->budget, on_front_room, t);
    body_memory_open(&r->bodies, settings->bodies, NULL);
    r->open = &all->open;
    r->in_pieces = settings->in_pieces;
    r->in_pieces_ctx = all->server->ctx;
    r->back = all->server;
    relay_back_begin(r);
    struct http_settings own = *settings;
    own.budget = &r->budget;
    own.gathered = NULL;
    own.in_pieces = settings->in_pieces ? relay_front_takes_pieces : NULL;
    r->front = server_new(&t->loop, &own, relay_front_handle, r);
    r->front->guard = all->server->guard;
    relay_front_begin(r);
}

/* --- this side --- */

static void on_back_wake(uv_async_t *wake)
{
    struct io_threads *t = wake->data;
    if (t->closed)
        return;
    for (int i = 0; i < t->count; i++)
        relay_back_read(&t->threads[i].relay);
    budget_retry(t->budget);
}

static void on_back_room(void *ctx)
{
    uv_async_send(&((struct io_threads *)ctx)->wake);
}

/* The loop is about to sleep. */
static void on_flushed(void *owner)
{
    struct http_server *s = owner;
    struct io_threads *t = s->hand_over_ctx;
    bool due = false;
    if (t->closed)
        return;
    for (int i = 0; i < t->count; i++) {
        relay_back_post(&t->threads[i].relay);
        due = relay_back_is_due(&t->threads[i].relay) || due;
    }
    if (due)
        uv_async_send(&t->wake);
}

static void tell(struct io_thread *t, struct relay_message m)
{
    relay_add(&t->relay.to_front.filling, &m);
}

static void hand_over(void *ctx, int fd)
{
    struct io_threads *t = ctx;
    int others = atomic_fetch_add(&t->open, 1);
    t->accepted++;
    tell(&t->threads[t->next],
         (struct relay_message){.kind = RELAY_ACCEPT, .status = fd, .amount = (uint64_t)others});
    t->next = (t->next + 1) % t->count;
}

struct err io_threads_new(uv_loop_t *loop, const struct http_settings *settings, int count,
                          http_handler handler, void *ctx, struct io_threads **out)
{
    must(count > 0 && count <= IO_THREADS_MAX && settings->budget && settings->bodies);
    struct http_server *server;
    TRY(http_server_new(loop, settings, handler, ctx, &server));
    struct io_threads *t = ALLOC(struct io_threads);
    t->server = server;
    t->count = count;
    t->budget = settings->budget;
    t->threads = aligned_alloc(64, (sizeof(struct io_thread) * (size_t)count + 63) / 64 * 64);
    must(t->threads);
    memset(t->threads, 0, sizeof(struct io_thread) * (size_t)count);
    must(uv_async_init(loop, &t->wake, on_back_wake) == 0);
    t->wake.data = t;
    server->conns.tls = NULL; /* connections without sockets are plain */
    server->conns.flushed = on_flushed;
    server->hand_over = hand_over;
    server->hand_over_ctx = t;
    budget_join(settings->budget, settings->budget, on_back_room, t);
    for (int i = 0; i < count; i++)
        prepare(t, i, settings);
    for (int i = 0; i < count; i++)
        start(&t->threads[i]);
    *out = t;
    return err_none();
}

int io_threads_port(const struct io_threads *t)
{
    return http_server_port(t->server);
}

int io_threads_socket(const struct io_threads *t)
{
    return http_server_socket(t->server);
}

int io_threads_connections(const struct io_threads *t)
{
    return atomic_load(&t->open);
}

void io_threads_stats(const struct io_threads *t, struct http_stats *out)
{
    *out = (struct http_stats){.connections = (uint64_t)atomic_load(&t->open),
                               .accepted = t->accepted};
    for (int i = 0; !t->closed && i < t->count; i++)
        for (int k = 0; k < HTTP_CLASSES; k++)
            out->replies[k] += atomic_load_explicit(&t->threads[i].relay.front->counts.replies[k],
                                                    memory_order_relaxed);
}

/* --- the end --- */

static void on_drained(void *ctx)
{
    struct io_threads *t = ctx;
    if (--t->undrained == 0)
        t->drained(t->drained_ctx);
}

void io_threads_drain(struct io_threads *t, void (*done)(void *ctx), void *ctx)
{
    t->drained = done;
    t->drained_ctx = ctx;
    t->undrained = 1 + t->count;
    for (int i = 0; i < t->count; i++) {
        t->threads[i].relay.drained = on_drained;
        t->threads[i].relay.drained_ctx = t;
        tell(&t->threads[i], (struct relay_message){.kind = RELAY_DRAIN});
    }
    http_server_drain(t->server, on_drained, t);
}

void io_threads_close(struct io_threads *t)
{
    for (int i = 0; i < t->count; i++) {
        tell(&t->threads[i], (struct relay_message){.kind = RELAY_STOP});
        relay_back_post(&t->threads[i].relay);
    }
    for (int i = 0; i < t->count; i++)
        must(uv_thread_join(&t->threads[i].thread) == 0);
    t->closed = true;
    for (int i = 0; i < t->count; i++)
        budget_leave(&t->threads[i].relay.budget);
    uv_close((uv_handle_t *)&t->wake, NULL);
    http_server_close(t->server);
}

void io_threads_free(struct io_threads *t)
{
    if (!t)
        return;
    for (int i = 0; i < t->count; i++) {
        struct io_thread *one = &t->threads[i];
        uv_close((uv_handle_t *)&one->wake, NULL);
        uv_run(&one->loop, UV_RUN_DEFAULT);
        must(uv_loop_close(&one->loop) == 0);
        relay_front_free(&one->relay);
        body_memory_close(&one->relay.bodies);
        mailbox_fini(&one->relay.to_back);
        mailbox_fini(&one->relay.to_front);
        buf_fini(&one->relay.requests);
    }
    free(t->threads);
    free(t);
}
