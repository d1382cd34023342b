/* SPDX-License-Identifier: Apache-2.0 */
#ifndef EXECUTOR_EXEC_CHECK_H
#define EXECUTOR_EXEC_CHECK_H

/* Whether an executor with these settings could do its work: the cluster is reached, its
 * certificate is trusted, the credentials are accepted, and they may do in every namespace what an
 * executor does. Nothing is changed, and Tenax's server is not asked. */

#include "base/buf.h"
#include "executor/exec_settings.h"
#include "kube/kube_answer.h"
#include "kube/kube_config.h"

/* Adds to `out` what is for programs: nothing but, if something is missing, the Roles in YAML that
 * grant exactly that; to `words`, lines for people. Returns an exit code of client/subcommand.h:
 * CLI_OK, or CLI_REFUSED, or CLI_UNREACHABLE. No credentials are shown. */
int exec_check(const struct exec_settings *settings, struct buf *out, struct buf *words);

/* Says in two lines why the cluster could not be asked, and where that is to be mended; returns the
 * exit code. */
int exec_check_fault(const struct kube_config *k, enum kube_answer_reason reason,
                     struct str message, struct buf *words);

#endif
