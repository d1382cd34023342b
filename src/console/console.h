/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CONSOLE_CONSOLE_H
#define CONSOLE_CONSOLE_H

/* The web console, under /console: a page of files that lie in the binary. It knows nothing of
 * jobs: what it shows, its scripts ask of the Jobs API, with the reader's own token. The files are
 * no secret and are served to everybody who reaches the listener; a Content-Security-Policy keeps
 * the page from loading or sending anything beyond its own origin. Runs on the loop thread. */

#include "net/router.h"

#define CONSOLE_PATH "/console"
/* Where Taskcluster's pages show a task: "/tasks/ID" and "/tasks/ID/runs/N". */
#define CONSOLE_TASKS_PATH "/tasks"

/* What is mounted: the page, and what leads from a task's address to it. Neither has state, and
 * both live as long as the program. */
const struct front_end *console_front_end(void);
const struct front_end *console_task_front_end(void);

#endif
