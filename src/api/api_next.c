/* SPDX-License-Identifier: Apache-2.0 */

/* What a queue would hand out next. */

#include <stdlib.h>

#include "api/api_access.h"
#include "api/api_routes.h"

#define LIMIT_DEFAULT 10
#define RANK_DIGITS   8 /* hexadecimal; then a dash and an id */

/* --- places --- */

static void write_place(struct buf *b, struct ready_place place)
{
    char id[ID_TEXT_LEN];
    id_format(place.id, id);
    buf_print(b, "%0*x-%.*s", RANK_DIGITS, place.rank, ID_TEXT_LEN, id);
}

static struct err read_place(struct str text, struct ready_place *place)
{
    char rank[RANK_DIGITS + 1] = {0}, *end;
    place->set = text.len == RANK_DIGITS + 1 + ID_TEXT_LEN && text.at[RANK_DIGITS] == '-';
    if (place->set) {
        memcpy(rank, text.at, RANK_DIGITS);
        place->rank = (uint32_t)strtoul(rank, &end, 16);
        struct str id = {text.at + RANK_DIGITS + 1, ID_TEXT_LEN};
        place->set = end == rank + RANK_DIGITS && id_parse(id, &place->id).code == ERR_OK;
    }
    if (place->set)
        return err_none();
    return err_make(ERR_BAD_VALUE, "from is what the member next of an answer says");
}

/* --- the answer --- */

struct next_call {
    struct call call; /* must be first */
    struct arena *arena;
    struct str queue;
    uint32_t limit;
};

struct next_page {
    const struct job *jobs;
    size_t count;
    struct str next;
};

static const struct shape_member page_members[] = {
    {MEMBER_OBJECTS(struct next_page, jobs, count, "jobs", ALWAYS, &api_job_shape, NULL)},
    {MEMBER(struct next_page, next, "next", OR_NULL, "path of the next page")},
};
const struct shape api_next_page_shape = {.name = "NextJobs", SHAPE_MEMBERS(page_members)};

static struct str path_of(const struct next_call *c, struct ready_place place)
{
    struct buf path = {0};
    buf_lit(&path, "/queues/");
    query_write(&path, c->queue);
    buf_print(&path, "/next?limit=%u&from=", c->limit);
    write_place(&path, place);
    struct str text = arena_copy(c->arena, buf_view(&path));
    buf_fini(&path);
    return text;
}

static void on_next(void *ctx, const struct reply *r)
{
    const struct next_call *c = ctx;
    struct buf *b = api_reply_body(c->call.api, c->call.x, r);
    if (!b)
        return;
    api_hide_payloads(&c->call, r);
    struct next_page page = {r->jobs, r->count, {0}};
    if (r->more)
        page.next = path_of(c, r->place);
    shape_write(b, &api_next_page_shape, &page, SHAPE_AS_IT_IS);
    api_reply_json(c->call.x, 200, b);
}

/* --- the request --- */

const struct api_param api_next_params[] = {
    {"limit", "integer 1..$: of a page", .most = PEEK_MAX},
    {"from", "string @cursor: where the page before ended, as its next says"},
    {NULL, NULL}};

static struct err read_query(const struct http_request *req, struct peek_command *peek)
{
    struct query_cursor q = query_open(req->query, req->arena);
    struct str name, value;
    unsigned seen = 0;
    int64_t limit = LIMIT_DEFAULT;
    for (bool more;;) {
        TRY(query_next(&q, &more, &name, &value));
        peek->limit = (uint32_t)limit;
        if (!more)
            return err_none();
        TRY(api_param_once(name, api_next_params, &seen));
        if (str_eq(name, STR("limit")))
            TRY(api_read_number(value, "limit", 1, PEEK_MAX, &limit));
        else if (str_eq(name, STR("from")))
            TRY(read_place(value, &peek->from));
        else
            return api_unknown_param(name);
    }
}

void api_queue_next(struct api *a, const struct api_request *r)
{
    struct command c = {.kind = CMD_PEEK,
                        .peek = {.queue = r->params->at[0], .with_payload = true},
                        .done = on_next};
    struct err err = api_check_media(r->http);
    if (err.code == ERR_OK)
        err = read_query(r->http, &c.peek);
    if (err.code == ERR_OK)
        err = api_may_queue(r, c.peek.queue);
    if (err.code != ERR_OK) {
        api_reply_error(r->x, &err, NULL);
        return;
    }
    struct arena *arena = r->http->arena;
    struct next_call *call = ARENA_NEW(arena, struct next_call);
    *call = (struct next_call){
        {a, r->x, !api_may_see(r)}, arena, arena_copy(arena, c.peek.queue), c.peek.limit};
    c.ctx = call;
    api_send(a, r, &c);
}
