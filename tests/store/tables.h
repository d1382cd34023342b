/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_STORE_TABLES_H
#define TESTS_STORE_TABLES_H

/* Tables of a root directory that nobody has open, and damaging them. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/store.h"

/* Writes what only the log of the store in dir has into a table. ERR_CORRUPT where RocksDB has met
 * damage. */
NODISCARD struct err tables_flush(struct store *s, const char *dir);
/* The same while nobody has it open; with `compact`, all tables into one level. */
void tables_make(const char *dir, bool compact);
/* Then adds so many small tables that wait to be merged with all of it, and change nothing. */
void tables_pile(const char *dir, int count);
/* The path of the largest table, to be freed; NULL if there is none. */
char *tables_largest(const char *dir, size_t *size);
/* Changes a bit of the byte at that position; from the end if negative. */
void tables_flip(const char *path, long at);

#endif
