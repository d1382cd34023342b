/* SPDX-License-Identifier: Apache-2.0 */
#ifndef EXECUTOR_EXEC_SETTINGS_H
#define EXECUTOR_EXEC_SETTINGS_H

/* What an executor was told: filled in by the command, checked, and constant from then on. */

#include <stddef.h>
#include <stdint.h>

#include "base/units.h"
#include "client/call.h"
#include "executor/exec_plan.h"

struct exec_queue {
    const char *name;
    int64_t limit; /* most pods of it at the same time; 0: --max-pods alone limits it */
};

enum exec_logs_of { EXEC_LOGS_FAILED, EXEC_LOGS_NONE };

struct exec_settings {
    const char *server; /* its URL, without a slash at the end */
    struct call_tls tls;
    const char *name;      /* of this executor */
    const char *state_dir; /* where its journal is */
    struct exec_queue *queues;
    size_t queue_count;
    const char *kubeconfig, *context;   /* or NULL */
    const char *namespace;              /* of pods whose payload names none; NULL: the context's */
    const char *const *also_namespaces; /* further ones that payloads may name */
    size_t also_count;
    bool insecure; /* do not verify the API server's certificate */
    const char *prefix;
    const char *template; /* the name of a file, or NULL */
    int64_t pods_max;
    uint64_t memory_max; /* bytes; 0: no limit */
    uint64_t cpu_max;    /* thousandths of a CPU; 0: no limit */
    span lease;
    span image_patience; /* how long a registry that is away is waited for */
    struct plan_limits limits;
    int mode; /* enum kube_verdict_mode */
    int logs; /* enum exec_logs_of */
    int64_t log_lines;
    const char *metrics_host;
    int64_t metrics_port; /* -1: no listener; 0: any port */
};

#endif
