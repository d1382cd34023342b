/* SPDX-License-Identifier: Apache-2.0 */
#include "executor/exec_access.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "client/client.h"
#include "client/when.h"
#include "executor/exec_internal.h"
#include "executor/pod_fault.h"
#include "kube/kube_review.h"
#include "kube/kube_trial.h"

/* So many creations in a row have to fail, for so long, until the cluster is taken for broken: a
 * moment's fault is over by then. */
#define FAULTS_MANY ((uint32_t)5)
#define FAULTY_FOR  ((span){2000})
/* How often the right to create pods is asked for while no creation shows it. */
#define REVIEW_EVERY ((span){60000})

bool exec_access_is_own(const struct executor *x, const char *namespace)
{
    return strcmp(namespace, x->namespaces[0].name) == 0;
}

/* Who the API server says may not: User "u"; empty if it does not say. */
static struct str user_of(struct str message)
{
    static const char words[] = "User \"";
    const size_t len = sizeof words - 1;
    const char *at = message.at ? memmem(message.at, message.len, words, len) : NULL;
    if (!at)
        return (struct str){0};
    at += len;
    const char *end = memchr(at, '"', (size_t)(message.at + message.len - at));
    return end ? (struct str){at, (size_t)(end - at)} : (struct str){0};
}

/* What grants the right. */
static void add_remedy(const char *namespace, struct str message, struct buf *b)
{
    struct str user = user_of(message);
    buf_print(b,
              "; `tenax executor --check | kubectl apply -f -` and `kubectl -n %s create "
              "rolebinding tenax-executor --role=tenax-executor --user=",
              namespace);
    if (user.len)
        buf_print(b, "%.*s", STR_ARG(user));
    else
        buf_lit(b, "USER");
    buf_lit(b, "` grant it");
}

static void describe(const struct executor *x, const char *namespace, const struct kube_answer *a,
                     struct buf *b)
{
    buf_print(b, "executor %s may not create pods in namespace %s", x->settings->name, namespace);
    if (a->message.len)
        buf_print(b, ": %.*s", STR_ARG(a->message));
    else
        buf_print(b, ": status %ld", a->status);
    if (a->reason == KUBE_ANSWER_FORBIDDEN && !a->foreign)
        add_remedy(namespace, a->message, b);
}

static void ask_later(struct executor *x, span at_least)
{
    span d = exec_backoff(x, x->access.tries++);
    x->access.ask_at = when_after(when_mono(), at_least.ms > d.ms ? at_least : d);
}

/* No jobs are taken from now on, and whoever waits for one is told why. */
static void suspend(struct executor *x, struct buf *why, span retry_after)
{
    struct exec_access *now = &x->access;
    bool already = exec_access_is_suspended(now);
    now->state = EXEC_ACCESS_DENIED;
    buf_byte(why, '\0');
    if (!now->why || strcmp(now->why, why->at) != 0) {
        free(now->why);
        now->why = alloc_text(why->at, why->len - 1);
        log_error("%s; it takes no jobs until that has changed", now->why);
    }
    if (!already)
        ask_later(x, retry_after);
    exec_wake(x);
}

void exec_access_deny(struct executor *x, const char *namespace, const struct kube_answer *a)
{
    struct buf why = {0};
    x->access.denied++;
    x->access.known = true;
    /* Another namespace that payloads may name: pods can still be made in the own one. */
    if (!exec_access_is_own(x, namespace)) {
        log_warn("pods cannot be created in namespace %s: %.*s", namespace, STR_ARG(a->message));
        return;
    }
    describe(x, namespace, a, &why);
    suspend(x, &why, a->retry_after);
    buf_fini(&why);
}

void exec_access_fault(struct executor *x, const char *namespace, struct str why)
{
    struct exec_access *now = &x->access;
    if (!exec_access_is_own(x, namespace))
        return;
    if (now->faults++ == 0)
        now->faulty_since = when_mono();
    bool lasting = now->faults >= FAULTS_MANY &&
                   when_after(now->faulty_since, FAULTY_FOR).ns <= when_mono().ns;
    if (exec_access_is_suspended(now) || !(lasting || now->state == EXEC_ACCESS_TRIED))
        return;
    struct buf words = {0};
    buf_print(&words, "executor %s cannot create pods in namespace %s%.*s", x->settings->name,
              namespace, STR_ARG(why));
    suspend(x, &words, (span){0});
    buf_fini(&words);
}

void exec_access_grant(struct executor *x)
{
    struct exec_access *now = &x->access;
    if (now->state != EXEC_ACCESS_GRANTED)
        log_info("pods can be created again in namespace %s", x->namespaces[0].name);
    exec_access_fini(x);
    now->state = EXEC_ACCESS_GRANTED;
    now->denied = now->tries = now->faults = 0;
    now->known = true;
    now->review_at = when_after(when_mono(), REVIEW_EVERY);
}

static bool awaits_pod(const struct executor *x)
{
    LIST_EACH (n, &x->runs) {
        const struct plan_run *p = &LIST_OF(n, struct exec_run, node)->plan;
        if (p->lease == PLAN_HELD && p->pod == PLAN_POD_NONE)
            return true;
    }
    return false;
}

size_t exec_access_most(const struct executor *x, size_t n)
{
    switch (x->access.state) {
    case EXEC_ACCESS_GRANTED:
        return n;
    case EXEC_ACCESS_DENIED:
        return 0;
    case EXEC_ACCESS_TRIED:
        break;
    }
    return n && !awaits_pod(x) ? 1 : 0;
}

/* --- asking again --- */

static void on_tried(void *ctx, const struct kube_answer *a)
{
    struct executor *x = ctx;
    struct exec_access *now = &x->access;
    const char *own = x->namespaces[0].name;
    now->asking = false;
    exec_wake(x);
    if (!exec_access_is_suspended(now))
        return;
    enum pod_fault_reaction reaction = pod_fault_of(a, true).reaction;
    if (reaction == POD_FAULT_SUSPEND) {
        exec_access_deny(x, own, a);
        now->denied--; /* it was no pod of a job */
        ask_later(x, a->retry_after);
    } else if (reaction == POD_FAULT_GIVE_BACK) {
        ask_later(x, a->retry_after); /* no answer */
    } else {
        now->state = EXEC_ACCESS_TRIED;
    }
}

/* --- asking before a job has to find out --- */

static void on_reviewed(void *ctx, const struct kube_review_result *r, size_t count)
{
    struct executor *x = ctx;
    struct exec_access *now = &x->access;
    const char *own = x->namespaces[0].name;
    (void)count;
    now->review = NULL;
    now->review_at = when_after(when_mono(), REVIEW_EVERY);
    /* One that does not answer reviews shows it by the first pod. */
    if (!r->answered || now->state != EXEC_ACCESS_GRANTED)
        return;
    now->known = true;
    exec_wake(x);
    if (r->allowed)
        return;
    struct buf words = {0};
    buf_print(&words, "executor %s may not create pods in namespace %s: %s%.*s", x->settings->name,
              own, r->why.len ? "" : "the API server says so", STR_ARG(r->why));
    add_remedy(own, r->why, &words);
    suspend(x, &words, (span){0});
    buf_fini(&words);
}

static void review(struct executor *x, mono now, mono *next)
{
    static const struct kube_review_access create = {"create", "", "pods", NULL};
    struct exec_access *access = &x->access;
    if (access->review || access->state != EXEC_ACCESS_GRANTED || !exec_watch_usable(x))
        return;
    if (access->review_at.ns > now.ns) {
        exec_sooner(next, access->review_at);
        return;
    }
    access->review = kube_review_start(x->kube, x->namespaces[0].name, &create, 1, on_reviewed, x);
}

void exec_access_turn(struct executor *x, mono now, mono *next)
{
    struct exec_access *access = &x->access;
    if (x->stopping)
        return;
    review(x, now, next);
    if (!exec_access_is_suspended(access) || access->asking)
        return;
    if (access->ask_at.ns > now.ns) {
        exec_sooner(next, access->ask_at);
        return;
    }
    struct buf path = {0};
    buf_lit(&path, "/api/v1/namespaces");
    client_segment(&path, str_from(x->namespaces[0].name));
    buf_lit(&path, "/pods" KUBE_TRIAL_QUERY);
    access->asking = true;
    kube_client_call(x->kube, &(struct kube_client_spec){.verb = KUBE_CREATE,
                                                         .path = client_path(&path),
                                                         .body = STR(KUBE_TRIAL_POD),
                                                         .retry = KUBE_CLIENT_ONCE,
                                                         .done = on_tried,
                                                         .ctx = x});
    buf_fini(&path);
}

void exec_access_stop(struct executor *x)
{
    if (x->access.review)
        kube_review_cancel(x->access.review);
    x->access.review = NULL;
}

void exec_access_fini(struct executor *x)
{
    free(x->access.why);
    x->access.why = NULL;
}
