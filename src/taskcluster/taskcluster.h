/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TASKCLUSTER_TASKCLUSTER_H
#define TASKCLUSTER_TASKCLUSTER_H

/* Taskcluster's queue service, API v1, under /api/queue/v1: a task is a job, and its states are a
 * projection of the job's status and runs. Beside it, under /api/object/v1, the object service,
 * which keeps the bytes of artifacts in files, and what workers ask of auth, index, purge-cache and
 * worker-manager. Source of the formats: the reference manual and the schemas of the public
 * repository taskcluster/taskcluster (services/queue). Keeps no task: what it is asked becomes
 * commands for the backend. Runs on the loop thread. */

#include "access/access.h"
#include "access/holders.h"
#include "access/identities.h"
#include "backend/backend.h"
#include "net/router.h"

struct taskcluster;

struct taskcluster_settings {
    span claim_timeout;    /* of a claim that its worker does not renew */
    struct access *access; /* borrowed; who may do what */
    struct tokens *tokens; /* borrowed; tokens of the Jobs API, which count here, too; or NULL */
    struct identities *identities; /* borrowed; likewise; NULL iff tokens is */
    struct holders *holders;       /* borrowed; who was handed which run; NULL iff tokens is */
    bool needs_clients; /* others than this machine can reach it: without clients it is closed */
    uint64_t seed;      /* unpredictable */
    const char *artifact_dir; /* for the bytes of artifacts; it is made when it is needed */
    uint64_t artifact_space;  /* bytes that they may take together */
    uint64_t free_min;        /* bytes of the disk that are left for the rest */
    uv_loop_t *loop;
    instant (*now)(void *ctx);
    void *ctx;
};

/* ERR_IO: the folder of artifacts. */
NODISCARD struct err taskcluster_new(struct backend *backend,
                                     const struct taskcluster_settings *settings,
                                     struct taskcluster **out);
/* Ends what is being read and written, for which the loop runs; before the backend is freed. NULL
 * is allowed. */
void taskcluster_stop(struct taskcluster *t);
/* A stop begins: answers at once whoever waits for nothing but time. */
void taskcluster_drain(struct taskcluster *t);
/* After the last exchange has been answered. */
void taskcluster_free(struct taskcluster *t);
/* At run time: room on the disk that uploads leave. */
void taskcluster_set_free_min(struct taskcluster *t, uint64_t bytes);
/* At run time; applies to claims from now on. */
void taskcluster_set_claim_timeout(struct taskcluster *t, span timeout);

/* The path of a request begins so if it is answered with the bytes of an artifact, of which so many
 * at a time are in memory. */
#define TASKCLUSTER_CONTENT_PATH  "/api/object/v1/content/"
#define TASKCLUSTER_CONTENT_PIECE ((uint64_t)128 * 1024)

/* Whether a link on any page may open the path: an artifact's, whose URL is its address, and its
 * bytes', which are shown in a sandbox. Who may read them is asked as ever. */
bool taskcluster_opens_by_link(struct str path);

/* Whether pages of origins that the operator has named may use the path: all of the front end. */
bool taskcluster_opens_to_origins(struct str path);

/* Messages of poll URLs since the start. */
struct taskcluster_polled {
    uint64_t dequeued, deleted;
    uint64_t repeated;  /* dequeued more than ten times: its workers never delete it */
    uint64_t undeleted; /* not deleted, for there was no such message or the receipt was wrong */
};
void taskcluster_read_polled(const struct taskcluster *t, struct taskcluster_polled *out);

/* The bytes of artifacts. */
struct taskcluster_artifacts {
    uint64_t used, space; /* bytes; what is reserved for uploads counts as used */
    uint64_t uploads;     /* in progress */
};
void taskcluster_read_artifacts(const struct taskcluster *t, struct taskcluster_artifacts *out);

/* Whether Taskcluster's queue publishes messages about an event. */
bool taskcluster_tells(const struct job_event *ev);
/* Adds these messages (docs/taskcluster.md), JSON objects with commas between them, to out; none if
 * what they tell of is not kept any more. Then calls done(ctx), not from in here; ev and out must
 * stay until then. After taskcluster_free nobody is called. */
void taskcluster_messages(struct taskcluster *t, const struct job_event *ev, struct buf *out,
                          void (*done)(void *ctx), void *ctx);

/* What is mounted: the methods of the queue and of the object service, and what clients find them
 * by. Valid until taskcluster_free. */
#define TASKCLUSTER_FRONT_ENDS 12
const struct front_end *taskcluster_front_end(struct taskcluster *t, int i);

#endif
