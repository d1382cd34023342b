/* SPDX-License-Identifier: Apache-2.0 */

/* The auth service's authenticateHawk: another service passes on what of a request is signed, and
 * hears whose request it is, and which scopes that has, without knowing anybody's key.
 *
 * Source: services/auth/src/signaturevalidator.js of taskcluster/taskcluster. */

#include "access/hawk.h"
#include "base/array.h"
#include "base/must.h"
#include "taskcluster/tc_definition.h"
#include "taskcluster/tc_handlers.h"
#include "wire/field.h"

struct asked {
    struct str method, resource, host, authorization, source_ip;
    int32_t port;
};

/* For how long an answer about a request without credentials holds: as in the reference. */
#define UNSIGNED_LIFE ((span){15 * 60 * 1000})
/* 3000-01-01: of what does not expire. */
#define NEVER ((instant){INT64_C(32503680000) * 1000})

static void write_scopes(struct buf *b, const struct scope_set *scopes)
{
    buf_lit(b, ",\"scopes\":[");
    for (size_t i = 0; i < scopes->count; i++) {
        if (i)
            buf_byte(b, ',');
        json_write_string(b, scopes->at[i]);
    }
    buf_byte(b, ']');
}

static void answer_failure(struct tc_call *c, const char *message)
{
    struct buf *b = tc_body(c);
    buf_lit(b, "{\"status\":\"auth-failed\",\"message\":");
    json_write_string(b, str_from(message));
    buf_byte(b, '}');
    tc_reply(c, b);
}

static void answer_unsigned(struct tc_call *c, instant wall)
{
    const struct taskcluster *t = c->tc;
    struct access_identity who = access_anonymous(t->settings.access, c->arena);
    struct buf *b = tc_body(c);
    if (!access_has_clients(t->settings.access) && !tc_is_open(t))
        who.scopes.count = 0; /* tokens are needed, which such a request has not */
    buf_lit(b, "{\"status\":\"no-auth\",\"scheme\":\"none\"");
    write_scopes(b, &who.scopes);
    tc_write_time(b, "expires", instant_add(wall, UNSIGNED_LIFE));
    buf_byte(b, '}');
    tc_reply(c, b);
}

static void answer_success(struct tc_call *c, const struct access_identity *who)
{
    struct buf *b = tc_body(c);
    buf_lit(b, "{\"status\":\"auth-success\",\"scheme\":\"hawk\",\"clientId\":");
    json_write_string(b, who->client_id);
    write_scopes(b, &who->scopes);
    tc_write_time(b, "expires", instant_is_set(who->expires) ? who->expires : NEVER);
    if (who->hash.len) {
        KEY(b, "hash");
        json_write_string(b, who->hash);
    }
    buf_byte(b, '}');
    tc_reply(c, b);
}

static struct str upper(struct str s, struct arena *a)
{
    struct str copy = arena_copy(a, s);
    char *at = (char *)copy.at;
    for (size_t i = 0; i < copy.len; i++)
        at[i] = (char)(at[i] >= 'a' && at[i] <= 'z' ? at[i] - 0x20 : at[i]);
    return copy;
}

/* As a header Host has it. */
static struct str host_and_port(const struct asked *asked, struct arena *a)
{
    bool ipv6 = memchr(asked->host.at, ':', asked->host.len);
    struct buf b = {0};
    buf_print(&b, ipv6 ? "[%.*s]:%d" : "%.*s:%d", STR_ARG(asked->host), asked->port);
    struct str header = arena_copy(a, buf_view(&b));
    buf_fini(&b);
    return header;
}

static void split_resource(struct str resource, struct access_request *r)
{
    const char *mark = resource.len ? memchr(resource.at, '?', resource.len) : NULL;
    r->path = resource;
    if (!mark)
        return;
    r->path.len = (size_t)(mark - resource.at);
    r->query = (struct str){mark + 1, resource.len - r->path.len - 1};
}

/* Without clients there is nothing to check a signature by: whoever signs may do what everybody
 * may, by the name that it gives itself. */
static struct err take_name(const struct tc_call *c, const struct access_request *r,
                            struct access_identity *who)
{
    struct hawk_target target = {.method = r->method, .path = r->path, .query = r->query};
    struct hawk_attributes h;
    if (r->authorization.len)
        TRY(hawk_parse_header(r->authorization, &h));
    else
        TRY(hawk_parse_bewit(&target, c->arena, &h));
    *who = access_anonymous(c->tc->settings.access, c->arena);
    who->client_id = h.id;
    who->hash = h.hash;
    return err_none();
}

static struct err find_sender(const struct tc_call *c, const struct access_request *r, instant wall,
                              struct access_identity *who)
{
    const struct taskcluster_settings *set = &c->tc->settings;
    char challenge[ACCESS_CHALLENGE_MAX];
    if (tc_is_open(c->tc))
        return take_name(c, r, who);
    return access_check(set->access, r, wall, c->arena, who, challenge);
}

void tc_authenticate_hawk(struct tc_call *c)
{
    static const struct field fields[] = {
        {.name = "method", .read = field_text, .offset = offsetof(struct asked, method)},
        {.name = "resource", .read = field_text, .offset = offsetof(struct asked, resource)},
        {.name = "host", .read = field_text, .offset = offsetof(struct asked, host)},
        {.name = "port", .read = field_i32, .offset = offsetof(struct asked, port)},
        {.name = "authorization",
         .read = field_text,
         .offset = offsetof(struct asked, authorization)},
        {.name = "sourceIp", .read = field_text, .offset = offsetof(struct asked, source_ip)},
    };
    instant wall = c->tc->settings.now(c->tc->settings.ctx); /* by which others sign */
    struct json_cursor j = json_open(c->body);
    struct asked asked = {0};
    struct access_identity who;
    struct err err = field_read_object(true, &j, c->arena, fields, COUNT(fields), &asked);
    if (err.code != ERR_OK) { /* of what a schema does not say: 80.0, a lone surrogate */
        tc_fail(c, TC_INPUT_ERROR, "%s", err.msg);
        return;
    }
    struct access_request r = {.method = upper(asked.method, c->arena),
                               .host = host_and_port(&asked, c->arena),
                               .authorization = asked.authorization,
                               .elsewhere = true};
    split_resource(asked.resource, &r);
    if (r.path.len == 0 || r.path.at[0] != '/')
        answer_failure(c, "the resource does not begin with '/'");
    else if (r.authorization.len == 0 && !hawk_has_bewit(r.query))
        answer_unsigned(c, wall);
    else if ((err = find_sender(c, &r, wall, &who)).code == ERR_OK)
        answer_success(c, &who);
    else
        answer_failure(c, err.msg);
}
