/* SPDX-License-Identifier: Apache-2.0 */

/* The end of a pod: what the cluster knows of it is read while it is there, its events and the ends
 * of its containers' logs, and becomes the members of a failure report. */

#include <inttypes.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/must.h"
#include "base/utf8.h"
#include "client/client.h"
#include "client/view.h"
#include "client/when.h"
#include "executor/exec_internal.h"
#include "executor/pod_mask.h"
#include "kube/kube_failure.h"

#define CONTAINERS_MAX ((size_t)16)    /* whose logs are read */
#define LOG_READ_MAX   262144          /* bytes that are read of each */
#define LOG_MAX        ((size_t)16384) /* and kept, at its end */
#define LOGS_MAX       ((size_t)65536) /* of all */
#define EVENTS_MAX     ((size_t)100)
#define TRIES_MAX      4

/* What is being read, one request after the other. */
struct exec_finish {
    struct executor *x;
    struct exec_run *run; /* NULL: nobody waits for it any more */
    bool asking;
    bool has_events;
    struct buf events; /* the list, as the cluster sent it */
    size_t container;  /* the next one whose log is read */
    struct buf name;   /* of the one that is being read */
    struct buf logs;
    uint32_t tries;
};

static void go_on(struct exec_finish *f);

static void free_finish(struct exec_finish *f)
{
    buf_fini(&f->events);
    buf_fini(&f->name);
    buf_fini(&f->logs);
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
    if (!kube_answer_is_passing(a->reason) || f->tries >= TRIES_MAX) {
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

/* Bytes that are no characters are replaced. */
static void add_valid(struct buf *b, struct str text)
{
    while (text.len) {
        size_t good = utf8_check(text);
        buf_add(b, text.at, good);
        if (good == text.len)
            return;
        buf_lit(b, "\xef\xbf\xbd");
        text = (struct str){text.at + good + 1, text.len - good - 1};
    }
}

/* The end of a log, without what the pod's environment keeps secret. */
static void add_log(struct exec_finish *f, struct str text)
{
    struct arena a = {0};
    struct pod_mask mask;
    struct str tail = pod_mask_tail(text, LOG_MAX);
    bool cut_end = text.len >= LOG_READ_MAX;
    struct err e = pod_mask_read(str_from(f->run->pod_text), &a, &mask);
    if (f->logs.len + tail.len < LOGS_MAX) {
        buf_print(&f->logs, "%s--- container %.*s ---\n", f->logs.len ? "\n" : "",
                  STR_ARG(buf_view(&f->name)));
        if (e.code == ERR_OK)
            pod_mask_apply(&mask, tail, tail.len < text.len, cut_end, &f->logs);
        else
            buf_print(&f->logs, "(not kept, for its secrets cannot be masked: %s)", e.msg);
    }
    arena_fini(&a);
}

static void on_log(void *ctx, const struct kube_answer *a)
{
    struct exec_finish *f = ctx;
    struct exec_run *r = answered(f);
    if (!r || again(f, a))
        return;
    if (a->reason == KUBE_ANSWER_OK && a->object.len)
        add_log(f, a->object);
    f->container++;
    go_on(f);
}

/* The next container that has something to say. */
static bool next_container(struct exec_finish *f)
{
    struct arena a = {0};
    struct kube_pod p;
    bool found = false;
    if (kube_pod_read(str_from(f->run->pod_text), &a, &p).code == ERR_OK)
        for (; f->container < p.container_count && f->container < CONTAINERS_MAX; f->container++) {
            const struct kube_pod_container *c = &p.containers[f->container];
            if (!c->end.is && !c->running && !c->last.is)
                continue;
            f->name.len = 0;
            buf_str(&f->name, c->name);
            buf_byte(&f->name, '\0');
            f->name.len--;
            found = true;
            break;
        }
    arena_fini(&a);
    return found;
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
    char selector[EXEC_UID_MAX + 32];
    snprintf(selector, sizeof selector, "involvedObject.uid=%s", f->run->uid);
    client_query(&path, "fieldSelector", selector);
    client_query(&path, "limit", "100");
    ask(f, KUBE_LIST, NULL, &path, on_events);
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

static void write_text(struct buf *b, const char *name, struct str text)
{
    struct buf valid = {0};
    if (!text.len)
        return;
    add_valid(&valid, text);
    buf_print(b, ",\"%s\":", name);
    json_write_string(b, buf_view(&valid));
    buf_fini(&valid);
}

static void write_containers(struct buf *b, const struct kube_failure *f)
{
    if (!f->container_count)
        return;
    buf_lit(b, ",\"containers\":[");
    for (size_t i = 0; i < f->container_count; i++) {
        const struct kube_failure_container *c = &f->containers[i];
        struct buf valid = {0};
        add_valid(&valid, c->name);
        buf_str(b, i ? STR(",{\"name\":") : STR("{\"name\":"));
        json_write_string(b, buf_view(&valid));
        buf_print(b, ",\"init\":%s,\"exit_code\":%d", c->init ? "true" : "false",
                  (int)c->exit_code);
        write_text(b, "reason", c->reason);
        write_text(b, "message", c->message);
        buf_byte(b, '}');
        buf_fini(&valid);
    }
    buf_byte(b, ']');
}

static void write_events(struct buf *b, const struct kube_failure *f)
{
    if (!f->event_count)
        return;
    buf_lit(b, ",\"pod_events\":[");
    for (size_t i = 0; i < f->event_count; i++) {
        struct buf valid = {0};
        add_valid(&valid, f->events[i]);
        if (i)
            buf_byte(b, ',');
        json_write_string(b, buf_view(&valid));
        buf_fini(&valid);
    }
    buf_byte(b, ']');
}

static void write_failure(struct buf *b, const struct kube_failure *f, bool alive)
{
    write_text(b, "message", f->message);
    buf_print(b, ",\"error_type\":\"%s\"", kube_failure_name(f->cause));
    if (f->exit_code)
        buf_print(b, ",\"exit_code\":%d", (int)f->exit_code);
    if (f->signal)
        buf_print(b, ",\"signal\":%d", (int)f->signal);
    if (f->condition)
        buf_print(b, ",\"condition\":\"%s\"", f->condition);
    write_text(b, "node", f->node);
    write_text(b, "pod_error", f->pod_error);
    if (f->container_count)
        write_text(b, "termination_message", f->containers[0].message);
    write_events(b, f);
    write_containers(b, f);
    if (f->cause == KUBE_FAILURE_PREEMPTED)
        buf_print(b, ",\"grace_period_ms\":%" PRId64, alive ? f->grace.ms : INT64_C(0));
}

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
                                               : KUBE_FAILURE_ENDED;
}

static size_t read_events(const struct exec_finish *f, struct arena *a, struct kube_pod_event *to)
{
    size_t n = 0;
    struct str object;
    if (!f || !f->events.len)
        return 0;
    struct view_list l = view_list(view_get(buf_view(&f->events), "items"));
    while (n < EVENTS_MAX && view_next(&l, &object))
        n += kube_pod_event_read(object, a, &to[n]).code == ERR_OK;
    return n;
}

static bool write_pod(const struct executor *x, const struct exec_run *r, enum plan_result result,
                      struct buf *b)
{
    struct arena a = {0};
    struct kube_pod p;
    if (!r->pod_text || kube_pod_read(str_from(r->pod_text), &a, &p).code != ERR_OK) {
        arena_fini(&a);
        return false;
    }
    struct kube_pod_event *events = arena_get(&a, EVENTS_MAX * sizeof *events);
    size_t count = read_events(r->finish, &a, events);
    span waited = result == PLAN_UNSCHEDULABLE ? x->settings->limits.scheduling
                                               : x->settings->limits.initializing;
    struct kube_failure f =
        kube_failure(&p, found_of(r, result), (enum kube_verdict_mode)x->settings->mode, waited,
                     events, count, &a);
    write_failure(b, &f, result == PLAN_PREEMPTED && exec_plan_alive(r->plan.pod));
    arena_fini(&a);
    return true;
}

/* The cluster refused it, or the payload makes no pod: no retry would be different. */
static void write_refusal(const struct exec_run *r, struct buf *b)
{
    struct str why = str_from(r->refusal ? r->refusal : "the cluster refuses the pod");
    write_text(b, "message", why);
    write_text(b, "pod_error", why);
    if (r->malformed)
        buf_lit(b, ",\"error_type\":\"PodMalformed\",\"exception\":\"malformed-payload\"");
    else
        buf_lit(b, ",\"error_type\":\"PodRefused\",\"kill\":true");
}

void exec_finish_write(struct executor *x, struct exec_run *r, enum plan_result result,
                       struct buf *members)
{
    if (result == PLAN_NOT_CREATED) {
        write_refusal(r, members);
        return;
    }
    if (!write_pod(x, r, result, members)) {
        buf_lit(members, ",\"error_type\":\"PodDeleted\",\"message\":");
        struct buf text = {0};
        buf_print(&text, "pod %s was deleted, and not by this executor", r->name ? r->name : "?");
        json_write_string(members, buf_view(&text));
        buf_fini(&text);
    }
    if (r->finish && r->finish->logs.len)
        write_text(members, "backtrace", buf_view(&r->finish->logs));
}
