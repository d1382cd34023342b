/* SPDX-License-Identifier: Apache-2.0 */
#include "builds/build_serve.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <uv.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/must.h"
#include "builds/build_http.h"
#include "builds/build_rabbitmq.h"
#include "builds/build_tenax.h"
#include "builds/build_worker.h"
#include "client/subcommand.h"
#include "client/when.h"
#include "kube/kube_counters.h"
#include "net/probes.h"

#define END_WITHIN ((span){20000}) /* after the first signal */
#define END_LOOK   100             /* milliseconds between looks at what is left */

struct serve {
    struct build_settings *s;
    struct build_worker_settings worker_settings;
    struct build_pod_template *pods;
    struct build_worker *worker;
    struct build_worker_ports ports;
    struct build_http *http;
    struct buf dir;
    uv_loop_t *loop;
    uv_signal_t term, interrupt;
    uv_timer_t end;
    mono ends; /* at the latest; 0: nobody has asked */
    int code;
};

/* --- what others may ask --- */

static bool is_well(void *ctx)
{
    const struct serve *v = ctx;
    const struct build_broker *b = v->ports.broker;
    return v->ends.ns == 0 && b && b->ops->state(b).consuming;
}

static void write_metrics(void *ctx, struct buf *b)
{
    const struct serve *v = ctx;
    const struct build_worker_counters *c = build_worker_counters(v->worker);
    const struct build_broker_state broker = v->ports.broker->ops->state(v->ports.broker);
    const struct build_status_stats told = v->ports.status->ops->stats(v->ports.status);
#define COUNTER(name, help)                                                                        \
    probes_single(b, "tenax_builds_" #name "_total", "counter", help, c->name);
    BUILD_WORKER_COUNTERS(COUNTER)
#undef COUNTER
    probes_single(b, "tenax_builds_consuming", "gauge", "1 while messages would arrive",
                  broker.consuming);
    probes_single(b, "tenax_builds_broker_blocked", "gauge", "1 while the broker takes no messages",
                  broker.blocked);
    probes_single(b, "tenax_builds_broker_connections_total", "counter",
                  "connections made to the broker", broker.connections);
    probes_single(b, "tenax_builds_messages_unsettled", "gauge", "messages being worked on",
                  broker.unsettled);
    probes_single(b, "tenax_builds_messages_unconfirmed", "gauge",
                  "messages published but not confirmed", broker.unconfirmed);
    probes_single(b, "tenax_builds_statuses_waiting", "gauge",
                  "statuses that Screwdriver does not have yet", told.waiting);
    probes_single(b, "tenax_builds_statuses_told_total", "counter",
                  "statuses that Screwdriver has taken", told.told);
    probes_single(b, "tenax_builds_statuses_ended_total", "counter",
                  "statuses of builds that had ended, or are unknown", told.ended);
    probes_single(b, "tenax_builds_statuses_refused_total", "counter",
                  "statuses that Screwdriver has refused", told.refused);
    probes_single(b, "tenax_builds_statuses_expired_total", "counter",
                  "statuses given up for their age", told.expired);
    probes_single(b, "tenax_builds_status_failures_total", "counter",
                  "tries to tell a status that failed", told.failures);
    if (v->ports.timers)
        probes_single(b, "tenax_builds_timers", "gauge", "builds whose timer is set",
                      build_timers_count(v->ports.timers));
    kube_counters_write_calls(v->ports.kube->ops->counters(v->ports.kube),
                              "tenax_builds_api_calls_total", b);
}

/* --- the end --- */

/* Whoever still works keeps the loop alive; the handles of the process itself go last. */
static void close_ports(struct serve *v)
{
    if (v->http)
        build_http_close(v->http);
    if (v->ports.broker)
        v->ports.broker->ops->close(v->ports.broker);
    if (v->ports.kube)
        v->ports.kube->ops->close(v->ports.kube);
    if (v->ports.status)
        v->ports.status->ops->close(v->ports.status);
    if (v->ports.timers)
        build_timers_close(v->ports.timers);
    uv_close((uv_handle_t *)&v->term, NULL);
    uv_close((uv_handle_t *)&v->interrupt, NULL);
    uv_close((uv_handle_t *)&v->end, NULL);
}

static void on_end_look(uv_timer_t *t)
{
    struct serve *v = t->data;
    struct build_broker_state s = v->ports.broker->ops->state(v->ports.broker);
    if (build_worker_busy(v->worker) + s.unsettled + s.unconfirmed == 0)
        uv_stop(v->loop);
    else if (when_mono().ns >= v->ends.ns) {
        log_warn("%zu messages are left unfinished: they come again", build_worker_busy(v->worker));
        uv_stop(v->loop);
    }
}

static void on_signal(uv_signal_t *h, int number)
{
    struct serve *v = h->data;
    if (v->ends.ns) {
        uv_stop(v->loop);
        return;
    }
    log_info("signal %d: no more messages are taken; those begun are finished", number);
    v->ends = when_after(when_mono(), END_WITHIN);
    v->ports.broker->ops->quiet(v->ports.broker);
    uv_timer_start(&v->end, on_end_look, 0, END_LOOK);
}

/* The broker cannot ever work with these settings. */
static void on_refused(void *ctx, const char *why)
{
    struct serve *v = ctx;
    log_error("%s", why);
    v->code = CLI_REFUSED;
    uv_stop(v->loop);
}

/* --- the start --- */

static void name_state_dir(struct serve *v)
{
    const char *given = build_text(v->s, BUILD_STATE_DIR), *home = getenv("HOME");
    const char *state = getenv("XDG_STATE_HOME");
    if (*given)
        buf_print(&v->dir, "%s", given);
    else if (state && *state == '/')
        buf_print(&v->dir, "%s/tenax/build-worker-%s", state, build_text(v->s, BUILD_QUEUE));
    else
        buf_print(&v->dir, "%s/.local/state/tenax/build-worker-%s", home && *home ? home : "/tmp",
                  build_text(v->s, BUILD_QUEUE));
    buf_byte(&v->dir, '\0');
}

static struct err in_state_dir(struct err e)
{
    return e.code == ERR_OK ? e : err_make(e.code, "TENAX_STATE_DIR: %.200s", e.msg);
}

static struct err open_status(struct serve *v)
{
    const char *system = getenv("SSL_CERT_FILE");
    struct build_status_settings s = {
        .dir = v->dir.at,
        .timeout = {build_int(v->s, BUILD_API_TIMEOUT)},
        .delay = {build_int(v->s, BUILD_RETRY_DELAY)},
        .delay_max = {60000},
        .age_max = {24 * 3600 * INT64_C(1000)},
        .ca_file = system && *system ? system : NULL,
        .now = when_now,
    };
    must(getrandom(&s.seed, sizeof s.seed, 0) == (ssize_t)sizeof s.seed);
    name_state_dir(v);
    s.dir = v->dir.at;
    TRY(in_state_dir(build_status_new(v->loop, &s, &v->ports.status)));
    if (!v->worker_settings.timer)
        return err_none();
    struct buf dir = {0};
    buf_print(&dir, "%s/timers", v->dir.at);
    buf_byte(&dir, '\0');
    struct err e = build_timers_new(v->loop, dir.at, when_now, build_worker_fired, v->worker,
                                    &v->ports.timers);
    buf_fini(&dir);
    return in_state_dir(e);
}

static struct err open_broker(struct serve *v)
{
    const char *broker = build_text(v->s, BUILD_BROKER);
    struct build_broker_user user = build_worker_user();
    if (strcmp(broker, "rabbitmq") == 0)
        return build_rabbitmq_new(v->loop, v->s, &user, v->worker, &v->ports.broker);
    if (strcmp(broker, "tenax") == 0)
        return build_tenax_new(v->loop, v->s, &user, v->worker, &v->ports.broker);
    return err_make(ERR_USAGE, "broker must be rabbitmq or tenax, not '%.40s'", broker);
}

static struct err open_all(struct serve *v)
{
    struct build_http_user user = {is_well, write_metrics};
    if (build_int(v->s, BUILD_HTTP_PORT) > 65535)
        return err_make(ERR_USAGE, "PORT must be 0 to 65535");
    TRY(build_pod_template_read(v->s, &v->pods));
    TRY(build_worker_settings_make(v->s, v->pods, &v->worker_settings));
    v->worker_settings.refused = on_refused;
    v->worker_settings.refused_ctx = v;
    v->worker = build_worker_new(v->loop, &v->worker_settings);
    TRY(build_kube_new(v->loop, v->s, &v->ports.kube));
    TRY(open_status(v));
    TRY(open_broker(v));
    build_worker_attach(v->worker, &v->ports);
    TRY(build_http_new(v->loop, build_text(v->s, BUILD_HTTP_HOST),
                       (int)build_int(v->s, BUILD_HTTP_PORT), &user, v, &v->http));
    return err_none();
}

static void listen_to(uv_signal_t *h, struct serve *v, int number)
{
    must(uv_signal_init(v->loop, h) == 0);
    h->data = v;
    must(uv_signal_start(h, on_signal, number) == 0);
}

/* A core file would hold the tokens of builds. */
static void forbid_core(void)
{
    struct rlimit none = {0, 0};
    if (setrlimit(RLIMIT_CORE, &none) != 0)
        log_warn("core files cannot be forbidden");
}

int build_serve(struct build_settings *s)
{
    struct serve v = {.s = s, .loop = uv_default_loop(), .code = CLI_OK};
    signal(SIGPIPE, SIG_IGN);
    forbid_core();
    must(uv_timer_init(v.loop, &v.end) == 0);
    v.end.data = &v;
    listen_to(&v.term, &v, SIGTERM);
    listen_to(&v.interrupt, &v, SIGINT);
    struct err e = open_all(&v);
    if (e.code == ERR_OK) {
        log_info("builds of queue %s become pods at %s, namespace %s; state in %s",
                 build_text(s, BUILD_QUEUE), build_text(s, BUILD_K8S_HOST),
                 build_text(s, BUILD_NAMESPACE), v.dir.at);
        uv_run(v.loop, UV_RUN_DEFAULT);
    } else {
        log_error("%s", e.msg);
        v.code = e.code == ERR_USAGE ? CLI_USAGE : CLI_REFUSED;
    }
    close_ports(&v);
    uv_run(v.loop, UV_RUN_DEFAULT);
    if (v.worker)
        build_worker_free(v.worker);
    build_pod_template_free(v.pods);
    buf_fini(&v.dir);
    return v.code;
}
