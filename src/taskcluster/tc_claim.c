/* SPDX-License-Identifier: Apache-2.0 */

/* How workers get tasks and keep them: claimWork, claimTask, reclaimTask. */

#include "base/array.h"
#include "base/log.h"
#include "base/must.h"
#include "base/rfc3339.h"
#include "taskcluster/tc_claim.h"
#include "taskcluster/tc_artifact.h"
#include "taskcluster/tc_handlers.h"
#include "taskcluster/tc_lost.h"
#include "taskcluster/tc_worker.h"
#include "wire/field.h"

/* How long claimWork waits for work. */
#define WAIT_MS   20000
#define TASKS_MAX 32

/* --- what a claim answers --- */

static struct str worker_name(struct str group, struct str id, struct arena *a)
{
    char *at = arena_get(a, group.len + id.len + 1);
    memcpy(at, group.at, group.len);
    at[group.len] = '/';
    memcpy(at + group.len + 1, id.at, id.len);
    return (struct str){at, group.len + id.len + 1};
}

static struct str run_scope(const char *what, const struct tc_claimed *k, struct arena *a)
{
    struct buf b = {0};
    buf_print(&b, "queue:%s:%.*s/%u", what, STR_ARG(k->task->job.options.alias), k->run);
    struct str s = arena_copy(a, buf_view(&b));
    buf_fini(&b);
    return s;
}

/* The scopes of a task are those that its definition has; it was checked when it was created. */
static size_t task_scopes(const struct tc_task *t, struct arena *a, const struct str **scopes)
{
    struct tc_definition d;
    struct err err = tc_definition_read(t->job.payload, a, &d);
    *scopes = d.scopes.at;
    return err.code == ERR_OK ? d.scopes.count : 0;
}

static void write_credentials(struct buf *b, struct tc_call *c, const struct tc_claimed *k)
{
    const struct str *of_task;
    size_t count = task_scopes(k->task, c->arena, &of_task);
    struct str *scopes = arena_get(c->arena, (count + TC_OWN_SCOPES) * sizeof *scopes);
    struct credentials cred;
    struct buf id = {0};
    /* The server's time may be ahead of the clock; credentials are for the clock's. */
    instant until = instant_min(k->taken_until, instant_add(c->now, c->tc->settings.claim_timeout));
    scopes[0] = run_scope("reclaim-task", k, c->arena);
    scopes[1] = run_scope("resolve-task", k, c->arena);
    scopes[2] = run_scope("create-artifact", k, c->arena);
    if (count)
        memcpy(scopes + TC_OWN_SCOPES, of_task, count * sizeof *scopes);
    buf_print(&id, "task-client/%.*s/%u/on/%.*s/%.*s/until/%lld.%03lld",
              STR_ARG(k->task->job.options.alias), k->run, STR_ARG(k->group), STR_ARG(k->id),
              (long long)(k->taken_until.ms / 1000), (long long)(k->taken_until.ms % 1000));
    access_issue(c->tc->settings.access, buf_view(&id), c->now, until, scopes,
                 count + TC_OWN_SCOPES, c->arena, &cred);
    buf_lit(b, "{\"clientId\":");
    json_write_string(b, cred.client_id);
    KEY(b, "accessToken");
    json_write_string(b, cred.access_token);
    KEY(b, "certificate");
    json_write_string(b, cred.certificate);
    buf_byte(b, '}');
    buf_fini(&id);
}

void tc_claimed_write(struct buf *b, struct tc_call *c, const struct tc_claimed *k, bool definition)
{
    buf_lit(b, "{\"status\":");
    tc_status_write(b, k->task);
    INT_MEMBER(b, "runId", k->run);
    KEY(b, "workerGroup");
    json_write_string(b, k->group);
    KEY(b, "workerId");
    json_write_string(b, k->id);
    buf_lit(b, ",\"takenUntil\":\"");
    rfc3339_write(b, k->taken_until);
    buf_byte(b, '"');
    if (definition) {
        KEY(b, "task");
        tc_definition_answer(b, &k->task->job);
    }
    KEY(b, "credentials");
    write_credentials(b, c, k);
    buf_byte(b, '}');
}

/* --- the body of claimWork and claimTask --- */

struct claim_body {
    struct str group, id, worker; /* worker: both, as the engine knows it */
    int32_t tasks;
};

static const struct field body_fields[] = {
    {"workerGroup", true, field_text, offsetof(struct claim_body, group), false, NULL},
    {"workerId", true, field_text, offsetof(struct claim_body, id), false, NULL},
    {"tasks", false, field_i32, offsetof(struct claim_body, tasks), false, NULL},
};

static void read_body(struct tc_call *c, struct claim_body *body)
{
    struct json_cursor j = json_open(c->body);
    *body = (struct claim_body){.tasks = 1};
    struct err err = field_read_object(true, &j, c->arena, body_fields, COUNT(body_fields), body);
    must(err.code == ERR_OK); /* by the schema */
    body->worker = worker_name(body->group, body->id, c->arena);
}

/* --- claimWork --- */

struct work {
    struct tc_call *call;
    struct claim_body body;
    struct str queue;
    struct tc_recent recent[TASKS_MAX]; /* what it was given */
    struct backend_claim *claim;        /* NULL: it is over */
    struct list node;                   /* in taskcluster.waiting iff claim */
    struct tc_handed *lost;             /* what it was given before, and never got; or NULL */
    struct tc_handed *handed;           /* what this answer gives; NULL: nothing yet */
    bool gone;
    struct buf answer; /* the tasks that are written so far */
    size_t written, expected;
};

static void finish(struct work *w)
{
    buf_lit(&w->answer, "]}");
    if (w->written) {
        tc_handed_watch(w->handed, w->call->x);
        tc_worker_claimed(w->call->tc, w->queue, w->body.group, w->body.id, w->recent, w->written);
    }
    struct buf answer = w->answer; /* w goes with its exchange */
    tc_reply(w->call, &answer);
    buf_fini(&answer);
}

static void add(struct work *w, const struct tc_task *t, uint32_t run, instant lease_end)
{
    const struct tc_claimed k = {t, run, w->body.group, w->body.id, lease_end};
    struct tc_recent *recent = &w->recent[w->written];
    *recent = (struct tc_recent){arena_copy(w->call->arena, t->job.options.alias), run};
    if (!w->handed)
        w->handed = tc_handed_new(w->call->tc, w->queue, w->body.group, w->body.id);
    tc_handed_add(w->handed, (struct tc_handed_run){recent->task_id, run, lease_end});
    if (w->written++)
        buf_byte(&w->answer, ',');
    tc_claimed_write(&w->answer, w->call, &k, true);
}

/* A run that it was given, of a task with earlier ones, which are part of its status. */
struct reading {
    struct work *work;
    uint32_t run;
};

/* Meanwhile its claim may have ended, and the newest run be another worker's. */
static void on_runs(void *ctx, const struct reply *r)
{
    const struct reading *k = ctx;
    struct work *w = k->work;
    struct tc_task t;
    w->expected--;
    if (r->err.code == ERR_OK && tc_task_of(r, w->call->arena, &t) && t.run_count) {
        const struct run *last = &t.runs[t.run_count - 1];
        if (last->index == k->run && last->outcome == OUTCOME_RUNNING)
            add(w, &t, k->run, r->lease_end);
    }
    if (w->expected == 0)
        finish(w);
}

static void read_runs(struct work *w, const struct handout *h)
{
    struct reading *k = ARENA_NEW(w->call->arena, struct reading);
    *k = (struct reading){w, h->run};
    struct command cmd = {
        .kind = CMD_READ, .read = {.id = h->job.id, .runs = true}, .done = on_runs, .ctx = k};
    w->expected++;
    backend_submit(w->call->tc->backend, &cmd);
}

static void give_back(struct taskcluster *tc, const struct reply *r)
{
    for (size_t i = 0; i < r->count; i++) {
        struct command cmd = {.kind = CMD_RELEASE,
                              .run = {.id = r->handouts[i].job.id, .token = r->handouts[i].token},
                              .done = tc_ignore};
        backend_submit(tc->backend, &cmd);
    }
}

static void note_holder(struct tc_call *c, const struct handout *h)
{
    if (c->tc->settings.holders)
        holders_note(c->tc->settings.holders, h->job.id, c->token, h->run, h->token);
}

/* A job that says it is a task, but whose payload is no definition of one of this queue. To give it
 * back would be to get it again, for ever: it ends with the reason why nobody can run it. */
static void end_unreadable(struct taskcluster *tc, const struct handout *h)
{
    struct command cmd = {
        .kind = CMD_FAIL,
        .fail = {.ref = {.id = h->job.id, .token = h->token},
                 .failure = {.message = STR("its type is that of tasks, but its payload is not the "
                                            "definition of a task of this queue"),
                             .run_time = {-1}},
                 .exception = OUTCOME_MALFORMED_PAYLOAD,
                 .kill = true,
                 .retry_at = INSTANT_NONE},
        .done = tc_ignore};
    log_warn("taskcluster: a job of queue %.*s has the type of tasks, but is none: it is dead",
             STR_ARG(h->job.queue));
    backend_submit(tc->backend, &cmd);
}

static void take_over(struct work *w, const struct handout *h)
{
    struct tc_task t = {.job = h->job};
    const struct run first = {.worker = w->body.worker,
                              .ready_at = h->job.state.ready_at,
                              .taken_at = h->job.state.dequeued_at,
                              .lease_end = h->lease_end,
                              .ended_at = INSTANT_NONE,
                              .retry_at = INSTANT_NONE};
    if (!tc_head_read(&t.job, w->call->arena, &t.head)) {
        end_unreadable(w->call->tc, h);
        return;
    }
    note_holder(w->call, h);
    if (h->run > 0) {
        read_runs(w, h);
        return;
    }
    t.runs = &first;
    t.run_count = 1;
    add(w, &t, 0, h->lease_end);
}

static void on_claimed(void *ctx, const struct reply *r)
{
    struct work *w = ctx;
    struct tc_call *c = w->call;
    w->claim = NULL;
    list_unlink(&w->node);
    http_on_gone(c->x, NULL, NULL);
    c->now = tc_now(c->tc);
    if (r->err.code != ERR_OK) {
        tc_fail_err(c, &r->err);
        return;
    }
    buf_lit(&w->answer, "{\"tasks\":[");
    /* Who does not read gets no tasks, nor who meanwhile may not have them any more. */
    if (w->gone || http_is_overloaded(c->x) || (c->token && !token_is_live(c->token, c->now)))
        give_back(c->tc, r);
    else
        for (size_t i = 0; i < r->count; i++)
            take_over(w, &r->handouts[i]);
    if (w->expected == 0)
        finish(w);
}

static void on_gone(void *ctx)
{
    struct work *w = ctx;
    w->gone = true;
    if (w->claim)
        backend_claim_cancel(w->call->tc->backend, w->claim);
}

void tc_claim_end_waiting(struct taskcluster *t, struct str queue, struct str group, struct str id)
{
    for (struct list *at = t->waiting.next, *next; at != &t->waiting; at = next) {
        struct work *w = LIST_OF(at, struct work, node);
        next = at->next;
        if (str_eq(w->queue, queue) && str_eq(w->body.group, group) && str_eq(w->body.id, id))
            backend_claim_cancel(t->backend, w->claim);
    }
}

static bool may_claim_work(struct tc_call *c, const struct claim_body *body)
{
    const struct scope_param params[] = {
        {.name = "taskQueueId", .value = tc_param(c, "taskQueueId")},
        {.name = "workerGroup", .value = body->group},
        {.name = "workerId", .value = body->id},
    };
    return tc_authorize(c, params, COUNT(params));
}

static void wait_for_tasks(struct tc_call *c)
{
    struct work *w = c->state;
    const struct claim_spec spec = {.queues = &w->queue,
                                    .queue_count = 1,
                                    .count = (uint32_t)w->body.tasks,
                                    .worker = w->body.worker,
                                    .kind = KIND_TASK,
                                    .lease = c->tc->settings.claim_timeout,
                                    .wait = {WAIT_MS},
                                    .done = on_claimed,
                                    .ctx = w};
    w->claim = backend_claim(c->tc->backend, &spec);
    list_append(&c->tc->waiting, &w->node);
    http_on_gone(c->x, on_gone, w);
}

/* --- claimWork, again --- */

/* A run that the worker was given by an answer that was lost. */
struct again {
    struct work *work;
    const struct tc_handed_run *was;
};

static void give_again(struct work *w);

static bool is_unused(const struct tc_call *c, const struct tc_task *t,
                      const struct tc_handed_run *was, struct str worker)
{
    const struct run *last = t->run_count ? &t->runs[t->run_count - 1] : NULL;
    return last && last->index == was->run && last->outcome == OUTCOME_RUNNING &&
           str_eq(last->worker, worker) && last->lease_end.ms == was->lease_end.ms &&
           was->lease_end.ms > c->now.ms && (!tc_must_hold(c) || tc_holds(c, t->job.id, was->run));
}

/* Nobody has used the run: it goes to the worker a second time. */
static void on_given_before(void *ctx, const struct reply *r)
{
    const struct again *g = ctx;
    struct work *w = g->work;
    struct tc_task t;
    bool read = r->err.code == ERR_OK && tc_task_of(r, w->call->arena, &t);
    if (read && is_unused(w->call, &t, g->was, w->body.worker))
        add(w, &t, g->was->run, g->was->lease_end);
    give_again(w);
}

static void on_artifacts(void *ctx, const struct reply *r)
{
    const struct again *g = ctx;
    struct command cmd = {.kind = CMD_READ,
                          .alias = g->was->task_id,
                          .read = {.runs = true},
                          .done = on_given_before,
                          .ctx = ctx};
    if (r->err.code == ERR_OK && r->count == 0)
        backend_submit(g->work->call->tc->backend, &cmd);
    else
        give_again(g->work);
}

static void look_for_artifacts(struct work *w, const struct tc_handed_run *was)
{
    struct tc_call *c = w->call;
    struct again *g = ARENA_NEW(c->arena, struct again);
    *g = (struct again){w, was};
    struct command cmd = {.kind = CMD_KV_LIST,
                          .kv = {.space = STR(TC_ARTIFACTS), .prefix = true, .limit = 1},
                          .done = on_artifacts,
                          .ctx = g};
    struct err err =
        tc_artifact_key(was->task_id, was->run, (struct str){0}, c->arena, &cmd.kv.key);
    must(err.code == ERR_OK);
    backend_submit(c->tc->backend, &cmd);
}

static void give_again(struct work *w)
{
    struct tc_call *c = w->call;
    bool enough = w->written == (size_t)w->body.tasks;
    const struct tc_handed_run *was = enough ? NULL : tc_handed_next(w->lost);
    if (was) {
        look_for_artifacts(w, was);
        return;
    }
    tc_lost_give_back(w->lost);
    w->lost = NULL;
    if (!w->written) {
        buf_fini(&w->answer);
        wait_for_tasks(c);
        return;
    }
    log_info("taskcluster: worker %.*s asks again and gets %zu tasks again: the answer that gave "
             "them to it was lost",
             STR_ARG(w->body.worker), w->written);
    finish(w);
}

static void claim_work(struct tc_call *c, struct tc_worker *worker)
{
    struct work *w = c->state;
    bool quarantined = tc_worker_is_quarantined(worker, c->now);
    tc_worker_seen(c, worker);
    if (quarantined) {
        tc_reply_later(c, STR("{\"tasks\":[]}"), (span){WAIT_MS});
        return;
    }
    w->lost = tc_lost_take(c->tc, w->queue, w->body.group, w->body.id);
    if (!w->lost) {
        wait_for_tasks(c);
        return;
    }
    buf_lit(&w->answer, "{\"tasks\":[");
    give_again(w);
}

void tc_claim_work(struct tc_call *c)
{
    struct work *w = ARENA_NEW(c->arena, struct work);
    w->call = c;
    w->queue = tc_param(c, "taskQueueId");
    c->state = w;
    read_body(c, &w->body);
    if (may_claim_work(c, &w->body))
        tc_worker_load(c, w->queue, w->body.group, w->body.id, claim_work);
}

/* --- claimTask --- */

struct claiming {
    struct claim_body body;
    struct id job;
    instant lease_end;
};

static void reply_claimed(struct tc_call *c, const struct tc_task *t)
{
    const struct claiming *k = c->state;
    const struct tc_recent recent = {t->job.options.alias, tc_param_run(c)};
    const struct tc_claimed claimed = {t, tc_param_run(c), k->body.group, k->body.id, k->lease_end};
    struct buf *b = tc_body(c);
    tc_worker_claimed(c->tc, t->head.task_queue_id, k->body.group, k->body.id, &recent, 1);
    tc_claimed_write(b, c, &claimed, true);
    tc_reply(c, b);
}

static void on_task_claimed(void *ctx, const struct reply *r)
{
    struct tc_call *c = ctx;
    struct claiming *k = c->state;
    struct str id = tc_param(c, "taskId");
    switch (r->err.code) {
    case ERR_OK:
        if (r->repeated && tc_must_hold(c) && !tc_holds(c, k->job, r->handouts[0].run)) {
            tc_fail(c, TC_REQUEST_CONFLICT, "Run %u of task `%.*s` is held by another worker.",
                    tc_param_run(c), STR_ARG(id));
            break;
        }
        note_holder(c, &r->handouts[0]);
        k->lease_end = r->handouts[0].lease_end;
        tc_task_read(c, id, reply_claimed);
        break;
    case ERR_CONFLICT:
    case ERR_UNPROCESSABLE:
    case ERR_STALE:
        tc_fail(c, TC_REQUEST_CONFLICT, "Run %u of task `%.*s` cannot be claimed: %s.",
                tc_param_run(c), STR_ARG(id), tc_task_words(c, &r->err));
        break;
    default:
        tc_fail_err(c, &r->err);
    }
}

static bool may_claim_task(struct tc_call *c, const struct tc_task *t)
{
    const struct claiming *k = c->state;
    const struct scope_param params[] = {
        {.name = "provisionerId", .value = t->head.provisioner_id},
        {.name = "workerType", .value = t->head.worker_type},
        {.name = "workerGroup", .value = k->body.group},
        {.name = "workerId", .value = k->body.id},
    };
    return tc_authorize(c, params, COUNT(params));
}

static void claim_unless_quarantined(struct tc_call *c, struct tc_worker *worker);

static void claim(struct tc_call *c, const struct tc_task *t)
{
    struct claiming *k = c->state;
    if (!may_claim_task(c, t) || !tc_task_in_time(c, t, "claimed"))
        return;
    if (tc_param_run(c) >= tc_task_runs(t)) {
        tc_fail(c, TC_RESOURCE_NOT_FOUND, "Run %u not found on task `%.*s`.", tc_param_run(c),
                STR_ARG(t->job.options.alias));
        return;
    }
    k->job = t->job.id;
    tc_worker_load(c, arena_copy(c->arena, t->head.task_queue_id), k->body.group, k->body.id,
                   claim_unless_quarantined);
}

static void claim_unless_quarantined(struct tc_call *c, struct tc_worker *worker)
{
    const struct claiming *k = c->state;
    bool quarantined = tc_worker_is_quarantined(worker, c->now);
    tc_worker_seen(c, worker);
    if (quarantined) {
        tc_reply_empty(c);
        return;
    }
    struct command cmd = {.kind = CMD_CLAIM_JOB,
                          .claim_job = {.id = k->job,
                                        .run = tc_param_run(c),
                                        .worker = k->body.worker,
                                        .lease = c->tc->settings.claim_timeout},
                          .done = on_task_claimed,
                          .ctx = c};
    backend_submit(c->tc->backend, &cmd);
}

void tc_claim_task(struct tc_call *c)
{
    struct claiming *k = ARENA_NEW(c->arena, struct claiming);
    read_body(c, &k->body);
    c->state = k;
    tc_task_read(c, tc_param(c, "taskId"), claim);
}

/* --- reclaimTask --- */

static void after_renewal(struct tc_call *c, const struct err *err, const struct tc_task *t)
{
    uint32_t index = tc_param_run(c);
    struct str id = t->job.options.alias;
    if (index >= tc_task_runs(t)) {
        tc_fail(c, TC_RESOURCE_NOT_FOUND, "Run %u not found on task `%.*s`.", index, STR_ARG(id));
        return;
    }
    if (!tc_task_in_time(c, t, "reclaimed"))
        return;
    if (err->code == ERR_STALE || err->code == ERR_STALE_GANG || err->code == ERR_RUN_LIMIT ||
        err->code == ERR_NOT_IN_FLIGHT) {
        tc_fail(c, TC_REQUEST_CONFLICT, "Run %u on task `%.*s` is resolved or not running.", index,
                STR_ARG(id));
        return;
    }
    if (err->code != ERR_OK) { /* the disk is full: the claim is still good */
        tc_fail_err(c, err);
        return;
    }
    struct tc_claimed k = {.task = t, .run = index};
    tc_worker_split(t->runs[index].worker, &k.group, &k.id);
    k.taken_until = t->runs[index].lease_end;
    struct buf *b = tc_body(c);
    tc_claimed_write(b, c, &k, false);
    tc_reply(c, b);
}

void tc_reclaim_task(struct tc_call *c)
{
    struct command cmd = {.kind = CMD_RENEW,
                          .renew = {.run = tc_run_ref(c), .lease = c->tc->settings.claim_timeout}};
    tc_task_change(c, tc_param(c, "taskId"), &cmd, after_renewal);
}
