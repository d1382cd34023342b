/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/kube_client.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/list.h"
#include "base/log.h"
#include "base/must.h"
#include "kube/kube_auth.h"
#include "net/fetch.h"

#define TRIES_DEFAULT   5
#define BACKOFF_SHIFTS  16 /* doublings, at most */
#define RETRY_AFTER_MAX 10 /* times backoff_max */
#define HEADERS_MAX     72

struct kube_client {
    uv_loop_t *loop;
    const struct kube_config *config;
    struct kube_client_settings settings;
    struct kube_counters counters;
    struct fetcher *fetcher;
    struct kube_auth *auth;
    struct rng rng;
    struct list calls, queue;
    size_t busy;   /* calls that hold one of calls_max */
    bool closing;  /* nothing begins any more */
    bool distrust; /* connections: a request timed out, and none was answered since */
    char **as;     /* header lines of impersonation, ended by NULL */
};

struct kube_client_call {
    struct kube_client *client;
    struct list link;  /* in calls */
    struct list place; /* in queue, while it waits for its turn */
    struct kube_auth_waiter waiter;
    uv_timer_t timer; /* until the next try, or until a failure is reported */
    struct kube_client_spec spec;
    char *path, *content_type, *accept;
    struct buf body;
    struct fetch *fetch;
    uint64_t generation; /* of the credentials that were sent */
    bool holds, renewed;
    int tries;
    enum kube_answer_reason failure; /* to be reported in a later turn */
    char why[640];
};

struct kube_client_settings kube_client_defaults(void)
{
    return (struct kube_client_settings){
        .connect_timeout = {10000},
        .timeout = {30000},
        .answer_max = (size_t)64 << 20,
        .calls_max = 32,
        .backoff_first = {500},
        .backoff_max = {30000},
        .plugin_timeout = {60000},
        .token_age = {10000},
    };
}

/* --- the life of a call --- */

static void begin(struct kube_client_call *call);
static void judge(struct kube_client_call *call, struct kube_answer *answer);

static void on_call_closed(uv_handle_t *handle)
{
    struct kube_client_call *call = handle->data;
    free(call->path);
    free(call->content_type);
    free(call->accept);
    buf_fini(&call->body);
    free(call);
}

static void pass_on(struct kube_client *c)
{
    while (!c->closing && c->busy < c->settings.calls_max && !list_is_empty(&c->queue)) {
        struct kube_client_call *next = LIST_OF(c->queue.next, struct kube_client_call, place);
        list_unlink(&next->place);
        c->busy++;
        next->holds = true;
        begin(next);
    }
}

static void release(struct kube_client_call *call)
{
    if (!call->holds)
        return;
    call->holds = false;
    call->client->busy--;
    pass_on(call->client);
}

static void take_turn(struct kube_client_call *call)
{
    if (call->spec.data) {
        begin(call);
        return;
    }
    list_append(&call->client->queue, &call->place);
    pass_on(call->client);
}

static void dispose(struct kube_client_call *call)
{
    list_unlink(&call->link);
    list_unlink(&call->place);
    list_unlink(&call->waiter.link);
    uv_close((uv_handle_t *)&call->timer, on_call_closed);
}

static void deliver(struct kube_client_call *call, const struct kube_answer *answer)
{
    call->spec.done(call->spec.ctx, answer);
    dispose(call);
    release(call);
}

static void on_pause_over(uv_timer_t *timer)
{
    take_turn(timer->data);
}

static void on_failure(uv_timer_t *timer)
{
    struct kube_client_call *call = timer->data;
    struct kube_answer answer = {.reason = call->failure,
                                 .message = str_from(call->why),
                                 .retry_after = {-1},
                                 .tries = call->tries};
    judge(call, &answer);
}

/* Without a request. */
static void fail_later(struct kube_client_call *call, enum kube_answer_reason reason,
                       const char *why)
{
    call->failure = reason;
    snprintf(call->why, sizeof call->why, "%s", why);
    uv_timer_start(&call->timer, on_failure, 0, 0);
}

/* --- what to do with an answer --- */

static bool may_repeat(const struct kube_client_call *call, enum kube_answer_reason reason)
{
    enum kube_client_retry retry = call->spec.retry;
    if (call->spec.data || !kube_answer_is_passing(reason))
        return false;
    if (retry == KUBE_CLIENT_BY_VERB)
        retry = call->spec.verb == KUBE_GET || call->spec.verb == KUBE_LIST ||
                        call->spec.verb == KUBE_DELETE
                    ? KUBE_CLIENT_ANY
                    : KUBE_CLIENT_UNHEARD;
    return retry == KUBE_CLIENT_ANY ||
           (retry == KUBE_CLIENT_UNHEARD && kube_answer_is_unheard(reason));
}

static void judge(struct kube_client_call *call, struct kube_answer *answer)
{
    int tries_max = call->spec.tries_max ? call->spec.tries_max : TRIES_DEFAULT;
    if (call->tries < tries_max && may_repeat(call, answer->reason)) {
        span pause = kube_client_backoff(call->client, call->tries, answer);
        call->client->counters.retries++;
        uv_timer_start(&call->timer, on_pause_over, (uint64_t)pause.ms, 0);
        release(call);
        return;
    }
    deliver(call, answer);
}

static enum kube_answer_reason reason_of(enum fetch_fault fault)
{
    switch (fault) {
    case FETCH_UNREACHABLE:
        return KUBE_ANSWER_UNREACHABLE;
    case FETCH_UNTRUSTED:
        return KUBE_ANSWER_UNTRUSTED;
    case FETCH_TIMED_OUT:
        return KUBE_ANSWER_TIMED_OUT;
    case FETCH_TOO_LARGE:
        return KUBE_ANSWER_MALFORMED;
    default:
        return KUBE_ANSWER_LOST;
    }
}

static void read_fault(struct kube_client_call *call, const struct fetch_answer *got,
                       struct kube_answer *answer)
{
    snprintf(call->why, sizeof call->why, "%s%.200s: %s",
             got->fault == FETCH_UNREACHABLE ? "cannot reach " : "", call->client->config->server,
             got->why);
    *answer = (struct kube_answer){
        .reason = reason_of(got->fault), .message = str_from(call->why), .retry_after = {-1}};
}

static void check_object(struct kube_client_call *call, struct kube_answer *answer)
{
    struct str body = answer->object;
    if (answer->reason != KUBE_ANSWER_OK || call->spec.data || call->spec.accept)
        return;
    while (body.len && strchr(" \t\r\n", body.at[0]))
        body = (struct str){body.at + 1, body.len - 1};
    if (body.len && body.at[0] == '{')
        return;
    answer->reason = KUBE_ANSWER_MALFORMED;
    snprintf(call->why, sizeof call->why, "%.200s: HTTP %ld without a JSON object",
             call->client->config->server, answer->status);
    answer->message = str_from(call->why);
}

static void on_answer(void *ctx, const struct fetch_answer *got)
{
    struct kube_client_call *call = ctx;
    struct kube_client *c = call->client;
    struct arena arena = {0};
    struct kube_answer answer;
    bool answered = got->fault == FETCH_ANSWERED;
    if (answered) {
        kube_answer_read(got->status, got->body, &arena, &answer);
        span asked = kube_answer_retry_after(fetch_header(call->fetch, "retry-after"),
                                             fetch_header(call->fetch, "date"),
                                             c->settings.now(c->settings.now_ctx));
        if (asked.ms >= 0)
            answer.retry_after = asked;
        answer.version = fetch_version(call->fetch);
        check_object(call, &answer);
        c->distrust = false;
    } else {
        read_fault(call, got, &answer);
        c->distrust |= got->fault == FETCH_TIMED_OUT;
    }
    call->fetch = NULL;
    answer.tries = call->tries;
    kube_counters_add(&c->counters, call->spec.verb, answered ? got->status : 0);
    if (answered && got->status == 401 && !call->renewed &&
        kube_auth_refused(c->auth, call->generation)) {
        call->renewed = true;
        call->tries--;
        begin(call);
    } else {
        judge(call, &answer);
    }
    arena_fini(&arena);
}

/* --- sending --- */

static const char *method_of(enum kube_counters_verb verb)
{
    switch (verb) {
    case KUBE_CREATE:
        return "POST";
    case KUBE_UPDATE:
        return "PUT";
    case KUBE_PATCH:
        return "PATCH";
    case KUBE_DELETE:
        return "DELETE";
    default:
        return "GET";
    }
}

static void on_stream_head(void *ctx, long status)
{
    struct kube_client_call *call = ctx;
    if (status >= 200 && status < 300)
        call->spec.opened(call->spec.ctx);
}

static void on_stream_data(void *ctx, struct str bytes)
{
    struct kube_client_call *call = ctx;
    call->spec.data(call->spec.ctx, bytes);
}

static size_t fill_headers(const struct kube_client_call *call, const char *authorization,
                           const char *headers[HEADERS_MAX])
{
    size_t n = 0;
    headers[n++] = call->accept;
    if (call->content_type)
        headers[n++] = call->content_type;
    if (authorization)
        headers[n++] = authorization;
    for (char **as = call->client->as; *as; as++)
        headers[n++] = *as;
    must(n < HEADERS_MAX);
    headers[n] = NULL;
    return n;
}

static void send_request(struct kube_client_call *call, const struct kube_auth_credentials *shown)
{
    struct kube_client *c = call->client;
    const struct kube_config *config = c->config;
    const struct kube_client_spec *spec = &call->spec;
    const char *headers[HEADERS_MAX];
    struct buf url = {0};
    buf_print(&url, "%s%s", config->server, call->path);
    buf_byte(&url, '\0');
    fill_headers(call, shown->authorization, headers);
    const struct fetch_tls tls = {.ca = config->ca,
                                  .ca_file = config->ca_file,
                                  .cert = shown->cert,
                                  .key = shown->key,
                                  .cert_file = shown->cert.len ? NULL : config->client_cert_file,
                                  .key_file = shown->key.len ? NULL : config->client_key_file,
                                  .server_name = config->server_name,
                                  .insecure = config->insecure};
    const struct fetch_spec request = {
        .method = method_of(spec->verb),
        .url = url.at,
        .headers = headers,
        .body = buf_view(&call->body),
        .has_body = call->content_type != NULL,
        .tls = &tls,
        .proxy = config->proxy,
        .fresh = c->distrust,
        .connect_timeout = c->settings.connect_timeout,
        .timeout = spec->data ? spec->stream_timeout : spec->timeout,
        .idle_timeout = spec->idle_timeout,
        .answer_max = c->settings.answer_max,
        .data = spec->data ? on_stream_data : NULL,
        .head = spec->opened ? on_stream_head : NULL,
        .done = on_answer,
        .ctx = call,
    };
    call->generation = shown->generation;
    call->tries++;
    call->fetch = fetch_start(c->fetcher, &request);
    buf_fini(&url);
}

static void begin(struct kube_client_call *call)
{
    const char *why;
    const struct kube_auth_credentials *shown = kube_auth_now(call->client->auth, &why);
    if (shown) {
        send_request(call, shown);
    } else if (why) {
        call->tries++;
        fail_later(call, KUBE_ANSWER_NO_CREDENTIALS, why);
    } else {
        kube_auth_wait(call->client->auth, &call->waiter);
    }
}

static void on_credentials(struct kube_auth_waiter *w, const char *why)
{
    struct kube_client_call *call = LIST_OF(w, struct kube_client_call, waiter);
    if (!why) {
        begin(call);
        return;
    }
    call->tries++;
    fail_later(call, KUBE_ANSWER_NO_CREDENTIALS, why);
}

/* --- calls --- */

static char *header_line(const char *name, const char *value)
{
    struct buf b = {0};
    buf_print(&b, "%s: %s", name, value);
    char *line = alloc_text(b.at, b.len);
    buf_fini(&b);
    return line;
}

struct kube_client_call *kube_client_call(struct kube_client *c,
                                          const struct kube_client_spec *spec)
{
    must(spec->done && spec->path && spec->path[0] == '/');
    struct kube_client_call *call = ALLOC(struct kube_client_call);
    call->client = c;
    call->spec = *spec;
    call->path = alloc_text(spec->path, strlen(spec->path));
    call->accept = header_line("Accept", spec->accept ? spec->accept : "application/json");
    if (spec->body.len)
        call->content_type = header_line("Content-Type", spec->content_type ? spec->content_type
                                                                            : "application/json");
    buf_str(&call->body, spec->body);
    if (!call->spec.timeout.ms)
        call->spec.timeout = c->settings.timeout;
    call->waiter.ready = on_credentials;
    list_init(&call->waiter.link);
    list_init(&call->place);
    list_append(&c->calls, &call->link);
    must(uv_timer_init(c->loop, &call->timer) == 0);
    call->timer.data = call;
    take_turn(call);
    return call;
}

void kube_client_cancel(struct kube_client_call *call)
{
    if (call->fetch)
        fetch_abort(call->fetch);
    dispose(call);
    release(call);
}

/* --- the client --- */

static char **impersonation(const struct kube_config *config)
{
    char **as = alloc_zero((KUBE_CONFIG_GROUPS_MAX + 3) * sizeof *as);
    size_t n = 0;
    if (config->as)
        as[n++] = header_line("Impersonate-User", config->as);
    if (config->as_uid)
        as[n++] = header_line("Impersonate-Uid", config->as_uid);
    for (size_t i = 0; config->as_groups && config->as_groups[i]; i++)
        as[n++] = header_line("Impersonate-Group", config->as_groups[i]);
    return as;
}

struct kube_client *kube_client_new(uv_loop_t *loop, const struct kube_config *config,
                                    const struct kube_client_settings *settings)
{
    must(settings->now && settings->calls_max);
    struct kube_client *c = ALLOC(struct kube_client);
    c->loop = loop;
    c->config = config;
    c->settings = *settings;
    c->rng = rng_from_seed(settings->seed);
    list_init(&c->calls);
    list_init(&c->queue);
    c->fetcher = fetcher_new(loop);
    const struct kube_auth_settings auth = {.now = settings->now,
                                            .now_ctx = settings->now_ctx,
                                            .plugin_timeout = settings->plugin_timeout,
                                            .token_age = settings->token_age,
                                            .counters = &c->counters};
    c->auth = kube_auth_new(loop, config, &auth);
    c->as = impersonation(config);
    if (config->insecure && strncmp(config->server, "https:", 6) == 0)
        log_warn("the certificate of %s is not verified: whoever answers there is trusted",
                 config->server);
    return c;
}

void kube_client_free(struct kube_client *c)
{
    if (!c)
        return;
    c->closing = true;
    while (!list_is_empty(&c->calls))
        kube_client_cancel(LIST_OF(c->calls.next, struct kube_client_call, link));
    fetcher_free(c->fetcher);
    kube_auth_free(c->auth);
    for (char **as = c->as; *as; as++)
        free(*as);
    free(c->as);
    free(c);
}

static void add_encoded(struct buf *b, struct str s)
{
    for (size_t i = 0; i < s.len; i++) {
        unsigned char ch = (unsigned char)s.at[i];
        bool plain = (ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z') ||
                     (ch >= '0' && ch <= '9') || (ch && strchr("-._~", ch));
        if (plain)
            buf_byte(b, (char)ch);
        else
            buf_print(b, "%%%02X", ch);
    }
}

void kube_client_query(struct buf *path, const char *key, struct str value)
{
    bool first = !path->len || !memchr(path->at, '?', path->len);
    buf_print(path, "%c%s=", first ? '?' : '&', key);
    add_encoded(path, value);
}

void kube_client_segment(struct buf *path, struct str name)
{
    buf_byte(path, '/');
    add_encoded(path, name);
}

struct kube_counters *kube_client_counters(struct kube_client *c)
{
    return &c->counters;
}

const char *kube_client_server(const struct kube_client *c)
{
    return c->config->server;
}

uv_loop_t *kube_client_loop(struct kube_client *c)
{
    return c->loop;
}

uint64_t kube_client_random(struct kube_client *c, uint64_t n)
{
    return rng_below(&c->rng, n);
}

span kube_client_backoff(struct kube_client *c, int n, const struct kube_answer *answer)
{
    const struct kube_client_settings *s = &c->settings;
    int shift = n < 1 ? 0 : n - 1 < BACKOFF_SHIFTS ? n - 1 : BACKOFF_SHIFTS;
    int64_t pause = s->backoff_first.ms << shift;
    if (pause > s->backoff_max.ms)
        pause = s->backoff_max.ms;
    int64_t jitter = (int64_t)rng_below(&c->rng, (uint64_t)pause / 2 + 1);
    if (answer && answer->retry_after.ms > pause) {
        int64_t most = s->backoff_max.ms * RETRY_AFTER_MAX;
        pause = answer->retry_after.ms < most ? answer->retry_after.ms : most;
    }
    return (span){pause + jitter};
}
