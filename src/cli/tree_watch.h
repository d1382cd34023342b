/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_TREE_WATCH_H
#define CLI_TREE_WATCH_H

/* Notices that source files below some directories have changed, by inotify. What builds, package
 * managers and editors write beside the sources does not count: hidden files and directories,
 * backups, logs, compiled Python, and the directories node_modules, vendor, target, build and
 * __pycache__. */

#include <stdbool.h>

#include "base/err.h"

/* Directories watched at most; each costs the kernel about a kilobyte. */
#define TREE_WATCH_MAX 4096

struct tree_watch;

/* NULL, and *e says why. */
struct tree_watch *tree_watch_new(struct err *e);
void tree_watch_free(struct tree_watch *w);
/* Adds a file, or a directory with all below it. ERR_NOT_FOUND, ERR_IO, ERR_TOO_MANY. */
NODISCARD struct err tree_watch_add(struct tree_watch *w, const char *path);
/* Readable when there is something to look at. */
int tree_watch_fd(const struct tree_watch *w);
/* Whether something has changed since the last call. Directories that are new are watched from now
 * on. The name of one file that changed, valid until the next call, is in *name. */
bool tree_watch_changed(struct tree_watch *w, const char **name);

#endif
