/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_BUILD_POD_COMMAND_H
#define CLI_BUILD_POD_COMMAND_H

/* `tenax build-worker pod`: the pod that a message would make, and the template of pods. */

#include "builds/build_settings.h"

/* Prints the manifest that a start message would make, the token hidden unless it is to be shown.
 * The message, or a buildConfig by itself, is in the file; NULL or "-": standard input. Returns the
 * exit code. */
int build_pod_command(const struct build_settings *s, const char *file, bool with_token);
/* Prints the built-in template. Returns the exit code. */
int build_pod_command_template(void);

#endif
