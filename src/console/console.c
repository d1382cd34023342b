/* SPDX-License-Identifier: Apache-2.0 */
#include "console/console.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/array.h"
#include "base/must.h"
#include "base/strmap.h"
#include "console/console_files.h"
#include "net/reply.h"

#define INDEX "index.html"

/* No script or style but the page's own files, no request but to its own server, in no frame. */
#define POLICY                                                                                     \
    "Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; "           \
    "connect-src 'self'; img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'; "          \
    "form-action 'none'\r\n"
#define HEADERS                                                                                    \
    POLICY "X-Content-Type-Options: nosniff\r\n"                                                   \
           "Referrer-Policy: no-referrer\r\n"                                                      \
           "Cross-Origin-Opener-Policy: same-origin\r\n"                                           \
           "Cross-Origin-Resource-Policy: same-origin\r\n"

#define TAG_LEN 18 /* 16 digits in quotes */

static const struct route routes[] = {
    {.method = HTTP_GET, .pattern = ""},
    {.method = HTTP_GET, .pattern = "/{file}"},
};

static const struct {
    const char *ending, *type;
} types[] = {
    {".html", "text/html; charset=utf-8"},
    {".css", "text/css; charset=utf-8"},
    {".js", "text/javascript; charset=utf-8"},
    {".svg", "image/svg+xml"},
};

static struct str type_of(const char *name)
{
    size_t len = strlen(name), ending;
    for (size_t i = 0; i < COUNT(types); i++) {
        ending = strlen(types[i].ending);
        if (len > ending && strcmp(name + len - ending, types[i].ending) == 0)
            return str_from(types[i].type);
    }
    must(false); /* each file of the page has one of these endings */
    return (struct str){0};
}

static const struct console_file *find(struct str name)
{
    for (const struct console_file *f = console_files; f->name; f++)
        if (str_eq(name, str_from(f->name)))
            return f;
    return NULL;
}

static struct str bytes_of(const struct console_file *f)
{
    return (struct str){(const char *)f->bytes, f->len};
}

/* Whether the list of If-None-Match has the tag, or is "*". */
static bool is_known(struct str list, const char tag[TAG_LEN + 1])
{
    if (str_eq(list, STR("*")))
        return true;
    for (size_t i = 0; i + TAG_LEN <= list.len; i++)
        if (memcmp(list.at + i, tag, TAG_LEN) == 0)
            return true;
    return false;
}

static void send_file(struct http_exchange *x, const struct http_request *req,
                      const struct console_file *f)
{
    char tag[TAG_LEN + 1], extra[1024];
    snprintf(tag, sizeof tag, "\"%016" PRIx64 "\"", strmap_hash(0, bytes_of(f)));
    /* Kept, but asked for again each time: another version of the server may be there by then. */
    int n = snprintf(extra, sizeof extra, HEADERS "ETag: %s\r\nCache-Control: no-cache\r\n", tag);
    must(n > 0 && n < (int)sizeof extra);
    if (is_known(req->if_none_match, tag))
        http_reply(x, 304, (struct str){0}, (struct str){0}, extra);
    else
        http_reply(x, 200, type_of(f->name), bytes_of(f), extra);
}

static void send_error(struct http_exchange *x, const struct err *err, const char *extra)
{
    struct buf b = {0};
    reply_error_body(&b, err);
    http_reply(x, err_status(err->code), STR("application/json"), buf_view(&b), extra);
    buf_fini(&b);
}

static void serve(void *ctx, struct http_exchange *x, const struct http_request *req,
                  const struct route *route, const struct route_params *params)
{
    (void)ctx;
    const struct console_file *f = find(route == &routes[0] ? STR(INDEX) : params->at[0]);
    struct err none = err_make(ERR_NO_ROUTE, "the console has no such file");
    if (f)
        send_file(x, req, f);
    else
        send_error(x, &none, HEADERS);
}

static void refuse(void *ctx, struct http_exchange *x, const struct http_request *req,
                   const struct err *err, struct str allow)
{
    char extra[1024];
    (void)ctx;
    if (err->code == ERR_NO_ROUTE && str_eq(req->path, STR(CONSOLE_PATH "/"))) {
        http_reply(x, 308, (struct str){0}, (struct str){0},
                   HEADERS "Location: " CONSOLE_PATH "\r\n");
        return;
    }
    int n = err->code == ERR_BAD_METHOD
                ? snprintf(extra, sizeof extra, HEADERS "Allow: %.*s\r\n", STR_ARG(allow))
                : snprintf(extra, sizeof extra, HEADERS);
    must(n > 0 && n < (int)sizeof extra);
    send_error(x, err, extra);
}

static const struct route *route_at(size_t i)
{
    return &routes[i];
}

const struct front_end *console_front_end(void)
{
    static const struct front_end front = {
        .prefix = CONSOLE_PATH,
        .count = COUNT(routes),
        .route = route_at,
        .serve = serve,
        .refuse = refuse,
    };
    return &front;
}

/* --- tasks --- */

static const struct route task_routes[] = {
    {.method = HTTP_GET, .pattern = "/{taskId}"},
    {.method = HTTP_GET, .pattern = "/{taskId}/runs/{runId}"},
};

static const struct route *task_route_at(size_t i)
{
    return &task_routes[i];
}

/* 22 characters of base64url. */
static bool is_task_id(struct str s)
{
    size_t good = 0;
    while (good < s.len && (isalnum((unsigned char)s.at[good]) || strchr("-_", s.at[good])))
        good++;
    return good == s.len && s.len == 22;
}

/* The id of a task is an alias of its job. */
static void show_task(void *ctx, struct http_exchange *x, const struct http_request *req,
                      const struct route *route, const struct route_params *params)
{
    char extra[sizeof HEADERS + 128];
    struct str id = params->at[0];
    (void)ctx;
    (void)req;
    (void)route;
    if (is_task_id(id)) {
        snprintf(extra, sizeof extra, HEADERS "Location: " CONSOLE_PATH "#/job/alias%%3A%.*s\r\n",
                 STR_ARG(id));
        http_reply(x, 302, (struct str){0}, (struct str){0}, extra);
        return;
    }
    struct err err = err_make(ERR_NO_ROUTE, "no task has this id: 22 letters, digits, '-' and '_'");
    send_error(x, &err, HEADERS);
}

const struct front_end *console_task_front_end(void)
{
    static const struct front_end front = {
        .prefix = CONSOLE_TASKS_PATH,
        .count = COUNT(task_routes),
        .route = task_route_at,
        .serve = show_task,
        .refuse = refuse,
    };
    return &front;
}
