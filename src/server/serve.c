/* SPDX-License-Identifier: Apache-2.0 */

/* The server: builds the environment (clock, chance, store), and runs the loop. */

#include "server/serve.h"

#include <limits.h>
#include <malloc.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <uv.h>

#include "api/api.h"
#include "backend/embedded/embedded.h"
#include "base/log.h"
#include "base/must.h"
#include "server/exporter.h"
#include "server/gate.h"
#include "server/identity_report.h"
#include "server/identity_set.h"
#include "server/listener.h"
#include "server/logfile.h"
#include "server/machine.h"
#include "server/notify.h"
#include "server/retry_section.h"
#include "server/rounds.h"
#include "server/settings.h"
#include "server/settings_backend.h"
#include "server/task_api.h"
#include "server/zones.h"
#include "console/console.h"
#include "jq/pool.h"
#include "store/rocks.h"
#include "store/snapshot.h"

/* How long a drain may take before the remaining connections are closed. */
#define DRAIN_MS 10000
/* How often it is tried again to read tokens that could not be read. */
#define UNREAD_MS 500

struct server {
    struct settings settings;
    struct machine_files files;
    uv_loop_t loop;
    uv_async_t wake;     /* by the commit thread: a batch is done */
    uv_poll_t written;   /* likewise, by the kernel */
    uv_check_t after_io; /* a turn of the backend after every round of I/O */
    uv_prepare_t before_poll;
    uv_timer_t due;    /* the next deadline */
    uv_idle_t at_once; /* active while the next turn need not wait for anything */
    uv_timer_t heartbeat;
    uv_timer_t drain_limit;
    uv_timer_t unread; /* while the tokens could not be read */
    struct gate_retry retry;
    uv_signal_t sigterm, sigint, sighup;
    struct rounds rounds;
    instant due_at; /* what the timer is set for */
    bool due_set;
    instant started;
    int64_t started_ticks; /* env_ticks */
    struct store *store;
    struct zones *zones;
    struct pool *jq;
    struct backend *backend;
    struct exporter exporter;
    struct identity_set who;
    struct api *api;
    struct task_api tasks;
    struct router *router;
    struct http_budget *replies; /* of both listeners */
    struct listener primary, admin;
    bool stopping;
    int undrained; /* listeners with connections that have not ended */
    int code;
};

/* --- the environment --- */

static int64_t real_ms(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_REALTIME, &ts);
    return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

static instant env_now(void *ctx)
{
    (void)ctx;
    return (instant){real_ms()};
}

static int64_t env_ticks(void *ctx)
{
    (void)ctx;
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
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

/* --- turns of the loop --- */

static void stop_if_drained(void *ctx)
{
    struct server *s = ctx;
    if (s->stopping && s->undrained == 0 && backend_is_idle(s->backend) &&
        exporter_is_flushed(&s->exporter, stop_if_drained, s))
        uv_stop(&s->loop);
}

static void on_due(uv_timer_t *t);

static void on_at_once(uv_idle_t *i)
{
    (void)i;
}

static void forget_due(struct server *s)
{
    uv_timer_stop(&s->due);
    s->due_set = false;
}

/* If a turn is already due, the next round of I/O does not wait, and the turn follows it. A timer
 * would not work: one of 0 ms that restarts itself runs again and again before any I/O. */
static void set_due(struct server *s)
{
    instant at;
    bool some = backend_next_due(s->backend, &at);
    int64_t wait = some ? at.ms - env_now(s).ms : 1;
    if (wait <= 0)
        uv_idle_start(&s->at_once, on_at_once);
    else
        uv_idle_stop(&s->at_once);
    if (!some || wait <= 0) {
        forget_due(s);
        return;
    }
    if (s->due_set && s->due_at.ms == at.ms)
        return;
    /* At most a second at a time, because the wall clock may be set forward. */
    wait = wait > 1000 ? 1000 : wait;
    uv_update_time(&s->loop);
    uv_timer_start(&s->due, on_due, (uint64_t)wait, 0);
    s->due_at = at;
    s->due_set = true;
}

static void turn(struct server *s)
{
    struct err err = backend_turn(s->backend);
    if (err.code != ERR_OK) {
        /* Nothing may be acknowledged after this point. A restart recovers. */
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
    struct server *s = c->data;
    rounds_next(&s->rounds, &s->loop);
    turn(s);
}

/* Replies that were released early have left (net/conn.h) and nothing else has been read. */
static void on_before_poll(uv_prepare_t *p)
{
    struct server *s = p->data;
    if (s->backend && backend_is_settling(s->backend))
        turn(s);
}

static void on_wake(uv_async_t *w)
{
    turn(w->data);
}

/* A turn follows every round. */
static void on_written(uv_poll_t *p, int status, int events)
{
    (void)p;
    (void)status;
    (void)events;
}

static void on_heartbeat(uv_timer_t *t)
{
    api_heartbeat(((struct server *)t->data)->api);
}

static void on_unread(uv_timer_t *t)
{
    struct server *s = t->data;
    if (!gate_retry(&s->retry, s->api, s->who.tokens, s->settings.root_dir))
        uv_timer_stop(t);
    turn(s);
}

/* --- stopping --- */

static void on_drained(void *ctx)
{
    struct server *s = ctx;
    s->undrained--;
    stop_if_drained(s);
}

static void drain(struct server *s, struct listener *l)
{
    s->undrained++;
    if (!listener_drain(l, on_drained, s))
        s->undrained--;
}

static void on_drain_limit(uv_timer_t *t)
{
    struct server *s = t->data;
    int count = listener_connections(&s->primary) + listener_connections(&s->admin);
    if (count > 0)
        log_warn("%d connections did not end within %d s; closing them", count, DRAIN_MS / 1000);
    else
        log_warn("what is under way did not end within %d s; stopping", DRAIN_MS / 1000);
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
    notify_manager("STOPPING=1");
    backend_stop(s->backend);
    api_stop(s->api);
    task_api_drain(&s->tasks);
    uv_timer_start(&s->drain_limit, on_drain_limit, DRAIN_MS, 0);
    drain(s, &s->primary);
    drain(s, &s->admin);
    turn(s);
}

/* --- reading again --- */

static void start_heartbeat(struct server *s)
{
    uint64_t beat = (uint64_t)s->settings.heartbeat_interval.ms;
    uv_timer_start(&s->heartbeat, on_heartbeat, beat, beat);
}

/* Applies what can change at run time, and reports that the rest cannot. */
static void adopt(struct server *s, const struct settings *fresh)
{
    for (const struct option_def *d = settings_command.options; d->flag; d++) {
        if (!options_differ(d, &s->settings, fresh))
            continue;
        if (d->live)
            options_copy(d, &s->settings, fresh);
        else
            log_warn("SIGHUP: '%s' of %s has changed; that takes effect when the server is started "
                     "again",
                     d->flag, s->settings.config);
    }
    log_set((enum log_level)s->settings.log_level, (enum log_format)s->settings.log_format);
    struct backend_settings backend = settings_backend(&s->settings);
    backend_configure(s->backend, &backend);
    api_set_strict(s->api, s->settings.strict);
    start_heartbeat(s);
}

static void reload_settings(struct server *s)
{
    struct settings fresh;
    struct err err = settings_reload(&fresh);
    if (err.code == ERR_OK) {
        adopt(s, &fresh);
        retry_section_apply(s->backend, s->settings.config, fresh.file.retry, RETRY_SECTION_RELOAD,
                            NULL);
        log_info("SIGHUP: %s has been read again", s->settings.config);
    } else {
        log_error("SIGHUP: nothing has changed: %s", err.msg);
    }
    settings_free(&fresh);
}

static void on_reload(uv_signal_t *h, int number)
{
    (void)number;
    struct server *s = h->data;
    listener_reload(&s->primary, "primary");
    listener_reload(&s->admin, "admin");
    if (s->settings.config && !s->stopping)
        reload_settings(s);
    task_api_reload(&s->tasks, &s->settings);
    if (!s->stopping)
        identity_set_reload(&s->who, &s->settings, s->api);
    if (!s->stopping)
        gate_reload(s->api, s->who.tokens, s->settings.root_dir);
}

/* --- starting --- */

static struct err open_store(struct server *s)
{
    struct rocks_settings rocks = {.dir = s->settings.root_dir,
                                   .cache_bytes = s->settings.cache_size,
                                   .files_max = s->files.store,
                                   .lossy = s->settings.commit_mode == SETTINGS_BUFFERED,
                                   .notify = notify,
                                   .ctx = s};
    TRY(rocks_open(&rocks, &s->store));
    int fd = store_wake_fd(s->store);
    if (fd >= 0) {
        must(uv_poll_init(&s->loop, &s->written, fd) == 0);
        uv_poll_start(&s->written, UV_READABLE, on_written);
    }
    return snapshot_sweep(s->settings.root_dir);
}

static struct err backup(void *ctx, const struct sink *sink)
{
    struct server *s = ctx;
    return snapshot_write(s->store, s->settings.root_dir, (instant){real_ms()}, sink);
}

static struct err compact(void *ctx)
{
    return store_compact(((struct server *)ctx)->store);
}

static void compact_stop(void *ctx)
{
    store_compact_stop(((struct server *)ctx)->store);
}

/* For GET /metrics. */
static void read_machine(void *ctx, struct api_machine *m)
{
    struct server *s = ctx;
    const struct listener *listeners[API_LISTENERS] = {&s->primary, &s->admin};
    for (int i = 0; i < API_LISTENERS; i++)
        listener_stats(listeners[i], &m->listeners[i]);
    machine_read(m);
    rounds_read(&s->rounds, m);
    task_api_read(&s->tasks, m);
    exporter_read(&s->exporter, m);
    m->start_seconds = (double)s->started.ms / 1000;
    m->uptime_seconds = (double)(env_ticks(NULL) - s->started_ticks) / 1e6;
}

static void open_jq(struct server *s)
{
    struct pool_settings jq = pool_defaults();
    jq.processes = (int)s->settings.jq_processes;
    jq.time_limit = s->settings.jq_time_limit;
    jq.memory_limit = s->settings.jq_memory_limit;
    s->jq = pool_new(&s->loop, &jq);
}

static const struct cron_zone *find_zone(void *zones, struct str name)
{
    return zones_find(zones, name);
}

static struct err open_backend(struct server *s)
{
    const struct settings *set = &s->settings;
    struct env env = {.now = env_now,
                      .ticks = env_ticks,
                      .ctx = s,
                      .rng = rng_from_seed(random_seed()),
                      .store = s->store,
                      .zone = find_zone,
                      .zones = s->zones,
                      .tracer = exporter_tracer(&s->exporter),
                      .evaluator = pool_evaluator(s->jq)};
    struct backend_settings settings = settings_backend(set);
    return embedded_new(&settings, &env, &s->backend);
}

static uint64_t reply_bound(void *ctx, const struct http_request *req)
{
    uint64_t bound = task_api_reply_bound(req);
    return bound ? bound : api_reply_bound(((struct server *)ctx)->api, req);
}

static uint64_t gathered(void *ctx)
{
    return api_gathered(((struct server *)ctx)->api);
}

static struct err open_listener(struct server *s, const char *host, int64_t port,
                                const struct settings_tls *tls, http_handler handler,
                                struct listener *out)
{
    const struct settings *set = &s->settings;
    struct http_settings http = http_defaults();
    const struct tls_files files = {tls->cert, tls->key, tls->client_ca};
    http.host = host;
    http.port = (int)port;
    http.allowed_hosts = set->allowed_hosts;
    http.budget = s->replies;
    http.reply_bound = reply_bound;
    http.gathered = gathered;
    http.in_pieces = router_takes_pieces;
    http.page = s->settings.no_console ? NULL : CONSOLE_PATH;
    http.replies_ctx = s;
    http.streams_max = (int)set->max_streams;
    http.body_max = set->max_body;
    bool is_admin = out == &s->admin;
    http.connections_max = (int)(is_admin ? s->files.admin_connections : s->files.connections);
    http.header_timeout = set->header_timeout;
    http.body_timeout = set->body_timeout;
    http.idle_timeout = set->idle_timeout;
    int threads = is_admin ? 1 : listener_threads(set->io_threads);
    return listener_open(out, &s->loop, &files, &http, threads, handler, s->router);
}

/* Two servers on one machine need two ports, and nobody thinks of the admin port: unless it was
 * requested, the server can do without. Any other fault is as bad as it is for the primary
 * listener. */
static struct err open_admin(struct server *s)
{
    const struct settings *set = &s->settings;
    struct err err = open_listener(s, set->admin_host, set->admin_port, &set->admin_tls,
                                   router_handle_admin, &s->admin);
    bool taken = err.code == ERR_IO && !(set->admin_tls.cert && !s->admin.tls);
    if (!taken || set->admin_wanted)
        return err;
    log_warn("no admin listener: %s; --admin-port gives it another port, 0 any free one", err.msg);
    return err_none();
}

static struct err open_listeners(struct server *s)
{
    const struct settings *set = &s->settings;
    s->replies = http_budget_new(set->reply_memory);
    TRY(open_listener(s, set->host, set->port, &set->tls, router_handle, &s->primary));
    return set->no_admin ? err_none() : open_admin(s);
}

/* The primary line last: whoever waits for it then has both. */
static void announce_all(const struct server *s)
{
    listener_announce(&s->admin, s->settings.admin_host, "admin", " (admin)");
    listener_announce(&s->primary, s->settings.host, "primary", "");
    fflush(stdout);
}

static void open_loop(struct server *s)
{
    uv_loop_init(&s->loop);
    rounds_init(&s->rounds, &s->loop);
    uv_async_init(&s->loop, &s->wake, on_wake);
    uv_check_init(&s->loop, &s->after_io);
    uv_prepare_init(&s->loop, &s->before_poll);
    uv_timer_init(&s->loop, &s->due);
    uv_idle_init(&s->loop, &s->at_once);
    uv_timer_init(&s->loop, &s->heartbeat);
    uv_timer_init(&s->loop, &s->drain_limit);
    uv_timer_init(&s->loop, &s->unread);
    s->unread.data = s;
    uv_signal_init(&s->loop, &s->sigterm);
    uv_signal_init(&s->loop, &s->sigint);
    uv_signal_init(&s->loop, &s->sighup);
    s->wake.data = s->after_io.data = s->before_poll.data = s->due.data = s->heartbeat.data = s;
    /* Those that are started later run before it: so do the connections' own. */
    uv_prepare_start(&s->before_poll, on_before_poll);
    s->drain_limit.data = s->sigterm.data = s->sigint.data = s->sighup.data = s;
}

static void start_loop(struct server *s)
{
    uv_check_start(&s->after_io, on_after_io);
    start_heartbeat(s);
    uv_signal_start(&s->sigterm, on_signal, SIGTERM);
    uv_signal_start(&s->sigint, on_signal, SIGINT);
    uv_signal_start(&s->sighup, on_reload, SIGHUP);
}

/* The signals stay caught to the very end: a second SIGTERM in the last moment of an orderly stop
 * must not make it look like a crash. */
static void close_handle(uv_handle_t *h, void *arg)
{
    (void)arg;
    if (h->type == UV_SIGNAL)
        uv_unref(h);
    else if (!uv_is_closing(h))
        uv_close(h, NULL);
}

static void close_all(struct server *s)
{
    listener_close(&s->primary);
    listener_close(&s->admin);
    if (s->api)
        api_stop(s->api);
    task_api_stop(&s->tasks);
    uv_run(&s->loop, UV_RUN_NOWAIT);
    if (s->backend)
        backend_free(s->backend);
    if (s->jq)
        pool_close(s->jq);
    if (s->store && store_wake_fd(s->store) >= 0)
        uv_close((uv_handle_t *)&s->written, NULL); /* before its descriptor is closed */
    if (s->store)
        store_close(s->store);
    identity_set_close(&s->who);
    exporter_close(&s->exporter);
    zones_free(s->zones);
    uv_walk(&s->loop, close_handle, NULL);
    uv_run(&s->loop, UV_RUN_DEFAULT);
    listener_free(&s->primary);
    listener_free(&s->admin);
    http_budget_free(s->replies);
    exporter_free(&s->exporter);
}

/* Before any request can arrive. */
static bool turn_at_start(void *ctx)
{
    struct server *s = ctx;
    turn(s);
    return s->code == 0;
}

static void wait_at_start(void *ctx)
{
    uv_run(&((struct server *)ctx)->loop, UV_RUN_ONCE);
}

/* Done before any request can arrive. */
static void apply_section(struct server *s)
{
    bool busy = false;
    if (s->settings.config)
        retry_section_apply(s->backend, s->settings.config, s->settings.file.retry,
                            RETRY_SECTION_START, &busy);
    while (busy && s->code == 0) {
        turn(s);
        if (busy)
            uv_run(&s->loop, UV_RUN_ONCE);
    }
}

static struct err begin_log(const struct settings *set)
{
    char dir[PATH_MAX];
    struct logfile_settings log = {.dir = set->log_dir,
                                   .rotation = (enum logfile_rotation)set->log_rotation,
                                   .size_max = set->log_max_size,
                                   .files_max = (int)set->log_max_files};
    if (!set->log_dir && !set->log_to_disk)
        return err_none();
    snprintf(dir, sizeof dir, "%s/log", set->root_dir);
    if (!set->log_dir)
        log.dir = dir;
    return logfile_begin(&log);
}

static struct err open_gate(struct server *s)
{
    const struct gate_loop loop = {turn_at_start, wait_at_start, s};
    TRY(gate_open(s->api, s->who.tokens, s->settings.root_dir, &loop));
    if (tokens_unread(s->who.tokens).code != ERR_OK)
        uv_timer_start(&s->unread, on_unread, UNREAD_MS, UNREAD_MS);
    return s->settings.print_access
               ? err_none()
               : gate_check_hosts(s->who.identities, s->who.tokens, &s->settings);
}

static struct err start(struct server *s)
{
    const struct settings *set = &s->settings;
    TRY(begin_log(set));
    settings_tell();
    s->files = machine_share_files(set->max_connections, set->connections_wanted);
    TRY(open_store(s));
    s->zones = zones_new();
    open_jq(s);
    TRY(exporter_open(&s->exporter, &s->loop, random_seed(), set));
    TRY(open_backend(s));
    TRY(identity_set_open(&s->who, &s->loop, env_now, random_seed(), set));
    struct api_settings api = {.strict = s->settings.strict,
                               .body_max = s->settings.max_body,
                               .backup = backup,
                               .backup_ctx = s,
                               .compact = compact,
                               .compact_stop = compact_stop,
                               .loop = &s->loop,
                               .tokens = s->who.tokens,
                               .identities = s->who.identities,
                               .holders = s->who.holders,
                               .admin_loopback = gate_is_loopback(set->admin_host),
                               .now = env_now,
                               .machine = read_machine,
                               .machine_ctx = s};
    s->api = api_new(s->backend, &api);
    s->router = router_new();
    router_mount(s->router, api_front_end(s->api));
    if (!set->no_console)
        router_mount(s->router, console_front_end());
    const struct task_api_env env = {.backend = s->backend,
                                     .tokens = s->who.tokens,
                                     .identities = s->who.identities,
                                     .holders = s->who.holders,
                                     .router = s->router,
                                     .loop = &s->loop,
                                     .now = env_now,
                                     .ctx = s,
                                     .seed = random_seed(),
                                     .loopback =
                                         gate_is_loopback(set->host) &&
                                         (set->no_admin || gate_is_loopback(set->admin_host))};
    TRY(task_api_open(&s->tasks, s->api, set, &env));
    apply_section(s);
    TRY(open_gate(s));
    return set->print_access ? err_none() : open_listeners(s);
}

static void log_start(const struct server *s)
{
    uint64_t counts[STATUS_COUNT], jobs = 0;
    engine_count(embedded_engine(s->backend), (struct str){0}, counts);
    for (int i = 0; i < STATUS_COUNT; i++)
        jobs += counts[i];
    log_info("tenax " TENAX_VERSION " is ready after %lld ms, with %llu jobs in %s%s",
             (long long)(env_ticks(NULL) - s->started_ticks) / 1000, (unsigned long long)jobs,
             s->settings.root_dir,
             s->settings.commit_mode == SETTINGS_FSYNC ? "" : "; commits are buffered");
}

int serve_main(int argc, char **argv)
{
    /* One loop thread and one commit thread: more arenas only scatter memory. Large blocks are
     * allocated and freed with every batch, so they must not go through mmap. */
    mallopt(M_ARENA_MAX, 4);
    mallopt(M_MMAP_THRESHOLD, 64 << 20);
    mallopt(M_TRIM_THRESHOLD, 256 << 20);
    static struct server s; /* the loop's signal handles outlive this call */
    if (!settings_load(argc, argv, &s.settings, &s.code))
        return s.code;
    log_set((enum log_level)s.settings.log_level, (enum log_format)s.settings.log_format);
    s.started.ms = real_ms();
    s.started_ticks = env_ticks(NULL);
    open_loop(&s);
    struct err err = start(&s);
    if (err.code != ERR_OK) {
        fprintf(stderr, "tenax serve: %s\n", err.msg);
        s.code = err.code == ERR_USAGE ? CLI_USAGE : CLI_REFUSED;
    } else if (s.settings.print_access) {
        identity_report(&s.who, &s.settings, (instant){real_ms()});
    } else {
        start_loop(&s);
        log_start(&s);
        announce_all(&s);
        notify_manager("READY=1");
        turn(&s);
        uv_run(&s.loop, UV_RUN_DEFAULT);
    }
    close_all(&s);
    if (err.code == ERR_OK)
        log_info("stopped");
    if (s.api && s.code == 0) {
        api_free(s.api);
        task_api_close(&s.tasks);
    }
    if (s.code == 0)
        identity_set_free(&s.who);
    router_free(s.router);
    settings_free(&s.settings);
    return s.code;
}
