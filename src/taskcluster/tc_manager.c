/* SPDX-License-Identifier: Apache-2.0 */

/* The worker-manager service, as far as workers themselves need it: a worker of the file of clients
 * (access/static_workers.h) proves who it is by its secret, and gets credentials, which it renews.
 * One that comes back, or is removed, has no claims left: its tasks are tried again at once.
 *
 * A registration is an entry under the worker's name. Its secret for the renewal is derived from
 * the server's key and a nonce, so that it is not on disk and survives a restart.
 *
 * Source: services/worker-manager/src/api.js and providers/static.js of taskcluster/taskcluster. */

#include <inttypes.h>
#include <stdio.h>

#include "base/array.h"
#include "base/log.h"
#include "base/must.h"
#include "taskcluster/tc_claim.h"
#include "taskcluster/tc_handlers.h"
#include "taskcluster/tc_task.h"
#include "wire/field.h"

#define REGISTERED "taskcluster/registered"
/* Of credentials, as the reference has it. What is known of the worker lasts as long. */
#define LIFE ((span){INT64_C(96) * 3600 * 1000})
#define PAGE 100 /* claims that are ended at a time */

/* A worker that a call is about. */
struct subject {
    struct tc_call *call;
    struct str pool, group, id, provider;
    struct str worker; /* group and id, as the engine knows it */
    struct str secret; /* that the caller gives */
    const struct static_worker *known;
    const char *ended; /* why its claims are */
    /* what is stored of it */
    struct str nonce, before; /* of its secret, and of the one before that */
    bool removed;
    uint64_t version;
    /* of its claims */
    struct id_place from;
    size_t pending;
    bool listed;
    struct err err;
    void (*then)(struct subject *s);
};

static struct str joined(struct arena *a, struct str x, char between, struct str y)
{
    struct buf b = {0};
    buf_print(&b, "%.*s%c%.*s", STR_ARG(x), between, STR_ARG(y));
    struct str s = arena_copy(a, buf_view(&b));
    buf_fini(&b);
    return s;
}

static void complete_subject(struct subject *s)
{
    struct tc_call *c = s->call;
    s->worker = joined(c->arena, s->group, '/', s->id);
    s->known = access_static_worker(c->tc->settings.access, s->pool, s->group, s->id);
}

static struct subject *subject_of_path(struct tc_call *c)
{
    struct subject *s = ARENA_NEW(c->arena, struct subject);
    s->call = c;
    s->pool = tc_param(c, "workerPoolId");
    s->group = tc_param(c, "workerGroup");
    s->id = tc_param(c, "workerId");
    complete_subject(s);
    return s;
}

/* --- the entry --- */

static void on_read(void *ctx, const struct reply *r)
{
    static const struct field fields[] = {
        {.name = "nonce", .read = field_text, .offset = offsetof(struct subject, nonce)},
        {.name = "before", .read = field_text, .offset = offsetof(struct subject, before)},
        {.name = "removed", .read = field_bool, .offset = offsetof(struct subject, removed)},
    };
    struct subject *s = ctx;
    struct tc_call *c = s->call;
    if (r->err.code == ERR_OK) {
        struct json_cursor j = json_open(arena_copy(c->arena, r->kv[0].value));
        struct err err = field_read_object(false, &j, c->arena, fields, COUNT(fields), s);
        s->version = err.code == ERR_OK ? r->kv[0].version : 0; /* it was written below */
    } else if (r->err.code == ERR_NOT_FOUND) {
        s->version = 0;
    } else {
        tc_fail_err(c, &r->err);
        return;
    }
    s->then(s);
}

static void read_entry(struct subject *s, void (*then)(struct subject *s))
{
    struct command cmd = {
        .kind = CMD_KV_READ,
        .kv = {.space = STR(REGISTERED), .key = joined(s->call->arena, s->pool, ' ', s->worker)},
        .done = on_read,
        .ctx = s};
    s->then = then;
    backend_submit(s->call->tc->backend, &cmd);
}

/* From the version that was read, or whatever is there; done(s) with the reply. */
static void put_entry(struct subject *s, bool any, reply_fn done)
{
    struct tc_call *c = s->call;
    struct buf value = {0};
    buf_print(&value, "{\"nonce\":\"%.*s\",\"before\":\"%.*s\",\"removed\":%s}", STR_ARG(s->nonce),
              STR_ARG(s->before), s->removed ? "true" : "false");
    const struct kv_change change = {.entry = {STR(REGISTERED),
                                               joined(c->arena, s->pool, ' ', s->worker),
                                               arena_copy(c->arena, buf_view(&value)),
                                               instant_add(c->now, LIFE), any ? 0 : s->version},
                                     .when = any ? KV_ANY : KV_VERSION};
    struct command cmd = {.kind = CMD_KV_PUT,
                          .trail = c->trail,
                          .kv_put = {.changes = &change, .count = 1, .sync = true},
                          .done = done,
                          .ctx = s};
    buf_fini(&value);
    backend_submit(c->tc->backend, &cmd);
}

static struct str fresh_nonce(struct tc_call *c)
{
    char text[40];
    int n = snprintf(text, sizeof text, "%" PRIx64 "-%" PRIx64, (uint64_t)c->now.ms,
                     rng_next(&c->tc->rng));
    return arena_copy(c->arena, (struct str){text, (size_t)n});
}

/* As long as a static secret, and of the same characters. */
static void derive_secret(const struct subject *s, struct str nonce, char secret[ACCESS_MAC_LEN])
{
    _Static_assert(ACCESS_MAC_LEN == STATIC_SECRET_LEN, "a MAC in Base64 is as long");
    struct buf text = {0};
    buf_print(&text, "reregister\n%.*s\n%.*s\n%.*s", STR_ARG(s->pool), STR_ARG(s->worker),
              STR_ARG(nonce));
    access_sign(s->call->tc->settings.access, buf_view(&text), secret);
    buf_fini(&text);
    for (int i = 0; i < ACCESS_MAC_LEN; i++)
        secret[i] = secret[i] == '+' ? '-' : secret[i] == '/' ? '_' : secret[i];
    secret[ACCESS_MAC_LEN - 1] = 'A'; /* for the padding */
}

static bool is_secret_of(const struct subject *s, struct str nonce)
{
    char secret[ACCESS_MAC_LEN];
    derive_secret(s, nonce, secret);
    return nonce.len && access_same((struct str){secret, sizeof secret}, s->secret);
}

/* --- its claims --- */

static void list_claims(struct subject *s);

static void finish_claims(struct subject *s)
{
    if (!s->listed || s->pending)
        return;
    if (s->err.code != ERR_OK)
        tc_fail_err(s->call, &s->err);
    else
        s->then(s);
}

static void on_claim_ended(void *ctx, const struct reply *r)
{
    struct subject *s = ctx;
    bool over = r->err.code == ERR_OK || r->err.code == ERR_STALE ||
                r->err.code == ERR_STALE_GANG || r->err.code == ERR_NOT_IN_FLIGHT ||
                r->err.code == ERR_NOT_FOUND;
    s->pending--;
    if (!over)
        s->err = r->err;
    finish_claims(s);
}

/* By its index: if the claim has ended meanwhile, and another began, that one stays. */
static void end_claim(struct subject *s, const struct job *job)
{
    struct command cmd = {.kind = CMD_FAIL,
                          .fail = {.ref = {.id = job->id,
                                           .by_index = true,
                                           .vouched = true,
                                           .index = job->state.runs - 1},
                                   .failure = {.message = str_from(s->ended), .run_time = {-1}},
                                   .exception = OUTCOME_WORKER_SHUTDOWN,
                                   .retry_at = INSTANT_NONE},
                          .done = on_claim_ended,
                          .ctx = s};
    s->pending++;
    backend_submit(s->call->tc->backend, &cmd);
}

static void on_claims(void *ctx, const struct reply *r)
{
    struct subject *s = ctx;
    bool more = r->err.code == ERR_OK && r->more && r->count;
    if (r->err.code != ERR_OK)
        s->err = r->err;
    else
        for (size_t i = 0; i < r->count; i++)
            end_claim(s, &r->jobs[i]);
    if (more) {
        s->from = (struct id_place){.set = true, .id = r->jobs[r->count - 1].id};
        list_claims(s);
        return;
    }
    s->listed = true;
    finish_claims(s);
}

static void list_claims(struct subject *s)
{
    static const struct str task = STR(JOB_TYPE_TASK);
    struct command cmd = {.kind = CMD_LIST,
                          .list = {.filter = {.queues = &s->pool,
                                              .queue_count = 1,
                                              .types = &task,
                                              .type_count = 1,
                                              .statuses = 1u << STATUS_IN_FLIGHT,
                                              .workers = &s->worker,
                                              .worker_count = 1},
                                   .from = s->from,
                                   .limit = PAGE,
                                   .no_payload = true},
                          .done = on_claims,
                          .ctx = s};
    backend_submit(s->call->tc->backend, &cmd);
}

/* Ends its claims, those that wait for tasks as well; then calls then(s), or has answered. */
static void end_claims(struct subject *s, const char *why, void (*then)(struct subject *s))
{
    s->ended = why;
    s->then = then;
    tc_claim_end_waiting(s->call->tc, s->pool, s->group, s->id);
    list_claims(s);
}

/* --- credentials --- */

/* P: the pool, W: group and id. The reference gives these, too. */
static const char *const scopes_given[] = {
    "assume:worker-type:P",
    "assume:worker-pool:P",
    "assume:worker-id:W",
    "queue:worker-id:W",
    "secrets:get:worker-type:P",
    "secrets:get:worker-pool:P",
    "queue:claim-work:P",
    "worker-manager:remove-worker:P/W",
    "worker-manager:reregister-worker:P/W",
    "worker-manager:should-worker-terminate:P/W",
};

static struct str fill_scope(const struct subject *s, const char *pattern)
{
    struct buf b = {0};
    for (const char *at = pattern; *at; at++)
        if (*at == 'P' || *at == 'W')
            buf_str(&b, *at == 'P' ? s->pool : s->worker);
        else
            buf_byte(&b, *at);
    struct str scope = arena_copy(s->call->arena, buf_view(&b));
    buf_fini(&b);
    return scope;
}

static void issue(const struct subject *s, struct credentials *out)
{
    struct tc_call *c = s->call;
    struct str scopes[COUNT(scopes_given)];
    struct buf name = {0};
    for (size_t i = 0; i < COUNT(scopes); i++)
        scopes[i] = fill_scope(s, scopes_given[i]);
    buf_print(&name, "worker/%.*s/%.*s/%.*s", STR_ARG(s->known->provider), STR_ARG(s->pool),
              STR_ARG(s->worker));
    access_issue(c->tc->settings.access, buf_view(&name), c->now, instant_add(c->now, LIFE), scopes,
                 COUNT(scopes), c->arena, out);
    buf_fini(&name);
}

static void answer_credentials(struct subject *s, bool config)
{
    struct tc_call *c = s->call;
    struct buf *b = tc_body(c);
    struct credentials given;
    char secret[ACCESS_MAC_LEN];
    derive_secret(s, s->nonce, secret);
    issue(s, &given);
    buf_lit(b, "{\"credentials\":{\"clientId\":");
    json_write_string(b, given.client_id);
    KEY(b, "accessToken");
    json_write_string(b, given.access_token);
    KEY(b, "certificate");
    json_write_string(b, given.certificate);
    buf_print(b, "},\"secret\":\"%.*s\"", ACCESS_MAC_LEN, secret);
    if (config)
        buf_print(b, ",\"workerConfig\":%.*s", STR_ARG(s->known->config));
    tc_write_time(b, "expires", instant_add(c->now, LIFE));
    buf_byte(b, '}');
    tc_reply(c, b);
}

/* The file may have been read again while the backend was at work. */
static bool is_known(struct subject *s)
{
    complete_subject(s);
    if (s->known)
        return true;
    tc_fail(s->call, TC_RESOURCE_NOT_FOUND,
            "Worker %.*s of worker pool %.*s does not exist: workers stand, with their static "
            "secrets, in the file that --taskcluster-clients names.",
            STR_ARG(s->worker), STR_ARG(s->pool));
    return false;
}

/* --- registerWorker --- */

struct proof {
    struct str secret;
};

static void answer_registered(struct subject *s)
{
    if (!is_known(s))
        return;
    log_info("taskcluster: worker %.*s of pool %.*s is registered", STR_ARG(s->worker),
             STR_ARG(s->pool));
    answer_credentials(s, true);
}

static void on_registered(void *ctx, const struct reply *r)
{
    struct subject *s = ctx;
    if (r->err.code != ERR_OK)
        tc_fail_err(s->call, &r->err);
    else
        end_claims(s, "its worker has registered anew", answer_registered);
}

struct register_body {
    struct str pool, group, id, provider, boot_time;
    struct field_part proof;
};

static struct subject *read_register_body(struct tc_call *c)
{
#define TEXT(json, member)                                                                         \
    {                                                                                              \
        .name = (json), .read = field_text, .offset = offsetof(struct register_body, member)       \
    }
    static const struct field fields[] = {
        TEXT("workerPoolId", pool),
        TEXT("workerGroup", group),
        TEXT("workerId", id),
        TEXT("providerId", provider),
        TEXT("systemBootTime", boot_time),
        {.name = "workerIdentityProof",
         .read = field_part,
         .offset = offsetof(struct register_body, proof)},
    };
    static const struct field of_proof[] = {
        {.name = "staticSecret", .read = field_text, .offset = offsetof(struct proof, secret)},
    };
    struct subject *s = ARENA_NEW(c->arena, struct subject);
    struct json_cursor j = json_open(c->body);
    struct register_body body = {0};
    struct proof proof = {0};
    struct err err = field_read_object(true, &j, c->arena, fields, COUNT(fields), &body);
    must(err.code == ERR_OK); /* by the schema */
    err = field_read_part(false, &body.proof, c->arena, of_proof, COUNT(of_proof),
                          "workerIdentityProof", &proof);
    must(err.code == ERR_OK);
    *s = (struct subject){.call = c,
                          .pool = body.pool,
                          .group = body.group,
                          .id = body.id,
                          .provider = body.provider,
                          .secret = proof.secret};
    return s;
}

static void register_worker(struct tc_call *c)
{
    struct subject *s = read_register_body(c);
    if (!is_known(s))
        return;
    if (!str_eq(s->provider, s->known->provider)) {
        tc_fail(c, TC_INPUT_ERROR, "Worker %.*s does not have provider %.*s", STR_ARG(s->worker),
                STR_ARG(s->provider));
    } else if (!s->secret.len) {
        tc_fail(c, TC_INPUT_ERROR,
                "missing staticSecret in workerIdentityProof: this server knows no other proof");
    } else if (!access_same(s->secret, s->known->secret)) {
        tc_fail(c, TC_INPUT_ERROR, "bad staticSecret in workerIdentityProof");
    } else {
        s->nonce = fresh_nonce(c);
        put_entry(s, true, on_registered);
    }
}

/* --- reregisterWorker --- */

static void reregister(struct subject *s);

static void on_renewed(void *ctx, const struct reply *r)
{
    struct subject *s = ctx;
    if (r->err.code == ERR_CONFLICT)
        read_entry(s, reregister); /* from what is there now */
    else if (r->err.code != ERR_OK)
        tc_fail_err(s->call, &r->err);
    else if (is_known(s))
        answer_credentials(s, false);
}

/* Until the new secret has been used the one before it is good, too: its answer may be lost. */
static void reregister(struct subject *s)
{
    if (!is_known(s))
        return;
    bool newest = is_secret_of(s, s->nonce);
    if (!s->version || s->removed || (!newest && !is_secret_of(s, s->before))) {
        tc_fail(s->call, TC_INPUT_ERROR, "Could not generate credentials for this secret");
        return;
    }
    if (newest) {
        s->before = s->nonce;
        s->nonce = fresh_nonce(s->call);
    }
    put_entry(s, false, on_renewed);
}

static void reregister_worker(struct tc_call *c)
{
    static const struct field fields[] = {
        {.name = "workerPoolId", .read = field_text, .offset = offsetof(struct subject, pool)},
        {.name = "workerGroup", .read = field_text, .offset = offsetof(struct subject, group)},
        {.name = "workerId", .read = field_text, .offset = offsetof(struct subject, id)},
        {.name = "secret", .read = field_text, .offset = offsetof(struct subject, secret)},
    };
    struct subject *s = ARENA_NEW(c->arena, struct subject);
    struct json_cursor j = json_open(c->body);
    struct err err = field_read_object(true, &j, c->arena, fields, COUNT(fields), s);
    must(err.code == ERR_OK); /* by the schema */
    s->call = c;
    const struct scope_param params[] = {
        {.name = "workerPoolId", .value = s->pool},
        {.name = "workerGroup", .value = s->group},
        {.name = "workerId", .value = s->id},
    };
    complete_subject(s);
    if (tc_authorize(c, params, COUNT(params)))
        read_entry(s, reregister);
}

/* --- removeWorker, shouldWorkerTerminate --- */

static bool was_registered(struct subject *s)
{
    if (s->version)
        return true;
    tc_fail(s->call, TC_RESOURCE_NOT_FOUND, "Worker %.*s of worker pool %.*s not found",
            STR_ARG(s->worker), STR_ARG(s->pool));
    return false;
}

static void answer_removed(struct subject *s)
{
    log_info("taskcluster: worker %.*s of pool %.*s is removed", STR_ARG(s->worker),
             STR_ARG(s->pool));
    tc_reply_empty(s->call);
}

static void on_removed(void *ctx, const struct reply *r)
{
    struct subject *s = ctx;
    if (r->err.code != ERR_OK)
        tc_fail_err(s->call, &r->err);
    else
        end_claims(s, "its worker was removed", answer_removed);
}

static void remove_found(struct subject *s)
{
    if (!was_registered(s))
        return;
    s->nonce = s->before = (struct str){0};
    s->removed = true;
    put_entry(s, true, on_removed);
}

static void remove_worker(struct tc_call *c)
{
    read_entry(subject_of_path(c), remove_found);
}

static void decide(struct subject *s)
{
    if (!was_registered(s))
        return;
    complete_subject(s);
    const char *why = s->removed ? "the worker was removed"
                      : s->known ? "none"
                                 : "the worker is no longer in the file of clients";
    struct buf *b = tc_body(s->call);
    buf_print(b, "{\"terminate\":%s,\"reason\":\"%s\"}", s->removed || !s->known ? "true" : "false",
              why);
    tc_reply(s->call, b);
}

static void should_terminate(struct tc_call *c)
{
    read_entry(subject_of_path(c), decide);
}

/* --- methods --- */

#define OF_WORKER(verb) SCOPE("worker-manager:" verb ":<workerPoolId>/<workerGroup>/<workerId>")
static const struct scope_expr reregistering = OF_WORKER("reregister-worker");
static const struct scope_expr removing = OF_WORKER("remove-worker");
static const struct scope_expr asking = OF_WORKER("should-worker-terminate");

const struct tc_method tc_manager_methods[] = {
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
    {{HTTP_POST, "/worker/register"},
     register_worker,
     "registerWorker",
     .input = "worker-manager/v1/register-worker-request.json",
     .output = "worker-manager/v1/register-worker-response.json",
     .category = "Worker Interface",
     .title = "Register a worker by its static secret",
     .stability = "stable"},
    {{HTTP_POST, "/worker/reregister"},
     reregister_worker,
     "reregisterWorker",
     &reregistering,
     .input = "worker-manager/v1/reregister-worker-request.json",
     .output = "worker-manager/v1/reregister-worker-response.json",
     .category = "Worker Interface",
     .title = "Renew the credentials of a registered worker",
     .stability = "experimental"},
    {{HTTP_DELETE, "/workers/{workerPoolId}/{workerGroup}/{workerId}"},
     remove_worker,
     "removeWorker",
     &removing,
     .early = true,
     .category = "Workers",
     .title = "Remove a worker and end its claims",
     .stability = "stable"},
    {{HTTP_GET, "/workers/{workerPoolId}/{workerGroup}/{workerId}/should-terminate"},
     should_terminate,
     "shouldWorkerTerminate",
     &asking,
     .early = true,
     .output = "worker-manager/v1/should-worker-terminate-response.json",
     .category = "Workers",
     .title = "Ask whether a worker shall terminate",
     .stability = "experimental"},
};
const size_t tc_manager_method_count = COUNT(tc_manager_methods);
