/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STORE_LOG_H
#define STORE_LOG_H

/* The log of commits: durability happens here and nowhere else. (Lines for people are base/log.h.)
 *
 * Batches are bytes to it. Each has a number, one above that of the batch before it. They become
 * durable in that order, several may be under way, and once tables hold them elsewhere the log lets
 * go of them:
 *
 *     log_append(l, batch, sync, &number)    begins
 *     log_wait(l, number)                    or log_ended, after a notice
 *     log_release(l, number)                 tables hold everything up to it
 *     log_replay(l, from, fn, ctx)           what they do not hold, after the next opening
 *
 * After a failure no batch becomes durable any more: a log that has failed is closed, and opened
 * anew. Whether a batch that was under way is there then is undefined, as after a crash: all of it
 * or nothing, and none without those before it.
 *
 * All functions are called on one thread. Implementations: log_file.h, log_memory.h,
 * log_postgres.h; one contract suite (tests/store/log_contract.c). */

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

/* As many appends may be under way. */
#define LOG_UNDER_WAY_MAX 8

struct log;

/* An error ends the replay. The batch is valid during the call. */
typedef struct err (*log_replay_fn)(void *ctx, uint64_t number, struct str batch);

struct log_vt {
    struct err (*append)(struct log *l, struct str batch, bool sync, uint64_t *number);
    struct err (*begin)(struct log *l, struct str batch, bool sync, uint64_t *number); /* or NULL */
    bool (*is_ready)(const struct log *l, size_t len, bool sync);
    uint64_t (*durable)(struct log *l);
    uint64_t (*first)(struct log *l);
    bool (*ended)(struct log *l, uint64_t number, struct err *result);
    struct err (*wait)(struct log *l, uint64_t number);
    struct err (*replay)(struct log *l, uint64_t from, log_replay_fn fn, void *ctx);
    void (*release)(struct log *l, uint64_t number);
    void (*close)(struct log *l);
};

/* First member of every implementation. */
struct log {
    const struct log_vt *vt;
};

/* Begins to append a batch, of which it keeps a copy; *number is the one that it gets. With sync it
 * is durable when it is on the disk, and then so is everything before it; without, when the
 * operating system has it. Blocks while LOG_UNDER_WAY_MAX are under way. After an error nothing was
 * begun and the number is not used up: ERR_DISK_FULL, after which it may be tried again, or
 * ERR_IO, with which the log has failed. */
NODISCARD static inline struct err log_append(struct log *l, struct str batch, bool sync,
                                              uint64_t *number)
{
    return l->vt->append(l, batch, sync, number);
}

/* The same for whoever will not wait: where that is possible it is written without anybody's help,
 * and not by whoever calls log_wait, or log_durable and log_ended. */
NODISCARD static inline struct err log_begin(struct log *l, struct str batch, bool sync,
                                             uint64_t *number)
{
    return l->vt->begin ? l->vt->begin(l, batch, sync, number)
                        : l->vt->append(l, batch, sync, number);
}

/* Whether log_append or log_begin would begin a batch of that length at once: without a write of
 * its own, and without waiting for others. */
static inline bool log_is_ready(const struct log *l, size_t len, bool sync)
{
    return l->vt->is_ready(l, len, sync);
}

/* The number up to which all batches are durable; after the opening, that of the last one found. */
static inline uint64_t log_durable(struct log *l)
{
    return l->vt->durable(l);
}

/* The first batch that log_replay can begin with; one above log_durable if there is none. Only
 * before the first append. */
static inline uint64_t log_first(struct log *l)
{
    return l->vt->first(l);
}

/* Whether the batch is durable, or the log has failed and it never will be: *result is what
 * log_wait would return. Does not block. */
static inline bool log_ended(struct log *l, uint64_t number, struct err *result)
{
    return l->vt->ended(l, number, result);
}

/* Blocks until the batch is durable, or the log has failed: ERR_DISK_FULL, ERR_IO. */
NODISCARD static inline struct err log_wait(struct log *l, uint64_t number)
{
    return l->vt->wait(l, number);
}

/* Calls fn for each batch from that number on, in order. Only before the first append. ERR_CORRUPT
 * if the log has let go of one of them, ERR_IO, and the errors of fn. */
NODISCARD static inline struct err log_replay(struct log *l, uint64_t from, log_replay_fn fn,
                                              void *ctx)
{
    return l->vt->replay(l, from, fn, ctx);
}

/* Nobody will ask again for batches up to that number, which is durable. */
static inline void log_release(struct log *l, uint64_t number)
{
    l->vt->release(l, number);
}

/* Waits for what is under way, closes, frees. */
static inline void log_close(struct log *l)
{
    l->vt->close(l);
}

#endif
