/* SPDX-License-Identifier: Apache-2.0 */

/* What is in memory goes to tables. Before RocksDB begins with that it waits for merges until level
 * 0 has a place for one more table. Where the disk lacks the room to merge, it would wait for ever:
 * so nobody here asks for what it would not begin at once. The log has all of it in any case. */

#include <time.h>

#include "store/rocks_internal.h"

/* Between two looks whether there is a place, and how many in a row find as many tables as ever
 * before it is said that there will be none. */
#define LOOK_NS   ((long)50 * 1000 * 1000)
#define LOOKS_MAX 600
/* For whoever asks RocksDB for more than a flush: others may begin one meanwhile. */
#define PLACES 4

/* Of tables at level 0, those under way included. */
static uint64_t tables(struct rocks *r)
{
    uint64_t under_way = 0;
    rocksdb_property_int(r->db, "rocksdb.num-immutable-mem-table", &under_way);
    return rocks_level0(r->db) + under_way;
}

/* RocksDB waits as well while merges are so far behind in bytes that it delays writes. */
static bool has_places(struct rocks *r, uint64_t count)
{
    uint64_t rate = 0, stopped = 0;
    rocksdb_property_int(r->db, "rocksdb.actual-delayed-write-rate", &rate);
    rocksdb_property_int(r->db, "rocksdb.is-write-stopped", &stopped);
    return !rate && !stopped && tables(r) + count < ROCKS_PACE_SLOWDOWN;
}

bool rocks_may_flush(struct rocks *r)
{
    return has_places(r, 1);
}

static struct err err_no_place(struct rocks *r)
{
    return err_make(ERR_DISK_FULL, "%llu tables of %.200s wait to be merged: is there space left?",
                    (unsigned long long)tables(r), r->dir);
}

NODISCARD static struct err flush(struct rocks *r, bool wait)
{
    rocksdb_flushoptions_t *o = rocksdb_flushoptions_create();
    char *text = NULL;
    rocksdb_flushoptions_set_wait(o, wait);
    rocksdb_flush(r->db, o, &text);
    rocksdb_flushoptions_destroy(o);
    return rocks_err_of_tables(r, text, ERR_STORE);
}

struct err rocks_flush_anyway(struct rocks *r, bool wait)
{
    r->logged = 0;
    return flush(r, wait);
}

struct err rocks_flush_elsewhere(struct rocks *r, bool wait)
{
    return rocks_may_flush(r) ? flush(r, wait) : err_no_place(r);
}

/* Merges that failed, so far. */
static uint64_t failures(struct rocks *r)
{
    uint64_t n = 0;
    rocksdb_property_int(r->db, "rocksdb.background-errors", &n);
    return n;
}

static bool is_merging(struct rocks *r)
{
    uint64_t n = 0;
    rocksdb_property_int(r->db, "rocksdb.num-running-compactions", &n);
    return n > 0;
}

struct err rocks_flush(struct rocks *r)
{
    return rocks_may_flush(r) ? rocks_flush_anyway(r, true) : err_no_place(r);
}

/* Whether somebody who closes the store waits for whoever asks. */
static bool is_to_end(struct rocks *r)
{
    pthread_mutex_lock(&r->lock);
    bool end = r->stopping || r->compact_stopped || (r->closing && r->snapshots);
    pthread_mutex_unlock(&r->lock);
    return end;
}

struct err rocks_await_merges(struct rocks *r)
{
    const struct timespec interval = {.tv_nsec = LOOK_NS};
    uint64_t least = UINT64_MAX, failed = failures(r);
    for (int looks = 0; !has_places(r, PLACES); looks++) {
        uint64_t now = tables(r);
        if (now < least) {
            least = now;
            looks = 0;
        }
        if (looks >= LOOKS_MAX && (failures(r) != failed || !is_merging(r)))
            return err_no_place(r);
        if (is_to_end(r))
            return err_make(ERR_STORE, "the store is being recovered or closed; try again");
        nanosleep(&interval, NULL);
    }
    return err_none();
}
