/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BACKEND_EMBEDDED_EMBEDDED_H
#define BACKEND_EMBEDDED_EMBEDDED_H

/* The backend in one process: the engine above a store. Its owner calls
 * embedded_turn once per turn of its loop; all commands that arrived since are
 * committed as one batch (group commit). While that batch is on its way to the
 * disk the next one is stepped. No reply and no job leaves before its batch is
 * durable (promise I1).
 *
 * A failed commit has one remedy: everything under way is answered with the
 * error, streams are closed, memory is dropped and recovered from the store,
 * exactly as at start-up. Until the store can be written again, reads go on. */

#include "backend/backend.h"
#include "backend/env.h"

struct embedded_settings {
    struct engine_settings engine;
    bool retry_policy_enabled; /* unless the settings of retrying were ever changed */
    bool sync;                 /* fsync every batch */
    span event_retention;      /* how long events are kept */
    uint64_t event_max_bytes;  /* that they may take on the disk, about */
    uint64_t min_free_space; /* bytes; below it nothing new is accepted, below half of it nothing at
                                all */
    uint32_t metrics_queues; /* at most so many have counts of their own */
};

/* Opens and recovers. ERR_CORRUPT, ERR_VERSION, ERR_STORE. */
NODISCARD struct err embedded_new(const struct embedded_settings *settings, const struct env *env,
                                  struct backend **out);
/* Waits for a commit under way; drops what was not committed. */
void embedded_free(struct backend *b);

/* Changes settings while it runs: all but retry_policy_enabled and sync. */
void embedded_configure(struct backend *b, const struct embedded_settings *settings);

/* Everything that can be done now: reaps the commit, releases its replies, fires what is
 * due, hands out, commits. ERR_CORRUPT or a failed fsync: the process must end. */
NODISCARD struct err embedded_turn(struct backend *b);
/* When to call embedded_turn at the latest though nothing arrives; false: never. An
 * instant in the past: at once. */
bool embedded_next_due(const struct backend *b, instant *at);
/* Refuses further streams and claims, answers waiting claims, closes streams. */
void embedded_stop(struct backend *b);
/* Whether nothing is left to commit or to answer. */
bool embedded_is_idle(const struct backend *b);
/* For tests and the simulator. */
const struct engine *embedded_engine(const struct backend *b);

#endif
