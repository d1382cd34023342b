/* SPDX-License-Identifier: Apache-2.0 */
#ifndef EXECUTOR_EXEC_IDENTITY_H
#define EXECUTOR_EXEC_IDENTITY_H

/* Which executor this is. A restarted executor has to find its pods, its leases and its journal
 * again, also in a container whose host name is new each time and whose disk is empty: so its name
 * follows from where it was started and with which flags, unless it was given one. */

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/str.h"

/* What makes two executors different. What merely says how much or how long (--max-pods, times)
 * is not among it: a restart with other limits is the same executor. */
struct exec_identity {
    const char *cwd, *home; /* home may be NULL */
    const char *server;
    const char *const *queues; /* in any order; twice is once */
    size_t queue_count;
    const char *kubeconfig; /* an absolute path, or NULL: in a cluster */
    const char *context;    /* or NULL: the current one */
    const char *namespace;  /* or NULL: that of the context */
    const char *prefix;
    struct str cluster; /* in a cluster: its certificate authority, which no other cluster has */
};

/* Adds "executor-" and 16 hexadecimal digits. */
void exec_identity_name(const struct exec_identity *id, struct buf *name);

/* Adds the default state directory of the executor of that name:
 * $XDG_STATE_HOME/tenax/NAME, else $HOME/.local/state/tenax/NAME, else .tenax/NAME in cwd. */
void exec_identity_dir(const char *xdg_state_home, const char *home, const char *cwd,
                       struct str name, struct buf *dir);

/* Whether this is a name that a label's value may be: 1 to 63 letters, digits, '-', '_', '.', the
 * first and the last a letter or a digit. */
bool exec_identity_is_name(struct str name);

#endif
