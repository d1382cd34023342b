/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KUBE_KUBE_POD_H
#define KUBE_KUBE_POD_H

/* What is of interest of a pod and of an event about it, read from the JSON of the Kubernetes API
 * (core/v1) in one pass. Objects travel through this folder as the text that the API server sent:
 * who needs a member reads it from there, and nobody builds a tree of what is passed over.
 *
 * A pod is a plain value; its strings lie in the text or in the arena that it was read with. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"
#include "base/units.h"

#define KUBE_POD_CONTAINERS_MAX 1000 /* and as many statuses; the API server has no such limit */

enum kube_pod_phase {
    KUBE_POD_PENDING, /* also of a pod without a status */
    KUBE_POD_RUNNING,
    KUBE_POD_SUCCEEDED,
    KUBE_POD_FAILED,
    KUBE_POD_UNKNOWN, /* also any other word */
};

/* A container that has ended. */
struct kube_pod_end {
    bool is;
    int32_t exit_code;
    int32_t signal;             /* 0: none was given */
    struct str reason, message; /* message: of its termination log */
    instant started_at, ended_at;
};

struct kube_pod_container {
    struct str name, image;
    bool init;
    bool sidecar;  /* one that goes on beside the others, and is started again when it ends */
    bool restarts; /* its own policy says so, always or after a failure */
    bool main;     /* the one that does the work */
    /* At most one of these; none of them: nothing is known of it so far. */
    bool waiting, running;
    struct kube_pod_end end;
    struct str waiting_reason, waiting_message;
    instant running_since;
    struct kube_pod_end last; /* of the run before, if it was started again */
    int32_t restart_count;
};

struct kube_pod_condition {
    struct str type, status, reason, message;
    instant since; /* its last change, or none */
};

struct kube_pod {
    struct str name, namespace, uid, version; /* version: resourceVersion */
    struct str labels, annotations;           /* JSON objects as they stand, or empty */
    instant created_at, deleted_at; /* or none; deleted_at: by when it is to be gone, and since when
                                       it has had that mark is not known */
    span grace;                     /* of its termination: of the deletion, else of the spec */
    struct str node;                /* or empty: it was not scheduled */
    bool has_init;                  /* the spec has init containers that are no sidecars */
    enum kube_pod_phase phase;
    struct str phase_name;      /* as given */
    struct str reason, message; /* of the pod as a whole: Evicted */
    instant started_at;         /* when its node acknowledged it, or none */
    const struct kube_pod_condition *conditions;
    size_t condition_count;
    const struct kube_pod_container *containers; /* init containers first, each kind in the order of
                                                    the spec; without ephemeral ones */
    size_t container_count;
};

/* An event about a pod (core/v1, or events.k8s.io/v1). */
struct kube_pod_event {
    struct str pod, namespace, uid; /* of the object that it is about */
    bool about_pod;
    bool warning;
    struct str reason, message;
    int32_t count; /* at least 1 */
    instant at;    /* when it was last seen, or none */
};

/* Reads a Pod. Members that are absent or null are as if empty. Errors name the member and where it
 * stands: ERR_BAD_JSON and the like, ERR_BAD_TYPE, ERR_BAD_VALUE (a time, a number), ERR_TOO_MANY;
 * ERR_MISSING_FIELD if there is no metadata.name. */
NODISCARD struct err kube_pod_read(struct str json, struct arena *a, struct kube_pod *out);
/* The same for an Event. */
NODISCARD struct err kube_pod_event_read(struct str json, struct arena *a,
                                         struct kube_pod_event *out);

/* The value of a label or annotation: the text of that member, or the empty string. map is one of
 * pod's labels and annotations. */
struct str kube_pod_value(struct str map, const char *key, struct arena *a);

/* The condition of that type, or NULL; and the same if its status is True. */
const struct kube_pod_condition *kube_pod_condition(const struct kube_pod *p, const char *type);
const struct kube_pod_condition *kube_pod_is(const struct kube_pod *p, const char *type);

/* The container that does the work: the one that the annotation tenax.dev/main-container, or
 * kubectl's default-container, names, else the first that is no init container and no sidecar.
 * NULL: there is none. */
const struct kube_pod_container *kube_pod_main(const struct kube_pod *p);

/* It has ended, by an exit code that is not 0 or by a signal. */
static inline bool kube_pod_has_failed(const struct kube_pod_container *c)
{
    return c->end.is && (c->end.exit_code != 0 || c->end.signal != 0);
}

/* The scheduler has said that no node can take it for now (PodScheduled is False with reason
 * Unschedulable). */
bool kube_pod_unschedulable(const struct kube_pod *p);

/* It has a scheduling gate: nobody looks for a node for it, until somebody opens that. */
bool kube_pod_is_gated(const struct kube_pod *p);

/* When a pod came how far, as far as that is known: none for what has not happened. */
struct kube_pod_times {
    instant created, scheduled;
    instant pulled;  /* the first of its containers was started, so that its image was there */
    instant running; /* the last of its containers that are not init containers was started */
    instant ended;   /* the last container that ended did so */
};
struct kube_pod_times kube_pod_times(const struct kube_pod *p);

#endif
