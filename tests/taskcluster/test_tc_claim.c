/* SPDX-License-Identifier: Apache-2.0 */

/* What claimWork answers when the run that it was given is over before the answer is made. */

// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>
// clang-format on

#include <string.h>
#include <uv.h>

#include "access/hawk.h"
#include "backend/embedded/embedded.h"
#include "base/rfc3339.h"
#include "fake_http.h"
#include "store/memory.h"
#include "taskcluster/taskcluster.h"
#include "wire/document.h"

#define TASK  "/api/queue/v1/task/00000001S0C0000000000A"
#define OTHER "/api/queue/v1/task/00000002S0C0000000000A"
#define WORK  "/api/queue/v1/claim-work/p%2Fq"
#define CLAIM ((span){1200 * 1000})
#define HOURS ((span){10 * 3600 * 1000})
#define TURNS 6

struct world {
    instant now;
    struct store *store;
    struct backend *backend;
    struct access *access;
    struct taskcluster *front;
    struct router *router;
    uv_loop_t loop;
};

struct asked {
    struct http_exchange *x;
    const char *worker; /* NULL: it is no claim */
    int status;         /* 0: there is no answer so far */
    int64_t run;        /* that it was given, or -1 */
};

static instant clock_now(void *ctx)
{
    return ((struct world *)ctx)->now;
}

static void begin(struct world *w)
{
    *w = (struct world){.now = {1700000000000}, .store = memory_new()};
    const struct backend_settings backend = {.engine = {.retry = {.limit = 25}},
                                             .sync = true,
                                             .event_retention = {86400 * 1000},
                                             .event_max_bytes = UINT64_MAX / 2};
    const struct env env = {.now = clock_now, .ctx = w, .rng = rng_from_seed(1), .store = w->store};
    assert_int_equal(embedded_new(&backend, &env, &w->backend).code, ERR_OK);
    const struct access_settings access = {.window = HAWK_WINDOW,
                                           .nonces_max = 100,
                                           .issuer = STR("test"),
                                           .issuer_key = STR("a key of at least thirty-two bytes"),
                                           .seed = 1};
    w->access = access_new(&access);
    assert_int_equal(uv_loop_init(&w->loop), 0);
    const struct taskcluster_settings settings = {.claim_timeout = CLAIM,
                                                  .access = w->access,
                                                  .seed = 1,
                                                  .artifact_dir = "/nonexistent/artifacts",
                                                  .loop = &w->loop,
                                                  .now = clock_now,
                                                  .ctx = w};
    assert_int_equal(taskcluster_new(w->backend, &settings, &w->front).code, ERR_OK);
    w->router = router_new();
    for (int i = 0; i < TASKCLUSTER_FRONT_ENDS; i++)
        router_mount(w->router, taskcluster_front_end(w->front, i));
}

static void turn(struct world *w)
{
    assert_int_equal(backend_turn(w->backend).code, ERR_OK);
}

static void close_handle(uv_handle_t *h, void *ctx)
{
    (void)ctx;
    uv_close(h, NULL);
}

static void end(struct world *w)
{
    for (int i = 0; i < 1000 && !backend_is_idle(w->backend); i++)
        turn(w);
    taskcluster_stop(w->front);
    backend_free(w->backend);
    uv_walk(&w->loop, close_handle, NULL);
    uv_run(&w->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&w->loop), 0);
    router_free(w->router);
    taskcluster_free(w->front);
    access_free(w->access);
    store_close(w->store);
}

/* --- asking --- */

/* The only task of an answer to claimWork, or NULL. */
static const struct document_node *only_task(struct str body, struct arena *a)
{
    struct document_list all;
    struct document_fault fault;
    const struct document_node *root;
    assert_true(document_read(body, DOCUMENT_JSON, a, &all, &fault));
    assert_true(document_only(&all, &root, &fault));
    const struct document_node *tasks = document_member(root, "tasks");
    assert_true(tasks->count <= 1);
    return tasks->first;
}

/* Whoever gets a run has it, and no other. */
static void answered(void *ctx, int status, struct str body)
{
    struct asked *a = ctx;
    struct arena arena = {0};
    a->status = status;
    assert_int_equal(status, 200);
    const struct document_node *task = a->worker ? only_task(body, &arena) : NULL;
    if (task) {
        const struct document_node *all = document_member(task, "status");
        const struct document_node *newest = document_member(all, "runs")->last;
        a->run = strtoll(document_member(task, "runId")->text.at, NULL, 10);
        assert_int_equal(strtoll(document_member(newest, "runId")->text.at, NULL, 10), a->run);
        assert_true(str_eq(document_text(newest, "workerId"), str_from(a->worker)));
        assert_true(str_eq(document_text(newest, "state"), STR("running")));
    }
    arena_fini(&arena);
}

static void create(struct world *w, struct asked *a, const char *task, const char *queue)
{
    struct buf body = {0};
    *a = (struct asked){.run = -1};
    buf_print(&body, "{\"taskQueueId\":\"p/%s\",\"created\":\"", queue);
    rfc3339_write(&body, w->now);
    buf_lit(&body, "\",\"deadline\":\"");
    rfc3339_write(&body, instant_add(w->now, HOURS));
    buf_lit(&body, "\",\"payload\":{},\"metadata\":{\"name\":\"n\",\"description\":\"d\","
                   "\"owner\":\"a@example.com\",\"source\":\"https://example.com\"}}");
    fake_ask(w->router, HTTP_PUT, str_from(task), buf_view(&body), answered, a, &a->x);
    buf_fini(&body);
}

static void claim(struct world *w, struct asked *a, const char *worker)
{
    struct buf body = {0};
    *a = (struct asked){.worker = worker, .run = -1};
    buf_print(&body, "{\"workerGroup\":\"g\",\"workerId\":\"%s\",\"tasks\":1}", worker);
    fake_ask(w->router, HTTP_POST, STR(WORK), buf_view(&body), answered, a, &a->x);
    buf_fini(&body);
}

static void wait_for(struct world *w, const struct asked *a)
{
    for (int i = 0; i < 1000 && !a->status; i++)
        turn(w);
    assert_int_equal(a->status, 200);
}

/* --- the test --- */

/* Two workers ask for the next run of a task, some turns apart, and some turns later the claim that
 * has it ends. */
static void two_ask(int apart, int later)
{
    struct world w;
    struct asked task, other, first, second, third;
    begin(&w);
    create(&w, &task, TASK, "q");
    wait_for(&w, &task);
    claim(&w, &first, "w1");
    wait_for(&w, &first);
    assert_int_equal(first.run, 0);
    w.now = instant_add(w.now, CLAIM);
    turn(&w);
    create(&w, &other, OTHER, "other"); /* something to commit, which reads wait for */
    claim(&w, &second, "w2");
    for (int i = 0; i < apart; i++)
        turn(&w);
    claim(&w, &third, "w3");
    for (int i = 0; i < later; i++)
        turn(&w);
    w.now = instant_add(w.now, CLAIM);
    for (int i = 0; i < 1000 && !(second.status && third.status); i++) {
        turn(&w);
        w.now.ms += 100; /* until nobody waits any more */
    }
    assert_int_equal(second.status, 200);
    assert_int_equal(third.status, 200);
    assert_true(second.run != third.run || second.run < 0);
    end(&w);
}

static void nobody_is_given_a_run_that_is_another_workers(void **state)
{
    (void)state;
    for (int apart = 0; apart < TURNS; apart++)
        for (int later = 0; later < TURNS; later++)
            two_ask(apart, later);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nobody_is_given_a_run_that_is_another_workers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
