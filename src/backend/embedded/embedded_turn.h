/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BACKEND_EMBEDDED_EMBEDDED_TURN_H
#define BACKEND_EMBEDDED_EMBEDDED_TURN_H

/* A turn: what is committed together, and what leaves when that is durable. */

#include "backend/backend.h"
#include "base/arena.h"
#include "store/batch.h"

/* A reply, or a job for a stream, that leaves when its turn is durable. */
struct effect {
    reply_fn done; /* NULL: handout goes to stream */
    void *ctx;
    struct reply *reply;
    struct backend_stream *stream;
    const struct handout *handout;
    bool status; /* of CMD_STATUS, which promises nothing: it leaves also while a commit hangs */
};

/* Keys of entries that were put, in order; they lie in the batch. */
struct kv_keys {
    struct str *list;
    size_t count, cap;
};

/* All that is committed together. */
struct turn {
    struct batch batch;
    struct kv_keys kv;
    struct arena arena; /* replies, and what they point to */
    struct effect *effects;
    size_t count, cap;
    size_t statuses;     /* among them */
    bool busy, syncs;    /* syncs: whatever settings.sync says */
    bool rewrote;        /* a job's first record */
    bool adds;           /* jobs, or payloads to them */
    bool released;       /* its effects have left; its batch is still looked into */
    uint64_t handed_out; /* bytes of the jobs among its effects */
    uint64_t last_event; /* number of the newest of its events; 0: it has none */
    uint64_t events[EVENT_COUNT];
    struct buf traced; /* by the tracer, of its events */
    int64_t sealed_at; /* env.ticks */
};

/* One being built, one on its way to disk, one whose replies are leaving: a reply's
 * receiver may submit the next command at once. */
#define TURNS 3

#endif
