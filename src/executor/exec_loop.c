/* SPDX-License-Identifier: Apache-2.0 */
#include "executor/exec_loop.h"

#include <malloc.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/must.h"
#include "client/subcommand.h"
#include "client/when.h"
#include "executor/exec_internal.h"

#define TURN_MS     5 /* what comes in meanwhile is dealt with at once */
#define FAR_MS      10000
#define STOP_WITHIN ((span){5000})
#define STEPS_MAX   8 /* of one run in one turn */

/* Requests to the cluster that begin pods or read logs, at a time. */
#define CREATING_MAX  ((size_t)64)
#define FINISHING_MAX ((size_t)32)

/* --- waking up --- */

static void turn(struct executor *x);

static void on_turn(uv_timer_t *t)
{
    struct executor *x = t->data;
    x->turn_set = false;
    turn(x);
}

static void on_due(uv_timer_t *t)
{
    exec_wake(t->data);
}

void exec_wake(struct executor *x)
{
    if (x->turn_set)
        return;
    x->turn_set = true;
    uv_timer_start(&x->turn, on_turn, TURN_MS, 0);
}

void exec_wake_at(struct executor *x, mono t)
{
    int64_t ms = (t.ns - when_mono().ns + 999999) / 1000000;
    ms = ms < 1 ? 1 : ms > FAR_MS ? FAR_MS : ms;
    uv_update_time(x->loop);
    uv_timer_start(&x->due, on_due, (uint64_t)ms, 0);
}

span exec_backoff(struct executor *x, uint32_t tries)
{
    int64_t full = (int64_t)200 << (tries < 7 ? tries : 7);
    full = full > 15000 ? 15000 : full;
    return (span){full / 2 + (int64_t)rng_below(&x->rng, (uint64_t)full / 2 + 1)};
}

/* --- steps --- */

/* What the plan is asked about. */
static void look(struct executor *x, struct exec_run *r)
{
    struct plan_run *p = &r->plan;
    p->synced = exec_watch_synced(x);
    p->deleting = p->deleting || r->asked_to_delete;
    p->stopping = x->stopping;
    p->suspended = exec_access_is_suspended(&x->access);
    if (r->cleared && p->ended.ns)
        p->ended.ns = 1; /* its name is needed: it is kept no longer */
    if (p->pod == PLAN_POD_NONE && p->lease == PLAN_HELD)
        exec_runs_relate(x, r);
}

/* Does the step; false if that has to wait for a turn of others. */
static bool act(struct executor *x, struct exec_run *r, const struct plan_step *s)
{
    switch (s->action) {
    case PLAN_WAIT:
        return true;
    case PLAN_CREATE:
        if (x->creating >= CREATING_MAX)
            return false;
        exec_pods_create(x, r);
        return true;
    case PLAN_CLEAR:
        exec_pods_clear(x, r);
        return true;
    case PLAN_REPLACE:
        exec_pods_replace(x, r);
        return true;
    case PLAN_READ_LOGS:
        if (x->finishing >= FINISHING_MAX)
            return false;
        exec_finish_read(x, r);
        return true;
    case PLAN_DECIDE:
        exec_reports_decide(x, r, s);
        return true;
    case PLAN_DELIVER:
        exec_reports_deliver(x, r);
        return true;
    case PLAN_TELL_END:
        exec_reports_ended(x, r);
        return true;
    case PLAN_DELETE:
        exec_pods_delete(x, r);
        return true;
    case PLAN_FORGET:
        break;
    }
    return true;
}

static bool is_busy(const struct exec_run *r)
{
    return r->renewing || r->telling || r->plan.creating || r->ready == EXEC_READY_ASKING ||
           (r->finish && r->plan.logs == PLAN_LOGS_READING) || r->asked_to_delete;
}

/* A run that the server took away, and whose pod has ended or was never made. */
static bool is_over(const struct exec_run *r)
{
    return r->plan.lease == PLAN_LOST && r->plan.synced && !r->plan.creating &&
           !exec_plan_alive(r->plan.pod);
}

/* Steps until the run has to wait; it may be gone then. */
static void attend(struct executor *x, struct exec_run *r, mono now, mono *next)
{
    for (int i = 0; i < STEPS_MAX; i++) {
        exec_watch_check_overdue(r, now, next);
        exec_watch_check_misfit(r, now, next);
        exec_watch_check_registry(x, r, now, next);
        look(x, r);
        if (is_over(r) && !r->said_over)
            exec_leases_say_over(x, r);
        struct plan_step s = exec_plan(&r->plan, &x->settings->limits, now);
        if (s.action == PLAN_WAIT)
            exec_sooner(next, s.until);
        if (s.action == PLAN_WAIT || !act(x, r, &s))
            break;
        if (s.action == PLAN_FORGET) {
            if (!is_busy(r))
                exec_runs_remove(x, r);
            return;
        }
    }
}

static void count_phases(struct executor *x)
{
    for (size_t i = 0; i <= PLAN_POD_NODE_LOST; i++)
        x->phases[i] = 0;
    LIST_EACH (n, &x->runs)
        x->phases[LIST_OF(n, struct exec_run, node)->plan.pod]++;
}

static void stop_if_done(struct executor *x, mono now)
{
    bool claiming = !holder_claims_are_idle(x->claims.of);
    bool reporting = !exec_reports_idle(x) && !x->server_down;
    bool busy = claiming || reporting || x->creating || x->telling;
    if (x->stopping && (!busy || x->stop_at.ns <= now.ns))
        uv_stop(x->loop);
}

static void turn(struct executor *x)
{
    mono now = when_mono(), next = when_after(now, (span){FAR_MS});
    for (struct list *n = x->runs.next, *after; n != &x->runs; n = after) {
        after = n->next;
        attend(x, LIST_OF(n, struct exec_run, node), now, &next);
    }
    exec_reports_turn(x, now, &next);
    exec_access_turn(x, now, &next);
    exec_notice_turn(x, now, &next);
    exec_leases_turn(x, now, &next);
    exec_follow_turn(x, now, &next);
    exec_progress_turn(x, now, &next);
    count_phases(x);
    if (x->stopping)
        exec_sooner(&next, x->stop_at);
    stop_if_done(x, now);
    exec_wake_at(x, next);
}

/* --- the end --- */

static void stop(struct executor *x)
{
    if (x->stopping) {
        uv_stop(x->loop);
        return;
    }
    x->stopping = true;
    x->stop_at = when_after(when_mono(), STOP_WITHIN);
    exec_leases_stop(x);
    exec_wake(x);
}

static void on_signal(uv_signal_t *s, int number)
{
    struct executor *x = s->data;
    log_info("%s: ending; %zu runs stay with this executor, and their pods go on",
             number == SIGINT ? "SIGINT" : "SIGTERM", x->run_count);
    stop(x);
}

void exec_give_up(struct executor *x, const char *fmt, ...)
{
    char text[600];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    log_error("%s", text);
    x->code = CLI_REFUSED;
    stop(x);
}

/* --- start --- */

static void open_handles(struct executor *x)
{
    must(uv_timer_init(x->loop, &x->turn) == 0);
    must(uv_timer_init(x->loop, &x->due) == 0);
    must(uv_signal_init(x->loop, &x->sigterm) == 0);
    must(uv_signal_init(x->loop, &x->sigint) == 0);
    x->turn.data = x->due.data = x->sigterm.data = x->sigint.data = x;
    uv_signal_start(&x->sigterm, on_signal, SIGTERM);
    uv_signal_start(&x->sigint, on_signal, SIGINT);
}

static void close_handles(struct executor *x)
{
    uv_close((uv_handle_t *)&x->turn, NULL);
    uv_close((uv_handle_t *)&x->due, NULL);
    uv_close((uv_handle_t *)&x->sigterm, NULL);
    uv_close((uv_handle_t *)&x->sigint, NULL);
}

static void free_runs(struct executor *x)
{
    while (!list_is_empty(&x->reports)) {
        struct exec_report *p = LIST_OF(x->reports.next, struct exec_report, node);
        list_unlink(&p->node);
        free(p);
    }
    while (!list_is_empty(&x->runs)) {
        struct exec_run *r = LIST_OF(x->runs.next, struct exec_run, node);
        r->report = NULL;
        r->pod_record = NULL; /* stays in the journal */
        r->renewing = r->telling = r->plan.creating = false;
        r->ready = EXEC_READY_ASKED;
        exec_runs_remove(x, r);
    }
    idmap_fini(&x->by_job);
}

static struct err open_executor(struct executor *x)
{
    TRY(exec_cluster_open(x));
    struct err e = journal_open(x->loop, x->settings->state_dir, exec_reports_kept, x, &x->journal);
    if (e.code != ERR_OK)
        return err_make(e.code, "reports cannot be kept (--state-dir): %s", e.msg);
    exec_reports_load(x);
    x->server = remote_new(x->loop, x->settings->server, &x->settings->tls, x->settings->name);
    exec_leases_start(x);
    exec_watch_start(x);
    exec_cluster_look(x);
    return exec_metrics_start(x);
}

static void close_executor(struct executor *x)
{
    /* No turn any more, although the journal runs the loop to its end, and what is freed wakes it.
     */
    x->turn_set = true;
    uv_timer_stop(&x->turn);
    uv_timer_stop(&x->due);
    exec_metrics_stop(x);
    exec_follow_free(x);
    exec_leases_free(x);
    if (x->server)
        remote_free(x->server);
    exec_watch_stop(x);
    exec_access_stop(x);
    if (x->kube)
        kube_client_free(x->kube);
    free_runs(x);
    if (x->journal)
        journal_close(x->journal);
    close_handles(x);
    uv_run(x->loop, UV_RUN_DEFAULT);
    exec_access_fini(x);
    exec_notice_fini(x);
    exec_cluster_fini(x);
}

int exec_loop_run(const struct exec_settings *settings)
{
    struct executor x = {.settings = settings, .loop = uv_default_loop(), .code = CLI_OK};
    uint64_t seed = 0;
    must(getrandom(&seed, sizeof seed, 0) == (ssize_t)sizeof seed);
    x.rng = rng_from_seed(seed);
    list_init(&x.runs);
    list_init(&x.reports);
    /* Pods come and go by the thousands: what they leave goes back to the system. */
    mallopt(M_TRIM_THRESHOLD, 1 << 20);
    signal(SIGPIPE, SIG_IGN);
    open_handles(&x);
    struct err e = open_executor(&x);
    if (e.code == ERR_OK) {
        log_info("%s runs jobs of %s as pods, up to %lld; state in %s", settings->name,
                 settings->server, (long long)settings->pods_max, settings->state_dir);
        exec_wake(&x);
        uv_run(x.loop, UV_RUN_DEFAULT);
    } else {
        log_error("%s", e.msg);
        x.code = e.code == ERR_USAGE ? CLI_USAGE : CLI_REFUSED;
    }
    close_executor(&x);
    return x.code;
}
