/* SPDX-License-Identifier: Apache-2.0 */

/* GET /: what this is, for whoever has nothing but the address. */

#include <stdio.h>
#include <strings.h>

#include "api/api_routes.h"

static const struct shape_member landing_members[] = {
    {MEMBER(struct api_landing, name, "name", ALWAYS, "tenax")},
    {MEMBER(struct api_landing, version, "version", ALWAYS, NULL)},
    {MEMBER(struct api_landing, listener, "listener", ALWAYS,
            "which of the two was asked: primary or admin")},
    {MEMBER(struct api_landing, health, "health", ALWAYS, "path of the health")},
    {MEMBER(struct api_landing, openapi, "openapi", ALWAYS, "path of this document")},
    {MEMBER(struct api_landing, console, "console", IF_SET,
            "path of the web console, unless it is turned off")},
    {MEMBER(struct api_landing, admin_url, "admin_url", IF_SET,
            "where the admin listener is; told to this machine alone")},
    {MEMBER(struct api_landing, docs, "docs", ALWAYS, "where the documentation is, in words")},
};
const struct shape api_landing_shape = {.name = "Landing", SHAPE_MEMBERS(landing_members)};

static void complete(struct api_landing *l)
{
    l->name = STR("tenax");
    l->version = STR(TENAX_VERSION);
    l->health = STR("/health");
    l->openapi = STR("/openapi.json");
    l->docs = STR("tenax help; the folder docs of the source, /usr/share/doc/tenax of a package");
}

/* Whether the list of Accept names HTML, as browsers do, and no other programs. */
static bool shows_pages(struct str accept)
{
    static const struct str html = {"text/html", 9};
    for (size_t i = 0; i + html.len <= accept.len; i++)
        if (strncasecmp(accept.at + i, html.at, html.len) == 0)
            return true;
    return false;
}

static bool redirect(struct http_exchange *x, const struct http_request *req,
                     const struct api_landing *l)
{
    char extra[128];
    if (!l->console.len || !shows_pages(req->accept))
        return false;
    snprintf(extra, sizeof extra, "Location: %.*s\r\nVary: Accept\r\nCache-Control: no-store\r\n",
             STR_ARG(l->console));
    http_reply(x, 302, (struct str){0}, (struct str){0}, extra);
    return true;
}

void api_landing_reply(struct http_exchange *x, const struct http_request *req,
                       const struct api_landing *facts)
{
    struct api_landing l = *facts;
    struct buf b = {0};
    if (redirect(x, req, &l))
        return;
    complete(&l);
    shape_write(&b, &api_landing_shape, &l, SHAPE_AS_IT_IS);
    http_reply(x, 200, STR("application/json"), buf_view(&b), "Vary: Accept\r\n");
    buf_fini(&b);
}

void api_landing(struct api *a, const struct api_request *r)
{
    struct api_landing l = {.listener = r->params->admin ? STR("admin") : STR("primary")};
    if (a->settings.landing)
        a->settings.landing(a->settings.cluster_ctx, r->x, r->http, r->params->admin, &l);
    if (redirect(r->x, r->http, &l))
        return;
    complete(&l);
    a->scratch.len = 0;
    shape_write(&a->scratch, &api_landing_shape, &l, SHAPE_AS_IT_IS);
    api_reply_json_with(r->x, 200, &a->scratch, "Vary: Accept\r\n");
}
