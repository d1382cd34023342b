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

void tables_make(const char *dir, bool compact)
{
    char *text = NULL;
    rocksdb_options_t *o = rocksdb_options_create();
    rocksdb_options_set_disable_auto_compactions(o, 1);
    rocksdb_block_based_table_options_t *t = rocksdb_block_based_options_create();
    rocksdb_block_based_options_set_filter_policy(t, rocksdb_filterpolicy_create_bloom_full(10));
    rocksdb_options_set_block_based_table_factory(o, t);
    rocksdb_t *db = rocksdb_open(o, dir, &text);
    must(text == NULL);
    rocksdb_flushoptions_t *f = rocksdb_flushoptions_create();
    rocksdb_flush(db, f, &text);
    must(text == NULL);
    rocksdb_flushoptions_destroy(f);
    if (compact)
        rocksdb_compact_range(db, NULL, 0, NULL, 0);
    rocksdb_close(db);
    rocksdb_block_based_options_destroy(t);
    rocksdb_options_destroy(o);
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
