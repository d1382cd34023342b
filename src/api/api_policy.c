/* SPDX-License-Identifier: Apache-2.0 */

/* Retry policies and failure categories, and the settings of retrying. */

#include <stdio.h>
#include <strings.h>

#include "api/api_policy.h"
#include "api/api_routes.h"
#include "policy/category_document.h"
#include "policy/policy_document.h"
#include "policy/policy_warning.h"
#include "policy/settings_document.h"

const struct api_body api_policy_body = {.doc = "AnyRetryPolicy"};
const struct api_body api_categories_body = {.doc = "AnyFailureCategories"};
const struct api_body api_retry_settings_body = {.doc = "RetrySettingsInput"};

/* --- answers --- */

static void on_policy(void *ctx, const struct reply *r)
{
    api_reply_part(ctx, r, 200, &api_stored_policy_shape, r->resources);
}

static void on_policies(void *ctx, const struct reply *r)
{
    api_reply_shape(ctx, r, 200, &api_policies_shape);
}

static void on_categories(void *ctx, const struct reply *r)
{
    api_reply_part(ctx, r, 200, &api_stored_categories_shape, r->resources);
}

static void on_all_categories(void *ctx, const struct reply *r)
{
    api_reply_shape(ctx, r, 200, &api_categories_list_shape);
}

static void on_settings(void *ctx, const struct reply *r)
{
    api_reply_part(ctx, r, 200, &api_retry_settings_shape, r->retry_settings);
}

static void on_settings_put(void *ctx, const struct reply *r)
{
    api_reply_part(ctx, r, 200, &api_retry_settings_changed_shape, r->retry_settings);
}

/* --- requests --- */

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

/* A document that is put, and read: it is of one of the kinds. */
struct put {
    struct call call; /* must be first */
    int status;       /* of the answer */
    bool is_policy;
    struct policy_document policy;
    struct category_document categories;
};

static void release(struct put *p)
{
    policy_document_free(&p->policy);
    category_document_free(&p->categories);
}

static void on_put(void *ctx, const struct reply *r)
{
    struct put *p = ctx;
    struct buf *b = api_reply_body(p->call.api, p->call.x, r);
    if (b) {
        if (p->is_policy && r->retry_settings)
            policy_warning_settings(&p->policy, &r->retry_settings->settings);
        const struct api_policy_changed changed = {
            r->resources, p->is_policy ? p->policy.warnings : p->categories.warnings};
        shape_write(b, p->is_policy ? &api_policy_changed_shape : &api_categories_changed_shape,
                    &changed, SHAPE_AS_IT_IS);
        api_reply_json(p->call.x, p->status, b);
    }
    release(p);
}

static struct err read_body(const struct http_request *req, struct command *c, struct put *p)
{
    enum document_format format;
    struct document_fault fault = {0};
    TRY(read_format(req, &format));
    bool is_policy = c->kind == CMD_POLICY_PUT;
    if (!(is_policy ? policy_document_parse(req->body, format, &p->policy, &fault)
                    : category_document_parse(req->body, format, &p->categories, &fault)))
        return document_fault_err(&fault);
    c->resource.policy = &p->policy.policy;
    c->resource.categories = &p->categories.categorizer;
    c->resource.version = is_policy ? p->policy.resource_version : p->categories.resource_version;
    return err_none();
}

static void put(struct api *a, const struct api_request *r, struct command *c, int status)
{
    struct put *p = ARENA_NEW(r->http->arena, struct put);
    p->call = (struct call){a, r->x};
    p->status = status;
    p->is_policy = c->kind == CMD_POLICY_PUT;
    c->done = on_put;
    c->ctx = p;
    struct err err = read_body(r->http, c, p);
    if (err.code == ERR_OK)
        api_send(a, r, c);
    else
        api_reply_error(r->x, &err, NULL);
}

void api_policies(struct api *a, const struct api_request *r)
{
    struct command c = {.kind = CMD_POLICY_READ, .done = on_policies};
    api_submit(a, r, &c, api_check_media(r->http));
}

void api_policy_create(struct api *a, const struct api_request *r)
{
    struct command c = {.kind = CMD_POLICY_PUT, .resource.create = true};
    put(a, r, &c, 201);
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
    struct command c = {.kind = kind, .resource.name = r->params->at[0]};
    struct err err = err_make(ERR_NOT_FOUND, "there is none with an empty name");
    if (c.resource.name.len)
        put(a, r, &c, 200);
    else
        api_reply_error(r->x, &err, NULL);
}

void api_policy_put(struct api *a, const struct api_request *r)
{
    put_named(a, r, CMD_POLICY_PUT);
}

void api_policy_read(struct api *a, const struct api_request *r)
{
    do_named(a, r, CMD_POLICY_READ, on_policy);
}

const struct api_param api_policy_remove_params[] = {
    {"detach", "boolean: take it from the queues that have it; without, 409 while one has it"},
    {NULL, NULL}};

static struct err read_detach(const struct http_request *req, bool *detach)
{
    struct query_cursor c = query_open(req->query, req->arena);
    struct str name, value;
    unsigned seen = 0;
    bool more;
    for (;;) {
        TRY(query_next(&c, &more, &name, &value));
        if (!more)
            return err_none();
        TRY(api_param_once(name, api_policy_remove_params, &seen));
        *detach = str_eq(value, STR("true"));
        if (!*detach && !str_eq(value, STR("false")))
            return err_make(ERR_BAD_VALUE, "detach: expected true or false");
    }
}

void api_policy_remove(struct api *a, const struct api_request *r)
{
    struct command c = {
        .kind = CMD_POLICY_REMOVE, .done = api_reply_empty, .resource.name = r->params->at[0]};
    struct err err = api_check_media(r->http);
    if (err.code == ERR_OK)
        err = read_detach(r->http, &c.resource.detach);
    if (c.resource.name.len == 0)
        err = err_make(ERR_NOT_FOUND, "there is none with an empty name");
    api_submit(a, r, &c, err);
}

void api_categories(struct api *a, const struct api_request *r)
{
    struct command c = {.kind = CMD_CATEGORIES_READ, .done = on_all_categories};
    api_submit(a, r, &c, api_check_media(r->http));
}

void api_categories_create(struct api *a, const struct api_request *r)
{
    struct command c = {.kind = CMD_CATEGORIES_PUT, .resource.create = true};
    put(a, r, &c, 201);
}

void api_categories_put(struct api *a, const struct api_request *r)
{
    put_named(a, r, CMD_CATEGORIES_PUT);
}

void api_categories_read(struct api *a, const struct api_request *r)
{
    do_named(a, r, CMD_CATEGORIES_READ, on_categories);
}

void api_categories_remove(struct api *a, const struct api_request *r)
{
    do_named(a, r, CMD_CATEGORIES_REMOVE, api_reply_empty);
}

void api_retry_settings(struct api *a, const struct api_request *r)
{
    struct command c = {.kind = CMD_RETRY_SETTINGS_READ, .done = on_settings};
    api_submit(a, r, &c, api_check_media(r->http));
}

static struct err read_settings(const struct http_request *req, struct policy_change *change)
{
    enum document_format format;
    struct document_fault fault = {0};
    TRY(read_format(req, &format));
    /* It is kept, and shown as JSON. */
    if (req->worker_id.len)
        TRY(job_check_name(req->worker_id, "Worker-Id"));
    return settings_document_parse(req->body, req->arena, change, &fault)
               ? err_none()
               : document_fault_err(&fault);
}

void api_retry_settings_put(struct api *a, const struct api_request *r)
{
    struct policy_change change;
    struct command c = {.kind = CMD_RETRY_SETTINGS_PUT, .done = on_settings_put};
    c.retry_settings.change = &change;
    c.retry_settings.by = r->http->worker_id;
    api_submit(a, r, &c, read_settings(r->http, &change));
}
