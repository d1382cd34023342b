/* SPDX-License-Identifier: Apache-2.0 */
#include "client/remote.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/list.h"
#include "client/bearer.h"
#include "client/view.h"
#include "client/when.h"
#include "client/whose.h"
#include "net/fetch.h"

#define CONNECT_TIMEOUT ((span){10000})
#define ANSWER_MAX      ((size_t)256 << 20) /* a claim's payloads are about 8 MiB */

struct remote {
    struct fetcher *fetcher;
    const char *url;
    struct fetch_tls tls;
    char *worker;           /* the header */
    char *bearer;           /* likewise; or NULL */
    const char *token_file; /* where it is from; NULL: from the environment */
    mono bearer_read;
    struct list calls;
    size_t count;
};

struct remote_call {
    struct list node;
    struct remote *server;
    struct fetch *fetch;
    const struct whose_rule *expected;
    void (*data)(void *ctx, struct str bytes);
    remote_answered *done;
    void *ctx;
    mono sent;
};

/* A token that was there stays if there is none any more: whoever writes the file may be at it. */
static void read_bearer(struct remote *s, const char *file)
{
    struct buf bearer = {0};
    s->bearer_read = when_mono();
    if (bearer_line(file, &bearer).code == ERR_OK && bearer.len) {
        buf_byte(&bearer, '\0');
        free(s->bearer);
        s->bearer = bearer.at;
    } else {
        buf_fini(&bearer);
    }
}

/* Tokens in files are renewed, as those of service accounts of Kubernetes are. */
static const char *bearer_of(struct remote *s)
{
    if (s->token_file && when_ms_between(when_mono(), s->bearer_read) > BEARER_AGE_MS)
        read_bearer(s, s->token_file);
    return s->bearer;
}

struct remote *remote_new(uv_loop_t *loop, const char *url, const struct call_tls *tls,
                          const char *name)
{
    struct remote *s = ALLOC(struct remote);
    struct buf worker = {0};
    buf_print(&worker, "Worker-Id: %s", name);
    buf_byte(&worker, '\0');
    *s = (struct remote){.fetcher = fetcher_new(loop),
                         .url = url,
                         .tls = {.ca_file = tls->ca_cert,
                                 .cert_file = tls->client_cert,
                                 .key_file = tls->client_key},
                         .worker = worker.at};
    if (!tls->no_token) {
        s->token_file = tls->token_file;
        read_bearer(s, tls->token_file);
    }
    list_init(&s->calls);
    return s;
}

static void end(struct remote_call *c)
{
    c->server->count--;
    list_unlink(&c->node);
    free(c);
}

void remote_abort(struct remote_call *c)
{
    if (!c)
        return;
    fetch_abort(c->fetch);
    end(c);
}

void remote_free(struct remote *s)
{
    while (!list_is_empty(&s->calls))
        remote_abort(LIST_OF(s->calls.next, struct remote_call, node));
    fetcher_free(s->fetcher);
    free(s->worker);
    free(s->bearer);
    free(s);
}

size_t remote_count(const struct remote *s)
{
    return s->count;
}

static enum call_result result_of(const struct fetch_answer *f)
{
    if (f->fault != FETCH_ANSWERED)
        return CALL_UNREACHABLE;
    if (f->status >= 200 && f->status < 300)
        return CALL_DONE;
    if (f->status == 404 || f->status == 409)
        return CALL_GONE;
    return f->status >= 500 || f->status == 429 || f->status == 408 ? CALL_TRY_LATER : CALL_REFUSED;
}

/* What went wrong, in words; those of the server if it has any. */
static struct str explain(const struct remote_call *c, const struct fetch_answer *f,
                          struct str error, struct buf *b)
{
    if (f->fault != FETCH_ANSWERED)
        buf_print(b, "%s: %s", c->server->url, f->why);
    else if (error.len)
        buf_print(b, "%.*s", STR_ARG(error));
    else
        buf_print(b, "%s answers with status %ld, but not as Tenax does: a proxy in between?",
                  c->server->url, f->status);
    return buf_view(b);
}

static void on_done(void *ctx, const struct fetch_answer *f)
{
    struct remote_call *c = ctx;
    struct arena arena = {0};
    struct buf why = {0};
    struct remote_answer a = {.result = result_of(f), .status = f->status, .sent = c->sent};
    bool json = f->body.len && view_check(f->body, &a.body).code == ERR_OK;
    bool ours = a.result == CALL_DONE ? whose_success(c->expected, f->status, f->body)
                                      : whose_refusal(f->body);
    if (f->fault == FETCH_ANSWERED && !ours) {
        a.result = CALL_UNREACHABLE;
        a.status = 0;
        json = false;
    }
    if (a.result != CALL_DONE) {
        a.code = json ? view_text(&arena, a.body, "code") : (struct str){0};
        a.why = explain(c, f, json ? view_text(&arena, a.body, "error") : (struct str){0}, &why);
    }
    if (!json)
        a.body = (struct str){0};
    remote_answered *done = c->done;
    void *to = c->ctx;
    end(c);
    done(to, &a);
    buf_fini(&why);
    arena_fini(&arena);
}

static void on_data(void *ctx, struct str bytes)
{
    const struct remote_call *c = ctx;
    c->data(c->ctx, bytes);
}

static struct remote_call *begin(struct remote *s, const char *path, struct fetch_spec *spec,
                                 remote_answered *done, void *ctx)
{
    struct remote_call *c = ALLOC(struct remote_call);
    struct buf url = {0};
    *c = (struct remote_call){.server = s,
                              .expected = whose_expects(spec->method, path),
                              .done = done,
                              .ctx = ctx,
                              .sent = when_mono()};
    buf_print(&url, "%s%s", s->url, path);
    buf_byte(&url, '\0');
    spec->url = url.at;
    spec->tls = &s->tls;
    spec->connect_timeout = CONNECT_TIMEOUT;
    spec->answer_max = ANSWER_MAX;
    spec->done = on_done;
    spec->ctx = c;
    list_append(&s->calls, &c->node);
    s->count++;
    c->fetch = fetch_start(s->fetcher, spec);
    buf_fini(&url);
    return c;
}

struct remote_call *remote_ask(struct remote *s, const char *method, const char *path,
                               struct str body, span timeout, remote_answered *done, void *ctx)
{
    const char *headers[4] = {s->worker};
    size_t n = 1;
    if (body.len)
        headers[n++] = "Content-Type: application/json";
    if (bearer_of(s))
        headers[n++] = s->bearer;
    struct fetch_spec spec = {.method = method,
                              .headers = headers,
                              .body = body,
                              .has_body = body.len > 0,
                              .timeout = timeout};
    return begin(s, path, &spec, done, ctx);
}

struct remote_call *remote_stream(struct remote *s, const char *path, const char *accept,
                                  span pause, void (*data)(void *ctx, struct str bytes),
                                  remote_answered *done, void *ctx)
{
    struct buf line = {0};
    if (accept) {
        buf_print(&line, "Accept: %s", accept);
        buf_byte(&line, '\0');
    }
    const char *headers[4] = {s->worker};
    size_t n = 1;
    if (accept)
        headers[n++] = line.at;
    if (bearer_of(s))
        headers[n++] = s->bearer;
    struct fetch_spec spec = {
        .method = "GET", .headers = headers, .idle_timeout = pause, .data = on_data};
    struct remote_call *c = begin(s, path, &spec, done, ctx);
    c->data = data;
    buf_fini(&line);
    return c;
}
