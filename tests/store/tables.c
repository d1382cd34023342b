/* SPDX-License-Identifier: Apache-2.0 */
#include "store/tables.h"

#include <dirent.h>
#include <rocksdb/c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/must.h"
#include "base/folder.h"
#include "store/rocks.h"

static void no_notice(void *ctx)
{
    (void)ctx;
}

/* A snapshot is made of tables alone. */
struct err tables_flush(struct store *s, const char *dir)
{
    char snapshot[4096];
    snprintf(snapshot, sizeof snapshot, "%s.snapshot", dir);
    struct err e = store_snapshot(s, snapshot);
    must(folder_remove(snapshot).code == ERR_OK);
    return e;
}

static void flush(const char *dir)
{
    struct rocks_settings settings = {.dir = dir, .cache_bytes = 8 << 20, .notify = no_notice};
    struct store *s;
    must(rocks_open(&settings, &s).code == ERR_OK);
    must(tables_flush(s, dir).code == ERR_OK);
    store_close(s);
    /* Now the inventory says that the log need not have it. */
    must(rocks_open(&settings, &s).code == ERR_OK);
    store_close(s);
}

/* Without merges, unless they are asked for. */
static rocksdb_t *open_tables(const char *dir)
{
    char *text = NULL;
    rocksdb_options_t *o = rocksdb_options_create();
    rocksdb_options_set_disable_auto_compactions(o, 1);
    rocksdb_block_based_table_options_t *t = rocksdb_block_based_options_create();
    rocksdb_block_based_options_set_filter_policy(t, rocksdb_filterpolicy_create_bloom_full(10));
    rocksdb_options_set_block_based_table_factory(o, t);
    rocksdb_t *db = rocksdb_open(o, dir, &text);
    must(text == NULL);
    rocksdb_block_based_options_destroy(t);
    rocksdb_options_destroy(o);
    return db;
}

void tables_make(const char *dir, bool compact)
{
    flush(dir);
    rocksdb_t *db = open_tables(dir);
    if (compact)
        rocksdb_compact_range(db, NULL, 0, NULL, 0);
    rocksdb_close(db);
}

/* The record where it stands, once more. */
static void rewrite(rocksdb_t *db, const rocksdb_iterator_t *it)
{
    size_t key_len, len;
    char *text = NULL;
    const char *key = rocksdb_iter_key(it, &key_len), *value = rocksdb_iter_value(it, &len);
    rocksdb_writeoptions_t *unlogged = rocksdb_writeoptions_create();
    rocksdb_writeoptions_disable_WAL(unlogged, 1);
    rocksdb_put(db, unlogged, key, key_len, value, len, &text);
    must(text == NULL);
    rocksdb_writeoptions_destroy(unlogged);
}

void tables_pile(const char *dir, int count)
{
    rocksdb_t *db = open_tables(dir);
    rocksdb_readoptions_t *reading = rocksdb_readoptions_create();
    rocksdb_flushoptions_t *flushing = rocksdb_flushoptions_create();
    for (int i = 0; i < count; i++) {
        char *text = NULL;
        rocksdb_iterator_t *it = rocksdb_create_iterator(db, reading);
        rocksdb_iter_seek_to_first(it);
        must(rocksdb_iter_valid(it));
        rewrite(db, it);
        rocksdb_iter_seek_to_last(it);
        rewrite(db, it);
        rocksdb_iter_destroy(it);
        rocksdb_flush(db, flushing, &text);
        must(text == NULL);
    }
    rocksdb_flushoptions_destroy(flushing);
    rocksdb_readoptions_destroy(reading);
    rocksdb_close(db);
}

char *tables_largest(const char *dir, size_t *size)
{
    DIR *d = opendir(dir);
    must(d);
    struct buf best = {0};
    *size = 0;
    const struct dirent *file;
    while ((file = readdir(d))) {
        struct stat st;
        const char *dot = strrchr(file->d_name, '.');
        if (!dot || strcmp(dot, ".sst") != 0 || fstatat(dirfd(d), file->d_name, &st, 0) != 0 ||
            (size_t)st.st_size <= *size)
            continue;
        *size = (size_t)st.st_size;
        best.len = 0;
        buf_print(&best, "%s/%s", dir, file->d_name);
        buf_byte(&best, '\0');
    }
    closedir(d);
    return best.at;
}

void tables_flip(const char *path, long at)
{
    FILE *f = fopen(path, "r+b");
    must(f && fseek(f, at, at < 0 ? SEEK_END : SEEK_SET) == 0);
    int byte = fgetc(f);
    must(byte != EOF && fseek(f, -1, SEEK_CUR) == 0);
    must(fputc(byte ^ 0x10, f) != EOF && fclose(f) == 0);
}
