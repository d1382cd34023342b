/* SPDX-License-Identifier: Apache-2.0 */

/* Task groups: listed, sealed, canceled, and all of their tasks given another priority. What is
 * done to all tasks of a group is done in pages: a group may be very large. */

#include "base/array.h"
#include "base/rfc3339.h"
#include "taskcluster/tc_handlers.h"
#include "taskcluster/tc_many.h"

#define UNENDED                                                                                    \
    (1u << STATUS_BLOCKED | 1u << STATUS_SCHEDULED | 1u << STATUS_READY | 1u << STATUS_IN_FLIGHT)

/* A group as it was read, its texts in the arena. */
struct task_group {
    struct str id, scheduler_id;
    instant expires, sealed_at;
    uint64_t size;
};

/* --- reading one --- */

struct group_step {
    struct tc_call *call;
    void (*then)(struct tc_call *c, const struct task_group *g);
};

static void on_group(void *ctx, const struct reply *r)
{
    const struct group_step *s = ctx;
    struct tc_call *c = s->call;
    if (r->err.code == ERR_NOT_FOUND) {
        tc_fail(c, TC_RESOURCE_NOT_FOUND, "No task-group with taskGroupId: `%.*s`",
                STR_ARG(tc_param(c, "taskGroupId")));
        return;
    }
    if (r->err.code != ERR_OK) {
        tc_fail_err(c, &r->err);
        return;
    }
    struct task_group *g = ARENA_NEW(c->arena, struct task_group);
    const struct group_record *record = &r->group->record;
    g->id = tc_param(c, "taskGroupId");
    g->scheduler_id = arena_copy(c->arena, record->owner);
    g->expires = record->retain_until;
    g->sealed_at = record->sealed_at;
    g->size = r->group->jobs;
    s->then(c, g);
}

static void ask(struct tc_call *c, enum command_kind kind,
                void (*then)(struct tc_call *c, const struct task_group *g))
{
    struct group_step *s = ARENA_NEW(c->arena, struct group_step);
    *s = (struct group_step){c, then};
    struct command cmd = {
        .kind = kind, .group = tc_param(c, "taskGroupId"), .done = on_group, .ctx = s};
    backend_submit(c->tc->backend, &cmd);
}

static bool authorize(struct tc_call *c, const struct task_group *g)
{
    const struct scope_param params[] = {
        {.name = "schedulerId", .value = g->scheduler_id},
        {.name = "taskGroupId", .value = g->id},
    };
    return tc_authorize(c, params, COUNT(params));
}

static void write_group(struct buf *b, const struct task_group *g)
{
    buf_print(b, "\"taskGroupId\":\"%.*s\",\"schedulerId\":", STR_ARG(g->id));
    json_write_string(b, g->scheduler_id);
    tc_write_time(b, "expires", g->expires);
    if (instant_is_set(g->sealed_at))
        tc_write_time(b, "sealed", g->sealed_at);
}

/* --- getTaskGroup, sealTaskGroup --- */

static void reply_group(struct tc_call *c, const struct task_group *g)
{
    struct buf *b = tc_body(c);
    buf_byte(b, '{');
    write_group(b, g);
    buf_byte(b, '}');
    tc_reply(c, b);
}

void tc_get_task_group(struct tc_call *c)
{
    ask(c, CMD_GROUP_READ, reply_group);
}

static void seal(struct tc_call *c, const struct task_group *g)
{
    if (authorize(c, g))
        ask(c, CMD_GROUP_SEAL, reply_group);
}

void tc_seal_task_group(struct tc_call *c)
{
    ask(c, CMD_GROUP_READ, seal);
}

/* --- lists of tasks --- */

static void write_task(struct buf *b, const struct tc_task *t)
{
    buf_lit(b, "{\"status\":");
    tc_status_write(b, t);
    buf_lit(b, ",\"task\":");
    tc_definition_answer(b, &t->job);
    buf_byte(b, '}');
}

/* A page of tasks, and what the answer says before them. */
struct listing {
    const struct task_group *group; /* NULL: of what depends on a task */
    struct job_filter filter;
    struct tc_ref *refs;
    size_t count;
    bool more; /* than refs */
};

static void on_tasks(struct tc_call *c, struct str out, size_t read)
{
    const struct listing *l = c->state;
    struct buf *b = tc_body(c);
    buf_byte(b, '{');
    if (l->group)
        write_group(b, l->group);
    else
        buf_print(b, "\"taskId\":\"%.*s\"", STR_ARG(tc_param(c, "taskId")));
    buf_lit(b, ",\"tasks\":[");
    buf_str(b, out);
    buf_byte(b, ']');
    if (read && (l->more || read < l->count)) {
        char id[ID_TEXT_LEN];
        id_format(l->refs[read - 1].job, id);
        tc_write_continuation(b, (struct str){id, sizeof id});
    }
    buf_byte(b, '}');
    tc_reply(c, b);
}

static void on_jobs(void *ctx, const struct reply *r)
{
    struct tc_call *c = ctx;
    struct listing *l = c->state;
    if (r->err.code != ERR_OK) {
        tc_fail_err(c, &r->err);
        return;
    }
    l->refs = arena_zero(c->arena, (r->count + 1) * sizeof *l->refs);
    l->count = r->count;
    l->more = r->more;
    for (size_t i = 0; i < r->count; i++)
        l->refs[i].job = r->jobs[i].id;
    const struct tc_many m = {l->refs, l->count, write_task, on_tasks};
    tc_many_read(c, &m);
}

static void list(struct tc_call *c, struct listing *l)
{
    struct list_command page = {.filter = l->filter, .no_payload = true};
    struct str token;
    c->state = l;
    if (!tc_page(c, TC_MANY_MAX, &page.limit, &token))
        return;
    page.from.set = token.len > 0;
    if (page.from.set && id_parse(token, &page.from.id).code != ERR_OK) {
        tc_fail(c, TC_INVALID_REQUEST_ARGUMENTS, "Invalid continuationToken");
        return;
    }
    struct command cmd = {.kind = CMD_LIST, .list = page, .done = on_jobs, .ctx = c};
    backend_submit(c->tc->backend, &cmd);
}

static void list_group(struct tc_call *c, const struct task_group *g)
{
    struct listing *l = ARENA_NEW(c->arena, struct listing);
    l->group = g;
    l->filter.group = g->id;
    list(c, l);
}

void tc_list_task_group(struct tc_call *c)
{
    ask(c, CMD_GROUP_READ, list_group);
}

static void list_dependents(struct tc_call *c, const struct tc_task *t)
{
    struct listing *l = ARENA_NEW(c->arena, struct listing);
    l->filter.depends_on = (struct id_place){true, t->job.id};
    list(c, l);
}

void tc_list_dependents(struct tc_call *c)
{
    tc_task_read(c, tc_param(c, "taskId"), list_dependents);
}

/* --- changes of all tasks --- */

#define CHANGES_MAX 200 /* tasks of a page */

struct group_change {
    struct tc_call *call;
    const struct task_group *group;
    struct patch patch; /* of a change of priority */
    int priority;       /* to which; negative: they are canceled */
    struct buf ids;     /* of the tasks that were changed: a JSON list */
    uint64_t changed;
    struct id_place from;
    bool more;
    size_t pending; /* commands of this page */
    struct err err;
};

static void write_changed(struct buf *b, const struct group_change *g)
{
    buf_print(b, "{\"taskGroupId\":\"%.*s\"", STR_ARG(g->group->id));
    if (g->priority < 0) {
        buf_print(b, ",\"taskGroupSize\":%llu,\"cancelledCount\":%llu",
                  (unsigned long long)g->group->size, (unsigned long long)g->changed);
    } else {
        KEY(b, "schedulerId");
        json_write_string(b, g->group->scheduler_id);
        buf_print(b, ",\"newPriority\":\"%s\",\"tasksAffected\":%llu",
                  tc_priority_name(g->priority), (unsigned long long)g->changed);
    }
    buf_print(b, ",\"taskIds\":[%.*s]}", STR_ARG(buf_view(&g->ids)));
}

static void reply_changed(struct group_change *g)
{
    struct buf *b = tc_body(g->call), ids = g->ids; /* g goes with its exchange */
    if (g->err.code != ERR_OK) {
        tc_fail_err(g->call, &g->err);
    } else {
        write_changed(b, g);
        tc_reply(g->call, b);
    }
    buf_fini(&ids);
}

/* A group that has gone meanwhile is one whose tasks were changed all the same. */
static void on_told(void *ctx, const struct reply *r)
{
    struct group_change *g = ctx;
    if (r->err.code != ERR_NOT_FOUND)
        g->err = r->err;
    reply_changed(g);
}

static void finish(struct group_change *g)
{
    if (g->err.code != ERR_OK || g->priority < 0) {
        reply_changed(g);
        return;
    }
    struct command cmd = {
        .kind = CMD_GROUP_REPRIORITIZED,
        .group_reprioritized = {g->group->id, tc_priority_to_job(g->priority), g->changed},
        .done = on_told,
        .ctx = g};
    backend_submit(g->call->tc->backend, &cmd);
}

static void next_page(struct group_change *g);

/* A task that has ended meanwhile is not one that was changed. */
static void on_changed(void *ctx, const struct reply *r)
{
    struct group_change *g = ctx;
    g->pending--;
    if (r->err.code == ERR_OK) {
        buf_print(&g->ids, "%s\"%.*s\"", g->changed++ ? "," : "",
                  STR_ARG(r->jobs[0].options.alias));
    } else if (r->err.code != ERR_UNPROCESSABLE && r->err.code != ERR_NOT_FOUND) {
        g->err = r->err;
    }
    if (g->pending > 0)
        return;
    if (g->more && g->err.code == ERR_OK)
        next_page(g);
    else
        finish(g);
}

static bool is_wanted(const struct group_change *g, const struct job *job)
{
    return str_eq(job->type, STR(TC_JOB_TYPE)) &&
           (g->priority < 0 || tc_priority_of_job(job->state.priority) != g->priority);
}

/* The change of a group is one, with the first of its tasks. */
static void record(struct tc_call *c)
{
    struct command cmd = {.kind = CMD_RECORD, .trail = c->trail, .done = tc_ignore};
    if (cmd.trail.len)
        backend_submit(c->tc->backend, &cmd);
    c->trail = (struct str){0};
}

static void change(struct group_change *g, const struct job *job)
{
    struct command cmd = {.kind = CMD_CANCEL, .id = job->id, .done = on_changed, .ctx = g};
    if (g->priority >= 0) {
        cmd.kind = CMD_PATCH;
        cmd.patch.id = job->id;
        cmd.patch.patch = &g->patch;
    }
    g->pending++;
    record(g->call);
    backend_submit(g->call->tc->backend, &cmd);
}

static void on_page(void *ctx, const struct reply *r)
{
    struct group_change *g = ctx;
    g->err = r->err;
    g->more = r->err.code == ERR_OK && r->more && r->count;
    for (size_t i = 0; r->err.code == ERR_OK && i < r->count; i++) {
        g->from = (struct id_place){true, r->jobs[i].id};
        if (is_wanted(g, &r->jobs[i]))
            change(g, &r->jobs[i]);
    }
    if (g->pending > 0)
        return;
    if (g->more)
        next_page(g);
    else
        finish(g);
}

static void next_page(struct group_change *g)
{
    struct command cmd = {.kind = CMD_LIST,
                          .list = {.filter = {.group = g->group->id, .statuses = UNENDED},
                                   .from = g->from,
                                   .limit = CHANGES_MAX,
                                   .no_payload = true},
                          .done = on_page,
                          .ctx = g};
    backend_submit(g->call->tc->backend, &cmd);
}

static void change_all(struct tc_call *c, const struct task_group *group, int priority)
{
    struct group_change *g = ARENA_NEW(c->arena, struct group_change);
    g->call = c;
    g->group = group;
    g->priority = priority;
    if (priority >= 0)
        g->patch = (struct patch){.set = PATCH_PRIORITY, .priority = tc_priority_to_job(priority)};
    next_page(g);
}

static void cancel(struct tc_call *c, const struct task_group *g)
{
    if (!authorize(c, g))
        return;
    if (instant_is_set(g->sealed_at))
        change_all(c, g, -1);
    else
        tc_fail(c, TC_REQUEST_CONFLICT, "Cannot cancel unsealed task group: `%.*s`",
                STR_ARG(g->id));
}

void tc_cancel_task_group(struct tc_call *c)
{
    ask(c, CMD_GROUP_READ, cancel);
}

static void reprioritize(struct tc_call *c, const struct task_group *g)
{
    if (authorize(c, g))
        change_all(c, g, tc_body_priority(c));
}

void tc_change_group_priority(struct tc_call *c)
{
    ask(c, CMD_GROUP_READ, reprioritize);
}
