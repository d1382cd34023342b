/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TASKCLUSTER_TC_TASK_H
#define TASKCLUSTER_TC_TASK_H

/* Tasks as handlers use them: found by their id, changed by a command, answered with their
 * status. */

#include "taskcluster/tc_internal.h"
#include "taskcluster/tc_status.h"

/* Makes a task of a reply to CMD_READ with runs; false if the job is none. Its strings are the
 * reply's or live in the arena. */
bool tc_task_of(const struct reply *r, struct arena *a, struct tc_task *t);

/* Reads the task and calls then(c, t), unless there is no such task: then it has answered 404.
 * t is valid for the call, with c->now as of now. Several may be read one after the other. */
void tc_task_read(struct tc_call *c, struct str task_id,
                  void (*then)(struct tc_call *c, const struct tc_task *t));
/* The same without an answer of its own: t is NULL if there is no such task. */
void tc_task_find(struct tc_call *c, struct str task_id,
                  void (*then)(struct tc_call *c, const struct tc_task *t));
/* Submits a command about the task (by its alias, which is filled in) and reads the task after it:
 * then(c, err, t) with what came of the command. */
void tc_task_change(struct tc_call *c, struct str task_id, struct command *cmd,
                    void (*then)(struct tc_call *c, const struct err *err,
                                 const struct tc_task *t));

/* {"status": …} */
void tc_task_reply(struct tc_call *c, const struct tc_task *t);
/* tc_authorize by what a task says of itself; for scopes of schedulers, projects and queues. */
bool tc_task_authorize(struct tc_call *c, const struct tc_task *t);
/* Answers 409 and is false if the task's deadline is over; `what` could not be done. */
bool tc_task_in_time(struct tc_call *c, const struct tc_task *t, const char *what);

#endif
