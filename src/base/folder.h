/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_FOLDER_H
#define BASE_FOLDER_H

/* Folders, and the names in them as a power cut leaves them. A name is on disk only once the folder
 * that it is in is synced: until then a new file may be gone, a removed one back, and a renamed one
 * under its earlier name, whatever of their contents was synced. Blocks. */

#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"

/* Makes the folder unless it exists; its parent must. When this returns it is on disk that it
 * exists, also if it was made by a process that was killed before it could see to that.
 * ERR_DISK_FULL or ERR_IO. */
NODISCARD struct err folder_make(const char *path, mode_t mode);
/* The same; missing parents are made, too. */
NODISCARD struct err folder_make_all(const char *path, mode_t mode);
/* Syncs every folder that leads to this one, as far as they are on the same file system and may be
 * read: none of their names is lost afterwards. ERR_IO. */
NODISCARD struct err folder_settle(const char *path);

/* Syncs the names in it: what was created, renamed or removed is on disk afterwards. ERR_IO. */
NODISCARD struct err folder_sync(const char *path);
/* Syncs the folder that the file is in. ERR_IO. */
NODISCARD struct err folder_sync_of(const char *file);

/* Removes the folder and everything in it; links are removed, not followed. It may be absent.
 * ERR_IO. */
NODISCARD struct err folder_remove(const char *path);
/* Whether the folder exists; *empty if it has no entries. ERR_IO if it is not a folder. */
NODISCARD struct err folder_look(const char *path, bool *there, bool *empty);
/* ERR_DISK_FULL or ERR_IO: "cannot <what> <path>: <errno>". */
NODISCARD struct err folder_error(const char *what, const char *path);

#endif
