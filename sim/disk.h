/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_DISK_H
#define SIM_DISK_H

/* The disk of a simulation. It is made as that of a server: tables, and a log of the commits that
 * they do not hold. The log is the real one, in files, on a disk with sectors (sectors.h); the
 * tables are a memory store, from which the commits are gone that were not flushed, and to which
 * those that the log has are brought again after each end of the process, as after a failed commit.
 * What was acknowledged must be among them, as it was, and nothing that never was appended; what an
 * opening has found must be there for good.
 *
 * It is also a witness that counts its batches and records which hand-outs became durable with
 * them. One at a time. */

#include "base/id.h"
#include "store/memory.h"
#include "store/store.h"

/* What chance there does follows from the seed. With `sync` every commit is synced; otherwise some
 * are, and what comes after the first one that a power cut has destroyed is given up.
 *
 * Before each recovery the disk also loses what it had, in every way of sectors.h: then the log is
 * refused, or has what was acknowledged and something behind it says so. */
struct store *disk_new(uint64_t seed, bool sync);
/* Batches begun, and batches ended, since the last crash. */
uint64_t disk_begun(const struct store *disk);
uint64_t disk_ended(const struct store *disk);
/* The newest batch that failed; 0: none. */
uint64_t disk_failed(const struct store *disk);
/* Whether a batch is in progress that has not been reaped. */
bool disk_is_busy(const struct store *disk);
/* Whether the beginning of this run is durable. */
bool disk_has_take(const struct store *disk, struct id id, uint32_t run);
/* Makes the next `count` reopens fail. */
void disk_fail_reopens(struct store *disk, unsigned count);
/* Makes the count-th commit from now on fail; 0: none. With `keep` the log has it nevertheless. */
void disk_fail_commit(struct store *disk, unsigned count, enum err_code code, bool keep);
/* Applies to the commits that follow. */
void disk_set_faults(struct store *disk, struct memory_faults faults);
/* As memory_release, memory_break, memory_set_free_space. */
void disk_release(struct store *disk);
void disk_break(struct store *disk, enum err_code code);
void disk_set_free_space(struct store *disk, int64_t bytes);
/* Everything that was committed comes to the disk. */
void disk_sync(struct store *disk);
/* The process dies and starts again. With `apply` a batch in progress has come to the disk before;
 * otherwise the write of it is cut off anywhere. With `power` what was not synced is lost. */
void disk_crash(struct store *disk, bool apply, bool power);
/* Records of all kinds except events, the failure history, groups of failures, facts about the
 * store and documents. */
uint64_t disk_records(struct store *disk, char *kinds, size_t cap);

#endif
