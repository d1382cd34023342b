/* SPDX-License-Identifier: Apache-2.0 */
#include "fake_http.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/list.h"
#include "base/must.h"

struct http_exchange {
    struct list node; /* of those that were forgotten */
    struct arena arena;
    fake_answered answered;
    void *ctx;
    struct http_exchange **slot; /* of whoever asked */
    void (*gone)(void *ctx);
    void *gone_ctx;
    bool left;
};

static struct list forgotten = {&forgotten, &forgotten};

static void exchange_free(struct http_exchange *x)
{
    arena_fini(&x->arena);
    free(x);
}

void fake_ask(struct router *r, enum http_method method, struct str target, struct str body,
              fake_answered answered, void *ctx, struct http_exchange **slot)
{
    struct http_exchange *x = ALLOC(struct http_exchange);
    const char *mark = target.len ? memchr(target.at, '?', target.len) : NULL;
    size_t path = mark ? (size_t)(mark - target.at) : target.len;
    const struct http_request req = {.method = method,
                                     .path = {target.at, path},
                                     .query = mark ? (struct str){mark + 1, target.len - path - 1}
                                                   : (struct str){0},
                                     .host = STR("localhost"),
                                     .content_type = STR("application/json"),
                                     .body = body,
                                     .arena = &x->arena};
    x->answered = answered;
    x->ctx = ctx;
    x->slot = slot;
    *slot = x;
    router_handle(r, x, &req);
}

void fake_leave(struct http_exchange *x)
{
    x->left = true;
    if (x->gone)
        x->gone(x->gone_ctx);
}

void fake_forget(struct http_exchange *x)
{
    list_append(&forgotten, &x->node);
}

void fake_free_all(void)
{
    while (!list_is_empty(&forgotten)) {
        struct http_exchange *x = LIST_OF(forgotten.next, struct http_exchange, node);
        list_unlink(&x->node);
        exchange_free(x);
    }
}

/* --- what front ends call --- */

void http_reply(struct http_exchange *x, int status, struct str content_type, struct str body,
                const char *extra)
{
    (void)content_type;
    (void)extra;
    *x->slot = NULL;
    x->answered(x->ctx, status, body);
    exchange_free(x);
}

void http_on_gone(struct http_exchange *x, void (*gone)(void *ctx), void *ctx)
{
    x->gone = gone;
    x->gone_ctx = ctx;
}

bool http_is_tls(const struct http_exchange *x)
{
    (void)x;
    return false;
}

bool http_is_gone(const struct http_exchange *x)
{
    return x->left;
}

bool http_is_overloaded(const struct http_exchange *x)
{
    (void)x;
    return false;
}
