/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SERVER_CLUSTER_H
#define SERVER_CLUSTER_H

/* One of several servers on a PostgreSQL, as the loop sees it: whether it owns the jobs, what it
 * answers while it does not, and what it takes from servers that pass requests on. Loop thread
 * only. */

#include "api/api.h"
#include "net/http.h"
#include "server/handover.h"
#include "server/member.h"
#include "server/settings.h"

struct cluster;

struct cluster_settings {
    const struct settings *set; /* must outlive it */
    uv_loop_t *loop;
    int port; /* that is bound */
    const struct handover *before;
    void (*changed)(void *ctx); /* perhaps cluster_role, or what cluster_read says */
    void (*leave)(void *ctx);   /* as cluster_leave was called, and another server is there */
    instant (*now)(void *ctx);  /* the wall clock; from any thread */
    void *ctx;
};

/* Whether the settings ask for it, and are such as it needs. ERR_USAGE. */
NODISCARD struct err cluster_check(const struct settings *set);

/* Joins the other servers. Errors of member_start. */
NODISCARD struct err cluster_open(const struct cluster_settings *settings, struct cluster **out);
/* Gives the jobs up if this server owns them, and leaves the others. The loop must run once more
 * before it may be closed. NULL is fine. */
void cluster_close(struct cluster *c);
/* When the loop has run. NULL is fine. */
void cluster_free(struct cluster *c);

enum member_role cluster_role(const struct cluster *c);
/* PostgreSQL knows less than it did: it has lost commits. */
bool cluster_has_lost(struct cluster *c);
/* How far PostgreSQL's clock is ahead of this server's. Waits a moment for the first comparison;
 * false if there was none. */
bool cluster_clock_ahead(struct cluster *c, span *ahead);
/* Whether the owner must not answer, deliver or commit any more: it asks before each turn. */
bool cluster_is_over(struct cluster *c);
/* What the store needs to commit as the owner. */
uint64_t cluster_epoch(const struct cluster *c);
const struct pg_settings *cluster_postgres(const struct cluster *c);
/* As member_turned; of the owner. */
bool cluster_turned(struct cluster *c, uint64_t seq, bool full);
/* Whether this server is to leave the jobs to another one, whose disk has room for a copy. */
bool cluster_is_to_leave(const struct cluster *c);
/* Whether the ownership is over as the owner got nowhere. */
bool cluster_has_stalled(struct cluster *c);
/* Raises the alarm, where a server finds that PostgreSQL has lost commits. Blocks for seconds at
 * most; that it cannot be raised is logged. */
void cluster_raise_alarm(struct cluster *c, const char *why);
/* Why the ownership is over, or PostgreSQL is said to have lost commits. */
const char *cluster_why(struct cluster *c);
/* As member_owned_until and its like; c is the cluster. From any thread. */
mono cluster_owned_until(void *c);
uint64_t cluster_connections(void *c);
void cluster_works(void *c);
void cluster_logs_by(void *c, int backend);

/* Looks who else is there; then calls settings.leave if somebody is, and done in any case:
 * ERR_CONFLICT if there is no other server. Not any more once the cluster is closed. */
void cluster_leave(struct cluster *c, void (*done)(void *asker, const struct err *err),
                   void *asker);
/* After the last commit. */
void cluster_release(struct cluster *c);
/* This server does not become the owner any more. */
void cluster_stand_aside(struct cluster *c);

/* Answers as a standby: of itself, or by passing the request on. */
void cluster_answer(struct cluster *c, struct http_exchange *x, const struct http_request *req,
                    bool admin);
/* Answers that no server has the jobs, so that it is tried again. */
void cluster_refuse(struct http_exchange *x, const char *why);
/* Who really sends a request that another server has passed on to the owner: *real is the request
 * as that server got it, *admin by which of its listeners. False: it was refused. */
bool cluster_admit(struct cluster *c, struct http_exchange *x, const struct http_request *req,
                   struct http_request *real, bool *admin);

/* For the API. */
void cluster_read(struct cluster *c, struct api_cluster *out);

#endif
