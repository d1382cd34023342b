/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SERVER_SERVE_INTERNAL_H
#define SERVER_SERVE_INTERNAL_H

/* Shared by the files of the server: serve.c builds it, serve_loop.c has its turns and its end,
 * serve_roles.c what becomes of it among several. Loop thread only. */

#include <stdatomic.h>
#include <uv.h>

#include "access/proxies.h"
#include "api/api.h"
#include "backend/embedded/embedded.h"
#include "server/cluster.h"
#include "server/exporter.h"
#include "server/gate.h"
#include "server/handover.h"
#include "server/identity_set.h"
#include "server/inbox.h"
#include "server/listener.h"
#include "server/machine.h"
#include "server/rounds.h"
#include "server/settings.h"
#include "server/task_api.h"

struct server {
    struct settings settings;
    struct machine_files files;
    uv_loop_t loop;
    uv_async_t wake;     /* by the commit thread: a batch is done */
    uv_poll_t written;   /* likewise, by the kernel */
    uv_check_t after_io; /* a turn of the backend after every round of I/O */
    uv_prepare_t before_poll;
    uv_timer_t due;    /* the next deadline */
    uv_idle_t at_once; /* active while the next turn need not wait for anything */
    uv_timer_t heartbeat;
    uv_timer_t drain_limit;
    uv_timer_t unread; /* while the tokens could not be read */
    struct gate_retry retry;
    uv_signal_t sigterm, sigint, sighup;
    struct rounds rounds;
    instant due_at; /* what the timer is set for */
    bool due_set;
    instant started;
    int64_t started_ticks; /* env_ticks */
    struct store *store;
    uint64_t event_history; /* since a restore or accepted loss; 0: there was none */
    struct zones *zones;
    struct pool *jq;
    struct backend *backend;
    struct exporter exporter;
    struct identity_set who;
    struct proxies proxies; /* that are believed */
    struct api *api;
    struct task_api tasks;
    struct router *router;
    struct http_budget *replies; /* of both listeners */
    struct body_memory *bodies;  /* likewise */
    struct listener primary, admin;
    struct cluster *cluster;  /* NULL: this server works by itself */
    struct inbox *inbox;      /* iff there are others and this one has the jobs */
    struct handover handover; /* of the process before; then for the one to come */
    /* The router answers, as this server has the jobs. Read by the threads of connections. */
    _Atomic bool answers;
    bool leaving; /* another server is to have the jobs: this one begins anew as a standby */
    bool stopping;
    int undrained; /* listeners with connections that have not ended */
    int code;
};

/* --- serve.c --- */

/* The wall clock. */
instant serve_now(void *ctx);

/* After a turn: whether the next one is to commit something, so that the lease is renewed. */
bool serve_is_to_beat(struct server *s);

/* --- serve_loop.c --- */

/* Prepares the loop and its handles. */
void serve_open_loop(struct server *s);
/* A turn of the backend; nothing as long as there is none. */
void serve_turn(struct server *s);
/* A turn follows whenever the kernel has written: s->written is set. */
void serve_watch_writes(struct server *s);
/* A turn after every round from now on. */
void serve_start_turns(struct server *s);
void serve_start_heartbeat(struct server *s);
/* Tries again to read tokens that could not be read. */
void serve_retry_tokens(struct server *s);
/* Answers what is under way and takes nothing new; the loop ends when all is answered, or after so
 * long. */
void serve_stop(struct server *s, uint64_t limit_ms);
/* SIGTERM and SIGINT end it. */
void serve_catch_signals(struct server *s);

/* --- serve_roles.c --- */

/* The server can acknowledge nothing any more. It ends, or begins anew if only the jobs are another
 * server's now. */
void serve_fail(struct server *s, const struct err *err);
/* Begins to leave the jobs to another server, as step_down was called. */
void serve_leave(struct server *s);
/* The callbacks of the cluster, of the API, and of the listeners: ctx is the server. */
void serve_on_cluster(void *ctx);
void serve_step_down(void *ctx, void (*done)(void *asker, const struct err *err), void *asker);
void serve_on_leaving(void *ctx);
void serve_on_request(void *ctx, struct http_exchange *x, const struct http_request *req);
void serve_on_admin_request(void *ctx, struct http_exchange *x, const struct http_request *req);
bool serve_in_pieces(void *ctx, enum http_method method, struct str path);
bool serve_opens_by_link(void *ctx, struct str path);
bool serve_opens_to_origins(void *ctx, struct str path);

#endif
