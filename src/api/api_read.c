/* SPDX-License-Identifier: Apache-2.0 */

/* GET /jobs/{id}, GET /jobs/count. */

#include "api/api_access.h"
#include "api/api_routes.h"

const struct api_param api_job_params[] = {
    {"runs", "boolean: with its runs, the newest 1000 at most"}, {NULL, NULL}};

struct err api_read_flag(const struct http_request *req, const struct api_param *params, bool *on)
{
    struct query_cursor q = query_open(req->query, req->arena);
    struct str name, value;
    bool more;
    unsigned seen = 0;
    TRY(api_check_media(req));
    for (;;) {
        TRY(query_next(&q, &more, &name, &value));
        if (!more)
            return err_none();
        TRY(api_param_once(name, params, &seen));
        if (!seen)
            return api_unknown_param(name);
        *on = str_eq(value, STR("true"));
        if (!*on && !str_eq(value, STR("false")))
            return err_make(ERR_BAD_VALUE, "%s is true or false", params->name);
    }
}

static bool has_runs(const void *reply)
{
    return ((const struct reply *)reply)->runs != NULL;
}

/* Where nobody uses retry policies, a job says nothing of them. */
static bool is_judged(const void *reply)
{
    const struct judges *j = ((const struct reply *)reply)->judges;
    return j && j->concerned;
}

static const struct shape_member judges_members[] = {
    {MEMBER_LIST(
        struct judges, policies, count, "effective_policies", ALWAYS,
        "the retry policies that judge its failures, or would if they were enabled, in that "
        "order: its queue's, its own, or the server's default")},
    {MEMBER(struct judges, words, "judged_by", ALWAYS, "who judges its failures, in words")},
};
static const struct shape judges_shape = {SHAPE_MEMBERS(judges_members)};

static const struct shape_member read_members[] = {
    {MEMBERS_AT(struct reply, jobs, &api_job_head_shape)},
    {MEMBERS_AT(struct reply, jobs, &api_payload_shape)},
    {MEMBERS_AT(struct reply, judges, &judges_shape), .is_set = is_judged},
    {MEMBERS_AT(struct reply, notes, &api_notes_shape)},
    {MEMBER_OBJECTS(struct reply, runs, run_count, "runs", IF_SET, &api_run_shape,
                    "if asked for: its newest runs in order", .is_set = has_runs)},
};
const struct shape api_job_read_shape = {.name = "JobWithNotes", SHAPE_MEMBERS(read_members)};

static bool has_progress(const void *reply)
{
    return ((const struct reply *)reply)->notes->has & NOTE_BIT(NOTE_PROGRESS);
}

static void write_progress(struct buf *b, const void *reply)
{
    shape_write(b, &api_progress_shape, &((const struct reply *)reply)->notes->at[NOTE_PROGRESS],
                SHAPE_AS_IT_IS);
}

/* For who may not see what the job carries. */
static const struct shape_member seen_members[] = {
    {MEMBERS_AT(struct reply, jobs, &api_job_head_shape)},
    {MEMBERS_AT(struct reply, judges, &judges_shape), .is_set = is_judged},
    {MEMBER_MADE("progress", IF_SET, "Progress", write_progress, NULL, .is_set = has_progress)},
    {MEMBER_OBJECTS(struct reply, runs, run_count, "runs", IF_SET, &api_run_shape,
                    "if asked for: its newest runs in order", .is_set = has_runs)},
};
const struct shape api_job_seen_shape = {.name = "JobWithoutPayload", SHAPE_MEMBERS(seen_members)};

static void on_read(void *ctx, const struct reply *r)
{
    const struct call *c = ctx;
    api_hide_logs(c, r);
    api_reply_shape(c, r, 200, c->blind ? &api_job_seen_shape : &api_job_read_shape);
}

void api_read(struct api *a, const struct api_request *r)
{
    struct command c = {.kind = CMD_READ, .done = on_read, .ctx = api_call(a, r)};
    bool runs = false;
    struct err err = api_read_flag(r->http, api_job_params, &runs);
    if (err.code == ERR_OK)
        err = api_path_id(r->params->at[0], &c, &c.read.id);
    if (err.code != ERR_OK) {
        api_reply_error(r->x, &err, NULL);
        return;
    }
    c.read.runs = runs;
    c.read.judges = true;
    api_send(a, r, &c);
}

/* --- counting --- */

static const struct shape_member counted_members[] = {
    {MEMBER(struct reply, count, "count", ALWAYS, NULL)},
};
const struct shape api_counted_shape = {.name = "Counted", SHAPE_MEMBERS(counted_members)};

static void on_counted(void *ctx, const struct reply *r)
{
    api_reply_shape(ctx, r, 200, &api_counted_shape);
}

void api_count(struct api *a, const struct api_request *r)
{
    struct list_params p;
    struct err err = api_read_params(r->http, PARAMS_FILTER, &p);
    if (err.code == ERR_OK)
        err = api_may_filter(r, &p.list.filter);
    if (err.code == ERR_OK) {
        struct command c = {
            .kind = CMD_COUNT, .list = p.list, .done = on_counted, .ctx = api_call(a, r)};
        api_send(a, r, &c);
    } else {
        api_reply_error(r->x, &err, NULL);
    }
    buf_fini(&p.echo);
}
