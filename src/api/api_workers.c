/* SPDX-License-Identifier: Apache-2.0 */

/* Workers: who works, and making one quiet or stopping it. */

#include "api/api_access.h"
#include "api/api_routes.h"
#include "core/workers.h"

#define LIMIT_DEFAULT 100

/* --- answers --- */

static void write_queues(struct buf *b, const void *queues)
{
    api_encode_names(b, *(const struct str *)queues);
}

static bool is_heard_of(const void *view)
{
    return ((const struct worker_view *)view)->worker.since.ms != 0;
}

static const struct shape_member worker_members[] = {
    {MEMBER(struct worker_view, worker.name, "name", ALWAYS, NULL)},
    {MEMBER(struct worker_view, worker.node, "node", IF_SET, "where it says that it is")},
    {MEMBER(struct worker_view, worker.address, "address", IF_SET, "from which it asked last")},
    {MEMBER(struct worker_view, worker.agent, "version", IF_SET, "its User-Agent")},
    {MEMBER_OTHER(struct worker_view, worker.queues, "queues", ALWAYS, "string[]", write_queues,
                  "from which it asked for jobs last; none: from all")},
    {MEMBER(struct worker_view, worker.streams, "streams", ALWAYS, "that it has open")},
    {MEMBER(struct worker_view, worker.claims, "claims", ALWAYS, "of it that wait for jobs")},
    {MEMBER(struct worker_view, in_flight, "in_flight", ALWAYS, "runs that it holds")},
    {MEMBER(struct worker_view, worker.quiet, "quiet", ALWAYS, "it is given nothing more")},
    {MEMBER(struct worker_view, worker.notice, "notice", IF_SET, "why it asks for no jobs")},
    {MEMBER(struct worker_view, worker.since, "since", OR_NULL,
            "since when it has been known; null: not heard of since the server's start",
            .is_set = is_heard_of)},
    {MEMBER(struct worker_view, worker.last_seen, "last_seen", OR_NULL,
            "when it asked for jobs or reported last", .is_set = is_heard_of)},
};
const struct shape api_worker_shape = {.name = "Worker", SHAPE_MEMBERS(worker_members)};

struct worker_page {
    const struct worker_view *workers;
    size_t count;
    struct str next; /* path; empty: there is none */
};

static void write_next(struct buf *b, const void *next)
{
    json_write_string(b, *(const struct str *)next);
}

static const struct shape_member page_members[] = {
    {MEMBER_OBJECTS(struct worker_page, workers, count, "workers", ALWAYS, &api_worker_shape,
                    "by name")},
    {MEMBER_OTHER(struct worker_page, next, "next", OR_NULL, "string", write_next,
                  "the path of the next page")},
};
const struct shape api_workers_shape = {.name = "Workers", SHAPE_MEMBERS(page_members)};

struct stopped {
    uint64_t returned;
};
static const struct shape_member stopped_members[] = {
    {MEMBER(struct stopped, returned, "returned", ALWAYS, "runs that went back")},
};
const struct shape api_worker_stopped_shape = {.name = "WorkerStopped",
                                               SHAPE_MEMBERS(stopped_members)};

/* --- reading --- */

const struct api_param api_workers_params[] = {
    {"limit", "integer 1..$: of a page; 100 unless given", .most = WORKERS_PAGE_MAX},
    {"after", "string: a name: workers after it"},
    {NULL, NULL}};

static struct err read_params(const struct api_request *r, struct workers_query *q)
{
    struct query_cursor c = query_open(r->http->query, r->http->arena);
    struct str name, value;
    bool more;
    int64_t limit;
    unsigned seen = 0;
    TRY(api_check_media(r->http));
    for (;;) {
        TRY(query_next(&c, &more, &name, &value));
        if (!more)
            return err_none();
        TRY(api_param_once(name, api_workers_params, &seen));
        if (str_eq(name, STR("after"))) {
            q->after = value;
        } else if (str_eq(name, STR("limit"))) {
            TRY(api_read_number(value, "limit", 1, WORKERS_PAGE_MAX, &limit));
            q->limit = (uint32_t)limit;
        } else {
            return api_unknown_param(name);
        }
    }
}

struct page_call {
    struct call call; /* must be first */
    uint32_t limit;
};

static void on_page(void *ctx, const struct reply *r)
{
    const struct page_call *c = ctx;
    struct buf path = {0};
    struct worker_page page = {r->workers, r->count, {0}};
    if (r->err.code == ERR_OK && r->more) {
        buf_print(&path, "/workers?limit=%u&after=", c->limit);
        query_write(&path, mark_bare(r->workers[r->count - 1].worker.name));
        page.next = buf_view(&path);
    }
    api_reply_part(&c->call, r, 200, &api_workers_shape, &page);
    buf_fini(&path);
}

void api_workers(struct api *a, const struct api_request *r)
{
    struct workers_query q = {.limit = LIMIT_DEFAULT};
    struct err err = read_params(r, &q);
    if (err.code != ERR_OK) {
        api_reply_error(r->x, &err, NULL);
        return;
    }
    struct page_call *call = ARENA_NEW(r->http->arena, struct page_call);
    *call = (struct page_call){{a, r->x}, q.limit};
    struct command c = {.kind = CMD_WORKERS, .workers = &q, .done = on_page, .ctx = call};
    api_send(a, r, &c);
}

static void on_worker(void *ctx, const struct reply *r)
{
    api_reply_part(ctx, r, 200, &api_worker_shape, r->workers);
}

void api_worker(struct api *a, const struct api_request *r)
{
    const struct workers_query q = {.name = r->params->at[0], .limit = 1};
    struct command c = {.kind = CMD_WORKERS, .workers = &q, .done = on_worker};
    api_submit(a, r, &c, api_check_media(r->http));
}

/* --- changing --- */

static struct err check_name(const struct api_request *r)
{
    TRY(api_check_media(r->http));
    size_t len = r->params->at[0].len;
    if (len <= JOB_NAME_MAX)
        return err_none();
    return err_make(ERR_BAD_NAME, "the name of a worker has 1 to %d bytes, not %zu", JOB_NAME_MAX,
                    len);
}

static void hush(struct api *a, const struct api_request *r, bool quiet)
{
    struct command c = {.kind = CMD_WORKER_HUSH,
                        .worker = {r->params->at[0], quiet},
                        .done = quiet ? on_worker : api_reply_empty};
    api_submit(a, r, &c, check_name(r));
}

void api_worker_quiet(struct api *a, const struct api_request *r)
{
    hush(a, r, true);
}

void api_worker_resume(struct api *a, const struct api_request *r)
{
    hush(a, r, false);
}

/* --- what one says of itself --- */

struct notice_fields {
    struct name_list queues;
    struct str notice, node;
};

static struct err read_notice(struct json_cursor *c, struct arena *a, void *str)
{
    struct str *text = str;
    TRY(field_text(c, a, text));
    if (text->len >= 1 && text->len <= WORKERS_NOTICE_MAX)
        return err_none();
    return err_make(ERR_BAD_VALUE, "from 1 to %d bytes, not %zu", WORKERS_NOTICE_MAX, text->len);
}

static const struct field notice_table[] = {
    {"notice", true, read_notice, offsetof(struct notice_fields, notice), false,
     "string 1..$: a sentence, without its full stop; it holds until the worker asks for jobs "
     "again, "
     "and for 5 minutes",
     WORKERS_NOTICE_MAX},
    {"queues", false, api_field_names, offsetof(struct notice_fields, queues), true,
     "name 1..255[]: from which it would ask for jobs; without it all"},
    {"node", false, api_field_label, offsetof(struct notice_fields, node), true,
     "string 0..$: where the worker is", JOB_NAME_MAX},
};
const struct api_body api_worker_notice_body = {API_FIELDS(notice_table)};

void api_worker_notice(struct api *a, const struct api_request *r)
{
    struct notice_fields f = {.notice = {0}};
    struct str worker = r->params->at[0];
    struct err err = job_check_name(worker, "worker");
    if (err.code == ERR_OK)
        err = api_decode_body(a, r->http, notice_table, COUNT(notice_table), false, &f);
    if (err.code == ERR_OK)
        err = api_own_worker(r, &worker);
    if (err.code == ERR_OK)
        err = api_may_queues(r, &f.queues.at, &f.queues.count);
    struct worker_greeting *g = ARENA_NEW(r->http->arena, struct worker_greeting);
    *g = (struct worker_greeting){.name = worker,
                                  .node = f.node,
                                  .address = str_from(http_peer(r->x)->address),
                                  .agent = api_agent_of(r),
                                  .queues = f.queues.at,
                                  .queue_count = f.queues.count,
                                  .notice = f.notice};
    struct command c = {.kind = CMD_WORKER_NOTICE, .greeting = g, .done = api_reply_empty};
    api_submit(a, r, &c, err);
}

struct stop_call {
    struct call call; /* must be first */
    struct str name;
    struct stopped stopped;
};

static void on_stopped(void *ctx, const struct reply *r)
{
    struct stop_call *s = ctx;
    s->stopped.returned += r->err.code == ERR_OK ? r->count : 0;
    if (r->err.code != ERR_OK || !r->more) {
        api_reply_part(&s->call, r, 200, &api_worker_stopped_shape, &s->stopped);
        return;
    }
    struct command c = {
        .kind = CMD_WORKER_STOP, .worker = {.name = s->name}, .done = on_stopped, .ctx = s};
    backend_submit(s->call.api->backend, &c);
}

/* A worker of very many runs is stopped in steps. */
void api_worker_stop(struct api *a, const struct api_request *r)
{
    struct err err = check_name(r);
    if (err.code != ERR_OK) {
        api_reply_error(r->x, &err, NULL);
        return;
    }
    struct stop_call *s = ARENA_NEW(r->http->arena, struct stop_call);
    *s = (struct stop_call){.call = {a, r->x}, .name = r->params->at[0]};
    s->name = arena_copy(r->http->arena, s->name);
    struct command c = {
        .kind = CMD_WORKER_STOP, .worker = {.name = s->name}, .done = on_stopped, .ctx = s};
    api_send(a, r, &c);
}
