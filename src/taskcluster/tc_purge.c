/* SPDX-License-Identifier: Apache-2.0 */

/* The purge-cache service: which caches the workers of a pool must drop if they are older than a
 * time. A request is kept for a day, as an entry under its pool and the cache's name.
 *
 * Source: services/purge-cache/src/api.js of taskcluster/taskcluster. */

#include "base/array.h"
#include "base/must.h"
#include "base/rfc3339.h"
#include "taskcluster/tc_handlers.h"
#include "taskcluster/tc_task.h"
#include "wire/field.h"

#define PURGES       "taskcluster/purge"
#define KEPT_MS      ((int64_t)24 * 3600 * 1000)
#define NAME_MAX_LEN (KV_KEY_MAX - 128) /* of a cache: the pool comes before it */

struct purge {
    struct tc_call *call;
    struct str cache;
    instant since;
    struct buf answer;
    bool any;
};

/* "pool cache": no pool has a space in its name. */
static struct str key_of(struct tc_call *c, struct str cache)
{
    struct buf b = {0};
    buf_print(&b, "%.*s %.*s", STR_ARG(tc_param(c, "workerPoolId")), STR_ARG(cache));
    struct str key = arena_copy(c->arena, buf_view(&b));
    buf_fini(&b);
    return key;
}

/* --- purgeCache --- */

static void on_stored(void *ctx, const struct reply *r)
{
    struct tc_call *c = ctx;
    if (r->err.code != ERR_OK)
        tc_fail_err(c, &r->err);
    else
        tc_reply_empty(c);
}

static void store(struct tc_call *c, struct str cache)
{
    struct buf value = {0};
    buf_print(&value, "{\"before\":%lld}", (long long)c->now.ms);
    const struct kv_change change = {.entry = {STR(PURGES),
                                               key_of(c, cache),
                                               arena_copy(c->arena, buf_view(&value)),
                                               {c->now.ms + KEPT_MS},
                                               0},
                                     .when = KV_ANY};
    struct command cmd = {
        .kind = CMD_KV_PUT, .trail = c->trail, .kv_put = {&change, 1}, .done = on_stored, .ctx = c};
    buf_fini(&value);
    backend_submit(c->tc->backend, &cmd);
}

static void purge_cache(struct tc_call *c)
{
    static const struct field fields[] = {
        {.name = "cacheName", .read = field_text, .offset = offsetof(struct purge, cache)},
    };
    struct json_cursor j = json_open(c->body);
    struct purge p = {0};
    struct err err = field_read_object(true, &j, c->arena, fields, COUNT(fields), &p);
    must(err.code == ERR_OK); /* by the schema */
    const struct scope_param params[] = {
        {.name = "workerPoolId", .value = tc_param(c, "workerPoolId")},
        {.name = "cacheName", .value = p.cache},
    };
    if (p.cache.len == 0 || p.cache.len > NAME_MAX_LEN)
        tc_fail(c, TC_INPUT_ERROR, "The name of a cache has 1 to %d bytes", (int)NAME_MAX_LEN);
    else if (tc_authorize(c, params, COUNT(params)))
        store(c, p.cache);
}

/* --- purgeRequests --- */

struct stored {
    instant before;
};

static void add(struct purge *p, const struct kv_entry *e)
{
    static const struct field fields[] = {
        {.name = "before", .read = field_instant, .offset = offsetof(struct stored, before)},
    };
    struct tc_call *c = p->call;
    struct json_cursor j = json_open(e->value);
    struct stored s = {.before = INSTANT_NONE};
    struct str pool = tc_param(c, "workerPoolId"), provisioner, type;
    if (field_read_object(false, &j, c->arena, fields, COUNT(fields), &s).code != ERR_OK ||
        e->key.len <= pool.len || s.before.ms < p->since.ms)
        return;
    tc_queue_split(pool, &provisioner, &type);
    buf_print(&p->answer, "%s{\"provisionerId\":\"%.*s\",\"workerType\":\"%.*s\",\"cacheName\":",
              p->any ? "," : "", STR_ARG(provisioner), STR_ARG(type));
    json_write_string(&p->answer,
                      (struct str){e->key.at + pool.len + 1, e->key.len - pool.len - 1});
    tc_write_time(&p->answer, "before", s.before);
    buf_byte(&p->answer, '}');
    p->any = true;
}

static void list(struct purge *p, struct str after);

static void on_listed(void *ctx, const struct reply *r)
{
    struct purge *p = ctx;
    struct tc_call *c = p->call;
    for (size_t i = 0; r->err.code == ERR_OK && i < r->count; i++)
        add(p, &r->kv[i]);
    if (r->err.code == ERR_OK && r->more) {
        list(p, arena_copy(c->arena, r->kv_after));
        return;
    }
    struct buf answer = p->answer; /* p goes with its exchange */
    buf_lit(&answer, "]}");
    if (r->err.code != ERR_OK)
        tc_fail_err(c, &r->err);
    else
        tc_reply(c, &answer);
    buf_fini(&answer);
}

static void list(struct purge *p, struct str after)
{
    struct command cmd = {.kind = CMD_KV_LIST,
                          .kv = {.space = STR(PURGES),
                                 .key = key_of(p->call, (struct str){0}),
                                 .prefix = true,
                                 .after = after,
                                 .limit = KV_PAGE_MAX},
                          .done = on_listed,
                          .ctx = p};
    backend_submit(p->call->tc->backend, &cmd);
}

static void purge_requests(struct tc_call *c)
{
    struct purge *p = ARENA_NEW(c->arena, struct purge);
    struct str since;
    p->call = c;
    if (tc_query_value(c, "since", &since)) {
        bool ok = rfc3339_parse(since, &p->since);
        must(ok); /* by the table of the query */
    }
    buf_lit(&p->answer, "{\"requests\":[");
    list(p, (struct str){0});
}

/* --- methods --- */

static bool is_time(struct str s)
{
    instant t;
    return rfc3339_parse(s, &t);
}

static const struct tc_query since[] = {{"since", is_time}, {NULL, NULL}};
static const struct scope_expr purge = SCOPE("purge-cache:<workerPoolId>:<cacheName>");
static const struct scope_expr requests = SCOPE("purge-cache:purge-requests::<workerPoolId>");

const struct tc_method tc_purge_methods[] = {
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
    {{HTTP_POST, "/purge-cache/{workerPoolId*}"},
     purge_cache,
     "purgeCache",
     &purge,
     .input = "purge-cache/v1/purge-cache-request.json",
     .category = "Purge-Cache Service",
     .title = "Ask the workers of a pool to drop a cache",
     .stability = "stable"},
    {{HTTP_GET, "/purge-cache/{workerPoolId*}"},
     purge_requests,
     "purgeRequests",
     &requests,
     .early = true,
     .output = "purge-cache/v1/purge-cache-request-list.json",
     .query = since,
     .category = "Purge-Cache Service",
     .title = "List the caches that the workers of a pool must drop",
     .stability = "stable"},
};
const size_t tc_purge_method_count = COUNT(tc_purge_methods);
