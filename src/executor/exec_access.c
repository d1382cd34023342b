/* SPDX-License-Identifier: Apache-2.0 */
#include "executor/exec_access.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "client/client.h"
#include "client/when.h"
#include "executor/exec_internal.h"
#include "kube/kube_trial.h"

static bool is_own(const struct executor *x, const char *namespace)
{
    return strcmp(namespace, x->namespaces[0].name) == 0;
}

/* A namespace that was just made has no service account yet, and no pod can be made in it. */
static bool lacks_account(const struct kube_answer *a)
{
    static const char words[] = "serviceaccount \"default\" not found";
    return a->message.at && memmem(a->message.at, a->message.len, words, sizeof words - 1);
}

bool exec_access_is_denial(const struct executor *x, const char *namespace,
                           const struct kube_answer *a)
{
    switch (a->reason) {
    case KUBE_ANSWER_FORBIDDEN:
    case KUBE_ANSWER_UNAUTHORIZED:
    case KUBE_ANSWER_NO_CREDENTIALS:
    case KUBE_ANSWER_UNTRUSTED:
        return true;
    case KUBE_ANSWER_ADMISSION:
        return lacks_account(a);
    /* One that only a payload names is the payload's fault. */
    case KUBE_ANSWER_NOT_FOUND:
    case KUBE_ANSWER_NAMESPACE_TERMINATING:
        return is_own(x, namespace);
    default:
        return false;
    }
}

static void describe(const struct executor *x, const char *namespace, const struct kube_answer *a,
                     struct buf *b)
{
    buf_print(b, "executor %s may not create pods in namespace %s", x->settings->name, namespace);
    if (a->message.len)
        buf_print(b, ": %.*s", STR_ARG(a->message));
    else
        buf_print(b, ": status %ld", a->status);
}

static void say(const struct executor *x, const char *namespace, const struct kube_answer *a)
{
    if (a->reason == KUBE_ANSWER_FORBIDDEN)
        log_error(
            "%s; it takes no jobs until it may. `tenax executor --check` writes the Role that "
            "grants it (kubectl apply -n %s -f -)",
            x->access.why, namespace);
    else
        log_error("%s; it takes no jobs until it may", x->access.why);
}

static void ask_later(struct executor *x, span at_least)
{
    span d = exec_backoff(x, x->access.tries++);
    x->access.ask_at = when_after(when_mono(), at_least.ms > d.ms ? at_least : d);
}

void exec_access_deny(struct executor *x, const char *namespace, const struct kube_answer *a)
{
    struct exec_access *now = &x->access;
    now->denied++;
    /* Another namespace that payloads may name: pods can still be made in the own one. */
    if (!is_own(x, namespace)) {
        log_warn("pods cannot be created in namespace %s: %.*s", namespace, STR_ARG(a->message));
        return;
    }
    bool known = exec_access_is_suspended(now);
    now->state = EXEC_ACCESS_DENIED;
    struct buf why = {0};
    describe(x, namespace, a, &why);
    buf_byte(&why, '\0');
    bool news = !now->why || strcmp(now->why, why.at) != 0;
    if (news) {
        free(now->why);
        now->why = alloc_text(why.at, why.len - 1);
        say(x, namespace, a);
    }
    buf_fini(&why);
    if (!known)
        ask_later(x, a->retry_after);
    exec_wake(x);
}

void exec_access_grant(struct executor *x)
{
    struct exec_access *now = &x->access;
    if (now->state != EXEC_ACCESS_GRANTED)
        log_info("pods can be created again in namespace %s", x->namespaces[0].name);
    exec_access_fini(x);
    now->state = EXEC_ACCESS_GRANTED;
    now->denied = now->tries = 0;
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
    if (exec_access_is_denial(x, own, a)) {
        exec_access_deny(x, own, a);
        now->denied--; /* it was no pod of a job */
        ask_later(x, a->retry_after);
    } else if (kube_answer_is_not_of_request(a->reason)) {
        ask_later(x, a->retry_after); /* no answer */
    } else {
        now->state = EXEC_ACCESS_TRIED;
    }
}

void exec_access_turn(struct executor *x, mono now, mono *next)
{
    struct exec_access *access = &x->access;
    if (!exec_access_is_suspended(access) || access->asking || x->stopping)
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

void exec_access_fini(struct executor *x)
{
    free(x->access.why);
    x->access.why = NULL;
}
