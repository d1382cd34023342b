/* SPDX-License-Identifier: Apache-2.0 */

/* POST /jobs and POST /jobs/bulk. */

#include <stdio.h>

#include "api/api_internal.h"
#include "core/depend.h"

static void submit(struct api *a, const struct api_request *r, const struct enqueue *specs,
                   size_t count, reply_fn done)
{
    struct command c = {.kind = CMD_ENQUEUE,
                        .enqueue = {.specs = specs, .count = count},
                        .done = done,
                        .ctx = api_call(a, r)};
    backend_submit(a->backend, &c);
}

static void on_enqueued(void *ctx, const struct reply *r)
{
    struct call *c = ctx;
    struct buf *b = api_reply_body(c->api, c->x, r);
    if (!b)
        return;
    api_encode_enqueued(b, &r->enqueued[0]);
    bool added = !r->enqueued[0].duplicate && !r->enqueued[0].folded;
    api_reply_json(c->x, added ? 201 : 200, b);
}

static struct err decode_one(struct api *a, const struct http_request *req, struct enqueue *spec)
{
    TRY(api_check_media(req));
    struct json_cursor c = json_open(req->body);
    TRY(api_decode_job(a, &c, req->arena, spec));
    return json_close(&c);
}

void api_enqueue(struct api *a, const struct api_request *r)
{
    struct enqueue spec;
    struct err err = decode_one(a, r->http, &spec);
    if (err.code != ERR_OK)
        api_reply_error(r->x, &err, NULL);
    else
        submit(a, r, &spec, 1, on_enqueued);
}

/* --- many --- */

struct specs {
    struct enqueue *at;
    size_t count, cap;
};

static struct enqueue *add_spec(struct specs *s, struct arena *arena)
{
    if (s->count == s->cap) {
        size_t cap = s->cap ? s->cap * 2 : 16;
        struct enqueue *at = arena_get(arena, cap * sizeof *at);
        if (s->count)
            memcpy(at, s->at, s->count * sizeof *at);
        s->at = at;
        s->cap = cap;
    }
    return &s->at[s->count++];
}

static struct err decode_list(struct api *a, struct json_cursor *c, struct arena *arena,
                              struct specs *specs)
{
    bool more;
    size_t depends = 0;
    TRY(json_enter_array(c));
    for (;;) {
        TRY(json_next_element(c, &more));
        if (!more)
            return err_none();
        if (specs->count == ENQUEUE_JOBS_MAX)
            return err_make(ERR_TOO_MANY, "jobs: at most %d in one request", ENQUEUE_JOBS_MAX);
        struct err err = api_decode_job(a, c, arena, add_spec(specs, arena));
        if (err.code != ERR_OK) {
            char inner[sizeof err.msg];
            memcpy(inner, err.msg, sizeof inner);
            snprintf(err.msg, sizeof err.msg, "jobs[%zu]: %.*s", specs->count - 1, 170, inner);
            return err;
        }
        depends += depend_count(specs->at[specs->count - 1].options.depends_on);
        if (depends > ENQUEUE_DEPENDS_MAX)
            return err_make(ERR_TOO_MANY, "jobs[%zu]: depends_on: at most %d in one request",
                            specs->count - 1, ENQUEUE_DEPENDS_MAX);
    }
}

static struct err decode_many(struct api *a, const struct http_request *req, struct specs *specs)
{
    TRY(api_check_media(req));
    struct json_cursor c = json_open(req->body);
    bool more, seen = false;
    struct json_string key;
    TRY(json_enter_object(&c));
    for (;;) {
        TRY(json_next_member(&c, &more, &key));
        if (!more)
            break;
        if (!str_eq(key.raw, STR("jobs"))) {
            if (a->strict)
                return err_at(ERR_UNKNOWN_FIELD, (int64_t)key.offset, "unknown field '%.*s'",
                              (int)(key.raw.len < 64 ? key.raw.len : 64), key.raw.at);
            TRY(json_skip(&c, NULL));
            continue;
        }
        if (seen)
            return err_at(ERR_DUPLICATE_FIELD, (int64_t)key.offset, "jobs is given twice");
        seen = true;
        TRY(decode_list(a, &c, req->arena, specs));
    }
    if (!seen)
        return err_make(ERR_MISSING_FIELD, "jobs is required");
    return json_close(&c);
}

static void on_enqueued_many(void *ctx, const struct reply *r)
{
    struct call *c = ctx;
    struct buf *b = api_reply_body(c->api, c->x, r);
    if (!b)
        return;
    bool added = r->count == 0;
    buf_lit(b, "{\"jobs\":[");
    for (size_t i = 0; i < r->count; i++) {
        if (i)
            buf_byte(b, ',');
        api_encode_enqueued(b, &r->enqueued[i]);
        added |= !r->enqueued[i].duplicate && !r->enqueued[i].folded;
    }
    buf_lit(b, "]}");
    api_reply_json(c->x, added ? 201 : 200, b);
}

void api_enqueue_bulk(struct api *a, const struct api_request *r)
{
    struct specs specs = {0};
    struct err err = decode_many(a, r->http, &specs);
    if (err.code != ERR_OK)
        api_reply_error(r->x, &err, NULL);
    else
        submit(a, r, specs.at, specs.count, on_enqueued_many);
}
