/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TASKCLUSTER_TC_WORKER_H
#define TASKCLUSTER_TC_WORKER_H

/* What the queue knows of a worker: an entry of the backend's (core/kv.h), made when the worker
 * claims for the first time or is declared. Whoever changes it does so from the version that was
 * read: a quarantine is never lost to a claim. */

#include "taskcluster/tc_internal.h"

#define TC_RECENT_MAX 20 /* tasks that a worker is remembered by */

struct tc_recent {
    struct str task_id;
    uint32_t run;
};

/* Strings live in the arena of the call that it was read for. */
struct tc_worker {
    struct str queue, group, id;
    instant first_claim, last_active, expires;
    instant quarantine_until;               /* or none */
    struct str details;                     /* of quarantines: elements of a JSON list, or empty */
    struct tc_recent recent[TC_RECENT_MAX]; /* the oldest first */
    size_t recent_count;
    uint64_t version; /* 0: there is no such worker yet */
};

static inline bool tc_worker_is_quarantined(const struct tc_worker *w, instant now)
{
    return instant_is_set(w->quarantine_until) && w->quarantine_until.ms > now.ms;
}

/* Where the entries are: of a worker "queue group/id", of a queue its id. */
#define TC_WORKERS "taskcluster/worker"
#define TC_QUEUES  "taskcluster/queue"

/* The worker of an entry, in the arena; its key lives as long as the entry. */
void tc_worker_of(const struct kv_entry *e, struct arena *a, struct tc_worker *w);

/* Calls then(c, w) with the worker, which is in the arena; a new one has version 0. */
void tc_worker_load(struct tc_call *c, struct str queue, struct str group, struct str id,
                    void (*then)(struct tc_call *c, struct tc_worker *w));
/* Stores it unless it was changed since it was read, and says that its task queue is in use. */
void tc_worker_save(struct tc_call *c, const struct tc_worker *w, reply_fn done, void *ctx);
/* It has claimed, or tried to. A worker that is unknown becomes known. */
void tc_worker_seen(struct tc_call *c, struct tc_worker *w);
/* Remembers tasks that it has claimed just now; after the answer the call is not needed. */
void tc_worker_claimed(struct taskcluster *t, struct str queue, struct str group, struct str id,
                       const struct tc_recent *tasks, size_t count);

#endif
