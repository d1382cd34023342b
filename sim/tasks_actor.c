/* SPDX-License-Identifier: Apache-2.0 */

/* What clients of Taskcluster's API ask for, at random. */

#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/must.h"
#include "base/rfc3339.h"
#include "net/query.h"
#include "tasks.h"
#include "trace.h"

#define API       "/api/queue/v1"
#define OPEN_MAX  40
#define URLS_GOOD ((int64_t)2400 * 1000)

static const char *const kinds[ASK_KINDS] = {
    "create",   "claimWork", "claimTask", "reclaim", "report",       "cancel", "rerun",
    "schedule", "priority",  "status",    "pending", "pollTaskUrls", "poll",   "delete"};

/* Both priorities of a queue, and their places among the URLs. */
static const char *const levels[TASK_LEVELS] = {"high", "lowest"};

/* --- asking --- */

static void answered(void *ctx, int status, struct str body)
{
    struct ask *a = ctx;
    list_unlink(&a->node);
    trace_line("%s of task %d: %d, %zu bytes", kinds[a->kind], a->task ? (int)a->task->number : -1,
               status, body.len);
    if (a->left)
        tledger_lost(a);
    else
        tledger_answer(a, status, body);
    free(a);
}

static void ask(struct tworld *w, const struct ask *like, enum http_method method,
                struct str target, struct str body)
{
    struct ask *a = ALLOC(struct ask);
    *a = *like;
    a->w = w;
    a->at = w->now;
    a->turned_at = w->turned_at;
    list_append(&w->asks, &a->node);
    trace_line("asks: %s %.*s %.*s", kinds[a->kind], STR_ARG(target), STR_ARG(body));
    const struct fake_request asked = {.method = method, .target = target, .body = body};
    fake_ask(w->router, &asked, answered, a, &a->x);
}

/* About one task: "/task/<id>" and the rest. */
static void ask_of(struct tworld *w, const struct ask *like, enum http_method method,
                   const char *rest, struct str body)
{
    struct buf target = {0};
    buf_print(&target, API "/task/%s%s", like->task->id, rest);
    ask(w, like, method, buf_view(&target), body);
    buf_fini(&target);
}

static void ask_of_run(struct tworld *w, const struct ask *like, const char *verb, struct str body)
{
    char rest[64];
    snprintf(rest, sizeof rest, "/runs/%u/%s", like->run, verb);
    ask_of(w, like, HTTP_POST, rest, body);
}

/* --- schedulers --- */

static unsigned open_tasks(const struct tworld *w)
{
    unsigned n = 0;
    for (unsigned i = 0; i < w->task_count; i++)
        n += !w->tasks[i].ended.len && !w->tasks[i].never;
    return n;
}

/* A task that was created for sure, of the newest ones; NULL: none. */
static struct ttask *some_task(struct tworld *w)
{
    unsigned from = w->task_count > 60 ? w->task_count - 60 : 0;
    if (w->task_count == 0)
        return NULL;
    struct ttask *t = &w->tasks[from + tasks_draw(w, w->task_count - from)];
    return t->certain ? t : NULL;
}

static void write_time(struct buf *b, const char *name, instant t)
{
    buf_print(b, "\"%s\":\"", name);
    rfc3339_write(b, t);
    buf_lit(b, "\",");
}

static void write_definition(struct tworld *w, struct buf *b, const struct ttask *t)
{
    buf_print(b, "{\"taskQueueId\":\"sim/q%u\",", t->queue);
    write_time(b, "created", w->now);
    write_time(b, "deadline", t->deadline);
    buf_print(b, "\"retries\":%d,\"priority\":\"%s\",", t->retries, levels[t->level]);
    if (t->needs)
        buf_print(b, "\"dependencies\":[\"%s\"],\"requires\":\"%s\",", t->needs->id,
                  t->needs_any ? "all-resolved" : "all-completed");
    buf_lit(b, "\"payload\":{},\"metadata\":{\"name\":\"n\",\"description\":\"d\","
               "\"owner\":\"a@example.com\",\"source\":\"https://example.com\"}}");
}

static void create(struct tworld *w)
{
    if (open_tasks(w) >= OPEN_MAX || w->task_count == TASKS_MAX)
        return;
    struct ttask *needs = tasks_chance(w, 20) ? some_task(w) : NULL;
    struct ttask *t = &w->tasks[w->task_count];
    int64_t life = tasks_chance(w, 20) ? 60 * 1000 : 3 * 3600 * 1000;
    *t = (struct ttask){.number = w->task_count++,
                        .queue = (unsigned)tasks_draw(w, TASK_QUEUES),
                        .level = (unsigned)tasks_draw(w, TASK_LEVELS),
                        .deadline = {w->now.ms + 1000 + (int64_t)tasks_draw(w, (uint64_t)life)},
                        .retries = (int32_t)tasks_draw(w, 4),
                        .needs = needs,
                        .needs_any = tasks_chance(w, 50)};
    snprintf(t->id, sizeof t->id, "%08uS0C0000000000A", t->number);
    struct buf body = {0};
    write_definition(w, &body, t);
    ask_of(w, &(struct ask){.kind = ASK_CREATE, .task = t}, HTTP_PUT, "", buf_view(&body));
    if (tasks_chance(w, 10)) /* because the answer took so long */
        ask_of(w, &(struct ask){.kind = ASK_CREATE, .task = t}, HTTP_PUT, "", buf_view(&body));
    buf_fini(&body);
}

void actor_end(struct tworld *w, struct ttask *t, bool schedule)
{
    if (schedule)
        t->schedule = true;
    else
        t->cancel = true;
    ask_of(w, &(struct ask){.kind = schedule ? ASK_SCHEDULE : ASK_CANCEL, .task = t}, HTTP_POST,
           schedule ? "/schedule" : "/cancel", (struct str){0});
}

static void rerun(struct tworld *w, struct ttask *t)
{
    t->rerun = true;
    t->ended = (struct str){0};
    ask_of(w, &(struct ask){.kind = ASK_RERUN, .task = t}, HTTP_POST, "/rerun", (struct str){0});
}

static void prioritize(struct tworld *w, struct ttask *t)
{
    struct buf body = {0};
    buf_print(&body, "{\"newPriority\":\"%s\"}", levels[tasks_draw(w, TASK_LEVELS)]);
    ask_of(w, &(struct ask){.kind = ASK_PRIORITY, .task = t}, HTTP_POST, "/priority",
           buf_view(&body));
    buf_fini(&body);
}

void actor_status(struct tworld *w, struct ttask *t)
{
    ask_of(w, &(struct ask){.kind = ASK_STATUS, .task = t}, HTTP_GET, "/status", (struct str){0});
}

void actor_pending(struct tworld *w, unsigned queue)
{
    char target[64];
    snprintf(target, sizeof target, API "/pending/sim%%2Fq%u", queue);
    ask(w, &(struct ask){.kind = ASK_PENDING, .queue = queue}, HTTP_GET, str_from(target),
        (struct str){0});
}

/* --- workers --- */

void actor_work(struct tworld *w, unsigned queue, unsigned worker, unsigned count)
{
    char target[64], body[96];
    snprintf(target, sizeof target, API "/claim-work/sim%%2Fq%u", queue);
    snprintf(body, sizeof body, "{\"workerGroup\":\"g\",\"workerId\":\"w%u\",\"tasks\":%u}", worker,
             count);
    ask(w, &(struct ask){.kind = ASK_WORK, .queue = queue, .worker = worker, .count = count},
        HTTP_POST, str_from(target), str_from(body));
}

void actor_claim(struct tworld *w, struct ttask *t, unsigned run, unsigned worker,
                 struct tmessage *m)
{
    char body[64];
    struct ask like = {.kind = ASK_CLAIM, .task = t, .run = run, .worker = worker, .message = m};
    if (run >= TASK_RUNS)
        return;
    like.count = t->runs[run].attempts++;
    snprintf(body, sizeof body, "{\"workerGroup\":\"g\",\"workerId\":\"w%u\"}", worker);
    ask_of_run(w, &like, "claim", str_from(body));
}

void actor_report(struct tworld *w, struct ttask *t, unsigned run, struct str end)
{
    struct ask like = {.kind = ASK_REPORT, .task = t, .run = run, .end = end};
    struct buf body = {0};
    /* What a run was to be first counts; a later word is refused. */
    if (!t->runs[run].report.len)
        t->runs[run].report = end;
    if (str_eq(end, STR("completed")) || str_eq(end, STR("failed"))) {
        ask_of_run(w, &like, str_eq(end, STR("failed")) ? "failed" : "completed", (struct str){0});
        return;
    }
    buf_print(&body, "{\"reason\":\"%.*s\"}", STR_ARG(end));
    ask_of_run(w, &like, "exception", buf_view(&body));
    buf_fini(&body);
}

static struct str some_end(struct tworld *w)
{
    static const char *const ends[] = {"completed",         "completed",
                                       "completed",         "failed",
                                       "worker-shutdown",   "worker-shutdown",
                                       "intermittent-task", "malformed-payload",
                                       "internal-error",    "resource-unavailable",
                                       "superseded"};
    return str_from(ends[tasks_draw(w, COUNT(ends))]);
}

/* Its newest run with a claim that its worker knows of and has not reported; -1: none. */
static int held_run(const struct ttask *t)
{
    for (int i = TASK_RUNS - 1; i >= 0; i--)
        if (t->runs[i].worker)
            return t->runs[i].report.len || t->runs[i].end.len ? -1 : i;
    return -1;
}

/* Reclaims or reports a run that somebody has. */
static void work_on(struct tworld *w, bool report)
{
    for (unsigned tries = 0; tries < 8; tries++) {
        struct ttask *t = some_task(w);
        int run = t ? held_run(t) : -1;
        if (run < 0)
            continue;
        if (report)
            actor_report(w, t, (unsigned)run, some_end(w));
        else
            ask_of_run(w, &(struct ask){.kind = ASK_RECLAIM, .task = t, .run = (unsigned)run},
                       "reclaim", (struct str){0});
        return;
    }
}

/* About a run that is over. */
static void report_late(struct tworld *w)
{
    struct ttask *t = some_task(w);
    for (unsigned i = 0; t && i < TASK_RUNS; i++) {
        if (!t->runs[i].end.len)
            continue;
        actor_report(w, t, i, some_end(w));
        return;
    }
}

/* --- pollers --- */

static void get_urls(struct tworld *w, unsigned queue)
{
    char target[64];
    if (instant_is_set(w->urls_at[queue]) && w->now.ms < w->urls_at[queue].ms + URLS_GOOD)
        return;
    snprintf(target, sizeof target, API "/poll-task-url/sim/q%u", queue);
    ask(w, &(struct ask){.kind = ASK_URLS, .queue = queue}, HTTP_GET, str_from(target),
        (struct str){0});
    PROMISE(instant_is_set(w->urls_at[queue]), "REPLY", "poll URLs are made at once");
}

void actor_poll(struct tworld *w, unsigned box, unsigned count, unsigned seconds)
{
    struct buf target = {0};
    get_urls(w, box / TASK_LEVELS);
    const char *url = w->urls[box][0], *at = strstr(url, "visibilitytimeout=300");
    must(at);
    buf_print(&target, "%.*svisibilitytimeout=%u%s&numofmessages=%u", (int)(at - url), url, seconds,
              at + strlen("visibilitytimeout=300"), count);
    ask(w,
        &(struct ask){
            .kind = ASK_POLL, .box = box, .count = count, .timeout = {(int64_t)seconds * 1000}},
        HTTP_GET, buf_view(&target), (struct str){0});
    buf_fini(&target);
}

/* The signed URL has places for both. */
static void write_delete_url(struct buf *b, const char *url, const struct tmessage *m,
                             const char *receipt)
{
    static const char id[] = "{{messageId}}", pop[] = "{{popReceipt}}";
    const char *one = strstr(url, id), *two = strstr(url, pop);
    must(one && two);
    buf_print(b, "%.*s%s%.*s", (int)(one - url), url, m->id, (int)(two - one) - (int)strlen(id),
              one + strlen(id));
    query_write(b, str_from(receipt));
    buf_str(b, str_from(two + strlen(pop)));
}

static struct tmessage *some_message(struct tworld *w)
{
    unsigned from = w->message_count > 30 ? w->message_count - 30 : 0;
    return w->message_count ? &w->messages[from + tasks_draw(w, w->message_count - from)] : NULL;
}

static void delete (struct tworld *w, struct tmessage *m)
{
    struct ask like = {.kind = ASK_DELETE, .message = m, .given = m->deleted, .task = m->task};
    struct buf target = {0};
    bool old = m->before[0] && tasks_chance(w, 30);
    snprintf(like.receipt, sizeof like.receipt, "%s", old ? m->before : m->receipt);
    like.stale = old;
    get_urls(w, m->box / TASK_LEVELS);
    write_delete_url(&target, w->urls[m->box][1], m, like.receipt);
    if (!old && m->deleted == NOT_DELETED)
        m->deleted = MAYBE_DELETED;
    ask(w, &like, HTTP_DELETE, buf_view(&target), (struct str){0});
    buf_fini(&target);
}

static void handle_message(struct tworld *w, bool claims)
{
    struct tmessage *m = some_message(w);
    if (m && claims)
        actor_claim(w, m->task, m->run, 1 + (unsigned)tasks_draw(w, TASK_WORKERS), m);
    else if (m)
        delete (w, m);
}

/* --- */

static void change(struct tworld *w)
{
    struct ttask *t = some_task(w);
    if (!t)
        return;
    switch (tasks_draw(w, 5)) {
    case 0:
        actor_end(w, t, false);
        break;
    case 1:
        if (t->ended.len)
            rerun(w, t);
        break;
    case 2:
        actor_end(w, t, true);
        break;
    case 3:
        prioritize(w, t);
        break;
    default:
        actor_status(w, t);
    }
}

void actor_step(struct tworld *w)
{
    uint64_t what = tasks_draw(w, 100);
    unsigned worker = 1 + (unsigned)tasks_draw(w, TASK_WORKERS);
    struct ttask *t = some_task(w);
    if (what < 20)
        create(w);
    else if (what < 34)
        actor_work(w, (unsigned)tasks_draw(w, TASK_QUEUES), worker, 1 + (unsigned)tasks_draw(w, 4));
    else if (what < 44)
        actor_poll(w, (unsigned)tasks_draw(w, TASK_QUEUES * TASK_LEVELS),
                   1 + (unsigned)tasks_draw(w, 4), 1 + (unsigned)tasks_draw(w, 300));
    else if (what < 54)
        handle_message(w, true);
    else if (what < 60)
        handle_message(w, false);
    else if (what < 64 && t)
        actor_claim(w, t, (unsigned)tasks_draw(w, 3), worker, NULL);
    else if (what < 72)
        work_on(w, false);
    else if (what < 90)
        work_on(w, true);
    else if (what < 93)
        report_late(w);
    else
        change(w);
}
