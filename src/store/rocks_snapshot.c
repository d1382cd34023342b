/* SPDX-License-Identifier: Apache-2.0 */

/* What other threads do with an open store: snapshots of it, and its compaction. */

#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "store/rocks_internal.h"

/* --- snapshots --- */

/* Bytes of the logs, which a snapshot copies; tables are only linked. */
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

/* Data in memory is not written out first: if the disk becomes full meanwhile, the snapshot fails
 * and not the store. */
#define NEVER_FLUSH UINT64_MAX

NODISCARD static struct err make_checkpoint(struct rocks *r, const char *dir)
{
    char *text = NULL;
    rocksdb_checkpoint_t *c = rocksdb_checkpoint_object_create(r->db, &text);
    if (!text)
        rocksdb_checkpoint_create(c, dir, NEVER_FLUSH, &text);
    if (c)
        rocksdb_checkpoint_object_destroy(c);
    return rocks_err(r, text, ERR_IO);
}

struct err rocks_snapshot(struct store *s, const char *dir)
{
    struct rocks *r = rocks_of(s);
    pthread_mutex_lock(&r->lock);
    bool can = !r->closing && !r->stopping && r->db;
    r->snapshots += can;
    pthread_mutex_unlock(&r->lock);
    if (!can)
        return err_make(ERR_STORE, "the store is being recovered; try again");
    struct err e = rocks_check_room(r, SPARE_ROOM + (int64_t)log_bytes(r));
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

struct err rocks_compact(struct store *s)
{
    struct rocks *r = rocks_of(s);
    if (!hold(r))
        return err_make(ERR_STORE, "the store is being recovered or closed; try again");
    rocksdb_compact_range(r->db, NULL, 0, NULL, 0);
    pthread_mutex_lock(&r->lock);
    bool stopped = r->compact_stopped || r->closing;
    pthread_mutex_unlock(&r->lock);
    release(r);
    return stopped ? err_make(ERR_STOPPING, "compaction was stopped") : err_none();
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
