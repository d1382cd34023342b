/* SPDX-License-Identifier: Apache-2.0 */
#ifndef EXECUTOR_POD_REFUSAL_H
#define EXECUTOR_POD_REFUSAL_H

/* Why a cluster refuses a pod, in words for the run. */

#include "base/buf.h"
#include "base/str.h"
#include "kube/kube_answer.h"

/* Adds what the answer says, its causes that the message does not name, and the names of the
 * containers that both only count: `spec.containers[0].image: Required value (container 'main')`.
 * Secrets of the pod, given as JSON, are masked; if it cannot be read, all of the text is. */
void pod_refusal_write(const struct kube_answer *answer, struct str pod, struct buf *out);

#endif
