/* SPDX-License-Identifier: Apache-2.0 */

#include "api/api.h"

#include <stdio.h>
#include <stdlib.h>

#include "api/api_internal.h"
#include "wire/wire_msgpack.h"
#include "base/alloc.h"
#include "base/must.h"
#include "net/query.h"

/* An endpoint: its route, and what serves it. */
struct endpoint {
    struct route route; /* must be first */
    void (*handle)(struct api *a, const struct api_request *r);
    bool query; /* it has parameters, and looks at them itself */
};

static const struct endpoint endpoints[] = {
    {{HTTP_POST, "/jobs"}, api_enqueue},
    {{HTTP_POST, "/jobs/bulk"}, api_enqueue_bulk},
    {{HTTP_GET, "/jobs/take"}, api_take, .query = true},
    {{HTTP_GET, "/events"}, api_events, .query = true},
    {{HTTP_POST, "/jobs/claim"}, api_claim},
    {{HTTP_DELETE, "/jobs/claim"}, api_claim_withdraw, .query = true},
    {{HTTP_POST, "/jobs/{id}/success"}, api_success},
    {{HTTP_POST, "/jobs/success"}, api_success_bulk},
    {{HTTP_POST, "/jobs/{id}/failure"}, api_failure},
    {{HTTP_POST, "/jobs/{id}/terminated"}, api_terminated},
    {{HTTP_POST, "/jobs/{id}/renew"}, api_renew},
    {{HTTP_POST, "/jobs/{id}/progress"}, api_progress},
    {{HTTP_POST, "/jobs/{id}/release"}, api_release},
    {{HTTP_GET, "/jobs/{id}"}, api_read},
    {{HTTP_GET, "/jobs"}, api_list, .query = true},
    {{HTTP_GET, "/jobs/count"}, api_count, .query = true},
    {{HTTP_GET, "/jobs/{id}/runs"}, api_runs, .query = true},
    {{HTTP_GET, "/jobs/{id}/explain"}, api_explain},
    {{HTTP_GET, "/jobs/{id}/errors"}, api_errors, .query = true},
    {{HTTP_GET, "/jobs/{id}/errors/{attempt}"}, api_error_of_attempt},
    {{HTTP_DELETE, "/jobs/{id}"}, api_remove},
    {{HTTP_DELETE, "/jobs"}, api_remove_where, .query = true},
    {{HTTP_PATCH, "/jobs/{id}"}, api_patch},
    {{HTTP_PATCH, "/jobs"}, api_patch_where, .query = true},
    {{HTTP_POST, "/jobs/{id}/cancel"}, api_cancel},
    {{HTTP_POST, "/jobs/{id}/retry"}, api_retry},
    {{HTTP_POST, "/jobs/retry"}, api_retry_where, .query = true},
    {{HTTP_POST, "/reset"}, api_reset, .query = true},
    {{HTTP_GET, "/queues"}, api_queues, .query = true},
    {{HTTP_POST, "/queues"}, api_queue_create},
    {{HTTP_GET, "/queues/{name}"}, api_queue_read},
    {{HTTP_PUT, "/queues/{name}"}, api_queue_put},
    {{HTTP_PATCH, "/queues/{name}"}, api_queue_patch},
    {{HTTP_DELETE, "/queues/{name}"}, api_queue_remove},
    {{HTTP_GET, "/crons"}, api_crons},
    {{HTTP_DELETE, "/crons"}, api_crons_remove, .query = true},
    {{HTTP_GET, "/crons/{group}"}, api_cron_read},
    {{HTTP_PUT, "/crons/{group}"}, api_cron_put},
    {{HTTP_PATCH, "/crons/{group}"}, api_cron_patch},
    {{HTTP_DELETE, "/crons/{group}"}, api_cron_remove},
    {{HTTP_POST, "/crons/{group}/entries"}, api_cron_entry_add},
    {{HTTP_GET, "/crons/{group}/entries/{entry}"}, api_cron_read},
    {{HTTP_PUT, "/crons/{group}/entries/{entry}"}, api_cron_entry_put},
    {{HTTP_PATCH, "/crons/{group}/entries/{entry}"}, api_cron_patch},
    {{HTTP_DELETE, "/crons/{group}/entries/{entry}"}, api_cron_remove},
    {{HTTP_GET, "/retry-policies"}, api_policies},
    {{HTTP_POST, "/retry-policies"}, api_policy_create},
    {{HTTP_POST, "/retry-policies/simulate"}, api_policy_simulate},
    {{HTTP_GET, "/retry-policies/{name}"}, api_policy_read},
    {{HTTP_PUT, "/retry-policies/{name}"}, api_policy_put},
    {{HTTP_DELETE, "/retry-policies/{name}"}, api_policy_remove},
    {{HTTP_GET, "/failure-categories"}, api_categories},
    {{HTTP_POST, "/failure-categories"}, api_categories_create},
    {{HTTP_GET, "/failure-categories/{name}"}, api_categories_read},
    {{HTTP_PUT, "/failure-categories/{name}"}, api_categories_put},
    {{HTTP_DELETE, "/failure-categories/{name}"}, api_categories_remove},
    {{HTTP_GET, "/settings/retry"}, api_retry_settings},
    {{HTTP_PUT, "/settings/retry"}, api_retry_settings_put},
    {{HTTP_GET, "/health"}, api_health},
    {{HTTP_POST, "/clock/reset"}, api_clock_reset},
    {{HTTP_GET, "/version"}, api_version},
    {{HTTP_GET, "/openapi.json"}, api_openapi},
    {{HTTP_GET, "/metrics"}, api_metrics},
    {{HTTP_POST, "/backup", .admin = true}, api_backup},
    {{HTTP_POST, "/compact", .admin = true}, api_compact},
};

struct api *api_new(struct backend *backend, const struct api_settings *settings)
{
    struct api *a = ALLOC(struct api);
    a->backend = backend;
    a->settings = *settings;
    list_init(&a->streams);
    list_init(&a->claims);
    a->backup = api_backup_new(a);
    a->compact = api_compact_new(a);
    a->events = api_events_new(a);
    return a;
}

void api_set_strict(struct api *a, bool strict)
{
    a->settings.strict = strict;
}

void api_stop(struct api *a)
{
    api_backup_stop(a->backup);
    api_compact_stop(a->compact);
}

void api_free(struct api *a)
{
    must(list_is_empty(&a->streams));
    api_backup_free(a->backup);
    api_compact_free(a->compact);
    api_events_free(a->events);
    buf_fini(&a->scratch);
    buf_fini(&a->packed);
    buf_fini(&a->unpacked);
    free(a);
}

/* Endpoints without parameters: who believes that a dry run is possible there, or a filter, must
 * hear of it. */
static struct err check_no_params(const struct http_request *req)
{
    struct query_cursor c = query_open(req->query, req->arena);
    struct str name, value;
    bool more;
    TRY(query_next(&c, &more, &name, &value));
    return more ? api_unknown_param(name) : err_none();
}

/* A client may ask for more strictness than the server's, never for less. */
static struct err read_strictness(struct api *a, const struct http_request *req)
{
    a->strict = a->settings.strict || str_eq(req->strict, STR("true"));
    if (a->strict || req->strict.len == 0 || str_eq(req->strict, STR("false")))
        return err_none();
    return err_make(ERR_BAD_VALUE, "Tenax-Strict is true or false, not '%.*s'",
                    (int)(req->strict.len < 32 ? req->strict.len : 32), req->strict.at);
}

static struct err admit(struct api *a, const struct http_request *req, const struct endpoint *e)
{
    TRY(read_strictness(a, req));
    if (!e->query && req->query.len)
        TRY(check_no_params(req));
    return api_check_body(req);
}

static void serve(void *ctx, struct http_exchange *x, const struct http_request *req,
                  const struct route *route, const struct route_params *params)
{
    struct api *a = ctx;
    const struct endpoint *e = (const struct endpoint *)route; /* its first member */
    struct http_request json = *req;
    const struct api_request r = {x, &json, params};
    struct err err = err_none();
    if (wire_msgpack_mentioned(req->content_type, req->accept))
        err = api_unpack(a, x, req, &json);
    if (err.code == ERR_OK)
        err = admit(a, &json, e);
    if (err.code == ERR_OK)
        e->handle(a, &r);
    else
        api_reply_error(x, &err, NULL);
    a->body = (struct str){0};
}

/* A page of jobs: 16 MiB of payloads and one job more, and what else is known of 2,000 jobs. */
#define PAGE_BOUND ((uint64_t)24 * 1024 * 1024)

uint64_t api_reply_bound(void *ctx, const struct http_request *req)
{
    (void)ctx;
    bool read = req->method == HTTP_GET || req->method == HTTP_HEAD;
    return read && str_eq(req->path, STR("/jobs")) ? PAGE_BOUND : 0;
}

uint64_t api_gathered(void *ctx)
{
    return backend_gathered(((struct api *)ctx)->backend);
}

static void refuse(void *ctx, struct http_exchange *x, const struct http_request *req,
                   const struct err *err, struct str allow)
{
    char extra[128] = "";
    struct http_request bare = *req, json;
    bare.body = (struct str){0};
    /* For the form of the answer. */
    if (wire_msgpack_mentioned(req->content_type, req->accept)) {
        struct err ok = api_unpack(ctx, x, &bare, &json);
        must(ok.code == ERR_OK);
    }
    if (err->code == ERR_BAD_METHOD)
        snprintf(extra, sizeof extra, "Allow: %.*s\r\n", STR_ARG(allow));
    api_reply_error(x, err, extra[0] ? extra : NULL);
}

static const struct route *route_at(size_t i)
{
    return &endpoints[i].route;
}

const struct front_end *api_front_end(struct api *a)
{
    a->front_end = (struct front_end){.prefix = "",
                                      .count = sizeof endpoints / sizeof *endpoints,
                                      .route = route_at,
                                      .serve = serve,
                                      .refuse = refuse,
                                      .ctx = a};
    return &a->front_end;
}
