/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CONSOLE_CONSOLE_FILES_H
#define CONSOLE_CONSOLE_FILES_H

/* The files of the page (src/console/page), embedded by tools/embed_files.py. */

#include <stddef.h>

struct console_file {
    const char *name; /* "app.js" */
    const unsigned char *bytes;
    size_t len;
};
/* Ended by one whose name is NULL. */
extern const struct console_file console_files[];

#endif
