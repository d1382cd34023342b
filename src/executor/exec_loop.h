/* SPDX-License-Identifier: Apache-2.0 */
#ifndef EXECUTOR_EXEC_LOOP_H
#define EXECUTOR_EXEC_LOOP_H

/* An executor: holds leases on jobs, runs each as a pod, and reports what happened. One thread, one
 * loop. SIGTERM or SIGINT ends it: pods go on, and the next start of the same executor takes them
 * over. */

#include "executor/exec_settings.h"

/* Runs until a signal, or until no further try would mend what is wrong, which is logged. Returns
 * an exit code of client/subcommand.h. */
int exec_loop_run(const struct exec_settings *settings);

#endif
