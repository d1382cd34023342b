/* SPDX-License-Identifier: Apache-2.0 */

/* Tables and log. Each batch writes its number into the tables, with its own records: tables are
 * written out as a whole, so that the number in them says exactly which batches they hold. */

#include "base/must.h"
#include "store/batch_bytes.h"
#include "store/log_file.h"
#include "store/log_frame.h"
#include "store/reader.h"
#include "store/rocks_internal.h"
#include "store/writer.h"

/* Right before the states of jobs, which most tables have: every table written out has this key,
 * and one of which nothing can be read is believed to have lost all keys from its first to its
 * last. */
#define NUMBER_KEY     STR("S")
#define NUMBER_LEN_MAX 80

/* Of the room that the disk has left the log may take one part in so many before tables are
 * written, but MIB in any case: what was deleted there takes room until then. */
#define LOG_SHARE 32
#define LOG_LEAST MIB

bool rocks_number_is(struct str key)
{
    return str_eq(key, NUMBER_KEY);
}

void rocks_number_put(struct rocks *r, uint64_t number)
{
    char bytes[NUMBER_LEN_MAX];
    struct writer writer = writer_into(bytes, sizeof bytes);
    writer_varint(&writer, number);
    if (r->foreign)
        rocks_foreign_mark(r, number, &writer);
    must(writer.len <= sizeof bytes);
    rocksdb_writebatch_put(r->writes, NUMBER_KEY.at, NUMBER_KEY.len, bytes, writer.len);
}

struct err rocks_number_get(struct rocks *r, const rocksdb_readoptions_t *how, bool *found,
                            uint64_t *number)
{
    char *text = NULL;
    size_t len;
    char *at = rocksdb_get(r->db, how, NUMBER_KEY.at, NUMBER_KEY.len, &len, &text);
    *found = at != NULL;
    *number = 0;
    struct reader reader = {.value = {at, len}};
    if (at)
        *number = reader_varint(&reader, "number", UINT64_MAX);
    rocksdb_free(at);
    if (at && reader.bad)
        return err_make(ERR_CORRUPT,
                        "the number of the last batch in the tables of %.120s does "
                        "not decode: restore a backup",
                        r->dir);
    return rocks_err_of_tables(r, text, ERR_STORE);
}

bool rocks_log_is_full(struct rocks *r, size_t bytes)
{
    uint64_t room = (uint64_t)rocks_recent_space(r) / LOG_SHARE, most = r->log_bytes;
    if (most > room)
        most = room > LOG_LEAST ? room : LOG_LEAST;
    return r->logged + log_frame_size(bytes) >= most;
}

struct err rocks_log_count(struct rocks *r, size_t bytes)
{
    bool full = rocks_log_is_full(r, bytes);
    r->logged += log_frame_size(bytes);
    return full && rocks_may_flush(r) ? rocks_flush_anyway(r, false) : err_none();
}

/* --- replay --- */

static struct err add_op(void *ctx, const struct batch_op *op)
{
    rocksdb_writebatch_t *w = ctx;
    if (op->value.at)
        rocksdb_writebatch_put(w, op->key.at, op->key.len, op->value.at, op->value.len);
    else
        rocksdb_writebatch_delete(w, op->key.at, op->key.len);
    return err_none();
}

static struct err apply(void *ctx, uint64_t number, struct str batch)
{
    struct rocks *r = ctx;
    char *text = NULL;
    TRY(batch_bytes_read(batch, add_op, r->writes));
    r->logged += log_frame_size(batch.len);
    rocks_number_put(r, number);
    rocksdb_write(r->db, r->unlogged, r->writes, &text);
    rocksdb_writebatch_clear(r->writes);
    if (r->foreign)
        rocks_foreign_works(r);
    return rocks_err_of_tables(r, text, ERR_STORE);
}

/* A root directory whose log was RocksDB's: what that had goes to tables, with the number 0. From
 * then on there is the log. */
NODISCARD static struct err upgrade(struct rocks *r)
{
    char *text = NULL;
    rocks_number_put(r, 0);
    rocksdb_write(r->db, r->unlogged, r->writes, &text);
    rocksdb_writebatch_clear(r->writes);
    TRY(rocks_err_of_tables(r, text, ERR_STORE));
    TRY(rocks_await_merges(r));
    return rocks_flush(r);
}

/* The record may be older than what was noted in the inventory, or missing, where a table that had
 * it is damaged: what the log has is applied to what is left of it. */
NODISCARD static struct err look(struct rocks *r, bool mending, bool *found)
{
    uint64_t number;
    struct err e = rocks_number_get(r, r->flushed, found, &number);
    if (e.code != ERR_OK && !(mending && r->has_log))
        return e;
    if (number > r->tables)
        r->tables = number;
    *found |= r->has_log;
    return err_none();
}

static struct log_file_settings settings_of(struct rocks *r)
{
    return (struct log_file_settings){.dir = r->dir,
                                      .from = r->tables + 1,
                                      .keep = r->held < r->tables ? r->held + 1 : 0,
                                      .reached = r->reached,
                                      .found = r->has_log,
                                      .lossy = r->lossy,
                                      .unsynced = r->unsynced,
                                      .ring = r->ring,
                                      .may_grow = rocks_may_grow,
                                      .ctx = r};
}

struct err rocks_log_apply(struct rocks *r, uint64_t from)
{
    return log_replay(r->log, from, apply, r);
}

struct err rocks_log_open(struct rocks *r, bool mending)
{
    bool found;
    TRY(look(r, mending, &found));
    if (!found)
        TRY(upgrade(r));
    struct log_file_settings settings = settings_of(r);
    TRY(log_file_open(&settings, &r->log));
    r->reached = r->number = log_durable(r->log);
    r->logged = 0;
    return rocks_log_apply(r, r->tables + 1);
}

static struct err overlay_op(void *ctx, const struct batch_op *op)
{
    rocksdb_writebatch_wi_t *w = ctx;
    if (op->value.at)
        rocksdb_writebatch_wi_put(w, op->key.at, op->key.len, op->value.at, op->value.len);
    else
        rocksdb_writebatch_wi_delete(w, op->key.at, op->key.len);
    return err_none();
}

static struct err overlay_batch(void *ctx, uint64_t number, struct str batch)
{
    struct rocks *r = ctx;
    (void)number;
    r->overlaid += batch.len;
    return batch_bytes_read(batch, overlay_op, r->overlay);
}

struct err rocks_log_overlay(struct rocks *r)
{
    bool found;
    struct log *l;
    TRY(look(r, true, &found));
    if (!found)
        return err_none(); /* of an older tenax, or new */
    struct log_file_settings settings = settings_of(r);
    TRY(log_file_open_reader(&settings, &l));
    r->overlay = rocksdb_writebatch_wi_create(0, 1);
    r->overlaid = 0;
    r->number = log_durable(l);
    struct err e = log_replay(l, r->tables + 1, overlay_batch, r);
    log_close(l);
    return e;
}

struct replay {
    store_replay_fn fn;
    void *ctx;
    uint64_t number;
};

static struct err replay_op(void *ctx, const struct batch_op *op)
{
    const struct replay *r = ctx;
    return r->fn(r->ctx, r->number, op);
}

static struct err replay_batch(void *ctx, uint64_t number, struct str batch)
{
    struct replay *r = ctx;
    r->number = number;
    return batch_bytes_read(batch, replay_op, r);
}

struct err rocks_log_replay(struct store *s, uint64_t from, store_replay_fn fn, void *ctx)
{
    struct rocks *r = rocks_of(s);
    struct replay replay = {.fn = fn, .ctx = ctx};
    if (from > r->number)
        return err_none();
    if (!r->log || from < log_first(r->log))
        return err_make(ERR_NOT_FOUND, "batch %llu is not kept", (unsigned long long)from);
    return log_replay(r->log, from, replay_batch, &replay);
}

void rocks_log_look(struct rocks *r)
{
    bool found;
    uint64_t number;
    struct err e = rocks_number_get(r, r->flushed, &found, &number);
    if (e.code == ERR_OK && found && number > r->tables)
        r->tables = number;
}

void rocks_log_close(struct rocks *r)
{
    if (r->log)
        log_close(r->log);
    r->log = NULL;
    if (r->overlay)
        rocksdb_writebatch_wi_destroy(r->overlay);
    r->overlay = NULL;
}
