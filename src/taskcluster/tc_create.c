/* SPDX-License-Identifier: Apache-2.0 */

/* createTask: a definition becomes a job. Repeating it with an equal definition is answered as the
 * first time, even if the task could not be created any more: its deadline may have passed, or what
 * it depends on be gone. So whatever depends on the time or on the state of the server is refused
 * only after a look at the task of that id. */

#include "base/array.h"
#include "base/must.h"
#include "taskcluster/tc_handlers.h"
#include "taskcluster/tc_task.h"
#include "wire/json_same.h"

struct creation {
    struct tc_call *call;
    struct str task_id;
    struct tc_definition definition;
    struct str payload; /* of the job */
    struct enqueue spec;
    struct err refused; /* why it cannot be created now */
    bool in_words;      /* they are the answer's, with code */
    enum tc_code code;
};

static struct str priority_text(int priority)
{
    return str_from(tc_priority_name(priority));
}

/* Whoever runs the task gets these scopes: roles must not be widened by a detour over it. */
static struct err check_handed_on(struct tc_call *c, const struct tc_texts *scopes)
{
    const struct scope_set nothing = {0};
    struct scope_set own, all, of_everybody;
    TRY(scope_set_make(scopes->at, scopes->count, c->arena, &own, NULL));
    TRY(access_expand(c->tc->settings.access, &own, c->arena, &all));
    TRY(access_expand(c->tc->settings.access, &nothing, c->arena, &of_everybody));
    for (size_t i = 0; i < all.count; i++)
        if (!scope_set_satisfies(&of_everybody, all.at[i]))
            TRY(rights_scope(c->rights, all.at[i]));
    return err_none();
}

static bool may_hand_on(struct tc_call *c, const struct tc_texts *scopes)
{
    struct err err = c->rights ? check_handed_on(c, scopes) : err_none();
    if (err.code != ERR_OK)
        tc_fail(c, TC_INSUFFICIENT_SCOPES, "%s", err.msg);
    return err.code == ERR_OK;
}

/* Whoever may create tasks of a priority may create those of lower ones. */
static bool authorize(struct tc_call *c, const struct creation *n)
{
    const struct tc_definition *d = &n->definition;
    struct str priorities[TC_PRIORITIES];
    size_t count = (size_t)d->priority + 1;
    for (size_t i = 0; i < count; i++)
        priorities[i] = priority_text((int)i);
    const struct scope_param params[] = {
        {.name = "taskId", .value = n->task_id},
        {.name = "scopes", .list = d->scopes.at, .count = d->scopes.count},
        {.name = "routes", .list = d->routes.at, .count = d->routes.count},
        {.name = "priorities", .list = priorities, .count = count},
        {.name = "schedulerId", .value = d->scheduler_id},
        {.name = "projectId", .value = d->project_id},
        {.name = "taskGroupId", .value = d->task_group_id},
        {.name = "provisionerId", .value = d->provisioner_id},
        {.name = "workerType", .value = d->worker_type},
        {.name = "taskQueueId", .value = d->task_queue_id},
    };
    return tc_authorize(c, params, COUNT(params)) && may_hand_on(c, &d->scopes);
}

/* The credentials of a run have the task's scopes: more of them, or longer ones, than credentials
 * may have would make a task that nobody can report about. */
static struct err check_scopes(const struct tc_texts *scopes)
{
    if (scopes->count > SCOPES_MAX - TC_OWN_SCOPES)
        return err_make(ERR_BAD_VALUE, "task.scopes has %zu scopes, more than the maximum of %d",
                        scopes->count, SCOPES_MAX - TC_OWN_SCOPES);
    for (size_t i = 0; i < scopes->count; i++)
        TRY(scope_check(scopes->at[i]));
    return err_none();
}

/* --- the same task again --- */

/* Larger definitions are equal only byte for byte, as they are when a request is repeated: to look
 * into two of them would hold up the loop. */
#define COMPARED_MAX ((size_t)4 << 20)

static bool is_same(struct str a, struct str b, struct arena *mem)
{
    return str_eq(a, b) || (b.len <= COMPARED_MAX && a.len <= COMPARED_MAX && json_same(a, b, mem));
}

static bool is_same_task(const struct creation *n, const struct tc_task *t, struct arena *mem)
{
    return tc_priority_of_job(t->job.state.priority) == n->definition.priority &&
           is_same(t->job.payload, n->payload, mem);
}

static void compare(struct tc_call *c, const struct tc_task *t)
{
    const struct creation *n = c->state;
    if (is_same_task(n, t, c->arena))
        tc_task_reply(c, t);
    else
        tc_fail(c, TC_REQUEST_CONFLICT,
                "taskId `%.*s` already used by another task.\nThis could be the result of faulty "
                "idempotency!",
                STR_ARG(n->task_id));
}

/* Another task of that id does not matter: this one could not be created under any. */
static void compare_or_refuse(struct tc_call *c, const struct tc_task *t)
{
    const struct creation *n = c->state;
    if (t && is_same_task(n, t, c->arena))
        tc_task_reply(c, t);
    else if (n->in_words)
        tc_fail(c, n->code, "%s", n->refused.msg);
    else
        tc_fail_err(c, &n->refused);
}

static void refuse_by(struct creation *n, const struct err *why)
{
    n->refused = *why;
    tc_task_find(n->call, n->task_id, compare_or_refuse);
}

static void refuse(struct creation *n, enum tc_code code, struct err why)
{
    n->in_words = true;
    n->code = code;
    refuse_by(n, &why);
}

/* --- adding it --- */

static void reply_created(struct tc_call *c, const struct job *job)
{
    struct tc_task t = {.job = *job};
    struct creation *n = c->state;
    t.job.payload = n->payload;
    bool is_task = tc_head_read(&t.job, c->arena, &t.head);
    must(is_task);
    tc_task_reply(c, &t);
}

static void on_enqueued(void *ctx, const struct reply *r)
{
    struct creation *n = ctx;
    struct tc_call *c = n->call;
    const struct tc_definition *d = &n->definition;
    if (r->err.code == ERR_GROUP_SEALED)
        refuse(n, TC_REQUEST_CONFLICT,
               err_make(ERR_GROUP_SEALED,
                        "Task group `%.*s` is sealed and does not accept new tasks.",
                        STR_ARG(d->task_group_id)));
    else if (r->err.code == ERR_CONFLICT)
        refuse(n, TC_REQUEST_CONFLICT,
               err_make(ERR_CONFLICT,
                        "Task group `%.*s` already contains a task with another schedulerId than "
                        "`%.*s`.",
                        STR_ARG(d->task_group_id), STR_ARG(d->scheduler_id)));
    else if (r->err.code != ERR_OK)
        refuse_by(n, &r->err);
    else if (r->enqueued[0].duplicate)
        tc_task_read(c, n->task_id, compare);
    else
        reply_created(c, &r->enqueued[0].job);
}

static void enqueue(struct creation *n)
{
    struct command cmd = {.kind = CMD_ENQUEUE,
                          .enqueue = {.specs = &n->spec, .count = 1},
                          .done = on_enqueued,
                          .ctx = n};
    const struct token *t = n->call->token;
    struct enqueue_quota quota = {.operates = true};
    if (t && token_has_quota(&t->quota)) {
        quota.maker = n->spec.options.maker = token_number(t);
        quota.waiting = t->quota.waiting;
        quota.keys = t->quota.keys;
        cmd.enqueue.quota = &quota;
    }
    backend_submit(n->call->tc->backend, &cmd);
}

/* --- what it waits for --- */

static void on_found(void *ctx, const struct reply *r)
{
    struct creation *n = ctx;
    struct str ids;
    if (r->err.code == ERR_NOT_FOUND) {
        refuse(n, TC_INPUT_ERROR,
               err_make(ERR_NOT_FOUND, "task.dependencies: %s", tc_task_words(n->call, &r->err)));
        return;
    }
    if (r->err.code != ERR_OK) {
        refuse_by(n, &r->err);
        return;
    }
    /* To find them may have taken until after its end: no worker should get it then. */
    instant now = tc_now(n->call->tc);
    if (n->definition.deadline_at.ms <= now.ms) {
        refuse(n, TC_INPUT_ERROR, err_make(ERR_BAD_VALUE, "`deadline` cannot be in the past"));
        return;
    }
    ids = depend_new(n->call->arena, r->count);
    for (size_t i = 0; i < r->count; i++)
        depend_add(&ids, r->ids[i]);
    n->spec.options.depends_on = ids;
    enqueue(n);
}

/* A task that depends on itself waits for scheduleTask. */
static void find_dependencies(struct creation *n)
{
    const struct tc_texts *d = &n->definition.dependencies;
    struct str *others = arena_get(n->call->arena, (d->count + 1) * sizeof *others);
    size_t count = 0;
    for (size_t i = 0; i < d->count; i++) {
        if (str_eq(d->at[i], n->task_id))
            n->spec.options.hold = 1;
        else
            others[count++] = d->at[i];
    }
    if (count == 0) {
        enqueue(n);
        return;
    }
    struct command cmd = {
        .kind = CMD_ALIASES, .aliases = {.at = others, .count = count}, .done = on_found, .ctx = n};
    backend_submit(n->call->tc->backend, &cmd);
}

void tc_create_task(struct tc_call *c)
{
    struct creation *n = ARENA_NEW(c->arena, struct creation);
    struct buf payload = {0};
    n->call = c;
    n->task_id = tc_param(c, "taskId");
    c->state = n;
    struct err err = tc_definition_read(c->body, c->arena, &n->definition);
    if (err.code == ERR_OK)
        err = tc_definition_complete(&n->definition, n->task_id, c->arena);
    if (err.code == ERR_OK)
        err = check_scopes(&n->definition.scopes);
    if (err.code != ERR_OK) {
        tc_fail(c, TC_INPUT_ERROR, "%s", err.msg);
        return;
    }
    if (!authorize(c, n))
        return;
    tc_definition_write(&payload, &n->definition);
    n->payload = arena_copy(c->arena, buf_view(&payload));
    buf_fini(&payload);
    tc_definition_spec(&n->definition, n->task_id, n->payload, &n->spec);
    err = tc_definition_in_time(&n->definition, c->now);
    if (err.code == ERR_OK)
        find_dependencies(n);
    else
        refuse(n, TC_INPUT_ERROR, err);
}
