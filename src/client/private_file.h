/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLIENT_PRIVATE_FILE_H
#define CLIENT_PRIVATE_FILE_H

/* A file that its owner alone may read (mode 0600). It replaces an older one as a whole, or not at
 * all: until private_file_commit the older one stays. */

#include "base/err.h"
#include "base/str.h"

struct private_file {
    char *path, *fresh;
    int fd;
};

/* Opens it before there is anything to write, so that a secret which is told once is not lost to a
 * folder that cannot be written. After an error there is nothing to abandon. */
NODISCARD struct err private_file_open(struct private_file *f, const char *path);
/* Writes and closes it; also after an error. */
NODISCARD struct err private_file_commit(struct private_file *f, struct str text);
/* Closes it; the older file stays. */
void private_file_abandon(struct private_file *f);

#endif
