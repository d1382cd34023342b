/* SPDX-License-Identifier: Apache-2.0 */

/* Retry policies and failure categories, and the settings of retrying. */

#include <stdio.h>
#include <strings.h>

#include "api/api_routes.h"

const struct api_body api_document_body = {.doc = "object"};

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

static void put(struct api *a, const struct api_request *r, struct command *c)
{
    struct err err = read_format(r->http, &c->resource.format);
    c->resource.text = r->http->body;
    api_submit(a, r, c, err);
}

void api_policies(struct api *a, const struct api_request *r)
{
    struct command c = {.kind = CMD_POLICY_READ, .done = on_document};
    api_submit(a, r, &c, api_check_media(r->http));
}

void api_policy_create(struct api *a, const struct api_request *r)
{
    struct command c = {.kind = CMD_POLICY_PUT, .done = on_created, .resource.create = true};
    put(a, r, &c);
}

/* What is done to the one that the path names. An empty name must not come to mean all. */
static void do_named(struct api *a, const struct api_request *r, enum command_kind kind,
                     reply_fn done)
{
    struct command c = {.kind = kind, .done = done, .resource.name = r->params->at[0]};
    struct err err = api_check_media(r->http);
    if (c.resource.name.len == 0)
        err = err_make(ERR_NOT_FOUND, "there is none with an empty name");
    api_submit(a, r, &c, err);
}

static void put_named(struct api *a, const struct api_request *r, enum command_kind kind)
{
    struct command c = {.kind = kind, .done = on_document, .resource.name = r->params->at[0]};
    struct err err = err_make(ERR_NOT_FOUND, "there is none with an empty name");
    if (c.resource.name.len)
        put(a, r, &c);
    else
        api_reply_error(r->x, &err, NULL);
}

void api_policy_put(struct api *a, const struct api_request *r)
{
    put_named(a, r, CMD_POLICY_PUT);
}

void api_policy_read(struct api *a, const struct api_request *r)
{
    do_named(a, r, CMD_POLICY_READ, on_document);
}

void api_policy_remove(struct api *a, const struct api_request *r)
{
    do_named(a, r, CMD_POLICY_REMOVE, api_reply_empty);
}

void api_categories(struct api *a, const struct api_request *r)
{
    struct command c = {.kind = CMD_CATEGORIES_READ, .done = on_document};
    api_submit(a, r, &c, api_check_media(r->http));
}

void api_categories_create(struct api *a, const struct api_request *r)
{
    struct command c = {.kind = CMD_CATEGORIES_PUT, .done = on_created, .resource.create = true};
    put(a, r, &c);
}

void api_categories_put(struct api *a, const struct api_request *r)
{
    put_named(a, r, CMD_CATEGORIES_PUT);
}

void api_categories_read(struct api *a, const struct api_request *r)
{
    do_named(a, r, CMD_CATEGORIES_READ, on_document);
}

void api_categories_remove(struct api *a, const struct api_request *r)
{
    do_named(a, r, CMD_CATEGORIES_REMOVE, api_reply_empty);
}

void api_retry_settings(struct api *a, const struct api_request *r)
{
    struct command c = {.kind = CMD_RETRY_SETTINGS_READ, .done = on_document};
    api_submit(a, r, &c, api_check_media(r->http));
}

void api_retry_settings_put(struct api *a, const struct api_request *r)
{
    struct command c = {.kind = CMD_RETRY_SETTINGS_PUT, .done = on_document};
    struct err err = read_format(r->http, &c.resource.format);
    /* It is kept, and shown as JSON. */
    if (err.code == ERR_OK && r->http->worker_id.len)
        err = job_check_name(r->http->worker_id, "Worker-Id");
    c.resource.text = r->http->body;
    c.resource.by = r->http->worker_id;
    api_submit(a, r, &c, err);
}
