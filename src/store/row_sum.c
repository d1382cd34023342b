/* SPDX-License-Identifier: Apache-2.0 */
#include "store/row_sum.h"

#include <string.h>

#include "store/checksum.h"

static void put(uint64_t v, size_t len, char *out)
{
    for (size_t i = 0; i < len; i++)
        out[i] = (char)(v >> (8 * (len - 1 - i)));
}

void row_sum_of_batch(const struct pg_log_row *row, char out[ROW_SUM_LEN])
{
    char place[16];
    put(row->seq, 8, place);
    put(row->epoch, 8, place + 8);
    put(checksum_add(checksum_add(0, place, sizeof place), row->batch.at, row->batch.len),
        ROW_SUM_LEN, out);
}

void row_sum_of_record(struct str key, struct str value, char out[ROW_SUM_LEN])
{
    put(checksum_add(checksum_add(0, key.at, key.len), value.at, value.len), ROW_SUM_LEN, out);
}

static bool is(struct str sum, const char wanted[ROW_SUM_LEN])
{
    return sum.len == ROW_SUM_LEN && memcmp(sum.at, wanted, ROW_SUM_LEN) == 0;
}

bool row_sum_is_right(const struct pg_log_row *row)
{
    char wanted[ROW_SUM_LEN];
    row_sum_of_batch(row, wanted);
    return !row->sum.at || is(row->sum, wanted);
}

bool row_sum_is_right_of_record(const struct pg_record *record)
{
    char wanted[ROW_SUM_LEN];
    row_sum_of_record(record->key, record->value, wanted);
    return !record->sum.at || is(record->sum, wanted);
}
