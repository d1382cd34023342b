/* SPDX-License-Identifier: Apache-2.0 */

/* Pods as the cluster shows them. What is seen is recorded with the run that the labels name; a pod
 * of ours whose run is not known, as after a restart, makes one, whose lease is asked for. Times
 * are of our own clock, because a cluster's may be wrong. */

#include <stdlib.h>

#include "base/alloc.h"
#include "base/decimal.h"
#include "base/log.h"
#include "client/view.h"
#include "client/when.h"
#include "executor/exec_internal.h"
#include "executor/pod_manifest.h"
#include "executor/pod_view.h"
#include "kube/kube_failure.h"

/* How much later than its grace period says a node may confirm the end of a pod. */
#define OVERDUE ((span){60000})
/* How long a pod that must stay off a node waits for another one to fit. */
#define NONE_FITS ((span){5000})

static void set_text(char **to, struct str text)
{
    if (*to && strlen(*to) == text.len && memcmp(*to, text.at, text.len) == 0)
        return;
    free(*to);
    *to = text.len ? alloc_text(text.at, text.len) : NULL;
}

/* --- what is seen --- */

/* Its text is kept once its end is to be told of: a pod that lives costs little memory. */
static bool wants_text(const struct exec_run *r)
{
    return r->plan.lease == PLAN_HELD &&
           (r->plan.pod >= PLAN_POD_DOOMED || r->plan.preempted || r->plan.deleting);
}

static void note_times(struct exec_run *r, const struct kube_pod *p, enum plan_pod state, mono now)
{
    bool gated = state == PLAN_POD_WAITING && kube_pod_is_gated(p);
    /* The scheduler begins to look for a node when the gate is open. */
    if (!r->plan.created.ns || (r->plan.gated && !gated))
        r->plan.created = now;
    r->plan.gated = gated;
    if (state == PLAN_POD_INITIALIZING && !r->plan.initialized.ns)
        r->plan.initialized = now;
    if (!exec_plan_alive(state) && !r->plan.ended.ns)
        r->plan.ended = now;
    if (instant_is_set(p->deleted_at) && exec_plan_alive(state) && !r->overdue_at.ns)
        r->overdue_at = when_after(now, (span){p->grace.ms + OVERDUE.ms});
}

/* --- registries --- */

static bool patience_is_over(const struct executor *x, const struct exec_run *r, mono now)
{
    return when_after(r->registry_since, x->settings->image_patience).ns <= now.ns;
}

/* A pod that cannot start only because its registry is away waits for that, for a while. */
static enum plan_pod be_patient(const struct executor *x, struct exec_run *r,
                                const struct kube_pod *p, enum plan_pod state, mono now)
{
    enum kube_verdict_mode mode = (enum kube_verdict_mode)x->settings->mode;
    struct kube_verdict v = {0};
    if (state == PLAN_POD_DOOMED)
        v = kube_verdict(p, mode);
    bool away = state == PLAN_POD_DOOMED && kube_verdict_registry_is_away(&v);
    if (away && !r->registry_since.ns)
        r->registry_since = now;
    if (state != PLAN_POD_DOOMED || !(away || kube_verdict_awaits_image(&v))) {
        if (state >= PLAN_POD_RUNNING)
            r->registry_since = (mono){0};
        return state;
    }
    if (!r->registry_since.ns || patience_is_over(x, r, now))
        return state;
    return PLAN_POD_INITIALIZING;
}

void exec_watch_check_registry(struct executor *x, struct exec_run *r, mono now, mono *next)
{
    if (!r->registry_since.ns || r->plan.pod != PLAN_POD_INITIALIZING)
        return;
    if (!patience_is_over(x, r, now)) {
        exec_sooner(next, when_after(r->registry_since, x->settings->image_patience));
        return;
    }
    log_warn("pod %s: its registry has been away for too long", r->name);
    r->plan.pod = PLAN_POD_DOOMED;
}

static void record(struct executor *x, struct exec_run *r, const struct kube_pod *p,
                   struct str object)
{
    enum plan_pod state = be_patient(
        x, r, p, pod_view_state(p, (enum kube_verdict_mode)x->settings->mode), when_mono());
    bool overdue = r->plan.pod == PLAN_POD_NODE_LOST && exec_plan_alive(state) &&
                   instant_is_set(p->deleted_at);
    note_times(r, p, state, when_mono());
    set_text(&r->name, p->name);
    set_text(&r->namespace, p->namespace);
    if (p->uid.len <= EXEC_UID_MAX) {
        memcpy(r->uid, p->uid.at, p->uid.len);
        r->uid[p->uid.len] = '\0';
    }
    r->plan.pod = overdue ? PLAN_POD_NODE_LOST : state;
    r->plan.deleting = instant_is_set(p->deleted_at);
    r->plan.preempted = kube_failure_is_preempted(p);
    exec_progress_note(r, p, state);
    if (!r->timed && (state == PLAN_POD_RUNNING || !exec_plan_alive(state))) {
        r->timed = true;
        exec_metrics_pod(&x->times, p);
    }
    if (wants_text(r))
        set_text(&r->pod_text, object);
    if (state != PLAN_POD_WAITING || !kube_pod_unschedulable(p))
        r->no_node_since = (mono){0};
    else if (!r->no_node_since.ns)
        r->no_node_since = when_mono();
    /* Another pod may have to be made of it while this one has no node. */
    if (!r->must_avoid || state != PLAN_POD_WAITING) {
        free(r->job_text);
        r->job_text = NULL;
    }
    exec_reports_pod(x, r);
}

/* The run that a pod's labels name; NULL: it is none of ours. */
static struct exec_run *run_of(struct executor *x, const struct kube_pod *p, bool make,
                               struct arena *a)
{
    struct id job;
    int64_t run;
    struct str executor = kube_pod_value(p->labels, POD_LABEL_EXECUTOR, a);
    struct str number = kube_pod_value(p->labels, POD_LABEL_RUN, a);
    if (!str_eq(executor, str_from(x->settings->name)) ||
        id_parse(kube_pod_value(p->labels, POD_LABEL_JOB, a), &job).code != ERR_OK ||
        !decimal_digits(number, 10, &run))
        return NULL;
    struct exec_run *r = exec_runs_find(x, job, run);
    if (r || !make)
        return r;
    r = exec_runs_add(x, job, run);
    r->adopted = true;
    r->ready = EXEC_READY_ASKED;
    x->counters.adopted++;
    return r;
}

/* Another pod than the one that the run has. */
static bool is_another(const struct exec_run *r, const struct kube_pod *p)
{
    return exec_plan_there(r->plan.pod) && *r->uid && !str_eq(p->uid, str_from(r->uid));
}

enum seen { SEEN_CHANGED, SEEN_REMOVED, SEEN_IN_ANSWER };

/* The watch may be ahead of an answer, which then shows the pod as it was. */
static bool is_old_news(const struct exec_run *r, const struct kube_pod *p, enum seen how)
{
    return how == SEEN_IN_ANSWER && *r->uid && str_eq(p->uid, str_from(r->uid));
}

static void see(struct executor *x, struct str object, enum seen how)
{
    struct arena a = {0};
    struct kube_pod p;
    struct err e = kube_pod_read(object, &a, &p);
    struct exec_run *r = e.code == ERR_OK ? run_of(x, &p, how != SEEN_REMOVED, &a) : NULL;
    if (e.code != ERR_OK) {
        log_warn("the cluster sent a pod that cannot be read: %s", e.msg);
    } else if (r && is_another(r, &p)) {
        log_warn("pod %.*s has the labels of another pod's run; passed over", NAME_ARG(p.name));
    } else if (r && !is_old_news(r, &p, how)) {
        record(x, r, &p, object);
        if (how == SEEN_REMOVED)
            exec_watch_gone(x, r);
        exec_wake(x);
    }
    arena_fini(&a);
}

void exec_watch_seen(struct executor *x, struct str object)
{
    see(x, object, SEEN_IN_ANSWER);
}

/* The run gets another pod. */
static void replaced(struct exec_run *r)
{
    r->replacing = r->must_avoid = false;
    r->none_fits = true;
    *r->uid = '\0';
    r->plan.pod = PLAN_POD_NONE;
    r->plan.created = r->plan.initialized = r->no_node_since = (mono){0};
}

void exec_watch_gone(struct executor *x, struct exec_run *r)
{
    /* One that had ended before it was deleted says how in its last object; its logs are gone. */
    bool ended = r->plan.pod == PLAN_POD_SUCCEEDED || r->plan.pod == PLAN_POD_FAILED;
    if (ended && r->plan.lease == PLAN_HELD && !r->gone) {
        r->plan.logs = PLAN_LOGS_READ;
        r->gone = true;
    } else if (r->replacing && r->plan.lease == PLAN_HELD && r->job_text) {
        replaced(r);
    } else {
        if (r->plan.lease == PLAN_LOST)
            log_info("pod %s is gone", r->name);
        r->plan.pod = PLAN_POD_GONE;
    }
    r->plan.deleting = r->asked_to_delete = false;
    r->overdue_at = (mono){0};
    exec_wake(x);
}

void exec_watch_check_overdue(struct exec_run *r, mono now, mono *next)
{
    if (!r->overdue_at.ns || !exec_plan_alive(r->plan.pod))
        return;
    if (r->overdue_at.ns > now.ns) {
        exec_sooner(next, r->overdue_at);
        return;
    }
    log_warn("pod %s should be gone by now; its node is taken for lost", r->name);
    r->plan.pod = PLAN_POD_NODE_LOST;
    r->plan.ended = now;
    r->asked_to_delete = r->plan.deleting = false; /* once more, without a grace period */
}

void exec_watch_check_misfit(struct exec_run *r, mono now, mono *next)
{
    mono end = when_after(r->no_node_since, NONE_FITS);
    bool may = r->must_avoid && r->no_node_since.ns && r->job_text;
    r->plan.misfit = may && end.ns <= now.ns;
    if (may && !r->plan.misfit)
        exec_sooner(next, end);
}

/* --- watching --- */

static bool is_at(const struct exec_run *r, const struct kube_watch_object *o)
{
    return exec_plan_there(r->plan.pod) && str_eq(o->uid, str_from(r->uid));
}

static void on_changed(void *ctx, const struct kube_watch_object *o)
{
    see(((struct exec_namespace *)ctx)->x, o->json, SEEN_CHANGED);
}

/* What went while nobody watched is known by its uid alone. */
static void on_removed(void *ctx, const struct kube_watch_object *o)
{
    struct executor *x = ((struct exec_namespace *)ctx)->x;
    if (o->json.len) {
        see(x, o->json, SEEN_REMOVED);
        return;
    }
    LIST_EACH (n, &x->runs) {
        struct exec_run *r = LIST_OF(n, struct exec_run, node);
        if (is_at(r, o)) {
            exec_watch_gone(x, r);
            return;
        }
    }
}

/* Pods that there were when this executor last ran, and that are not listed, are gone. */
static void find_gone(struct executor *x, const char *namespace)
{
    LIST_EACH (n, &x->runs) {
        struct exec_run *r = LIST_OF(n, struct exec_run, node);
        if (r->pod_record && r->plan.pod == PLAN_POD_NONE && r->namespace &&
            strcmp(r->namespace, namespace) == 0)
            r->plan.pod = PLAN_POD_GONE;
    }
}

static void on_synced(void *ctx)
{
    struct exec_namespace *ns = ctx;
    if (!ns->synced)
        find_gone(ns->x, ns->name);
    ns->synced = true;
    ns->failures = 0;
    exec_wake(ns->x);
}

static void on_opened(void *ctx)
{
    struct exec_namespace *ns = ctx;
    if (ns->failing)
        log_info("pods of namespace %s are watched again", ns->name);
    ns->failing = false;
    ns->failures = 0;
    exec_wake(ns->x);
}

static void on_failed(void *ctx, const struct kube_answer *a)
{
    struct exec_namespace *ns = ctx;
    if (!ns->failing)
        log_warn("cannot watch the pods of namespace %s: %.*s; trying again%s", ns->name,
                 STR_ARG(a->message),
                 kube_answer_is_passing(a->reason) ? "" : " (tenax executor --check says more)");
    ns->failing = true;
    ns->failures++;
    free(ns->why);
    ns->why = alloc_text(a->message.at, a->message.len);
    exec_wake(ns->x);
}

void exec_watch_start(struct executor *x)
{
    struct buf selector = {0};
    buf_print(&selector, "%s=%s", POD_LABEL_EXECUTOR, x->settings->name);
    buf_byte(&selector, '\0');
    for (size_t i = 0; i < x->namespace_count; i++) {
        struct exec_namespace *ns = &x->namespaces[i];
        struct kube_watch_spec spec = kube_watch_defaults();
        struct buf path = {0};
        buf_lit(&path, "/api/v1/namespaces");
        kube_client_segment(&path, str_from(ns->name));
        buf_lit(&path, "/pods");
        buf_byte(&path, '\0');
        spec.path = path.at;
        spec.label_selector = selector.at;
        spec.changed = on_changed;
        spec.removed = on_removed;
        spec.synced = on_synced;
        spec.opened = on_opened;
        spec.failed = on_failed;
        spec.ctx = ns;
        ns->watch = kube_watch_new(x->kube, &spec);
        buf_fini(&path);
    }
    buf_fini(&selector);
}

void exec_watch_stop(struct executor *x)
{
    for (size_t i = 0; i < x->namespace_count; i++) {
        if (x->namespaces[i].watch)
            kube_watch_free(x->namespaces[i].watch);
        free(x->namespaces[i].why);
        x->namespaces[i].why = NULL;
    }
}

bool exec_watch_say(const struct executor *x, struct buf *b)
{
    for (size_t i = 0; i < x->namespace_count; i++) {
        const struct exec_namespace *ns = &x->namespaces[i];
        if (!ns->why || (ns->synced && ns->failures <= 1))
            continue;
        buf_print(b, "executor %s cannot watch the pods of namespace %s: %s", x->settings->name,
                  ns->name, ns->why);
        return true;
    }
    return false;
}

bool exec_watch_synced(const struct executor *x)
{
    for (size_t i = 0; i < x->namespace_count; i++)
        if (!x->namespaces[i].synced)
            return false;
    return true;
}

/* One failure is a watch that broke off, and is opened again by now. */
bool exec_watch_usable(const struct executor *x)
{
    for (size_t i = 0; i < x->namespace_count; i++)
        if (!x->namespaces[i].synced || x->namespaces[i].failures > 1)
            return false;
    return true;
}

bool exec_watch_live(const struct executor *x)
{
    for (size_t i = 0; i < x->namespace_count; i++)
        if (!x->namespaces[i].synced || !kube_watch_is_live(x->namespaces[i].watch))
            return false;
    return true;
}
