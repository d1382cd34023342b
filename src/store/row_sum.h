/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STORE_ROW_SUM_H
#define STORE_ROW_SUM_H

/* Checksums of rows in PostgreSQL: CRC-32C, four bytes, big-endian. A row without one was written
 * by a server that did not know of them. */

#include <stdbool.h>

#include "postgres/pg_log.h"

#define ROW_SUM_LEN 4

/* Of the batch's number, its epoch and its bytes: a row in another's place does not pass. */
void row_sum_of_batch(const struct pg_log_row *row, char out[ROW_SUM_LEN]);
/* Of the key and the value. */
void row_sum_of_record(struct str key, struct str value, char out[ROW_SUM_LEN]);
bool row_sum_is_right(const struct pg_log_row *row);
bool row_sum_is_right_of_record(const struct pg_record *record);

#endif
