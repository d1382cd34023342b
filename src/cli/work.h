/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_WORK_H
#define CLI_WORK_H

/* The two kinds of `tenax work`: a command for each job (work.c), and Taskcluster's tasks
 * (work_tasks.c). */

#include "client/client.h"

struct work_args {
    struct client_args client;
    const char *queue, *name, *node;
    int64_t concurrency;
    span lease, grace, timeout, max_run;
    int64_t kill_exit, give_back_exit;
    int category_from; /* index into stderr|termination-message */
    bool once, drain;
    bool taskcluster, poll_urls;
    const char *task_queue, *worker_group, *worker_id;
    int storage; /* enum task_storage */
};

/* Blocks the signals that the loop of a worker reads. */
void work_block_signals(void);
/* Runs tasks; returns the exit code. */
int work_tasks(const struct work_args *args, const struct options *o);

#endif
