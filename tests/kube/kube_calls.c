/* SPDX-License-Identifier: Apache-2.0 */
#include "kube_calls.h"

#include <stdio.h>

static void on_done(void *ctx, const struct kube_answer *a)
{
    struct got *g = ctx;
    g->done++;
    g->reason = a->reason;
    g->status = a->status;
    g->version = a->version;
    g->tries = a->tries;
    snprintf(g->object, sizeof g->object, "%.*s", STR_ARG(a->object));
    snprintf(g->message, sizeof g->message, "%.*s", STR_ARG(a->message));
}

void start(struct rig *r, struct got *g, const struct kube_client_spec *spec)
{
    struct kube_client_spec s = *spec;
    s.path = s.path ? s.path : "/api/v1/pods/x";
    s.done = on_done;
    s.ctx = g;
    *g = (struct got){0};
    g->call = kube_client_call(r->client, &s);
    assert_int_equal(g->done, 0);
}

void ask(struct rig *r, struct got *g, const struct kube_client_spec *spec)
{
    start(r, g, spec);
    RIG_AWAIT(r, g->done);
}

const struct kube_client_spec get = {.verb = KUBE_GET};
const struct kube_client_spec create = {.verb = KUBE_CREATE, .body = {"{\"a\":1}", 7}};

void serve_object(struct rig *r, struct http_exchange *x, const struct http_request *req, int n)
{
    (void)r;
    (void)req;
    (void)n;
    rig_json(x, 200, "{\"kind\":\"Pod\"}");
}

void serve_held(struct rig *r, struct http_exchange *x, const struct http_request *req, int n)
{
    (void)req;
    (void)n;
    rig_hold(r, x);
}
