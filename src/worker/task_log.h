/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WORKER_TASK_LOG_H
#define WORKER_TASK_LOG_H

/* The log of a task: what its commands write, and what the worker says of them in lines of its own,
 * in one file outside of the task's directory. It is bounded: once full it only takes lines. */

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

#define TASK_LOG_MAX ((int64_t)12 << 20) /* bytes from commands */

struct task_log {
    int fd; /* -1: closed */
    int64_t size;
    bool full;
    bool broken; /* the last byte was no line feed */
};

/* ERR_IO, ERR_DISK_FULL. */
NODISCARD struct err task_log_open(struct task_log *l, const char *path);
void task_log_fini(struct task_log *l);
/* What a command has written. */
void task_log_output(struct task_log *l, struct str bytes);
/* "[taskcluster 2026-11-21T09:00:00.000Z] …" */
void task_log_line(struct task_log *l, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* "[taskcluster:error] …", which Taskcluster's viewers show in red. */
void task_log_error(struct task_log *l, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
