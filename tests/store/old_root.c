/* SPDX-License-Identifier: Apache-2.0 */

/* old_root FROM TO: makes a root directory as it was before the store had a log of its own, with
 * what is in FROM, which nobody is using: RocksDB's log had every commit, and three starts have
 * left a log each. Half of the first one has come into a table. For tests of the upgrade. */

#include <rocksdb/c.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/must.h"
#include "store/rocks.h"

#define STARTS 3

static struct store *open_new(const char *dir)
{
    struct store *s;
    struct err e = rocks_open_reader(dir, 8 << 20, &s);
    if (e.code != ERR_OK)
        fprintf(stderr, "%s\n", e.msg);
    must(e.code == ERR_OK);
    return s;
}

static rocksdb_t *open_old(const char *dir)
{
    char *text = NULL;
    rocksdb_options_t *o = rocksdb_options_create(), *full = rocksdb_options_create();
    rocksdb_options_set_create_if_missing(o, 1);
    rocksdb_get_options_from_string(
        o, "avoid_flush_during_recovery=true;avoid_flush_during_shutdown=true", full, &text);
    must(text == NULL);
    rocksdb_t *db = rocksdb_open(full, dir, &text);
    must(text == NULL);
    rocksdb_options_destroy(o);
    rocksdb_options_destroy(full);
    return db;
}

static void flush(rocksdb_t *db)
{
    char *text = NULL;
    rocksdb_flushoptions_t *o = rocksdb_flushoptions_create();
    rocksdb_flush(db, o, &text);
    must(text == NULL);
    rocksdb_flushoptions_destroy(o);
}

static void put(rocksdb_t *db, struct str key, struct str value)
{
    char *text = NULL;
    rocksdb_writeoptions_t *o = rocksdb_writeoptions_create();
    rocksdb_writeoptions_set_sync(o, 1);
    rocksdb_put(db, o, key.at, key.len, value.at, value.len, &text);
    must(text == NULL);
    rocksdb_writeoptions_destroy(o);
}

static size_t count(struct store *s)
{
    size_t n = 0;
    struct str key, value;
    struct store_cursor *c = store_cursor_new(s);
    for (store_cursor_seek(c, s, STR(""), false); store_cursor_at(c, s, &key, &value); n++)
        store_cursor_step(c, s, false);
    must(store_cursor_free(c, s).code == ERR_OK);
    return n;
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fputs("old_root FROM TO\n", stderr);
        return 2;
    }
    struct store *s = open_new(argv[1]);
    size_t all = count(s), done = 0;
    struct str key, value;
    rocksdb_t *db = open_old(argv[2]);
    struct store_cursor *c = store_cursor_new(s);
    store_cursor_seek(c, s, STR(""), false);
    for (int start = 1; start <= STARTS; start++) {
        for (; done < all * (size_t)start / STARTS && store_cursor_at(c, s, &key, &value); done++) {
            put(db, key, value);
            if (done == all / 2 / STARTS)
                flush(db);
            store_cursor_step(c, s, false);
        }
        rocksdb_close(db);
        db = start < STARTS ? open_old(argv[2]) : NULL;
    }
    must(done == all);
    must(store_cursor_free(c, s).code == ERR_OK);
    store_close(s);
    printf("%zu\n", all);
    return 0;
}
