/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WORKER_TASK_PAYLOAD_H
#define WORKER_TASK_PAYLOAD_H

/* The payload of a Taskcluster task, as `tenax work --taskcluster` understands it: a subset of what
 * generic-worker's payloads for POSIX systems may have. Whoever creates tasks writes it, and the
 * queue does not look at it. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"
#include "base/units.h"

#define TASK_COMMANDS_MAX  1000
#define TASK_WORDS_MAX     10000 /* of one command */
#define TASK_ENV_MAX       1000
#define TASK_ARTIFACTS_MAX 1000

/* The artifact that the worker itself makes. */
#define TASK_LOG_NAME "public/logs/live.log"

enum task_artifact_type { TASK_FILE, TASK_DIRECTORY };

struct task_artifact {
    enum task_artifact_type type;
    const char *path; /* below the task's directory, normalised: no "", "." or ".." in it; of a
                       * directory it may be "", the whole of it */
    const char *name;
    const char *content_type; /* NULL: guess */
    instant expires;          /* INSTANT_NONE: with the task */
    bool optional;
};

struct task_payload {
    char ***commands; /* of each the words, and a NULL */
    size_t command_count;
    char **env; /* "NAME=value" */
    size_t env_count;
    span max_run_time;
    struct task_artifact *artifacts;
    size_t artifact_count;
    uint8_t retry_exit[256 / 8]; /* exit codes after which another run shall be tried */
};

/* What a payload must fit, besides its form. */
struct task_limits {
    span run_time;             /* the longest; 0: any */
    instant deadline, expires; /* of the task: its artifacts expire between them */
};

/* Reads a payload; all of it lives in the arena. ERR_BAD_VALUE with a sentence that says where the
 * fault is: "payload.command[0][1]: expected a string, found a number". */
NODISCARD struct err task_payload_read(struct str json, const struct task_limits *limits,
                                       struct arena *a, struct task_payload *out);

/* Whether another run shall be tried after a command has ended with this exit status. */
static inline bool task_payload_retries(const struct task_payload *p, int status)
{
    return status > 0 && status < 256 && (p->retry_exit[status / 8] >> (status % 8) & 1);
}

#endif
