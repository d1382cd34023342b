/* SPDX-License-Identifier: Apache-2.0 */

/* POST /jobs and POST /jobs/bulk. */

#include <stdio.h>

#include "api/api_access.h"
#include "api/api_routes.h"
#include "base/array.h"
#include "core/depend.h"

static void submit(struct api *a, const struct api_request *r, const struct enqueue *specs,
                   size_t count, reply_fn done)
{
    struct command c = {.kind = CMD_ENQUEUE,
                        .enqueue = {.specs = specs, .count = count},
                        .done = done,
                        .ctx = api_call(a, r)};
    api_send(a, r, &c);
}

static bool is_added(const struct enqueued *e)
{
    return !e->duplicate && !e->folded;
}

static void on_enqueued(void *ctx, const struct reply *r)
{
    struct call *c = ctx;
    struct buf *b = api_reply_body(c->api, c->x, r);
    if (!b)
        return;
    shape_write(b, &api_enqueued_shape, &r->enqueued[0], SHAPE_AS_IT_IS);
    api_reply_json(c->x, is_added(&r->enqueued[0]) ? 201 : 200, b);
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
    if (err.code == ERR_OK)
        err = api_may_queue(r, spec.queue);
    if (err.code != ERR_OK)
        api_reply_error(r->x, &err, NULL);
    else
        submit(a, r, &spec, 1, on_enqueued);
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
    {"jobs", true, read_jobs, 0, .doc = "NewJob[..$]", .most = ENQUEUE_JOBS_MAX},
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
        TRY(api_may_queue(r, specs->at[i].queue));
    return err_none();
}

static void on_enqueued_many(void *ctx, const struct reply *r)
{
    bool added = r->count == 0;
    for (size_t i = 0; !added && i < r->count; i++)
        added = is_added(&r->enqueued[i]);
    api_reply_shape(ctx, r, added ? 201 : 200, &api_enqueued_jobs_shape);
}

void api_enqueue_bulk(struct api *a, const struct api_request *r)
{
    struct specs specs = {.api = a};
    struct err err = api_decode_body(a, r->http, bulk_table, COUNT(bulk_table), false, &specs);
    if (err.code == ERR_OK)
        err = check_batched(&specs);
    if (err.code == ERR_OK)
        err = may_enqueue(r, &specs);
    if (err.code != ERR_OK)
        api_reply_error(r->x, &err, NULL);
    else
        submit(a, r, specs.at, specs.count, on_enqueued_many);
}
