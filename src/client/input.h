/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLIENT_INPUT_H
#define CLIENT_INPUT_H

/* Input from files and from lists on the command line. */

#include "base/buf.h"
#include "client/subcommand.h"

/* Adds the file's bytes to the buffer; "-" is standard input. Stops reading somewhere beyond `most`
 * bytes. CLI_OK, or CLI_USAGE after printing the reason. */
int input_read(const struct subcommand *c, const char *file, size_t most, struct buf *to);

/* Adds "a,b" as a JSON array of strings. */
void input_names(struct buf *b, const char *names);

#endif
