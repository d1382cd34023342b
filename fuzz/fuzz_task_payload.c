/* SPDX-License-Identifier: Apache-2.0 */

/* A task's payload: what is accepted keeps to its limits, what is refused is refused in words. */

#include <stdint.h>
#include <stdlib.h>

#include "base/must.h"
#include "worker/task_payload.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_artifact(const struct task_artifact *t, const struct task_limits *limits)
{
    must(t->name[0] && strlen(t->name) <= 1024);
    must(t->path[0] != '/' && (t->path[0] || t->type == TASK_DIRECTORY));
    for (const char *at = t->path; *at;) {
        size_t n = strcspn(at, "/");
        must(n > 0 && !(n == 1 && at[0] == '.') && !(n == 2 && at[0] == '.' && at[1] == '.'));
        must(!at[n] || at[n + 1]);
        at += n + (at[n] == '/');
    }
    must(!instant_is_set(t->expires) ||
         (t->expires.ms >= limits->deadline.ms && t->expires.ms <= limits->expires.ms));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct task_limits limits = {.deadline = {INT64_C(1893456000000)},
                                              .expires = {INT64_C(1924992000000)}};
    struct arena a = {0};
    struct task_payload p;
    struct err e = task_payload_read((struct str){(const char *)data, size}, &limits, &a, &p);
    if (e.code == ERR_OK) {
        must(p.command_count >= 1 && p.command_count <= TASK_COMMANDS_MAX);
        must(p.max_run_time.ms >= 1000 && p.env_count <= TASK_ENV_MAX);
        for (size_t i = 0; i < p.command_count; i++)
            must(p.commands[i][0] && p.commands[i][0][0]);
        for (size_t i = 0; i < p.env_count; i++)
            must(strchr(p.env[i], '=') > p.env[i]);
        must(p.artifact_count <= TASK_ARTIFACTS_MAX && !task_payload_retries(&p, 0));
        for (size_t i = 0; i < p.artifact_count; i++)
            check_artifact(&p.artifacts[i], &limits);
    } else {
        must(e.code == ERR_BAD_VALUE && strncmp(e.msg, "payload", 7) == 0);
    }
    arena_fini(&a);
    return 0;
}
