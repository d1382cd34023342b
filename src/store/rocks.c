/* SPDX-License-Identifier: Apache-2.0 */
#include "store/rocks.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <rocksdb/c.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/must.h"
#include "store/inventory.h"
#include "store/wal.h"

#define MIB ((uint64_t)1024 * 1024)

/* What the C API has no function for. A restart leaves what the log holds in memory,
 * as it was before, rather than write it out: faster, and it takes no room on a disk that
 * may be full. */
#define MORE_OPTIONS "avoid_flush_during_recovery=true"

/* Room on the disk that commits leave alone, beyond what is in memory and not yet in tables:
 * RocksDB must be able to write that out, or it could not even be opened again. After a
 * refusal it takes a little more, so that not every second commit fails. */
#define SPARE_ROOM  ((int64_t)(4 * MIB))
#define REOPEN_ROOM ((int64_t)(8 * MIB))

/* A batch larger than this takes its memory along when it is done. */
#define KEEP_MAX ((size_t)32 * 1024 * 1024)

/* The inventory is written after 1, 2, 4 .. so many commits, and whenever the tables change. */
#define NOTE_INTERVAL_MAX 1024
/* Each start begins a log; of so many small ones a table is made. */
#define LOGS_MAX ((size_t)256)

#define FILES_MAX 512

#define LEVELS 7
#define SILENT 6 /* one above HEADER_LEVEL */

enum phase {
    IDLE,
    UNDER_WAY, /* a batch waits for the thread or is being written */
    ENDED,     /* result waits for store_reap */
};

struct rocks {
    struct store base;
    char *dir;
    bool lossy;
    void (*notify)(void *ctx);
    void *ctx;

    rocksdb_cache_t *cache;
    rocksdb_options_t *options;
    rocksdb_readoptions_t *reading;
    rocksdb_writeoptions_t *synced, *buffered;
    rocksdb_t *db;    /* changes only while phase is not UNDER_WAY; NULL: nothing to read from */
    unsigned cursors; /* open ones; they must not outlive db */

    pthread_t thread;
    pthread_mutex_t lock; /* of phase, stopping, snapshots and closing */
    pthread_cond_t to_thread, to_loop, unused;
    enum phase phase;
    bool stopping;
    unsigned snapshots; /* being made of db, which must not be closed meanwhile */
    bool closing;       /* so that no further one begins */
    bool compact_stopped;
    /* The thread's while UNDER_WAY, else the loop's. */
    bool broken;  /* a commit failed, or the opening found no room; reopen is due */
    bool refused; /* and nothing of it was handed to RocksDB, which is as good as before */
    const struct batch *batch;
    bool sync;
    struct err result;
    struct inventory_writer *inventory; /* NULL: it could not be made yet */
    unsigned unnoted, note_interval;    /* commits that it does not know of */
    uint64_t noted_version;             /* of RocksDB's tables */
    bool note_failed;                   /* which was told */
    bool damaged;                       /* a table could not be read */
    struct err failure;                 /* iff broken, and not by a commit */
    rocksdb_writebatch_t *writes;       /* the thread's alone */
};

struct store_cursor {
    struct rocks *rocks;
    rocksdb_iterator_t *it; /* NULL: there was nothing to read from */
};

static struct rocks *rocks_of(struct store *s)
{
    return (struct rocks *)s;
}

/* --- errors --- */

static bool says(const char *text, const char *part)
{
    return strstr(text, part) != NULL;
}

/* The C API tells errors apart by their text alone. */
static enum err_code code_of(const char *text, enum err_code otherwise)
{
    if (says(text, "No space left on device") || says(text, "Disk quota exceeded"))
        return ERR_DISK_FULL;
    if (says(text, "lock hold by current process") ||
        (says(text, "While lock file") && says(text, "temporarily unavailable")))
        return ERR_LOCKED;
    if (says(text, "Corruption"))
        return ERR_CORRUPT;
    return otherwise;
}

/* Turns RocksDB's error, if there is one, into ours, and frees it. */
NODISCARD static struct err err_of(struct rocks *r, char *text, enum err_code otherwise)
{
    if (!text)
        return err_none();
    enum err_code code = code_of(text, otherwise);
    struct err e = code == ERR_LOCKED
                       ? err_make(code, "%s is locked: is another server using it?", r->dir)
                       : err_make(code, "%s", text);
    rocksdb_free(text);
    return e;
}

/* --- options --- */

static void set_compression(rocksdb_options_t *o, bool lz4)
{
    int levels[LEVELS];
    /* What is young is mostly deleted before it is old: compressing it is for nothing. */
    for (int i = 0; i < LEVELS; i++)
        levels[i] = lz4 && i >= 2 ? rocksdb_lz4_compression : rocksdb_no_compression;
    rocksdb_options_set_compression_per_level(o, levels, LEVELS);
}

static void set_tables(rocksdb_options_t *o, rocksdb_cache_t *cache)
{
    rocksdb_block_based_table_options_t *t = rocksdb_block_based_options_create();
    rocksdb_block_based_options_set_block_cache(t, cache);
    rocksdb_block_based_options_set_block_size(t, 16 * 1024);
    rocksdb_block_based_options_set_format_version(t, 5);
    rocksdb_block_based_options_set_filter_policy(t, rocksdb_filterpolicy_create_bloom_full(10));
    /* In the cache, so that cache_bytes bounds them too. */
    rocksdb_block_based_options_set_cache_index_and_filter_blocks(t, 1);
    rocksdb_block_based_options_set_pin_l0_filter_and_index_blocks_in_cache(t, 1);
    rocksdb_options_set_block_based_table_factory(o, t);
    rocksdb_block_based_options_destroy(t);
}

static void set_writes(rocksdb_options_t *o)
{
    rocksdb_options_set_write_buffer_size(o, 64 * MIB);
    rocksdb_options_set_max_write_buffer_number(o, 3);
    rocksdb_options_set_max_background_jobs(o, 2);
    rocksdb_options_set_level_compaction_dynamic_level_bytes(o, 1);
    rocksdb_options_set_max_total_wal_size(o, 256 * MIB);
    rocksdb_options_set_bytes_per_sync(o, MIB);
    rocksdb_options_set_wal_recovery_mode(o, rocksdb_point_in_time_recovery);
    /* There is one writer: nothing to be concurrent with. */
    rocksdb_options_set_allow_concurrent_memtable_write(o, 0);
    rocksdb_options_set_enable_write_thread_adaptive_yield(o, 0);
    /* A queue deletes what it wrote, from the front. Without this a scan from the front
     * would pass over the tombstones of all jobs that ever were. */
    rocksdb_options_add_compact_on_deletion_collector_factory(o, 1024, 512);
}

static void set_housekeeping(rocksdb_options_t *o)
{
    rocksdb_options_set_create_if_missing(o, 1);
    /* Its own log stays empty, by a level above all levels: on a full disk, the second
     * line that it cannot write there ends the process if RocksDB was built with
     * assertions, as Debian's is. What goes wrong comes back as an error all the same. */
    rocksdb_options_set_info_log_level(o, SILENT);
    rocksdb_options_set_keep_log_file_num(o, 1);
    rocksdb_options_set_stats_dump_period_sec(o, 0);
}

static rocksdb_options_t *options_new(rocksdb_cache_t *cache)
{
    rocksdb_options_t *base = rocksdb_options_create();
    set_housekeeping(base);
    set_writes(base);
    set_tables(base, cache);
    set_compression(base, true);
    rocksdb_options_t *full = rocksdb_options_create();
    char *text = NULL;
    rocksdb_get_options_from_string(base, MORE_OPTIONS, full, &text);
    must(text == NULL);
    rocksdb_options_destroy(base);
    return full;
}

/* --- opening --- */

/* A log level above all levels has no name, so every opening leaves half a file of options
 * behind, which RocksDB does not remove. What stays for once does no harm. */
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

NODISCARD static struct err open_db(struct rocks *r)
{
    char *text = NULL;
    r->db = rocksdb_open(r->options, r->dir, &text);
    if (text && says(text, "not linked")) {
        /* This RocksDB was built without LZ4. */
        rocksdb_free(text);
        text = NULL;
        set_compression(r->options, false);
        r->db = rocksdb_open(r->options, r->dir, &text);
    }
    if (text)
        r->db = NULL;
    else
        sweep_options(r->dir);
    return err_of(r, text, ERR_IO);
}

/* Lets go of the logs: all that counts of them is in tables then. */
static void flush(struct rocks *r)
{
    rocksdb_flushoptions_t *o = rocksdb_flushoptions_create();
    char *text = NULL;
    rocksdb_flush(r->db, o, &text);
    rocksdb_flushoptions_destroy(o);
    /* Then the next start finds the hole again, and says so again. */
    rocksdb_free(text);
}

static uint64_t number_of(struct rocks *r, const char *property)
{
    uint64_t v = 0;
    rocksdb_property_int(r->db, property, &v);
    return v;
}

/* Writes down what must be there at the next start. Without it that start would believe what it
 * finds, as it did before; so what keeps it from being written is told, and no more. */
static void note_files(struct rocks *r, uint64_t sequence)
{
    struct err e = err_none();
    if (!r->inventory)
        e = inventory_writer_new(r->dir, &r->inventory);
    if (e.code == ERR_OK)
        e = inventory_write(r->inventory, sequence, r->damaged);
    if (e.code != ERR_OK && !r->note_failed)
        log_warn("the inventory of what is on the disk is out of date: %s", e.msg);
    r->note_failed = e.code != ERR_OK;
    r->unnoted = 0;
}

static void note(struct rocks *r)
{
    r->noted_version = number_of(r, "rocksdb.current-super-version-number");
    note_files(r, rocksdb_get_latest_sequence_number(r->db));
}

static void note_commit(struct rocks *r)
{
    bool due = ++r->unnoted >= r->note_interval;
    if (!due && number_of(r, "rocksdb.current-super-version-number") == r->noted_version)
        return;
    note(r);
    if (due && r->note_interval < NOTE_INTERVAL_MAX)
        r->note_interval *= 2;
}

/* A hole in the logs, if there is one, was told and is to be given up. */
NODISCARD static struct err close_hole(struct rocks *r)
{
    bool hole;
    if (!r->lossy)
        return err_none();
    TRY(wal_goes_on(r->dir, rocksdb_get_latest_sequence_number(r->db), &hole));
    if (hole)
        flush(r);
    return err_none();
}

static void fold_logs(struct rocks *r)
{
    struct wal_file *files;
    size_t count = 0;
    struct err e = wal_list(r->dir, &files, &count);
    if (e.code == ERR_OK && count > LOGS_MAX)
        flush(r);
    free(files);
}

NODISCARD static struct err open_checked(struct rocks *r)
{
    TRY(wal_sync(r->dir));
    TRY(inventory_check(r->dir, r->lossy, &r->damaged));
    TRY(inventory_check_new(r->dir));
    TRY(open_db(r));
    TRY(close_hole(r));
    fold_logs(r);
    r->note_interval = 1;
    note(r);
    return err_none();
}

/* A handle that needs to write nothing, so that reads go on while the disk is full. */
static void open_for_reads(struct rocks *r)
{
    char *text = NULL;
    if (wal_sync(r->dir).code != ERR_OK)
        return; /* an answer could be of what a power cut takes */
    r->db = rocksdb_open_for_read_only(r->options, r->dir, 0, &text);
    if (text) {
        r->db = NULL;
        rocksdb_free(text);
    }
}

static void close_db(struct rocks *r)
{
    must(r->cursors == 0 && r->snapshots == 0);
    if (r->db)
        rocksdb_close(r->db);
    r->db = NULL;
}

/* --- the thread that commits --- */

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

static int64_t free_space(const struct rocks *r)
{
    struct statvfs v;
    /* A file system that does not say is taken to have room: a write will tell. */
    if (statvfs(r->dir, &v) != 0)
        return INT64_MAX;
    return (int64_t)(v.f_bavail * v.f_frsize);
}

NODISCARD static struct err check_room(const struct rocks *r, int64_t need)
{
    uint64_t in_memory = 0;
    if (r->db)
        rocksdb_property_int(r->db, "rocksdb.cur-size-all-mem-tables", &in_memory);
    int64_t room = free_space(r);
    need += (int64_t)in_memory;
    if (room >= need)
        return err_none();
    return err_make(ERR_DISK_FULL,
                    "the disk has %lld KiB left, and %lld KiB are needed to write out what is in "
                    "memory",
                    (long long)(room >> 10), (long long)(need >> 10));
}

/* Whatever goes wrong while writing is ERR_STORE, but for a full disk. */
NODISCARD static struct err write_batch(struct rocks *r, const struct batch *b, bool sync)
{
    fill_writes(r->writes, b);
    char *text = NULL;
    rocksdb_write(r->db, sync ? r->synced : r->buffered, r->writes, &text);
    rocksdb_writebatch_clear(r->writes);
    if (b->bytes > KEEP_MAX) {
        rocksdb_writebatch_destroy(r->writes);
        r->writes = rocksdb_writebatch_create();
    }
    struct err e = err_of(r, text, ERR_STORE);
    if (e.code != ERR_OK && e.code != ERR_DISK_FULL)
        e.code = ERR_STORE;
    return e;
}

/* Commits the batch of r, which is under way. Called without the lock: until it has
 * ended, nobody else changes what this reads. */
static void commit_batch(struct rocks *r)
{
    if (r->broken) {
        r->result = err_make(ERR_STORE, "the store has failed and was not reopened yet");
        return;
    }
    /* Once to the log, once to a table. */
    r->result = check_room(r, SPARE_ROOM + 2 * (int64_t)r->batch->bytes);
    r->refused = r->result.code != ERR_OK;
    if (!r->refused)
        r->result = write_batch(r, r->batch, r->sync);
    r->broken = r->result.code != ERR_OK;
    r->failure = r->result;
    if (!r->broken)
        note_commit(r);
}

static void *commit_thread(void *arg)
{
    pthread_setname_np(pthread_self(), "commit");
    struct rocks *r = arg;
    pthread_mutex_lock(&r->lock);
    for (;;) {
        while (r->phase != UNDER_WAY && !r->stopping)
            pthread_cond_wait(&r->to_thread, &r->lock);
        if (r->phase != UNDER_WAY)
            break;
        pthread_mutex_unlock(&r->lock);
        commit_batch(r);
        pthread_mutex_lock(&r->lock);
        r->phase = ENDED;
        pthread_cond_signal(&r->to_loop);
        pthread_mutex_unlock(&r->lock);
        r->notify(r->ctx);
        pthread_mutex_lock(&r->lock);
    }
    pthread_mutex_unlock(&r->lock);
    return NULL;
}

static void rocks_commit(struct store *s, const struct batch *b, bool sync)
{
    struct rocks *r = rocks_of(s);
    pthread_mutex_lock(&r->lock);
    must(r->phase == IDLE);
    r->batch = b;
    r->sync = sync;
    r->phase = UNDER_WAY;
    pthread_cond_signal(&r->to_thread);
    pthread_mutex_unlock(&r->lock);
}

static bool rocks_reap(struct store *s, struct err *result)
{
    struct rocks *r = rocks_of(s);
    pthread_mutex_lock(&r->lock);
    bool ended = r->phase == ENDED;
    if (ended) {
        *result = r->result;
        r->phase = IDLE;
    }
    pthread_mutex_unlock(&r->lock);
    return ended;
}

static void await_end(struct rocks *r)
{
    pthread_mutex_lock(&r->lock);
    while (r->phase == UNDER_WAY)
        pthread_cond_wait(&r->to_loop, &r->lock);
    pthread_mutex_unlock(&r->lock);
}

static void rocks_wait(struct store *s)
{
    struct rocks *r = rocks_of(s);
    pthread_mutex_lock(&r->lock);
    must(r->phase != IDLE);
    pthread_mutex_unlock(&r->lock);
    await_end(r);
}

/* Until no snapshot is being made; none begins until closing is taken back. */
static void await_snapshots(struct rocks *r)
{
    pthread_mutex_lock(&r->lock);
    r->closing = true;
    if (r->db)
        rocksdb_disable_manual_compaction(r->db); /* of this handle, which is to go */
    while (r->snapshots)
        pthread_cond_wait(&r->unused, &r->lock);
    pthread_mutex_unlock(&r->lock);
}

/* The old handle is kept until there is room for a new one, so that reads go on. */
NODISCARD static struct err renew_db(struct rocks *r)
{
    if (r->broken)
        TRY(check_room(r, REOPEN_ROOM));
    if (r->broken && r->refused)
        return err_none();
    close_db(r);
    struct err e = open_checked(r);
    if (e.code != ERR_OK) {
        close_db(r);
        open_for_reads(r);
    }
    return e;
}

static struct err rocks_reopen(struct store *s)
{
    struct rocks *r = rocks_of(s);
    await_end(r);
    await_snapshots(r);
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

/* --- reads --- */

static struct err rocks_get(struct store *s, struct str key, bool *found, struct buf *value)
{
    struct rocks *r = rocks_of(s);
    *found = false;
    value->len = 0;
    if (!r->db)
        return err_make(ERR_STORE, "the store in %s could not be reopened", r->dir);
    char *text = NULL;
    rocksdb_pinnableslice_t *p = rocksdb_get_pinned(r->db, r->reading, key.at, key.len, &text);
    if (p) {
        size_t len;
        const char *at = rocksdb_pinnableslice_value(p, &len);
        buf_add(value, at, len);
        *found = true;
        rocksdb_pinnableslice_destroy(p);
    }
    return err_of(r, text, ERR_STORE);
}

static struct store_cursor *rocks_cursor_new(struct store *s)
{
    struct rocks *r = rocks_of(s);
    struct store_cursor *c = ALLOC(struct store_cursor);
    c->rocks = r;
    if (r->db)
        c->it = rocksdb_create_iterator(r->db, r->reading);
    r->cursors++;
    return c;
}

static bool is_valid(const struct store_cursor *c)
{
    return c->it && rocksdb_iter_valid(c->it);
}

static void rocks_cursor_step(struct store_cursor *c, bool backwards)
{
    if (!is_valid(c))
        return;
    if (backwards)
        rocksdb_iter_prev(c->it);
    else
        rocksdb_iter_next(c->it);
}

static bool rocks_cursor_at(const struct store_cursor *c, struct str *key, struct str *value)
{
    if (!is_valid(c))
        return false;
    key->at = rocksdb_iter_key(c->it, &key->len);
    value->at = rocksdb_iter_value(c->it, &value->len);
    return true;
}

static void rocks_cursor_seek(struct store_cursor *c, struct str key, bool backwards)
{
    if (!c->it)
        return;
    if (!backwards) {
        rocksdb_iter_seek(c->it, key.at, key.len);
        return;
    }
    rocksdb_iter_seek_for_prev(c->it, key.at, key.len); /* to the last key <= key */
    struct str at, value;
    if (rocks_cursor_at(c, &at, &value) && str_eq(at, key))
        rocksdb_iter_prev(c->it);
}

static struct err rocks_cursor_free(struct store_cursor *c)
{
    struct rocks *r = c->rocks;
    struct err e = err_none();
    if (c->it) {
        char *text = NULL;
        rocksdb_iter_get_error(c->it, &text);
        e = err_of(r, text, ERR_STORE);
        rocksdb_iter_destroy(c->it);
    } else {
        e = err_make(ERR_STORE, "the store in %s could not be reopened", r->dir);
    }
    must(r->cursors > 0);
    r->cursors--;
    free(c);
    return e;
}

/* --- snapshots --- */

/* Bytes of the logs, which a snapshot copies; tables it only links. */
static uint64_t log_bytes(const struct rocks *r)
{
    DIR *d = opendir(r->dir);
    uint64_t sum = 0;
    const struct dirent *file;
    while (d && (file = readdir(d))) {
        struct stat st;
        const char *dot = strrchr(file->d_name, '.');
        if (dot && strcmp(dot, ".log") == 0 &&
            fstatat(dirfd(d), file->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0)
            sum += (uint64_t)st.st_size;
    }
    if (d)
        closedir(d);
    return sum;
}

/* What is in memory is not written out first: a disk that gets full meanwhile then fails the
 * snapshot and not the store. */
#define NEVER_FLUSH UINT64_MAX

NODISCARD static struct err make_checkpoint(struct rocks *r, const char *dir)
{
    char *text = NULL;
    rocksdb_checkpoint_t *c = rocksdb_checkpoint_object_create(r->db, &text);
    if (!text)
        rocksdb_checkpoint_create(c, dir, NEVER_FLUSH, &text);
    if (c)
        rocksdb_checkpoint_object_destroy(c);
    return err_of(r, text, ERR_IO);
}

static struct err rocks_snapshot(struct store *s, const char *dir)
{
    struct rocks *r = rocks_of(s);
    pthread_mutex_lock(&r->lock);
    bool can = !r->closing && !r->stopping && r->db;
    r->snapshots += can;
    pthread_mutex_unlock(&r->lock);
    if (!can)
        return err_make(ERR_STORE, "the store is being recovered; try again");
    struct err e = check_room(r, SPARE_ROOM + (int64_t)log_bytes(r));
    if (e.code == ERR_OK)
        e = make_checkpoint(r, dir);
    pthread_mutex_lock(&r->lock);
    if (--r->snapshots == 0)
        pthread_cond_signal(&r->unused);
    pthread_mutex_unlock(&r->lock);
    return e;
}

/* --- compaction --- */

/* The handle stays for as long as this is true; ended by release. */
static bool hold(struct rocks *r)
{
    pthread_mutex_lock(&r->lock);
    bool can = !r->closing && !r->stopping && !r->compact_stopped && r->db;
    r->snapshots += can;
    pthread_mutex_unlock(&r->lock);
    return can;
}

static void release(struct rocks *r)
{
    pthread_mutex_lock(&r->lock);
    if (--r->snapshots == 0)
        pthread_cond_signal(&r->unused);
    pthread_mutex_unlock(&r->lock);
}

static struct err rocks_compact(struct store *s)
{
    struct rocks *r = rocks_of(s);
    if (!hold(r))
        return err_make(ERR_STORE, "the store is being recovered or closed; try again");
    rocksdb_compact_range(r->db, NULL, 0, NULL, 0);
    pthread_mutex_lock(&r->lock);
    bool stopped = r->compact_stopped || r->closing;
    pthread_mutex_unlock(&r->lock);
    release(r);
    return stopped ? err_make(ERR_STOPPING, "compacting was given up") : err_none();
}

static void rocks_compact_stop(struct store *s)
{
    struct rocks *r = rocks_of(s);
    pthread_mutex_lock(&r->lock);
    r->compact_stopped = true;
    if (r->db)
        rocksdb_disable_manual_compaction(r->db);
    pthread_mutex_unlock(&r->lock);
}

/* --- room --- */

static int64_t rocks_free_space(struct store *s)
{
    return free_space(rocks_of(s));
}

static uint64_t rocks_disk_bytes(struct store *s)
{
    DIR *d = opendir(rocks_of(s)->dir);
    if (!d)
        return 0;
    uint64_t sum = 0;
    const struct dirent *file;
    while ((file = readdir(d))) {
        struct stat st;
        if (fstatat(dirfd(d), file->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode))
            sum += (uint64_t)st.st_size;
    }
    closedir(d);
    return sum;
}

/* --- beginning and end --- */

static void free_all(struct rocks *r)
{
    close_db(r);
    inventory_writer_free(r->inventory);
    rocksdb_writebatch_destroy(r->writes);
    rocksdb_readoptions_destroy(r->reading);
    rocksdb_writeoptions_destroy(r->synced);
    rocksdb_writeoptions_destroy(r->buffered);
    rocksdb_options_destroy(r->options);
    rocksdb_cache_destroy(r->cache);
    pthread_cond_destroy(&r->to_thread);
    pthread_cond_destroy(&r->to_loop);
    pthread_cond_destroy(&r->unused);
    pthread_mutex_destroy(&r->lock);
    free(r->dir);
    free(r);
}

static void rocks_close(struct store *s)
{
    struct rocks *r = rocks_of(s);
    pthread_mutex_lock(&r->lock);
    r->stopping = true;
    pthread_cond_signal(&r->to_thread);
    pthread_mutex_unlock(&r->lock);
    /* It writes a batch under way before it looks at stopping. */
    pthread_join(r->thread, NULL);
    await_snapshots(r);
    if (!r->broken) {
        /* What goes on in the background has its end first. */
        uint64_t sequence = rocksdb_get_latest_sequence_number(r->db);
        close_db(r);
        note_files(r, sequence);
    }
    free_all(r);
}

static struct rocks *rocks_alloc(const struct rocks_settings *settings)
{
    struct rocks *r = ALLOC(struct rocks);
    r->dir = alloc_text(settings->dir, strlen(settings->dir));
    r->lossy = settings->lossy;
    r->notify = settings->notify;
    r->ctx = settings->ctx;
    r->cache = rocksdb_cache_create_lru(settings->cache_bytes);
    r->options = options_new(r->cache);
    rocksdb_options_set_max_open_files(r->options,
                                       settings->files_max ? settings->files_max : FILES_MAX);
    r->reading = rocksdb_readoptions_create();
    r->synced = rocksdb_writeoptions_create();
    rocksdb_writeoptions_set_sync(r->synced, 1);
    r->buffered = rocksdb_writeoptions_create();
    r->writes = rocksdb_writebatch_create();
    pthread_mutex_init(&r->lock, NULL);
    pthread_cond_init(&r->to_thread, NULL);
    pthread_cond_init(&r->to_loop, NULL);
    pthread_cond_init(&r->unused, NULL);
    return r;
}

/* What is on a disk that is full can be read. */
NODISCARD static struct err open_or_read(struct rocks *r)
{
    struct err e = open_checked(r);
    if (e.code != ERR_DISK_FULL)
        return e;
    close_db(r);
    open_for_reads(r);
    if (!r->db)
        return e;
    r->broken = true;
    r->failure = e;
    return err_none();
}

static struct err rocks_failure(const struct store *s)
{
    const struct rocks *r = (const struct rocks *)s;
    return r->broken ? r->failure : err_none();
}

NODISCARD static struct err open_and_start(struct rocks *r)
{
    if (mkdir(r->dir, 0700) != 0 && errno != EEXIST)
        return err_make(errno == ENOSPC ? ERR_DISK_FULL : ERR_IO, "cannot make %s: %s", r->dir,
                        strerror(errno));
    TRY(open_or_read(r));
    int no = pthread_create(&r->thread, NULL, commit_thread, r);
    if (no != 0)
        return err_make(ERR_IO, "cannot start a thread: %s", strerror(no));
    return err_none();
}

struct err rocks_open(const struct rocks_settings *settings, struct store **out)
{
    static const struct store_vt vt = {
        .get = rocks_get,
        .commit = rocks_commit,
        .reap = rocks_reap,
        .wait = rocks_wait,
        .reopen = rocks_reopen,
        .failure = rocks_failure,
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
    struct rocks *r = rocks_alloc(settings);
    r->base.vt = &vt;
    /* Signals are for the loop's thread: the threads begun here inherit the mask. */
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    struct err e = open_and_start(r);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (e.code != ERR_OK) {
        free_all(r);
        return e;
    }
    *out = &r->base;
    return err_none();
}

/* --- for looking only --- */

struct err rocks_lock(const char *dir, int *fd)
{
    struct buf path = {0};
    buf_print(&path, "%s/LOCK", dir);
    buf_byte(&path, '\0');
    /* A lock for reading keeps a server out, which locks for writing. */
    *fd = open(path.at, O_RDONLY | O_CREAT | O_CLOEXEC, 0600);
    bool cannot_write = *fd < 0 && (errno == EROFS || errno == EACCES || errno == EPERM);
    if (cannot_write)
        *fd = open(path.at, O_RDONLY | O_CLOEXEC);
    struct err e = err_none();
    struct flock whole = {.l_type = F_RDLCK, .l_whence = SEEK_SET};
    /* Without a file to lock where none can be made no server can run either. */
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
    free_all(rocks_of(s));
}

/* What a server would refuse is refused, and what it would take for the end of the log is. */
NODISCARD static struct err open_to_look(struct rocks *r)
{
    TRY(inventory_check(r->dir, false, &r->damaged));
    char *text = NULL;
    r->db = rocksdb_open_for_read_only(r->options, r->dir, 0, &text);
    if (text)
        r->db = NULL;
    return err_of(r, text, ERR_IO);
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
    struct rocks *r = rocks_alloc(&(struct rocks_settings){.dir = dir, .cache_bytes = cache_bytes});
    r->base.vt = &vt;
    rocksdb_options_set_create_if_missing(r->options, 0);
    rocksdb_readoptions_set_verify_checksums(r->reading, 1);
    rocksdb_readoptions_set_fill_cache(r->reading, 0);
    struct err e = open_to_look(r);
    if (e.code != ERR_OK) {
        free_all(r);
        return e;
    }
    *out = &r->base;
    return e;
}
