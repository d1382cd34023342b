/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_DISK_H
#define SIM_DISK_H

/* The disk of a simulation: a memory store, and a witness that counts its batches and records which
 * hand-outs became durable with them. */

#include "base/id.h"
#include "store/store.h"

struct store *disk_new(void);
/* The underlying memory store, for its faults. */
struct store *disk_memory(struct store *disk);
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
/* Makes the count-th commit from now on fail; 0: none. As memory_faults.fail_but_keep says. */
void disk_fail_commit(struct store *disk, unsigned count, enum err_code code, bool keep);
void disk_crash(struct store *disk, bool apply, bool lose_unsynced);
/* Records of all kinds except events, the failure history, groups of failures, facts about the
 * store and documents. */
uint64_t disk_records(struct store *disk, char *kinds, size_t cap);

#endif
