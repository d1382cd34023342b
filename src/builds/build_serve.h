/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUILDS_BUILD_SERVE_H
#define BUILDS_BUILD_SERVE_H

/* The build worker as a process: its parts put together, its listener, its end. */

#include "builds/build_settings.h"

/* Works until SIGTERM or SIGINT, after which what was begun is finished; a second one ends it at
 * once. Returns the exit code: CLI_OK, or that of a start that failed, which was logged. */
int build_serve(struct build_settings *s);

#endif
