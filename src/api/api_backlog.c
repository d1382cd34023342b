/* SPDX-License-Identifier: Apache-2.0 */

/* Why nothing moves: what the waiting jobs of queues wait for. */

#include "api/api_access.h"
#include "api/api_routes.h"
#include "api/api_words.h"

#define LIMIT_DEFAULT 50

/* --- the answer --- */

static const struct shape_member reason_members[] = {
    {MEMBER_WORD(struct backlog_reason, kind, "kind", ALWAYS, &api_obstacle_words, NULL)},
    {MEMBER(struct backlog_reason, jobs, "jobs", ALWAYS, "how many it keeps back")},
    {MEMBER(struct backlog_reason, at_least, "at_least", IF_SET,
            "true: there may be more of them")},
    {MEMBER(
        struct backlog_reason, name, "name", OR_NULL,
        "of the concurrency key, the budget or the node; of `no_worker` `task` or `job`, if all "
        "who ask for jobs of the queue take only the other")},
    {MEMBER(struct backlog_reason, until, "until", OR_NULL, "null: that is up to somebody")},
    {MEMBER(struct backlog_reason, text, "reason", ALWAYS, NULL)},
};
static const struct shape reason_shape = {SHAPE_MEMBERS(reason_members)};

static const struct shape_member workers_members[] = {
    {MEMBER(struct backlog, workers, "asking", ALWAYS, "streams and claims for its jobs")},
    {MEMBER(struct backlog, with_room, "with_room", ALWAYS, "of them")},
    {MEMBER(struct backlog, crew.busy, "busy", ALWAYS, "workers that hold jobs of its queue")},
    {MEMBER(struct backlog, crew.runs, "in_flight", ALWAYS, "jobs of its queue that they hold")},
    {MEMBER(struct backlog, crew.elsewhere, "busy_elsewhere", ALWAYS,
            "workers of its queue that hold jobs of others only")},
    {MEMBER(struct backlog, crew.usual, "run_ms", OR_NULL,
            "how long a run of its queue takes, about")},
    {MEMBER(struct backlog, crew.left, "room_in_ms", OR_NULL,
            "when a slot should come free; null: nobody can say")},
};
static const struct shape workers_shape = {SHAPE_MEMBERS(workers_members)};

static const struct shape_member backlog_members[] = {
    {MEMBER(struct backlog, queue, "queue", ALWAYS, NULL)},
    {MEMBER(struct backlog, blocked, "blocked", ALWAYS, "jobs of this status")},
    {MEMBER(struct backlog, scheduled, "scheduled", ALWAYS, "likewise")},
    {MEMBER(struct backlog, ready, "ready", ALWAYS, "likewise")},
    {MEMBER_INNER("workers", ALWAYS, &workers_shape, NULL)},
    {MEMBER_OBJECTS(struct backlog, reasons, reason_count, "waits_for", ALWAYS, &reason_shape,
                    "what keeps most jobs back comes first; a job may be counted by several")},
    {MEMBER_LIST(struct backlog, warnings, warning_count, "warnings", ALWAYS,
                 "what is valid in the retry policies and settings that its jobs meet, and most "
                 "likely not meant")},
};
static const struct shape backlog_shape = {.name = "Backlog", SHAPE_MEMBERS(backlog_members)};

struct backlog_call {
    struct call call; /* must be first */
    struct str queue, from;
    uint32_t limit;
};

struct backlog_answer {
    const struct backlog_call *call;
    const struct backlog *at;
    size_t count;
    struct str next;
};

static void write_link(struct buf *b, const struct backlog_call *c, struct str from)
{
    buf_lit(b, "\"/explain?");
    if (c->queue.len) {
        buf_lit(b, "queue=");
        query_write(b, c->queue);
    } else {
        if (from.len) {
            buf_lit(b, "from=");
            query_write(b, from);
            buf_lit(b, "&");
        }
        buf_print(b, "limit=%u", c->limit);
    }
    buf_lit(b, "\"");
}

static void write_self(struct buf *b, const void *answer)
{
    const struct backlog_answer *x = answer;
    write_link(b, x->call, x->call->from);
}

static void write_next(struct buf *b, const void *answer)
{
    const struct backlog_answer *x = answer;
    write_link(b, x->call, x->next);
}

static bool has_next(const void *answer)
{
    return ((const struct backlog_answer *)answer)->next.len != 0;
}

static const struct shape_member links_members[] = {
    {MEMBER_MADE("self", ALWAYS, "string", write_self, NULL)},
    {MEMBER_MADE("next", OR_NULL, "string", write_next, "if more follows", .is_set = has_next)},
};
static const struct shape links_shape = {SHAPE_MEMBERS(links_members),
                                         .doc = "paths of the pages around"};

static const struct shape_member page_members[] = {
    {MEMBER_OBJECTS(struct backlog_answer, at, count, "queues", ALWAYS, &backlog_shape, NULL)},
    {MEMBER_INNER("pages", ALWAYS, &links_shape, NULL)},
};
const struct shape api_backlog_page_shape = {.name = "BacklogPage", SHAPE_MEMBERS(page_members)};

static void on_backlog(void *ctx, const struct reply *r)
{
    struct backlog_call *c = ctx;
    struct buf *b = api_reply_body(c->call.api, c->call.x, r);
    if (!b)
        return;
    const struct backlog_page *p = r->backlogs;
    struct backlog_answer answer = {c, p->at, p->count, p->next};
    shape_write(b, &api_backlog_page_shape, &answer, SHAPE_AS_IT_IS);
    api_reply_json(c->call.x, 200, b);
}

/* --- the request --- */

const struct api_param api_backlog_params[] = {
    {"queue", "string: only this queue, whether or not jobs wait in it"},
    {"limit", "integer 1..$: of a page", .most = BACKEND_PAGE_MAX},
    {"from", "string: a name, exclusive"},
    {NULL, NULL}};

static struct err read_query(const struct http_request *req, struct backlog_call *c)
{
    struct query_cursor q = query_open(req->query, req->arena);
    struct str name, value;
    unsigned seen = 0;
    int64_t limit = LIMIT_DEFAULT;
    for (bool more;;) {
        TRY(query_next(&q, &more, &name, &value));
        c->limit = (uint32_t)limit;
        if (!more)
            return err_none();
        TRY(api_param_once(name, api_backlog_params, &seen));
        if (str_eq(name, STR("limit"))) {
            TRY(api_read_number(value, "limit", 1, BACKEND_PAGE_MAX, &limit));
        } else if (str_eq(name, STR("from"))) {
            TRY(job_check_name(value, "from"));
            c->from = arena_copy(req->arena, value);
        } else if (str_eq(name, STR("queue"))) {
            TRY(job_check_name(value, "a queue"));
            c->queue = arena_copy(req->arena, value);
        } else {
            return api_unknown_param(name);
        }
    }
}

void api_backlog(struct api *a, const struct api_request *r)
{
    struct backlog_call *call = ARENA_NEW(r->http->arena, struct backlog_call);
    *call = (struct backlog_call){.call = {a, r->x}};
    struct err err = api_check_media(r->http);
    if (err.code == ERR_OK)
        err = read_query(r->http, call);
    if (err.code == ERR_OK && call->queue.len)
        err = api_may_queue(r, call->queue);
    if (err.code != ERR_OK) {
        api_reply_error(r->x, &err, NULL);
        return;
    }
    struct command c = {.kind = CMD_BACKLOG,
                        .backlog = {call->queue, call->from, call->limit},
                        .done = on_backlog,
                        .ctx = call};
    api_send(a, r, &c);
}
