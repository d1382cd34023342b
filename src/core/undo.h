/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_UNDO_H
#define CORE_UNDO_H

/* What a change of many jobs keeps of each of them, so that it can be undone: the job as it was,
 * and by what it is known later that nothing has happened to it since. Undoing leaves as it is what
 * has gone on meanwhile, and says why. Strings are borrowed. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "core/group.h"
#include "core/job.h"
#include "core/operations.h"
#include "core/port.h"

struct undo_entry {
    enum operation_kind kind;  /* of the change: not OPERATION_UNDO */
    bool gone;                 /* it took the job away */
    instant at;                /* of the change */
    struct job was;            /* with its payload iff it is gone */
    uint32_t runs;             /* of the job afterwards */
    instant purge_at;          /* likewise */
    unsigned set;              /* of a patch: bits of enum patch_field */
    struct job became;         /* likewise: the job afterwards */
    bool ran;                  /* it is gone, and was in flight: */
    struct run run;            /* the run that ended with that */
    struct group_record group; /* that it was in, if it is gone; without a name: in none */
};

struct engine;

/* Before the change: fills in all but what it makes. *extent says which records the job has. The
 * strings lie in the arena. ERR_NOT_FOUND. */
NODISCARD struct err engine_undo_keep(struct engine *e, instant now, struct id id,
                                      enum operation_kind kind, struct arena *a,
                                      struct undo_entry *entry, struct job_extent *extent);
/* After it: the rest. patched: the fields that were set, bits of enum patch_field. */
NODISCARD struct err engine_undo_kept(struct engine *e, instant now, unsigned patched,
                                      struct arena *a, struct undo_entry *entry);
/* Makes the change of one job undone, or *out says why not. If it was gone and is back, the caller
 * stores its ended runs and its notes again. */
NODISCARD struct err engine_undo(struct engine *e, instant now, const struct undo_entry *entry,
                                 struct arena *a, enum undo_outcome *out);

#endif
