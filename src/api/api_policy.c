/* SPDX-License-Identifier: Apache-2.0 */

/* Retry policies, and the settings of retrying. */

#include <stdio.h>
#include <strings.h>

#include "api/api_internal.h"

static void on_document(void *ctx, const struct reply *r)
{
    struct call *c = ctx;
    if (api_reply_failed(c->x, r))
        return;
    struct buf *b = &c->api->scratch;
    b->len = 0;
    buf_str(b, r->document);
    api_reply_json(c->x, 200, b);
}

static void on_created(void *ctx, const struct reply *r)
{
    struct call *c = ctx;
    if (api_reply_failed(c->x, r))
        return;
    struct buf *b = &c->api->scratch;
    b->len = 0;
    buf_str(b, r->document);
    api_reply_json(c->x, 201, b);
}

static void submit(struct api *a, struct http_exchange *x, const struct http_request *req,
                   struct command *c, struct err err)
{
    if (err.code != ERR_OK) {
        api_reply_error(x, &err, NULL);
        return;
    }
    c->ctx = api_call(a, x, req);
    backend_submit(a->backend, c);
}

static bool is_yaml(struct str type)
{
    for (size_t i = 0; i + 4 <= type.len; i++)
        if (strncasecmp(type.at + i, "yaml", 4) == 0)
            return true;
    return false;
}

/* What a document is written in; a body of no type may be either. */
static struct err read_format(const struct http_request *req, enum document_format *format)
{
    struct http_request rest = *req;
    bool yaml = is_yaml(req->content_type);
    if (yaml)
        rest.content_type = (struct str){0};
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
    c->kind = CMD_POLICY_PUT;
    c->resource.text = req->body;
    submit(a, x, req, c, err);
}

void api_policies(ROUTE_ARGS)
{
    (void)params;
    struct command c = {.kind = CMD_POLICY_READ, .done = on_document};
    submit(ctx, x, req, &c, api_check_media(req));
}

void api_policy_create(ROUTE_ARGS)
{
    (void)params;
    struct command c = {.done = on_created, .resource.create = true};
    put(ctx, x, req, &c);
}

/* An empty name must not come to mean all of them. */
static struct err read_name(const struct route_params *params, struct str *name)
{
    *name = params->at[0];
    return name->len ? err_none() : err_make(ERR_NOT_FOUND, "a retry policy has no empty name");
}

void api_policy_put(ROUTE_ARGS)
{
    struct command c = {.done = on_document};
    struct err err = read_name(params, &c.resource.name);
    if (err.code == ERR_OK)
        put(ctx, x, req, &c);
    else
        api_reply_error(x, &err, NULL);
}

void api_policy_read(ROUTE_ARGS)
{
    struct command c = {.kind = CMD_POLICY_READ, .done = on_document};
    struct err err = read_name(params, &c.resource.name);
    submit(ctx, x, req, &c, err.code == ERR_OK ? api_check_media(req) : err);
}

void api_policy_remove(ROUTE_ARGS)
{
    struct command c = {.kind = CMD_POLICY_REMOVE, .done = api_reply_empty};
    struct err err = read_name(params, &c.resource.name);
    submit(ctx, x, req, &c, err.code == ERR_OK ? api_check_media(req) : err);
}

void api_retry_settings(ROUTE_ARGS)
{
    (void)params;
    struct command c = {.kind = CMD_RETRY_SETTINGS_READ, .done = on_document};
    submit(ctx, x, req, &c, api_check_media(req));
}

void api_retry_settings_put(ROUTE_ARGS)
{
    (void)params;
    struct command c = {.kind = CMD_RETRY_SETTINGS_PUT, .done = on_document};
    struct err err = read_format(req, &c.resource.format);
    c.resource.text = req->body;
    c.resource.by = req->worker_id;
    submit(ctx, x, req, &c, err);
}
