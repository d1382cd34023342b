/* SPDX-License-Identifier: Apache-2.0 */
#ifndef API_API_HISTORY_H
#define API_API_HISTORY_H

/* Jobs by what the failure history knows of them (core/history.h), for simulations. It is read
 * page by page, the newest entry first, so that other requests come in between. */

#include "api/api_internal.h"
#include "base/idmap.h"
#include "core/history.h"

struct api_history_job {
    struct job job;   /* its status: completed if the history says so, else dead */
    struct run *runs; /* its first failures, in order */
    uint32_t wanted;  /* so many of them: all, unless that are more than were asked for */
    uint32_t found;   /* if fewer, the others are not kept any more */
};

struct api_history {
    /* Set by the caller. */
    struct backend *backend;
    struct arena *arena;
    struct name_list queues, types; /* of the jobs; none: any */
    size_t limit;                   /* failures, at least 1 */
    void (*done)(void *ctx, const struct err *err);
    void *ctx;
    /* The answer, in the arena. The jobs are in the order of the newest entry of each, the newest
     * first; there are as few as have `limit` failures together. */
    struct api_history_job **jobs;
    size_t count;
    uint64_t kept, looked_at; /* entries */
    bool more;                /* there are failures beyond the limit */
    /* Its own. */
    struct idmap by_id;
    size_t wanted, found; /* failures of all jobs */
};

/* Calls done when it has seen enough, not from in here. Then api_history_fini. */
void api_history_read(struct api_history *h);
/* The job with that id among them, or NULL. */
struct api_history_job *api_history_find(const struct api_history *h, struct id id);
void api_history_fini(struct api_history *h);

#endif
