/* SPDX-License-Identifier: Apache-2.0 */

/* Reads of the store on RocksDB; and a store opened only for reading, while no server runs. */

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/must.h"
#include "store/rocks_internal.h"

struct store_cursor {
    struct rocks *rocks;
    rocksdb_iterator_t *it; /* NULL: there was nothing to read from */
};

/* There is nothing to read from. */
static struct err closed(const struct rocks *r)
{
    return r->failure.code == ERR_DISK_FULL
               ? r->failure
               : err_make(ERR_STORE, "the store in %s could not be reopened", r->dir);
}

static struct err get_overlaid(struct rocks *r, struct str key, bool *found, struct buf *value)
{
    char *text = NULL;
    size_t len;
    char *at = rocksdb_writebatch_wi_get_from_batch_and_db(r->overlay, r->db, r->reading, key.at,
                                                           key.len, &len, &text);
    if (at)
        buf_add(value, at, len);
    *found = at != NULL;
    rocksdb_free(at);
    return rocks_err_of_tables(r, text, ERR_STORE);
}

struct err rocks_get(struct store *s, struct str key, bool *found, struct buf *value)
{
    struct rocks *r = rocks_of(s);
    *found = false;
    value->len = 0;
    if (!r->db)
        return closed(r);
    if (r->overlay)
        return get_overlaid(r, key, found, value);
    char *text = NULL;
    rocksdb_pinnableslice_t *p = rocksdb_get_pinned(r->db, r->reading, key.at, key.len, &text);
    if (p) {
        size_t len;
        const char *at = rocksdb_pinnableslice_value(p, &len);
        buf_add(value, at, len);
        *found = true;
        rocksdb_pinnableslice_destroy(p);
    }
    return rocks_err_of_tables(r, text, ERR_STORE);
}

struct store_cursor *rocks_cursor_new(struct store *s)
{
    struct rocks *r = rocks_of(s);
    struct store_cursor *c = ALLOC(struct store_cursor);
    rocks_catch_up(r);
    c->rocks = r;
    if (r->db)
        c->it = rocksdb_create_iterator(r->db, r->reading);
    if (c->it && r->overlay)
        c->it = rocksdb_writebatch_wi_create_iterator_with_base(r->overlay, c->it);
    r->cursors++;
    return c;
}

static bool is_valid(const struct store_cursor *c)
{
    return c->it && rocksdb_iter_valid(c->it);
}

static void step(struct store_cursor *c, bool backwards)
{
    if (backwards)
        rocksdb_iter_prev(c->it);
    else
        rocksdb_iter_next(c->it);
}

/* The store's own record is passed over. */
static void pass(struct store_cursor *c, bool backwards)
{
    struct str key, value;
    if (rocks_cursor_at(c, &key, &value) && rocks_number_is(key))
        step(c, backwards);
}

void rocks_cursor_step(struct store_cursor *c, bool backwards)
{
    if (!is_valid(c))
        return;
    step(c, backwards);
    pass(c, backwards);
}

bool rocks_cursor_at(const struct store_cursor *c, struct str *key, struct str *value)
{
    if (!is_valid(c))
        return false;
    key->at = rocksdb_iter_key(c->it, &key->len);
    value->at = rocksdb_iter_value(c->it, &value->len);
    return true;
}

void rocks_cursor_seek(struct store_cursor *c, struct str key, bool backwards)
{
    if (!c->it)
        return;
    if (!backwards) {
        rocksdb_iter_seek(c->it, key.at, key.len);
        pass(c, false);
        return;
    }
    rocksdb_iter_seek_for_prev(c->it, key.at, key.len); /* to the last key <= key */
    struct str at, value;
    if (rocks_cursor_at(c, &at, &value) && str_eq(at, key))
        rocksdb_iter_prev(c->it);
    pass(c, true);
}

struct err rocks_cursor_free(struct store_cursor *c)
{
    struct rocks *r = c->rocks;
    struct err e = err_none();
    if (c->it) {
        char *text = NULL;
        rocksdb_iter_get_error(c->it, &text);
        e = rocks_err_of_tables(r, text, ERR_STORE);
        rocksdb_iter_destroy(c->it);
    } else {
        e = closed(r);
    }
    must(r->cursors > 0);
    r->cursors--;
    free(c);
    return e;
}

/* --- for inspection --- */

struct err rocks_lock(const char *dir, int *fd)
{
    struct buf path = {0};
    buf_print(&path, "%s/LOCK", dir);
    buf_byte(&path, '\0');
    /* A read lock keeps out a server, which takes a write lock. */
    *fd = open(path.at, O_RDONLY | O_CREAT | O_CLOEXEC, 0600);
    bool cannot_write = *fd < 0 && (errno == EROFS || errno == EACCES || errno == EPERM);
    if (cannot_write)
        *fd = open(path.at, O_RDONLY | O_CLOEXEC);
    struct err e = err_none();
    struct flock whole = {.l_type = F_RDLCK, .l_whence = SEEK_SET};
    /* If no lock file can be created, no server can run either. */
    if (*fd < 0 && !cannot_write)
        e = err_make(ERR_IO, "cannot open %.150s: %s", path.at, strerror(errno));
    else if (*fd >= 0 && fcntl(*fd, F_SETLK, &whole) != 0)
        e = err_make(ERR_LOCKED, "%.150s is in use: stop the server first", dir);
    if (e.code != ERR_OK)
        rocks_unlock(*fd);
    buf_fini(&path);
    return e;
}

void rocks_unlock(int fd)
{
    if (fd >= 0)
        close(fd);
}

static void reader_close(struct store *s)
{
    rocks_free(rocks_of(s));
}

/* Refuses what a server would refuse, and accepts as the end of the log what a server would
 * accept. */
NODISCARD static struct err open_to_look(struct rocks *r)
{
    TRY(rocks_check_inventory(r, false));
    char *text = NULL;
    r->db = rocksdb_open_for_read_only(r->options, r->dir, 0, &text);
    if (text)
        r->db = NULL;
    TRY(rocks_err(r, text, ERR_IO));
    return rocks_log_overlay(r);
}

struct err rocks_open_reader(const char *dir, uint64_t cache_bytes, struct store **out)
{
    static const struct store_vt vt = {
        .get = rocks_get,
        .cursor_new = rocks_cursor_new,
        .cursor_seek = rocks_cursor_seek,
        .cursor_at = rocks_cursor_at,
        .cursor_step = rocks_cursor_step,
        .cursor_free = rocks_cursor_free,
        .free_space = rocks_free_space,
        .disk_bytes = rocks_disk_bytes,
        .close = reader_close,
    };
    struct rocks *r = rocks_new(&(struct rocks_settings){.dir = dir, .cache_bytes = cache_bytes});
    r->base.vt = &vt;
    rocksdb_options_set_create_if_missing(r->options, 0);
    rocksdb_readoptions_set_verify_checksums(r->reading, 1);
    rocksdb_readoptions_set_fill_cache(r->reading, 0);
    struct err e = open_to_look(r);
    if (e.code != ERR_OK) {
        rocks_free(r);
        return e;
    }
    *out = &r->base;
    return e;
}
