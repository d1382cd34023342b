/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STORE_ROCKS_ERROR_H
#define STORE_ROCKS_ERROR_H

/* RocksDB's errors, which its C API distinguishes only by their text. */

#include <stdint.h>

#include "base/err.h"

/* ERR_DISK_FULL, ERR_LOCKED, ERR_CORRUPT, or else `otherwise`. */
enum err_code rocks_error_code(const char *text, enum err_code otherwise);
/* The same as an error; frees the text, of which NULL means no error. */
NODISCARD struct err rocks_error(char *text, enum err_code otherwise);
/* The number of the corrupt table that an error names; 0: it is about something else. */
uint64_t rocks_error_table(const char *text);

#endif
