/* SPDX-License-Identifier: Apache-2.0 */

/* The server: builds the environment (clock, chance, store), and turns the loop. */

#include "cli/serve.h"

#include <arpa/inet.h>
#include <malloc.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <uv.h>

#include "api/api.h"
#include "backend/embedded.h"
#include "base/log.h"
#include "base/must.h"
#include "cli/settings.h"
#include "jq/pool.h"
#include "store/rocks.h"
#include "store/snapshot.h"

/* How long a drain may take before what is left is cut off. */
#define DRAIN_MS 10000

struct server {
    struct settings settings;
    uv_loop_t loop;
    uv_async_t wake;     /* the commit thread: a batch is done */
    uv_check_t after_io; /* a turn of the backend after every round of I/O */
    uv_timer_t due;      /* the next deadline */
    uv_timer_t heartbeat;
    uv_timer_t drain_limit;
    uv_signal_t sigterm, sigint;
    instant due_at; /* what the timer is set for */
    bool due_set;
    instant last_now;
    struct store *store;
    struct pool *jq;
    struct backend *backend;
    struct api *api;
    struct http_server *http;
    bool stopping, drained;
    int code;
};

/* --- the environment --- */

static int64_t real_ms(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_REALTIME, &ts);
    return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

/* The wall clock, but it never goes back: a clock that is set back makes things wait, and
 * does not undo what has happened. */
static instant env_now(void *ctx)
{
    struct server *s = ctx;
    int64_t ms = real_ms();
    if (ms > s->last_now.ms)
        s->last_now.ms = ms;
    return s->last_now;
}

static uint64_t random_seed(void)
{
    uint64_t seed;
    must(getrandom(&seed, sizeof seed, 0) == (ssize_t)sizeof seed);
    return seed;
}

static void notify(void *ctx)
{
    uv_async_send(&((struct server *)ctx)->wake);
}

/* --- turning --- */

static void stop_if_drained(struct server *s)
{
    if (s->stopping && s->drained && embedded_is_idle(s->backend))
        uv_stop(&s->loop);
}

static void on_due(uv_timer_t *t);

static void set_due(struct server *s)
{
    instant at;
    if (!embedded_next_due(s->backend, &at)) {
        uv_timer_stop(&s->due);
        s->due_set = false;
        return;
    }
    if (s->due_set && s->due_at.ms == at.ms)
        return;
    int64_t wait = at.ms - env_now(s).ms;
    /* Not longer than a second at a time, for the wall clock may be set forward. */
    wait = wait < 0 ? 0 : wait > 1000 ? 1000 : wait;
    uv_update_time(&s->loop);
    uv_timer_start(&s->due, on_due, (uint64_t)wait, 0);
    s->due_at = at;
    s->due_set = true;
}

static void turn(struct server *s)
{
    struct err err = embedded_turn(s->backend);
    if (err.code != ERR_OK) {
        /* Nothing after this point may be acknowledged. A restart recovers. */
        log_error("the store failed, stopping: %s", err.msg);
        s->code = 74;
        uv_stop(&s->loop);
        return;
    }
    set_due(s);
    stop_if_drained(s);
}

static void on_due(uv_timer_t *t)
{
    struct server *s = t->data;
    s->due_set = false;
    turn(s);
}

static void on_after_io(uv_check_t *c)
{
    turn(c->data);
}

static void on_wake(uv_async_t *w)
{
    turn(w->data);
}

static void on_heartbeat(uv_timer_t *t)
{
    api_heartbeat(((struct server *)t->data)->api);
}

/* --- stopping --- */

static void on_drained(void *ctx)
{
    struct server *s = ctx;
    s->drained = true;
    stop_if_drained(s);
}

static void on_drain_limit(uv_timer_t *t)
{
    struct server *s = t->data;
    log_warn("%d connections did not end within %d s; closing them",
             http_server_connections(s->http), DRAIN_MS / 1000);
    uv_stop(&s->loop);
}

static void on_signal(uv_signal_t *h, int number)
{
    struct server *s = h->data;
    if (s->stopping) {
        uv_stop(&s->loop);
        return;
    }
    log_info("%s: draining", number == SIGTERM ? "SIGTERM" : "SIGINT");
    s->stopping = true;
    embedded_stop(s->backend);
    api_stop(s->api);
    uv_timer_start(&s->drain_limit, on_drain_limit, DRAIN_MS, 0);
    http_server_drain(s->http, on_drained, s);
    turn(s);
}

/* --- starting --- */

static struct err check_host(const struct settings *s)
{
    struct in_addr v4;
    struct in6_addr v6;
    bool loopback = strcmp(s->host, "localhost") == 0;
    if (inet_pton(AF_INET, s->host, &v4) == 1)
        loopback = (ntohl(v4.s_addr) >> 24) == 127;
    else if (inet_pton(AF_INET6, s->host, &v6) == 1)
        loopback = IN6_IS_ADDR_LOOPBACK(&v6);
    if (loopback || s->insecure)
        return err_none();
    return err_make(ERR_USAGE,
                    "other machines can reach %s, and nothing would check who asks; "
                    "listen on 127.0.0.1, or say --insecure if that is what you want",
                    s->host);
}

static struct err open_store(struct server *s)
{
    struct rocks_settings rocks = {.dir = s->settings.root_dir,
                                   .cache_bytes = s->settings.cache_size,
                                   .notify = notify,
                                   .ctx = s};
    TRY(rocks_open(&rocks, &s->store));
    return snapshot_sweep(s->settings.root_dir);
}

static struct err backup(void *ctx, const struct sink *sink)
{
    struct server *s = ctx;
    return snapshot_write(s->store, s->settings.root_dir, (instant){real_ms()}, sink);
}

static void open_jq(struct server *s)
{
    struct pool_settings jq = pool_defaults();
    jq.processes = (int)s->settings.jq_processes;
    jq.time_limit = s->settings.jq_time_limit;
    jq.memory_limit = s->settings.jq_memory_limit;
    s->jq = pool_new(&s->loop, &jq);
}

static struct err open_backend(struct server *s)
{
    const struct settings *set = &s->settings;
    struct env env = {.now = env_now,
                      .ctx = s,
                      .rng = rng_from_seed(random_seed()),
                      .store = s->store,
                      .evaluator = pool_evaluator(s->jq)};
    struct embedded_settings settings = {
        .engine = {.retry = {.limit = (int32_t)set->retry_limit,
                             .backoff = {CURVE_POWER, set->backoff_base, set->backoff_exponent,
                                         set->backoff_jitter}},
                   .completed_retention = set->retain_completed,
                   .dead_retention = set->retain_dead},
        .sync = set->commit_mode == SETTINGS_FSYNC,
        .min_free_space = set->min_free_space};
    return embedded_new(&settings, &env, &s->backend);
}

static struct err open_http(struct server *s)
{
    const struct settings *set = &s->settings;
    struct http_settings http = http_defaults();
    http.host = set->host;
    http.port = (int)set->port;
    http.body_max = set->max_body;
    http.connections_max = (int)set->max_connections;
    http.header_timeout = set->header_timeout;
    http.body_timeout = set->body_timeout;
    http.idle_timeout = set->idle_timeout;
    return http_server_new(&s->loop, &http, api_handle, s->api, &s->http);
}

static void open_loop(struct server *s)
{
    uv_loop_init(&s->loop);
    uv_async_init(&s->loop, &s->wake, on_wake);
    uv_check_init(&s->loop, &s->after_io);
    uv_timer_init(&s->loop, &s->due);
    uv_timer_init(&s->loop, &s->heartbeat);
    uv_timer_init(&s->loop, &s->drain_limit);
    uv_signal_init(&s->loop, &s->sigterm);
    uv_signal_init(&s->loop, &s->sigint);
    s->wake.data = s->after_io.data = s->due.data = s->heartbeat.data = s;
    s->drain_limit.data = s->sigterm.data = s->sigint.data = s;
}

static void start_loop(struct server *s)
{
    uint64_t beat =
        (uint64_t)(s->settings.heartbeat_interval.ms > 0 ? s->settings.heartbeat_interval.ms
                                                         : 3000);
    uv_check_start(&s->after_io, on_after_io);
    uv_timer_start(&s->heartbeat, on_heartbeat, beat, beat);
    uv_signal_start(&s->sigterm, on_signal, SIGTERM);
    uv_signal_start(&s->sigint, on_signal, SIGINT);
}

static void close_handle(uv_handle_t *h, void *arg)
{
    (void)arg;
    if (!uv_is_closing(h))
        uv_close(h, NULL);
}

static void close_all(struct server *s)
{
    if (s->http)
        http_server_close(s->http);
    if (s->api)
        api_stop(s->api);
    uv_run(&s->loop, UV_RUN_NOWAIT);
    if (s->backend)
        embedded_free(s->backend);
    if (s->jq)
        pool_close(s->jq);
    if (s->store)
        store_close(s->store);
    uv_walk(&s->loop, close_handle, NULL);
    uv_run(&s->loop, UV_RUN_DEFAULT);
    uv_loop_close(&s->loop);
}

static struct err start(struct server *s)
{
    TRY(check_host(&s->settings));
    TRY(open_store(s));
    open_jq(s);
    TRY(open_backend(s));
    struct api_settings api = {
        .strict = s->settings.strict, .backup = backup, .backup_ctx = s, .loop = &s->loop};
    s->api = api_new(s->backend, &api);
    return open_http(s);
}

int serve_main(int argc, char **argv)
{
    /* One loop thread and one commit thread: more arenas only scatter memory. Large
     * blocks come and go with every batch, so they must not go through mmap. */
    mallopt(M_ARENA_MAX, 4);
    mallopt(M_MMAP_THRESHOLD, 64 << 20);
    mallopt(M_TRIM_THRESHOLD, 256 << 20);
    struct server s = {0};
    if (!settings_load(argc, argv, &s.settings, &s.code))
        return s.code;
    log_set((enum log_level)s.settings.log_level, (enum log_format)s.settings.log_format);
    open_loop(&s);
    struct err err = start(&s);
    if (err.code != ERR_OK) {
        fprintf(stderr, "tenax serve: %s\n", err.msg);
        s.code = err.code == ERR_USAGE ? CLI_USAGE : CLI_REFUSED;
    } else {
        start_loop(&s);
        printf("Listening on http://%s%s%s:%d\n", strchr(s.settings.host, ':') ? "[" : "",
               s.settings.host, strchr(s.settings.host, ':') ? "]" : "", http_server_port(s.http));
        fflush(stdout);
        turn(&s);
        uv_run(&s.loop, UV_RUN_DEFAULT);
    }
    close_all(&s);
    if (s.api && s.code == 0)
        api_free(s.api);
    return s.code;
}
