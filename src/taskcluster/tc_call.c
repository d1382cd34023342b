/* SPDX-License-Identifier: Apache-2.0 */

/* From a request to the handler of its method: who sent it, and whether its path, query and body
 * are what the method takes. */

#include <stdio.h>
#include <stdlib.h>

#include "access/hawk.h"
#include "base/alloc.h"
#include "base/base64.h"
#include "base/must.h"
#include "net/query.h"
#include "taskcluster/tc_lost.h"
#include "taskcluster/tc_task.h"

/* --- parameters of the path --- */

bool tc_next_param(const char **at, struct str *name)
{
    const char *open = strchr(*at, '{');
    if (!open)
        return false;
    const char *close = strchr(open, '}');
    must(close);
    *at = close;
    size_t n = (size_t)(close - open) - 1;
    *name = (struct str){open + 1, open[n] == '*' ? n - 1 : n};
    return true;
}

struct str tc_param(const struct tc_call *c, const char *name)
{
    const char *at = c->method->route.pattern;
    struct str is;
    for (int i = 0; tc_next_param(&at, &is); i++)
        if (str_eq(is, str_from(name)))
            return c->params[i];
    must(false); /* no parameter of the path */
    return (struct str){0};
}

uint32_t tc_param_run(const struct tc_call *c)
{
    struct str s = tc_param(c, "runId");
    uint64_t v = 0;
    for (size_t i = 0; i < s.len && v < UINT32_MAX; i++)
        v = v * 10 + (uint64_t)(s.at[i] - '0');
    return v < UINT32_MAX ? (uint32_t)v : UINT32_MAX;
}

struct run_ref tc_run_ref(const struct tc_call *c)
{
    return (struct run_ref){.by_index = true, .vouched = true, .index = tc_param_run(c)};
}

static bool check_path(struct tc_call *c)
{
    const char *at = c->method->route.pattern, *must_be = "";
    struct str name;
    for (int i = 0; tc_next_param(&at, &name); i++) {
        if (tc_check_param(name, c->params[i], &must_be))
            continue;
        tc_fail(c, TC_INVALID_REQUEST_ARGUMENTS,
                "Invalid URL patterns:\nURL parameter '%.*s' given as '%.*s' must be %s",
                STR_ARG(name), NAME_ARG(c->params[i]), must_be);
        return false;
    }
    return true;
}

struct str tc_root_url(const struct tc_call *c)
{
    struct buf b = {0};
    buf_print(&b, "%s://%.*s", c->tls ? "https" : "http", STR_ARG(c->host));
    struct str url = arena_copy(c->arena, buf_view(&b));
    buf_fini(&b);
    return url;
}

/* --- the query --- */

bool tc_query_value(const struct tc_call *c, const char *name, struct str *value)
{
    struct query_cursor q = query_open(c->query, c->arena);
    struct str is;
    bool more;
    while (query_next(&q, &more, &is, value).code == ERR_OK && more)
        if (str_eq(is, str_from(name)))
            return true;
    *value = (struct str){0};
    return false;
}

static const struct tc_query *find_query(const struct tc_query *q, struct str name)
{
    while (q && q->name && !str_eq(name, str_from(q->name)))
        q++;
    return q && q->name ? q : NULL;
}

/* As the reference: an unknown parameter is refused, and so is a value that its pattern does not
 * allow. The bewit is no parameter of any method. */
static bool check_query(struct tc_call *c)
{
    struct query_cursor q = query_open(c->query, c->arena);
    struct str name, value;
    bool more;
    for (;;) {
        struct err err = query_next(&q, &more, &name, &value);
        if (err.code != ERR_OK) {
            tc_fail(c, TC_INVALID_REQUEST_ARGUMENTS, "%s", err.msg);
            return false;
        }
        if (!more)
            return true;
        if (str_eq(name, STR("bewit")))
            continue;
        const struct tc_query *known = find_query(c->method->query, name);
        if (known && known->allows(value))
            continue;
        tc_fail(c, TC_INVALID_REQUEST_ARGUMENTS,
                known ? "Query-string parameter '%.*s' has a value that is not allowed: '%.*s'"
                      : "Query-string parameter '%.*s' is not supported by this method%.*s",
                NAME_ARG(name), known ? (int)(value.len < 64 ? value.len : 64) : 0, value.at);
        return false;
    }
}

bool tc_page(struct tc_call *c, uint32_t max, uint32_t *limit, struct str *after)
{
    struct str text;
    *limit = max;
    *after = (struct str){0};
    if (tc_query_value(c, "limit", &text)) {
        uint64_t v = 0;
        for (size_t i = 0; i < text.len && v <= max; i++)
            v = v * 10 + (uint64_t)(text.at[i] - '0');
        *limit = v < 1 ? 1 : v < max ? (uint32_t)v : max;
    }
    if (!tc_query_value(c, "continuationToken", &text) ||
        (text.len && base64_read(text, c->arena, after)))
        return true;
    tc_fail(c, TC_INVALID_REQUEST_ARGUMENTS, "Invalid continuationToken");
    return false;
}

void tc_write_continuation(struct buf *b, struct str after)
{
    buf_lit(b, ",\"continuationToken\":\"");
    base64_write_url(b, after);
    buf_byte(b, '"');
}

/* --- who sent it --- */

static const struct operation *operation_of(const struct tc_call *c)
{
    return tc_operation(c->tc, c->method);
}

static void refuse_identity(struct tc_call *c, const struct identity_request *asks,
                            const struct err *err, const char *challenge)
{
    char extra[32];
    snprintf(extra, sizeof extra, "Retry-After: %u\r\n", asks->wait);
    if (err->code == ERR_TOO_MANY_TRIES)
        tc_fail_extra(c, TC_TOO_MANY_REQUESTS, err, extra);
    else if (err->code == ERR_NO_RIGHT)
        tc_fail(c, TC_INSUFFICIENT_SCOPES, "%s", err->msg);
    else
        tc_fail_access(c, err, challenge);
}

/* Who is known to the Jobs API needs no scopes: its rights decide. */
static bool use_token(struct tc_call *c, const struct token *token)
{
    static const struct str everything = {"*", 1};
    struct buf client = {0};
    struct err err = rights_check(&token->rights, operation_of(c));
    if (err.code != ERR_OK) {
        tc_fail(c, TC_INSUFFICIENT_SCOPES, "%s", err.msg);
        return false;
    }
    c->token = token;
    c->rights = &token->rights;
    c->actor = token_actor(token);
    buf_print(&client, "%s/%.*s", actor_word(c->actor.kind), STR_ARG(c->actor.id));
    c->who = (struct access_identity){.kind = ACCESS_CLIENT,
                                      .client_id = arena_copy(c->arena, buf_view(&client)),
                                      .scopes = {&everything, 1},
                                      .expires = token->expires};
    buf_fini(&client);
    return true;
}

bool tc_is_open(const struct taskcluster *t)
{
    const struct taskcluster_settings *set = &t->settings;
    return !access_has_clients(set->access) &&
           !(set->identities && identities_guard(set->identities));
}

/* Clients without credentials may do everything only while nobody needs any. */
static bool check_anonymous(struct tc_call *c)
{
    const struct taskcluster_settings *set = &c->tc->settings;
    if (c->who.kind != ACCESS_ANONYMOUS || access_has_clients(set->access) || tc_is_open(c->tc))
        return true;
    struct err err = rights_check(NULL, operation_of(c));
    if (err.code == ERR_OK)
        return true;
    tc_fail_access(c, &err, "Bearer realm=\"tenax\"");
    return false;
}

/* Where a rule is about a client, it may do what both its scopes and its roles allow. So may
 * whoever has temporary credentials of it. */
static bool limit_client(struct tc_call *c)
{
    struct identities *identities = c->tc->settings.identities;
    struct token *rule = NULL;
    struct err err = identities && c->who.issuer.len
                         ? identities_client(identities, c->who.issuer, &rule)
                         : err_none();
    if (rule) {
        c->actor.name = rule->name;
        c->rights = &rule->rights;
    }
    if (err.code == ERR_OK && rule)
        err = rights_check(&rule->rights, operation_of(c));
    if (err.code == ERR_OK)
        return true;
    tc_fail(c, TC_INSUFFICIENT_SCOPES, "%s", err.msg);
    return false;
}

static bool identify_client(struct tc_call *c, const struct http_request *req,
                            struct identity_request *shows)
{
    const struct access_request asks = {.method = str_from(router_method_name(req->method)),
                                        .path = req->path,
                                        .query = req->query,
                                        .host = req->host,
                                        .tls = http_is_tls(c->x),
                                        .forwarded_port = req->forwarded_port,
                                        .forwarded_proto = req->forwarded_proto,
                                        .authorization = req->authorization,
                                        .content_type = req->content_type,
                                        .body = req->body};
    const struct taskcluster_settings *set = &c->tc->settings;
    char challenge[ACCESS_CHALLENGE_MAX] = "";
    if (set->needs_clients && !access_has_clients(set->access)) {
        struct err closed = err_make(ERR_BAD_CREDENTIALS,
                                     "no clients are configured (serve --taskcluster-clients), and "
                                     "other machines can reach this server");
        tc_fail_access(c, &closed, challenge);
        return false;
    }
    /* There is nothing to check a signature by, and workers that insist on credentials are given
     * some: they may do what they may without. */
    if (tc_is_open(c->tc) && hawk_is_signed(req->authorization, req->query)) {
        c->who = access_anonymous(set->access, c->arena);
        c->actor = (struct actor){.kind = ACTOR_ANONYMOUS};
        return true;
    }
    instant wall = set->now(set->ctx); /* by which others sign */
    struct err err = access_check(set->access, &asks, wall, c->arena, &c->who, challenge);
    if (err.code == ERR_OK) {
        bool known = c->who.kind != ACCESS_ANONYMOUS;
        c->actor = (struct actor){known ? ACTOR_HAWK : ACTOR_ANONYMOUS, .id = c->who.client_id};
        return known ? limit_client(c) : check_anonymous(c);
    }
    if (set->identities)
        err = identities_wrong(set->identities, shows, wall, &err);
    refuse_identity(c, shows, &err, challenge);
    return false;
}

static bool identify(struct tc_call *c, const struct http_request *req)
{
    const struct taskcluster_settings *set = &c->tc->settings;
    const struct http_peer *peer = http_peer(c->x);
    struct identity_request shows = {.authorization = req->authorization,
                                     .address = peer->address,
                                     .subject = peer->subject,
                                     .names = peer->names};
    struct token *token = NULL;
    struct err err = set->tokens ? tokens_unread(set->tokens) : err_none();
    if (err.code != ERR_OK) {
        tc_fail_err(c, &err);
        return false;
    }
    instant wall = set->now(set->ctx);
    shows.held = instant_diff(wall, c->now);
    if (set->identities)
        err = identities_check(set->identities, &shows, wall, &token);
    if (err.code != ERR_OK) {
        refuse_identity(c, &shows, &err, "Bearer realm=\"tenax\", error=\"invalid_token\"");
        return false;
    }
    return token ? use_token(c, token) : identify_client(c, req, &shows);
}

bool tc_authorize(struct tc_call *c, const struct scope_param *params, size_t count)
{
    const struct scope_params p = {params, count};
    struct buf why = {0};
    if (!c->method->scopes || access_require(&c->who, c->method->scopes, &p, &why).code == ERR_OK) {
        buf_fini(&why);
        return true;
    }
    tc_fail(c, TC_INSUFFICIENT_SCOPES, "%.*s", STR_ARG(buf_view(&why)));
    buf_fini(&why);
    return false;
}

/* Without the body: a task's definition is its payload. */
static void note_change(struct tc_call *c, const struct http_request *req)
{
    const struct operation *op = operation_of(c);
    struct buf b = {0};
    if (op->right < RIGHT_OPERATE || req->method == HTTP_GET)
        return;
    const struct change_note note = {.actor = c->actor,
                                     .address = str_from(http_peer(c->x)->address),
                                     .operation = str_from(op->name),
                                     .path = req->path,
                                     .query = c->who.bewit ? (struct str){0} : req->query};
    change_note_write(&note, &b);
    c->trail = arena_copy(c->arena, buf_view(&b));
    buf_fini(&b);
    change_note_log(&note);
}

/* By what the path says alone: all that is asked before anything is looked up. */
static bool authorize_early(struct tc_call *c)
{
    struct scope_param params[ROUTER_PARAMS_MAX];
    char names[ROUTER_PARAMS_MAX][32];
    const char *at = c->method->route.pattern;
    struct str name;
    size_t n = 0;
    for (; tc_next_param(&at, &name); n++) {
        must(name.len < sizeof names[0]);
        memcpy(names[n], name.at, name.len);
        names[n][name.len] = '\0';
        params[n] = (struct scope_param){.name = names[n], .value = c->params[n]};
    }
    return tc_authorize(c, params, n);
}

/* --- who holds a run --- */

bool tc_must_hold(const struct tc_call *c)
{
    return c->token && !rights_have(c->rights, RIGHT_OPERATE);
}

bool tc_holds(const struct tc_call *c, struct id job, uint32_t run)
{
    const struct holding *one = holders_find(c->tc->settings.holders, job);
    return one && one->run == run && holding_is_of(one, c->token);
}

static void handle_if_held(struct tc_call *c, const struct tc_task *t)
{
    if (t && tc_holds(c, t->job.id, tc_param_run(c)))
        c->method->handle(c);
    else
        tc_fail(c, TC_INSUFFICIENT_SCOPES,
                "A worker reports only runs that it holds: sign with the credentials that the "
                "claim of the run gave.");
}

/* --- the body --- */

/* As the reference's services have it; more would hold up the loop. */
#define BODY_MAX ((size_t)10 << 20)

static bool is_json(struct str type)
{
    static const struct str json = {"application/json", 16};
    return type.len >= json.len && memcmp(type.at, json.at, json.len) == 0 &&
           (type.len == json.len || type.at[json.len] == ';' || type.at[json.len] == ' ');
}

static bool check_body(struct tc_call *c, const struct http_request *req)
{
    struct buf problems = {0};
    bool ok = false;
    c->body = req->body;
    if (!c->method->input)
        return true;
    c->body = arena_copy(c->arena, req->body);
    if (req->body.len > BODY_MAX) {
        c->body = (struct str){0};
        tc_fail(c, TC_INPUT_TOO_LARGE, "Payload is larger than %zu bytes", BODY_MAX);
        return false;
    }
    if (!is_json(req->content_type)) {
        tc_fail(c, TC_MALFORMED_PAYLOAD,
                "Payload must be JSON with content-type: application/json, not '%.*s'",
                NAME_ARG(req->content_type));
        return false;
    }
    struct json_cursor j = json_open(c->body);
    struct err err = json_skip(&j, NULL);
    if (err.code == ERR_OK)
        err = json_close(&j);
    if (err.code != ERR_OK) {
        c->body = (struct str){0}; /* it cannot be repeated in the error */
        tc_fail(c, TC_MALFORMED_PAYLOAD, "Payload is not valid JSON: %s, at byte %lld", err.msg,
                (long long)err.offset);
    } else if (!(ok = tc_schemas_check(c->tc->schemas, c->method->input, c->body, c->arena,
                                       &problems))) {
        tc_fail(c, TC_INPUT_VALIDATION_ERROR,
                "Schema Validation Failed!\nRejecting Schema: %s\n"
                "Errors:\n%.*s",
                c->method->input, STR_ARG(buf_view(&problems)));
    }
    buf_fini(&problems);
    return ok;
}

/* --- */

instant tc_now(const struct taskcluster *t)
{
    return instant_min(t->settings.now(t->settings.ctx), backend_time(t->backend));
}

static struct tc_call *begin(struct taskcluster *t, struct http_exchange *x,
                             const struct http_request *req, const struct tc_method *m,
                             const struct route_params *params)
{
    struct tc_call *c = ARENA_NEW(req->arena, struct tc_call);
    c->tc = t;
    c->x = x;
    c->method = m;
    c->arena = req->arena;
    c->now = tc_now(t);
    c->query = arena_copy(c->arena, req->query);
    c->length = req->length;
    c->host = arena_copy(c->arena, req->host);
    c->content_type = arena_copy(c->arena, req->content_type);
    c->content_encoding = arena_copy(c->arena, req->content_encoding);
    c->wanted =
        (struct content_request){.head = req->method == HTTP_HEAD,
                                 .range = arena_copy(c->arena, req->range),
                                 .if_range = arena_copy(c->arena, req->if_range),
                                 .if_none_match = arena_copy(c->arena, req->if_none_match),
                                 .if_modified_since = arena_copy(c->arena, req->if_modified_since)};
    c->tls = req->forwarded_proto.len ? str_eq(req->forwarded_proto, STR("https")) : http_is_tls(x);
    for (int i = 0; params && i < params->count; i++)
        c->params[i] = arena_copy(c->arena, params->at[i]);
    return c;
}

static void serve(void *ctx, struct http_exchange *x, const struct http_request *req,
                  const struct route *route, const struct route_params *params)
{
    const struct tc_method *m = (const struct tc_method *)route; /* its first member */
    struct tc_call *c = begin(ctx, x, req, m, params);
    bool open = !m->scopes; /* what demands nothing is for everybody */
    if (!check_path(c) || (!open && !identify(c, req)) || !check_query(c))
        return;
    if (m->early && !authorize_early(c))
        return;
    if (!check_body(c, req))
        return;
    if (!open)
        note_change(c, req);
    if (m->held && tc_must_hold(c))
        tc_task_find(c, tc_param(c, "taskId"), handle_if_held);
    else
        m->handle(c);
}

struct tc_call *tc_call_of_nothing(struct taskcluster *t, struct http_exchange *x,
                                   const struct http_request *req)
{
    static const struct tc_method none = {.name = "unknown"};
    return begin(t, x, req, &none, NULL);
}

static void refuse(void *ctx, struct http_exchange *x, const struct http_request *req,
                   const struct err *err, struct str allow)
{
    struct tc_call *c = tc_call_of_nothing(ctx, x, req);
    char extra[128];
    snprintf(extra, sizeof extra, "Allow: %.*s\r\n", STR_ARG(allow));
    if (err->code == ERR_BAD_METHOD)
        tc_fail_extra(c, TC_METHOD_NOT_ALLOWED, err, extra);
    else if (err->code == ERR_NOT_SUPPORTED)
        tc_fail(c, TC_NOT_IMPLEMENTED, "%s", err->msg);
    else if (err->code == ERR_NO_ROUTE)
        tc_fail(c, TC_RESOURCE_NOT_FOUND,
                "Unknown route: %.*s\nOf Taskcluster's services this server has the methods that "
                "tasks and their workers need.",
                NAME_ARG(req->path));
    else
        tc_fail(c, TC_INVALID_REQUEST_ARGUMENTS, "%s", err->msg);
}

struct err taskcluster_new(struct backend *backend, const struct taskcluster_settings *settings,
                           struct taskcluster **out)
{
    const struct tc_files_settings files = {.dir = settings->artifact_dir,
                                            .space = settings->artifact_space,
                                            .free_min = settings->free_min,
                                            .backend = backend,
                                            .loop = settings->loop,
                                            .seed = settings->seed + 1};
    struct tc_files *opened;
    TRY(tc_files_open(&files, &opened));
    struct taskcluster *t = ALLOC(struct taskcluster);
    t->files = opened;
    t->backend = backend;
    t->settings = *settings;
    t->operations = tc_operations_new();
    t->schemas = tc_schemas_new();
    list_init(&t->later);
    list_init(&t->waiting);
    list_init(&t->lost);
    list_init(&t->telling);
    t->started = settings->now(settings->ctx);
    t->rng = rng_from_seed(settings->seed);
    t->boxes.seed = rng_next(&t->rng);
    const struct front_end like = {.serve = serve, .refuse = refuse, .ctx = t};
    tc_services_mount(t->ends, &like);
    tc_discover_mount(t->ends + TC_APIS + 1, &like);
    *out = t;
    return err_none();
}

void taskcluster_stop(struct taskcluster *t)
{
    if (t)
        tc_files_stop(t->files);
}

void taskcluster_free(struct taskcluster *t)
{
    if (!t)
        return;
    tc_poll_free(t);
    tc_tell_free(t);
    tc_lost_free(t);
    tc_files_free(t->files);
    tc_schemas_free(t->schemas);
    buf_fini(&t->scratch);
    free(t->operations);
    free(t);
}

void taskcluster_read_artifacts(const struct taskcluster *t, struct taskcluster_artifacts *out)
{
    struct tc_files_stats s;
    tc_files_read_stats(t->files, &s);
    *out = (struct taskcluster_artifacts){.used = s.used, .space = s.space, .uploads = s.uploads};
}

void taskcluster_set_free_min(struct taskcluster *t, uint64_t bytes)
{
    tc_files_set_free_min(t->files, bytes);
}

void taskcluster_set_claim_timeout(struct taskcluster *t, span timeout)
{
    t->settings.claim_timeout = timeout;
}

const struct front_end *taskcluster_front_end(struct taskcluster *t, int i)
{
    return &t->ends[i];
}
