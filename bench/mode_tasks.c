/* SPDX-License-Identifier: Apache-2.0 */
/* Tasks of Taskcluster's API from end to end. Each connection has a task queue of its own: it
 * creates tasks, claims them with one claimWork, and reports each as completed. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/alloc.h"
#include "base/rng.h"
#include "load.h"
#include "request.h"

#define TASKS_MAX  32 /* of a claimWork */
#define SLUGID_LEN 22

struct tasks {
    struct crew crew;
    const struct load_options *o;
    struct worker *workers;
    struct rng rng;
    struct buf body, request;
    char created[32], deadline[32];
    uint64_t promised; /* tasks that are created, or about to be */
    struct hist create_times, claim_times, report_times;
};

/* One connection. */
struct worker {
    struct peer peer;
    struct tasks *t;
    size_t number, round, left; /* round: tasks of it; left: answers that are missing */
};

static void write_time(char out[32], time_t t)
{
    struct tm tm;
    gmtime_r(&t, &tm);
    strftime(out, 32, "%Y-%m-%dT%H:%M:%S.000Z", &tm);
}

/* A random UUID of version 4, in base64url. */
static void write_slugid(struct tasks *t, char id[SLUGID_LEN + 1])
{
    static const char all[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    for (int i = 0; i < SLUGID_LEN; i++)
        id[i] = all[rng_below(&t->rng, 64)];
    id[8] = "QRST"[rng_below(&t->rng, 4)];
    id[10] = "CGKOSWaeimquy26-"[rng_below(&t->rng, 16)];
    id[21] = "AQgw"[rng_below(&t->rng, 4)];
    id[SLUGID_LEN] = '\0';
}

static void send(struct worker *w, const char *method, const char *path)
{
    struct tasks *t = w->t;
    t->request.len = 0;
    request_write(&t->request, t->o, method, path, buf_view(&t->body));
    crew_request(&w->peer, buf_view(&t->request), t->crew.now);
}

static void create_one(struct worker *w)
{
    struct tasks *t = w->t;
    char id[SLUGID_LEN + 1], path[96];
    write_slugid(t, id);
    snprintf(path, sizeof path, "/api/queue/v1/task/%s", id);
    t->body.len = 0;
    buf_print(&t->body,
              "{\"taskQueueId\":\"bench/load-%zu\",\"schedulerId\":\"bench\",\"created\":\"%s\","
              "\"deadline\":\"%s\",\"payload\":{\"command\":[\"true\"],\"maxRunTime\":600},"
              "\"metadata\":{\"name\":\"bench\",\"description\":\"a task of the bench\","
              "\"owner\":\"bench@example.com\",\"source\":\"https://example.com/\"}}",
              w->number, t->created, t->deadline);
    send(w, "PUT", path);
}

static void on_created(struct peer *p, int status, struct str body, uint64_t started);
static void on_claimed(struct peer *p, int status, struct str body, uint64_t started);
static void on_reported(struct peer *p, int status, struct str body, uint64_t started);

static void begin_round(struct worker *w)
{
    struct tasks *t = w->t;
    uint64_t missing = t->o->jobs - t->promised;
    w->round = w->left = missing < TASKS_MAX ? missing : TASKS_MAX;
    t->promised += w->round;
    w->peer.on_answer = on_created;
    for (size_t i = 0; i < w->round; i++)
        create_one(w);
}

static void on_created(struct peer *p, int status, struct str body, uint64_t started)
{
    struct worker *w = p->owner;
    struct tasks *t = w->t;
    char path[96];
    crew_expect(status, 200, body, "createTask");
    hist_add(&t->create_times, t->crew.now - started);
    if (--w->left)
        return;
    snprintf(path, sizeof path, "/api/queue/v1/claim-work/bench%%2Fload-%zu", w->number);
    t->body.len = 0;
    buf_print(&t->body, "{\"workerGroup\":\"bench\",\"workerId\":\"load-%zu\",\"tasks\":%zu}",
              w->number, w->round);
    w->peer.on_answer = on_claimed;
    send(w, "POST", path);
}

static bool next_task(struct str *rest, struct str *id)
{
    static const char key[] = "\"taskId\":\"";
    const char *at = memmem(rest->at, rest->len, key, sizeof key - 1);
    if (!at)
        return false;
    at += sizeof key - 1;
    *id = (struct str){at, SLUGID_LEN};
    *rest = (struct str){at, rest->len - (size_t)(at - rest->at)};
    return true;
}

static void on_claimed(struct peer *p, int status, struct str body, uint64_t started)
{
    struct worker *w = p->owner;
    struct tasks *t = w->t;
    struct str id;
    char path[96];
    crew_expect(status, 200, body, "claimWork");
    hist_add(&t->claim_times, t->crew.now - started);
    w->peer.on_answer = on_reported;
    for (w->left = 0; next_task(&body, &id); w->left++) {
        snprintf(path, sizeof path, "/api/queue/v1/task/%.*s/runs/0/completed", STR_ARG(id));
        t->body.len = 0;
        buf_lit(&t->body, "{}");
        send(w, "POST", path);
    }
    if (w->left != w->round)
        crew_fail("claimWork gave %zu tasks, not %zu", w->left, w->round);
}

static void on_reported(struct peer *p, int status, struct str body, uint64_t started)
{
    struct worker *w = p->owner;
    struct tasks *t = w->t;
    crew_expect(status, 200, body, "reportCompleted");
    hist_add(&t->report_times, t->crew.now - started);
    t->crew.done++;
    if (--w->left == 0 && t->promised < t->o->jobs)
        begin_round(w);
}

void tasks_run(const struct load_options *o, struct load_line *l)
{
    struct tasks *t = ALLOC(struct tasks);
    time_t now = time(NULL);
    t->o = o;
    t->rng = rng_from_seed((uint64_t)now * 1000003u + crew_clock());
    write_time(t->created, now);
    write_time(t->deadline, now + 3600);
    crew_init(&t->crew, o->timeout * 1000000000u);
    t->crew.asked = o->jobs;
    t->workers = alloc_zero(o->connections * sizeof *t->workers);
    for (size_t i = 0; i < o->connections; i++) {
        t->workers[i] = (struct worker){.t = t, .number = i};
        t->workers[i].peer.owner = &t->workers[i];
        crew_join(&t->crew, &t->workers[i].peer, o->to, TASKS_MAX);
    }
    uint64_t began = t->crew.now = crew_clock();
    for (size_t i = 0; i < o->connections && t->promised < o->jobs; i++) {
        begin_round(&t->workers[i]);
        crew_flush(&t->workers[i].peer);
    }
    while (t->crew.done < o->jobs)
        crew_turn(&t->crew, UINT64_MAX);
    load_pace(l, t->crew.done, t->crew.now - began);
    load_times(l, "create", &t->create_times);
    load_times(l, "claim", &t->claim_times);
    load_times(l, "report", &t->report_times);
    for (size_t i = 0; i < o->connections; i++)
        crew_leave(&t->workers[i].peer);
    free(t->workers);
    buf_fini(&t->body);
    buf_fini(&t->request);
    crew_fini(&t->crew);
    free(t);
}
