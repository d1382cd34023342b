/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUILDS_BUILD_HTTP_H
#define BUILDS_BUILD_HTTP_H

/* GET /health, as the original's: 200 "ok" while messages would arrive, else 503 "unavailable"; and
 * GET /metrics for Prometheus. Loop thread only. */

#include <uv.h>

#include "base/buf.h"
#include "base/err.h"

struct build_http;

struct build_http_user {
    bool (*well)(void *ctx);
    void (*metrics)(void *ctx, struct buf *out); /* writes them in Prometheus' text format */
};

/* Listens; port 0 takes a free one. */
NODISCARD struct err build_http_new(uv_loop_t *loop, const char *host, int port,
                                    const struct build_http_user *user, void *ctx,
                                    struct build_http **out);
/* The port that it listens on. */
int build_http_port(const struct build_http *h);
void build_http_close(struct build_http *h);

#endif
