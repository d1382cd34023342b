/* SPDX-License-Identifier: Apache-2.0 */

/* POST /jobs and POST /jobs/bulk. */

#include <stdio.h>

#include "access/mac.h"
#include "api/api_access.h"
#include "api/api_routes.h"
#include "base/array.h"
#include "core/depend.h"
#include "core/idempotency.h"
#include "core/trace.h"

/* --- idempotency keys --- */

const struct api_param api_enqueue_params[] = {
    {"Idempotency-Key",
     "string /^[!-~]([ -~]{0,253}[!-~])?$/: the same request with the same key is answered "
     "as the first time, with the header Idempotent-Replayed, and adds nothing",
     .header = true},
    {"traceparent",
     "string: the trace of jobs that name none (W3C Trace Context); passed over if it is malformed",
     .header = true},
    {"tracestate", "string: likewise, with traceparent", .header = true},
    {NULL, NULL}};

static struct err check_key(struct str key)
{
    if (key.len == 0 || key.len > IDEMPOTENCY_KEY_MAX)
        return err_make(ERR_BAD_VALUE, "Idempotency-Key has 1 to %d characters, not %zu",
                        IDEMPOTENCY_KEY_MAX, key.len);
    for (size_t i = 0; i < key.len; i++)
        if (key.at[i] < ' ' || key.at[i] > '~')
            return err_make(ERR_BAD_VALUE,
                            "Idempotency-Key has the byte 0x%02x at %zu; only printable ASCII "
                            "characters are allowed",
                            (unsigned char)key.at[i], i);
    return err_none();
}

/* Two that send the same key must not hear of each other's jobs. A token is known by its id, which
 * no key of another can pretend to be: it has no colon. */
static struct str scoped(const struct api_request *r, struct str key)
{
    struct str owner = r->token ? token_id(r->token) : (struct str){0};
    char *at = arena_get(r->http->arena, owner.len + 1 + key.len);
    if (owner.len)
        memcpy(at, owner.at, owner.len);
    at[owner.len] = ':';
    memcpy(at + owner.len + 1, key.at, key.len);
    return (struct str){at, owner.len + 1 + key.len};
}

/* NULL without such a header. A request is the same if path and body are. */
static struct err read_key(const struct api_request *r, const struct idempotency **out)
{
    struct str key = r->http->idempotency_key;
    *out = NULL;
    if (!key.at)
        return err_none();
    TRY(check_key(key));
    struct idempotency *once = ARENA_NEW(r->http->arena, struct idempotency);
    once->key = scoped(r, key);
    mac_make(r->http->path, r->http->body, once->request);
    *out = once;
    return err_none();
}

_Static_assert(IDEMPOTENCY_DIGEST == MAC_BYTES, "a request is known by its MAC");

/* What a request asks for. It is refused, unless it is repeated, by a setting that may have been
 * another one when it came first. */
struct wanted {
    const struct idempotency *once; /* or NULL */
    struct enqueue *specs;
    size_t count;
    struct err refused; /* or none */
};

/* Whether a field that is not known is passed over is a setting. */
static bool may_have_been_taken(struct api *a, const struct wanted *w, const struct err *err)
{
    if (!w->once || err->code != ERR_UNKNOWN_FIELD || !a->strict)
        return false;
    a->strict = false;
    return true;
}

/* Jobs without a trace of their own are of that of the request. */
static void add_trace(const struct http_request *req, struct enqueue *specs, size_t count)
{
    struct str state = req->tracestate;
    if (!trace_is_parent(req->traceparent))
        return;
    for (size_t i = 0; i < count; i++) {
        struct job_options *o = &specs[i].options;
        if (o->traceparent.len)
            continue;
        o->traceparent = req->traceparent;
        o->tracestate = trace_is_state(state) ? state : (struct str){0};
    }
}

static void submit(struct api *a, const struct api_request *r, const struct wanted *w,
                   reply_fn done)
{
    struct command c = {.kind = CMD_ENQUEUE, .done = done, .ctx = api_call(a, r)};
    struct err refused = w->refused;
    if (refused.code == ERR_OK)
        refused = api_own_names(r, w->specs, w->count);
    add_trace(r->http, w->specs, w->count);
    const struct enqueue_quota quota = api_quota(r);
    if (r->token && (!quota.operates || token_has_quota(&r->token->quota)))
        c.enqueue.quota = &quota;
    for (size_t i = 0; i < w->count; i++)
        w->specs[i].options.maker = quota.maker;
    c.enqueue.specs = w->specs;
    c.enqueue.count = w->count;
    c.enqueue.once = w->once;
    c.enqueue.refused = refused.code == ERR_OK ? NULL : &refused;
    api_send(a, r, &c);
}

static void answer(const struct call *c, const struct reply *r, bool added, const struct shape *s,
                   const void *what)
{
    struct buf *b = api_reply_body(c->api, c->x, r);
    if (!b)
        return;
    shape_write(b, s, what, SHAPE_AS_IT_IS);
    api_reply_json_with(c->x, added ? 201 : 200, b,
                        r->repeated ? "Idempotent-Replayed: true\r\n" : NULL);
}

static bool is_added(const struct enqueued *e)
{
    return !e->duplicate && !e->folded;
}

/* --- one --- */

static void on_enqueued(void *ctx, const struct reply *r)
{
    bool added = r->err.code == ERR_OK && is_added(&r->enqueued[0]);
    answer(ctx, r, added, &api_enqueued_shape, r->enqueued);
}

static struct err decode_one(struct api *a, const struct http_request *req, struct enqueue *spec)
{
    TRY(api_check_media(req));
    struct json_cursor c = json_open(req->body);
    TRY(api_decode_job(a, &c, req->arena, spec));
    return json_close(&c);
}

struct err api_read_job(const struct api *a, struct str body, struct arena *arena,
                        struct enqueue *out)
{
    struct json_cursor c = json_open(body);
    TRY(api_decode_job(a, &c, arena, out));
    return json_close(&c);
}

void api_enqueue(struct api *a, const struct api_request *r)
{
    struct enqueue spec;
    struct wanted w = {.specs = &spec, .count = 1};
    struct err err = read_key(r, &w.once);
    if (err.code == ERR_OK)
        err = decode_one(a, r->http, &spec);
    if (may_have_been_taken(a, &w, &err)) {
        w.refused = err;
        err = decode_one(a, r->http, &spec);
    }
    if (err.code == ERR_OK)
        err = api_may_enqueue(r, &spec);
    if (err.code != ERR_OK)
        api_reply_error(r->x, &err, NULL);
    else
        submit(a, r, &w, on_enqueued);
}

/* --- many --- */

struct specs {
    const struct api *api;
    struct enqueue *at;
    size_t count, cap;
};

static struct enqueue *add_spec(struct specs *s, struct arena *arena)
{
    ARENA_GROW(arena, s->at, s->count, s->cap, 16);
    return &s->at[s->count++];
}

static struct err in_element(struct err err, size_t index)
{
    char where[24];
    snprintf(where, sizeof where, "[%zu]", index);
    return field_in(err, where);
}

static struct err read_jobs(struct json_cursor *c, struct arena *arena, void *out)
{
    struct specs *specs = out;
    bool more;
    size_t depends = 0;
    TRY(json_enter_array(c));
    for (;;) {
        TRY(json_next_element(c, &more));
        if (!more)
            return err_none();
        if (specs->count == ENQUEUE_JOBS_MAX)
            return err_make(ERR_TOO_MANY, "at most %d in one request", ENQUEUE_JOBS_MAX);
        struct err err = api_decode_job(specs->api, c, arena, add_spec(specs, arena));
        size_t index = specs->count - 1;
        if (err.code != ERR_OK)
            return in_element(err, index);
        depends += depend_count(specs->at[index].options.depends_on);
        if (depends > ENQUEUE_DEPENDS_MAX)
            return err_make(ERR_TOO_MANY, "[%zu]: depends_on: at most %d in one request", index,
                            ENQUEUE_DEPENDS_MAX);
    }
}

static const struct field bulk_table[] = {
    {"jobs", true, read_jobs, 0, .doc = "JobInput[..$]", .most = ENQUEUE_JOBS_MAX},
};
const struct api_body api_bulk_body = {API_FIELDS(bulk_table)};

static const struct shape_member enqueued_jobs_members[] = {
    {MEMBER_OBJECTS(struct reply, enqueued, count, "jobs", ALWAYS, &api_enqueued_shape,
                    "in the order of the request")},
};
const struct shape api_enqueued_jobs_shape = {.name = "EnqueuedJobs",
                                              SHAPE_MEMBERS(enqueued_jobs_members)};

/* Theirs is a longer way, of which the last step is taken at once, too. */
static struct err check_batched(const struct specs *specs)
{
    for (size_t i = 0; specs->count > ENQUEUE_BATCHED_MAX && i < specs->count; i++)
        if (specs->at[i].batch.key.len)
            return err_make(ERR_TOO_MANY,
                            "jobs: at most %d where one has a batch, as jobs[%zu] has",
                            ENQUEUE_BATCHED_MAX, i);
    return err_none();
}

static struct err may_enqueue(const struct api_request *r, const struct specs *specs)
{
    for (size_t i = 0; i < specs->count; i++)
        TRY(api_may_enqueue(r, &specs->at[i]));
    return err_none();
}

static void on_enqueued_many(void *ctx, const struct reply *r)
{
    bool added = r->count == 0;
    for (size_t i = 0; !added && i < r->count; i++)
        added = is_added(&r->enqueued[i]);
    answer(ctx, r, added, &api_enqueued_jobs_shape, r);
}

static struct err decode_many(struct api *a, const struct http_request *req, struct specs *specs)
{
    *specs = (struct specs){.api = a};
    TRY(api_decode_body(a, req, bulk_table, COUNT(bulk_table), false, specs));
    return check_batched(specs);
}

void api_enqueue_bulk(struct api *a, const struct api_request *r)
{
    struct specs specs;
    struct wanted w = {0};
    struct err err = read_key(r, &w.once);
    if (err.code == ERR_OK)
        err = decode_many(a, r->http, &specs);
    if (may_have_been_taken(a, &w, &err)) {
        w.refused = err;
        err = decode_many(a, r->http, &specs);
    }
    if (err.code == ERR_OK)
        err = may_enqueue(r, &specs);
    w.specs = specs.at;
    w.count = specs.count;
    if (err.code != ERR_OK)
        api_reply_error(r->x, &err, NULL);
    else
        submit(a, r, &w, on_enqueued_many);
}
