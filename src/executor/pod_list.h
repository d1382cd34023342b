/* SPDX-License-Identifier: Apache-2.0 */
#ifndef EXECUTOR_POD_LIST_H
#define EXECUTOR_POD_LIST_H

/* The pods of executors, as a cluster shows them now: asked of its API server, so that they are
 * shown also if no executor runs. */

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/buf.h"
#include "executor/exec_settings.h"

struct pod_list_row {
    struct str job, executor, queue, type; /* of the job; queue and type may be empty */
    struct str pod, namespace;
    struct str node; /* or empty */
    int64_t run;
    const char *phase; /* of pod_view_phase */
    instant created_at;
    struct str reason; /* of pod_view_reason; secrets are masked */
};

struct pod_list {
    const struct exec_settings
        *settings;        /* where: kubeconfig, context, namespaces, insecure, mode */
    bool all;             /* in all namespaces; if that may not be, in those of the settings */
    const char *executor; /* of this one alone; NULL: of all */
    struct arena *arena;
    /* The answer, the oldest first. */
    struct pod_list_row *rows;
    size_t count, cap;
};

/* Reads them. Returns an exit code of client/subcommand.h; words: lines for people, what was wrong
 * or was left out. Texts live in the arena. */
int pod_list_read(struct pod_list *l, struct buf *words);

#endif
