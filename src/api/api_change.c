/* SPDX-License-Identifier: Apache-2.0 */

/* What people change: delete, patch, cancel, retry, one job or many. */

#include "api/api_access.h"
#include "api/api_canary.h"
#include "api/api_routes.h"

#define SAMPLE 10 /* jobs that a dry run shows */

/* --- one job --- */

void api_remove(struct api *a, const struct api_request *r)
{
    api_submit_for_id(a, r, CMD_REMOVE, api_reply_empty);
}

void api_cancel(struct api *a, const struct api_request *r)
{
    api_submit_for_id(a, r, CMD_CANCEL, api_reply_job);
}

const struct api_param api_retry_job_params[] = {{"completed", "boolean: also if it is completed"},
                                                 {NULL, NULL}};

void api_retry(struct api *a, const struct api_request *r)
{
    struct command c = {.kind = CMD_RERUN, .done = api_reply_job, .ctx = api_call(a, r)};
    bool completed = false;
    struct err err = api_read_flag(r->http, api_retry_job_params, &completed);
    if (err.code == ERR_OK)
        err = api_path_id(r->params->at[0], &c, &c.rerun.id);
    if (err.code != ERR_OK) {
        api_reply_error(r->x, &err, NULL);
        return;
    }
    c.rerun.completed = completed;
    api_send(a, r, &c);
}

void api_patch(struct api *a, const struct api_request *r)
{
    struct patch patch = {0};
    struct command c = {.kind = CMD_PATCH, .done = api_reply_job, .ctx = api_call(a, r)};
    struct err err = api_path_id(r->params->at[0], &c, &c.patch.id);
    if (err.code == ERR_OK)
        err = api_decode_patch(a, r->http, &patch);
    if (err.code == ERR_OK && patch.set & PATCH_QUEUE)
        err = api_may_queue(r, patch.queue);
    if (err.code != ERR_OK) {
        api_reply_error(r->x, &err, NULL);
        return;
    }
    c.patch.patch = &patch;
    api_send(a, r, &c);
}

/* --- many --- */

struct change_call {
    struct call call;          /* must be first */
    const struct shape *shape; /* of the answer */
};

#define UNDONE_BY "by which it can be undone, if undo was given"
static const struct shape_member deleted_members[] = {
    {MEMBER(struct reply, count, "deleted", ALWAYS, NULL)},
    {MEMBER(struct reply, stopped, "stopped", IF_SET, "somebody stopped it before its end")},
    {MEMBER(struct reply, operation, "operation", IF_SET, UNDONE_BY)},
};
const struct shape api_deleted_shape = {.name = "Deleted", SHAPE_MEMBERS(deleted_members)};

static const struct shape_member patched_members[] = {
    {MEMBER(struct reply, count, "patched", ALWAYS, NULL)},
    {MEMBER(struct reply, stopped, "stopped", IF_SET, "somebody stopped it before its end")},
    {MEMBER(struct reply, operation, "operation", IF_SET, UNDONE_BY)},
};
const struct shape api_patched_shape = {.name = "Patched", SHAPE_MEMBERS(patched_members)};

static const struct shape_member canceled_members[] = {
    {MEMBER(struct reply, count, "canceled", ALWAYS, NULL)},
    {MEMBER(struct reply, stopped, "stopped", IF_SET, "somebody stopped it before its end")},
    {MEMBER(struct reply, operation, "operation", IF_SET, UNDONE_BY)},
};
const struct shape api_canceled_shape = {.name = "Canceled", SHAPE_MEMBERS(canceled_members)};

static const struct shape_member retried_members[] = {
    {MEMBER(struct reply, count, "retried", ALWAYS, NULL)},
    {MEMBER(struct reply, stopped, "stopped", IF_SET, "somebody stopped it before its end")},
    {MEMBER(struct reply, operation, "operation", IF_SET, UNDONE_BY)},
};
const struct shape api_retried_shape = {.name = "Retried", SHAPE_MEMBERS(retried_members)};

static void write_true(struct buf *b, const void *reply)
{
    (void)reply;
    buf_lit(b, "true");
}

/* Of a dry run. */
static const struct shape_member sample_members[] = {
    {MEMBER_MADE("dry_run", ALWAYS, "boolean", write_true, "true")},
    {MEMBER(struct reply, count, "count", ALWAYS, "how many it would be")},
    {MEMBER_OBJECTS(struct reply, jobs, sampled, "sample", ALWAYS, &api_job_shape, "some of them")},
};
const struct shape api_sample_shape = {.name = "Sample", SHAPE_MEMBERS(sample_members)};

static void on_changed(void *ctx, const struct reply *r)
{
    const struct change_call *c = ctx;
    api_reply_shape(&c->call, r, 200, c->shape);
}

static void submit(struct api *a, const struct api_request *r, enum command_kind kind,
                   struct list_params *p, const struct shape *shape)
{
    struct change_call *call = ARENA_NEW(r->http->arena, struct change_call);
    *call = (struct change_call){{a, r->x}, p->list.dry_run ? &api_sample_shape : shape};
    p->list.limit = SAMPLE;
    struct command c = {.kind = kind, .list = p->list, .done = on_changed, .ctx = call};
    api_send(a, r, &c);
}

/* A filter in a body would be ignored, and every job changed. */
static struct err check_no_body(const struct http_request *req)
{
    bool more;
    struct json_string key;
    if (req->body.len == 0)
        return err_none();
    struct json_cursor c = json_open(req->body);
    TRY(json_enter_object(&c));
    TRY(json_next_member(&c, &more, &key));
    if (more)
        return err_at(ERR_UNKNOWN_FIELD, (int64_t)key.offset,
                      "'%.*s' belongs into the query of the URL: this takes no body",
                      (int)(key.raw.len < 64 ? key.raw.len : 64), key.raw.at);
    return json_close(&c);
}

static struct err read_change_of_many(const struct api_request *r, enum params kind,
                                      struct list_params *p)
{
    TRY(api_read_params(r->http, kind, p));
    TRY(api_may_filter(r, &p->list.filter));
    return check_no_body(r->http);
}

void api_remove_where(struct api *a, const struct api_request *r)
{
    struct list_params p;
    struct err err = read_change_of_many(r, PARAMS_CHANGE, &p);
    if (err.code == ERR_OK)
        submit(a, r, CMD_REMOVE_WHERE, &p, &api_deleted_shape);
    else
        api_reply_error(r->x, &err, NULL);
    buf_fini(&p.echo);
}

#define ENDED (1u << STATUS_COMPLETED | 1u << STATUS_DEAD)

static struct err read_patch_where(const struct api *a, const struct api_request *r,
                                   struct list_params *p, struct patch *patch)
{
    TRY(api_read_params(r->http, PARAMS_CHANGE, p));
    TRY(api_may_filter(r, &p->list.filter));
    if (p->list.filter.statuses & ENDED)
        return err_make(ERR_UNPROCESSABLE, "completed and dead jobs cannot be changed");
    if (!p->list.filter.statuses)
        p->list.filter.statuses = ((1u << STATUS_COUNT) - 1) & ~ENDED;
    p->list.patch = patch;
    TRY(api_decode_patch(a, r->http, patch));
    return patch->set & PATCH_QUEUE ? api_may_queue(r, patch->queue) : err_none();
}

void api_patch_where(struct api *a, const struct api_request *r)
{
    struct list_params p = {0};
    struct patch patch;
    struct err err = read_patch_where(a, r, &p, &patch);
    if (err.code == ERR_OK)
        submit(a, r, CMD_PATCH_WHERE, &p, &api_patched_shape);
    else
        api_reply_error(r->x, &err, NULL);
    buf_fini(&p.echo);
}

void api_cancel_where(struct api *a, const struct api_request *r)
{
    struct list_params p;
    struct err err = read_change_of_many(r, PARAMS_CHANGE, &p);
    if (err.code == ERR_OK && p.list.filter.statuses & ENDED)
        err = err_make(ERR_UNPROCESSABLE, "completed and dead jobs cannot be canceled");
    if (!p.list.filter.statuses)
        p.list.filter.statuses = ((1u << STATUS_COUNT) - 1) & ~ENDED;
    if (err.code == ERR_OK)
        submit(a, r, CMD_CANCEL_WHERE, &p, &api_canceled_shape);
    else
        api_reply_error(r->x, &err, NULL);
    buf_fini(&p.echo);
}

void api_retry_where(struct api *a, const struct api_request *r)
{
    struct list_params p;
    struct err err = read_change_of_many(r, PARAMS_RETRY, &p);
    if (err.code == ERR_OK)
        err = api_retry_filter(&p.list.filter);
    if (err.code != ERR_OK)
        api_reply_error(r->x, &err, NULL);
    else if (p.canary && !p.list.dry_run)
        api_canary_begin(a, r, &p, p.canary);
    else
        submit(a, r, CMD_RERUN_WHERE, &p, &api_retried_shape);
    buf_fini(&p.echo);
}

static void on_budgets_reset(void *ctx, const struct reply *r);
static void on_entries_reset(void *ctx, const struct reply *r);
static void on_history_reset(void *ctx, const struct reply *r);

static void go_on(struct call *call, struct command c)
{
    c.ctx = call;
    backend_submit(call->api->backend, &c);
}

/* What front ends keep, and the failure history, go in steps. */
static void reset_entries(struct call *call)
{
    go_on(call,
          (struct command){.kind = CMD_KV_REMOVE, .kv.prefix = true, .done = on_entries_reset});
}

static void reset_history(struct call *call)
{
    go_on(call, (struct command){.kind = CMD_HISTORY_CLEAR, .done = on_history_reset});
}

static void on_jobs_reset(void *ctx, const struct reply *r)
{
    struct call *call = ctx;
    if (api_reply_failed(call->x, r))
        return;
    go_on(call, (struct command){.kind = CMD_BUDGET_REMOVE, .done = on_budgets_reset});
}

/* Nothing draws on them any more. */
static void on_budgets_reset(void *ctx, const struct reply *r)
{
    struct call *call = ctx;
    if (!api_reply_failed(call->x, r))
        reset_entries(call);
}

static void on_entries_reset(void *ctx, const struct reply *r)
{
    struct call *call = ctx;
    if (api_reply_failed(call->x, r))
        return;
    if (r->more)
        reset_entries(call);
    else
        reset_history(call);
}

static void on_history_reset(void *ctx, const struct reply *r)
{
    if (r->err.code == ERR_OK && r->more)
        reset_history(ctx);
    else
        api_reply_empty(ctx, r);
}

/* Remove crons first, so that none adds a job while the jobs are removed. */
static void on_crons_reset(void *ctx, const struct reply *r)
{
    struct call *call = ctx;
    if (api_reply_failed(call->x, r))
        return;
    struct command c = {.kind = CMD_REMOVE_WHERE, .done = on_jobs_reset, .ctx = call};
    backend_submit(call->api->backend, &c);
}

void api_reset(struct api *a, const struct api_request *r)
{
    struct list_params p;
    struct command c = {.kind = CMD_CRON_REMOVE, .done = on_crons_reset, .ctx = api_call(a, r)};
    struct err err = read_change_of_many(r, PARAMS_RESET, &p);
    if (err.code != ERR_OK)
        api_reply_error(r->x, &err, NULL);
    else if (p.list.dry_run)
        submit(a, r, CMD_REMOVE_WHERE, &p, &api_deleted_shape);
    else
        api_send(a, r, &c);
    buf_fini(&p.echo);
}
