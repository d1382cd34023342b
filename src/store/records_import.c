/* SPDX-License-Identifier: Apache-2.0 */
#include "store/records_import.h"

#include "postgres/pg_array.h"
#include "postgres/pg_log.h"
#include "postgres/pg_shard.h"
#include "store/row_sum.h"

/* Of one statement. */
#define WRITE_KEYS  5000
#define WRITE_BYTES ((size_t)1024 * 1024)

/* After this batch, which has everything, the log begins. */
#define FIRST_BATCH 1

struct import {
    struct pg *pg;
    int shard;
    uint64_t epoch, count;
    struct pg_array keys, values, sums, none;
};

NODISCARD static struct err write_out(struct import *i)
{
    i->count += i->keys.count;
    const struct pg_records_change change = {pg_array_view(&i->keys), pg_array_view(&i->values),
                                             pg_array_view(&i->sums), pg_array_view(&i->none)};
    TRY(pg_records_flush(i->pg, i->shard, i->epoch, &change));
    pg_array_reset(&i->keys);
    pg_array_reset(&i->values);
    pg_array_reset(&i->sums);
    return err_none();
}

NODISCARD static struct err copy(struct import *i, struct store *from)
{
    struct str key, value;
    struct err e = err_none();
    struct store_cursor *c = store_cursor_new(from);
    store_cursor_seek(c, from, (struct str){"", 0}, false);
    while (e.code == ERR_OK && store_cursor_at(c, from, &key, &value)) {
        pg_array_add(&i->keys, key);
        pg_array_add(&i->values, value);
        char sum[ROW_SUM_LEN];
        row_sum_of_record(key, value, sum);
        pg_array_add(&i->sums, (struct str){sum, sizeof sum});
        if (i->keys.count >= WRITE_KEYS || i->values.bytes.len >= WRITE_BYTES)
            e = write_out(i);
        store_cursor_step(c, from, false);
    }
    struct err read = store_cursor_free(c, from);
    TRY(e);
    TRY(read);
    return write_out(i);
}

NODISCARD static struct err check_empty(struct pg *pg, int shard, const struct pg_shard *s)
{
    static const struct pg_statement any = {
        "import_any", "SELECT FROM tenax.records WHERE shard = $1::bigint LIMIT 1"};
    struct pg_param params[] = {pg_number(shard)};
    struct pg_rows *rows;
    TRY(pg_run(pg, &any, params, 1, &rows));
    bool empty = pg_rows_count(rows) == 0 && s->seq == 0 && s->flushed == 0;
    pg_rows_free(rows);
    if (s->owned)
        return err_make(ERR_CONFLICT, "server %s owns the jobs in PostgreSQL: stop it first",
                        s->owner);
    return empty ? err_none()
                 : err_make(ERR_CONFLICT, "there are jobs in PostgreSQL already; jobs can be "
                                          "imported only into an empty schema");
}

NODISCARD static struct err import_all(struct import *i, struct store *from)
{
    struct pg_shard s;
    TRY(pg_shard_read(i->pg, i->shard, &s));
    TRY(check_empty(i->pg, i->shard, &s));
    TRY(pg_shard_take(i->pg, i->shard, &s, "import", "", (span){1000}, &i->epoch));
    TRY(copy(i, from));
    TRY(pg_log_begin(i->pg, i->shard, i->epoch, FIRST_BATCH));
    return pg_shard_release(i->pg, i->shard, i->epoch);
}

struct err records_import(struct pg *pg, int shard, struct store *from, uint64_t *count)
{
    struct import i = {.pg = pg, .shard = shard};
    TRY(pg_script(pg, "BEGIN"));
    struct err e = import_all(&i, from);
    pg_array_fini(&i.keys);
    pg_array_fini(&i.values);
    pg_array_fini(&i.sums);
    pg_array_fini(&i.none);
    *count = i.count;
    if (e.code == ERR_OK)
        return pg_script(pg, "COMMIT");
    struct err back = pg_script(pg, "ROLLBACK");
    (void)back; /* the connection's end is one, too */
    return e;
}
