/* SPDX-License-Identifier: Apache-2.0 */

/* The end of a pod: what the cluster knows of it is read while it is there, its events and the ends
 * of its containers' logs, and becomes the members of a failure report. */

#include <inttypes.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/must.h"
#include "client/client.h"
#include "client/view.h"
#include "client/when.h"
#include "executor/exec_internal.h"
#include "executor/pod_mask.h"
#include "executor/pod_report.h"
#include "kube/kube_failure.h"

#define LOG_READ_MAX 262144 /* bytes that are read of each log */
#define EVENTS_ASKED "500"  /* of all pods that had the name */
#define EVENTS_MAX   ((size_t)100)
#define TRIES_MAX    4

/* What is being read, one request after the other. */
struct exec_finish {
    struct executor *x;
    struct exec_run *run; /* NULL: nobody waits for it any more */
    bool asking;
    bool has_events;
    struct buf events; /* the list, as the cluster sent it */
    size_t container;  /* where to look for the next one whose log is read */
    struct buf name;   /* of the one that is being read; empty: none is */
    struct pod_report_logs logs;
    uint32_t tries;
};

static void go_on(struct exec_finish *f);

static void free_finish(struct exec_finish *f)
{
    buf_fini(&f->events);
    buf_fini(&f->name);
    pod_report_logs_fini(&f->logs);
    free(f);
}

void exec_finish_free(struct exec_run *r)
{
    struct exec_finish *f = r->finish;
    if (!f)
        return;
    r->finish = NULL;
    f->run = NULL;
    if (!f->asking)
        free_finish(f);
}

/* --- reading --- */

/* The run that the answer is for; NULL if it was not waited for. */
static struct exec_run *answered(struct exec_finish *f)
{
    f->asking = false;
    f->x->finishing--;
    exec_wake(f->x);
    struct exec_run *r = f->run;
    if (!r)
        free_finish(f);
    return r;
}

/* Whether the same is to be asked again, after a while. */
static bool again(struct exec_finish *f, const struct kube_answer *a)
{
    if (!kube_answer_is_not_of_request(a->reason) || f->tries >= TRIES_MAX) {
        f->tries = 0;
        return false;
    }
    f->run->plan.logs = PLAN_LOGS_UNREAD;
    f->run->plan.not_before = when_after(when_mono(), exec_backoff(f->x, f->tries++));
    return true;
}

static void ask(struct exec_finish *f, enum kube_counters_verb verb, const char *accept,
                struct buf *path, void (*done)(void *ctx, const struct kube_answer *answer))
{
    f->asking = true;
    f->x->finishing++;
    kube_client_call(f->x->kube, &(struct kube_client_spec){.verb = verb,
                                                            .path = client_path(path),
                                                            .accept = accept,
                                                            .retry = KUBE_CLIENT_ONCE,
                                                            .done = done,
                                                            .ctx = f});
    buf_fini(path);
}

static struct buf path_of(const struct exec_run *r, const char *what)
{
    struct buf path = {0};
    buf_lit(&path, "/api/v1/namespaces");
    client_segment(&path, str_from(r->namespace));
    buf_str(&path, str_from(what));
    return path;
}

static void on_pod(void *ctx, const struct kube_answer *a)
{
    struct exec_finish *f = ctx;
    struct exec_run *r = answered(f);
    if (!r || again(f, a))
        return;
    if (a->reason == KUBE_ANSWER_OK)
        r->pod_text = alloc_text(a->object.at, a->object.len);
    else
        r->pod_text = alloc_text("", 0); /* not there: nothing more is known */
    go_on(f);
}

static void on_events(void *ctx, const struct kube_answer *a)
{
    struct exec_finish *f = ctx;
    if (!answered(f) || again(f, a))
        return;
    f->has_events = true;
    if (a->reason == KUBE_ANSWER_OK)
        buf_str(&f->events, a->object);
    go_on(f);
}

/* What the pod's environment keeps secret; if that cannot be known, everything. */
static struct err read_mask(struct str pod, struct arena *a, struct pod_mask *mask)
{
    struct err e = pod_mask_read(pod, a, mask);
    if (e.code != ERR_OK)
        *mask = (struct pod_mask){.all = true};
    return e;
}

static void on_log(void *ctx, const struct kube_answer *a)
{
    struct exec_finish *f = ctx;
    struct exec_run *r = answered(f);
    struct arena memory = {0};
    struct pod_mask mask;
    if (!r || again(f, a))
        return;
    if (a->reason == KUBE_ANSWER_OK && a->object.len) {
        struct err e = read_mask(str_from(r->pod_text), &memory, &mask);
        if (e.code != ERR_OK)
            log_warn("pod %s: its logs are not kept, for its secrets cannot be masked: %s", r->name,
                     e.msg);
        pod_report_logs_add(&f->logs, buf_view(&f->name), a->object, a->object.len >= LOG_READ_MAX,
                            &mask);
    }
    arena_fini(&memory);
    f->name.len = 0;
    go_on(f);
}

/* The next container that has something to say; one that is to be asked again stays the next. */
static bool next_container(struct exec_finish *f)
{
    struct arena a = {0};
    struct kube_pod p;
    const struct kube_pod_container *c = NULL;
    if (f->name.len)
        return true;
    if (f->logs.count < POD_REPORT_LOGS_MAX &&
        kube_pod_read(str_from(f->run->pod_text), &a, &p).code == ERR_OK)
        c = pod_report_next(&p, &f->container);
    if (c) {
        buf_str(&f->name, c->name);
        buf_byte(&f->name, '\0');
        f->name.len--;
    }
    arena_fini(&a);
    return c;
}

static void ask_log(struct exec_finish *f)
{
    struct buf path = path_of(f->run, "/pods");
    char lines[24], bytes[24];
    snprintf(lines, sizeof lines, "%" PRId64, f->x->settings->log_lines);
    snprintf(bytes, sizeof bytes, "%d", LOG_READ_MAX);
    client_segment(&path, str_from(f->run->name));
    buf_lit(&path, "/log");
    client_query(&path, "container", f->name.at);
    client_query(&path, "tailLines", lines);
    client_query(&path, "limitBytes", bytes);
    ask(f, KUBE_GET, "text/plain, */*", &path, on_log);
}

static void ask_events(struct exec_finish *f)
{
    struct buf path = path_of(f->run, "/events");
    struct buf selector = {0};
    buf_print(&selector, "involvedObject.name=%s", f->run->name);
    buf_byte(&selector, '\0');
    client_query(&path, "fieldSelector", selector.at);
    client_query(&path, "limit", EVENTS_ASKED);
    ask(f, KUBE_LIST, NULL, &path, on_events);
    buf_fini(&selector);
}

static void ask_pod(struct exec_finish *f)
{
    struct buf path = path_of(f->run, "/pods");
    client_segment(&path, str_from(f->run->name));
    ask(f, KUBE_GET, NULL, &path, on_pod);
}

static void go_on(struct exec_finish *f)
{
    struct exec_run *r = f->run;
    bool logs = f->x->settings->logs != EXEC_LOGS_NONE && f->x->settings->log_lines > 0;
    if (!r->pod_text)
        ask_pod(f);
    else if (!f->has_events)
        ask_events(f);
    else if (logs && next_container(f))
        ask_log(f);
    else
        r->plan.logs = PLAN_LOGS_READ;
}

void exec_finish_read(struct executor *x, struct exec_run *r)
{
    if (r->plan.pod == PLAN_POD_SUCCEEDED) {
        r->plan.logs = PLAN_LOGS_READ;
        return;
    }
    if (!r->finish) {
        r->finish = ALLOC(struct exec_finish);
        *r->finish = (struct exec_finish){.x = x, .run = r};
    }
    must(!r->finish->asking);
    r->plan.logs = PLAN_LOGS_READING;
    go_on(r->finish);
}

/* --- writing --- */

static enum kube_failure_found found_of(const struct exec_run *r, enum plan_result result)
{
    switch (result) {
    case PLAN_UNSCHEDULABLE:
        return KUBE_FAILURE_NO_NODE;
    case PLAN_NOT_INITIALIZED:
        return KUBE_FAILURE_SLOW;
    case PLAN_VANISHED:
    case PLAN_PREEMPTED:
        return KUBE_FAILURE_GONE;
    default:
        break;
    }
    return r->plan.pod == PLAN_POD_DOOMED      ? KUBE_FAILURE_NOT_STARTED
           : r->plan.pod == PLAN_POD_NODE_LOST ? KUBE_FAILURE_OVERDUE
           : r->asked_to_delete                ? KUBE_FAILURE_ENDED
                                               : KUBE_FAILURE_ENDED_ALIEN;
}

/* Those of this pod: another one may have had its name. */
static size_t read_events(const struct exec_finish *f, const struct kube_pod *p,
                          const struct pod_mask *mask, struct arena *a, struct kube_pod_event *to)
{
    size_t n = 0;
    struct str object;
    if (!f || !f->events.len)
        return 0;
    struct view_list l = view_list(view_get(buf_view(&f->events), "items"));
    while (n < EVENTS_MAX && view_next(&l, &object)) {
        if (kube_pod_event_read(object, a, &to[n]).code != ERR_OK ||
            !kube_failure_is_about(p, &to[n]))
            continue;
        pod_report_mask_event(&to[n], mask, a);
        n++;
    }
    return n;
}

static bool write_pod(const struct executor *x, const struct exec_run *r, enum plan_result result,
                      struct buf *b)
{
    static const struct pod_report_logs none;
    struct arena a = {0};
    struct kube_pod p;
    struct pod_mask mask;
    if (!r->pod_text || kube_pod_read(str_from(r->pod_text), &a, &p).code != ERR_OK) {
        arena_fini(&a);
        return false;
    }
    (void)read_mask(str_from(r->pod_text), &a, &mask);
    pod_report_mask(&p, &mask, &a);
    struct kube_pod_event *events = arena_get(&a, EVENTS_MAX * sizeof *events);
    size_t count = read_events(r->finish, &p, &mask, &a, events);
    span waited = result == PLAN_UNSCHEDULABLE ? x->settings->limits.scheduling
                                               : x->settings->limits.initializing;
    struct kube_failure f =
        kube_failure(&p, found_of(r, result), (enum kube_verdict_mode)x->settings->mode, waited,
                     events, count, &a);
    pod_report_write(&f, &p, r->finish ? &r->finish->logs : &none,
                     result == PLAN_PREEMPTED && exec_plan_alive(r->plan.pod), b);
    arena_fini(&a);
    return true;
}

/* The cluster refused it, or the payload makes no pod: no retry would be different. */
static void write_refusal(const struct exec_run *r, struct buf *b)
{
    struct str why = str_from(r->refusal ? r->refusal : "the cluster refuses the pod");
    pod_report_text(b, "message", why);
    pod_report_text(b, "pod_error", why);
    if (r->malformed)
        buf_lit(b, ",\"error_type\":\"PodMalformed\",\"exception\":\"malformed-payload\"");
    else
        buf_lit(b, ",\"error_type\":\"PodRefused\",\"kill\":true");
    if (r->culprit)
        buf_print(b,
                  ",\"culprit\":\"%s\",\"culprit_evidence\":\"the cluster refused to create the "
                  "pod\"",
                  r->culprit);
}

void exec_finish_write(struct executor *x, struct exec_run *r, enum plan_result result,
                       struct buf *members)
{
    if (result == PLAN_NOT_CREATED) {
        write_refusal(r, members);
        return;
    }
    if (!write_pod(x, r, result, members)) {
        buf_lit(members, ",\"error_type\":\"PodDeleted\",\"culprit\":\"disruption\","
                         "\"culprit_evidence\":\"somebody deleted its pod\","
                         "\"category\":\"internal\",\"subcategory\":\"pod-missing\","
                         "\"message\":");
        struct buf text = {0};
        buf_print(&text, "pod %s was deleted, and not by this executor", r->name ? r->name : "?");
        json_write_string(members, buf_view(&text));
        buf_fini(&text);
    }
}
