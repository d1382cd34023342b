/* SPDX-License-Identifier: Apache-2.0 */

/* What tasks ask of the auth service: the scopes that they have, and what scopes stand for.
 *
 * Source: services/auth/src/api.js of taskcluster/taskcluster. The reference demands a scope for
 * currentScopes, too, which there everybody has by a role; here everybody may know his own. */

#include "base/array.h"
#include "base/must.h"
#include "taskcluster/tc_definition.h"
#include "taskcluster/tc_handlers.h"
#include "wire/field.h"

static void reply_scopes(struct tc_call *c, const struct scope_set *scopes)
{
    struct buf *b = tc_body(c);
    buf_lit(b, "{\"scopes\":[");
    for (size_t i = 0; i < scopes->count; i++) {
        if (i)
            buf_byte(b, ',');
        json_write_string(b, scopes->at[i]);
    }
    buf_lit(b, "]}");
    tc_reply(c, b);
}

static void current_scopes(struct tc_call *c)
{
    reply_scopes(c, &c->who.scopes);
}

struct scopes_body {
    struct tc_texts scopes;
};

static void expand_scopes(struct tc_call *c)
{
    static const struct field fields[] = {
        {.name = "scopes", .read = tc_field_texts, .offset = offsetof(struct scopes_body, scopes)},
    };
    struct json_cursor j = json_open(c->body);
    struct scopes_body body = {0};
    struct scope_set given, all = {0};
    struct err err = field_read_object(true, &j, c->arena, fields, COUNT(fields), &body);
    must(err.code == ERR_OK); /* by the schema */
    err = scope_set_make(body.scopes.at, body.scopes.count, c->arena, &given, NULL);
    if (err.code == ERR_OK)
        err = access_expand(c->tc->settings.access, &given, c->arena, &all);
    if (err.code == ERR_OK)
        reply_scopes(c, &all);
    else
        tc_fail(c, TC_INPUT_ERROR, "scopes: %s", err.msg);
}

static const struct scope_expr expand = SCOPE("auth:expand-scopes");
static const struct scope_expr nothing = {.op = SCOPE_OP_ALL_OF};

const struct tc_method tc_auth_methods[] = {
    {{HTTP_GET, "/ping"},
     tc_ping,
     "ping",
     .category = "Monitoring",
     .title = "Ping server",
     .stability = "stable"},
    {{HTTP_GET, "/__lbheartbeat__"},
     tc_heartbeat,
     "lbheartbeat",
     .category = "Monitoring",
     .title = "Load balancer heartbeat",
     .stability = "stable"},
    {{HTTP_GET, "/__heartbeat__"},
     tc_heartbeat,
     "heartbeat",
     .category = "Monitoring",
     .title = "Heartbeat",
     .stability = "stable"},
    {{HTTP_GET, "/__version__"},
     tc_version,
     "version",
     .category = "Monitoring",
     .title = "Version",
     .stability = "stable"},
    {{HTTP_POST, "/scopes/expand"},
     expand_scopes,
     "expandScopes",
     &expand,
     .early = true,
     .input = "auth/v1/scopeset.json",
     .output = "auth/v1/scopeset.json",
     .category = "Scopes and Auth",
     .title = "Expand scopes",
     .stability = "stable"},
    {{HTTP_GET, "/scopes/current"},
     current_scopes,
     "currentScopes",
     &nothing,
     .early = true,
     .output = "auth/v1/scopeset.json",
     .category = "Scopes and Auth",
     .title = "Get the scopes of the request",
     .stability = "stable"},
    {{HTTP_POST, "/authenticate-hawk"},
     tc_authenticate_hawk,
     "authenticateHawk",
     .input = "auth/v1/authenticate-hawk-request.json",
     .output = "auth/v1/authenticate-hawk-response.json",
     .category = "Scopes and Auth",
     .title = "Find out who signed a request",
     .stability = "stable"},
};
const size_t tc_auth_method_count = COUNT(tc_auth_methods);
