/* SPDX-License-Identifier: Apache-2.0 */

/* GET /jobs/take and POST /jobs/claim: how workers get jobs. */

#include <stdlib.h>
#include <string.h>

#include "access/mac.h"
#include "api/api_access.h"
#include "api/api_canary.h"
#include "api/api_routes.h"
#include "api/api_top.h"
#include "base/utf8.h"
#include "base/alloc.h"
#include "base/array.h"

#define CLAIM_MAX   1000
#define WAIT_MAX_MS 300000

/* --- streams --- */

/* An open stream: one HTTP exchange above one stream of the backend. Either may end
 * first; the struct goes with the exchange. */
struct take_stream {
    struct list node; /* in api->streams */
    struct api *api;
    struct http_exchange *x;
    struct token *token;           /* of who took; or NULL */
    struct backend_stream *stream; /* NULL: the backend has ended it */
    enum stream_format format;
};

/* A message of a stream of MessagePack: four bytes of length, big-endian, and the value. */
static void write_packed(struct take_stream *t, struct str value)
{
    uint32_t n = (uint32_t)value.len;
    char length[4] = {(char)(n >> 24), (char)(n >> 16), (char)(n >> 8), (char)n};
    http_stream_write(t->x, (struct str){length, sizeof length});
    http_stream_write(t->x, value);
}

static void on_deliver(void *ctx, const struct handout *h)
{
    struct take_stream *t = ctx;
    struct buf *b = &t->api->scratch;
    api_held_note(t->api, t->token, h);
    b->len = 0;
    if (t->format == FORMAT_SSE)
        buf_lit(b, "data: ");
    shape_write(b, &api_handout_shape, h, SHAPE_ONE_LINE);
    if (t->format == FORMAT_PACKED) {
        write_packed(t, api_pack(t->api, buf_view(b)));
    } else {
        buf_str(b, t->format == FORMAT_SSE ? STR("\n\n") : STR("\n"));
        http_stream_write(t->x, buf_view(b));
    }
    if (http_must_wait(t->x))
        backend_stream_pause(t->api->backend, t->stream, true);
}

static void on_drained(void *ctx)
{
    struct take_stream *t = ctx;
    if (t->stream)
        backend_stream_pause(t->api->backend, t->stream, false);
}

static void on_backend_closed(void *ctx)
{
    struct take_stream *t = ctx;
    t->stream = NULL;
    http_stream_end(t->x);
}

static void on_peer_closed(void *ctx)
{
    struct take_stream *t = ctx;
    list_unlink(&t->node);
    if (t->stream)
        backend_stream_close(t->api->backend, t->stream);
    free(t);
}

static void on_opened(void *ctx, const struct err *err)
{
    struct take_stream *t = ctx;
    struct api *a = t->api;
    if (err->code != ERR_OK) {
        api_reply_error(t->x, err, NULL);
        free(t);
        return;
    }
    if (http_is_gone(t->x) || api_is_over(a, t->token, NULL)) {
        backend_stream_close(a->backend, t->stream);
        http_reply(t->x, 200, api_stream_type(t->format), (struct str){0}, NULL);
        free(t);
        return;
    }
    list_append(&a->streams, &t->node);
    http_stream_begin(t->x, 200, api_stream_type(t->format), on_peer_closed, t);
    http_stream_on_drain(t->x, on_drained);
    if (http_must_wait(t->x))
        backend_stream_pause(a->backend, t->stream, true);
}

/* What is not text is nothing to be shown. */
struct str api_agent_of(const struct api_request *r)
{
    struct str agent = r->http->user_agent;
    return utf8_check(agent) == agent.len ? agent : (struct str){0};
}

struct take_params {
    const struct str *queues;
    size_t queue_count;
    uint32_t prefetch;
    struct str node;
    enum stream_format format;
};

/* 0: no limit but how much the worker reads. */
static struct err read_prefetch(struct str text, uint32_t *prefetch)
{
    int64_t v;
    TRY(api_read_number(text, "prefetch", 0, INT64_MAX, &v));
    *prefetch = v == 0 || v > UINT32_MAX ? UINT32_MAX : (uint32_t)v;
    return err_none();
}

static struct err read_node(struct str text, struct str *node)
{
    if (text.len == 0 || text.len > JOB_NAME_MAX)
        return err_make(ERR_BAD_VALUE, "node has 1 to %d bytes, not %zu", JOB_NAME_MAX, text.len);
    *node = text;
    return err_none();
}

const struct api_param api_take_params[] = {
    {"queue", "names: one, or a list a,b, whose order does not count; without it all"},
    {"prefetch", "integer 0..: jobs in flight at a time, 1 unless said; 0: no limit"},
    {"node", "string 1..$: where the worker is", .most = JOB_NAME_MAX},
    {"Worker-Id", "name 1..$: who takes", .header = true, .most = JOB_NAME_MAX},
    {NULL, NULL}};

static struct err read_take_params(struct http_exchange *x, const struct http_request *req,
                                   struct take_params *p)
{
    struct query_cursor c = query_open(req->query, req->arena);
    struct str name, value;
    bool more;
    unsigned seen = 0;
    *p = (struct take_params){.prefetch = 1};
    TRY(api_stream_format(x, req, &p->format));
    for (;;) {
        TRY(query_next(&c, &more, &name, &value));
        if (!more)
            return err_none();
        TRY(api_param_once(name, api_take_params, &seen));
        if (str_eq(name, STR("queue")) && value.len == 0) /* would be all of them */
            return err_make(ERR_BAD_VALUE, "queue is given without a value");
        if (str_eq(name, STR("queue")))
            TRY(api_decode_names(value, "queue", req->arena, &p->queues, &p->queue_count));
        else if (str_eq(name, STR("prefetch")))
            TRY(read_prefetch(value, &p->prefetch));
        else if (str_eq(name, STR("node")))
            TRY(read_node(value, &p->node));
        else
            return api_unknown_param(name);
    }
}

void api_take(struct api *a, const struct api_request *r)
{
    struct take_params p;
    struct err err = read_take_params(r->x, r->http, &p);
    if (err.code == ERR_OK && r->http->worker_id.len)
        err = job_check_name(r->http->worker_id, "Worker-Id");
    struct str worker = r->http->worker_id;
    if (err.code == ERR_OK)
        err = api_own_worker(r, &worker);
    if (err.code == ERR_OK)
        err = api_may_queues(r, &p.queues, &p.queue_count);
    if (err.code != ERR_OK) {
        api_reply_error(r->x, &err, NULL);
        return;
    }
    struct take_stream *t = ALLOC(struct take_stream);
    t->api = a;
    t->x = r->x;
    t->token = r->token;
    t->format = p.format;
    struct stream_spec spec = {.queues = p.queues,
                               .queue_count = p.queue_count,
                               .prefetch = p.prefetch,
                               .worker = worker,
                               .reach = r->rights->queues,
                               .address = str_from(http_peer(r->x)->address),
                               .agent = api_agent_of(r),
                               .node = p.node,
                               .opened = on_opened,
                               .deliver = on_deliver,
                               .closed = on_backend_closed,
                               .ctx = t};
    list_init(&t->node);
    t->stream = backend_stream_open(a->backend, &spec);
}

void api_heartbeat(struct api *a)
{
    api_canaries_heartbeat(a->canaries);
    static const struct str beats[FORMATS] = {
        [FORMAT_LINES] = {"\n", 1},
        [FORMAT_SSE] = {": heartbeat\n\n", 13},
        [FORMAT_PACKED] = {"\0\0\0\0", 4},
    };
    LIST_EACH (n, &a->streams) {
        struct take_stream *t = LIST_OF(n, struct take_stream, node);
        if (t->stream && !http_backlogged(t->x))
            http_stream_write(t->x, beats[t->format]);
    }
    api_events_heartbeat(a->events);
    api_tokens_heartbeat(a);
}

/* --- claims --- */

struct claim_call {
    struct list node; /* in api->claims */
    struct api *api;
    struct token *token; /* of who claims; or NULL */
    struct str worker;   /* with its mark */
    struct http_exchange *x;
    struct backend_claim *claim;
    bool gone; /* the peer has hung up */
};

struct claim_fields {
    struct name_list queues;
    int32_t count;
    span lease, wait;
    uint64_t max_run;
    struct str worker, node, claim_id;
};

static const struct field claim_table[] = {
    {"queues", false, api_field_names, offsetof(struct claim_fields, queues), true,
     "name 1..255[]: their order does not count: priority, then age does; without it all"},
    {"count", false, field_i32, offsetof(struct claim_fields, count), true, "integer 1..$",
     CLAIM_MAX},
    {"lease_ms", false, field_span, offsetof(struct claim_fields, lease), true, API_LEASE_DOC},
    {"max_run_ms", false, api_field_max_run, offsetof(struct claim_fields, max_run), true,
     "integer 1..: how long the worker lets one run take"},
    {"wait_ms", false, field_span, offsetof(struct claim_fields, wait), true, "integer 0..$",
     WAIT_MAX_MS},
    {"worker", false, api_field_name, offsetof(struct claim_fields, worker), true, "string 1..$",
     JOB_NAME_MAX},
    {"node", false, api_field_label, offsetof(struct claim_fields, node), true,
     "string 0..$: where the worker is", JOB_NAME_MAX},
    {"claim_id", false, api_field_label, offsetof(struct claim_fields, claim_id), true,
     "string 0..$: new for each claim; a claim that is sent again with it gets what the first got",
     JOB_NAME_MAX},
};
const struct api_body api_claim_body = {API_FIELDS(claim_table), .optional = true};

static void ignore_reply(void *ctx, const struct reply *r)
{
    (void)ctx;
    (void)r;
}

/* No worker is there: release the jobs at once instead of waiting for their leases. */
static void give_back(struct api *a, const struct reply *r)
{
    for (size_t i = 0; i < r->count; i++) {
        struct command c = {.kind = CMD_RELEASE,
                            .run = {r->handouts[i].job.id, r->handouts[i].token},
                            .done = ignore_reply};
        backend_submit(a->backend, &c);
    }
}

struct claimed {
    const struct handout *handouts;
    size_t count;
};

static const struct shape_member claimed_members[] = {
    {MEMBER_OBJECTS(struct claimed, handouts, count, "jobs", ALWAYS, &api_handout_shape, NULL)},
};
const struct shape api_claimed_shape = {.name = "Claimed", SHAPE_MEMBERS(claimed_members)};

static void on_claimed(void *ctx, const struct reply *r)
{
    struct claim_call *c = ctx;
    c->claim = NULL;
    list_unlink(&c->node);
    http_on_gone(c->x, NULL, NULL);
    /* A client that claims without reading gets no jobs. */
    bool returned = c->gone || http_is_overloaded(c->x);
    if (returned && r->err.code == ERR_OK)
        give_back(c->api, r);
    for (size_t i = 0; !returned && r->err.code == ERR_OK && i < r->count; i++)
        api_held_note(c->api, c->token, &r->handouts[i]);
    struct buf *b = api_reply_body(c->api, c->x, r);
    if (!b)
        return;
    const struct claimed claimed = {r->handouts, returned ? 0 : r->count};
    shape_write(b, &api_claimed_shape, &claimed, SHAPE_AS_IT_IS);
    api_reply_json(c->x, 200, b);
}

static void on_claimer_gone(void *ctx)
{
    struct claim_call *c = ctx;
    c->gone = true;
    if (c->claim)
        backend_claim_cancel(c->api->backend, c->claim);
}

struct err api_check_lease(span lease)
{
    if (lease.ms >= API_LEASE_MIN_MS && lease.ms <= API_LEASE_MAX_MS)
        return err_none();
    return err_make(ERR_BAD_VALUE, "lease_ms: from %d to %lld, not %lld", API_LEASE_MIN_MS,
                    (long long)API_LEASE_MAX_MS, (long long)lease.ms);
}

static struct err check_claim(const struct claim_fields *f)
{
    if (f->count < 1 || f->count > CLAIM_MAX)
        return err_make(ERR_BAD_VALUE, "count: a number from 1 to %d, not %d", CLAIM_MAX, f->count);
    TRY(api_check_lease(f->lease));
    if (f->wait.ms > WAIT_MAX_MS)
        return err_make(ERR_BAD_VALUE, "wait_ms: at most %d, not %lld", WAIT_MAX_MS,
                        (long long)f->wait.ms);
    return err_none();
}

/* An early answer without jobs costs a worker one more claim; one that comes after a proxy has
 * given up costs it the jobs. */
static span wait_of(const struct api *a, span asked)
{
    span max = a->settings.claim_wait_max;
    return max.ms && max.ms < asked.ms ? max : asked;
}

/* Of a claim that can be repeated; 0: it has no id. The name of the worker has its tenant's mark,
 * so no tenant can repeat another's claim. */
static uint64_t claim_key(struct str worker, struct str claim_id)
{
    unsigned char mac[MAC_BYTES];
    uint64_t key;
    if (!claim_id.len)
        return 0;
    mac_make(worker, claim_id, mac);
    memcpy(&key, mac, sizeof key);
    return key | 1;
}

void api_claim(struct api *a, const struct api_request *r)
{
    struct claim_fields f = {.count = 1, .lease = {API_LEASE_MS}, .worker = r->http->worker_id};
    struct err err = api_decode_body(a, r->http, claim_table, COUNT(claim_table), true, &f);
    if (err.code == ERR_OK && f.worker.len)
        err = job_check_name(f.worker, "worker");
    if (err.code == ERR_OK)
        err = check_claim(&f);
    if (err.code == ERR_OK)
        err = api_own_worker(r, &f.worker);
    if (err.code == ERR_OK)
        err = api_may_queues(r, &f.queues.at, &f.queues.count);
    if (err.code != ERR_OK) {
        api_reply_error(r->x, &err, NULL);
        return;
    }
    struct claim_call *c = ARENA_NEW(r->http->arena, struct claim_call);
    c->api = a;
    c->x = r->x;
    c->token = r->token;
    c->worker = arena_copy(r->http->arena, f.worker);
    list_init(&c->node);
    list_append(&a->claims, &c->node);
    struct claim_spec spec = {.queues = f.queues.at,
                              .queue_count = f.queues.count,
                              .count = (uint32_t)f.count,
                              .worker = f.worker,
                              .reach = r->rights->queues,
                              .node = f.node,
                              .address = str_from(http_peer(r->x)->address),
                              .agent = api_agent_of(r),
                              .lease = f.lease,
                              .max_run = {(int64_t)f.max_run},
                              .wait = wait_of(a, f.wait),
                              .key = claim_key(f.worker, f.claim_id),
                              .done = on_claimed,
                              .ctx = c};
    c->claim = backend_claim(a->backend, &spec);
    http_on_gone(r->x, on_claimer_gone, c);
}

/* --- a claim of one given job --- */

struct claim_job_fields {
    struct run_ref run;
    span lease;
    uint64_t max_run;
    struct str worker, node;
};

static const struct field claim_job_table[] = {
    {"run", false, api_field_run, offsetof(struct claim_job_fields, run), true,
     "integer 0..$: only if its next run has this index", UINT32_MAX},
    {"lease_ms", false, field_span, offsetof(struct claim_job_fields, lease), true, API_LEASE_DOC},
    {"max_run_ms", false, api_field_max_run, offsetof(struct claim_job_fields, max_run), true,
     "integer 1..: how long the worker lets one run take"},
    {"worker", false, api_field_name, offsetof(struct claim_job_fields, worker), true,
     "string 1..$: may repeat the claim, which then is answered as the first time", JOB_NAME_MAX},
    {"node", false, api_field_label, offsetof(struct claim_job_fields, node), true,
     "string 0..$: where the worker is", JOB_NAME_MAX},
};
const struct api_body api_claim_job_body = {API_FIELDS(claim_job_table), .optional = true};

struct job_claim_call {
    struct call call; /* must be first */
    struct token *token;
};

/* Whoever knows the name of a worker could otherwise get its claim again, with its token. */
static void on_job_claimed(void *ctx, const struct reply *r)
{
    const struct job_claim_call *c = ctx;
    struct reply refused = {0};
    const struct handout *h = r->err.code == ERR_OK ? &r->handouts[0] : NULL;
    if (h && r->repeated && c->token && api_held_by_other(c->call.api, c->token, h->job.id)) {
        refused.err = err_make(ERR_CONFLICT, "another worker holds the job");
        r = &refused;
    } else if (h) {
        api_held_note(c->call.api, c->token, h);
    }
    api_reply_part(&c->call, r, 200, &api_handout_shape, h);
}

void api_claim_job(struct api *a, const struct api_request *r)
{
    struct claim_job_fields f = {.lease = {API_LEASE_MS}, .worker = r->http->worker_id};
    struct job_claim_call *call = ARENA_NEW(r->http->arena, struct job_claim_call);
    struct command c = {.kind = CMD_CLAIM_JOB, .done = on_job_claimed, .ctx = call};
    *call = (struct job_claim_call){{a, r->x}, r->token};
    struct id id;
    struct err err = api_path_id(r->params->at[0], &c, &id);
    if (err.code == ERR_OK)
        err = api_decode_body(a, r->http, claim_job_table, COUNT(claim_job_table), true, &f);
    if (err.code == ERR_OK && f.worker.len)
        err = job_check_name(f.worker, "worker");
    if (err.code == ERR_OK)
        err = api_check_lease(f.lease);
    if (err.code == ERR_OK)
        err = api_own_worker(r, &f.worker);
    if (err.code != ERR_OK) {
        api_reply_error(r->x, &err, NULL);
        return;
    }
    c.claim_job = (struct job_claim){.id = id,
                                     .any_run = !f.run.by_index,
                                     .run = f.run.index,
                                     .worker = f.worker,
                                     .node = f.node,
                                     .lease = f.lease,
                                     .max_run = {(int64_t)f.max_run}};
    api_send(a, r, &c);
}

const struct api_param api_withdraw_params[] = {
    {"worker", "name 1..$: its name", .most = JOB_NAME_MAX, .required = true}, {NULL, NULL}};

static struct err read_withdrawal(const struct http_request *req, struct str *worker)
{
    struct query_cursor c = query_open(req->query, req->arena);
    struct str name, value;
    unsigned seen = 0;
    bool more;
    TRY(api_check_media(req));
    for (;;) {
        TRY(query_next(&c, &more, &name, &value));
        if (!more)
            break;
        TRY(api_param_once(name, api_withdraw_params, &seen));
        if (!str_eq(name, STR("worker")))
            return api_unknown_param(name);
        *worker = value;
    }
    return seen ? job_check_name(*worker, "worker")
                : err_make(ERR_MISSING_FIELD, "worker is required: whose claims are to end");
}

struct withdrawn {
    uint32_t count;
};

static const struct shape_member withdrawn_members[] = {
    {MEMBER(struct withdrawn, count, "withdrawn", ALWAYS, NULL)},
};
const struct shape api_withdrawn_shape = {.name = "Withdrawn", SHAPE_MEMBERS(withdrawn_members)};

/* Operators withdraw any claim that their rights reach to. */
static bool may_withdraw(const struct api_request *r, const struct claim_call *c)
{
    if (!r->token || c->token == r->token)
        return true;
    if (!rights_have(r->rights, RIGHT_OPERATE))
        return false;
    return !r->rights->queues.count ||
           (c->token && api_is_same_tenant(r->rights, &c->token->rights));
}

/* Each claim is answered at once with the jobs it has, usually none. */
void api_claim_withdraw(struct api *a, const struct api_request *r)
{
    struct str worker;
    struct withdrawn withdrawn = {0};
    struct err err = read_withdrawal(r->http, &worker);
    if (err.code != ERR_OK) {
        api_reply_error(r->x, &err, NULL);
        return;
    }
    LIST_EACH (n, &a->claims) {
        struct claim_call *c = LIST_OF(n, struct claim_call, node);
        if (!c->claim || !may_withdraw(r, c) || !str_eq(mark_bare(c->worker), worker))
            continue;
        backend_claim_cancel(a->backend, c->claim);
        withdrawn.count++;
    }
    a->scratch.len = 0;
    shape_write(&a->scratch, &api_withdrawn_shape, &withdrawn, SHAPE_AS_IT_IS);
    api_reply_json(r->x, 200, &a->scratch);
}

/* --- tokens that count no more --- */

static struct take_stream *stream_to_end(struct api *a, const struct token *of)
{
    LIST_EACH (n, &a->streams) {
        struct take_stream *t = LIST_OF(n, struct take_stream, node);
        if (t->stream && api_is_over(a, t->token, of))
            return t;
    }
    return NULL;
}

void api_end_streams(struct api *a, const struct token *of)
{
    for (struct take_stream *t; (t = stream_to_end(a, of));) {
        backend_stream_close(a->backend, t->stream);
        on_backend_closed(t);
    }
    LIST_EACH (n, &a->claims) {
        struct claim_call *c = LIST_OF(n, struct claim_call, node);
        if (!c->claim || c->gone || !api_is_over(a, c->token, of))
            continue;
        c->gone = true;
        backend_claim_cancel(a->backend, c->claim);
    }
    api_events_end(a->events, of);
    api_top_end(a->top, of);
}
