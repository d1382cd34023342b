/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ACCESS_TOKEN_FILE_H
#define ACCESS_TOKEN_FILE_H

/* Tokens that were made without a server: each is a file of the folder new-tokens of a root
 * directory, with the hash of the token, until the server takes them in when it starts or gets
 * SIGHUP. Whoever may write there answers for the server anyway. */

#include "access/tokens.h"

/* Writes the token; it is on disk when this returns. ERR_IO. */
NODISCARD struct err token_file_write(const char *root_dir, const struct token *t);
/* Reads those that are there, `most` of them at most, and calls take, which owns the token, for
 * each. ERR_IO: the folder cannot be read. A file that is no token is left, and logged. */
NODISCARD struct err token_file_read_all(const char *root_dir, size_t most,
                                         void (*take)(void *ctx, struct token *t), void *ctx);
/* Removes the file of the token, which is kept elsewhere by now. */
void token_file_remove(const char *root_dir, const struct token *t);
/* After files were removed: no power cut brings them back, and with them tokens that are deleted
 * later. */
void token_file_removed(const char *root_dir);

#endif
