/* SPDX-License-Identifier: Apache-2.0 */

#include "api/api.h"

#include <stdio.h>
#include <stdlib.h>

#include "api/api_access.h"
#include "api/api_canary.h"
#include "api/api_routes.h"
#include "api/api_top.h"
#include "wire/wire_msgpack.h"
#include "base/alloc.h"
#include "base/must.h"
#include "net/query.h"

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
    a->top = api_top_new(a);
    a->operations = api_operations_new();
    a->canaries = api_canaries_new(a);
    return a;
}

void api_configure(struct api *a, bool strict, span claim_wait_max)
{
    a->settings.strict = strict;
    a->settings.claim_wait_max = claim_wait_max;
}

void api_set_messages(struct api *a, const struct api_messages *messages)
{
    a->messages = *messages;
}

void api_stop(struct api *a)
{
    if (a->settings.compact_stop)
        a->settings.compact_stop(a->settings.backup_ctx);
    api_backup_stop(a->backup);
    api_compact_stop(a->compact);
}

void api_free(struct api *a)
{
    must(list_is_empty(&a->streams));
    api_backup_free(a->backup);
    api_compact_free(a->compact);
    api_events_free(a->events);
    api_top_free(a->top);
    api_canaries_free(a->canaries);
    free(a->operations);
    buf_fini(&a->scratch);
    buf_fini(&a->packed);
    buf_fini(&a->unpacked);
    free(a);
}

/* For endpoints without parameters: a client that believes in a dry run or a filter there must get
 * an error. */
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

/* All that it takes beside its body are headers. */
static bool takes_no_query(const struct endpoint *e)
{
    const struct api_param *p = e->params;
    if (p && !p->name)
        return false; /* it refuses one itself */
    for (; p && p->name; p++)
        if (!p->header)
            return false;
    return true;
}

/* A body without a content type is JSON, unless a page may have sent it: a page can do so to
 * another origin without asking first, and every browser then says where it comes from. */
static void assume_type(struct http_request *req)
{
    bool page = req->origin.at || req->fetch_site.at || req->fetch_dest.at || req->fetch_mode.at ||
                req->fetch_user.at;
    if (req->body.len && !req->content_type.at && !page)
        req->content_type = STR("application/json");
}

static bool has_query_param(const struct endpoint *e, struct str name)
{
    for (const struct api_param *p = e->params; p && p->name; p++)
        if (!p->header && str_eq(name, str_from(p->name)))
            return true;
    return false;
}

/* Forms send fields that nobody has filled in: a request that changes nothing is read without them.
 * Others refuse them, for an empty filter would mean everything. */
static struct err drop_empty_params(const struct endpoint *e, struct http_request *req)
{
    struct query_cursor c = query_open(req->query, req->arena);
    char *kept = NULL;
    size_t len = 0;
    if (e->route.method != HTTP_GET || !req->query.len || !e->params)
        return err_none();
    kept = arena_get(req->arena, req->query.len + 1);
    for (;;) {
        struct str before = c.rest, name, value;
        bool more;
        TRY(query_next(&c, &more, &name, &value));
        if (!more)
            break;
        size_t n = before.len - c.rest.len;
        if (!value.len && has_query_param(e, name))
            continue;
        memcpy(kept + len, before.at, n);
        len += n;
        if (c.rest.len == 0)
            break;
    }
    req->query = (struct str){kept, len};
    return err_none();
}

/* Whoever enqueues or reports may be newer than its server, and what it says besides is ignored.
 * But a change that answers 200 has done all that it was asked for: a misspelled member must not be
 * passed over in silence. */
static bool is_exact(const struct endpoint *e)
{
    return e->exact || e->route.method == HTTP_PUT || e->route.method == HTTP_PATCH;
}

static struct err admit(struct api *a, struct http_request *req, const struct endpoint *e)
{
    TRY(read_strictness(a, req));
    assume_type(req);
    TRY(drop_empty_params(e, req));
    if (req->query.len && takes_no_query(e))
        TRY(check_no_params(req));
    TRY(api_check_form(a, e, req));
    a->strict = a->strict || is_exact(e);
    return api_check_body(req);
}

static void serve(void *ctx, struct http_exchange *x, const struct http_request *req,
                  const struct route *route, const struct route_params *params)
{
    struct api *a = ctx;
    const struct endpoint *e = (const struct endpoint *)route; /* its first member */
    struct http_request json = *req;
    struct api_request r = {.x = x, .http = &json, .params = params};
    struct err err = api_identify(a, e, &r);
    if (err.code != ERR_OK) {
        api_reply_refused(a, &r, &err);
        return;
    }
    if (wire_msgpack_mentioned(req->content_type, req->accept))
        err = api_unpack(a, x, req, &json);
    if (err.code == ERR_OK)
        err = admit(a, &json, e);
    if (err.code == ERR_OK) {
        api_note_change(a, e, &r);
        e->handle(a, &r);
    } else {
        api_reply_error(x, &err, NULL);
    }
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
    /* Decides whether the answer is JSON or MessagePack. */
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
    return &api_endpoints[i].route;
}

const struct front_end *api_front_end(struct api *a)
{
    a->front_end = (struct front_end){.prefix = "",
                                      .count = api_endpoint_count,
                                      .route = route_at,
                                      .serve = serve,
                                      .refuse = refuse,
                                      .ctx = a};
    return &a->front_end;
}
