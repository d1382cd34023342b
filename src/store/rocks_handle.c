/* SPDX-License-Identifier: Apache-2.0 */

/* A handle of RocksDB: its options, the meaning of its errors, and closing it. */

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/must.h"
#include "store/log_file.h"
#include "store/rocks_error.h"
#include "store/rocks_foreign.h"
#include "store/rocks_internal.h"

/* Options for which the C API has no function. A restart leaves the contents of the log in
 * memory, as it was before, rather than write it out: that is faster, and needs no room on a disk
 * that may be full. The same at the end: the log has it. And of a table that is written, no more is
 * on its way to the disk than bytes_per_sync: a commit does not wait behind more than that. */
#define MORE_OPTIONS                                                                               \
    "avoid_flush_during_recovery=true;avoid_flush_during_shutdown=true;"                           \
    "strict_bytes_per_sync=true"

/* RocksDB's kPersistedTier, which the C API does not name. */
#define PERSISTED_TIER 2

#define FILES_MAX 512
/* One in so many is a table that is kept open to be freed later, unless there are few. */
#define SHED_PART 4
#define SHED_FROM 256
#define LOG_BYTES (256 * MIB)

#define LEVELS 7
#define SILENT 6 /* one above HEADER_LEVEL */

/* --- errors --- */

bool rocks_says(const char *text, const char *part)
{
    return strstr(text, part) != NULL;
}

struct err rocks_err(struct rocks *r, char *text, enum err_code otherwise)
{
    struct err e = rocks_error(text, otherwise);
    if (e.code == ERR_LOCKED)
        return err_make(ERR_LOCKED, "%s is locked: is another server using it?", r->dir);
    return e;
}

struct err rocks_err_of_tables(struct rocks *r, char *text, enum err_code otherwise)
{
    uint64_t table = text ? rocks_error_table(text) : 0;
    if (table) {
        pthread_mutex_lock(&r->lock);
        r->hurt = table;
        pthread_mutex_unlock(&r->lock);
    }
    return rocks_err(r, text, otherwise);
}

/* --- options --- */

void rocks_set_compression(rocksdb_options_t *o, bool lz4)
{
    int levels[LEVELS];
    /* Young data is mostly deleted before it is old: compressing it is a waste. */
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
    /* There is only one writer. */
    rocksdb_options_set_allow_concurrent_memtable_write(o, 0);
    rocksdb_options_set_enable_write_thread_adaptive_yield(o, 0);
    /* A queue deletes what it wrote, from the front. Without this a scan from the front would step
     * over the tombstones of all jobs that ever were. */
    rocksdb_options_add_compact_on_deletion_collector_factory(o, 1024, 512);
}

static void set_housekeeping(rocksdb_options_t *o)
{
    rocksdb_options_set_create_if_missing(o, 1);
    /* Its own log stays empty, by a level above all levels: on a full disk, the second line that it
     * cannot write there ends the process if RocksDB was built with assertions, as Debian's is.
     * Errors are returned to the caller in any case. */
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
    rocks_set_compression(base, true);
    rocksdb_options_t *full = rocksdb_options_create();
    char *text = NULL;
    rocksdb_get_options_from_string(base, MORE_OPTIONS, full, &text);
    must(text == NULL);
    rocksdb_options_destroy(base);
    return full;
}

/* --- the handle --- */

void rocks_close_db(struct rocks *r)
{
    must(r->cursors == 0 && r->snapshots == 0);
    rocks_pace_watch(r->pace, NULL);
    rocks_foreign_stop(r);
    rocks_log_close(r);
    if (r->db)
        rocksdb_close(r->db);
    r->db = NULL;
    shed_free(r->shed);
    r->shed = NULL;
}

void rocks_free(struct rocks *r)
{
    rocks_close_db(r);
    inventory_writer_free(r->inventory);
    rocksdb_writebatch_destroy(r->writes);
    rocksdb_readoptions_destroy(r->reading);
    rocksdb_readoptions_destroy(r->flushed);
    rocksdb_writeoptions_destroy(r->unlogged);
    rocksdb_writeoptions_destroy(r->unlogged_at_once);
    log_ring_free(r->ring);
    buf_fini(&r->bytes);
    rocksdb_options_destroy(r->options);
    rocks_pace_free(r->pace);
    rocksdb_cache_destroy(r->cache);
    pthread_cond_destroy(&r->to_thread);
    pthread_cond_destroy(&r->to_loop);
    pthread_cond_destroy(&r->unused);
    pthread_mutex_destroy(&r->lock);
    rocks_foreign_free(r->foreign);
    free(r->dir);
    free(r);
}

static char *dir_of(const struct rocks_settings *settings)
{
    struct buf path = {0};
    buf_str(&path, str_from(settings->dir));
    if (settings->foreign)
        buf_lit(&path, "/" ROCKS_FOREIGN_FOLDER);
    buf_byte(&path, '\0');
    return path.at;
}

/* Of the files that the store may have open. */
static void share_files(struct rocks *r, int max)
{
    int shed = max < SHED_FROM ? 0 : max / SHED_PART;
    r->shed_max = (size_t)shed;
    rocksdb_options_set_max_open_files(r->options, max - shed);
}

struct rocks *rocks_new(const struct rocks_settings *settings)
{
    struct rocks *r = ALLOC(struct rocks);
    r->dir = dir_of(settings);
    r->foreign = settings->foreign ? rocks_foreign_new(settings) : NULL;
    r->lossy = settings->lossy;
    r->unsynced = settings->unsynced;
    r->log_bytes = settings->log_bytes ? settings->log_bytes : LOG_BYTES;
    r->held = STORE_HOLD_NONE;
    r->notify = settings->notify;
    r->ctx = settings->ctx;
    r->cache = rocksdb_cache_create_lru(settings->cache_bytes);
    r->options = options_new(r->cache);
    r->pace = rocks_pace_new();
    rocks_pace_options(r->pace, r->options);
    share_files(r, settings->files_max ? settings->files_max : FILES_MAX);
    r->reading = rocksdb_readoptions_create();
    r->flushed = rocksdb_readoptions_create();
    rocksdb_readoptions_set_read_tier(r->flushed, PERSISTED_TIER);
    r->unlogged = rocksdb_writeoptions_create();
    rocksdb_writeoptions_disable_WAL(r->unlogged, 1);
    r->unlogged_at_once = rocksdb_writeoptions_create();
    rocksdb_writeoptions_disable_WAL(r->unlogged_at_once, 1);
    rocksdb_writeoptions_set_no_slowdown(r->unlogged_at_once, 1);
    r->ring = settings->no_ring || settings->foreign ? NULL : log_ring_new(LOG_UNDER_WAY_MAX);
    r->writes = rocksdb_writebatch_create();
    pthread_mutex_init(&r->lock, NULL);
    pthread_cond_init(&r->to_thread, NULL);
    pthread_cond_init(&r->to_loop, NULL);
    pthread_cond_init(&r->unused, NULL);
    return r;
}

/* Before anything is changed. The inventory is never ahead of what the log has let go of. */
NODISCARD static struct err check_log(const struct rocks *r)
{
    struct log *l;
    struct log_file_settings settings = {.dir = r->dir,
                                         .from = r->tables + 1,
                                         .reached = r->reached,
                                         .found = true,
                                         .unsynced = r->unsynced};
    TRY(log_file_open_reader(&settings, &l));
    log_close(l);
    return err_none();
}

struct err rocks_check_inventory(struct rocks *r, bool lossy)
{
    struct inventory *inv = ALLOC(struct inventory);
    struct err e = inventory_check(r->dir, inv);
    r->damaged = inv->is.damaged;
    r->has_log = inv->has_log;
    r->tables = inv->is.tables;
    r->reached = inv->is.reached;
    if (!r->held_known && r->has_log)
        r->held = inv->is.held;
    r->held_known = true;
    uint64_t sequence = inv->sequence;
    free(inv);
    TRY(e);
    if (!r->has_log)
        return rocks_upgrade_check(r, sequence, lossy || r->unsynced);
    /* If it was not synced, what is left is found out when it is opened. */
    return lossy ? err_none() : check_log(r);
}
