/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUILDS_BUILD_STATUS_H
#define BUILDS_BUILD_STATUS_H

/* Telling Screwdriver's API of builds: PUT {api}/v4/builds/{id} with the build's own token. What is
 * to be told is kept on disk until it was, in order for each build, and is tried again with a
 * growing delay. A build that has ended (403), or that is unknown (404), is left as it is. Tokens
 * never appear in a log or an error. Loop thread only. */

#include <stdint.h>
#include <uv.h>

#include "base/err.h"
#include "base/str.h"
#include "base/units.h"

struct build_status;

/* Copied. Empty texts are not sent. */
struct build_update {
    struct str api, build, token;
    struct str status;        /* "FAILURE"; empty: only the rest */
    struct str message;       /* statusMessage */
    struct str hostname;      /* stats.hostname */
    instant image_pull_start; /* stats.imagePullStartTime, as RFC 3339 with milliseconds; or none */
    bool hint; /* nice to know: not kept on disk, and dropped rather than delaying anything */
};

struct build_status_stats {
    uint64_t waiting;              /* updates to be told */
    uint64_t told, ended, refused; /* taken; 403 and 404; other 4xx, given up */
    uint64_t expired;              /* given up for their age */
    uint64_t failures; /* tries that were not answered, or with 5xx, 429 or a redirect */
};

typedef void build_status_kept(void *ctx);

struct build_status_ops {
    /* kept (or NULL) is called once the update is on disk (or told, or of no use), never before
     * this call has returned. */
    void (*put)(struct build_status *s, const struct build_update *u, build_status_kept *kept,
                void *ctx);
    struct build_status_stats (*stats)(const struct build_status *s);
    /* Waits for the disk, not for the API. Nothing is called back any more. Freed once the loop has
     * turned. */
    void (*close)(struct build_status *s);
};

/* Embedded first in what implements it. */
struct build_status {
    const struct build_status_ops *ops;
};

struct build_status_settings {
    const char *dir; /* made if it does not exist */
    span timeout;    /* of a request */
    span delay;      /* before the second try; doubled with each, up to delay_max, with jitter */
    span delay_max;
    span age_max;        /* older updates are given up, with a warning */
    const char *ca_file; /* or NULL: the system's */
    uint64_t seed;
    instant (*now)(void);
};

/* ERR_LOCKED if another process has the directory, or another error of it. */
NODISCARD struct err build_status_new(uv_loop_t *loop, const struct build_status_settings *settings,
                                      struct build_status **out);

#endif
