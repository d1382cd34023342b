/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WORKER_EXECUTOR_TASK_H
#define WORKER_EXECUTOR_TASK_H

/* Runs the commands of Taskcluster tasks (task_payload.h), each task in a directory of its own, and
 * publishes its artifacts and its log. To be used with source_taskcluster.h.
 *
 * A run is a failure if a command ends with another exit status than 0, takes too long, or an
 * artifact is missing; and an exception if its commands could not be begun, or want another try. */

#include "worker/executor.h"
#include "worker/task_upload.h"

struct executor_task_args {
    const char *root_url, *worker_group, *worker_id;
    struct taskqueue *queue;
    span run_time_max; /* the longest maxRunTime that is accepted; 0: any */
    enum task_storage storage;
};

/* The arguments must live as long as the executor. ERR_IO if the folder for the tasks' directories
 * cannot be created. Free with executor_free. */
NODISCARD struct err executor_task_new(const struct executor_task_args *args,
                                       struct executor **out);

#endif
