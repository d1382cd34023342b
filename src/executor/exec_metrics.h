/* SPDX-License-Identifier: Apache-2.0 */
#ifndef EXECUTOR_EXEC_METRICS_H
#define EXECUTOR_EXEC_METRICS_H

/* What an executor counts, for Prometheus, and whether it is well, for probes: GET /metrics and
 * GET /health on a listener of its own. */

#include "base/err.h"
#include "base/histogram.h"
#include "kube/kube_pod.h"

struct executor;
struct exec_metrics;

/* How long pods took from their creation. */
enum exec_metrics_step { EXEC_SCHEDULED, EXEC_PULLED, EXEC_RUNNING, EXEC_STEPS };

struct exec_times {
    struct histogram steps[EXEC_STEPS];
};

/* A pod that runs or has ended: counted once each. */
void exec_metrics_pod(struct exec_times *t, const struct kube_pod *p);

/* Listens, if the settings say where. */
NODISCARD struct err exec_metrics_start(struct executor *x);
void exec_metrics_stop(struct executor *x);

#endif
