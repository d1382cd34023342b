/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_BUILD_WORLD_H
#define TESTS_BUILD_WORLD_H

/* A broker, a cluster, Screwdriver's API and timers in memory, for the build worker's own code:
 * every effect and every answer is an event of its own, and one draws which comes next, or that the
 * worker is killed now. What a real part would have on disk survives that. */

#include "base/rng.h"
#include "builds/build_worker.h"

#define WORLD_BUILDS_MAX 64

enum fate {
    FATE_RUNS,      /* its pod soon runs */
    FATE_SLOW,      /* it pulls its image for four minutes */
    FATE_NO_NODE,   /* no node has room for it */
    FATE_BAD_IMAGE, /* ErrImagePull */
    FATE_CRASHES,   /* CrashLoopBackOff */
    FATE_FORBIDDEN, /* the cluster answers 403 */
    FATE_STOPPED,   /* it is stopped a minute later */
    FATES
};

struct world_build {
    enum fate fate;
    bool pod, pod_deleted;
    instant created;        /* of the pod */
    unsigned posts;         /* requests to make one */
    unsigned creates;       /* of these that made one */
    unsigned failures;      /* updates with FAILURE that the API has taken */
    unsigned late_failures; /* of these that came after it had ended */
    unsigned delayed;       /* "Build initialization delayed" */
    bool ended;
    char message[512]; /* of the first FAILURE */
    char hostname[64];
};

struct world {
    struct rng rng;
    instant now;
    struct build_settings settings;
    struct build_pod_template *pods;
    struct build_worker_settings worker_settings;
    struct build_worker *worker;
    struct world_parts *parts;
    struct world_build builds[WORLD_BUILDS_MAX];
    size_t count;
    unsigned kills;
    unsigned api_faults;    /* of 100 requests to the cluster that fail */
    unsigned create_faults; /* how many more pods are refused with a 503 */
    unsigned kill_chance;   /* of 1000 events after which the worker is killed */
};

/* In mode `timer` or not; the seed repeats it all. */
void world_init(struct world *w, uint64_t seed, bool timer);
void world_fini(struct world *w);
/* Publishes the start of a new build (and later its stop, if that is its fate); its index. */
size_t world_start(struct world *w, enum fate fate);
/* Publishes any message to the main queue. */
void world_publish(struct world *w, const char *body);
/* And to the ready queue, without the time of its start. */
void world_publish_verify(struct world *w, const char *body, uint32_t looks);
/* Lets one event happen, or time pass; false if nothing is left to happen, at any time. */
bool world_step(struct world *w);
void world_kill(struct world *w);
/* The pod of a build as its cluster would show it now, from its fate and age. */
void world_pod_write(const struct world *w, const struct world_build *b, struct buf *out);
/* Messages in queues, and with the worker. */
size_t world_messages(const struct world *w);

#endif
