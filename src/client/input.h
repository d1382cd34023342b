/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLIENT_INPUT_H
#define CLIENT_INPUT_H

/* What commands read from files and from lists on the command line. */

#include "base/buf.h"
#include "client/subcommand.h"

/* Adds the file's bytes, "-" being standard input, to the buffer; what is longer than most is
 * cut somewhere behind it. CLI_OK, or CLI_USAGE after the reason was printed. */
int input_read(const struct subcommand *c, const char *file, size_t most, struct buf *to);

/* Adds "a,b" as a JSON array of strings. */
void input_names(struct buf *b, const char *names);

#endif
