/* SPDX-License-Identifier: Apache-2.0 */
#ifndef EXECUTOR_POD_RESOURCES_H
#define EXECUTOR_POD_RESOURCES_H

/* Memory and processors of a pod's containers: what a job's resources make of them, and what they
 * add up to. */

#include "executor/pod_manifest.h"

enum pod_resource { POD_MEMORY, POD_CPU };

/* Changes the spec in place. If a rule has grown the job, every limit and request that a container
 * states grows in the same proportion. A pod of one container that states neither gets what the job
 * asks for, as both. ERR_BAD_VALUE: an amount that is none, or something that is not an object;
 * source is for errors. */
NODISCARD struct err pod_resources_apply(const char *source, const struct pod_job *job,
                                         struct document_node *spec, struct arena *a);

/* What a scheduler reserves: the sum over the containers (a limit is a request where none is
 * stated), or what the largest init container needs, if that is more. Amounts that are none count
 * as 0. */
uint64_t pod_resources_total(const struct document_node *spec, enum pod_resource what);

#endif
