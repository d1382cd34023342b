/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUILDS_BUILD_WORK_H
#define BUILDS_BUILD_WORK_H

/* What the files of the worker share: a message on its way, and how it ends. build_worker.c takes
 * messages in and keeps them in order; build_start.c and build_look.c work on those of one kind. */

#include "base/arena.h"
#include "base/list.h"
#include "base/strmap.h"
#include "builds/build_worker.h"

struct build_lane;

#define BUILD_LAST_MAX 10000

/* The last builds of which something was true, by their labels. */
struct build_last {
    struct strmap places;
    struct str ring[BUILD_LAST_MAX];
    size_t next;
};

/* A message, or a timer that fired. */
struct build_work {
    struct list node; /* in its lane */
    struct build_worker *w;
    struct build_lane *lane;  /* of its build; NULL: it needs none */
    struct build_delivery *d; /* NULL: of a timer */
    struct arena arena;
    struct build_message m;
    struct str label;      /* of the build's pods */
    struct build_pod pod;  /* of a start */
    instant started;       /* of the build */
    const char *exhausted; /* it failed too often: why; else NULL */
    bool removes_pods;     /* once its build has failed */
    struct err cleared;    /* of a clear, by its thread */
    uv_work_t thread;
};

struct build_lane {
    struct str label;
    struct list works; /* the first is being worked on */
};

struct build_worker {
    uv_loop_t *loop;
    const struct build_worker_settings *s;
    struct build_worker_ports p;
    struct build_worker_counters count;
    struct strmap lanes;    /* of builds that are being worked on */
    struct strmap firing;   /* builds whose timers are being worked on */
    struct build_last over; /* their pods were deleted, by stop messages or because they failed */
    struct build_last made; /* their pods were made */
    struct list loose;      /* works without a lane */
    size_t busy;
};

/* --- how a message ends; the work is gone after each of these --- */

/* It is done with. */
void build_work_done(struct build_work *k);
/* The same, after an order was confirmed. */
void build_work_then(struct build_work *k, const struct build_order *o);
/* It comes again. */
void build_work_retry(struct build_work *k, const char *why);
/* Its build ends as FAILURE; acknowledged once that is kept. */
void build_work_fail(struct build_work *k, const char *why);
/* An update of its build's page, kept before it is acknowledged. */
void build_work_tell(struct build_work *k, const struct build_update *u);

/* Whether the build is among the last ones; that it is from now on, or no longer. */
bool build_last_has(const struct build_last *l, struct str label);
void build_last_add(struct build_last *l, struct str label);
void build_last_remove(struct build_last *l, struct str label);

/* Whether the build's pods were deleted lately, by this worker. */
bool build_work_is_over(const struct build_work *k);

/* --- the kinds of work --- */

/* A start message: the pod is created, and its verification arranged. */
void build_start_begin(struct build_work *k);
/* A verify message: the pod is looked at. */
void build_look_begin(struct build_work *k);
/* A timer has fired. */
void build_look_late(struct build_work *k);

/* An update of the work's build at Screwdriver's own API (ECOSYSTEM_API), to be filled in. */
struct build_update build_work_update(const struct build_work *k);
/* Tells which node runs the pod; as a hint, or kept. */
void build_work_set_node(struct build_update *u, const struct kube_pod *p, instant now);
/* The pod that counts: the newest of those that are not being deleted, or of all. NULL if there is
 * none. */
const struct kube_pod *build_work_pod(const struct build_kube_answer *a);

#endif
