/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLIENT_BEARER_H
#define CLIENT_BEARER_H

/* The token by which a command is known to the server. It comes from a file or from the variable
 * TENAX_TOKEN, never from the command line, which others on the machine can read. */

#include "base/buf.h"
#include "base/err.h"

#define BEARER_MAX 8192
/* How old what was read from a file may be before it is read again. */
#define BEARER_AGE_MS 2000

/* Adds the line "Authorization: Bearer TOKEN" without a line feed; nothing if there is no token.
 * ERR_IO: the file cannot be read; ERR_BAD_VALUE: what is there is no token. Messages never quote
 * it. */
NODISCARD struct err bearer_line(const char *file, struct buf *line);

#endif
