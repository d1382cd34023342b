/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_COMMANDS_H
#define CLI_COMMANDS_H

/* The commands other than `serve`: each has a help page and a function. The functions take the
 * arguments beginning with the command's name and return an enum cli_exit. */

#include "client/subcommand.h"

extern const struct subcommand budgets_command, enqueue_command, work_command, executor_command,
    jobs_command, job_command, explain_command, queues_command, version_command, tls_command,
    token_command, audit_command, retry_command, cancel_command, patch_command, delete_command,
    backup_command, restore_command, check_command, crons_command, cron_command, policy_command,
    queue_command, retry_settings_command, create_command, apply_command, get_command,
    update_command, completion_command, context_command, dev_command, events_command,
    compact_command, group_command, build_worker_command, pods_command, bridge_command,
    failures_command, workers_command, operations_command, postgres_command, servers_command,
    step_down_command, release_command;

int bridge_main(int argc, char **argv);
int build_worker_main(int argc, char **argv);
int enqueue_main(int argc, char **argv);
int work_main(int argc, char **argv);
int executor_main(int argc, char **argv);
int jobs_main(int argc, char **argv);
int job_main(int argc, char **argv);
int workers_main(int argc, char **argv);
int operations_main(int argc, char **argv);
int failures_main(int argc, char **argv);
int explain_main(int argc, char **argv);
int group_main(int argc, char **argv);
int postgres_main(int argc, char **argv);
int servers_main(int argc, char **argv);
int step_down_main(int argc, char **argv);
int pods_main(int argc, char **argv);
int queues_main(int argc, char **argv);
int tls_main(int argc, char **argv);
int token_main(int argc, char **argv);
int audit_main(int argc, char **argv);
/* The page of `tenax tls WORD`, or NULL. */
const struct subcommand *tls_page(const char *word);
int version_main(int argc, char **argv);
int release_main(int argc, char **argv);
int retry_main(int argc, char **argv);
int cancel_main(int argc, char **argv);
int patch_main(int argc, char **argv);
int delete_main(int argc, char **argv);
int backup_main(int argc, char **argv);
int restore_main(int argc, char **argv);
int compact_main(int argc, char **argv);
int check_main(int argc, char **argv);
int policy_main(int argc, char **argv);
int retry_settings_main(int argc, char **argv);
int queue_main(int argc, char **argv);
int budgets_main(int argc, char **argv);
int create_main(int argc, char **argv);
int apply_main(int argc, char **argv);
int get_main(int argc, char **argv);
int update_main(int argc, char **argv);
int crons_main(int argc, char **argv);
int cron_main(int argc, char **argv);
int events_main(int argc, char **argv);
int completion_main(int argc, char **argv);
int context_main(int argc, char **argv);
int dev_main(int argc, char **argv);

#endif
