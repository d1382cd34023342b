/* SPDX-License-Identifier: Apache-2.0 */
#include "server/landing.h"

#include <string.h>

#include "console/console.h"
#include "server/gate.h"

/* A listener on IPv6 sees IPv4 as part of it. */
static bool is_here(const char *address)
{
    static const char mapped[] = "::ffff:";
    bool v4 = strncmp(address, mapped, sizeof mapped - 1) == 0;
    return gate_is_loopback(v4 ? address + sizeof mapped - 1 : address);
}

static struct str admin_url(const struct settings *set, const struct listener *l, struct arena *a)
{
    char url[LISTENER_URL_MAX];
    listener_url(l, set->admin_host, url);
    return arena_copy(a, str_from(url));
}

void landing_read(const struct settings *set, const struct listener *admin_listener,
                  struct http_exchange *x, const struct http_request *req, bool admin,
                  struct api_landing *out)
{
    *out = (struct api_landing){.listener = admin ? STR("admin") : STR("primary")};
    if (!set->no_console)
        out->console = STR(CONSOLE_PATH);
    if (listener_is_open(admin_listener) && is_here(http_peer(x)->address))
        out->admin_url = admin_url(set, admin_listener, req->arena);
}

bool landing_answer(const struct settings *set, const struct listener *admin_listener,
                    struct http_exchange *x, const struct http_request *req, bool admin)
{
    struct api_landing l;
    if ((req->method != HTTP_GET && req->method != HTTP_HEAD) || !str_eq(req->path, STR("/")))
        return false;
    landing_read(set, admin_listener, x, req, admin, &l);
    api_landing_reply(x, req, &l);
    return true;
}
