/* SPDX-License-Identifier: Apache-2.0 */
#ifndef EXECUTOR_EXEC_PLAN_H
#define EXECUTOR_EXEC_PLAN_H

/* What to do next about one run of a job: what is desired (the lease, and what has been decided)
 * against what is observed (its pod), at a moment. Pure: no I/O, no clock, no memory. Whoever owns
 * the run asks after every change, and again at `until`; asking twice gives the same answer, so
 * nothing is lost if a step could not be carried out.
 *
 * Invariants that the steps keep, whatever fails and in whatever order things are learned:
 * - A pod is created only while its lease is held, its namespaces have been listed, and no other
 *   pod of the job is left that may still do something.
 * - What became of a run is decided (and kept on disk) before its pod is deleted.
 * - A failure of a pod that is still alive is delivered only once that pod is gone, because the
 *   retry may begin at once; only a node that is lost is not waited for. */

#include <stdbool.h>

#include "base/units.h"

/* What we have of the run. */
enum plan_lease {
    PLAN_HELD, /* it is ours, and its result is open */
    PLAN_LOST, /* it is over for the server: lease expired, job canceled or deleted, gang ended */
    PLAN_DECIDED, /* its result is known */
};

/* Its pod, as last observed. */
enum plan_pod {
    PLAN_POD_NONE,         /* as far as is known there never was one */
    PLAN_POD_GONE,         /* there was one */
    PLAN_POD_WAITING,      /* on no node yet */
    PLAN_POD_INITIALIZING, /* on a node, its containers have not started */
    PLAN_POD_RUNNING,
    PLAN_POD_DOOMED,    /* alive, but it will never do its work: no such image */
    PLAN_POD_SUCCEEDED, /* all containers have ended */
    PLAN_POD_FAILED,    /* likewise */
    PLAN_POD_NODE_LOST, /* nobody knows; its node does not answer */
};

/* Why the cluster does not have the pod, by its answer. */
enum plan_refusal {
    PLAN_ACCEPTED, /* it has not refused it */
    PLAN_REFUSED,  /* and would again */
    PLAN_NO_ROOM,  /* a quota is exceeded, or a limit of ours */
    PLAN_DENIED,   /* this executor may make none there */
    PLAN_FAULTED,  /* it fails, and has done so several times */
};

enum plan_logs {
    PLAN_LOGS_UNREAD,
    PLAN_LOGS_READING,
    PLAN_LOGS_READ, /* or there are none, or nobody wants them */
};

struct plan_run {
    enum plan_lease lease;
    enum plan_pod pod;
    enum plan_refusal refusal;
    enum plan_logs logs;
    bool synced;     /* the pods of its namespace have been listed */
    bool creating;   /* a request for its pod is on its way */
    bool deleting;   /* its pod has a time of deletion, or a request to delete it is on its way */
    bool preempted;  /* its pod makes way for others, and is ending */
    bool blocked;    /* another pod of the job may still do something, or has the name */
    bool clearing;   /* that pod is being deleted */
    bool misfit;     /* no node fits only because the job is to stay off one */
    bool gated;      /* it waits for a scheduling gate, and not for a node */
    bool gang_waits; /* of its gang's runs here, one cannot begin yet */
    bool stopping;   /* the executor ends: nothing is begun */
    bool suspended;  /* it may make no pods at present: nothing is begun */
    bool tried;      /* a request for its pod may have been acted on */
    bool kept;       /* the decision is on disk */
    bool held_back;  /* the decision is to be delivered only when the pod is gone */
    bool was_preempted; /* the decision said that the pod was still ending */
    bool told_end;      /* its end has been reported since */
    bool delivered;     /* the server has answered the decision */
    mono not_before;    /* after a failed request: when to try again */
    mono created;       /* when the pod was created; 0: not known */
    mono initialized;   /* when it got its node; 0: not known */
    mono ended;         /* when it was found to have ended; 0: it has not */
};

struct plan_limits {
    span scheduling;   /* how long a pod may wait for a node; 0: for ever */
    span initializing; /* how long it may take from its node to its start; 0: for ever */
    span keep_succeeded, keep_failed;
};

enum plan_action {
    PLAN_WAIT,
    PLAN_CREATE,
    PLAN_CLEAR,     /* delete the other pod of the job */
    PLAN_REPLACE,   /* its pod by a less demanding one: delete it */
    PLAN_READ_LOGS, /* of its containers */
    PLAN_DECIDE,    /* that `result` became of it */
    PLAN_DELIVER,   /* let the decision that was held back go */
    PLAN_TELL_END,  /* report that the preempted run has ended */
    PLAN_DELETE,    /* its pod, with its grace period */
    PLAN_FORGET,    /* nothing is left */
};

enum plan_result {
    PLAN_NO_RESULT,
    PLAN_SUCCESS,
    PLAN_FAILURE,     /* as the pod says */
    PLAN_NOT_CREATED, /* the cluster refused the pod */
    PLAN_RELEASE,     /* back to its queue */
    PLAN_VANISHED,    /* the pod was deleted by somebody else */
    PLAN_PREEMPTED,
    PLAN_UNSCHEDULABLE,   /* it found no node in time */
    PLAN_NOT_INITIALIZED, /* it did not start in time */
};

struct plan_step {
    enum plan_action action;
    enum plan_result result; /* of PLAN_DECIDE */
    bool held_back;          /* of PLAN_DECIDE: deliver it only when the pod is gone */
    mono until;              /* of PLAN_WAIT: ask again then; 0: when something changes */
};

/* The next step. */
struct plan_step exec_plan(const struct plan_run *r, const struct plan_limits *l, mono now);

/* The word of a pod's state, as progress shows it. */
const char *exec_plan_pod_name(enum plan_pod pod);

/* Whether the pod may still do something. */
static inline bool exec_plan_alive(enum plan_pod pod)
{
    return pod >= PLAN_POD_WAITING && pod <= PLAN_POD_DOOMED;
}

/* Whether a pod is there, alive or not. */
static inline bool exec_plan_there(enum plan_pod pod)
{
    return pod >= PLAN_POD_WAITING;
}

#endif
