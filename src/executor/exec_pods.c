/* SPDX-License-Identifier: Apache-2.0 */

/* Creating and deleting pods. The name of a pod follows from its run, so that asking twice makes
 * one pod: whether an answer that was lost had created it, the next try learns. */

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/must.h"
#include "client/client.h"
#include "client/view.h"
#include "client/when.h"
#include "executor/exec_internal.h"
#include "executor/pod_fault.h"
#include "executor/pod_manifest.h"
#include "executor/pod_refusal.h"
#include "kube/kube_pod.h"

#define CALL_TIMEOUT ((span){15000})
#define LATER_MAX    ((span){60000})
#define CLEAR_EVERY  ((span){1000})
#define PODS_OF_JOB  "50"

/* A request about a run, which may be forgotten meanwhile. */
struct asking {
    struct executor *x;
    struct id job;
    int64_t run;
};

static struct asking *asking(struct executor *x, const struct exec_run *r)
{
    struct asking *a = ALLOC(struct asking);
    *a = (struct asking){x, r->job, r->run};
    return a;
}

/* Sent once: the plan tries again, because it knows whether it is still wanted. */
static void ask(struct executor *x, enum kube_counters_verb verb, const char *path, struct str body,
                void (*done)(void *ctx, const struct kube_answer *answer), void *ctx)
{
    kube_client_call(x->kube, &(struct kube_client_spec){.verb = verb,
                                                         .path = path,
                                                         .body = body,
                                                         .retry = KUBE_CLIENT_ONCE,
                                                         .done = done,
                                                         .ctx = ctx});
}

/* The run that an answer is about. */
static struct exec_run *answered(struct asking *a, struct executor **x)
{
    *x = a->x;
    struct exec_run *r = exec_runs_find(a->x, a->job, a->run);
    free(a);
    exec_wake(*x);
    return r;
}

static void later(struct executor *x, struct exec_run *r, span retry_after)
{
    span d = exec_backoff(x, r->tries++);
    if (retry_after.ms > d.ms)
        d.ms = retry_after.ms < LATER_MAX.ms ? retry_after.ms : LATER_MAX.ms;
    r->plan.not_before = when_after(when_mono(), d);
}

static void refuse(struct exec_run *r, enum plan_refusal how, struct str why)
{
    free(r->refusal);
    r->refusal = alloc_text(why.at ? why.at : "", why.len);
    r->plan.refusal = how;
}

static const char *namespace_of(const struct executor *x, const struct exec_run *r)
{
    return r->namespace ? r->namespace : x->namespaces[0].name;
}

static const char *pods_path(struct buf *path, const char *namespace, struct str name)
{
    buf_lit(path, "/api/v1/namespaces");
    client_segment(path, str_from(namespace));
    buf_lit(path, "/pods");
    if (name.len)
        client_segment(path, name);
    return client_path(path);
}

/* --- before the pod of a retry: how it is named, and whether an earlier one is left --- */

static void ask_pods_of_job(struct executor *x, struct exec_run *r);

static void set_asked(struct executor *x, struct exec_run *r)
{
    x->creating--;
    r->plan.creating = false;
    r->ready = EXEC_READY_ASKED;
}

static void ask_again(struct executor *x, struct exec_run *r, span retry_after)
{
    x->creating--;
    r->plan.creating = false;
    r->ready = EXEC_READY_UNASKED;
    later(x, r, retry_after);
}

/* Known before it is created, so that an earlier pod of that name goes first. */
static void set_name(struct executor *x, struct exec_run *r)
{
    struct arena a = {0};
    struct str name = pod_manifest_name(x->style.prefix, r->job, r->run, r->policies_on, &a);
    free(r->name);
    r->name = alloc_text(name.at, name.len);
    arena_fini(&a);
}

static void on_settings(void *ctx, const struct remote_answer *a)
{
    struct executor *x;
    struct exec_run *r = answered(ctx, &x);
    if (!r)
        return;
    if (a->result != CALL_DONE) {
        ask_again(x, r, (span){0});
        return;
    }
    r->policies_on = str_eq(view_get(a->body, "enabled"), STR("true"));
    set_name(x, r);
    ask_pods_of_job(x, r);
}

/* Whether this pod of the job is one that has to go first: one of another executor, for ours are
 * runs of the table, that may still act, or that has the name which the new one needs. Whoever
 * should delete it may be gone for good. */
static bool is_left_over(struct executor *x, const struct exec_run *r, struct str object,
                         struct arena *a, struct kube_pod *p)
{
    if (kube_pod_read(object, a, p).code != ERR_OK)
        return false;
    bool ended = p->phase == KUBE_POD_SUCCEEDED || p->phase == KUBE_POD_FAILED;
    struct str executor = kube_pod_value(p->labels, POD_LABEL_EXECUTOR, a);
    bool in_the_way = !ended || (r->name && str_eq(p->name, str_from(r->name)));
    return in_the_way && !str_eq(executor, str_from(x->settings->name));
}

/* The run of a pod that another executor left is over for the server, or ours could not have begun;
 * whoever should delete it may be gone. */
static void on_left_over_deleted(void *ctx, const struct kube_answer *a)
{
    struct executor *x;
    (void)a;
    (void)answered(ctx, &x);
}

static void delete_left_over(struct executor *x, struct exec_run *r, const struct kube_pod *p)
{
    struct buf path = {0}, body = {0}, namespace = {0};
    char job[ID_TEXT_LEN];
    if (instant_is_set(p->deleted_at))
        return;
    id_format(r->job, job);
    log_warn("pod %.*s of an earlier run of job %.25s is left; deleting it before run %" PRId64,
             STR_ARG(p->name), job, r->run);
    buf_str(&namespace, p->namespace);
    buf_byte(&namespace, '\0');
    buf_lit(&body, "{\"kind\":\"DeleteOptions\",\"apiVersion\":\"v1\",\"preconditions\":{\"uid\":");
    json_write_string(&body, p->uid);
    buf_lit(&body, "}}");
    ask(x, KUBE_DELETE, pods_path(&path, namespace.at, p->name), buf_view(&body),
        on_left_over_deleted, asking(x, r));
    buf_fini(&path);
    buf_fini(&body);
    buf_fini(&namespace);
}

static void on_pods_of_job(void *ctx, const struct kube_answer *answer)
{
    struct executor *x;
    struct exec_run *r = answered(ctx, &x);
    struct arena a = {0};
    struct str object;
    struct kube_pod p;
    if (!r)
        return;
    if (answer->reason != KUBE_ANSWER_OK) {
        ask_again(x, r, answer->retry_after);
        return;
    }
    r->ready_busy = false;
    for (struct view_list l = view_list(view_get(answer->object, "items")); view_next(&l, &object);)
        if (is_left_over(x, r, object, &a, &p)) {
            r->ready_busy = true;
            delete_left_over(x, r, &p);
        }
    arena_fini(&a);
    set_asked(x, r);
    if (r->ready_busy)
        r->plan.not_before = when_after(when_mono(), CLEAR_EVERY);
}

static void ask_pods_of_job(struct executor *x, struct exec_run *r)
{
    struct buf path = {0}, selector = {0};
    char job[ID_TEXT_LEN];
    id_format(r->job, job);
    pods_path(&path, namespace_of(x, r), (struct str){0});
    path.len--;
    buf_print(&selector, "%s=%.25s", POD_LABEL_JOB, job);
    buf_byte(&selector, '\0');
    client_query(&path, "labelSelector", selector.at);
    client_query(&path, "limit", PODS_OF_JOB);
    ask(x, KUBE_LIST, client_path(&path), (struct str){0}, on_pods_of_job, asking(x, r));
    buf_fini(&path);
    buf_fini(&selector);
}

static void ask_ready(struct executor *x, struct exec_run *r)
{
    r->ready = EXEC_READY_ASKING;
    r->plan.creating = true;
    x->creating++;
    remote_ask(x->server, "GET", "/settings/retry", (struct str){0}, CALL_TIMEOUT, on_settings,
               asking(x, r));
}

/* --- creating --- */

static void on_created(void *ctx, const struct kube_answer *a);
static void look_at_existing(struct executor *x, struct exec_run *r);

/* How often a creation that the cluster fails is repeated (seed 000: retryCount < 3). */
#define CREATE_RETRIES ((uint32_t)3)

/* The job goes back; others may have a cluster that works. */
static void give_up(struct executor *x, struct exec_run *r)
{
    struct buf why = {0};
    buf_print(&why, "the cluster failed to create pod %s in namespace %s, %u times%s", r->name,
              namespace_of(x, r), r->faults, r->fault ? r->fault : "");
    log_warn("%.*s; its job goes back", STR_ARG(buf_view(&why)));
    refuse(r, PLAN_FAULTED, buf_view(&why));
    buf_fini(&why);
}

/* Tries again, or finds out that there is no pod before the job goes back. */
static void after_fault(struct executor *x, struct exec_run *r, span retry_after)
{
    if (r->faults <= CREATE_RETRIES) {
        later(x, r, retry_after);
    } else if (r->maybe_made) {
        r->plan.creating = true;
        x->creating++;
        look_at_existing(x, r);
    } else {
        give_up(x, r);
    }
}

/* There is no pod of that name. */
static void on_none_there(struct executor *x, struct exec_run *r)
{
    r->maybe_made = false;
    if (r->faults > CREATE_RETRIES)
        give_up(x, r);
    else
        later(x, r, (span){0}); /* gone again, perhaps */
}

static void on_existing(void *ctx, const struct kube_answer *answer)
{
    struct executor *x;
    struct exec_run *r = answered(ctx, &x);
    struct arena a = {0};
    struct kube_pod p;
    char job[ID_TEXT_LEN];
    if (!r)
        return;
    x->creating--;
    r->plan.creating = false;
    id_format(r->job, job);
    if (answer->reason == KUBE_ANSWER_NOT_FOUND) {
        on_none_there(x, r);
        return;
    }
    if (answer->reason != KUBE_ANSWER_OK || kube_pod_read(answer->object, &a, &p).code != ERR_OK) {
        later(x, r, answer->retry_after);
        arena_fini(&a);
        return;
    }
    struct str of = kube_pod_value(p.labels, POD_LABEL_JOB, &a);
    if (!str_eq(of, (struct str){job, ID_TEXT_LEN})) {
        struct buf why = {0};
        buf_print(&why, "pod %s exists already in namespace %s, and is not of this job", r->name,
                  namespace_of(x, r));
        refuse(r, PLAN_REFUSED, buf_view(&why));
        buf_fini(&why);
    } else {
        exec_watch_seen(x, answer->object);
        if (r->plan.pod == PLAN_POD_NONE) {
            /* An earlier run's: it goes first. */
            r->ready = EXEC_READY_UNASKED;
            later(x, r, (span){0});
        }
    }
    arena_fini(&a);
}

static void look_at_existing(struct executor *x, struct exec_run *r)
{
    struct buf path = {0};
    ask(x, KUBE_GET, pods_path(&path, namespace_of(x, r), str_from(r->name)), (struct str){0},
        on_existing, asking(x, r));
    buf_fini(&path);
}

static struct err make_manifest(struct executor *x, struct exec_run *r, struct arena *a,
                                struct pod_manifest *m)
{
    struct pod_job job;
    if (!r->job_text)
        return err_make(ERR_INTERNAL, "the job as it was handed out is not known");
    TRY(pod_manifest_job(str_from(r->job_text), a, &job));
    enum pod_avoid avoid = pod_manifest_avoid(&job, when_now(), r->none_fits);
    r->must_avoid = avoid == POD_AVOID_REQUIRED;
    return pod_manifest_make(&x->style, &job, r->policies_on, avoid, a, m);
}

/* An API server quotes what it does not like of a pod, and that may be a secret of its. */
static void add_why(struct executor *x, struct exec_run *r, const struct kube_answer *answer,
                    struct buf *why)
{
    struct arena a = {0};
    struct pod_manifest m = {0};
    if (!answer->message.len && !answer->cause_count) {
        buf_print(why, " with status %ld", answer->status);
        return;
    }
    struct err e = make_manifest(x, r, &a, &m);
    buf_lit(why, ": ");
    pod_refusal_write(answer, e.code == ERR_OK ? m.body : (struct str){0}, why);
    arena_fini(&a);
}

/* The cluster would refuse it again, or has no room for it. */
static void refused(struct executor *x, struct exec_run *r, const struct kube_answer *a, bool quota)
{
    struct buf why = {0};
    buf_print(&why, "the cluster refuses pod %s in namespace %s", r->name, namespace_of(x, r));
    add_why(x, r, a, &why);
    if (a->reason == KUBE_ANSWER_QUOTA && !quota)
        buf_lit(&why, "; it asks for more than the quota has in all");
    if (quota) {
        x->counters.no_room++;
        x->no_room_streak++;
    } else {
        x->counters.refused++;
    }
    refuse(r, quota ? PLAN_NO_ROOM : PLAN_REFUSED, buf_view(&why));
    buf_fini(&why);
}

/* The pod is not at fault: its job goes back. */
static void denied(struct executor *x, struct exec_run *r, const struct kube_answer *a)
{
    const char *namespace = namespace_of(x, r);
    struct buf why = {0};
    x->counters.denied++;
    exec_access_deny(x, namespace, a);
    buf_print(&why, "executor %s may not create pods in namespace %s: %.*s", x->settings->name,
              namespace, STR_ARG(a->message));
    refuse(r, PLAN_DENIED, buf_view(&why));
    buf_fini(&why);
}

/* The cluster is at fault: that is said, and bounded. */
static void note_fault(struct executor *x, struct exec_run *r, const struct kube_answer *a)
{
    struct buf why = {0};
    add_why(x, r, a, &why);
    buf_byte(&why, '\0');
    x->counters.faults++;
    r->maybe_made |= !kube_answer_is_unheard(a->reason);
    free(r->fault);
    r->fault = alloc_text(why.at, why.len - 1);
    if (r->faults++ == 0)
        log_warn("pod %s cannot be created%s; trying again", r->name, r->fault);
    exec_progress_fault(r, str_from(r->fault + strspn(r->fault, ": ")));
    exec_access_fault(x, namespace_of(x, r), str_from(r->fault));
    buf_fini(&why);
}

static void made(struct executor *x, struct exec_run *r, const struct kube_answer *a)
{
    r->tries = r->faults = 0;
    x->no_room_streak = 0;
    x->counters.created++;
    exec_access_grant(x);
    exec_watch_seen(x, a->object);
}

static void on_created(void *ctx, const struct kube_answer *a)
{
    struct executor *x;
    struct exec_run *r = answered(ctx, &x);
    if (!r)
        return;
    /* Also a conflict: not every server says which one it is. */
    if (a->reason == KUBE_ANSWER_ALREADY_EXISTS || a->reason == KUBE_ANSWER_CONFLICT) {
        if (a->reason == KUBE_ANSWER_CONFLICT)
            note_fault(x, r, a);
        look_at_existing(x, r); /* still a creation under way */
        return;
    }
    x->creating--;
    r->plan.creating = false;
    struct pod_fault fault = pod_fault_of(a, exec_access_is_own(x, namespace_of(x, r)));
    r->culprit = fault.culprit;
    switch (fault.reaction) {
    case POD_FAULT_GO_ON:
        made(x, r, a);
        break;
    case POD_FAULT_SUSPEND:
        denied(x, r, a);
        break;
    case POD_FAULT_GIVE_BACK:
        note_fault(x, r, a);
        after_fault(x, r, a->retry_after);
        break;
    case POD_FAULT_WAIT:
        refused(x, r, a, true);
        break;
    case POD_FAULT_FAIL:
        refused(x, r, a, false);
        break;
    }
}

/* Whether the pod fits into what --max-memory and --max-cpu leave. */
static bool fits(struct executor *x, struct exec_run *r, const struct pod_manifest *m)
{
    const struct exec_settings *s = x->settings;
    r->memory = m->memory;
    r->cpu = m->cpu;
    struct exec_load load = exec_runs_load(x, NULL);
    bool memory = s->memory_max && load.memory > s->memory_max;
    bool cpu = s->cpu_max && load.cpu > s->cpu_max;
    if (memory || cpu)
        refuse(r, PLAN_NO_ROOM,
               memory ? STR("it takes more memory than --max-memory leaves")
                      : STR("it takes more than --max-cpu leaves"));
    r->too_large = (memory && m->memory > s->memory_max) || (cpu && m->cpu > s->cpu_max);
    if (r->too_large)
        log_warn("pod %.*s requests more than this executor may use in all; its job goes back",
                 STR_ARG(m->name));
    return !memory && !cpu;
}

static void create(struct executor *x, struct exec_run *r)
{
    struct arena a = {0};
    struct buf path = {0};
    struct pod_manifest m;
    struct err e = make_manifest(x, r, &a, &m);
    if (e.code != ERR_OK) {
        refuse(r, PLAN_REFUSED, str_from(e.msg));
        r->malformed = true;
        arena_fini(&a);
        return;
    }
    if (!fits(x, r, &m)) {
        arena_fini(&a);
        return;
    }
    free(r->name);
    free(r->namespace);
    r->name = alloc_text(m.name.at, m.name.len);
    r->namespace = alloc_text(m.namespace.at, m.namespace.len);
    r->plan.creating = r->plan.tried = true;
    x->creating++;
    ask(x, KUBE_CREATE, pods_path(&path, r->namespace, (struct str){0}), m.body, on_created,
        asking(x, r));
    buf_fini(&path);
    arena_fini(&a);
}

void exec_pods_create(struct executor *x, struct exec_run *r)
{
    must(!r->plan.creating);
    if (r->ready == EXEC_READY_ASKED)
        create(x, r);
    else
        ask_ready(x, r);
}

/* Ours are deleted by their own plan, at once if they are in the way; others are asked for anew. */
void exec_pods_clear(struct executor *x, struct exec_run *r)
{
    for (struct exec_run *o = idmap_get(&x->by_job, r->job); o; o = o->next)
        if (o != r) {
            exec_runs_lose(x, o, "a later run has begun");
            if (!o->cleared)
                exec_wake(x); /* its turn may have been before this one's */
            o->cleared = true;
        }
    r->plan.not_before = when_after(when_mono(), CLEAR_EVERY);
    if (r->ready_busy) {
        r->ready = EXEC_READY_ASKING;
        r->plan.creating = true;
        x->creating++;
        ask_pods_of_job(x, r);
    }
}

/* --- deleting --- */

static void on_deleted(void *ctx, const struct kube_answer *a)
{
    struct executor *x;
    struct exec_run *r = answered(ctx, &x);
    if (!r)
        return;
    /* 409: a pod of that name is there, with another uid. */
    if (a->reason == KUBE_ANSWER_NOT_FOUND || a->reason == KUBE_ANSWER_CONFLICT) {
        exec_watch_gone(x, r);
    } else if (a->reason == KUBE_ANSWER_OK) {
        r->tries = 0;
        x->counters.deleted++;
    } else {
        if (!kube_answer_is_passing(a->reason))
            log_error("pod %s cannot be deleted: %.*s", r->name, STR_ARG(a->message));
        r->asked_to_delete = r->plan.deleting = false;
        later(x, r, a->retry_after);
    }
}

void exec_pods_delete(struct executor *x, struct exec_run *r)
{
    struct buf path = {0}, body = {0};
    buf_lit(&body, "{\"kind\":\"DeleteOptions\",\"apiVersion\":\"v1\"");
    if (*r->uid) {
        buf_lit(&body, ",\"preconditions\":{\"uid\":");
        json_write_string(&body, str_from(r->uid));
        buf_byte(&body, '}');
    }
    if (r->plan.pod == PLAN_POD_NODE_LOST)
        buf_lit(&body, ",\"gracePeriodSeconds\":0");
    buf_byte(&body, '}');
    r->asked_to_delete = true;
    ask(x, KUBE_DELETE, pods_path(&path, r->namespace, str_from(r->name)), buf_view(&body),
        on_deleted, asking(x, r));
    buf_fini(&path);
    buf_fini(&body);
}

void exec_pods_replace(struct executor *x, struct exec_run *r)
{
    log_info("pod %s: no node fits but the one that its job is to stay off; it may run there now",
             r->name);
    r->replacing = true;
    /* After a crash it is created again: nobody else has deleted it. */
    if (r->pod_record)
        journal_remove(x->journal, r->pod_record);
    r->pod_record = NULL;
    exec_pods_delete(x, r);
}
