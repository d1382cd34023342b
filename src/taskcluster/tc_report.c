/* SPDX-License-Identifier: Apache-2.0 */

/* What workers report of a run: reportCompleted, reportFailed, reportException. */

#include "base/must.h"
#include "taskcluster/tc_handlers.h"
#include "taskcluster/tc_task.h"

struct report {
    const char *state, *resolved; /* what the run is to be */
};

/* A report that is repeated, for its answer was lost, is answered as it was. */
static bool was_made(const struct tc_task *t, uint32_t index, const struct report *r)
{
    const char *resolved, *state = tc_run_state(t, index, &resolved);
    bool newest = index + 1 == t->run_count;
    bool retried = index + 2 == tc_task_runs(t) && strcmp(state, "exception") == 0;
    return (newest || retried) && strcmp(state, r->state) == 0 && resolved &&
           strcmp(resolved, r->resolved) == 0;
}

static void after_report(struct tc_call *c, const struct err *err, const struct tc_task *t)
{
    uint32_t index = tc_param_run(c);
    struct str id = t->job.options.alias;
    const struct report *made = c->state;
    if (err->code == ERR_OK || (index < t->run_count && was_made(t, index, made))) {
        if (strcmp(made->state, "completed") != 0 || !tc_index_completed(c, t))
            tc_task_reply(c, t);
    } else if (index >= tc_task_runs(t))
        tc_fail(c, TC_RESOURCE_NOT_FOUND, "Run %u not found on task `%.*s`.", index, STR_ARG(id));
    else if (err->code == ERR_STALE || err->code == ERR_STALE_GANG || err->code == ERR_RUN_LIMIT ||
             err->code == ERR_NOT_IN_FLIGHT)
        tc_fail(c, TC_REQUEST_CONFLICT, "Run %u on task `%.*s` is resolved or not running.", index,
                STR_ARG(id));
    else
        tc_fail_err(c, err);
}

static void submit(struct tc_call *c, const char *state, const char *resolved, struct command *cmd)
{
    struct report *r = ARENA_NEW(c->arena, struct report);
    *r = (struct report){state, resolved};
    c->state = r;
    tc_task_change(c, tc_param(c, "taskId"), cmd, after_report);
}

void tc_report_failed(struct tc_call *c)
{
    struct command cmd = {
        .kind = CMD_FAIL,
        .fail = {.ref = tc_run_ref(c),
                 .failure = {.message = STR("reported as failed"), .run_time = {-1}},
                 .retry_at = INSTANT_NONE,
                 .grace = {0}}};
    submit(c, "failed", "failed", &cmd);
}

/* Very old workers say {"success": false} of a failure. */
static bool says_failure(struct tc_call *c)
{
    struct json_cursor j = json_open(c->body);
    struct json_string key;
    bool more, success;
    if (c->body.len == 0 || json_enter_object(&j).code != ERR_OK)
        return false;
    while (json_next_member(&j, &more, &key).code == ERR_OK && more) {
        struct json_cursor value = j;
        if (str_eq(key.raw, STR("success")) && json_read_bool(&value, &success).code == ERR_OK)
            return !success;
        if (json_skip(&j, NULL).code != ERR_OK)
            return false;
    }
    return false;
}

void tc_report_completed(struct tc_call *c)
{
    struct command cmd = {.kind = CMD_SUCCEED, .run = tc_run_ref(c)};
    if (says_failure(c))
        tc_report_failed(c);
    else
        submit(c, "completed", "completed", &cmd);
}

void tc_report_exception(struct tc_call *c)
{
    struct json_cursor j = json_open(c->body);
    struct json_string raw;
    struct str reason = {0};
    enum outcome exception;
    bool more;
    struct err err = json_enter_object(&j);
    if (err.code == ERR_OK)
        err = json_next_member(&j, &more, &raw);
    if (err.code == ERR_OK)
        err = json_read_string(&j, &raw);
    if (err.code == ERR_OK)
        err = json_text(raw, c->arena, &reason);
    must(err.code == ERR_OK && job_exception_parse(reason, &exception)); /* by the schema */
    struct command cmd = {.kind = CMD_FAIL,
                          .fail = {.ref = tc_run_ref(c),
                                   .failure = {.message = reason, .run_time = {-1}},
                                   .exception = exception,
                                   .retry_at = INSTANT_NONE,
                                   .grace = {0}}};
    submit(c, "exception", job_outcome_name(exception), &cmd);
}
