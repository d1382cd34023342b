/* SPDX-License-Identifier: Apache-2.0 */

/* What the log has comes to the tables. */

#include "store/log_frame.h"
#include "store/rocks_internal.h"

static void fill_writes(rocksdb_writebatch_t *w, const struct batch *b)
{
    for (size_t i = 0; i < b->count; i++) {
        const struct batch_op *op = &b->ops[i];
        if (op->value.at)
            rocksdb_writebatch_put(w, op->key.at, op->key.len, op->value.at, op->value.len);
        else
            rocksdb_writebatch_delete(w, op->key.at, op->key.len);
    }
}

static char *write_tables(struct rocks *r, const rocksdb_writeoptions_t *how, const struct batch *b,
                          uint64_t number)
{
    char *text = NULL;
    fill_writes(r->writes, b);
    rocks_number_put(r, number);
    rocksdb_write(r->db, how, r->writes, &text);
    rocks_pace_count(r->pace, b->bytes);
    rocksdb_writebatch_clear(r->writes);
    if (b->bytes > ROCKS_KEEP_MAX) {
        rocksdb_writebatch_destroy(r->writes);
        r->writes = rocksdb_writebatch_create();
    }
    return text;
}

/* Every error of a write is ERR_STORE, except for a full disk or a damaged table. RocksDB stops
 * writing after it has met damage in the background. */
static struct err err_of_write(const struct rocks *r, struct err e)
{
    if (e.code != ERR_OK && e.code != ERR_DISK_FULL && !r->hurt)
        e.code = ERR_STORE;
    return e;
}

struct err rocks_apply(struct rocks *r, const struct batch *b, uint64_t number, size_t len)
{
    char *text = write_tables(r, r->unlogged, b, number);
    struct err e = rocks_err_of_tables(r, text, ERR_STORE);
    if (e.code == ERR_OK)
        e = rocks_log_count(r, len);
    return err_of_write(r, e);
}

bool rocks_try_apply(struct rocks *r, const struct batch *b, uint64_t number, size_t len,
                     struct err *result)
{
    char *text = write_tables(r, r->unlogged_at_once, b, number);
    if (text && rocks_says(text, "Write stall")) {
        rocksdb_free(text);
        return false;
    }
    /* Should the log be full now, the next commit is for the thread, which may wait. */
    r->logged += log_frame_size(len);
    *result = err_of_write(r, rocks_err_of_tables(r, text, ERR_STORE));
    return true;
}
