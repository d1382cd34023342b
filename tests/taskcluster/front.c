/* SPDX-License-Identifier: Apache-2.0 */
#include "front.h"

#include "access/hawk.h"

static instant clock_now(void *ctx)
{
    return ((struct world *)ctx)->now;
}

void front_begin(struct world *w)
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

void front_turn(struct world *w)
{
    assert_int_equal(backend_turn(w->backend).code, ERR_OK);
}

static void close_handle(uv_handle_t *h, void *ctx)
{
    (void)ctx;
    uv_close(h, NULL);
}

void front_end(struct world *w)
{
    for (int i = 0; i < 1000 && !backend_is_idle(w->backend); i++)
        front_turn(w);
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

void front_create(struct world *w, const char *task, const char *queue, fake_answered answered,
                  struct asked *a)
{
    struct buf body = {0};
    *a = (struct asked){.run = -1};
    buf_print(&body, "{\"taskQueueId\":\"p/%s\",\"created\":\"", queue);
    rfc3339_write(&body, w->now);
    buf_lit(&body, "\",\"deadline\":\"");
    rfc3339_write(&body, instant_add(w->now, HOURS));
    buf_lit(&body, "\",\"payload\":{},\"metadata\":{\"name\":\"n\",\"description\":\"d\","
                   "\"owner\":\"a@example.com\",\"source\":\"https://example.com\"}}");
    const struct fake_request asked = {
        .method = HTTP_PUT, .target = str_from(task), .body = buf_view(&body)};
    fake_ask(w->router, &asked, answered, a, &a->x);
    buf_fini(&body);
}

void front_wait_for(struct world *w, const struct asked *a)
{
    for (int i = 0; i < 1000 && !a->status; i++)
        front_turn(w);
    assert_int_equal(a->status, 200);
}
