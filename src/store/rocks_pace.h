/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STORE_ROCKS_PACE_H
#define STORE_ROCKS_PACE_H

/* The pace of compaction. Unlimited, it takes a processor and most of what the disk can do, and
 * commits wait behind it. RocksDB's own limit of bytes a second is fixed when the tables are
 * opened, so that it is either too high to help or too low for a heavy load; this one grows as
 * compaction falls behind, and is gone before RocksDB would have to slow writes down. Where little
 * is written there is no hurry with what an earlier load has left behind.
 *
 * RocksDB shows each value that a compaction reads to a filter, on the thread that compacts: the
 * filter keeps every value, and sleeps when the thread is ahead of its rate. Tables that are
 * written from memory are not limited: commits would soon wait for that memory. */

#include <rocksdb/c.h>
#include <stddef.h>
#include <stdint.h>

#include "base/units.h"

/* Tables at level 0, which nothing has compacted yet: from so many on, writes are slowed down, or
 * wait. */
#define ROCKS_PACE_SLOWDOWN 32
#define ROCKS_PACE_STOP     48

/* How many there are. */
uint64_t rocks_level0(rocksdb_t *db);

/* Bytes a second that a compaction may read; 0: as many as it can. `delayed`: RocksDB slows writes
 * down already; `incoming`: bytes a second that are written to the database. */
uint64_t rocks_pace_rate(uint64_t level0, bool delayed, uint64_t incoming);

/* When a thread may go on. Zero-initialised. */
struct rocks_pace_clock {
    mono due;
};
/* Counts bytes that were read by now; returns how long to sleep. Bytes that were not read in time
 * may be caught up with only for a moment. */
mono rocks_pace_spend(struct rocks_pace_clock *c, uint64_t bytes, uint64_t rate, mono now);

struct rocks_pace;
struct rocks_pace *rocks_pace_new(void);
/* After the last database with its filter was closed. */
void rocks_pace_free(struct rocks_pace *p);
/* Sets the options of tables that are compacted at this pace. */
void rocks_pace_options(struct rocks_pace *p, rocksdb_options_t *o);
/* An open database, whose state sets the rate; NULL: compactions are not limited. It must be
 * replaced before it is closed. */
void rocks_pace_watch(struct rocks_pace *p, rocksdb_t *db);
/* So many bytes were written to it. On any thread. */
void rocks_pace_count(struct rocks_pace *p, uint64_t bytes);

#endif
