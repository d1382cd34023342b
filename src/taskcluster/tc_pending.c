/* SPDX-License-Identifier: Apache-2.0 */

/* What waits in a task queue and what is claimed of it: counts and lists. */

#include "base/array.h"
#include "base/must.h"
#include "base/rfc3339.h"
#include "taskcluster/tc_handlers.h"
#include "taskcluster/tc_task.h"
#include "wire/field.h"

/* --- counts --- */

static void write_counts(struct buf *b, struct str queue, const uint64_t *n, bool claimed)
{
    struct str provisioner, type;
    tc_queue_split(queue, &provisioner, &type);
    buf_print(b,
              "{\"provisionerId\":\"%.*s\",\"workerType\":\"%.*s\",\"taskQueueId\":\"%.*s\","
              "\"pendingTasks\":%llu",
              STR_ARG(provisioner), STR_ARG(type), STR_ARG(queue),
              (unsigned long long)n[STATUS_READY] + n[STATUS_SCHEDULED]);
    if (claimed)
        buf_print(b, ",\"claimedTasks\":%llu", (unsigned long long)n[STATUS_IN_FLIGHT]);
    buf_byte(b, '}');
}

static void on_counts(void *ctx, const struct reply *r)
{
    struct tc_call *c = ctx;
    struct buf *b = tc_body(c);
    if (r->err.code != ERR_OK) {
        tc_fail_err(c, &r->err);
        return;
    }
    write_counts(b, tc_param(c, "taskQueueId"), r->queues[0].view.tasks,
                 strcmp(c->method->name, "taskQueueCounts") == 0);
    tc_reply(c, b);
}

void tc_count_tasks(struct tc_call *c)
{
    struct command cmd = {.kind = CMD_QUEUE_READ,
                          .queue = {.name = tc_param(c, "taskQueueId")},
                          .done = on_counts,
                          .ctx = c};
    backend_submit(c->tc->backend, &cmd);
}

/* --- counts of many --- */

struct counting {
    struct tc_call *call;
    struct tc_texts queues;
    size_t answered;
    struct buf answer;
    struct err err;
};

static void finish_counting(struct counting *n)
{
    struct buf answer = n->answer; /* n goes with its exchange */
    buf_lit(&answer, "]}");
    if (n->err.code != ERR_OK)
        tc_fail_err(n->call, &n->err);
    else
        tc_reply(n->call, &answer);
    buf_fini(&answer);
}

/* They are answered in the order in which they were asked. */
static void on_one_counted(void *ctx, const struct reply *r)
{
    struct counting *n = ctx;
    if (n->answered)
        buf_byte(&n->answer, ',');
    if (r->err.code == ERR_OK)
        write_counts(&n->answer, n->queues.at[n->answered], r->queues[0].view.tasks, true);
    else
        n->err = r->err;
    if (++n->answered == n->queues.count)
        finish_counting(n);
}

void tc_count_many(struct tc_call *c)
{
    static const struct field fields[] = {
        {.name = "taskQueueIds",
         .read = tc_field_texts,
         .offset = offsetof(struct counting, queues)},
    };
    struct counting *n = ARENA_NEW(c->arena, struct counting);
    struct json_cursor j = json_open(c->body);
    struct err err = field_read_object(true, &j, c->arena, fields, COUNT(fields), n);
    must(err.code == ERR_OK); /* by the schema */
    const struct scope_param params[] = {
        {.name = "taskQueueIds", .list = n->queues.at, .count = n->queues.count}};
    if (!tc_authorize(c, params, COUNT(params)))
        return;
    n->call = c;
    buf_lit(&n->answer, "{\"taskQueueCounts\":[");
    if (n->queues.count == 0)
        finish_counting(n);
    for (size_t i = 0, count = n->queues.count; i < count; i++) {
        struct command cmd = {.kind = CMD_QUEUE_READ,
                              .queue = {.name = n->queues.at[i]},
                              .done = on_one_counted,
                              .ctx = n};
        backend_submit(c->tc->backend, &cmd);
    }
}

/* --- lists --- */

static void write_pending(struct buf *b, const struct job *job)
{
    buf_print(b, "{\"taskId\":\"%.*s\",\"runId\":%u", STR_ARG(job->options.alias), job->state.runs);
    tc_write_time(b, "inserted", job->state.ready_at);
    KEY(b, "task");
    tc_definition_answer(b, job);
    buf_byte(b, '}');
}

static void write_claimed(struct buf *b, const struct job *job)
{
    struct str group, id;
    tc_worker_split(job->state.worker, &group, &id);
    buf_print(b, "{\"taskId\":\"%.*s\",\"runId\":%u,\"workerGroup\":", STR_ARG(job->options.alias),
              job->state.runs - 1);
    json_write_string(b, group);
    KEY(b, "workerId");
    json_write_string(b, id);
    tc_write_time(b, "claimed", job->state.dequeued_at);
    KEY(b, "task");
    tc_definition_answer(b, job);
    buf_byte(b, '}');
}

/* Writes those of the jobs that are tasks. */
static struct buf *write_tasks(struct tc_call *c, const struct reply *r,
                               void (*write)(struct buf *b, const struct job *job))
{
    struct buf *b = tc_body(c);
    struct tc_head head;
    bool first = true;
    buf_lit(b, "{\"tasks\":[");
    for (size_t i = 0; i < r->count; i++) {
        if (!tc_head_read(&r->jobs[i], c->arena, &head))
            continue;
        if (!first)
            buf_byte(b, ',');
        first = false;
        write(b, &r->jobs[i]);
    }
    buf_byte(b, ']');
    return b;
}

static void write_place(struct buf *b, const struct ready_place *place)
{
    struct buf token = {0};
    char id[ID_TEXT_LEN];
    id_format(place->id, id);
    buf_print(&token, "%u.%.*s", place->rank, (int)sizeof id, id);
    tc_write_continuation(b, buf_view(&token));
    buf_fini(&token);
}

static void on_pending(void *ctx, const struct reply *r)
{
    struct tc_call *c = ctx;
    if (r->err.code != ERR_OK) {
        tc_fail_err(c, &r->err);
        return;
    }
    struct buf *b = write_tasks(c, r, write_pending);
    if (r->more)
        write_place(b, &r->place);
    buf_byte(b, '}');
    tc_reply(c, b);
}

/* The token is the place itself: rank and id. */
static bool read_place(struct tc_call *c, struct str token, struct ready_place *place)
{
    uint64_t rank = 0;
    size_t n = 0;
    if (token.len == 0)
        return true;
    for (; n < token.len && token.at[n] >= '0' && token.at[n] <= '9' && rank <= UINT32_MAX; n++)
        rank = rank * 10 + (uint64_t)(token.at[n] - '0');
    struct str id = {token.at + n + 1, token.len > n ? token.len - n - 1 : 0};
    place->set = true;
    place->rank = (uint32_t)rank;
    if (n > 0 && n < token.len && token.at[n] == '.' && rank <= UINT32_MAX &&
        id_parse(id, &place->id).code == ERR_OK)
        return true;
    tc_fail(c, TC_INVALID_REQUEST_ARGUMENTS, "Invalid continuationToken");
    return false;
}

void tc_list_pending(struct tc_call *c)
{
    struct peek_command peek = {
        .queue = tc_param(c, "taskQueueId"), .with_payload = true, .tasks = true};
    struct str token;
    if (!tc_page(c, PEEK_MAX, &peek.limit, &token) || !read_place(c, token, &peek.from))
        return;
    struct command cmd = {.kind = CMD_PEEK, .peek = peek, .done = on_pending, .ctx = c};
    backend_submit(c->tc->backend, &cmd);
}

#define CLAIMED_MAX 1000

static void on_claimed(void *ctx, const struct reply *r)
{
    struct tc_call *c = ctx;
    if (r->err.code != ERR_OK) {
        tc_fail_err(c, &r->err);
        return;
    }
    struct buf *b = write_tasks(c, r, write_claimed);
    if (r->more && r->count) {
        char id[ID_TEXT_LEN];
        id_format(r->jobs[r->count - 1].id, id);
        tc_write_continuation(b, (struct str){id, sizeof id});
    }
    buf_byte(b, '}');
    tc_reply(c, b);
}

void tc_list_claimed(struct tc_call *c)
{
    const struct str queue = tc_param(c, "taskQueueId");
    struct list_command l = {
        .filter = {.queues = &queue, .queue_count = 1, .statuses = 1u << STATUS_IN_FLIGHT}};
    struct str token;
    if (!tc_page(c, CLAIMED_MAX, &l.limit, &token))
        return;
    l.from.set = token.len > 0;
    if (l.from.set && id_parse(token, &l.from.id).code != ERR_OK) {
        tc_fail(c, TC_INVALID_REQUEST_ARGUMENTS, "Invalid continuationToken");
        return;
    }
    struct command cmd = {.kind = CMD_LIST, .list = l, .done = on_claimed, .ctx = c};
    backend_submit(c->tc->backend, &cmd);
}
