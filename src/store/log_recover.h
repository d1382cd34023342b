/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STORE_LOG_RECOVER_H
#define STORE_LOG_RECOVER_H

/* What a folder of segments says: which of them are the log, in which order, and where it ends. */

#include "store/log.h"
#include "store/log_segment.h"

struct log_recovery {
    const char *dir;
    uint64_t from;    /* tables hold the batches before it */
    uint64_t keep;    /* the first of those that is wanted nevertheless; 0: none */
    uint64_t reached; /* the log is known to have held this one; 0: not known */
    bool found;       /* there was one before */
    bool lossy;       /* what follows damage is given up */
    bool unsynced;    /* likewise, if what is missing was never synced */
    struct log_segment **list;
    size_t count;
    /* Found: */
    struct log_segment *first,
        *current; /* of the log, from the batch `from`, or `keep`, on; NULL: no log */
    uint64_t at, generation, last; /* its end, in current */
    uint64_t newest;               /* the highest generation anywhere */
    bool lost;                     /* something was given up */
};

/* Reads the list. Those that do not belong to the log are free afterwards. ERR_CORRUPT says what is
 * missing or damaged; ERR_IO, ERR_VERSION. */
NODISCARD struct err log_recover(struct log_recovery *r);
/* Calls fn for the batches from that number on. As log_replay. */
NODISCARD struct err log_recover_replay(const struct log_recovery *r, uint64_t from,
                                        log_replay_fn fn, void *ctx);

#endif
