/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TASKCLUSTER_TC_MANY_H
#define TASKCLUSTER_TC_MANY_H

/* Many tasks in one answer: they are read a few at a time, so that neither the loop nor the memory
 * is at the mercy of a list. */

#include "taskcluster/tc_task.h"

#define TC_MANY_MAX 1000 /* tasks of a page */

/* A task by its id, or by that of its job. */
struct tc_ref {
    struct str task_id; /* empty: the job counts */
    struct id job;
};

struct tc_many {
    const struct tc_ref *refs; /* in the arena of the call */
    size_t count;
    /* Writes one task of the answer. */
    void (*write)(struct buf *b, const struct tc_task *t);
    /* Called at the end: out has the tasks, separated by commas. `read` of the refs were looked at:
     * all, or as many as fit into a page. Those that are no tasks (any more) are left out. */
    void (*done)(struct tc_call *c, struct str out, size_t read);
};

/* Reads them in their order; if reading fails, it answers with the error. */
void tc_many_read(struct tc_call *c, const struct tc_many *m);

#endif
