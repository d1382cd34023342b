/* SPDX-License-Identifier: Apache-2.0 */
#ifndef NET_PROBES_H
#define NET_PROBES_H

/* A listener for what looks after a process: GET /health, GET /metrics and GET /livez, which says
 * "ok" as long as the process answers, and nothing else. Nothing is changed through it, what it
 * tells is no secret, and who asks may know this machine by any name: so it may listen on any
 * address. Loop thread only. */

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "base/units.h"

struct probes;

struct probes_settings {
    const char *host;
    int port;            /* 0: any free one */
    int connections_max; /* over it a new connection gets 503 and is closed */
    span idle_timeout; /* a connection without a request is closed after it; 0: as other servers */
    bool slash;        /* a slash at the end of a path is passed over */
};

struct probes_user {
    /* Adds the body of /health, says its type, and returns the status. */
    int (*health)(void *ctx, struct buf *out, struct str *type);
    /* Adds the metrics, in Prometheus' text format. */
    void (*metrics)(void *ctx, struct buf *out);
};

/* Listens. ERR_IO names the address that cannot be had, and why. */
NODISCARD struct err probes_new(uv_loop_t *loop, const struct probes_settings *settings,
                                const struct probes_user *user, void *ctx, struct probes **out);
/* The port that is really bound. */
int probes_port(const struct probes *p);
/* Closes everything at once. The loop must run once more before the memory is released. */
void probes_close(struct probes *p);

/* Adds the lines that begin a family of metrics, "# HELP" and "# TYPE". The name is complete, type
 * is "counter", "gauge" or "histogram", and help has no line break. */
void probes_family(struct buf *b, const char *name, const char *type, const char *help);
/* Adds a family that has one metric without labels. */
void probes_single(struct buf *b, const char *name, const char *type, const char *help, uint64_t v);

#endif
