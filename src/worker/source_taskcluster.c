/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/source_taskcluster.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/must.h"
#include "base/rfc3339.h"
#include "client/view.h"
#include "client/when.h"
#include "worker/azure_messages.h"
#include "worker/poll_urls.h"

#define TASKS_MAX     32
#define CALL_TIMEOUT  ((span){15000})
#define CLAIM_TIMEOUT ((span){45000}) /* claimWork answers after 20 s, if there is nothing */
#define LEASE_MIN_MS  1000

/* What the run is held by. */
struct held {
    struct hawk_credentials by;
    struct buf text; /* what they are in */
};

struct seat {
    struct source_taskcluster *owner;
    struct taskqueue_request request;
    const struct source_job *job;
    bool renews;
};

struct source_taskcluster {
    struct source source;
    const struct source_taskcluster_args *args;
    struct taskqueue *queue;
    struct taskqueue_request claim;
    struct poll_urls_args poll_args;
    struct poll_urls poll;
    struct buf tasks; /* the answer: a JSON array */
    struct view_list jobs;
    struct seat *seats;
};

static struct source_taskcluster *tasks_of(struct source *s)
{
    return (struct source_taskcluster *)s;
}

/* --- claims --- */

static void claimed(struct source_taskcluster *t, enum call_result r, struct str why)
{
    t->source.claiming = false;
    t->jobs = view_list(r == CALL_DONE ? buf_view(&t->tasks) : STR("[]"));
    const struct source_answer a = {.result = r, .why = why};
    t->source.user->claimed(t->source.ctx, &a);
}

static void on_work(void *ctx, enum call_result r, struct call *answer)
{
    struct source_taskcluster *t = ctx;
    struct buf why = {0};
    t->tasks.len = 0;
    if (r == CALL_DONE)
        buf_str(&t->tasks, view_get(buf_view(&answer->answer), "tasks"));
    else
        call_explain(answer, &why);
    claimed(t, r, buf_view(&why));
    buf_fini(&why);
}

static void on_polled(void *ctx, enum call_result r, struct str tasks, struct str why)
{
    struct source_taskcluster *t = ctx;
    t->tasks.len = 0;
    buf_byte(&t->tasks, '[');
    if (tasks.len)
        buf_str(&t->tasks, (struct str){tasks.at, tasks.len - 1});
    buf_byte(&t->tasks, ']');
    claimed(t, r, why);
}

static void claim(struct source *s, const struct source_claim *c)
{
    struct source_taskcluster *t = tasks_of(s);
    struct buf path = {0}, body = {0};
    must(!s->claiming);
    s->claiming = true;
    if (t->args->poll_urls) {
        poll_urls_begin(&t->poll, c->count < TASKS_MAX ? c->count : TASKS_MAX, c->wait);
        return;
    }
    buf_lit(&path, "/api/queue/v1/claim-work/");
    taskqueue_encode(&path, str_from(t->args->task_queue));
    buf_byte(&path, '\0');
    buf_print(&body, "{\"workerGroup\":\"%s\",\"workerId\":\"%s\",\"tasks\":%zu}",
              t->args->worker_group, t->args->worker_id,
              c->count < TASKS_MAX ? c->count : (size_t)TASKS_MAX);
    taskqueue_start(t->queue, &t->claim,
                    &(struct taskqueue_ask){.method = "POST",
                                            .path = path.at,
                                            .body = buf_view(&body),
                                            .by = t->args->own,
                                            .timeout = CLAIM_TIMEOUT,
                                            .done = on_work,
                                            .ctx = t});
    buf_fini(&path);
    buf_fini(&body);
}

static void claim_abort(struct source *s)
{
    struct source_taskcluster *t = tasks_of(s);
    taskqueue_abort(&t->claim);
    poll_urls_abort(&t->poll); /* hands over what was claimed */
    s->claiming = false;
}

/* claimWork cannot be asked to answer early. */
static void withdraw(struct source *s, span patience)
{
    struct source_taskcluster *t = tasks_of(s);
    (void)patience;
    if (t->args->poll_urls)
        poll_urls_withdraw(&t->poll);
    else
        claim_abort(s);
}

/* --- jobs --- */

static void free_held(void *what)
{
    struct held *h = what;
    buf_fini(&h->text);
}

/* Takes over the credentials of a claim; the old ones stay if there are none that can be used. */
static bool take_credentials(struct held *h, struct str claim)
{
    struct arena a = {0};
    struct str c = view_get(claim, "credentials");
    struct str parts[3] = {view_text(&a, c, "clientId"), view_text(&a, c, "accessToken"),
                           view_text(&a, c, "certificate")};
    struct hawk_credentials by = {parts[0], parts[1], parts[2]};
    bool good = !hawk_client_bad(&by);
    if (good) {
        h->text.len = 0;
        for (size_t i = 0; i < 3; i++)
            buf_str(&h->text, parts[i]);
        const char *at = h->text.at;
        h->by = (struct hawk_credentials){
            .client_id = {at, parts[0].len},
            .access_token = {at + parts[0].len, parts[1].len},
            .certificate = {at + parts[0].len + parts[1].len, parts[2].len}};
    }
    arena_fini(&a);
    return good;
}

/* How long the claim still holds. */
static span lease_of(const struct source_taskcluster *t, struct str claim)
{
    instant until;
    struct arena a = {0};
    bool said = rfc3339_parse(view_text(&a, claim, "takenUntil"), &until);
    arena_fini(&a);
    if (!said)
        return (span){LEASE_MIN_MS};
    span d = instant_diff(until, taskqueue_now(t->queue));
    return d.ms < LEASE_MIN_MS ? (span){LEASE_MIN_MS} : d;
}

static enum source_next next(struct source *s, struct arena *a, struct source_job *j)
{
    struct source_taskcluster *t = tasks_of(s);
    struct str claim;
    if (!view_next(&t->jobs, &claim))
        return SOURCE_NONE;
    claim = arena_copy(a, claim);
    struct str task = view_get(claim, "task");
    struct held *h = ARENA_NEW(a, struct held);
    arena_defer(a, free_held, h);
    *j = (struct source_job){.id = view_text(a, view_get(claim, "status"), "taskId"),
                             .queue = str_from(t->args->task_queue),
                             .type = view_text(a, view_get(task, "metadata"), "name"),
                             .payload = task,
                             .lease = lease_of(t, claim),
                             .held = h};
    bool run = view_int(claim, "runId", &j->run) && j->run >= 0;
    j->attempts = j->run;
    return azure_is_slugid(j->id) && run && task.len && take_credentials(h, claim) ? SOURCE_JOB
                                                                                   : SOURCE_BAD;
}

const struct hawk_credentials *source_taskcluster_credentials(const struct source_job *job)
{
    return &((struct held *)job->held)->by;
}

/* --- renewals and reports --- */

static void on_seat(void *ctx, enum call_result r, struct call *answer)
{
    struct seat *seat = ctx;
    struct source_taskcluster *t = seat->owner;
    struct buf why = {0};
    struct source_answer a = {.result = r, .sent = answer->sent, .body = buf_view(&answer->answer)};
    if (r != CALL_DONE)
        call_explain(answer, &why);
    a.why = buf_view(&why);
    if (r == CALL_DONE && seat->renews) {
        take_credentials(seat->job->held, a.body);
        a.lease = lease_of(t, a.body);
    }
    t->source.user->answered(t->source.ctx, (size_t)(seat - t->seats), &a);
    buf_fini(&why);
}

static void ask(struct source *s, size_t seat, const struct source_job *job, const char *verb,
                struct str body)
{
    struct source_taskcluster *t = tasks_of(s);
    struct buf path = {0};
    t->seats[seat].job = job;
    taskqueue_start(t->queue, &t->seats[seat].request,
                    &(struct taskqueue_ask){
                        .method = "POST",
                        .path = taskqueue_run_path(&path, job->id, job->run, verb),
                        .body = body,
                        .by = source_taskcluster_credentials(job),
                        .timeout = CALL_TIMEOUT,
                        .done = on_seat,
                        .ctx = &t->seats[seat],
                    });
    buf_fini(&path);
}

static void renew(struct source *s, size_t seat, const struct source_job *job, span lease,
                  struct str news)
{
    (void)lease;
    (void)news;
    tasks_of(s)->seats[seat].renews = true;
    ask(s, seat, job, "/reclaim", STR(""));
}

/* The reason of an exception among the members of a report; empty if there is none. */
static struct str exception_of(struct str members, struct arena *a)
{
    struct buf body = {0};
    if (!members.len)
        return (struct str){0};
    buf_print(&body, "{%.*s}", (int)members.len - 1, members.at + 1);
    struct str reason = view_text(a, buf_view(&body), "exception");
    reason = arena_copy(a, reason);
    buf_fini(&body);
    return reason;
}

static void report(struct source *s, size_t seat, const struct source_job *job,
                   enum source_report what, struct str members)
{
    struct arena a = {0};
    struct buf body = {0};
    struct str reason = what == SOURCE_FAILURE   ? exception_of(members, &a)
                        : what == SOURCE_RELEASE ? STR("worker-shutdown")
                                                 : STR("");
    tasks_of(s)->seats[seat].renews = false;
    if (reason.len)
        buf_print(&body, "{\"reason\":\"%.*s\"}", STR_ARG(reason));
    ask(s, seat, job,
        reason.len               ? "/exception"
        : what == SOURCE_SUCCESS ? "/completed"
                                 : "/failed",
        buf_view(&body));
    buf_fini(&body);
    arena_fini(&a);
}

static void abort_seat(struct source *s, size_t seat)
{
    taskqueue_abort(&tasks_of(s)->seats[seat].request);
}

/* --- the loop's part --- */

static bool poll_answers(struct source *s)
{
    return taskqueue_poll(tasks_of(s)->queue);
}

static void wait_for(struct source *s, const struct pollfd *fds, size_t count, int ms)
{
    taskqueue_wait(tasks_of(s)->queue, fds, count, ms);
}

static void tasks_free(struct source *s)
{
    struct source_taskcluster *t = tasks_of(s);
    for (size_t i = 0; i < t->args->seats; i++)
        taskqueue_abort(&t->seats[i].request);
    taskqueue_abort(&t->claim);
    poll_urls_fini(&t->poll);
    buf_fini(&t->tasks);
    free(t->seats);
    free(t);
}

struct source *source_taskcluster_new(const struct source_taskcluster_args *args,
                                      struct taskqueue *queue)
{
    static const struct source_vt vt = {.claim = claim,
                                        .next = next,
                                        .withdraw = withdraw,
                                        .claim_abort = claim_abort,
                                        .renew = renew,
                                        .report = report,
                                        .abort = abort_seat,
                                        .poll = poll_answers,
                                        .wait = wait_for,
                                        .free = tasks_free};
    struct source_taskcluster *t = ALLOC(struct source_taskcluster);
    *t = (struct source_taskcluster){
        .source = {.vt = &vt, .name = args->root_url},
        .args = args,
        .queue = queue,
        .poll_args = {args->task_queue, args->worker_group, args->worker_id, args->own},
        .seats = alloc_zero(args->seats * sizeof(struct seat))};
    poll_urls_init(&t->poll, &t->poll_args, queue);
    t->poll.done = on_polled;
    t->poll.ctx = t;
    for (size_t i = 0; i < args->seats; i++)
        t->seats[i].owner = t;
    return &t->source;
}
