/* SPDX-License-Identifier: Apache-2.0 */

/* Several tasks by their ids: tasks, statuses. */

#include <stdlib.h>

#include "base/array.h"
#include "base/must.h"
#include "taskcluster/tc_definition.h"
#include "taskcluster/tc_handlers.h"
#include "taskcluster/tc_many.h"
#include "wire/field.h"

#define IDS_MAX 100000 /* of a request */

/* A page of a list of ids; the token is how many came before. */
struct page {
    struct tc_texts ids;
    size_t from;
};

static const struct field body_fields[] = {
    {"taskIds", false, tc_field_texts, offsetof(struct page, ids), false, NULL},
};

static bool read_from(struct tc_call *c, struct str token, struct page *p)
{
    for (size_t i = 0; i < token.len; i++) {
        if (token.at[i] < '0' || token.at[i] > '9' || p->from > p->ids.count) {
            tc_fail(c, TC_INVALID_REQUEST_ARGUMENTS, "Invalid continuationToken");
            return false;
        }
        p->from = p->from * 10 + (size_t)(token.at[i] - '0');
    }
    return true;
}

static void on_all(struct tc_call *c, struct str out, size_t read)
{
    const struct page *p = c->state;
    bool statuses = strcmp(c->method->name, "statuses") == 0;
    struct buf *b = tc_body(c);
    buf_print(b, "{\"%s\":[", statuses ? "statuses" : "tasks");
    buf_str(b, out);
    buf_byte(b, ']');
    if (p->from + read < p->ids.count) {
        char token[32];
        int n = snprintf(token, sizeof token, "%zu", p->from + read);
        tc_write_continuation(b, (struct str){token, (size_t)n});
    }
    buf_byte(b, '}');
    tc_reply(c, b);
}

static void write_definition(struct buf *b, const struct tc_task *t)
{
    buf_print(b, "{\"taskId\":\"%.*s\",\"task\":", STR_ARG(t->job.options.alias));
    tc_definition_answer(b, &t->job);
    buf_byte(b, '}');
}

static void write_status(struct buf *b, const struct tc_task *t)
{
    buf_print(b, "{\"taskId\":\"%.*s\",\"status\":", STR_ARG(t->job.options.alias));
    tc_status_write(b, t);
    buf_byte(b, '}');
}

static void read_all(struct tc_call *c, void (*write)(struct buf *b, const struct tc_task *t))
{
    struct page *p = ARENA_NEW(c->arena, struct page);
    struct json_cursor j = json_open(c->body);
    struct str token;
    uint32_t limit;
    struct err err = field_read_object(true, &j, c->arena, body_fields, COUNT(body_fields), p);
    must(err.code == ERR_OK); /* by the schema */
    if (p->ids.count > IDS_MAX) {
        tc_fail(c, TC_INPUT_ERROR, "taskIds has %zu ids, more than %d", p->ids.count, IDS_MAX);
        return;
    }
    const struct scope_param params[] = {
        {.name = "taskIds", .list = p->ids.at, .count = p->ids.count}};
    if (!tc_authorize(c, params, COUNT(params)) || !tc_page(c, TC_MANY_MAX, &limit, &token) ||
        !read_from(c, token, p))
        return;
    size_t left = p->from < p->ids.count ? p->ids.count - p->from : 0;
    struct tc_many m = {.count = left < limit ? left : limit, .write = write, .done = on_all};
    struct tc_ref *refs = arena_zero(c->arena, (m.count + 1) * sizeof *refs);
    for (size_t i = 0; i < m.count; i++)
        refs[i].task_id = p->ids.at[p->from + i];
    m.refs = refs;
    c->state = p;
    tc_many_read(c, &m);
}

void tc_get_tasks(struct tc_call *c)
{
    read_all(c, write_definition);
}

void tc_get_statuses(struct tc_call *c)
{
    read_all(c, write_status);
}
