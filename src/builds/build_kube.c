/* SPDX-License-Identifier: Apache-2.0 */
#include "builds/build_kube.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/json.h"
#include "base/list.h"
#include "base/must.h"
#include "client/when.h"
#include "kube/kube_client.h"
#include "net/fetch.h"
#include "wire/document.h"

#define PODS_MAX 64 /* of one build that are looked at */

struct cluster {
    struct build_kube base;
    struct kube_config config;
    struct kube_client *client;
    struct buf pods; /* the path of the pods of the namespace */
    struct list asks;
};

enum ask_kind { ASK_CREATE, ASK_LIST, ASK_REMOVE, ASK_EXISTS };

/* A request of the worker: one call to the API server, or two (ASK_EXISTS). */
struct ask {
    struct list node;
    struct cluster *cluster;
    struct kube_client_call *call;
    build_kube_answered *done;
    void *ctx;
    enum ask_kind kind;
    char build[]; /* label */
};

/* --- answers --- */

/* Ends the ask. Its user may start others, but has done with this one. */
static void finish(struct ask *k, const struct build_kube_answer *a)
{
    build_kube_answered *done = k->done;
    void *ctx = k->ctx;
    list_unlink(&k->node);
    free(k);
    done(ctx, a);
}

static const char *verb_of(enum ask_kind kind)
{
    return kind == ASK_CREATE   ? "Failed to create pod"
           : kind == ASK_REMOVE ? "Failed to delete pod"
                                : "Failed to get pod status";
}

static bool says_status(struct str message)
{
    return message.len > 5 && memcmp(message.at, "HTTP ", 5) == 0;
}

/* The sentence begins as the original's do; then comes the status, since that is what people look
 * for. A message in words of our own has it already. */
static void refuse(struct ask *k, const struct kube_answer *answer)
{
    struct buf why = {0};
    struct build_kube_answer a = {.result = BUILD_KUBE_FAILED};
    if (answer->status == 403 || answer->status == 404)
        a.result = BUILD_KUBE_FINAL;
    buf_print(&why, "%s: ", verb_of(k->kind));
    if (answer->status && !says_status(answer->message))
        buf_print(&why, "%ld ", answer->status);
    buf_print(&why, "%.*s", STR_ARG(answer->message));
    buf_byte(&why, '\0');
    a.why = why.at;
    finish(k, &a);
    buf_fini(&why);
}

static struct err read_items(struct str list, struct arena *arena, struct kube_pod *pods,
                             size_t *count)
{
    struct str items, raw;
    bool more;
    *count = 0;
    TRY(json_member(list, STR("items"), &items));
    if (!items.len)
        return err_none();
    struct json_cursor c = json_open(items);
    TRY(json_enter_array(&c));
    for (;;) {
        TRY(json_next_element(&c, &more));
        if (!more)
            return json_close(&c);
        TRY(json_skip(&c, &raw));
        if (*count < PODS_MAX)
            TRY(kube_pod_read(raw, arena, &pods[(*count)++]));
    }
}

static void listed(struct ask *k, const struct kube_answer *answer)
{
    struct arena arena = {0};
    struct kube_pod pods[PODS_MAX];
    struct build_kube_answer a = {.result = BUILD_KUBE_DONE, .pods = pods};
    struct err e = read_items(answer->object, &arena, pods, &a.count);
    if (e.code != ERR_OK) {
        a.result = BUILD_KUBE_FAILED;
        a.why = e.msg;
    }
    finish(k, &a);
    arena_fini(&arena);
}

/* --- requests --- */

static void on_answer(void *ctx, const struct kube_answer *answer);

static void ask_send(struct ask *k, enum kube_counters_verb verb, struct str body)
{
    struct buf path = {0};
    buf_str(&path, buf_view(&k->cluster->pods));
    if (verb != KUBE_CREATE) {
        struct buf selector = {0};
        buf_print(&selector, "sdbuild=%s", k->build);
        buf_byte(&path, '\0');
        path.len--;
        kube_client_query(&path, "labelSelector", buf_view(&selector));
        buf_fini(&selector);
    }
    buf_byte(&path, '\0');
    struct kube_client_spec spec = {
        .verb = verb,
        .path = path.at,
        .body = body,
        .retry = KUBE_CLIENT_ONCE,
        .done = on_answer,
        .ctx = k,
    };
    k->call = kube_client_call(k->cluster->client, &spec);
    buf_fini(&path);
}

static void on_answer(void *ctx, const struct kube_answer *answer)
{
    struct ask *k = ctx;
    k->call = NULL;
    if (k->kind == ASK_CREATE && answer->status == 409) {
        /* A pod of that name: of this build, since names follow from builds, unless someone has
         * taken the name. */
        k->kind = ASK_EXISTS;
        ask_send(k, KUBE_LIST, (struct str){0});
        return;
    }
    if (answer->reason != KUBE_ANSWER_OK) {
        refuse(k, answer);
        return;
    }
    if (k->kind == ASK_LIST || k->kind == ASK_EXISTS)
        listed(k, answer);
    else
        finish(k, &(struct build_kube_answer){.result = BUILD_KUBE_DONE});
}

/* The pod's name was taken: by whom? */
struct exists {
    build_kube_answered *done;
    void *ctx;
};

static struct ask *ask_new(struct build_kube *base, enum ask_kind kind, struct str build,
                           build_kube_answered *done, void *ctx)
{
    struct ask *k = alloc_zero(sizeof *k + build.len + 1);
    k->cluster = (struct cluster *)base;
    k->kind = kind;
    k->done = done;
    k->ctx = ctx;
    memcpy(k->build, build.at, build.len);
    list_append(&k->cluster->asks, &k->node);
    return k;
}

static void on_created(void *ctx, const struct build_kube_answer *a)
{
    struct exists *e = ctx;
    struct build_kube_answer answer = *a;
    bool listed_pods = a->result == BUILD_KUBE_DONE && a->pods, lives = false;
    for (size_t i = 0; i < a->count; i++)
        lives |= !instant_is_set(a->pods[i].deleted_at);
    /* One that is being deleted keeps the name for a while: that passes. */
    if (listed_pods && !lives) {
        answer.result = BUILD_KUBE_FAILED;
        answer.why = a->count == 0 ? "Failed to create pod: 409 its name is taken by a pod that is "
                                     "not of this build"
                                   : "Failed to create pod: 409 the build's earlier pod is still "
                                     "being deleted";
    }
    e->done(e->ctx, &answer);
    free(e);
}

static void create(struct build_kube *base, struct str build, struct str manifest,
                   build_kube_answered *done, void *ctx)
{
    struct exists *e = ALLOC(struct exists);
    *e = (struct exists){done, ctx};
    ask_send(ask_new(base, ASK_CREATE, build, on_created, e), KUBE_CREATE, manifest);
}

static void list(struct build_kube *base, struct str build, build_kube_answered *done, void *ctx)
{
    ask_send(ask_new(base, ASK_LIST, build, done, ctx), KUBE_LIST, (struct str){0});
}

static void remove_pods(struct build_kube *base, struct str build, build_kube_answered *done,
                        void *ctx)
{
    ask_send(ask_new(base, ASK_REMOVE, build, done, ctx), KUBE_DELETE, (struct str){0});
}

static const struct kube_counters *counters(const struct build_kube *base)
{
    return kube_client_counters(((const struct cluster *)base)->client);
}

/* Pods' users are told nothing: what was being asked is forgotten. */
static void close_cluster(struct build_kube *base)
{
    struct cluster *c = (struct cluster *)base;
    while (!list_is_empty(&c->asks)) {
        struct ask *k = LIST_OF(c->asks.next, struct ask, node);
        list_unlink(&k->node);
        if (k->done == on_created)
            free(k->ctx);
        free(k);
    }
    kube_client_free(c->client);
    kube_config_fini(&c->config);
    buf_fini(&c->pods);
    free(c);
}

static const struct build_kube_ops ops = {create, list, remove_pods, counters, close_cluster};

/* --- settings --- */

static const char *keep(struct cluster *c, const char *text)
{
    return arena_copy(&c->config.arena, (struct str){text, strlen(text) + 1}).at;
}

/* The credentials that a pod is given lie in files; outside of one there are none. */
static const char *pod_file(struct cluster *c, const char *name)
{
    struct buf path = {0};
    const char *out = NULL;
    buf_print(&path, "%s/%s", KUBE_CONFIG_POD_FOLDER, name);
    buf_byte(&path, '\0');
    if (access(path.at, R_OK) == 0)
        out = keep(c, path.at);
    buf_fini(&path);
    return out;
}

static struct err set_server(struct cluster *c, const char *host)
{
    struct buf url = {0};
    if (strncmp(host, "https://", 8) == 0)
        host += 8;
    buf_print(&url, "https://%s", host);
    while (url.at[url.len - 1] == '/')
        url.len--;
    buf_byte(&url, '\0');
    c->config.server = keep(c, url.at);
    buf_fini(&url);
    /* Something before the '@' may be a password. */
    if (strchr(host, '@'))
        return err_make(ERR_USAGE, "K8S_HOST must be HOST[:PORT], without '@'");
    const char *wrong =
        strstr(host, "://") ? "it has a scheme other than https" : fetch_bad_url(c->config.server);
    return wrong ? err_make(ERR_USAGE, "K8S_HOST: '%.100s' is no host: %s", host, wrong)
                 : err_none();
}

static struct err configure(struct cluster *c, const struct build_settings *s)
{
    const char *token = build_text(s, BUILD_K8S_TOKEN), *ca = build_text(s, BUILD_K8S_CA_FILE);
    const char *system = getenv("SSL_CERT_FILE");
    TRY(set_server(c, build_text(s, BUILD_K8S_HOST)));
    c->config.file = "the settings";
    c->config.user_name = "serviceaccount";
    if (*token)
        c->config.token = keep(c, token);
    else
        c->config.token_file = pod_file(c, "token");
    c->config.ca_file = *ca ? keep(c, ca) : pod_file(c, "ca.crt");
    if (!c->config.ca_file && system && *system)
        c->config.ca_file = keep(c, system);
    if (c->config.ca_file && access(c->config.ca_file, R_OK) != 0)
        return err_make(ERR_USAGE, "K8S_CA_FILE: %.120s cannot be read", c->config.ca_file);
    if (build_bool(s, BUILD_K8S_INSECURE))
        kube_config_skip_verify(&c->config);
    return err_none();
}

static instant wall_clock(void *ctx)
{
    (void)ctx;
    return when_now();
}

struct err build_kube_new(uv_loop_t *loop, const struct build_settings *s, struct build_kube **out)
{
    struct cluster *c = ALLOC(struct cluster);
    struct kube_client_settings k = kube_client_defaults();
    c->base.ops = &ops;
    list_init(&c->asks);
    struct err e = configure(c, s);
    if (e.code != ERR_OK) {
        kube_config_fini(&c->config);
        free(c);
        return e;
    }
    k.now = wall_clock;
    k.timeout = (span){build_int(s, BUILD_API_TIMEOUT)};
    must(getrandom(&k.seed, sizeof k.seed, 0) == (ssize_t)sizeof k.seed);
    c->client = kube_client_new(loop, &c->config, &k);
    buf_print(&c->pods, "/api/v1/namespaces");
    kube_client_segment(&c->pods, str_from(build_text(s, BUILD_NAMESPACE)));
    buf_print(&c->pods, "/pods");
    *out = &c->base;
    return err_none();
}
