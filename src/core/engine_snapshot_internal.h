/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_ENGINE_SNAPSHOT_INTERNAL_H
#define CORE_ENGINE_SNAPSHOT_INTERNAL_H

/* The layout of a snapshot, for the file that writes it and the one that reads it.
 *
 *   chunk   blocks
 *   block   byte kind, 4 bytes number, 4 bytes count, 4 bytes length, as many items in as many
 * bytes
 *
 *   'H'     one item, a byte: SNAPSHOT_VERSION; the first block of all, and only there
 *   'I'     ids of jobs that are to be read; entries whose major and val are 0, in any order
 *   'D'     jobs among the deadlines: entries, val as DUE_VAL with the writer's queues and types
 *   'C' 'X' completed and dead ones: entries, val is the queue
 *   'R' 'P' ready ones and parked ones of the queue `number`: entries, by rank
 *   'Q'     names of queues in ascending order: 4 bytes index, then a text
 *   'T'     names of types, from the index `number` on: texts
 *   'Z'     the last block of all, without items
 *
 * Numbers are little-endian. A text is a byte of length and its bytes. An entry is what is
 * different from the one before it in its block (before the first: zeros): a byte with two bits for
 * the size of each part (entry_sizes); then the parts: major as the difference, hi and lo as the
 * difference in zigzag, val as the bits that differ. */

#include "core/engine_internal.h"

/* Also to be raised when other jobs come to need more than their entry. */
#define SNAPSHOT_VERSION 1

enum snapshot_block {
    SNAPSHOT_HEAD = 'H',
    SNAPSHOT_READ = 'I',
    SNAPSHOT_DUE = 'D',
    SNAPSHOT_COMPLETED = 'C',
    SNAPSHOT_DEAD = 'X',
    SNAPSHOT_READY = 'R',
    SNAPSHOT_PARKED = 'P',
    SNAPSHOT_QUEUES = 'Q',
    SNAPSHOT_TYPES = 'T',
    SNAPSHOT_END = 'Z',
};

#define SNAPSHOT_HEAD_LEN  13 /* of a block, before its items */
#define SNAPSHOT_ENTRY_MAX 33 /* bytes of an entry */

enum { PART_MAJOR, PART_HI, PART_LO, PART_VAL, PARTS };
/* Two bits choose one of these. */
static const uint8_t entry_sizes[PARTS][4] = {
    {0, 1, 4, 8}, {0, 2, 4, 8}, {0, 5, 6, 8}, {0, 1, 4, 8}};

#endif
