/* SPDX-License-Identifier: Apache-2.0 */

/* What workers say of the jobs they hold: success, failure, renew, release. */

#include "api/api_internal.h"

#define COUNT(table) (sizeof(table) / sizeof *(table))

static const struct field token_table[] = {
    {"token", false, api_field_token, offsetof(struct run_ref, token), true},
};

/* A report that has nothing but a token. */
static void submit_plain(struct api *a, struct http_exchange *x, const struct http_request *req,
                         const struct route_params *params, enum command_kind kind)
{
    struct command c = {.kind = kind, .done = api_reply_empty, .ctx = api_call(a, x, req)};
    struct err err = api_path_id(params->at[0], &c.run.id);
    if (err.code == ERR_OK)
        err = api_decode_body(a, req, token_table, COUNT(token_table), true, &c.run);
    if (err.code != ERR_OK) {
        api_reply_error(x, &err, NULL);
        return;
    }
    backend_submit(a->backend, &c);
}

void api_success(ROUTE_ARGS)
{
    submit_plain(ctx, x, req, params, CMD_SUCCEED);
}

void api_release(ROUTE_ARGS)
{
    submit_plain(ctx, x, req, params, CMD_RELEASE);
}

/* --- many successes --- */

/* What was given as an id, so that what is none can be named in not_found. */
struct id_list {
    struct str *texts;
    struct id *ids; /* those that are ids, densely */
    size_t count, id_count, cap;
};

struct success_call {
    struct call call; /* must be first */
    struct str *bad;
    size_t bad_count;
};

static struct err read_ids(struct json_cursor *c, struct arena *a, void *out)
{
    struct id_list *l = out;
    bool more;
    TRY(json_enter_array(c));
    for (;;) {
        TRY(json_next_element(c, &more));
        if (!more)
            return err_none();
        if (l->count == l->cap) {
            size_t cap = l->cap ? l->cap * 2 : 64;
            struct str *texts = arena_get(a, cap * sizeof *texts);
            struct id *ids = arena_get(a, cap * sizeof *ids);
            if (l->count) {
                memcpy(texts, l->texts, l->count * sizeof *texts);
                memcpy(ids, l->ids, l->id_count * sizeof *ids);
            }
            l->texts = texts;
            l->ids = ids;
            l->cap = cap;
        }
        struct str *text = &l->texts[l->count - l->id_count];
        TRY(api_field_text(c, a, text));
        l->count++;
        if (id_parse(*text, &l->ids[l->id_count]).code == ERR_OK)
            l->id_count++;
    }
}

static const struct field ids_table[] = {
    {"ids", true, read_ids, 0},
};

static void on_successes(void *ctx, const struct reply *r)
{
    struct success_call *c = ctx;
    if (api_reply_failed(c->call.x, r))
        return;
    if (r->count == 0 && c->bad_count == 0) {
        http_reply(c->call.x, 204, (struct str){0}, (struct str){0}, NULL);
        return;
    }
    struct buf *b = &c->call.api->scratch;
    b->len = 0;
    buf_lit(b, "{\"error\":\"some of these jobs are not in flight\",\"code\":\"unprocessable\","
               "\"not_found\":[");
    for (size_t i = 0; i < r->count; i++) {
        if (i)
            buf_byte(b, ',');
        api_encode_id(b, r->ids[i]);
    }
    for (size_t i = 0; i < c->bad_count; i++) {
        if (i || r->count)
            buf_byte(b, ',');
        json_write_string(b, c->bad[i]);
    }
    buf_lit(b, "]}");
    api_reply_json(c->call.x, 422, b);
}

void api_success_bulk(ROUTE_ARGS)
{
    (void)params;
    struct api *a = ctx;
    struct id_list l = {0};
    struct err err = api_decode_body(a, req, ids_table, COUNT(ids_table), false, &l);
    if (err.code != ERR_OK) {
        api_reply_error(x, &err, NULL);
        return;
    }
    struct success_call *call = ARENA_NEW(req->arena, struct success_call);
    call->call = (struct call){a, x};
    call->bad_count = l.count - l.id_count;
    call->bad = arena_get(req->arena, call->bad_count * sizeof *call->bad + 1);
    for (size_t i = 0; i < call->bad_count; i++)
        call->bad[i] = arena_copy(req->arena, l.texts[i]);
    struct command c = {.kind = CMD_SUCCEED_MANY,
                        .succeed_many = {.ids = l.ids, .count = l.id_count},
                        .done = on_successes,
                        .ctx = call};
    backend_submit(a->backend, &c);
}

/* --- failure --- */

#define REPORT(member) offsetof(struct failure_report, member)

static const struct field failure_table[] = {
    {"message", true, api_field_text, REPORT(failure.message)},
    {"error_type", false, api_field_text, REPORT(failure.error_type), true},
    {"backtrace", false, api_field_text, REPORT(failure.backtrace), true},
    {"exit_code", false, api_field_i32, REPORT(failure.exit_code), true},
    {"signal", false, api_field_i32, REPORT(failure.signal), true},
    {"run_ms", false, api_field_span, REPORT(failure.run_time), true},
    {"retry_at", false, api_field_instant, REPORT(retry_at), true},
    {"kill", false, api_field_bool, REPORT(kill), true},
    {"token", false, api_field_token, REPORT(ref.token), true},
};

void api_reply_job(void *ctx, const struct reply *r)
{
    struct call *c = ctx;
    if (api_reply_failed(c->x, r))
        return;
    struct buf *b = &c->api->scratch;
    b->len = 0;
    api_encode_job(b, &r->jobs[0], 0);
    api_reply_json(c->x, 200, b);
}

void api_failure(ROUTE_ARGS)
{
    struct api *a = ctx;
    struct command c = {.kind = CMD_FAIL,
                        .fail = {.retry_at = INSTANT_NONE, .failure.run_time = {-1}},
                        .done = api_reply_job,
                        .ctx = api_call(a, x, req)};
    struct id id;
    struct err err = api_path_id(params->at[0], &id);
    if (err.code == ERR_OK)
        err = api_decode_body(a, req, failure_table, COUNT(failure_table), false, &c.fail);
    if (err.code != ERR_OK) {
        api_reply_error(x, &err, NULL);
        return;
    }
    c.fail.ref.id = id;
    backend_submit(a->backend, &c);
}

/* --- renew --- */

struct renew_fields {
    uint64_t token;
    span lease;
};

static const struct field renew_table[] = {
    {"token", false, api_field_token, offsetof(struct renew_fields, token), true},
    {"lease_ms", false, api_field_span, offsetof(struct renew_fields, lease), true},
};

static void on_renewed(void *ctx, const struct reply *r)
{
    struct call *c = ctx;
    if (api_reply_failed(c->x, r))
        return;
    struct buf *b = &c->api->scratch;
    b->len = 0;
    buf_lit(b, "{\"lease_expires_at\":");
    buf_int(b, r->lease_end.ms);
    buf_byte(b, '}');
    api_reply_json(c->x, 200, b);
}

void api_renew(ROUTE_ARGS)
{
    struct api *a = ctx;
    struct renew_fields f = {.lease = {API_LEASE_MS}};
    struct command c = {.kind = CMD_RENEW, .done = on_renewed, .ctx = api_call(a, x, req)};
    struct err err = api_path_id(params->at[0], &c.renew.run.id);
    if (err.code == ERR_OK)
        err = api_decode_body(a, req, renew_table, COUNT(renew_table), true, &f);
    if (err.code == ERR_OK)
        err = api_check_lease(f.lease);
    if (err.code != ERR_OK) {
        api_reply_error(x, &err, NULL);
        return;
    }
    c.renew.run.token = f.token;
    c.renew.lease = f.lease;
    backend_submit(a->backend, &c);
}
