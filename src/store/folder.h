/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STORE_FOLDER_H
#define STORE_FOLDER_H

/* Folders as a whole. */

#include <stdbool.h>

#include "base/err.h"

/* Removes the folder and all in it; links are removed, not followed. No such folder is
 * fine. ERR_IO. */
NODISCARD struct err folder_remove(const char *path);
/* Whether it is there; *empty if nothing is in it. ERR_IO if it is something else. */
NODISCARD struct err folder_look(const char *path, bool *there, bool *empty);
/* What was made, renamed or removed in it is on disk afterwards. ERR_IO. */
NODISCARD struct err folder_sync(const char *path);
/* ERR_DISK_FULL or ERR_IO: "cannot <what> <path>: <errno>". */
NODISCARD struct err folder_error(const char *what, const char *path);

#endif
