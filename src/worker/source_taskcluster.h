/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WORKER_SOURCE_TASKCLUSTER_H
#define WORKER_SOURCE_TASKCLUSTER_H

/* Tasks from a queue of Taskcluster's API: claimWork or poll URLs, reclaimTask, reportCompleted,
 * reportFailed, reportException. A job's payload is the definition of its task, its id the task's.
 *
 * Reports: success is completed; failure is failed, or an exception if the members of the report
 * have one, `,"exception":"malformed-payload"`; release is the exception worker-shutdown. */

#include "worker/source.h"
#include "worker/taskqueue.h"

struct source_taskcluster_args {
    const char *root_url, *task_queue; /* task_queue: "provisioner/worker-type" */
    const char *worker_group, *worker_id;
    const struct hawk_credentials *own; /* NULL: none */
    size_t seats;
    bool poll_urls;
};

/* The arguments, and the requests' owner, must live as long as the source. Free with source_free.
 */
struct source *source_taskcluster_new(const struct source_taskcluster_args *args,
                                      struct taskqueue *queue);

/* The credentials for the run, valid as long as the job; reclaiming replaces them in place. */
const struct hawk_credentials *source_taskcluster_credentials(const struct source_job *job);

#endif
