/* SPDX-License-Identifier: Apache-2.0 */
#ifndef EXECUTOR_POD_VIEW_H
#define EXECUTOR_POD_VIEW_H

/* How a pod of a job is shown: its state, and why it is in it. Pure. */

#include "base/buf.h"
#include "executor/exec_plan.h"
#include "kube/kube_verdict.h"

/* What the pod is to an executor: never NONE or GONE. */
enum plan_pod pod_view_state(const struct kube_pod *p, enum kube_verdict_mode mode);

/* The same in a word: "waiting", "running", "failed"; "ending" of one that is being deleted and may
 * still do something. */
const char *pod_view_phase(const struct kube_pod *p, enum kube_verdict_mode mode);

/* What a container or the scheduler says that keeps it waiting, or why it failed, on one line:
 * "0/3 nodes are available", "ContainerCreating", "OOMKilled", "main: exit code 3". Nothing if all
 * is well. The pod must have been masked (pod_report_mask). */
void pod_view_reason(const struct kube_pod *p, enum kube_verdict_mode mode, struct buf *b);

/* The first container that waits, and its reason; or empty. */
struct str pod_view_waits_for(const struct kube_pod *p);

#endif
