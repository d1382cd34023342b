/* SPDX-License-Identifier: Apache-2.0 */
#include "net/probes.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "net/http.h"

#define BODY_MAX ((uint64_t)64 << 10) /* nobody needs one */

struct probes {
    struct http_server *http;
    struct probes_user user;
    void *ctx;
    bool slash;
};

static struct str path_of(const struct probes *p, const struct http_request *req)
{
    struct str path = req->path;
    if (p->slash && path.len > 1 && path.at[path.len - 1] == '/')
        path.len--;
    return path;
}

static void on_request(void *ctx, struct http_exchange *x, const struct http_request *req)
{
    const struct probes *p = ctx;
    struct str path = path_of(p, req), type = STR("text/plain");
    struct buf b = {0};
    if (req->method != HTTP_GET && req->method != HTTP_HEAD) {
        http_reply(x, 405, type, STR("only GET\n"), "Allow: GET, HEAD\r\n");
    } else if (str_eq(path, STR("/metrics"))) {
        p->user.metrics(p->ctx, &b);
        http_reply(x, 200, STR("text/plain; version=0.0.4; charset=utf-8"), buf_view(&b), NULL);
    } else if (str_eq(path, STR("/health"))) {
        int status = p->user.health(p->ctx, &b, &type);
        http_reply(x, status, type, buf_view(&b), NULL);
    } else if (str_eq(path, STR("/livez"))) {
        http_reply(x, 200, type, STR("ok\n"), NULL);
    } else {
        http_reply(x, 404, type, STR("there are /metrics, /health and /livez\n"), NULL);
    }
    buf_fini(&b);
}

struct err probes_new(uv_loop_t *loop, const struct probes_settings *settings,
                      const struct probes_user *user, void *ctx, struct probes **out)
{
    struct http_settings h = http_defaults();
    h.host = settings->host;
    h.port = settings->port;
    h.connections_max = settings->connections_max;
    h.body_max = BODY_MAX;
    h.allowed_hosts = "*";
    if (settings->idle_timeout.ms)
        h.idle_timeout = settings->idle_timeout;
    struct probes *p = ALLOC(struct probes);
    *p = (struct probes){.user = *user, .ctx = ctx, .slash = settings->slash};
    struct err e = http_server_new(loop, &h, on_request, p, &p->http);
    if (e.code != ERR_OK) {
        free(p);
        return e;
    }
    *out = p;
    return err_none();
}

int probes_port(const struct probes *p)
{
    return http_server_port(p->http);
}

void probes_close(struct probes *p)
{
    http_server_close(p->http);
    free(p);
}

void probes_family(struct buf *b, const char *name, const char *type, const char *help)
{
    buf_print(b, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

void probes_single(struct buf *b, const char *name, const char *type, const char *help, uint64_t v)
{
    probes_family(b, name, type, help);
    buf_print(b, "%s %" PRIu64 "\n", name, v);
}
