/* SPDX-License-Identifier: Apache-2.0 */

/* Retry policies and failure categories, and the settings of retrying. */

#include <stdio.h>
#include <strings.h>

#include "api/api_internal.h"

static void reply_document(struct call *c, int status, const struct reply *r)
{
    struct buf *b = api_reply_body(c->api, c->x, r);
    if (!b)
        return;
    buf_str(b, r->document);
    api_reply_json(c->x, status, b);
}

static void on_document(void *ctx, const struct reply *r)
{
    reply_document(ctx, 200, r);
}

static void on_created(void *ctx, const struct reply *r)
{
    reply_document(ctx, 201, r);
}

/* What a document is written in. */
static struct err read_format(const struct http_request *req, enum document_format *format)
{
    struct http_request rest = *req;
    bool yaml = api_is_yaml(req->content_type);
    if (yaml)
        rest.content_type = STR("application/json");
    *format = yaml ? DOCUMENT_YAML : DOCUMENT_ANY;
    if (req->content_type.len && !yaml &&
        strncasecmp(req->content_type.at, "application/json",
                    req->content_type.len < 16 ? req->content_type.len : 16) == 0)
        *format = DOCUMENT_JSON;
    return api_check_media(&rest);
}

static void put(struct api *a, struct http_exchange *x, const struct http_request *req,
                struct command *c)
{
    struct err err = read_format(req, &c->resource.format);
    c->resource.text = req->body;
    api_submit(a, x, req, c, err);
}

void api_policies(ROUTE_ARGS)
{
    (void)params;
    struct command c = {.kind = CMD_POLICY_READ, .done = on_document};
    api_submit(ctx, x, req, &c, api_check_media(req));
}

void api_policy_create(ROUTE_ARGS)
{
    (void)params;
    struct command c = {.kind = CMD_POLICY_PUT, .done = on_created, .resource.create = true};
    put(ctx, x, req, &c);
}

/* What is done to the one that the path names. An empty name must not come to mean all. */
static void do_named(struct api *a, struct http_exchange *x, const struct http_request *req,
                     const struct route_params *params, enum command_kind kind, reply_fn done)
{
    struct command c = {.kind = kind, .done = done, .resource.name = params->at[0]};
    struct err err = api_check_media(req);
    if (c.resource.name.len == 0)
        err = err_make(ERR_NOT_FOUND, "there is none with an empty name");
    api_submit(a, x, req, &c, err);
}

static void put_named(struct api *a, struct http_exchange *x, const struct http_request *req,
                      const struct route_params *params, enum command_kind kind)
{
    struct command c = {.kind = kind, .done = on_document, .resource.name = params->at[0]};
    struct err err = err_make(ERR_NOT_FOUND, "there is none with an empty name");
    if (c.resource.name.len)
        put(a, x, req, &c);
    else
        api_reply_error(x, &err, NULL);
}

void api_policy_put(ROUTE_ARGS)
{
    put_named(ctx, x, req, params, CMD_POLICY_PUT);
}

void api_policy_read(ROUTE_ARGS)
{
    do_named(ctx, x, req, params, CMD_POLICY_READ, on_document);
}

void api_policy_remove(ROUTE_ARGS)
{
    do_named(ctx, x, req, params, CMD_POLICY_REMOVE, api_reply_empty);
}

void api_categories(ROUTE_ARGS)
{
    (void)params;
    struct command c = {.kind = CMD_CATEGORIES_READ, .done = on_document};
    api_submit(ctx, x, req, &c, api_check_media(req));
}

void api_categories_create(ROUTE_ARGS)
{
    (void)params;
    struct command c = {.kind = CMD_CATEGORIES_PUT, .done = on_created, .resource.create = true};
    put(ctx, x, req, &c);
}

void api_categories_put(ROUTE_ARGS)
{
    put_named(ctx, x, req, params, CMD_CATEGORIES_PUT);
}

void api_categories_read(ROUTE_ARGS)
{
    do_named(ctx, x, req, params, CMD_CATEGORIES_READ, on_document);
}

void api_categories_remove(ROUTE_ARGS)
{
    do_named(ctx, x, req, params, CMD_CATEGORIES_REMOVE, api_reply_empty);
}

void api_retry_settings(ROUTE_ARGS)
{
    (void)params;
    struct command c = {.kind = CMD_RETRY_SETTINGS_READ, .done = on_document};
    api_submit(ctx, x, req, &c, api_check_media(req));
}

void api_retry_settings_put(ROUTE_ARGS)
{
    (void)params;
    struct command c = {.kind = CMD_RETRY_SETTINGS_PUT, .done = on_document};
    struct err err = read_format(req, &c.resource.format);
    /* It is kept, and shown as JSON. */
    if (err.code == ERR_OK && req->worker_id.len)
        err = job_check_name(req->worker_id, "Worker-Id");
    c.resource.text = req->body;
    c.resource.by = req->worker_id;
    api_submit(ctx, x, req, &c, err);
}
