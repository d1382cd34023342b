/* SPDX-License-Identifier: Apache-2.0 */
#ifndef EXECUTOR_EXEC_ACCESS_H
#define EXECUTOR_EXEC_ACCESS_H

/* Whether the cluster lets this executor make pods at all. What it refuses for want of a right, of
 * credentials, or of the executor's own namespace is not the jobs' fault: from the first such
 * answer on, the executor is suspended. It takes no jobs, gives back those whose pods are not made,
 * says so (log, health, metrics, the reason of each job that went back), and asks again, with
 * growing pauses, by a dry run that makes nothing. Once that is allowed it takes one job at a time
 * until a pod was made, and then goes on.
 *
 * The same happens when the cluster has created no pod for a while although it was asked several
 * times: an API server that fails, or a webhook that does not answer. Whether pods may be created
 * is also asked for (SelfSubjectAccessReview), at the start and while nothing has shown it lately,
 * so that no job has to find out.
 *
 * A 403 says little for the first second of an API server's life: its rules are not read yet. */

#include "base/buf.h"
#include "base/str.h"
#include "base/units.h"
#include "kube/kube_answer.h"

struct executor;

enum exec_access_state {
    EXEC_ACCESS_GRANTED,
    EXEC_ACCESS_DENIED, /* nothing is taken; asked again at ask_at */
    EXEC_ACCESS_TRIED,  /* the dry run was allowed; one job is to show that pods are */
};

struct exec_access {
    enum exec_access_state state;
    char *why;       /* iff it is not granted: a sentence */
    uint32_t denied; /* pods in a row */
    uint32_t faults; /* creations in a row that failed by the cluster's fault */
    mono faulty_since;
    uint32_t tries; /* dry runs in a row */
    bool asking;
    mono ask_at;
    bool known; /* the cluster has said whether pods may be created */
    struct kube_review *review;
    mono review_at;
};

/* The namespace is the executor's own, and not one that only payloads name. */
bool exec_access_is_own(const struct executor *x, const char *namespace);
/* The creation of a pod there was refused for want of access (pod_fault.h). */
void exec_access_deny(struct executor *x, const char *namespace, const struct kube_answer *a);
/* It failed by the cluster's fault; why is a sentence without secrets. */
void exec_access_fault(struct executor *x, const char *namespace, struct str why);
/* A pod was made. */
void exec_access_grant(struct executor *x);
/* How many of so many jobs may be asked for. */
size_t exec_access_most(const struct executor *x, size_t n);
/* Asks again, if it is time; next is set to when it is. */
void exec_access_turn(struct executor *x, mono now, mono *next);
/* No further questions; while there still is a client. */
void exec_access_stop(struct executor *x);
void exec_access_fini(struct executor *x);

static inline bool exec_access_is_suspended(const struct exec_access *a)
{
    return a->state == EXEC_ACCESS_DENIED;
}

#endif
