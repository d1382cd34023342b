/* SPDX-License-Identifier: Apache-2.0 */

/* The servers that share a PostgreSQL, and leaving the jobs to another one. */

#include "api/api_access.h"
#include "api/api_routes.h"

static const struct shape_member server_members[] = {
    {MEMBER(struct api_peer, name, "name", ALWAYS, NULL)},
    {MEMBER(struct api_peer, address, "address", ALWAYS, "under which others reach it")},
    {MEMBER(struct api_peer, role, "role", ALWAYS,
            "owner: it keeps the jobs; standby: it passes requests on")},
    {MEMBER(struct api_peer, version, "version", ALWAYS, NULL)},
    {MEMBER(struct api_peer, started, "started", ALWAYS, NULL)},
    {MEMBER(struct api_peer, seen, "last_seen", ALWAYS, "when it said last that it is there")},
};
static const struct shape server_shape = {.name = "Server", SHAPE_MEMBERS(server_members)};

static const struct shape_member servers_members[] = {
    {MEMBER(struct api_cluster, epoch, "epoch", ALWAYS,
            "of the owner: it rises when another server becomes the owner")},
    {MEMBER(struct api_cluster, durability, "durability", ALWAYS,
            "what an acknowledgement is worth")},
    {MEMBER(struct api_cluster, lease, "lease_ms", ALWAYS,
            "so long after its last sign of life an owner is replaced")},
    {MEMBER_OBJECTS(struct api_cluster, servers, count, "servers", ALWAYS, &server_shape,
                    "by name")},
};
const struct shape api_servers_shape = {.name = "Servers", SHAPE_MEMBERS(servers_members)};

static const struct shape_member stepped_members[] = {
    {MEMBER(struct api_cluster, epoch, "epoch", ALWAYS, "which ends")},
};
const struct shape api_stepping_down_shape = {.name = "SteppingDown",
                                              SHAPE_MEMBERS(stepped_members)};

static struct err check_several(const struct api *a)
{
    return a->settings.cluster
               ? err_none()
               : err_make(ERR_NOT_SUPPORTED, "this server works by itself: it was not started "
                                             "with --postgres");
}

static void reply(struct api *a, struct http_exchange *x, int status, const struct shape *s)
{
    struct api_cluster now;
    a->settings.cluster(a->settings.cluster_ctx, &now);
    a->scratch.len = 0;
    shape_write(&a->scratch, s, &now, SHAPE_AS_IT_IS);
    api_reply_json(x, status, &a->scratch);
}

void api_servers(struct api *a, const struct api_request *r)
{
    struct err err = api_check_media(r->http);
    if (err.code == ERR_OK)
        err = check_several(a);
    if (err.code == ERR_OK)
        reply(a, r->x, 200, &api_servers_shape);
    else
        api_reply_error(r->x, &err, NULL);
}

static void on_stepping_down(void *asker, const struct err *err)
{
    struct call *c = asker;
    if (err->code == ERR_OK)
        reply(c->api, c->x, 202, &api_stepping_down_shape);
    else
        api_reply_error(c->x, err, NULL);
}

static void on_recorded(void *ctx, const struct reply *r)
{
    struct call *c = ctx;
    if (r->err.code == ERR_OK)
        c->api->settings.step_down(c->api->settings.cluster_ctx, on_stepping_down, c);
    else
        api_reply_error(c->x, &r->err, NULL);
}

void api_step_down(struct api *a, const struct api_request *r)
{
    struct command c = {.kind = CMD_RECORD, .done = on_recorded};
    struct err err = api_check_media(r->http);
    if (err.code == ERR_OK)
        err = check_several(a);
    api_submit(a, r, &c, err);
}
