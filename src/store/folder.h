/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STORE_FOLDER_H
#define STORE_FOLDER_H

/* Whole folders. */

#include <stdbool.h>

#include "base/err.h"

/* Removes the folder and everything in it; links are removed, not followed. It may be absent.
 * ERR_IO. */
NODISCARD struct err folder_remove(const char *path);
/* Whether the folder exists; *empty if it has no entries. ERR_IO if it is not a folder. */
NODISCARD struct err folder_look(const char *path, bool *there, bool *empty);
/* Syncs the names in it: what was created, renamed or removed is on disk afterwards. ERR_IO. */
NODISCARD struct err folder_sync(const char *path);
/* ERR_DISK_FULL or ERR_IO: "cannot <what> <path>: <errno>". */
NODISCARD struct err folder_error(const char *what, const char *path);

#endif
