/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_ENGINE_ENTRY_H
#define CORE_ENGINE_ENTRY_H

/* What the entries of the engine's orders say of a job: its rank among ready ones, and what is due.
 */

#include <stdbool.h>
#include <stdint.h>

#include "core/job.h"

/* The place of a ready job is its rank, then its id: at one priority retries granted by policies
 * come first, then all others by age. 17 bits. */
#define RANK_OTHERS             1u /* bit of a rank: not a granted retry */
#define RANK(priority, granted) ((uint32_t)(priority) << 1 | ((granted) ? 0 : RANK_OTHERS))
#define RANK_BITS               17
static inline uint32_t engine_rank(const struct job_state *s)
{
    return RANK(s->priority, s->extras.granted != 0);
}

/* In the val of a ready entry: a state record exists; it is a task. */
#define READY_VAL_STATE     1u
#define READY_VAL_TASK      2u
#define READY_VAL_BITS      3u
#define READY_VAL_KIND(val) ((val)&READY_VAL_TASK ? KIND_TASK : KIND_JOB)
static inline unsigned engine_val_of(enum job_kind kind, bool has_state)
{
    return (kind == KIND_TASK ? READY_VAL_TASK : 0) | (has_state ? READY_VAL_STATE : 0);
}
static inline unsigned engine_val(const struct job *job, bool has_state)
{
    return engine_val_of(job_kind(job), has_state);
}

/* Types are stored as an index, where there is no room for a name; 0: none, or there are too
 * many. */
#define TYPES_MAX 2047

/* The val of a deadline: what is due, so that firing it reads nothing back. For DUE_READY also the
 * type, whether it was announced before a restart that the job is ready, and whether it is a task.
 */
enum due_kind {
    DUE_READY,
    DUE_PURGE = 2, /* snapshots of older versions know it by that number */
    DUE_WAIT,
    DUE_CRON,
    DUE_AVOID,
    DUE_RATE,
    DUE_BUDGET
};
#define DUE_VAL(kind, state, rank, queue)                                                          \
    ((uint64_t)(kind) | (uint64_t)(state) << 3 | (uint64_t)(rank) << 16 |                          \
     (uint64_t)(queue) << (16 + RANK_BITS))
#define DUE_VAL_OF_TYPE(type) ((uint64_t)(type) << 4)
#define DUE_VAL_SURPLUS       ((uint64_t)1 << 4) /* of DUE_PURGE: see engine_surplus.c */
#define DUE_VAL_ANNOUNCED     ((uint64_t)1 << 15)
#define DUE_VAL_TYPE(val)     ((uint32_t)((val) >> 4) & TYPES_MAX)
#define DUE_VAL_KIND(val)     ((enum due_kind)((val)&7))
#define DUE_VAL_STATE(val)    (((val) >> 3) & 1)
#define DUE_VAL_RANK(val)     ((uint32_t)((val) >> 16) & ((1u << RANK_BITS) - 1))
#define DUE_VAL_TASK          ((uint64_t)1 << 63)
#define DUE_VAL_QUEUE(val)    ((uint32_t)(((val) & ~DUE_VAL_TASK) >> (16 + RANK_BITS)))
/* The val of the ready entry that it becomes. */
#define DUE_VAL_READY(val)                                                                         \
    ((DUE_VAL_STATE(val) ? READY_VAL_STATE : 0) | ((val)&DUE_VAL_TASK ? READY_VAL_TASK : 0))

#endif
