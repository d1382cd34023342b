/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TASKCLUSTER_TC_STATUS_H
#define TASKCLUSTER_TC_STATUS_H

/* The status structure of a task, as a projection of its job and the job's runs:
 *
 *   blocked → unscheduled     scheduled, ready → pending     in_flight → running
 *   completed → completed     dead → failed, or exception with the reason
 *
 * A run of Taskcluster is pending before a worker has it. So a job that is ready has one run more
 * here than there. */

#include "base/buf.h"
#include "core/job.h"
#include "taskcluster/tc_definition.h"

/* A task as it was read: the job with its payload, and all of its runs. */
struct tc_task {
    struct job job;
    struct tc_head head;
    const struct run *runs; /* the live one included */
    size_t run_count;
};

/* Whether a task has ended. */
static inline bool tc_task_is_resolved(const struct tc_task *t)
{
    return lifecycle_is_terminal(t->job.state.status);
}

/* "unscheduled", "pending", "running", "completed", "failed", "exception" */
const char *tc_task_state(const struct job *job);
/* How many runs it shows. */
uint32_t tc_task_runs(const struct tc_task *t);
/* The state of a run that it shows, and why it was resolved; NULL if it was not. */
const char *tc_run_state(const struct tc_task *t, uint32_t index, const char **resolved);
/* The name of a worker is "workerGroup/workerId". */
void tc_worker_split(struct str worker, struct str *group, struct str *id);

/* {"taskId": …, "runs": […]} */
void tc_status_write(struct buf *b, const struct tc_task *t);

#endif
