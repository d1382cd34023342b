/* SPDX-License-Identifier: Apache-2.0 */

/* One of several servers: what it answers as a standby and as the owner, and how it leaves the jobs
 * to another one. */

#include <fcntl.h>

#include "base/log.h"
#include "console/console.h"
#include "server/landing.h"
#include "server/serve_internal.h"

/* How long leaving may take: clients connect again in any case. */
#define LEAVE_MS 100

static int socket_of(const struct listener *l)
{
    return listener_is_open(l) && listener_socket(l) > 0 ? listener_socket(l) : 0;
}

/* The jobs are another server's now, or nobody's: nothing that this one knows or has under way
 * counts any more. Returns only if it cannot begin anew. */
static void begin_anew(struct server *s)
{
    if (!s->leaving)
        s->handover = (struct handover){socket_of(&s->primary), socket_of(&s->admin), 0};
    /* One that has not even begun to answer, or got nowhere, leaves it to others first. */
    if (!s->answers || cluster_has_stalled(s->cluster))
        s->handover.rest_ms = 2 * s->settings.lease.ms;
    log_warn("going on as a standby");
    handover_go(&s->handover);
}

/* Nothing may be acknowledged after this point. A restart recovers. */
void serve_fail(struct server *s, const struct err *err)
{
    if (s->code != 0)
        return; /* it ends already */
    switch (handover_decide(err->code, s->cluster && cluster_has_lost(s->cluster),
                            s->cluster && (!s->stopping || s->leaving))) {
    case HANDOVER_ALARM:
        log_error("PostgreSQL has lost commits that were acknowledged, stopping: see \"When "
                  "PostgreSQL has lost commits\" in docs/several-servers.md: %s",
                  err->msg);
        cluster_raise_alarm(s->cluster, err->msg);
        break;
    case HANDOVER_ANEW:
        begin_anew(s);
        break;
    case HANDOVER_STOP:
        log_error("the store failed, stopping: %s", err->msg);
        break;
    }
    s->code = 74;
    uv_stop(&s->loop);
}

/* Copies of the sockets go on listening, so that whoever connects meanwhile waits. */
void serve_leave(struct server *s)
{
    log_warn("leaving the jobs to another server");
    int rest = (int)(2 * s->settings.lease.ms);
    s->handover = (struct handover){0, 0, rest};
    if (socket_of(&s->primary))
        s->handover.primary = fcntl(socket_of(&s->primary), F_DUPFD_CLOEXEC, 3);
    if (socket_of(&s->admin))
        s->handover.admin = fcntl(socket_of(&s->admin), F_DUPFD_CLOEXEC, 3);
    serve_stop(s, LEAVE_MS);
}

void serve_step_down(void *ctx, void (*done)(void *asker, const struct err *err), void *asker)
{
    cluster_leave(((struct server *)ctx)->cluster, done, asker);
}

void serve_on_leaving(void *ctx)
{
    struct server *s = ctx;
    s->leaving = true;
    uv_async_send(&s->wake); /* once the request is answered */
}

void serve_on_cluster(void *ctx)
{
    struct server *s = ctx;
    if (cluster_role(s->cluster) == MEMBER_OWNER && !s->backend && !s->stopping)
        uv_stop(&s->loop);
    /* It was the owner for a moment that nobody here has seen. */
    if (cluster_role(s->cluster) == MEMBER_OVER && !s->backend && !s->stopping) {
        const struct err err = err_make(ERR_FENCED, "this server owns the jobs no more");
        serve_fail(s, &err);
        return;
    }
    if (cluster_role(s->cluster) == MEMBER_STANDBY && cluster_has_lost(s->cluster)) {
        const struct err err = err_make(ERR_POSTGRES_LOST, "%s", cluster_why(s->cluster));
        serve_fail(s, &err);
    }
    if (s->backend && cluster_is_to_leave(s->cluster) && !s->stopping)
        s->leaving = true;
    serve_turn(s);
}

/* From here on the peer is whoever a proxy asks for that is believed. */
static void look_behind_proxy(const struct server *s, struct http_exchange *x,
                              const struct http_request *req)
{
    _Static_assert(HTTP_ADDRESS_MAX == PROXIES_ADDRESS_MAX, "an address of either");
    if (!s->proxies.count || !req->forwarded_for.len)
        return;
    struct http_peer *peer = ARENA_NEW(req->arena, struct http_peer);
    *peer = *http_peer(x);
    char address[HTTP_ADDRESS_MAX];
    proxies_client(&s->proxies, peer->address, req->forwarded_for, address);
    memcpy(peer->address, address, sizeof address);
    http_set_peer(x, peer);
}

static void serve(struct server *s, struct http_exchange *x, const struct http_request *req,
                  bool admin)
{
    struct http_request real;
    if (!s->answers) {
        if (!landing_answer(&s->settings, &s->admin, x, req, admin))
            cluster_answer(s->cluster, x, req, admin);
        return;
    }
    /* It came before this server had the jobs, and was gathered for the owner of then. */
    if (s->cluster && router_takes_pieces(s->router, req->method, req->path) &&
        !http_in_pieces(x)) {
        cluster_refuse(x, "this server has just taken the jobs over");
        return;
    }
    if (s->cluster && req->forwarded.at) {
        if (!cluster_admit(s->cluster, x, req, &real, &admin))
            return;
        req = &real;
    }
    look_behind_proxy(s, x, req);
    if (admin)
        router_handle_admin(s->router, x, req);
    else
        router_handle(s->router, x, req);
}

void serve_on_request(void *ctx, struct http_exchange *x, const struct http_request *req)
{
    serve(ctx, x, req, false);
}

void serve_on_admin_request(void *ctx, struct http_exchange *x, const struct http_request *req)
{
    serve(ctx, x, req, true);
}

bool serve_in_pieces(void *ctx, enum http_method method, struct str path)
{
    const struct server *s = ctx;
    return s->answers && router_takes_pieces(s->router, method, path);
}

/* A standby, too, which hands the request on. */
bool serve_opens_by_link(void *ctx, struct str path)
{
    const struct server *s = ctx;
    static const struct str tasks = {CONSOLE_TASKS_PATH "/", sizeof CONSOLE_TASKS_PATH};
    bool page = str_eq(path, STR(CONSOLE_PATH)) || str_eq(path, STR("/")) ||
                (path.len > tasks.len && memcmp(path.at, tasks.at, tasks.len) == 0);
    return (page && !s->settings.no_console) || taskcluster_opens_by_link(path);
}

bool serve_opens_to_origins(void *ctx, struct str path)
{
    (void)ctx;
    return taskcluster_opens_to_origins(path);
}
