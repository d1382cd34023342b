/* SPDX-License-Identifier: Apache-2.0 */

/* The server: builds the environment (clock, chance, store) and all that answers. */

#include "server/serve.h"

#include <limits.h>
#include <malloc.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "base/log.h"
#include "base/must.h"
#include "net/body_memory.h"
#include "server/greeting.h"
#include "server/identity_report.h"
#include "server/landing.h"
#include "server/logfile.h"
#include "server/notify.h"
#include "server/serve_internal.h"
#include "server/retry_section.h"
#include "server/settings_backend.h"
#include "server/zones.h"
#include "console/console.h"
#include "jq/pool.h"
#include "store/history_mark.h"
#include "store/rocks.h"
#include "store/rocks_foreign.h"
#include "store/snapshot.h"

/* --- the environment --- */

static int64_t real_ms(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_REALTIME, &ts);
    return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

instant serve_now(void *ctx)
{
    (void)ctx;
    return (instant){real_ms()};
}

static int64_t env_ticks(void *ctx)
{
    (void)ctx;
    struct timespec ts;
    /* Unlike CLOCK_MONOTONIC it goes on while the machine sleeps. */
    clock_gettime(CLOCK_BOOTTIME, &ts);
    return (int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

/* A number for the time since the machine was started; 0: it is not known. */
static uint64_t machine_boot(void)
{
    char text[64] = "";
    uint64_t number = 0;
    FILE *f = fopen("/proc/sys/kernel/random/boot_id", "re");
    if (!f)
        return 0;
    if (fgets(text, sizeof text, f))
        for (const char *c = text; *c; c++)
            number = number * 31 + (unsigned char)*c;
    fclose(f);
    return number;
}

/* Several servers are judged by one clock. */
static instant postgres_now(const struct server *s)
{
    span ahead;
    if (!s->cluster || !cluster_clock_ahead(s->cluster, &ahead))
        return (instant){0};
    return instant_add(serve_now(NULL), ahead);
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

/* --- starting --- */

/* Of several servers each may be the first to go on after lost commits were accepted, whoever
 * accepted them: PostgreSQL says that to all of them alike. */
static struct err read_history(struct server *s)
{
    struct rocks_foreign_state copy;
    if (!s->cluster)
        return history_mark_read(s->settings.root_dir, &s->event_history);
    rocks_foreign_state(s->store, &copy);
    s->event_history = copy.acceptance;
    return err_none();
}

static struct err open_store(struct server *s)
{
    bool buffered = s->settings.commit_mode == SETTINGS_BUFFERED;
    struct rocks_settings rocks = {.dir = s->settings.root_dir,
                                   .cache_bytes = s->settings.cache_size,
                                   .files_max = s->files.store,
                                   .lossy = buffered &&
                                            s->settings.enqueue_commit_mode == SETTINGS_BUFFERED,
                                   .unsynced = buffered,
                                   .notify = notify,
                                   .ctx = s};
    /* Once: this process may be the next one of a server that was told so. */
    struct rocks_foreign foreign = {.accept_loss = s->settings.accept_lost_commits &&
                                                   !handover_happened(&s->handover),
                                    .works = cluster_works};
    if (s->cluster) {
        foreign.log = (struct log_postgres_settings){.pg = *cluster_postgres(s->cluster),
                                                     .epoch = cluster_epoch(s->cluster),
                                                     .owned_until = cluster_owned_until,
                                                     .connections = cluster_connections,
                                                     .logs_by = cluster_logs_by,
                                                     .ctx = s->cluster};
        rocks.foreign = &foreign;
    }
    TRY(rocks_open(&rocks, &s->store));
    TRY(read_history(s));
    int fd = store_wake_fd(s->store);
    if (fd >= 0) {
        must(uv_poll_init(&s->loop, &s->written, fd) == 0);
        serve_watch_writes(s);
    }
    return snapshot_sweep(s->settings.root_dir);
}

bool serve_is_to_beat(struct server *s)
{
    return s->cluster &&
           cluster_turned(s->cluster, store_number(s->store), rocks_foreign_is_full(s->store));
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

static void read_cluster(void *ctx, struct api_cluster *out)
{
    struct server *s = ctx;
    struct rocks_foreign_state copy;
    struct inbox_state inbox = {0};
    cluster_read(s->cluster, out);
    rocks_foreign_state(s->store, &copy);
    if (s->inbox)
        inbox_state(s->inbox, &inbox);
    out->seq = copy.seq;
    out->flushed = copy.flushed;
    out->flush_lag = copy.lag;
    out->log_bytes = copy.log_bytes;
    out->inbox_taken = inbox.taken;
    out->inbox_refused = inbox.refused;
}

/* For GET /metrics. */
static void read_machine(void *ctx, struct api_machine *m)
{
    struct server *s = ctx;
    const struct listener *listeners[API_LISTENERS] = {&s->primary, &s->admin};
    for (int i = 0; i < API_LISTENERS; i++)
        listener_stats(listeners[i], &m->listeners[i]);
    m->request_memory = s->bodies ? body_memory_held(s->bodies) : 0;
    machine_read(m);
    rounds_read(&s->rounds, m);
    task_api_read(&s->tasks, m);
    exporter_read(&s->exporter, m);
    m->start_seconds = (double)s->started.ms / 1000;
    m->uptime_seconds = (double)(env_ticks(NULL) - s->started_ticks) / 1e6;
}

#define JQ_WALL_FACTOR 5

static void open_jq(struct server *s)
{
    struct pool_settings jq = pool_defaults();
    jq.processes = (int)s->settings.jq_processes;
    jq.time_limit = s->settings.jq_time_limit;
    jq.wall_limit = s->settings.jq_wall_limit;
    if (jq.wall_limit.ms == 0)
        jq.wall_limit.ms = JQ_WALL_FACTOR * jq.time_limit.ms;
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
    struct env env = {.now = serve_now,
                      .ticks = env_ticks,
                      .boot = machine_boot(),
                      .reference = postgres_now(s),
                      .ctx = s,
                      .rng = rng_from_seed(random_seed()),
                      .store = s->store,
                      .event_history = s->event_history,
                      .zone = find_zone,
                      .zones = s->zones,
                      .tracer = exporter_tracer(&s->exporter),
                      .evaluator = pool_evaluator(s->jq)};
    struct backend_settings settings = settings_backend(set);
    return embedded_new(&settings, &env, &s->backend);
}

static uint64_t reply_bound(void *ctx, const struct http_request *req)
{
    const struct server *s = ctx;
    uint64_t bound = task_api_reply_bound(req);
    return bound || !s->answers ? bound : api_reply_bound(s->api, req);
}

static uint64_t gathered(void *ctx)
{
    const struct server *s = ctx;
    return s->answers ? api_gathered(s->api) : 0;
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
    http.socket = out == &s->admin ? s->handover.admin : s->handover.primary;
    http.allowed_hosts = set->allowed_hosts;
    http.budget = s->replies;
    http.bodies = s->bodies;
    http.reply_bound = reply_bound;
    http.gathered = gathered;
    http.in_pieces = serve_in_pieces;
    http.opens_by_link = serve_opens_by_link;
    http.allowed_origins = set->allowed_origins;
    http.opens_to_origins = serve_opens_to_origins;
    http.replies_ctx = s;
    http.streams_max = (int)set->max_streams;
    http.body_max = set->max_body;
    bool is_admin = out == &s->admin;
    http.connections_max = (int)(is_admin ? s->files.admin_connections : s->files.connections);
    http.header_timeout = set->header_timeout;
    http.body_timeout = set->body_timeout;
    http.idle_timeout = set->idle_timeout;
    http.tcp_user_timeout = set->tcp_user_timeout;
    int threads = is_admin ? 1 : listener_threads(set->io_threads);
    return listener_open(out, &s->loop, &files, &http, threads, handler, s);
}

/* Two servers on one machine need two ports, and nobody thinks of the admin port: unless it was
 * requested, the server can do without. Any other fault is as bad as it is for the primary
 * listener. */
static struct err open_admin(struct server *s)
{
    const struct settings *set = &s->settings;
    struct err err = open_listener(s, set->admin_host, set->admin_port, &set->admin_tls,
                                   serve_on_admin_request, &s->admin);
    bool taken = err.code == ERR_IO && !(set->admin_tls.cert && !s->admin.tls);
    if (!taken || set->admin_wanted)
        return err;
    log_warn("no admin listener: %s; --admin-port gives it another port, 0 any free one", err.msg);
    return err_none();
}

static struct err open_listeners(struct server *s)
{
    const struct settings *set = &s->settings;
    TRY(proxies_read(set->trusted_proxies, &s->proxies));
    TRY(open_listener(s, set->host, set->port, &set->tls, serve_on_request, &s->primary));
    return set->no_admin ? err_none() : open_admin(s);
}

/* The primary line last: whoever waits for it then has both. */
static void announce_all(const struct server *s)
{
    listener_announce(&s->admin, s->settings.admin_host, "admin", " (admin)");
    listener_announce(&s->primary, s->settings.host, "primary", "");
    fflush(stdout);
    if (!handover_happened(&s->handover))
        greeting_print(&s->settings, &s->primary,
                       s->who.identities && identities_guard(s->who.identities));
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
    if (s->inbox)
        inbox_stop(s->inbox);
    /* A commit that hangs ends with the lease, which then is not renewed. */
    if (s->cluster && s->backend && !backend_is_idle(s->backend))
        cluster_release(s->cluster);
    if (s->backend)
        backend_free(s->backend);
    inbox_free(s->inbox);
    if (s->jq)
        pool_close(s->jq);
    if (s->cluster)
        cluster_close(s->cluster); /* others need not wait for what comes now */
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
    cluster_free(s->cluster);
    http_budget_free(s->replies);
    body_memory_free(s->bodies);
    exporter_free(&s->exporter);
}

/* Before any request can arrive. */
static bool turn_at_start(void *ctx)
{
    struct server *s = ctx;
    serve_turn(s);
    return s->code == 0;
}

static void wait_at_start(void *ctx)
{
    uv_run(&((struct server *)ctx)->loop, UV_RUN_ONCE);
}

static void wait_while(struct server *s, const bool *busy)
{
    while (*busy && s->code == 0) {
        serve_turn(s);
        if (*busy)
            uv_run(&s->loop, UV_RUN_ONCE);
    }
}

/* Done before any request can arrive. */
static void apply_section(struct server *s)
{
    bool busy = false;
    if (s->settings.config)
        retry_section_apply(s->backend, s->settings.config, s->settings.file.retry,
                            RETRY_SECTION_START, &busy);
    wait_while(s, &busy);
    if (s->code == 0)
        retry_section_warn(s->backend, &busy);
    wait_while(s, &busy);
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
        serve_retry_tokens(s);
    return s->settings.print_access
               ? err_none()
               : gate_check_hosts(s->who.identities, s->who.tokens, &s->settings);
}

/* Joins the other servers, and passes requests on until the jobs are this one's, or it is told to
 * stop. */
static struct err stand_by(struct server *s)
{
    TRY(open_listeners(s));
    const struct cluster_settings cluster = {.set = &s->settings,
                                             .loop = &s->loop,
                                             .port = listener_port(&s->primary),
                                             .before = &s->handover,
                                             .changed = serve_on_cluster,
                                             .leave = serve_on_leaving,
                                             .now = serve_now,
                                             .ctx = s};
    TRY(cluster_open(&cluster, &s->cluster));
    serve_catch_signals(s);
    announce_all(s);
    notify_manager("READY=1");
    if (cluster_role(s->cluster) != MEMBER_OWNER)
        uv_run(&s->loop, UV_RUN_DEFAULT);
    return err_none();
}

/* Takes what applications enqueue by SQL. */
static struct err open_inbox(struct server *s)
{
    const struct inbox_settings inbox = {.pg = *cluster_postgres(s->cluster),
                                         .epoch = cluster_epoch(s->cluster),
                                         .backend = s->backend,
                                         .api = s->api,
                                         .notify = notify,
                                         .ctx = s};
    return inbox_new(&inbox, &s->inbox);
}

static void read_landing(void *ctx, struct http_exchange *x, const struct http_request *req,
                         bool admin, struct api_landing *out)
{
    const struct server *s = ctx;
    landing_read(&s->settings, &s->admin, x, req, admin, out);
}

static struct api_settings settings_of_api(struct server *s)
{
    const struct settings *set = &s->settings;
    return (struct api_settings){.strict = set->strict,
                                 .claim_wait_max = set->claim_wait_max,
                                 .body_max = set->max_body,
                                 .backup = backup,
                                 .backup_ctx = s,
                                 .compact = compact,
                                 .compact_stop = compact_stop,
                                 .loop = &s->loop,
                                 .tokens = s->who.tokens,
                                 .identities = s->who.identities,
                                 .holders = s->who.holders,
                                 .admin_loopback = gate_is_loopback(set->admin_host),
                                 .now = serve_now,
                                 .machine = read_machine,
                                 .machine_ctx = s,
                                 .cluster = s->cluster ? read_cluster : NULL,
                                 .step_down = serve_step_down,
                                 .landing = read_landing,
                                 .cluster_ctx = s};
}

/* With the jobs: everything that answers requests about them. */
static struct err start_owner(struct server *s)
{
    const struct settings *set = &s->settings;
    TRY(open_store(s));
    s->zones = zones_new();
    open_jq(s);
    TRY(exporter_open(&s->exporter, &s->loop, random_seed(), set));
    TRY(open_backend(s));
    TRY(identity_set_open(&s->who, &s->loop, serve_now, random_seed(), set));
    struct api_settings api = settings_of_api(s);
    s->api = api_new(s->backend, &api);
    s->router = router_new();
    router_mount(s->router, api_front_end(s->api));
    if (!set->no_console) {
        router_mount(s->router, console_front_end());
        router_mount(s->router, console_task_front_end());
    }
    const struct task_api_env env = {.backend = s->backend,
                                     .tokens = s->who.tokens,
                                     .identities = s->who.identities,
                                     .holders = s->who.holders,
                                     .router = s->router,
                                     .loop = &s->loop,
                                     .now = serve_now,
                                     .ctx = s,
                                     .seed = random_seed(),
                                     .loopback =
                                         gate_is_loopback(set->host) &&
                                         (set->no_admin || gate_is_loopback(set->admin_host))};
    TRY(task_api_open(&s->tasks, s->api, set, &env));
    apply_section(s);
    TRY(open_gate(s));
    s->answers = true;
    return s->cluster ? open_inbox(s) : err_none();
}

static struct err start(struct server *s)
{
    const struct settings *set = &s->settings;
    TRY(begin_log(set));
    settings_tell();
    s->files = machine_share_files(set->max_connections, set->connections_wanted);
    s->replies = http_budget_new(set->reply_memory);
    s->bodies = body_memory_new(set->request_memory);
    if (set->postgres && !set->print_access)
        TRY(stand_by(s));
    if (s->stopping || s->code != 0)
        return err_none();
    TRY(start_owner(s));
    return set->print_access || s->cluster ? err_none() : open_listeners(s);
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

/* Until the server is told to stop. */
static void run(struct server *s)
{
    if (s->stopping || s->code != 0)
        return;
    serve_start_turns(s);
    serve_start_heartbeat(s);
    log_start(s);
    if (!s->cluster) {
        serve_catch_signals(s);
        announce_all(s);
        notify_manager("READY=1");
    }
    serve_turn(s);
    uv_run(&s->loop, UV_RUN_DEFAULT);
}

/* Gives the jobs to another server, and begins anew as a standby. Returns if it is told to stop
 * meanwhile: what the loop has caught and not looked at would be forgotten with this process. */
static void leave(struct server *s)
{
    handover_note_stops();
    uv_run(&s->loop, UV_RUN_NOWAIT); /* what it has caught before */
    if (!s->leaving || s->code != 0)
        return;
    cluster_release(s->cluster);
    if (handover_is_stopped())
        return;
    handover_go(&s->handover);
    s->code = 74;
}

int serve_main(int argc, char **argv)
{
    /* One loop thread and one commit thread: more arenas only scatter memory. Blocks of a batch
     * are allocated and freed all the time, so they must not go through mmap; the largest answers
     * and bodies must, or the arena of each thread would keep what it once had. */
    mallopt(M_ARENA_MAX, 4);
    mallopt(M_MMAP_THRESHOLD, 4 << 20);
    mallopt(M_TRIM_THRESHOLD, 256 << 20);
    static struct server s; /* the loop's signal handles outlive this call */
    s.handover = handover_take();
    if (!settings_load(argc, argv, &s.settings, &s.code))
        return s.code;
    log_set((enum log_level)s.settings.log_level, (enum log_format)s.settings.log_format);
    s.started.ms = real_ms();
    s.started_ticks = env_ticks(NULL);
    serve_open_loop(&s);
    struct err err = start(&s);
    /* The jobs were lost while they were being taken over: others may do better. */
    if (s.cluster && cluster_role(s.cluster) != MEMBER_STANDBY &&
        (err.code == ERR_FENCED || err.code == ERR_POSTGRES))
        serve_fail(&s, &err);
    if (s.cluster && err.code == ERR_POSTGRES_LOST && cluster_role(s.cluster) != MEMBER_STANDBY)
        cluster_raise_alarm(s.cluster, err.msg);
    if (err.code != ERR_OK) {
        fprintf(stderr, "tenax serve: %s\n", err.msg);
        s.code = err.code == ERR_USAGE ? CLI_USAGE : CLI_REFUSED;
    } else if (s.settings.print_access) {
        identity_report(&s.who, &s.settings, (instant){real_ms()});
    } else {
        run(&s);
    }
    if (err.code == ERR_OK && s.leaving && s.code == 0)
        leave(&s);
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
