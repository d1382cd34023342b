/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_HOLDER_SERVED_H
#define TESTS_HOLDER_SERVED_H

/* How Tenax answers a request that was done, for servers that tests play. */

#include <string.h>

#include "tests/kube/kube_rig.h"

#define SERVED_JOB "{\"id\":\"a\",\"queue\":\"q\",\"type\":\"t\",\"status\":\"dead\"}"

static inline bool served_ends(const char *path, const char *end)
{
    size_t len = strlen(path), more = strlen(end);
    return len >= more && strcmp(path + len - more, end) == 0;
}

static inline void served_done(struct http_exchange *x, const struct rig_request *q)
{
    static const char *const told[] = {"/success", "/release", "/progress", "/notice"};
    bool claims = strcmp(q->path, "/jobs/claim") == 0;
    bool empty = q->method == HTTP_DELETE && !claims;
    for (size_t i = 0; i < sizeof told / sizeof *told; i++)
        empty |= served_ends(q->path, told[i]);
    if (empty)
        rig_json(x, 204, "");
    else if (q->method == HTTP_DELETE)
        rig_json(x, 200, "{\"withdrawn\":1}");
    else if (claims || strcmp(q->path, "/jobs") == 0 || strcmp(q->path, "/jobs/renew") == 0)
        rig_json(x, 200, "{\"jobs\":[]}");
    else if (served_ends(q->path, "/renew"))
        rig_json(x, 200, "{\"lease_expires_at\":1}");
    else if (q->method == HTTP_PATCH || served_ends(q->path, "/failure") ||
             served_ends(q->path, "/terminated"))
        rig_json(x, 200, SERVED_JOB);
    else
        rig_json(x, 200, "{}");
}

#endif
