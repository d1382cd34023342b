/* SPDX-License-Identifier: Apache-2.0 */

/* How many builds a second the build worker takes from their start message over verification to
 * their end, with a broker, a cluster and Screwdriver's API in this process's memory: its own work,
 * without theirs. And what it keeps in memory for each build that is outstanding, in the wait queue
 * or with a timer.
 *
 *   builds [COUNT]      200,000 */

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/list.h"
#include "base/log.h"
#include "base/must.h"
#include "builds/build_timers.h"
#include "builds/build_worker.h"
#include "client/when.h"

#define TARGET      5000.0
#define WINDOW      40u /* messages in progress: two queues of prefetch 20 */
#define OUTSTANDING 50000u

/* An answer that is due. */
struct call {
    struct list node;
    build_kube_answered *answered;
    build_status_kept *kept;
    void *ctx;
    bool lists;
};

struct message {
    struct build_delivery base;
    struct list node;
};

struct bench {
    struct build_broker broker;
    struct build_kube kube;
    struct build_status status;
    struct list calls, verifies;
    struct build_worker *worker;
    struct kube_pod pod;
    size_t unsettled, done, told;
    bool hold; /* verify messages are not delivered */
};

static struct bench bench;

/* --- parts in memory --- */

static struct call *later(void *ctx)
{
    struct call *c = ALLOC(struct call);
    c->ctx = ctx;
    list_append(&bench.calls, &c->node);
    return c;
}

static void settled(struct build_delivery *d)
{
    bench.unsettled--;
    bench.done += d->channel == BUILD_CHANNEL_READY;
    free((char *)(uintptr_t)d->body.at);
    free(d);
}

static void ack(struct build_broker *b, struct build_delivery *d)
{
    (void)b;
    settled(d);
}

static void fail(struct build_broker *b, struct build_delivery *d, const char *why)
{
    (void)b;
    (void)d;
    fprintf(stderr, "builds: %s\n", why);
    exit(1);
}

static void then(struct build_broker *b, struct build_delivery *d, const struct build_order *o)
{
    struct buf body = {0};
    struct message *m = ALLOC(struct message);
    (void)b;
    build_message_verify(&body, o->config);
    m->base = (struct build_delivery){.channel = BUILD_CHANNEL_READY,
                                      .body = buf_view(&body),
                                      .looks = o->looks,
                                      .started = o->started};
    list_append(&bench.verifies, &m->node);
    settled(d);
}

static void create(struct build_kube *k, struct str build, struct str manifest,
                   build_kube_answered *done, void *ctx)
{
    (void)k;
    (void)build;
    must(manifest.len > 0);
    later(ctx)->answered = done;
}

static void list_pods(struct build_kube *k, struct str build, build_kube_answered *done, void *ctx)
{
    struct call *c = later(ctx);
    (void)k;
    (void)build;
    c->answered = done;
    c->lists = true;
}

static void put(struct build_status *s, const struct build_update *u, build_status_kept *kept,
                void *ctx)
{
    (void)s;
    bench.told += u->hostname.len > 0;
    if (kept)
        later(ctx)->kept = kept;
}

static const struct build_broker_ops broker_ops = {.ack = ack, .retry = fail, .then = then};
static const struct build_kube_ops kube_ops = {.create = create, .list = list_pods};
static const struct build_status_ops status_ops = {.put = put};

static void answer_all(void)
{
    while (!list_is_empty(&bench.calls)) {
        struct call *c = LIST_OF(bench.calls.next, struct call, node);
        struct build_kube_answer a = {.pods = &bench.pod, .count = c->lists ? 1 : 0};
        list_unlink(&c->node);
        if (c->kept)
            c->kept(c->ctx);
        else
            c->answered(c->ctx, &a);
        free(c);
    }
}

/* --- messages --- */

static void deliver(struct build_delivery *d)
{
    bench.unsettled++;
    build_worker_user().delivered(bench.worker, d);
}

/* As the queue service publishes them, the token being most of it. */
static void write_config(struct buf *b, size_t id)
{
    buf_print(b,
              "{\"jobId\":%zu,\"jobName\":\"main\",\"jobState\":"
              "\"ENABLED\",\"jobArchived\":false,\"annotations\":{\"screwdriver.cd/cpu\":\"LOW\","
              "\"screwdriver.cd/ram\":\"HIGH\"},\"blockedBy\":[%zu],\"pipeline\":{\"id\":77,"
              "\"name\":\"org/repo\",\"scmContext\":\"github:github.com\"},\"pipelineId\":77,"
              "\"causeMessage\":\"[skip]\",\"eventId\":%zu,\"buildId\":%zu,\"container\":"
              "\"node:20\",\"apiUri\":\"https://api.example.com\",\"token\":\"",
              id % 1000, id % 1000, id, id);
    for (int i = 0; i < 700; i++)
        buf_byte(b, (char)('a' + (i * 7 + (int)(id % 26)) % 26));
    buf_lit(b, "\"}");
}

static void start(size_t id)
{
    struct buf b = {0};
    struct build_delivery *d = ALLOC(struct build_delivery);
    buf_lit(&b, "{\"job\":\"start\",\"buildConfig\":");
    write_config(&b, id);
    buf_byte(&b, '}');
    *d = (struct build_delivery){.body = buf_view(&b), .started = INSTANT_NONE};
    deliver(d);
}

static void verify_next(void)
{
    struct message *m = LIST_OF(bench.verifies.next, struct message, node);
    struct build_delivery *d = ALLOC(struct build_delivery);
    list_unlink(&m->node);
    *d = m->base;
    free(m);
    deliver(d);
}

static void run(size_t count)
{
    size_t started = 0, end = bench.done + count;
    while (bench.hold ? started < count : bench.done < end) {
        while (bench.unsettled < WINDOW && !bench.hold && !list_is_empty(&bench.verifies))
            verify_next();
        while (bench.unsettled < WINDOW && started < count)
            start(started++);
        answer_all();
    }
}

/* --- the report --- */

static double now_s(void)
{
    struct timespec t;
    must(clock_gettime(CLOCK_MONOTONIC, &t) == 0);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static char *variable(const char *name)
{
    static char yes[] = "true";
    return strcmp(name, "RABBITMQ_RETRYQUEUE_ENABLED") == 0 ? yes : NULL;
}

static void measure(size_t count)
{
    double begun = now_s(), took;
    run(count);
    took = now_s() - begun;
    printf("builds/s, start to end: %.0f (%.1f us each; wanted: %.0f)\n", (double)count / took,
           took / (double)count * 1e6, TARGET);
    must(bench.told == count);
    bench.hold = true;
    run(OUTSTANDING);
    /* What the messages take is the broker's. */
    size_t before = mallinfo2().uordblks, messages = 0;
    while (!list_is_empty(&bench.verifies)) {
        struct message *m = LIST_OF(bench.verifies.next, struct message, node);
        list_unlink(&m->node);
        free((char *)(uintptr_t)m->base.body.at);
        free(m);
        messages++;
    }
    must(messages == OUTSTANDING);
    size_t mine = mallinfo2().uordblks;
    printf(
        "bytes that the worker holds with %u builds outstanding: %zu (%.1f each; the messages in "
        "the broker: %.0f each)\n",
        OUTSTANDING, mine, (double)mine / OUTSTANDING, (double)(before - mine) / OUTSTANDING);
}

/* --- builds whose timer is set, with --verification timer --- */

static void on_timer_kept(void *count)
{
    ++*(size_t *)count;
}

static void measure_timers(void)
{
    char dir[] = "/tmp/tenax-bench-XXXXXX", remove[64];
    struct build_timers *t;
    size_t kept = 0, before = mallinfo2().uordblks;
    must(mkdtemp(dir));
    struct err e = build_timers_new(uv_default_loop(), dir, when_now, NULL, NULL, &t);
    must(e.code == ERR_OK);
    for (size_t id = 0; id < OUTSTANDING; id++) {
        char build[32];
        struct buf config = {0};
        snprintf(build, sizeof build, "%zu", id);
        write_config(&config, id);
        build_timers_set(t,
                         &(struct build_timer){.build = str_from(build),
                                               .at = instant_add(when_now(), (span){300000}),
                                               .length = {300000},
                                               .started = when_now(),
                                               .config = buf_view(&config)},
                         on_timer_kept, &kept);
        buf_fini(&config);
    }
    while (kept < OUTSTANDING)
        uv_run(uv_default_loop(), UV_RUN_ONCE);
    printf("bytes that the worker holds with %u timers set: %.1f each\n", OUTSTANDING,
           (double)(mallinfo2().uordblks - before) / OUTSTANDING);
    build_timers_close(t);
    uv_run(uv_default_loop(), UV_RUN_DEFAULT);
    snprintf(remove, sizeof remove, "rm -r %s", dir);
    must(system(remove) == 0);
}

int main(int argc, char **argv)
{
    struct build_settings settings = {0};
    struct build_worker_settings ws;
    struct build_pod_template *pods;
    size_t count = argc > 1 ? strtoul(argv[1], NULL, 10) : 200000;
    log_set(LOG_ERROR, LOG_TEXT);
    list_init(&bench.calls);
    list_init(&bench.verifies);
    bench.broker.ops = &broker_ops;
    bench.kube.ops = &kube_ops;
    bench.status.ops = &status_ops;
    bench.pod = (struct kube_pod){.phase = KUBE_POD_RUNNING,
                                  .node = STR("node-1"),
                                  .created_at = {1},
                                  .deleted_at = INSTANT_NONE};
    struct err e = build_settings_read(&settings, NULL, variable);
    if (e.code == ERR_OK)
        e = build_pod_template_read(&settings, &pods);
    if (e.code == ERR_OK)
        e = build_worker_settings_make(&settings, pods, &ws);
    if (e.code != ERR_OK || count == 0) {
        fprintf(stderr, "builds: %s\n", count ? e.msg : "usage: builds [COUNT]");
        return 2;
    }
    bench.worker = build_worker_new(NULL, &ws);
    build_worker_attach(bench.worker, &(struct build_worker_ports){.broker = &bench.broker,
                                                                   .kube = &bench.kube,
                                                                   .status = &bench.status});
    measure(count);
    measure_timers();
    build_worker_free(bench.worker);
    build_pod_template_free(pods);
    build_settings_free(&settings);
    return 0;
}
