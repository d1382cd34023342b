/* SPDX-License-Identifier: Apache-2.0 */
#include "executor/exec_metrics.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/json.h"
#include "base/log.h"
#include "executor/exec_internal.h"
#include "net/probes.h"

static const int64_t seconds[] = {100,   250,   500,    1000,   2500,   5000,   10000,
                                  30000, 60000, 120000, 300000, 600000, 1800000};
static const struct histogram_scale scale = HISTOGRAM_SCALE(seconds, 0.001);

struct exec_metrics {
    struct probes *probes;
};

/* --- counting --- */

static void add_step(struct histogram *h, instant from, instant to)
{
    if (instant_is_set(from) && instant_is_set(to))
        histogram_add(h, &scale, instant_diff(to, from).ms);
}

void exec_metrics_pod(struct exec_times *t, const struct kube_pod *p)
{
    struct kube_pod_times times = kube_pod_times(p);
    add_step(&t->steps[EXEC_SCHEDULED], times.created, times.scheduled);
    add_step(&t->steps[EXEC_PULLED], times.created, times.pulled);
    add_step(&t->steps[EXEC_RUNNING], times.created, times.running);
}

/* --- the text --- */

static void write_phases(const struct executor *x, struct buf *b)
{
    probes_family(b, "tenax_executor_pods", "gauge",
                  "runs of this executor by the state of their pods");
    for (int i = 0; i <= PLAN_POD_NODE_LOST; i++)
        buf_print(b, "tenax_executor_pods{phase=\"%s\"} %" PRIu64 "\n",
                  exec_plan_pod_name((enum plan_pod)i), x->phases[i]);
}

static void write_calls(const struct executor *x, struct buf *b)
{
    const struct kube_counters *c = kube_client_counters(x->kube);
    kube_counters_write_calls(c, "tenax_executor_api_calls_total", b);
    probes_single(b, "tenax_executor_watch_restarts_total", "counter",
                  "watches that were opened again", c->watch_restarts);
    probes_single(b, "tenax_executor_watch_lists_total", "counter", "complete lists of pods",
                  c->lists);
}

static void write_counters(const struct executor *x, struct buf *b)
{
    const struct exec_counters *c = &x->counters;
    probes_single(b, "tenax_executor_pods_created_total", "counter", "pods created", c->created);
    probes_single(b, "tenax_executor_pods_adopted_total", "counter",
                  "pods taken over after a restart", c->adopted);
    probes_single(b, "tenax_executor_pods_deleted_total", "counter", "pods deleted", c->deleted);
    probes_single(b, "tenax_executor_pods_refused_total", "counter",
                  "pods that the cluster refused", c->refused);
    probes_single(b, "tenax_executor_pods_without_room_total", "counter",
                  "pods refused for a quota", c->no_room);
    probes_single(b, "tenax_executor_pods_denied_total", "counter",
                  "pods refused because this executor may make none", c->denied);
    probes_single(b, "tenax_executor_pods_faulted_total", "counter",
                  "creations of pods that failed by the cluster's fault", c->faults);
    probes_single(b, "tenax_executor_runs_succeeded_total", "counter", "runs that succeeded",
                  c->succeeded);
    probes_single(b, "tenax_executor_runs_failed_total", "counter", "runs that failed", c->failed);
    probes_single(b, "tenax_executor_runs_released_total", "counter",
                  "runs given back for want of room", c->released);
    probes_single(b, "tenax_executor_runs_lost_total", "counter",
                  "runs that the server ended: canceled, lease lost", c->lost);
    probes_single(b, "tenax_executor_runs_vanished_total", "counter", "pods that others deleted",
                  c->vanished);
    probes_single(b, "tenax_executor_reports_total", "counter",
                  "reports that the server has accepted", c->reports);
}

static void write_state(const struct executor *x, struct buf *b)
{
    uint64_t waiting = 0;
    LIST_EACH (n, &x->reports)
        waiting++;
    probes_single(b, "tenax_executor_reports_waiting", "gauge",
                  "reports that the server does not have yet", waiting);
    probes_single(b, "tenax_executor_suspended", "gauge",
                  "1 if the cluster lets this executor make no pods, so that it takes no jobs",
                  exec_access_is_suspended(&x->access));
    probes_single(b, "tenax_executor_server_up", "gauge", "1 if Tenax's server answered last",
                  !x->server_down);
    probes_single(b, "tenax_executor_cluster_up", "gauge",
                  "1 if the pods of all namespaces are being watched", exec_watch_live(x));
}

static void write_histogram(struct buf *b, const char *name, const char *help,
                            const struct histogram *h)
{
    uint64_t sum = 0;
    probes_family(b, name, "histogram", help);
    for (size_t i = 0; i < scale.count; i++)
        buf_print(b, "%s_bucket{le=\"%g\"} %" PRIu64 "\n", name, (double)scale.upto[i] * scale.unit,
                  sum += h->in[i]);
    sum += h->in[scale.count];
    buf_print(b, "%s_bucket{le=\"+Inf\"} %" PRIu64 "\n", name, sum);
    buf_print(b, "%s_sum %.15g\n", name, (double)h->sum * scale.unit);
    buf_print(b, "%s_count %" PRIu64 "\n", name, sum);
}

static void write_times(const struct executor *x, struct buf *b)
{
    const struct histogram *steps = x->times.steps;
    write_histogram(b, "tenax_executor_pod_scheduled_seconds", "from a pod's creation to its node",
                    &steps[EXEC_SCHEDULED]);
    write_histogram(b, "tenax_executor_pod_pulled_seconds",
                    "from a pod's creation to its first container", &steps[EXEC_PULLED]);
    write_histogram(b, "tenax_executor_pod_running_seconds",
                    "from a pod's creation to its last container", &steps[EXEC_RUNNING]);
}

/* --- the listener --- */

/* Whether pods can be created, as far as is known; and the executor's state in a word. */
static const char *can_create(const struct executor *x)
{
    return exec_access_is_suspended(&x->access) ? "false" : x->access.known ? "true" : "null";
}

static const char *status_of(const struct executor *x)
{
    return exec_access_is_suspended(&x->access) ? "suspended"
           : !exec_watch_usable(x)              ? "cluster away"
           : x->server_down                     ? "server away"
                                                : "ok";
}

static int write_health(void *ctx, struct buf *b, struct str *type)
{
    const struct executor *x = ctx;
    *type = STR("application/json");
    const char *status = status_of(x);
    struct buf why = {0};
    buf_print(b, "{\"status\":\"%s\",\"can_create\":%s,\"server\":%s,\"cluster\":%s,\"synced\":%s",
              status, can_create(x), x->server_down ? "false" : "true",
              exec_watch_live(x) ? "true" : "false", exec_watch_synced(x) ? "true" : "false");
    if (x->access.why)
        buf_str(&why, str_from(x->access.why));
    else if (!exec_watch_usable(x))
        (void)exec_watch_say(x, &why);
    if (why.len) {
        buf_lit(b, ",\"reason\":");
        json_write_string(b, buf_view(&why));
    }
    buf_lit(b, "}\n");
    buf_fini(&why);
    return strcmp(status, "ok") == 0 ? 200 : 503;
}

static void write_metrics(void *ctx, struct buf *b)
{
    const struct executor *x = ctx;
    write_phases(x, b);
    write_counters(x, b);
    write_state(x, b);
    write_calls(x, b);
    write_times(x, b);
}

struct err exec_metrics_start(struct executor *x)
{
    static const struct probes_user user = {write_health, write_metrics};
    const struct exec_settings *s = x->settings;
    const struct probes_settings p = {
        .host = s->metrics_host, .port = (int)s->metrics_port, .connections_max = 64};
    struct probes *probes;
    if (s->metrics_port < 0)
        return err_none();
    TRY(probes_new(x->loop, &p, &user, x, &probes));
    x->metrics = ALLOC(struct exec_metrics);
    x->metrics->probes = probes;
    log_info("metrics on http://%s:%d/metrics", s->metrics_host, probes_port(probes));
    return err_none();
}

void exec_metrics_stop(struct executor *x)
{
    if (!x->metrics)
        return;
    probes_close(x->metrics->probes);
    free(x->metrics);
    x->metrics = NULL;
}
