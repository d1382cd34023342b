/* SPDX-License-Identifier: Apache-2.0 */
#include "executor/exec_check.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/log.h"
#include "base/must.h"
#include "client/subcommand.h"
#include "executor/exec_internal.h"
#include "kube/kube_review.h"
#include "kube/kube_trial.h"

#define TRIES_MAX 3
#define ROLE      "tenax-executor"

/* What an executor does: exec_pods.c, exec_watch.c and exec_finish.c. */
static const struct kube_review_access accesses[] = {
    {"create", "", "pods", NULL}, {"get", "", "pods", NULL},    {"list", "", "pods", NULL},
    {"watch", "", "pods", NULL},  {"delete", "", "pods", NULL}, {"get", "", "events", NULL},
    {"list", "", "events", NULL}, {"get", "", "pods", "log"},
};

/* One namespace after the other. */
struct check {
    struct executor *x;
    size_t namespace;
    size_t lacking; /* namespaces in which something is missing */
    struct buf *out, *words;
    int code;
};

static const char *namespace_of(const struct check *c)
{
    return c->x->namespaces[c->namespace].name;
}

static void end(struct check *c, int code)
{
    c->code = code;
    uv_stop(c->x->loop);
}

/* --- what keeps it from asking --- */

static bool is_silence(enum kube_answer_reason reason)
{
    return reason == KUBE_ANSWER_UNREACHABLE || reason == KUBE_ANSWER_LOST ||
           reason == KUBE_ANSWER_TIMED_OUT;
}

/* Nothing else can be asked either. */
static bool is_fault(enum kube_answer_reason reason)
{
    return reason == KUBE_ANSWER_UNTRUSTED || reason == KUBE_ANSWER_UNAUTHORIZED ||
           reason == KUBE_ANSWER_NO_CREDENTIALS || is_silence(reason);
}

static const char *why_of(enum kube_answer_reason reason)
{
    switch (reason) {
    case KUBE_ANSWER_UNTRUSTED:
        return "a certificate was refused";
    case KUBE_ANSWER_UNAUTHORIZED:
        return "the API server does not accept the credentials (401)";
    case KUBE_ANSWER_NO_CREDENTIALS:
        return "there are no credentials to show to the API server";
    case KUBE_ANSWER_UNREACHABLE:
    case KUBE_ANSWER_LOST:
    case KUBE_ANSWER_TIMED_OUT:
        return "the API server does not answer";
    case KUBE_ANSWER_MALFORMED:
        return "this is not the answer of an API server";
    case KUBE_ANSWER_NOT_FOUND:
        return "the server knows no pods";
    case KUBE_ANSWER_FORBIDDEN:
        return "the API server forbids to ask";
    default:
        return "the API server refuses the question";
    }
}

static bool has_credentials(const struct kube_config *k)
{
    return k->token || k->token_file || k->user || k->exec.command || k->client_cert.len ||
           k->client_cert_file;
}

static void add_remedy(const struct kube_config *k, enum kube_answer_reason reason, struct buf *b)
{
    bool in_place =
        is_silence(reason) || reason == KUBE_ANSWER_MALFORMED || reason == KUBE_ANSWER_NOT_FOUND;
    if (reason == KUBE_ANSWER_UNTRUSTED && k->insecure)
        buf_lit(b, "see client-certificate");
    else if (reason == KUBE_ANSWER_UNTRUSTED)
        buf_lit(b, "see certificate-authority, or client-certificate,");
    else if (in_place && strncmp(k->server, "http:", 5) == 0)
        buf_lit(b, "see server (http or https?)");
    else if (in_place)
        buf_lit(b, "see server");
    else if (!k->user_name)
        buf_lit(b, "there is no user");
    else
        buf_print(b, "%s user '%.100s'", has_credentials(k) ? "see" : "there are no credentials of",
                  k->user_name);
    buf_print(b, " in %s", k->file);
    if (k->context)
        buf_print(b, ", context %s", k->context);
    buf_byte(b, '\n');
}

int exec_check_fault(const struct kube_config *k, enum kube_answer_reason reason,
                     struct str message, struct buf *words)
{
    buf_print(words, "%s: %.*s\n", why_of(reason), STR_ARG(message));
    add_remedy(k, reason, words);
    return is_silence(reason) ? CLI_UNREACHABLE : CLI_REFUSED;
}

/* --- what is missing --- */

static void ask_namespace(struct check *c);

static void next_namespace(struct check *c)
{
    if (++c->namespace < c->x->namespace_count) {
        ask_namespace(c);
        return;
    }
    if (c->lacking) {
        end(c, CLI_REFUSED);
        return;
    }
    buf_print(c->words, "ok: pods may be run at %s in ", c->x->config.server);
    for (size_t i = 0; i < c->x->namespace_count; i++)
        buf_print(c->words, "%s%s", i ? ", " : "namespace ", c->x->namespaces[i].name);
    buf_byte(c->words, '\n');
    end(c, CLI_OK);
}

static void list_missing(struct check *c, const struct kube_review_result *results, size_t count)
{
    const char *before = "missing: ";
    buf_print(c->words, "namespace %s: ", namespace_of(c));
    for (size_t i = 0; i < count; i++) {
        if (results[i].allowed)
            continue;
        buf_str(c->words, str_from(before));
        kube_review_name(c->words, results[i].access);
        before = ", ";
    }
    buf_byte(c->words, '\n');
    c->lacking++;
    if (c->out->len)
        buf_lit(c->out, "---\n");
    kube_review_write_role(c->out, ROLE, results, count);
}

static void on_tried(void *ctx, const struct kube_review_result *results, size_t count)
{
    struct check *c = ctx;
    size_t allowed = 0;
    for (size_t i = 0; i < count; i++) {
        if (!results[i].answered) {
            end(c, exec_check_fault(&c->x->config, results[i].reason, results[i].why, c->words));
            return;
        }
        allowed += results[i].allowed;
    }
    if (allowed < count)
        list_missing(c, results, count);
    next_namespace(c);
}

/* A server that was reached and does not answer the question. */
static bool is_mute(const struct kube_review_result *results, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!results[i].answered && !kube_answer_is_not_of_request(results[i].reason))
            return true;
    return false;
}

static void on_review(void *ctx, const struct kube_review_result *results, size_t count)
{
    struct check *c = ctx;
    if (is_mute(results, count))
        kube_trial_start(c->x->kube, namespace_of(c), accesses, COUNT(accesses), on_tried, c);
    else
        on_tried(ctx, results, count);
}

/* Whether it exists is not for everybody to know; then the review alone says what may be done. */
static void on_namespace(void *ctx, const struct kube_answer *a)
{
    struct check *c = ctx;
    if (is_fault(a->reason)) {
        end(c, exec_check_fault(&c->x->config, a->reason, a->message, c->words));
    } else if (a->reason == KUBE_ANSWER_NOT_FOUND && str_eq(a->kind, STR("namespaces"))) {
        buf_print(c->words, "namespace %s: does not exist\n", namespace_of(c));
        c->lacking++;
        next_namespace(c);
    } else {
        kube_review_start(c->x->kube, namespace_of(c), accesses, COUNT(accesses), on_review, c);
    }
}

static void ask_namespace(struct check *c)
{
    struct buf path = {0};
    buf_lit(&path, "/api/v1/namespaces");
    kube_client_segment(&path, str_from(namespace_of(c)));
    buf_byte(&path, '\0');
    kube_client_call(c->x->kube, &(struct kube_client_spec){.verb = KUBE_GET,
                                                            .path = path.at,
                                                            .retry = KUBE_CLIENT_ANY,
                                                            .tries_max = TRIES_MAX,
                                                            .done = on_namespace,
                                                            .ctx = c});
    buf_fini(&path);
}

int exec_check(const struct exec_settings *settings, struct buf *out, struct buf *words)
{
    struct executor x = {.settings = settings, .loop = uv_default_loop()};
    struct check c = {.x = &x, .out = out, .words = words, .code = CLI_REFUSED};
    x.rng = rng_from_seed(0); /* of one process that waits for nobody else */
    signal(SIGPIPE, SIG_IGN);
    struct err e = exec_cluster_open(&x);
    if (e.code == ERR_OK) {
        ask_namespace(&c);
        uv_run(x.loop, UV_RUN_DEFAULT);
    } else {
        buf_print(words, "%s\n", e.msg);
        c.code = e.code == ERR_USAGE ? CLI_USAGE : CLI_REFUSED;
    }
    if (x.kube)
        kube_client_free(x.kube);
    uv_run(x.loop, UV_RUN_DEFAULT);
    exec_cluster_fini(&x);
    return c.code;
}
