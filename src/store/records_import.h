/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STORE_RECORDS_IMPORT_H
#define STORE_RECORDS_IMPORT_H

/* Brings everything that a store has into PostgreSQL, where a server then finds it. */

#include "postgres/pg.h"
#include "store/store.h"

/* Copies all records into a shard that is empty, and that nobody owns: ERR_CONFLICT otherwise. All
 * of it or nothing. *count is how many. Errors of the store and of postgres/pg.h. */
NODISCARD struct err records_import(struct pg *pg, int shard, struct store *from, uint64_t *count);

#endif
