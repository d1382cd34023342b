/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SERVER_GREETING_H
#define SERVER_GREETING_H

/* What a person who starts the server in a terminal reads below its log: the address of the web
 * console and a first command to try. */

#include "base/buf.h"
#include "server/listener.h"
#include "server/settings.h"

/* Adds the lines. program: the name by which this program was run. guarded: requests need
 * credentials. */
void greeting_text(struct buf *b, const struct settings *set, const struct listener *primary,
                   const char *program, bool guarded);
/* Prints them on standard error if that is a terminal: scripts read standard output, and services
 * keep standard error as their log. */
void greeting_print(const struct settings *set, const struct listener *primary, bool guarded);

#endif
