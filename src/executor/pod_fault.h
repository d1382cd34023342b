/* SPDX-License-Identifier: Apache-2.0 */
#ifndef EXECUTOR_POD_FAULT_H
#define EXECUTOR_POD_FAULT_H

/* Whose fault it is that the cluster does not create a pod, and what is to be done about it: a pure
 * function of the answer, by the table pod_faults.def. */

#include <stdbool.h>

#include "base/str.h"
#include "kube/kube_answer.h"

enum pod_fault_domain { POD_FAULT_NONE, POD_FAULT_JOB, POD_FAULT_ACCESS, POD_FAULT_CLUSTER };

enum pod_fault_reaction {
    POD_FAULT_GO_ON, /* the pod was created */
    POD_FAULT_FAIL,
    POD_FAULT_SUSPEND,
    POD_FAULT_GIVE_BACK,
    POD_FAULT_WAIT,
};

struct pod_fault {
    enum pod_fault_domain domain;
    enum pod_fault_reaction reaction;
    const char *culprit; /* as reports name it */
};

/* What the answer to a pod's creation says. own: the namespace is the executor's, and not one that
 * only the payload names. */
struct pod_fault pod_fault_of(const struct kube_answer *a, bool own);

/* Whether the words of an exceeded quota ("requested: cpu=2, used: cpu=0, limited: cpu=1") say that
 * the pod asks for more than there is in all, so that waiting is no use. */
bool pod_fault_quota_too_small(struct str message);

/* "job", "access", "cluster"; "suspend" …: for the documentation and its test. */
const char *pod_fault_domain_name(enum pod_fault_domain d);
const char *pod_fault_reaction_name(enum pod_fault_reaction r);

#endif
