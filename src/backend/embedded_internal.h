/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BACKEND_EMBEDDED_INTERNAL_H
#define BACKEND_EMBEDDED_INTERNAL_H

/* What the files of the embedded backend share. */

#include "backend/embedded.h"
#include "base/list.h"
#include "store/batch.h"

/* A reply, or a job for a stream, that leaves when its turn is durable. */
struct effect {
    reply_fn done; /* NULL: handout goes to stream */
    void *ctx;
    struct reply *reply;
    struct backend_stream *stream;
    const struct handout *handout;
};

/* All that is committed together. */
struct turn {
    struct batch batch;
    struct arena arena; /* replies, and what they point to */
    struct effect *effects;
    size_t count, cap;
    bool busy;
};

/* One being built, one on its way to disk, one whose replies are leaving: a reply's
 * receiver may submit the next command at once. */
#define TURNS 3

/* A list, count or removal that may take several turns. */
struct scan {
    struct list node; /* in embedded->scans */
    enum command_kind kind;
    struct list_command list; /* its arrays are copies in the arena */
    struct arena arena;
    struct id at; /* where the next slice goes on, exclusive */
    bool ended;
    instant started;
    struct job *jobs;
    size_t kept;  /* in jobs */
    size_t count; /* of those that matched */
    struct reply reply;
    reply_fn done;
    void *ctx;
};

/* A cursor that walks along while jobs are handed out in order; see embedded_port.c. */
struct ahead {
    struct store_cursor *cursor; /* NULL: none is open */
    struct id last;              /* asked for most recently */
    uint32_t in_a_row;           /* how many were asked for in ascending order */
    instant opened;
};

enum health { HEALTH_GOOD, HEALTH_FAILED };

struct embedded {
    struct backend backend; /* must be first */
    struct embedded_settings settings;
    struct env env;
    struct engine *engine;
    struct turn turns[TURNS];
    struct turn *building;
    struct turn *committing; /* NULL: no commit under way */
    struct list streams, claims;
    struct list scans, answered; /* under way; waiting for their reply to leave */
    enum health health;
    struct err failure;   /* iff HEALTH_FAILED */
    instant retry_reopen; /* iff HEALTH_FAILED */
    instant now;          /* of this turn */
    int64_t free_space;
    instant free_space_at;
    bool more_due, stopping;
    bool copy_reads; /* what is read must outlive the turn: no views into its batch */
    struct ahead ahead;
    struct buf scratch; /* for reads from the store */
};

struct backend_stream {
    struct list node;
    struct taker *taker;
    void (*deliver)(void *ctx, const struct handout *h);
    void (*closed)(void *ctx);
    void *ctx;
    uint32_t pending; /* deliveries that have not been released */
    bool open;
};

struct backend_claim {
    struct list node;
    struct taker *taker; /* NULL: answered */
    reply_fn done;
    void *ctx;
};

/* embedded.c */
struct engine *embedded_engine_new(struct embedded *b);
struct reply *embedded_effect(struct embedded *b, reply_fn done, void *ctx);

/* embedded_recover.c */
struct err embedded_recover(struct embedded *b);

/* embedded_port.c */
struct port embedded_port(struct embedded *b);
/* To be called now and then, and before the store is reopened or closed. */
void embedded_ahead_close(struct embedded *b);
/* A run that has ended. ERR_NOT_FOUND, ERR_CORRUPT, ERR_STORE. Its strings live in the arena. */
struct err embedded_load_run(struct embedded *b, struct id id, uint32_t index, struct arena *a,
                             struct run *run);

/* embedded_query.c */
void embedded_scan_start(struct embedded *b, const struct command *c);
/* Works on the scans for a bounded time; they answer through effects. */
struct err embedded_scan_step(struct embedded *b);
void embedded_scan_abort_all(struct embedded *b, const struct err *why);
/* Forgets all scans without an answer. */
void embedded_scan_free_all(struct embedded *b);
void embedded_runs(struct embedded *b, const struct runs_command *c, struct reply *r);

#endif
