/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_ENGINE_SNAPSHOT_H
#define CORE_ENGINE_SNAPSHOT_H

/* Snapshots of the indexes, so that a restart need not read every job. Pure: bytes in memory.
 *
 * A snapshot is taken in slices while the engine goes on, so it shows no single moment. It is right
 * about every job of which no record was written since it began; whoever restores from it names all
 * others (the touched ones), which are read from their records instead. So are jobs that need more
 * than an entry of the ready order, of the deadlines or of those that have ended: they are in the
 * snapshot by their ids alone. They are those in flight and blocked ones, and those with a unique
 * key, an alias, a deadline, a group, a gang, budgets, a node to avoid, or an open batch.
 *
 * What is not of jobs (settings of queues, groups, cron entries, runs that a stop cut off, ...) is
 * not in it. */

#include "base/buf.h"
#include "base/err.h"
#include "base/id.h"
#include "base/units.h"

struct engine;

/* Begins one; one that was under way is dropped. */
void engine_snapshot_begin(struct engine *e);
/* Adds a chunk for about `most` entries to out. False: with that it is complete, and ends. */
bool engine_snapshot_step(struct engine *e, size_t most, struct buf *out);
/* Drops what is under way, if anything is. */
void engine_snapshot_drop(struct engine *e);
bool engine_snapshot_is_under_way(const struct engine *e);
/* About how many entries one would have. */
uint64_t engine_snapshot_size(const struct engine *e);

/* Ids in ascending order, none twice; released with free(ids). */
struct snapshot_ids {
    struct id *ids;
    size_t count;
};

/* Puts the jobs of a complete snapshot into a new engine, to which queues, groups, leases and
 * the newest event were restored, but no job. `chunks` are what its steps gave, in their order;
 * `touched` may be in any order. *rest receives the jobs that engine_restore_job is to be called
 * for, with what their records say, unless they are there no more. ERR_CORRUPT, and then nothing
 * was restored. */
NODISCARD struct err engine_snapshot_load(struct engine *e, instant now, const struct str *chunks,
                                          size_t count, struct snapshot_ids touched,
                                          struct snapshot_ids *rest);

/* Everything that follows from the records, a line for each fact, in an order that depends on
 * nothing else. For tests, to compare engines that were restored in different ways. */
void engine_dump(const struct engine *e, struct buf *out);

#endif
