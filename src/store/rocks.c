/* SPDX-License-Identifier: Apache-2.0 */

/* The store on RocksDB: opening it and closing it. */

#include <dirent.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/folder.h"
#include "base/log.h"
#include "base/must.h"
#include "store/rocks_internal.h"
#include "store/rocks_mend.h"
#include "store/wal.h"

/* Each start begins a log; this many small ones are turned into a table. */
#define LOGS_MAX ((size_t)256)

/* --- opening --- */

/* A log level above all levels has no name, so every opening leaves half a file of options behind,
 * which RocksDB does not remove. A single leftover does no harm. */
static void sweep_options(const char *dir)
{
    DIR *d = opendir(dir);
    const struct dirent *file;
    while (d && (file = readdir(d))) {
        const char *dot = strrchr(file->d_name, '.');
        if (dot && strcmp(dot, ".dbtmp") == 0 && strncmp(file->d_name, "OPTIONS-", 8) == 0)
            unlinkat(dirfd(d), file->d_name, 0);
    }
    if (d)
        closedir(d);
}

struct err rocks_open_db(struct rocks *r)
{
    char *text = NULL;
    r->db = rocksdb_open(r->options, r->dir, &text);
    if (text && rocks_says(text, "not linked")) {
        /* This RocksDB was built without LZ4. */
        rocksdb_free(text);
        text = NULL;
        rocks_set_compression(r->options, false);
        r->db = rocksdb_open(r->options, r->dir, &text);
    }
    if (text)
        r->db = NULL;
    else
        sweep_options(r->dir);
    if (r->db && r->shed_max > 0)
        r->shed = shed_new(r->dir, r->shed_max);
    rocks_pace_watch(r->pace, r->db);
    return rocks_err_of_tables(r, text, ERR_IO);
}

/* What the log has goes to a table: a mend must know which of the lost values are newer there. */
NODISCARD static struct err apply_log(struct rocks *r)
{
    char *text = NULL;
    if (!r->has_log)
        return err_none();
    rocksdb_options_t *o = rocksdb_options_create_copy(r->options);
    rocksdb_options_set_paranoid_checks(o, 0);
    rocksdb_options_set_disable_auto_compactions(o, 1);
    r->db = rocksdb_open(o, r->dir, &text);
    if (text)
        r->db = NULL;
    struct err e = rocks_err_of_tables(r, text, ERR_IO);
    if (e.code == ERR_OK)
        e = rocks_log_open(r, true);
    if (e.code == ERR_OK)
        e = rocks_flush_anyway(r, true);
    rocks_close_db(r);
    rocksdb_options_destroy(o);
    return e;
}

/* Tables that are found to be damaged during a mend are mended after it; each time one is
 * removed. */
NODISCARD static struct err open_mended(struct rocks *r)
{
    struct err e = err_none();
    while (r->hurt || (e = rocks_open_db(r)).code != ERR_OK) {
        if (!r->hurt)
            return e;
        uint64_t table = r->hurt;
        TRY(rocks_check_room_to_mend(r));
        r->hurt = 0;
        r->damaged = true;
        e = apply_log(r);
        r->hurt = 0;
        if (e.code == ERR_OK)
            e = rocks_mend(r->dir, r->options, table);
        if (e.code == ERR_DISK_FULL)
            r->hurt = table; /* to be mended when there is room */
        TRY(e);
        sweep_options(r->dir);
    }
    return e;
}

/* Makes the logs unnecessary: everything valid in them is in tables then. */
static void fold_logs(struct rocks *r)
{
    struct wal_file *files;
    size_t count = 0;
    struct err e = wal_list(r->dir, &files, &count);
    if (e.code == ERR_OK && count > LOGS_MAX)
        e = rocks_flush(r);
    /* If that failed, the next start finds the gap again, and reports it again. */
    free(files);
}

NODISCARD static struct err open_tables_and_log(struct rocks *r)
{
    TRY(open_mended(r));
    fold_logs(r);
    return rocks_log_open(r, false);
}

NODISCARD static struct err open_checked(struct rocks *r)
{
    struct err e;
    if (r->foreign)
        return rocks_foreign_open(r);
    TRY(wal_sync(r->dir));
    TRY(rocks_check_inventory(r, r->lossy));
    TRY(inventory_check_new(r->dir));
    TRY(rocks_mend_sweep(r->dir));
    while ((e = open_tables_and_log(r)).code != ERR_OK && r->hurt && e.code != ERR_DISK_FULL)
        rocks_close_db(r);
    TRY(e);
    r->note_interval = 1;
    r->noted_version = rocks_version(r);
    /* Before the log has a batch that a tenax without a log would not see. */
    TRY(rocks_write_inventory(r));
    r->has_log = true;
    rocks_let_go(r);
    return err_none();
}

/* Opens a handle that never needs to write, so that reads go on while the disk is full. */
static void open_for_reads(struct rocks *r)
{
    char *text = NULL;
    if (wal_sync(r->dir).code != ERR_OK)
        return; /* an answer could reveal what a power cut can destroy */
    r->db = rocksdb_open_for_read_only(r->options, r->dir, 0, &text);
    if (text) {
        r->db = NULL;
        rocksdb_free(text);
        return;
    }
    struct err e = rocks_log_overlay(r);
    if (e.code != ERR_OK) {
        log_warn("what the log has cannot be read: %s", e.msg);
        rocks_close_db(r);
    }
}

/* Waits until no snapshot is being made; none begins until closing is reset. */
static void await_snapshots(struct rocks *r)
{
    pthread_mutex_lock(&r->lock);
    r->closing = true;
    if (r->db)
        rocksdb_disable_manual_compaction(r->db); /* on this handle, which is about to be closed */
    while (r->snapshots)
        pthread_cond_wait(&r->unused, &r->lock);
    pthread_mutex_unlock(&r->lock);
}

/* The old handle is kept until there is room for a new one, so that reads go on. */
NODISCARD static struct err renew_db(struct rocks *r)
{
    struct err e = err_none();
    if (r->hurt && !r->foreign)
        TRY(rocks_check_room_to_mend(r));
    else if (r->broken)
        e = rocks_check_room(r, REOPEN_ROOM);
    if (r->broken && r->refused && !r->hurt) {
        if (e.code == ERR_OK || rocks_make_room(r).code != ERR_OK)
            return e;
        return rocks_check_room(r, REOPEN_ROOM);
    }
    if (e.code != ERR_OK)
        return e;
    await_snapshots(r);
    rocks_close_db(r);
    e = open_checked(r);
    if (e.code != ERR_OK) {
        rocks_close_db(r);
        if (!r->foreign)
            open_for_reads(r);
    }
    return e;
}

static struct err rocks_reopen(struct store *s)
{
    struct rocks *r = rocks_of(s);
    rocks_await_end(r);
    struct err e = renew_db(r);
    bool handle_is_old = r->broken && r->refused;
    r->broken = e.code != ERR_OK;
    r->failure = e;
    r->refused = r->broken && handle_is_old;
    pthread_mutex_lock(&r->lock);
    r->phase = IDLE;
    r->closing = false;
    pthread_mutex_unlock(&r->lock);
    return e;
}

/* --- beginning and end --- */

static void rocks_close(struct store *s)
{
    struct rocks *r = rocks_of(s);
    rocks_await_end(r);
    pthread_mutex_lock(&r->lock);
    r->stopping = true;
    pthread_cond_signal(&r->to_thread);
    pthread_mutex_unlock(&r->lock);
    pthread_join(r->thread, NULL);
    await_snapshots(r);
    rocks_foreign_stop(r);
    if (!r->broken && r->foreign) {
        /* Then the next start need not read it from PostgreSQL. */
        struct err e = rocks_flush(r);
        if (e.code != ERR_OK)
            log_warn("%s is not up to date: %s", r->dir, e.msg);
    } else if (!r->broken) {
        /* Waits for background work to end. */
        rocks_close_db(r);
        rocks_note_files(r);
    }
    rocks_free(r);
}

/* A store on a full disk can still be read, except where a table is damaged. */
NODISCARD static struct err open_or_read(struct rocks *r)
{
    struct err e = open_checked(r);
    if (e.code != ERR_DISK_FULL || r->foreign)
        return e;
    rocks_close_db(r);
    open_for_reads(r);
    if (!r->db && !r->hurt)
        return e;
    r->broken = true;
    r->failure = e;
    return err_none();
}

static void rocks_damage(struct store *s, struct store_damage *out)
{
    struct rocks *r = rocks_of(s);
    pthread_mutex_lock(&r->lock);
    out->found = r->hurt != 0;
    pthread_mutex_unlock(&r->lock);
    out->tables = r->damaged ? rocks_mend_kept(r->dir) : 0;
}

static uint64_t rocks_number(const struct store *s)
{
    return ((const struct rocks *)s)->number;
}

static void rocks_hold(struct store *s, uint64_t number)
{
    struct rocks *r = rocks_of(s);
    r->held = number;
    r->held_known = true;
}

static struct err rocks_failure(const struct store *s)
{
    const struct rocks *r = (const struct rocks *)s;
    return r->broken ? r->failure : err_none();
}

NODISCARD static struct err open_and_start(struct rocks *r)
{
    /* Nothing that is in a folder outlives a power cut that takes the folder. */
    if (!r->foreign)
        TRY(folder_make(r->dir, 0700));
    TRY(open_or_read(r));
    int no = pthread_create(&r->thread, NULL, rocks_commit_thread, r);
    if (no != 0)
        return err_make(ERR_IO, "cannot start a thread: %s", strerror(no));
    return err_none();
}

struct err rocks_open(const struct rocks_settings *settings, struct store **out)
{
    static const struct store_vt vt = {
        .get = rocks_get,
        .commit = rocks_commit,
        .durable = rocks_is_durable,
        .reap = rocks_reap,
        .wait = rocks_wait,
        .wake_fd = rocks_wake_fd,
        .reopen = rocks_reopen,
        .number = rocks_number,
        .hold = rocks_hold,
        .replay = rocks_log_replay,
        .failure = rocks_failure,
        .damage = rocks_damage,
        .cursor_new = rocks_cursor_new,
        .cursor_seek = rocks_cursor_seek,
        .cursor_at = rocks_cursor_at,
        .cursor_step = rocks_cursor_step,
        .cursor_free = rocks_cursor_free,
        .free_space = rocks_free_space,
        .disk_bytes = rocks_disk_bytes,
        .snapshot = rocks_snapshot,
        .compact = rocks_compact,
        .compact_stop = rocks_compact_stop,
        .close = rocks_close,
    };
    struct rocks *r = rocks_new(settings);
    r->base.vt = &vt;
    /* Signals are for the loop's thread: the threads started here inherit the mask. */
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    struct err e = open_and_start(r);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (e.code != ERR_OK) {
        rocks_free(r);
        return e;
    }
    *out = &r->base;
    return err_none();
}
