/* SPDX-License-Identifier: Apache-2.0 */

/* What other threads do with an open store: snapshots of it, and its compaction. */

#include "store/rocks_internal.h"

/* --- snapshots --- */

/* What is in memory alone is written to tables first: a snapshot has no log. */
#define NEVER_FLUSH UINT64_MAX

NODISCARD static struct err make_checkpoint(struct rocks *r, const char *dir)
{
    char *text = NULL;
    rocksdb_checkpoint_t *c = rocksdb_checkpoint_object_create(r->db, &text);
    if (!text)
        rocksdb_checkpoint_create(c, dir, NEVER_FLUSH, &text);
    if (c)
        rocksdb_checkpoint_object_destroy(c);
    return rocks_err_of_tables(r, text, ERR_IO);
}

struct err rocks_snapshot(struct store *s, const char *dir)
{
    struct rocks *r = rocks_of(s);
    pthread_mutex_lock(&r->lock);
    bool can = !r->closing && !r->stopping && r->db && !r->overlay;
    r->snapshots += can;
    pthread_mutex_unlock(&r->lock);
    if (!can)
        return err_make(ERR_STORE, "the store is being recovered; try again");
    rocks_await_tables(r);
    struct err e = rocks_check_room(r, SPARE_ROOM);
    if (e.code == ERR_OK)
        e = rocks_await_merges(r);
    if (e.code == ERR_OK)
        e = rocks_flush_elsewhere(r, true);
    if (e.code == ERR_OK)
        e = make_checkpoint(r, dir);
    pthread_mutex_lock(&r->lock);
    if (--r->snapshots == 0)
        pthread_cond_signal(&r->unused);
    pthread_mutex_unlock(&r->lock);
    return e;
}

/* --- compaction --- */

/* While held, the handle is not closed; ended by release. */
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

/* What is at the last level already is compacted. That there is a filter (store/rocks_pace.h) is no
 * reason to write it again. */
#define NOT_THE_LAST_LEVEL 0

static void compact(struct rocks *r)
{
    rocksdb_compactoptions_t *how = rocksdb_compactoptions_create();
    rocksdb_compactoptions_set_bottommost_level_compaction(how, NOT_THE_LAST_LEVEL);
    rocksdb_compact_range_opt(r->db, how, NULL, 0, NULL, 0);
    rocksdb_compactoptions_destroy(how);
}

struct err rocks_compact(struct store *s)
{
    struct rocks *r = rocks_of(s);
    if (!hold(r))
        return err_make(ERR_STORE, "the store is being recovered or closed; try again");
    struct err e = rocks_await_merges(r);
    if (e.code == ERR_OK)
        compact(r);
    pthread_mutex_lock(&r->lock);
    if (r->compact_stopped || r->closing)
        e = err_make(ERR_STOPPING, "compaction was stopped");
    pthread_mutex_unlock(&r->lock);
    release(r);
    return e;
}

void rocks_compact_stop(struct store *s)
{
    struct rocks *r = rocks_of(s);
    pthread_mutex_lock(&r->lock);
    r->compact_stopped = true;
    if (r->db)
        rocksdb_disable_manual_compaction(r->db);
    pthread_mutex_unlock(&r->lock);
}
