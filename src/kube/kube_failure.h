/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KUBE_KUBE_FAILURE_H
#define KUBE_KUBE_FAILURE_H

/* What became of a pod that did not do its work, as data: a pure function of the pod, of the events
 * about it, and of how its owner found it. What is to be done about it is for others to say. */

#include <stddef.h>

#include "base/arena.h"
#include "base/str.h"
#include "base/units.h"
#include "kube/kube_pod.h"
#include "kube/kube_verdict.h"

#define KUBE_FAILURE_CONTAINERS_MAX 100
#define KUBE_FAILURE_EVENTS_MAX     32
#define KUBE_FAILURE_TEXT_MAX       4096 /* bytes of each text; longer ones are cut */

/* How its owner found it. What the pod itself says of its end comes first: one that was preempted
 * was not simply deleted. */
enum kube_failure_found {
    KUBE_FAILURE_ENDED,       /* its phase says so */
    KUBE_FAILURE_NOT_STARTED, /* its start-up verdict is a failure */
    KUBE_FAILURE_NO_NODE,     /* it has waited for one for too long */
    KUBE_FAILURE_SLOW,        /* it has a node, and has been initializing for too long */
    KUBE_FAILURE_GONE,        /* it was deleted, or is being deleted, and not by its owner */
    KUBE_FAILURE_OVERDUE,     /* its time of deletion is past, and its node has not confirmed it */
    /* Its phase says so, and its owner did not ask for its deletion: if it has a time of deletion,
     * somebody else ended it. */
    KUBE_FAILURE_ENDED_ALIEN,
};

enum kube_failure_cause {
    KUBE_FAILURE_CONTAINER, /* a container failed by itself */
    KUBE_FAILURE_OOM_KILLED,
    KUBE_FAILURE_EVICTED,
    KUBE_FAILURE_PREEMPTED,
    KUBE_FAILURE_DEADLINE_EXCEEDED,
    KUBE_FAILURE_UNSCHEDULABLE,
    KUBE_FAILURE_START,     /* it could not be started; pod_error says why */
    KUBE_FAILURE_NODE_LOST, /* nobody knows what it does */
    KUBE_FAILURE_DELETED,   /* by somebody else */
    KUBE_FAILURE_POD,       /* otherwise: its node would not have it, its phase is unknown */
};

struct kube_failure_container {
    struct str name;
    bool init;
    bool ended; /* otherwise it cannot be started, and has no exit code */
    int32_t exit_code;
    int32_t signal; /* as the API says, or by an exit code of 128 and a signal's number; or 0 */
    struct str reason, message;
};

struct kube_failure {
    enum kube_failure_cause cause;
    const char *condition; /* "OOMKilled", "Evicted", "Preempted", "DeadlineExceeded",
                              "Unschedulable"; NULL: none of them */
    struct str message;    /* a sentence: what happened to which pod or container, and where */
    struct str node;       /* or empty */
    const char *culprit;   /* whose fault it is, if the pod says so: "node", "disruption", … */
    int32_t exit_code, signal;                    /* of the container that decided, or 0 */
    const struct kube_failure_container *decided; /* the one of `containers`, or NULL */
    struct str pod_error; /* why the cluster could not run it, or ended it: "ErrImagePull: …" */
    /* All that have ended or cannot be started: init containers first, in the order of the spec. */
    const struct kube_failure_container *containers;
    size_t container_count;
    const struct str *events; /* "FailedMount: …", oldest first, the newest of those that matter */
    size_t event_count;
    span grace; /* if it was preempted: how long it may go on from its deletion */
};

/* waited: how long the owner waited, for NO_NODE and SLOW. mode: of the start-up verdict.
 * Everything in the answer lives in the arena, except for what is a literal or in the pod. Texts
 * are UTF-8 on one line but for those of containers. */
struct kube_failure kube_failure(const struct kube_pod *p, enum kube_failure_found found,
                                 enum kube_verdict_mode mode, span waited,
                                 const struct kube_pod_event *events, size_t event_count,
                                 struct arena *a);

/* What is to be said of a failure as a machine-readable word: "PodContainerFailed", "PodOOMKilled",
 * "PodEvicted", "PodPreempted", "PodDeadlineExceeded", "PodUnschedulable", "PodStartFailed",
 * "PodNodeLost", "PodDeleted", "PodFailed". */
const char *kube_failure_name(enum kube_failure_cause cause);

/* The event is about that pod: by its uid where both say it, else by its name. */
bool kube_failure_is_about(const struct kube_pod *p, const struct kube_pod_event *e);
/* The container that decided about the end of a pod that has failed: the first init container that
 * failed and is no sidecar, else the main one (kube_pod.h) if it failed, else the first other one.
 * NULL: none has failed. */
const struct kube_pod_container *kube_failure_decider(const struct kube_pod *p);
/* The pod makes way for others with a higher priority: its owner may count it as preempted although
 * it has not ended. */
bool kube_failure_is_preempted(const struct kube_pod *p);
/* The pod itself says that its node is lost: it will not be confirmed gone. */
bool kube_failure_is_node_lost(const struct kube_pod *p);

#endif
