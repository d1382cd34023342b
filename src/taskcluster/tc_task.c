/* SPDX-License-Identifier: Apache-2.0 */

/* Tasks that are there: read, scheduled, canceled, rerun. */

#include "taskcluster/tc_task.h"

#include "base/array.h"
#include "base/must.h"
#include "base/rfc3339.h"
#include "taskcluster/tc_handlers.h"

/* --- reading and changing one --- */

bool tc_task_of(const struct reply *r, struct arena *a, struct tc_task *t)
{
    t->job = r->jobs[0];
    t->runs = r->runs;
    t->run_count = r->run_count;
    return tc_head_read(&t->job, a, &t->head);
}

/* What is done with a task once it was read; in the arena. */
struct step {
    struct tc_call *call;
    struct str task_id;
    struct err err; /* of the change */
    bool optional;  /* there may be no such task */
    void (*read)(struct tc_call *c, const struct tc_task *t);
    void (*changed)(struct tc_call *c, const struct err *err, const struct tc_task *t);
};

static void on_read(void *ctx, const struct reply *r)
{
    struct step *s = ctx;
    struct tc_call *c = s->call;
    struct tc_task t;
    c->now = tc_now(c->tc);
    bool found = r->err.code == ERR_OK && tc_task_of(r, c->arena, &t);
    bool missing = !found && (r->err.code == ERR_OK || r->err.code == ERR_NOT_FOUND);
    if (missing && s->optional) {
        s->read(c, NULL);
    } else if (missing) {
        tc_fail_no_task(c, s->task_id);
    } else if (r->err.code != ERR_OK) {
        tc_fail_err(c, &r->err);
    } else if (s->read) {
        s->read(c, &t);
    } else {
        s->changed(c, &s->err, &t);
    }
}

static void submit_read(struct step *s)
{
    struct command cmd = {
        .kind = CMD_READ, .alias = s->task_id, .read = {.runs = true}, .done = on_read, .ctx = s};
    backend_submit(s->call->tc->backend, &cmd);
}

static struct step *new_step(struct tc_call *c, struct str task_id)
{
    struct step *s = ARENA_NEW(c->arena, struct step);
    s->call = c;
    s->task_id = task_id;
    return s;
}

void tc_task_read(struct tc_call *c, struct str task_id,
                  void (*then)(struct tc_call *c, const struct tc_task *t))
{
    struct step *s = new_step(c, task_id);
    s->read = then;
    submit_read(s);
}

void tc_task_find(struct tc_call *c, struct str task_id,
                  void (*then)(struct tc_call *c, const struct tc_task *t))
{
    struct step *s = new_step(c, task_id);
    s->read = then;
    s->optional = true;
    submit_read(s);
}

static void on_changed(void *ctx, const struct reply *r)
{
    ((struct step *)ctx)->err = r->err;
}

void tc_task_change(struct tc_call *c, struct str task_id, struct command *cmd,
                    void (*then)(struct tc_call *c, const struct err *err, const struct tc_task *t))
{
    struct step *s = new_step(c, task_id);
    s->changed = then;
    cmd->alias = task_id;
    cmd->trail = c->trail;
    cmd->done = on_changed;
    cmd->ctx = s;
    /* Both are answered after the same turn, in this order. */
    backend_submit(c->tc->backend, cmd);
    submit_read(s);
}

/* --- what handlers have in common --- */

void tc_task_reply(struct tc_call *c, const struct tc_task *t)
{
    struct buf *b = tc_body(c);
    buf_lit(b, "{\"status\":");
    tc_status_write(b, t);
    buf_byte(b, '}');
    tc_reply(c, b);
}

bool tc_task_authorize(struct tc_call *c, const struct tc_task *t)
{
    const struct scope_param params[] = {
        {.name = "taskId", .value = t->job.options.alias},
        {.name = "taskGroupId", .value = t->head.task_group_id},
        {.name = "schedulerId", .value = t->head.scheduler_id},
        {.name = "projectId", .value = t->head.project_id},
        {.name = "taskQueueId", .value = t->head.task_queue_id},
        {.name = "provisionerId", .value = t->head.provisioner_id},
        {.name = "workerType", .value = t->head.worker_type},
    };
    return tc_authorize(c, params, COUNT(params));
}

bool tc_task_in_time(struct tc_call *c, const struct tc_task *t, const char *what)
{
    instant deadline = t->job.options.deadline;
    if (deadline.ms > c->now.ms)
        return true;
    struct buf b = {0};
    rfc3339_write(&b, deadline);
    tc_fail(c, TC_REQUEST_CONFLICT, "Task `%.*s` can't be %s past its deadline of %.*s.",
            STR_ARG(t->job.options.alias), what, STR_ARG(buf_view(&b)));
    buf_fini(&b);
    return false;
}

/* Answers with the task as it is then. The command may have come too late, or had nothing to do:
 * these methods are idempotent. */
static void reply_after(struct tc_call *c, const struct err *err, const struct tc_task *t)
{
    if (err->code == ERR_OK || err->code == ERR_UNPROCESSABLE || err->code == ERR_CONFLICT)
        tc_task_reply(c, t);
    else
        tc_fail_err(c, err);
}

/* --- task, status --- */

static void reply_definition(struct tc_call *c, const struct tc_task *t)
{
    struct buf *b = tc_body(c);
    tc_definition_answer(b, &t->job);
    tc_reply(c, b);
}

void tc_get_task(struct tc_call *c)
{
    tc_task_read(c, tc_param(c, "taskId"), reply_definition);
}

void tc_get_status(struct tc_call *c)
{
    tc_task_read(c, tc_param(c, "taskId"), tc_task_reply);
}

/* --- scheduleTask --- */

static void free_task(struct tc_call *c)
{
    static const struct patch free_it = {.set = PATCH_FREE};
    struct command cmd = {.kind = CMD_PATCH, .patch = {.patch = &free_it}};
    tc_task_change(c, tc_param(c, "taskId"), &cmd, reply_after);
}

static void schedule(struct tc_call *c, const struct tc_task *t)
{
    if (!tc_task_authorize(c, t) || !tc_task_in_time(c, t, "scheduled"))
        return;
    if (t->job.state.status == STATUS_BLOCKED)
        free_task(c);
    else
        tc_task_reply(c, t);
}

void tc_schedule_task(struct tc_call *c)
{
    tc_task_read(c, tc_param(c, "taskId"), schedule);
}

/* --- cancelTask --- */

static void cancel(struct tc_call *c, const struct tc_task *t)
{
    struct command cmd = {.kind = CMD_CANCEL};
    if (!tc_task_authorize(c, t) || !tc_task_in_time(c, t, "canceled"))
        return;
    if (tc_task_is_resolved(t))
        tc_task_reply(c, t);
    else
        tc_task_change(c, tc_param(c, "taskId"), &cmd, reply_after);
}

void tc_cancel_task(struct tc_call *c)
{
    tc_task_read(c, tc_param(c, "taskId"), cancel);
}

/* --- rerunTask --- */

static void rerun(struct tc_call *c, const struct tc_task *t)
{
    /* A new run is made whatever the task waits for, and in one step: between two a crash would
     * leave a task that is unscheduled, but has runs. */
    struct command cmd = {.kind = CMD_RERUN, .rerun = {.completed = true, .freed = true}};
    if (!tc_task_authorize(c, t) || !tc_task_in_time(c, t, "rescheduled"))
        return;
    if (t->job.state.status == STATUS_BLOCKED)
        free_task(c);
    else if (!tc_task_is_resolved(t))
        tc_task_reply(c, t);
    else if (t->run_count >= TC_RUNS_MAX)
        tc_fail(c, TC_REQUEST_CONFLICT, "Maximum number of runs reached (%d).", TC_RUNS_MAX);
    else
        tc_task_change(c, tc_param(c, "taskId"), &cmd, reply_after);
}

void tc_rerun_task(struct tc_call *c)
{
    tc_task_read(c, tc_param(c, "taskId"), rerun);
}

/* --- changeTaskPriority --- */

struct priority_change {
    int to;
};

static void after_priority(struct tc_call *c, const struct err *err, const struct tc_task *t)
{
    if (err->code == ERR_UNPROCESSABLE)
        tc_fail(c, TC_REQUEST_CONFLICT,
                "Task `%.*s` is already resolved and cannot be reprioritized.",
                STR_ARG(t->job.options.alias));
    else
        reply_after(c, err, t);
}

static void change_priority(struct tc_call *c, const struct tc_task *t)
{
    const struct priority_change *p = c->state;
    const struct patch patch = {.set = PATCH_PRIORITY, .priority = tc_priority_to_job(p->to)};
    struct command cmd = {.kind = CMD_PATCH};
    const struct err done = err_make(ERR_UNPROCESSABLE, "it has ended");
    if (!tc_task_authorize(c, t) || !tc_task_in_time(c, t, "reprioritized"))
        return;
    cmd.patch.patch = &patch;
    if (tc_task_is_resolved(t))
        after_priority(c, &done, t);
    else
        tc_task_change(c, tc_param(c, "taskId"), &cmd, after_priority);
}

void tc_change_task_priority(struct tc_call *c)
{
    struct priority_change *p = ARENA_NEW(c->arena, struct priority_change);
    p->to = tc_body_priority(c);
    c->state = p;
    tc_task_read(c, tc_param(c, "taskId"), change_priority);
}

/* The body is {"newPriority": …}, by its schema. */
int tc_body_priority(struct tc_call *c)
{
    struct json_cursor j = json_open(c->body);
    struct json_string raw;
    struct str text = {0};
    bool more;
    int priority;
    struct err err = json_enter_object(&j);
    if (err.code == ERR_OK)
        err = json_next_member(&j, &more, &raw);
    if (err.code == ERR_OK)
        err = json_read_string(&j, &raw);
    if (err.code == ERR_OK)
        err = json_text(raw, c->arena, &text);
    must(err.code == ERR_OK && tc_priority_parse(text, &priority));
    return priority;
}
