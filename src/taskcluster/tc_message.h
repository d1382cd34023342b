/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TASKCLUSTER_TC_MESSAGE_H
#define TASKCLUSTER_TC_MESSAGE_H

/* What happens to tasks, as the messages that Taskcluster's queue publishes. A message follows from
 * an event and what is kept of its job, which may have gone on since then: what happened later is
 * taken away from it again. So a message is the same whenever the event is read, and none is
 * stored.
 *
 *   {"exchange": "exchange/taskcluster-queue/v1/task-pending", "routingKey": "primary.…",
 *    "cc": ["route.…"], "payload": {…}} */

#include "core/event.h"
#include "core/group.h"
#include "taskcluster/tc_artifact.h"
#include "taskcluster/tc_status.h"

/* Whether there may be messages about an event. */
bool tc_message_tells(const struct job_event *ev);
/* Adds the messages about an event of a task, with commas between them; none if there are none, or
 * if the job is no task. t is the task as it is now. That of EVENT_ARTIFACT is not complete: what
 * is known of the artifact follows by tc_message_artifact, or the caller takes it away again. */
void tc_message_of_task(struct buf *b, const struct job_event *ev, const struct tc_task *t,
                        struct arena *a);
void tc_message_artifact(struct buf *b, const struct tc_artifact *artifact);
/* The same about an event of a group. Nothing if it is not one of tasks. */
void tc_message_of_group(struct buf *b, const struct job_event *ev, const struct group_record *g);

#endif
