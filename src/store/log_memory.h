/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STORE_LOG_MEMORY_H
#define STORE_LOG_MEMORY_H

/* A log in memory, for tests: what outlives a crash is apart from the log that is open, and can be
 * told to misbehave as a disk does. */

#include "store/log.h"

struct log_memory;

/* What the next appends meet. Zero: they are durable at once. */
struct log_memory_faults {
    bool hold;            /* they stay under way until somebody waits, or log_memory_settle */
    enum err_code fail;   /* the next one fails so, and with it the log ... */
    bool fail_but_keep;   /* ... but is there after the next opening */
    enum err_code refuse; /* the next one is not begun, but the one after it is */
};

struct log_memory *log_memory_new(void);
/* Opens the log that is kept there; `from` is the first batch that tables do not hold. Only one may
 * be open. ERR_CORRUPT if it let go of that batch. */
NODISCARD struct err log_memory_open(struct log_memory *m, uint64_t from, struct log **out);
/* Applies to the appends that follow. */
void log_memory_set_faults(struct log_memory *m, struct log_memory_faults faults);
/* Those that are held become durable. */
void log_memory_settle(struct log_memory *m);
/* Ends the open log as a crash does, and frees it: of what was under way, the first `keep` are
 * there afterwards; with lose_unsynced none that was neither synced nor followed by a synced one.
 */
void log_memory_crash(struct log_memory *m, uint64_t keep, bool lose_unsynced);
void log_memory_free(struct log_memory *m);

#endif
