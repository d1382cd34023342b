/* SPDX-License-Identifier: Apache-2.0 */

/* What the other tables do not have is rewritten, and what would come back from older tables is
 * deleted; then the table is removed from the MANIFEST. To find out what that is, the root
 * directory is opened twice for reading, as it is and without the table. */

#include "store/rocks_mend.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/folder.h"
#include "store/rocks_error.h"
#include "store/rocks_gap.h"
#include "store/rocks_manifest.h"
#include "store/rocks_mend_internal.h"

#define WRITE_BYTES ((size_t)8 << 20)
#define REST        ROCKS_MEND_FOLDER "/rest" /* the root directory without the table */

/* --- files --- */

static const char *path_to(struct mend *m, const char *folder, const char *name)
{
    m->path.len = 0;
    buf_print(&m->path, "%s/%s%s%s", m->dir, folder, *folder ? "/" : "", name);
    buf_byte(&m->path, '\0');
    return m->path.at;
}

static void table_name(const struct mend *m, char name[32])
{
    snprintf(name, 32, "%06llu.sst", (unsigned long long)m->table);
}

NODISCARD static struct err link_file(struct mend *m, const char *name, const char *folder)
{
    char *from = alloc_text(path_to(m, "", name), strlen(path_to(m, "", name)));
    const char *to = path_to(m, folder, name);
    struct err err =
        link(from, to) == 0 || errno == EEXIST ? err_none() : folder_error("link to", to);
    free(from);
    return err;
}

NODISCARD static struct err make_folder(struct mend *m, const char *name)
{
    const char *path = path_to(m, "", name);
    if (mkdir(path, 0700) != 0 && errno != EEXIST)
        return folder_error("make", path);
    return err_none();
}

NODISCARD static struct err keep_table(struct mend *m)
{
    char name[32];
    table_name(m, name);
    TRY(make_folder(m, ROCKS_MEND_FOLDER));
    TRY(link_file(m, name, ROCKS_MEND_FOLDER));
    TRY(folder_sync(path_to(m, "", ROCKS_MEND_FOLDER)));
    return folder_sync(m->dir);
}

static bool ends_with(const char *name, const char *end)
{
    size_t a = strlen(name), b = strlen(end);
    return a >= b && strcmp(name + a - b, end) == 0;
}

/* Copied, because it is written to. */
NODISCARD static struct err copy_manifest(struct mend *m, const char *name)
{
    struct buf bytes = {0};
    ssize_t n = 0;
    int fd = open(path_to(m, "", name), O_RDONLY | O_CLOEXEC);
    while (fd >= 0 && (n = read(fd, buf_room(&bytes, 65536), 65536)) > 0)
        bytes.len += (size_t)n;
    struct err err = fd < 0 || n < 0 ? folder_error("read", m->path.at) : err_none();
    if (fd >= 0)
        close(fd);
    if (err.code == ERR_OK) {
        fd = open(path_to(m, REST, name), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        if (fd < 0 || write(fd, bytes.at, bytes.len) != (ssize_t)bytes.len)
            err = folder_error("write", m->path.at);
        if (fd >= 0)
            close(fd);
    }
    buf_fini(&bytes);
    return err;
}

NODISCARD static struct err take_along(struct mend *m, const char *name)
{
    char table[32];
    table_name(m, table);
    if (strncmp(name, "MANIFEST-", 9) == 0)
        return copy_manifest(m, name);
    bool wanted = ends_with(name, ".sst") || ends_with(name, ".log") ||
                  strcmp(name, "CURRENT") == 0 || strcmp(name, "IDENTITY") == 0;
    return wanted && strcmp(name, table) != 0 ? link_file(m, name, REST) : err_none();
}

/* Everything but the table, by links. */
NODISCARD static struct err make_rest(struct mend *m)
{
    TRY(folder_remove(path_to(m, "", REST)));
    TRY(make_folder(m, REST));
    DIR *d = opendir(m->dir);
    if (!d)
        return folder_error("read", m->dir);
    struct err err = err_none();
    const struct dirent *file;
    while (err.code == ERR_OK && (file = readdir(d)))
        err = take_along(m, file->d_name);
    closedir(d);
    if (err.code != ERR_OK)
        return err;
    return rocks_manifest_drop(path_to(m, "", REST), m->level, m->table);
}

/* --- opening --- */

NODISCARD static struct err open_reader(struct mend *m, const char *dir, rocksdb_t **db)
{
    char *text = NULL;
    *db = rocksdb_open_for_read_only(m->options, dir, 0, &text);
    if (text)
        *db = NULL;
    return rocks_error(text, ERR_IO);
}

NODISCARD static struct err open_writer(struct mend *m)
{
    char *text = NULL;
    m->db = rocksdb_open(m->options, m->dir, &text);
    if (text)
        m->db = NULL;
    return rocks_error(text, ERR_IO);
}

static void close_one(rocksdb_t **db)
{
    if (*db)
        rocksdb_close(*db);
    *db = NULL;
}

/* The level of the table, and its keys. */
NODISCARD static struct err find_table(struct mend *m)
{
    const rocksdb_livefiles_t *files = rocksdb_livefiles(m->all);
    int at = 0, count = rocksdb_livefiles_count(files);
    while (at < count && strtoull(rocksdb_livefiles_name(files, at) + 1, NULL, 10) != m->table)
        at++;
    if (at < count) {
        size_t len;
        const char *key = rocksdb_livefiles_smallestkey(files, at, &len);
        buf_add(&m->first, key, len);
        key = rocksdb_livefiles_largestkey(files, at, &len);
        buf_add(&m->end, key, len);
        buf_byte(&m->end, '\0');
        m->level = (unsigned)rocksdb_livefiles_level(files, at);
    }
    rocksdb_livefiles_destroy(files);
    if (at == count)
        return err_make(ERR_CORRUPT, "a table that is damaged, %06llu.sst, is none of %.120s",
                        (unsigned long long)m->table, m->dir);
    return err_none();
}

/* --- reading and writing --- */

enum mend_got mend_get(struct mend *m, struct str key, struct buf *value)
{
    char *text = NULL;
    rocksdb_pinnableslice_t *p = rocksdb_get_pinned(m->all, m->reading, key.at, key.len, &text);
    bool bad = text != NULL;
    if (p && value) {
        size_t len;
        const char *at = rocksdb_pinnableslice_value(p, &len);
        value->len = 0;
        buf_add(value, at, len);
    }
    if (p)
        rocksdb_pinnableslice_destroy(p);
    rocksdb_free(text);
    return bad ? MEND_LOST : p ? MEND_VALUE : MEND_NOTHING;
}

struct err mend_write(struct mend *m, size_t enough)
{
    if (m->batch.count == 0 || m->batch.bytes < enough)
        return err_none();
    rocksdb_writebatch_t *w = rocksdb_writebatch_create();
    for (size_t i = 0; i < m->batch.count; i++) {
        const struct batch_op *op = &m->batch.ops[i];
        if (op->value.at)
            rocksdb_writebatch_put(w, op->key.at, op->key.len, op->value.at, op->value.len);
        else
            rocksdb_writebatch_delete(w, op->key.at, op->key.len);
    }
    rocksdb_writeoptions_t *unlogged = rocksdb_writeoptions_create();
    rocksdb_writeoptions_disable_WAL(unlogged, 1); /* they are flushed in the end */
    char *text = NULL;
    rocksdb_write(m->db, unlogged, w, &text);
    rocksdb_writeoptions_destroy(unlogged);
    rocksdb_writebatch_destroy(w);
    batch_reset(&m->batch);
    return rocks_error(text, ERR_IO);
}

/* Into a table, which is in the MANIFEST before the damaged one leaves it. */
NODISCARD static struct err flush(struct mend *m)
{
    char *text = NULL;
    rocksdb_flushoptions_t *o = rocksdb_flushoptions_create();
    rocksdb_flush(m->db, o, &text);
    rocksdb_flushoptions_destroy(o);
    return rocks_error(text, ERR_IO);
}

static void save(struct mend *m, struct str key, struct str value)
{
    batch_put(&m->batch, key, value);
    m->saved++;
}

/* A key in a gap that exists without the table: its value there may be older than the lost one. */
static void save_or_lose(struct mend *m, struct str key, struct str value)
{
    struct buf newest = {0};
    switch (mend_get(m, key, &newest)) {
    case MEND_VALUE:
        if (!str_eq(buf_view(&newest), value))
            save(m, key, buf_view(&newest));
        break;
    case MEND_LOST:
        m->lost++;
        batch_delete(&m->batch, key);
        break;
    case MEND_NOTHING:
        batch_delete(&m->batch, key);
        break;
    }
    buf_fini(&newest);
}

static void add_gap(struct mend *m, struct str from, struct str to)
{
    m->gaps = alloc_resize(m->gaps, (m->gap_count + 1) * sizeof *m->gaps);
    struct mend_gap *g = &m->gaps[m->gap_count++];
    *g = (struct mend_gap){{0}, {0}};
    buf_str(&g->from, from);
    buf_str(&g->to, to);
}

static int order_of(struct str a, struct str b)
{
    size_t n = a.len < b.len ? a.len : b.len;
    int order = n ? memcmp(a.at, b.at, n) : 0;
    return order ? order : (a.len > b.len) - (a.len < b.len);
}

/* Compares the next key of the walk that is behind. */
static void compare_next(struct mend *m, struct rocks_gap_walk *all, struct rocks_gap_walk *rest)
{
    struct str key, value, other, old;
    bool has_all = rocks_gap_at(all, &key, &value), has_rest = rocks_gap_at(rest, &other, &old);
    if (has_rest && rest->in_gap) {
        rocks_gap_step(rest); /* another table's, which is handled separately */
        return;
    }
    if (has_all && all->in_gap) {
        if (has_rest && order_of(other, buf_view(&all->gap_to)) < 0) {
            save_or_lose(m, other, old);
            rocks_gap_step(rest);
            return;
        }
        add_gap(m, key, buf_view(&all->gap_to));
        rocks_gap_step(all);
        return;
    }
    int order = !has_all ? 1 : !has_rest ? -1 : order_of(key, other);
    if (order > 0)
        batch_delete(&m->batch, other); /* only the table knows that it was deleted */
    else if (order < 0 || !str_eq(value, old))
        save(m, key, value);
    if (order <= 0)
        rocks_gap_step(all);
    if (order >= 0)
        rocks_gap_step(rest);
}

NODISCARD static struct err save_all(struct mend *m)
{
    struct rocks_gap_walk all, rest;
    struct str key, value;
    struct err err = err_none();
    rocks_gap_begin(&all, m->all, m->reading, buf_view(&m->first), buf_view(&m->end));
    rocks_gap_begin(&rest, m->rest, m->reading, buf_view(&m->first), buf_view(&m->end));
    while (err.code == ERR_OK &&
           (rocks_gap_at(&all, &key, &value) || rocks_gap_at(&rest, &key, &value))) {
        compare_next(m, &all, &rest);
        err = mend_write(m, WRITE_BYTES);
    }
    rocks_gap_end(&all);
    rocks_gap_end(&rest);
    return err;
}

/* --- reporting --- */

static void add_key(struct buf *b, struct str key)
{
    static const char hex[] = "0123456789abcdef";
    if (key.len)
        buf_print(b, "%c:", key.at[0] > ' ' && key.at[0] <= '~' ? key.at[0] : '?');
    for (size_t i = 1; i < key.len && i < 24; i++) {
        buf_byte(b, hex[(unsigned char)key.at[i] >> 4]);
        buf_byte(b, hex[(unsigned char)key.at[i] & 15]);
    }
}

static void tell(struct mend *m)
{
    struct buf b = {0};
    for (size_t i = 0; i < m->gap_count && i < 4; i++) {
        buf_print(&b, "%s", i ? ", " : "; keys that cannot be read: ");
        add_key(&b, buf_view(&m->gaps[i].from));
        buf_lit(&b, " to ");
        add_key(&b, buf_view(&m->gaps[i].to));
    }
    if (m->gap_count > 4)
        buf_print(&b, " and %zu more ranges", m->gap_count - 4);
    log_error("the table %s/%06llu.sst is damaged: it is kept in the folder " ROCKS_MEND_FOLDER
              ", %llu of its records were saved, and %llu jobs that have lost a part are set "
              "apart%.*s",
              m->dir, (unsigned long long)m->table, (unsigned long long)m->saved,
              (unsigned long long)m->jobs, (int)b.len, b.at ? b.at : "");
    b.len = 0;
    for (uint64_t i = 0; i < m->jobs && i < MEND_NAMED_MAX; i++) {
        char text[ID_TEXT_LEN];
        id_format(m->named[i], text);
        buf_print(&b, "%s%.25s", i ? ", " : "", text);
    }
    if (m->jobs)
        log_error("set apart for damage to %06llu.sst: jobs %.*s%s", (unsigned long long)m->table,
                  (int)b.len, b.at, m->jobs > MEND_NAMED_MAX ? " and others" : "");
    buf_fini(&b);
}

/* --- the whole mend --- */

NODISCARD static struct err look_and_write(struct mend *m)
{
    TRY(open_reader(m, m->dir, &m->all));
    TRY(find_table(m));
    TRY(make_rest(m));
    char *rest = alloc_text(path_to(m, "", REST), strlen(path_to(m, "", REST)));
    struct err err = open_reader(m, rest, &m->rest);
    free(rest);
    if (err.code != ERR_OK)
        return err;
    TRY(open_writer(m));
    TRY(save_all(m));
    TRY(mend_jobs(m));
    TRY(mend_write(m, 0));
    return flush(m);
}

static void fini(struct mend *m)
{
    rocksdb_readoptions_destroy(m->reading);
    rocksdb_options_destroy(m->options);
    batch_fini(&m->batch);
    for (size_t i = 0; i < m->gap_count; i++) {
        buf_fini(&m->gaps[i].from);
        buf_fini(&m->gaps[i].to);
    }
    free(m->gaps);
    buf_fini(&m->first);
    buf_fini(&m->end);
    buf_fini(&m->path);
}

struct err rocks_mend(const char *dir, const rocksdb_options_t *options, uint64_t table)
{
    struct mend m = {.dir = dir, .table = table};
    /* Tables that cannot be opened must not prevent opening or writing, and nothing may go on in
     * the background. */
    m.options = rocksdb_options_create_copy((rocksdb_options_t *)options);
    rocksdb_options_set_paranoid_checks(m.options, 0);
    rocksdb_options_set_disable_auto_compactions(m.options, 1);
    rocksdb_options_set_create_if_missing(m.options, 0);
    m.reading = rocksdb_readoptions_create();
    rocksdb_readoptions_set_verify_checksums(m.reading, 1);
    rocksdb_readoptions_set_fill_cache(m.reading, 0);
    struct err err = keep_table(&m);
    if (err.code == ERR_OK)
        err = look_and_write(&m);
    close_one(&m.all);
    close_one(&m.rest);
    close_one(&m.db);
    if (err.code == ERR_OK)
        err = rocks_manifest_drop(dir, m.level, table);
    struct err swept = folder_remove(path_to(&m, "", REST));
    if (err.code == ERR_OK)
        tell(&m);
    fini(&m);
    return err.code == ERR_OK ? swept : err;
}

struct err rocks_mend_sweep(const char *dir)
{
    struct mend m = {.dir = dir};
    struct err err = folder_remove(path_to(&m, "", REST));
    buf_fini(&m.path);
    return err;
}

uint64_t rocks_mend_kept(const char *dir)
{
    struct buf path = {0};
    buf_print(&path, "%s/" ROCKS_MEND_FOLDER, dir);
    buf_byte(&path, '\0');
    DIR *d = opendir(path.at);
    uint64_t count = 0;
    const struct dirent *file;
    while (d && (file = readdir(d)))
        count += ends_with(file->d_name, ".sst");
    if (d)
        closedir(d);
    buf_fini(&path);
    return count;
}
