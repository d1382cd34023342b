/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CONSOLE_CONSOLE_H
#define CONSOLE_CONSOLE_H

/* The web console, under /console: a page of files that lie in the binary. It knows nothing of
 * jobs: what it shows, its scripts ask of the Jobs API, with the reader's own token. The files are
 * no secret and are served to everybody who reaches the listener; a Content-Security-Policy keeps
 * the page from loading or sending anything beyond its own origin. Runs on the loop thread. */

#include "net/router.h"

#define CONSOLE_PATH "/console"

/* What is mounted. It has no state, and lives as long as the program. */
const struct front_end *console_front_end(void);

#endif
