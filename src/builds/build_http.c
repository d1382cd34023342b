/* SPDX-License-Identifier: Apache-2.0 */
#include "builds/build_http.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/log.h"
#include "net/probes.h"

/* Connections of which none has to send anything: they must not keep those of a kubelet away, and
 * do not stay for long. */
#define CONNECTIONS_MAX 256
#define IDLE_TIMEOUT    ((span){20000})

struct build_http {
    struct probes *probes;
    struct build_http_user user;
    void *ctx;
};

static int health(void *ctx, struct buf *out, struct str *type)
{
    const struct build_http *h = ctx;
    bool well = h->user.well(h->ctx);
    (void)type;
    buf_str(out, well ? STR("ok") : STR("unavailable"));
    return well ? 200 : 503;
}

static void metrics(void *ctx, struct buf *out)
{
    const struct build_http *h = ctx;
    h->user.metrics(h->ctx, out);
}

struct err build_http_new(uv_loop_t *loop, const char *host, int port,
                          const struct build_http_user *user, void *ctx, struct build_http **out)
{
    static const struct probes_user probes_user = {health, metrics};
    const struct probes_settings s = {.host = host,
                                      .port = port,
                                      .connections_max = CONNECTIONS_MAX,
                                      .idle_timeout = IDLE_TIMEOUT,
                                      .slash = true};
    struct build_http *h = ALLOC(struct build_http);
    *h = (struct build_http){.user = *user, .ctx = ctx};
    struct err e = probes_new(loop, &s, &probes_user, h, &h->probes);
    if (e.code != ERR_OK) {
        free(h);
        return e;
    }
    log_info("health on http://%s:%d/health, metrics beside it", host, build_http_port(h));
    *out = h;
    return err_none();
}

int build_http_port(const struct build_http *h)
{
    return probes_port(h->probes);
}

void build_http_close(struct build_http *h)
{
    probes_close(h->probes);
    free(h);
}
