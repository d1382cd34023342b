/* SPDX-License-Identifier: Apache-2.0 */

/* For client.test.js: follows the pods of a namespace by kube/, and does what it is told on
 * standard input. Everything that happens is a line on standard output.
 *
 *   kube_probe KUBECONFIG NAMESPACE PAGE STALL_MS
 *
 *   call VERB PATH [BODY]    a request; its answer: "answer REASON STATUS TRIES VERSION MESSAGE"
 *   once VERB PATH [BODY]    the same without another try
 *   review                   "access VERB RESOURCE yes|no|?" for what the executor needs, then
 * "role …" counters                 "counters LISTS STARTS RESTARTS EXPIRED STALLS RETRIES" quit
 *
 * Of the watch: "changed NAME PHASE", "removed NAME", "synced COUNT", "failed REASON MESSAGE". */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/array.h"
#include "base/must.h"
#include "kube/kube_client.h"
#include "kube/kube_pod.h"
#include "kube/kube_review.h"
#include "kube/kube_watch.h"

static uv_loop_t loop;
static uv_pipe_t input;
static struct kube_config config;
static struct kube_client *client;
static struct kube_watch *watch;
static const char *namespace;
static struct buf line;

static const struct kube_review_access accesses[] = {
    {"create", "", "pods", NULL}, {"get", "", "pods", NULL},    {"list", "", "pods", NULL},
    {"watch", "", "pods", NULL},  {"delete", "", "pods", NULL}, {"list", "", "events", NULL},
    {"get", "", "pods", "log"},
};

static instant now_of(void *ctx)
{
    (void)ctx;
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (instant){(int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000};
}

static void say(const char *what, struct str text)
{
    printf("%s %.*s\n", what, STR_ARG(text));
    fflush(stdout);
}

/* --- the watch --- */

static void on_changed(void *ctx, const struct kube_watch_object *o)
{
    (void)ctx;
    struct arena a = {0};
    struct kube_pod pod;
    struct err e = kube_pod_read(o->json, &a, &pod);
    if (e.code != ERR_OK)
        say("unreadable", str_from(e.msg));
    else
        printf("changed %.*s %.*s\n", STR_ARG(o->name), STR_ARG(pod.phase_name));
    fflush(stdout);
    arena_fini(&a);
}

static void on_removed(void *ctx, const struct kube_watch_object *o)
{
    (void)ctx;
    say("removed", o->name);
}

static void on_synced(void *ctx)
{
    (void)ctx;
    printf("synced %zu\n", kube_watch_count(watch));
    fflush(stdout);
}

static void on_failed(void *ctx, const struct kube_answer *answer)
{
    (void)ctx;
    printf("failed %s %.*s\n", kube_answer_reason_name(answer->reason), STR_ARG(answer->message));
    fflush(stdout);
}

/* --- commands --- */

static void on_answer(void *ctx, const struct kube_answer *a)
{
    (void)ctx;
    printf("answer %s %ld %d %d %.*s\n", kube_answer_reason_name(a->reason), a->status, a->tries,
           a->version, STR_ARG(a->message));
    fflush(stdout);
}

static void call(char *args, enum kube_client_retry retry)
{
    char *verb = strtok(args, " "), *path = strtok(NULL, " "), *body = strtok(NULL, "");
    struct kube_client_spec spec = {.path = path,
                                    .body = str_from(body),
                                    .retry = retry,
                                    .timeout = {15000},
                                    .done = on_answer};
    must(verb && path);
    for (spec.verb = 0; strcmp(kube_counters_verb_name(spec.verb), verb) != 0;)
        spec.verb++;
    kube_client_call(client, &spec);
}

static void on_review(void *ctx, const struct kube_review_result *results, size_t count)
{
    (void)ctx;
    struct buf b = {0};
    for (size_t i = 0; i < count; i++) {
        buf_lit(&b, "access ");
        kube_review_name(&b, results[i].access);
        buf_print(&b, " %s\n", !results[i].answered ? "?" : results[i].allowed ? "yes" : "no");
    }
    buf_lit(&b, "role ");
    size_t begin = b.len;
    kube_review_write_role(&b, "tenax-executor", results, count);
    for (size_t i = begin; i < b.len; i++)
        b.at[i] = b.at[i] == '\n' ? '|' : b.at[i];
    printf("%.*s\n", (int)b.len, b.at);
    fflush(stdout);
    buf_fini(&b);
}

static void quit(void)
{
    kube_watch_free(watch);
    kube_client_free(client);
    uv_close((uv_handle_t *)&input, NULL);
}

static void obey(char *text)
{
    const struct kube_counters *c = kube_client_counters(client);
    if (strncmp(text, "call ", 5) == 0) {
        call(text + 5, KUBE_CLIENT_BY_VERB);
    } else if (strncmp(text, "once ", 5) == 0) {
        call(text + 5, KUBE_CLIENT_ONCE);
    } else if (strcmp(text, "review") == 0) {
        kube_review_start(client, namespace, accesses, COUNT(accesses), on_review, NULL);
    } else if (strcmp(text, "counters") == 0) {
        printf("counters %llu %llu %llu %llu %llu %llu\n", (unsigned long long)c->lists,
               (unsigned long long)c->watch_starts, (unsigned long long)c->watch_restarts,
               (unsigned long long)c->watch_expired, (unsigned long long)c->watch_stalls,
               (unsigned long long)c->retries);
        fflush(stdout);
    } else {
        must(strcmp(text, "quit") == 0);
        quit();
    }
}

static void on_room(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
    (void)handle;
    (void)suggested;
    *buf = uv_buf_init(buf_room(&line, 4096), 4096);
}

static void on_input(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    (void)buf;
    if (n < 0) {
        quit();
        return;
    }
    line.len += (size_t)n;
    for (char *lf; !uv_is_closing((uv_handle_t *)stream) && line.len &&
                   (lf = memchr(line.at, '\n', line.len));) {
        *lf = '\0';
        obey(line.at);
        buf_drop(&line, (size_t)(lf + 1 - line.at));
    }
}

int main(int argc, char **argv)
{
    must(argc == 5);
    struct err err = kube_config_load(argv[1], NULL, &config);
    if (err.code != ERR_OK) {
        say("config", str_from(err.msg));
        return 1;
    }
    must(uv_loop_init(&loop) == 0 && uv_pipe_init(&loop, &input, 0) == 0);
    must(uv_pipe_open(&input, 0) == 0);
    struct kube_client_settings settings = kube_client_defaults();
    settings.now = now_of;
    settings.seed = 7;
    settings.backoff_first = (span){20};
    settings.backoff_max = (span){200};
    settings.token_age = (span){50};
    client = kube_client_new(&loop, &config, &settings);
    namespace = argv[2];
    struct buf path = {0};
    buf_lit(&path, "/api/v1/namespaces");
    kube_client_segment(&path, str_from(namespace));
    buf_lit(&path, "/pods");
    buf_byte(&path, '\0');
    struct kube_watch_spec spec = kube_watch_defaults();
    spec.path = path.at;
    spec.page = (int)strtol(argv[3], NULL, 10);
    spec.stall = (span){strtol(argv[4], NULL, 10)};
    spec.changed = on_changed;
    spec.removed = on_removed;
    spec.synced = on_synced;
    spec.failed = on_failed;
    watch = kube_watch_new(client, &spec);
    uv_read_start((uv_stream_t *)&input, on_room, on_input);
    uv_run(&loop, UV_RUN_DEFAULT);
    must(uv_loop_close(&loop) == 0);
    kube_config_fini(&config);
    buf_fini(&path);
    buf_fini(&line);
    return 0;
}
