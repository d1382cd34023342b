/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_DISK_H
#define SIM_DISK_H

/* The disk of a simulation: a memory store, and a witness who counts its batches and
 * notes which hand-outs became durable with them. */

#include "base/id.h"
#include "store/store.h"

struct store *disk_new(void);
/* The memory store below, for its faults. */
struct store *disk_memory(struct store *disk);
/* Batches begun and batches that have come to their end since the last crash. */
uint64_t disk_begun(const struct store *disk);
uint64_t disk_ended(const struct store *disk);
/* The newest batch that failed; 0: none. */
uint64_t disk_failed(const struct store *disk);
/* Whether a batch is under way that has not been reaped. */
bool disk_is_busy(const struct store *disk);
/* Whether this run's beginning is durable. */
bool disk_has_take(const struct store *disk, struct id id, uint32_t run);
/* What the next reopens do. */
void disk_fail_reopens(struct store *disk, unsigned count);
void disk_crash(struct store *disk, bool apply, bool lose_unsynced);
/* Records of whatever kind, but for events, the failure history, facts about the store itself and
 * documents of people. */
uint64_t disk_records(struct store *disk, char *kinds, size_t cap);

#endif
