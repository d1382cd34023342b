/* SPDX-License-Identifier: Apache-2.0 */

/* Requests to Taskcluster's front end, one per line: "GET /api/queue/v1/ping", and behind a further
 * space a body. The URLs that the server has signed, which nobody can guess, come by name:
 *
 *     {poll} {sign}     the newest poll URL of the lowest priority, and its signature with what is
 *                       signed, which is that of deleting, too
 *     {id} {receipt}    of the newest message; the receipt as it stands in a URL
 *     {put} {get}       of the newest answer with such a URL
 *
 * Whatever is asked is answered once, in JSON or XML, and never with an internal error. */

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "../sim/fake_http.h" /* in the place of net/server.c */
#include "access/hawk.h"
#include "backend/embedded/embedded.h"
#include "base/buf.h"
#include "base/json.h"
#include "base/log.h"
#include "base/must.h"
#include "net/query.h"
#include "store/memory.h"
#include "taskcluster/taskcluster.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define LINES_MAX 30
#define TURNS_MAX 5000
#define WAIT_MAX  40 /* turns until the peer goes away */

enum { POLL, SIGN, ID, RECEIPT, PUT, GET, NAMES };
static const char *const names[NAMES] = {"{poll}", "{sign}", "{id}", "{receipt}", "{put}", "{get}"};

static char folder[64];

struct server {
    uv_loop_t loop;
    struct store *store;
    struct backend *backend;
    struct access *access;
    struct taskcluster *front;
    struct router *router;
    struct buf known[NAMES];
};

/* --- the server --- */

static instant now(void *ctx)
{
    (void)ctx;
    return (instant){INT64_C(1893456000000)}; /* 2030-01-01 */
}

/* Removes the folder with what was put there. */
static void empty(void)
{
    DIR *d = opendir(folder);
    const struct dirent *e;
    while (d && (e = readdir(d)))
        unlinkat(dirfd(d), e->d_name, 0);
    if (d)
        closedir(d);
    rmdir(folder);
}

static void make_folder(void)
{
    snprintf(folder, sizeof folder, "/tmp/tenax-fuzz-XXXXXX");
    must(mkdtemp(folder));
    must(atexit(empty) == 0);
}

/* In the place of the Jobs API, which has all other paths. */
static const struct route *no_route(size_t i)
{
    (void)i;
    return NULL;
}

static void refuse(void *ctx, struct http_exchange *x, const struct http_request *req,
                   const struct err *err, struct str allow)
{
    (void)ctx;
    (void)req;
    (void)allow;
    http_reply(x, err_status(err->code), STR("text/plain"), str_from(err->msg), NULL);
}

static const struct front_end others = {.prefix = "", .route = no_route, .refuse = refuse};

static void begin(struct server *s)
{
    const struct backend_settings settings = {.event_max_bytes = UINT64_MAX / 2};
    const struct access_settings access = {.window = HAWK_WINDOW,
                                           .nonces_max = 100,
                                           .issuer = STR("fuzz"),
                                           .issuer_key = STR("a key of at least thirty-two bytes"),
                                           .seed = 1};
    *s = (struct server){.store = memory_new()};
    must(uv_loop_init(&s->loop) == 0);
    const struct env env = {.now = now, .rng = rng_from_seed(1), .store = s->store};
    must(embedded_new(&settings, &env, &s->backend).code == ERR_OK);
    s->access = access_new(&access);
    const struct taskcluster_settings front = {.claim_timeout = {1200000},
                                               .access = s->access,
                                               .seed = 2,
                                               .artifact_dir = folder,
                                               .artifact_space = 1 << 20,
                                               .loop = &s->loop,
                                               .now = now};
    must(taskcluster_new(s->backend, &front, &s->front).code == ERR_OK);
    s->router = router_new();
    router_mount(s->router, &others);
    for (int i = 0; i < TASKCLUSTER_FRONT_ENDS; i++)
        router_mount(s->router, taskcluster_front_end(s->front, i));
}

static void close_handle(uv_handle_t *h, void *ctx)
{
    (void)ctx;
    if (!uv_is_closing(h))
        uv_close(h, NULL);
}

static void end(struct server *s)
{
    taskcluster_drain(s->front);
    taskcluster_stop(s->front);
    backend_free(s->backend);
    uv_walk(&s->loop, close_handle, NULL);
    uv_run(&s->loop, UV_RUN_DEFAULT);
    must(uv_loop_close(&s->loop) == 0);
    router_free(s->router);
    taskcluster_free(s->front);
    access_free(s->access);
    store_close(s->store);
    for (int i = 0; i < NAMES; i++)
        buf_fini(&s->known[i]);
}

/* --- answers --- */

/* Keeps what lies between the last `from` in the text and `to`. */
static void learn(struct server *s, int name, const char *text, const char *from, const char *to)
{
    const char *at = NULL, *next = text;
    while ((next = strstr(next, from)))
        at = next += strlen(from);
    const char *over = at ? strstr(at, to) : NULL;
    if (!over)
        return;
    s->known[name].len = 0;
    if (name == RECEIPT)
        query_write(&s->known[name], (struct str){at, (size_t)(over - at)});
    else
        buf_add(&s->known[name], at, (size_t)(over - at));
}

static void check_form(struct str body)
{
    struct json_cursor c = json_open(body);
    if (body.len == 0 || body.at[0] != '{')
        return; /* XML, or the bytes of an artifact */
    must(json_skip(&c, NULL).code == ERR_OK && json_close(&c).code == ERR_OK);
}

static void answered(void *ctx, int status, struct str body)
{
    struct server *s = ctx;
    must(status >= 200 && status < 600 && status != 500);
    if (status >= 400)
        check_form(body);
    if (memchr(body.at ? body.at : "", 0, body.len))
        return;
    char *text = strndup(body.at ? body.at : "", body.len);
    must(text);
    learn(s, POLL, text, "\"signedPollUrl\":\"http://localhost", "\"");
    learn(s, SIGN, text, "?visibilitytimeout=300&", "\"");
    learn(s, ID, text, "<MessageId>", "</MessageId>");
    learn(s, RECEIPT, text, "<PopReceipt>", "</PopReceipt>");
    learn(s, PUT, text, "\"putUrl\":\"http://localhost", "\"");
    learn(s, PUT, text, "\"putUrl\":{\"url\":\"http://localhost", "\"");
    learn(s, GET, text, "\"url\":\"http://localhost", "\"");
    free(text);
}

/* --- requests --- */

static int name_at(struct str text)
{
    for (int i = 0; i < NAMES; i++)
        if (text.len >= strlen(names[i]) && memcmp(text.at, names[i], strlen(names[i])) == 0)
            return i;
    return -1;
}

static void expand(const struct server *s, struct str text, struct buf *out)
{
    while (text.len) {
        int name = name_at(text);
        size_t n = name < 0 ? 1 : strlen(names[name]);
        if (name < 0)
            buf_byte(out, text.at[0]);
        else
            buf_str(out, buf_view(&s->known[name]));
        text = (struct str){text.at + n, text.len - n};
    }
}

/* Up to the next space, which is dropped. */
static struct str word(struct str *line)
{
    const char *space = line->len ? memchr(line->at, ' ', line->len) : NULL;
    struct str w = {line->at, space ? (size_t)(space - line->at) : line->len};
    size_t used = w.len + (space != NULL);
    *line = (struct str){line->at + used, line->len - used};
    return w;
}

static void ask(struct server *s, struct str line)
{
    struct http_exchange *x;
    struct buf target = {0};
    struct str verb = word(&line);
    enum http_method method = HTTP_GET;
    while (method < HTTP_OTHER && !str_eq(verb, str_from(router_method_name(method))))
        method++;
    expand(s, word(&line), &target);
    const struct fake_request asks = {method, buf_view(&target), .body = line};
    fake_ask(s->router, &asks, answered, s, &x);
    for (int n = 0; x; n++) {
        must(n < TURNS_MAX);
        must(backend_turn(s->backend).code == ERR_OK);
        uv_run(&s->loop, UV_RUN_NOWAIT);
        if (x)
            fake_step(x);
        if (!x)
            break;
        if (n == WAIT_MAX)
            fake_leave(x);
        else if (n > 20)
            poll(NULL, 0, 1); /* what works on files does so in threads */
    }
    buf_fini(&target);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str text = {(const char *)data, size};
    struct server s;
    if (!folder[0])
        make_folder();
    log_set(LOG_NONE, LOG_TEXT);
    begin(&s);
    for (int i = 0; i < LINES_MAX && text.len; i++) {
        const char *newline = memchr(text.at, '\n', text.len);
        struct str line = {text.at, newline ? (size_t)(newline - text.at) : text.len};
        size_t used = line.len + (newline != NULL);
        ask(&s, line);
        text = (struct str){text.at + used, text.len - used};
    }
    end(&s);
    return 0;
}
