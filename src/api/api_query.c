/* SPDX-License-Identifier: Apache-2.0 */

/* Getting, listing and counting jobs, and their runs. */

#include <stdio.h>

#include "api/api_access.h"
#include "api/api_canary.h"
#include "api/api_routes.h"
#include "base/must.h"

/* --- one job --- */

void api_submit_for_id(struct api *a, const struct api_request *r, enum command_kind kind,
                       reply_fn done)
{
    struct command c = {.kind = kind, .done = done, .ctx = api_call(a, r)};
    struct err err = api_check_media(r->http);
    if (err.code == ERR_OK)
        err = api_path_id(r->params->at[0], &c, &c.id);
    if (err.code != ERR_OK)
        api_reply_error(r->x, &err, NULL);
    else
        api_send(a, r, &c);
}

/* --- pages of jobs --- */

struct page_call {
    struct call call; /* must be first */
    struct id_place from;
    bool backwards;
    uint32_t limit, look_max;
    struct str path; /* before the '?' */
    struct str echo; /* filters, each with a leading '&' */
};

/* "/jobs?from=…&order=asc&limit=2&status=ready"; cursor is empty on the first page. */
static void write_link(struct buf *b, const struct page_call *p, struct str cursor, bool backwards)
{
    buf_byte(b, '"');
    buf_str(b, p->path);
    buf_byte(b, '?');
    if (cursor.len) {
        buf_lit(b, "from=");
        buf_str(b, cursor);
        buf_byte(b, '&');
    }
    buf_str(b, backwards ? STR("order=desc") : STR("order=asc"));
    buf_lit(b, "&limit=");
    buf_int(b, p->limit);
    if (p->look_max) {
        buf_lit(b, "&look_max=");
        buf_int(b, p->look_max);
    }
    buf_str(b, p->echo); /* percent-encoded: nothing in it needs escaping in JSON */
    buf_byte(b, '"');
}

/* Where the pages around begin; empty: there is none, or it is the first. prev ends before this
 * one: its order is the opposite. */
struct links {
    const struct page_call *page;
    struct str self, next, prev;
};

static void write_self(struct buf *b, const void *links)
{
    const struct links *l = links;
    write_link(b, l->page, l->self, l->page->backwards);
}

static void write_next(struct buf *b, const void *links)
{
    const struct links *l = links;
    write_link(b, l->page, l->next, l->page->backwards);
}

static void write_prev(struct buf *b, const void *links)
{
    const struct links *l = links;
    write_link(b, l->page, l->prev, !l->page->backwards);
}

static bool has_next(const void *links)
{
    return ((const struct links *)links)->next.len != 0;
}

static bool has_prev(const void *links)
{
    return ((const struct links *)links)->prev.len != 0;
}

static const struct shape_member links_members[] = {
    {MEMBER_MADE("self", ALWAYS, "string", write_self, NULL)},
    {MEMBER_MADE("next", OR_NULL, "string", write_next, "if more follows", .is_set = has_next)},
    {MEMBER_MADE("prev", OR_NULL, "string", write_prev,
                 "unless this is the first: the page that ends before it, in the opposite order",
                 .is_set = has_prev)},
};
static const struct shape links_shape = {
    .name = "Pages", SHAPE_MEMBERS(links_members), .doc = "paths of the pages around"};

static struct str id_cursor(struct id id, char text[ID_TEXT_LEN])
{
    id_format(id, text);
    return (struct str){text, ID_TEXT_LEN};
}

struct job_page {
    const struct job *jobs;
    size_t count;
    struct links links;
};

static const struct shape_member job_page_members[] = {
    {MEMBER_OBJECTS(struct job_page, jobs, count, "jobs", ALWAYS, &api_job_shape, NULL)},
    {MEMBER_OBJECT(struct job_page, links, "pages", ALWAYS, &links_shape, NULL)},
};
const struct shape api_job_page_shape = {.name = "JobPage", SHAPE_MEMBERS(job_page_members)};

static void on_listed(void *ctx, const struct reply *r)
{
    struct page_call *p = ctx;
    if (api_reply_failed(p->call.x, r))
        return;
    api_hide_payloads(&p->call, r);
    struct buf *b = &p->call.api->scratch;
    char self[ID_TEXT_LEN], next[ID_TEXT_LEN], prev[ID_TEXT_LEN];
    struct job_page page = {r->jobs, r->count, {.page = p}};
    if (p->from.set)
        page.links.self = id_cursor(p->from.id, self);
    if (r->more)
        page.links.next = id_cursor(r->upto.set ? r->upto.id : r->jobs[r->count - 1].id, next);
    if (p->from.set && r->count)
        page.links.prev = id_cursor(r->jobs[0].id, prev);
    b->len = 0;
    shape_write(b, &api_job_page_shape, &page, SHAPE_AS_IT_IS);
    api_reply_json(p->call.x, 200, b);
}

void api_list(struct api *a, const struct api_request *r)
{
    struct list_params p;
    struct err err = api_read_params(r->http, PARAMS_PAGE, &p);
    if (err.code == ERR_OK)
        err = api_may_filter(r, &p.list.filter);
    /* The place where it would have ended may be a job of another queue. */
    if (r->rights->queues.count)
        p.list.look_max = 0;
    if (err.code == ERR_OK) {
        struct page_call *call = ARENA_NEW(r->http->arena, struct page_call);
        *call = (struct page_call){.call = {a, r->x, !api_may_see(r)},
                                   .from = p.list.from,
                                   .backwards = p.list.backwards,
                                   .limit = p.list.limit,
                                   .look_max = p.list.look_max,
                                   .path = STR("/jobs"),
                                   .echo = arena_copy(r->http->arena, buf_view(&p.echo))};
        struct command c = {.kind = CMD_LIST, .list = p.list, .done = on_listed, .ctx = call};
        api_send(a, r, &c);
    } else {
        api_reply_error(r->x, &err, NULL);
    }
    buf_fini(&p.echo);
}

/* --- runs and errors --- */

struct runs_call {
    struct page_call page; /* must be first */
    int64_t from;
};

const struct api_param api_runs_params[] = {
    {"order", "string (asc|desc): by number"},
    {"limit", "integer 1..$: of a page", .most = BACKEND_PAGE_MAX},
    {"from", "integer 0..$: a number, exclusive", .most = UINT32_MAX},
    {NULL, NULL}};

static struct err read_run_params(const struct http_request *req, struct runs_command *c)
{
    struct query_cursor q = query_open(req->query, req->arena);
    struct str name, value;
    bool more;
    int64_t limit;
    unsigned seen = 0;
    for (;;) {
        TRY(query_next(&q, &more, &name, &value));
        if (!more)
            return err_none();
        TRY(api_param_once(name, api_runs_params, &seen));
        if (str_eq(name, STR("from")))
            TRY(api_read_number(value, "from", 0, UINT32_MAX, &c->from));
        else if (str_eq(name, STR("order")))
            TRY(api_read_order(value, &c->backwards));
        else if (str_eq(name, STR("limit"))) {
            TRY(api_read_number(value, "limit", 1, BACKEND_PAGE_MAX, &limit));
            c->limit = (uint32_t)limit;
        } else
            return api_unknown_param(name);
    }
}

static struct str number_cursor(int64_t n, char text[24])
{
    int len = snprintf(text, 24, "%lld", (long long)n);
    return (struct str){text, (size_t)len};
}

struct run_page {
    const struct run *runs;
    size_t count;
    struct links links;
};

static const struct shape_member run_page_members[] = {
    {MEMBER_OBJECTS(struct run_page, runs, count, "runs", ALWAYS, &api_run_shape, NULL)},
    {MEMBER_OBJECT(struct run_page, links, "pages", ALWAYS, &links_shape, NULL)},
};
const struct shape api_run_page_shape = {.name = "RunPage", SHAPE_MEMBERS(run_page_members)};

static const struct shape_member error_page_members[] = {
    {MEMBER_OBJECTS(struct run_page, runs, count, "errors", ALWAYS, &api_run_error_shape, NULL)},
    {MEMBER_OBJECT(struct run_page, links, "pages", ALWAYS, &links_shape, NULL)},
};
const struct shape api_error_page_shape = {.name = "ErrorPage", SHAPE_MEMBERS(error_page_members)};

static void reply_runs(struct runs_call *c, const struct reply *r, bool errors)
{
    if (api_reply_failed(c->page.call.x, r))
        return;
    api_hide_logs(&c->page.call, r);
    struct buf *b = &c->page.call.api->scratch;
    char self[24], next[24], prev[24];
    struct run_page page = {r->runs, r->count, {.page = &c->page}};
    const struct run *first = r->count ? &r->runs[0] : NULL;
    const struct run *last = r->count ? &r->runs[r->count - 1] : NULL;
    must(last || !r->more);
    if (c->from >= 0)
        page.links.self = number_cursor(c->from, self);
    if (r->more)
        page.links.next = number_cursor(errors ? last->attempt : last->index, next);
    if (c->from >= 0 && first)
        page.links.prev = number_cursor(errors ? first->attempt : first->index, prev);
    b->len = 0;
    shape_write(b, errors ? &api_error_page_shape : &api_run_page_shape, &page, SHAPE_AS_IT_IS);
    api_reply_json(c->page.call.x, 200, b);
}

static void on_runs(void *ctx, const struct reply *r)
{
    reply_runs(ctx, r, false);
}

static void on_errors(void *ctx, const struct reply *r)
{
    reply_runs(ctx, r, true);
}

static void submit_runs(struct api *a, const struct api_request *r, bool errors)
{
    struct command c = {.kind = CMD_RUNS,
                        .runs = {.failures_only = errors, .from = -1, .limit = API_PAGE_DEFAULT},
                        .done = errors ? on_errors : on_runs};
    struct err err = api_check_media(r->http);
    if (err.code == ERR_OK)
        err = api_path_id(r->params->at[0], &c, &c.runs.id);
    if (err.code == ERR_OK)
        err = read_run_params(r->http, &c.runs);
    if (err.code != ERR_OK) {
        api_reply_error(r->x, &err, NULL);
        return;
    }
    struct runs_call *call = ARENA_NEW(r->http->arena, struct runs_call);
    call->page = (struct page_call){.call = {a, r->x, !api_may_see(r)},
                                    .backwards = c.runs.backwards,
                                    .limit = c.runs.limit,
                                    .path = arena_copy(r->http->arena, r->http->path)};
    call->from = c.runs.from;
    c.ctx = call;
    api_send(a, r, &c);
}

void api_runs(struct api *a, const struct api_request *r)
{
    submit_runs(a, r, false);
}

void api_errors(struct api *a, const struct api_request *r)
{
    submit_runs(a, r, true);
}

struct attempt_call {
    struct call call; /* must be first */
    int64_t attempt;
};

static void on_attempt(void *ctx, const struct reply *r)
{
    struct attempt_call *c = ctx;
    if (api_reply_failed(c->call.x, r))
        return;
    if (r->count == 0 || r->runs[0].attempt != c->attempt) {
        struct err err = err_make(ERR_NOT_FOUND, "the job has no attempt %lld that failed",
                                  (long long)c->attempt);
        api_reply_error(c->call.x, &err, NULL);
        return;
    }
    api_hide_logs(&c->call, r);
    struct buf *b = &c->call.api->scratch;
    b->len = 0;
    shape_write(b, &api_run_error_shape, &r->runs[0], SHAPE_AS_IT_IS);
    api_reply_json(c->call.x, 200, b);
}

void api_error_of_attempt(struct api *a, const struct api_request *r)
{
    struct attempt_call *call = ARENA_NEW(r->http->arena, struct attempt_call);
    call->call = (struct call){a, r->x, !api_may_see(r)};
    struct command c = {.kind = CMD_RUNS,
                        .runs = {.failures_only = true, .limit = 1},
                        .done = on_attempt,
                        .ctx = call};
    struct err err = api_check_media(r->http);
    if (err.code == ERR_OK)
        err = api_path_id(r->params->at[0], &c, &c.runs.id);
    if (err.code == ERR_OK)
        err = api_read_number(r->params->at[1], "attempt", 1, UINT32_MAX, &call->attempt);
    if (err.code != ERR_OK) {
        api_reply_error(r->x, &err, NULL);
        return;
    }
    c.runs.from = call->attempt - 1;
    api_send(a, r, &c);
}
