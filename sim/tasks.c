/* SPDX-License-Identifier: Apache-2.0 */

/* The world of the simulation of tasks: clock, chance, disk, and the life of the server. */

#include "tasks.h"

#include <stdlib.h>
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/lsan_interface.h>
#endif

#include "access/hawk.h"
#include "base/alloc.h"
#include "base/must.h"
#include "trace.h"

#define TURNS_MAX 2000
#define KEY       STR("a key of at least thirty-two bytes")

uint64_t tasks_draw(struct tworld *w, uint64_t n)
{
    return rng_below(&w->rng, n);
}

bool tasks_chance(struct tworld *w, unsigned percent)
{
    return rng_below(&w->rng, 100) < percent;
}

static instant clock_now(void *ctx)
{
    return ((struct tworld *)ctx)->now;
}

static int64_t clock_ticks(void *ctx)
{
    return ((struct tworld *)ctx)->now.ms * 1000;
}

/* --- the life of the server --- */

static void open_front(struct tworld *w)
{
    const struct access_settings access = {.window = HAWK_WINDOW,
                                           .nonces_max = 100,
                                           .issuer = STR("sim"),
                                           .issuer_key = KEY,
                                           .seed = rng_next(&w->rng)};
    must(uv_loop_init(&w->loop) == 0);
    w->access = access_new(&access);
    const struct taskcluster_settings settings = {.claim_timeout = CLAIM_SPAN,
                                                  .access = w->access,
                                                  .seed = rng_next(&w->rng),
                                                  .artifact_dir = "/nonexistent/artifacts",
                                                  .loop = &w->loop,
                                                  .now = clock_now,
                                                  .ctx = w};
    struct err err = taskcluster_new(w->backend, &settings, &w->front);
    PROMISE(err.code == ERR_OK, "I5", "the front end does not start: %s", err.msg);
    w->router = router_new();
    for (int i = 0; i < TASKCLUSTER_FRONT_ENDS; i++)
        router_mount(w->router, taskcluster_front_end(w->front, i));
}

static void boot(struct tworld *w)
{
    const struct env env = {.now = clock_now,
                            .ticks = clock_ticks,
                            .ctx = w,
                            .rng = rng_from_seed(rng_next(&w->rng)),
                            .store = w->disk};
    struct err err = embedded_new(&w->settings, &env, &w->backend);
    PROMISE(err.code == ERR_OK, "I2", "recovery failed: %s", err.msg);
    open_front(w);
    w->up_since = w->now;
    w->turned_at = (instant){0}; /* it has not looked at what is due */
    for (unsigned i = 0; i < TASK_QUEUES; i++)
        w->urls_at[i] = INSTANT_NONE;
}

static void close_handle(uv_handle_t *h, void *ctx)
{
    (void)ctx;
    uv_close(h, NULL);
}

/* Nobody hears of anything any more. */
static void down(struct tworld *w)
{
    taskcluster_stop(w->front);
    backend_free(w->backend);
    while (!list_is_empty(&w->asks)) {
        struct ask *a = LIST_OF(w->asks.next, struct ask, node);
        list_unlink(&a->node);
        tledger_lost(a);
        fake_forget(a->x);
        free(a);
    }
    uv_walk(&w->loop, close_handle, NULL);
    uv_run(&w->loop, UV_RUN_DEFAULT);
    must(uv_loop_close(&w->loop) == 0);
    router_free(w->router);
    taskcluster_free(w->front);
    access_free(w->access);
}

static void crash(struct tworld *w)
{
    bool apply = tasks_chance(w, 50), lose = tasks_chance(w, 50);
    trace_line("crash, batch under way %s, unsynced %s", apply ? "applied" : "dropped",
               lose ? "lost" : "kept");
    disk_crash(w->disk, apply, lose);
    w->holding = false;
    down(w);
    if (tasks_chance(w, 40))
        w->now.ms += (int64_t)tasks_draw(w, tasks_chance(w, 70) ? 30000 : 3600 * 1000);
    boot(w);
}

/* --- turns and time --- */

void tasks_turn(struct tworld *w)
{
    uint64_t failed = disk_failed(w->disk);
    w->turned_at = w->now;
    struct err err = backend_turn(w->backend);
    if (err.code != ERR_OK) {
        PROMISE(w->faults && err.code == ERR_STORE, "I5", "a turn failed: %s", err.msg);
        crash(w);
    } else if (disk_failed(w->disk) != failed) {
        w->up_since = w->now;
    }
}

/* A loop with something to do does not sleep. */
static void work_off(struct tworld *w)
{
    for (unsigned n = 0; n < 10 && !w->holding && !backend_is_idle(w->backend); n++)
        tasks_turn(w);
}

void tasks_pass(struct tworld *w, span d)
{
    instant until = instant_add(w->now, d), at;
    work_off(w);
    for (unsigned stuck = 0; stuck < 20 && backend_next_due(w->backend, &at);) {
        if (at.ms > until.ms)
            break;
        stuck = at.ms > w->now.ms ? 0 : stuck + 1;
        w->now = instant_max(w->now, at);
        tasks_turn(w);
        work_off(w);
    }
    w->now = instant_max(w->now, until);
    trace_line("now %ld", (long)w->now.ms);
    tasks_turn(w);
}

static void hold(struct tworld *w, bool on)
{
    w->holding = on;
    disk_set_faults(w->disk, (struct memory_faults){.hold = on});
    if (on)
        return;
    disk_release(w->disk);
    w->up_since = w->now;
}

static void leave(struct tworld *w)
{
    for (struct list *node = w->asks.next, *next; node != &w->asks; node = next) {
        next = node->next;
        struct ask *a = LIST_OF(node, struct ask, node);
        if (a->kind == ASK_WORK && !a->left) {
            a->left = true;
            fake_leave(a->x);
            return; /* the list may be another now */
        }
    }
}

void tasks_settle(struct tworld *w)
{
    hold(w, false);
    for (unsigned n = 0; !list_is_empty(&w->asks) || !backend_is_idle(w->backend); n++) {
        PROMISE(n < TURNS_MAX, "REPLY", "a request is never answered");
        tasks_turn(w);
        if (n > 20)
            leave(w);
        if (n > 100)
            w->now.ms += 100; /* the store is opened again after a while */
    }
}

/* --- the simulation --- */

/* What a process has in memory when it crashes nobody frees, here as elsewhere. */
static void ignore_leaks(bool on)
{
#ifdef __SANITIZE_ADDRESS__
    if (on)
        __lsan_disable();
    else
        __lsan_enable();
#else
    (void)on;
#endif
}

static void begin(struct tworld *w, uint64_t seed)
{
    *w =
        (struct tworld){.seed = seed, .rng = rng_from_seed(seed ^ 0x7a5c5), .now = {1700000000000}};
    w->faults = tasks_chance(w, 60);
    w->holds = tasks_chance(w, 50);
    w->tasks = alloc_zero(TASKS_MAX * sizeof *w->tasks);
    w->messages = alloc_zero(MESSAGES_MAX * sizeof *w->messages);
    w->settings = (struct backend_settings){
        .engine = {.retry = {.limit = 25, .backoff = {.shape = CURVE_POWER, .base = {15000}}},
                   .completed_retention = {0},
                   .retries_share = 50,
                   .hand_out_max = tasks_chance(w, 60) ? 0 : 1 + (uint32_t)tasks_draw(w, 8)},
        .depend_slice = tasks_chance(w, 50) ? 0 : 1 + (uint32_t)tasks_draw(w, 4),
        .sync = true,
        .event_retention = {86400 * 1000},
        .event_max_bytes = UINT64_MAX / 2,
        .clock_jump_limit = {INT64_C(86400) * 1000 * 365}};
    list_init(&w->asks);
    w->disk = disk_new(seed, true);
    boot(w);
}

static void end(struct tworld *w)
{
    down(w);
    store_close(w->disk);
    fake_free_all();
    strmap_fini(&w->by_message);
    arena_fini(&w->arena);
    free(w->tasks);
    free(w->messages);
}

static void fail_a_commit(struct tworld *w)
{
    struct memory_faults f = {.hold = w->holding,
                              .fail = tasks_chance(w, 75) ? ERR_DISK_FULL : ERR_STORE,
                              .fail_but_keep = tasks_chance(w, 50)};
    trace_line("the next commit fails: %s, kept %d", err_wire(f.fail), f.fail_but_keep);
    disk_set_faults(w->disk, f);
}

static void disturb(struct tworld *w)
{
    if (w->holds && !w->holding && tasks_chance(w, 8))
        hold(w, true);
    else if (w->holding && tasks_chance(w, 30))
        hold(w, false);
    if (w->faults && tasks_chance(w, 2))
        fail_a_commit(w);
    if (w->faults && tasks_chance(w, 2))
        crash(w);
}

static span some_time(struct tworld *w)
{
    static const int64_t most[] = {100, 5000, 100 * 1000, 900 * 1000, 2000 * 1000};
    uint64_t kind = tasks_draw(w, 100);
    unsigned i = kind < 50 ? 0 : kind < 80 ? 1 : kind < 92 ? 2 : kind < 98 ? 3 : 4;
    return (span){(int64_t)tasks_draw(w, (uint64_t)most[i])};
}

uint64_t tasks_simulate(uint64_t seed, uint64_t steps, bool print)
{
    struct tworld w;
    ignore_leaks(true);
    trace_begin(seed, print);
    begin(&w, seed);
    for (uint64_t step = 1; step <= steps; step++) {
        trace_step(step);
        actor_step(&w);
        if (tasks_chance(&w, 60))
            tasks_turn(&w);
        disturb(&w);
        if (tasks_chance(&w, 40))
            tasks_pass(&w, some_time(&w));
        if (tasks_chance(&w, 1))
            tledger_audit(&w);
    }
    trace_step(steps + 1);
    tledger_audit(&w);
    tledger_finish(&w);
    end(&w);
    ignore_leaks(false);
    return trace_hash();
}
