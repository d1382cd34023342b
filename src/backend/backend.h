/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BACKEND_BACKEND_H
#define BACKEND_BACKEND_H

/* The seam between front ends and whatever keeps the jobs: commands go down,
 * replies come up once what they say is durable. embedded.c keeps jobs in one
 * process; PostgreSQL will be the second. Front ends never reach behind it.
 *
 * One thread: all calls and all callbacks happen on the loop's. A command's
 * memory is borrowed for the call; done(ctx, reply) is called exactly once,
 * never from inside backend_submit, and the reply is valid for that call. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "core/command.h"
#include "core/engine_settings.h"
#include "core/meter.h"

#define BACKEND_PAGE_MAX 2000

/* Budgets that GET /metrics shows. */
#define BACKEND_BUDGETS_MAX 1000

/* Of commits: durations in microseconds from when a batch is closed until the loop hears that
 * it is on the disk; sizes in records. */
extern const struct histogram_scale backend_commit_times, backend_commit_sizes;

/* What GET /metrics shows. */
struct backend_queue {
    bool paused;
    uint32_t concurrency; /* 0: any number */
    span oldest_ready;    /* how long its oldest ready job waits; 0: there is none */
};

/* Whether a start took the indexes from a snapshot. */
enum index_start {
    INDEX_START_NONE,    /* there was none */
    INDEX_START_USED,    /* it did */
    INDEX_START_REFUSED, /* there was one, which could not be used */
    INDEX_START_OFF,     /* it was told not to */
};

struct backend_meter {
    const struct meter *counts;
    const uint64_t (*jobs)[STATUS_COUNT]; /* by the rows of counts->queues, the shared one last */
    const struct backend_queue *queues;   /* likewise; of the shared one only the oldest counts */
    struct histogram commit_times, commit_sizes;
    uint64_t commit_bytes; /* keys and values of all commits so far */
    bool writable;
    uint64_t disk_bytes;
    uint64_t answer_bytes, answers_shortened; /* kept for idempotency keys; since the start */
    int64_t disk_free;                        /* bytes */
    uint64_t disk_reserve;                    /* bytes; with less room nothing new is stored */
    struct engine_memory memory;
    uint64_t streams, claims; /* that wait for jobs */
    uint64_t in_flight_max;   /* of all queues; 0: any number */
    uint64_t newest_event;
    uint64_t damaged_jobs;             /* that were set apart */
    const struct budget_view *budgets; /* by key; of very many only the first */
    size_t budget_count, budget_total; /* of these; of all */
    enum index_start index_start;
    uint64_t index_jobs_read;             /* from their records, at the start */
    uint64_t index_written, index_failed; /* snapshots of the indexes, since the start */
};

/* A stream of jobs. */
struct backend_stream;
struct stream_spec {
    const struct str *queues; /* count 0: all */
    size_t queue_count;
    uint32_t prefetch;
    struct str worker, node;
    struct str address, agent; /* of the worker, to be shown; empty: not known */
    struct glob_list reach;    /* as struct command's; lives as long as the stream */
    /* Called once, before anything else. ERR_STOPPING, ERR_STORE, ERR_DISK_FULL: the stream is
     * refused and freed. */
    void (*opened)(void *ctx, const struct err *err);
    void (*deliver)(void *ctx, const struct handout *h);
    void (*closed)(void *ctx); /* the backend ends it; the stream is freed then */
    void *ctx;
};

/* A claim that may wait. */
struct backend_claim;
struct claim_spec {
    const struct str *queues;
    size_t queue_count;
    uint32_t count;
    struct str worker, node;
    struct str address, agent; /* likewise */
    struct glob_list reach;    /* likewise */
    enum job_kind kind;        /* it is given no other jobs */
    span lease, wait;
    span max_run; /* that each run may take; 0: it does not say */
    /* Not 0: a claim that is repeated with its key takes the place of the first. It gets what that
     * got, as far as the worker has said nothing of it yet; the first is answered with nothing. */
    uint64_t key;
    reply_fn done; /* reply.handouts */
    void *ctx;
};

/* A page of the log of events. It shows only what is durable. */
struct event_page {
    struct err err;     /* ERR_STOPPING, ERR_STORE, ERR_CORRUPT; then there is no more than that */
    uint64_t since;     /* as it was asked for */
    uint64_t missed_to; /* those from since + 1 to this one are not kept any more; 0: none */
    const struct job_event *events; /* in a row */
    size_t count;
    uint64_t last; /* the newest that the page covers: what to ask for next */
    bool more;     /* further ones are durable */
};
struct event_read;
struct event_read_spec {
    uint64_t since; /* events after this number; CMD_EVENTS_PLACE gives one */
    uint32_t limit;
    bool wait; /* until there is one */
    void (*done)(void *ctx, const struct event_page *page);
    void *ctx;
};

/* Settings of a backend. */
struct backend_settings {
    struct engine_settings engine;
    /* Unless the settings of retrying were ever changed: */
    bool retry_policy_enabled;
    enum retry_fallback when_no_policy; /* UNSET: as POLICY_SETTINGS_DEFAULT */
    bool sync;                          /* fsync every batch */
    bool sync_enqueues;                 /* fsync those that add jobs, at least */
    span event_retention;               /* how long events are kept */
    uint64_t event_max_bytes;           /* that they may take on the disk, about */
    uint64_t failure_history;           /* so many failures and successes after them are kept
                                         * apart from the jobs; 0: none */
    span audit_retention;               /* how long changes by people are kept (core/trail.h) */
    uint64_t audit_max;                 /* and how many of them; 0: any number */
    uint32_t failure_groups_max;        /* how many groups of failures are kept; 0: none */
    span failure_group_retention;       /* how long after the newest failure of a group */
    span idempotency_retention;         /* how long idempotency keys are remembered */
    uint64_t idempotency_bytes;         /* of whole answers; of others ids are kept */
    span undo_max;                      /* the longest time for which a change can be undone */
    uint64_t undo_max_bytes;            /* that all that is kept for it may take, about */
    uint64_t min_free_space; /* bytes; below it nothing new is accepted, below half of it nothing at
                                all */
    span jq_request_limit;   /* processor time of jq expressions for one request; 0: any */
    span clock_jump_limit;   /* a step of the wall clock by more, ahead or back, is not followed */
    span lease_grace;        /* at a start leases last for as long as they were granted for, but for
                                this at the most; 0: they go on as if nothing had been */
    uint32_t metrics_queues; /* at most so many have counts of their own */
    uint32_t depend_slice;   /* jobs that are looked at in a turn, because new ones are to wait for
                              * them or have their keys, or as the clock is set back; 0: default */
    /* Snapshots of the indexes, for a quick start: */
    const char *index_dir;   /* where they are kept; NULL: there are none */
    bool index_off;          /* none is used or written, and what is there is removed */
    uint64_t index_jobs_min; /* there are none for fewer jobs */
    uint32_t index_slice;    /* entries a turn; 0: default */
    bool index_inline;       /* written without a thread: for tests */
    bool index_check; /* a start compares the indexes with those of a start without: likewise */
};

struct backend;
struct backend_vt {
    void (*free)(struct backend *b);
    void (*configure)(struct backend *b, const struct backend_settings *settings);
    struct err (*turn)(struct backend *b);
    bool (*next_due)(const struct backend *b, instant *at);
    instant (*time)(const struct backend *b);
    bool (*is_settling)(const struct backend *b);
    void (*stop)(struct backend *b);
    bool (*is_idle)(const struct backend *b);
    void (*beat)(struct backend *b);
    void (*limit_handouts)(struct backend *b, uint64_t bytes);
    bool (*holds_back)(const struct backend *b);
    void (*submit)(struct backend *b, const struct command *c);
    uint64_t (*gathered)(const struct backend *b);
    struct backend_stream *(*stream_open)(struct backend *b, const struct stream_spec *spec);
    void (*stream_close)(struct backend *b, struct backend_stream *s);
    void (*stream_pause)(struct backend *b, struct backend_stream *s, bool paused);
    struct backend_claim *(*claim)(struct backend *b, const struct claim_spec *spec);
    void (*claim_cancel)(struct backend *b, struct backend_claim *c);
    struct event_read *(*events)(struct backend *b, const struct event_read_spec *spec);
    void (*events_cancel)(struct backend *b, struct event_read *r);
};

/* First member of every implementation. */
struct backend {
    const struct backend_vt *vt;
};

/* --- life cycle: each implementation has its own function that opens it --- */

/* Waits for the commit under way, drops what was not committed, and frees the backend. NULL is
 * allowed. */
static inline void backend_free(struct backend *b)
{
    if (b)
        b->vt->free(b);
}

/* Changes settings at run time: all but those of retrying, sync and sync_enqueues. */
static inline void backend_configure(struct backend *b, const struct backend_settings *settings)
{
    b->vt->configure(b, settings);
}

/* Everything that can be done now: reaps the commit, releases its replies, fires what is
 * due, hands out, commits. Damage is set apart, as after a failed commit; ERR_CORRUPT that cannot
 * be, or a failed fsync: the process must end. */
NODISCARD static inline struct err backend_turn(struct backend *b)
{
    return b->vt->turn(b);
}

/* When to call backend_turn at the latest though nothing arrives; false: never. An
 * instant in the past: at once. */
static inline bool backend_next_due(const struct backend *b, instant *at)
{
    return b->vt->next_due(b, at);
}

/* The time that jobs go by now: the wall clock's, unless that has jumped or is behind what is
 * stored. */
static inline instant backend_time(const struct backend *b)
{
    return b->vt->time(b);
}

/* Whether the last turn has released replies that had better leave before the next turn, which is
 * due at once: it has left work for that. */
static inline bool backend_is_settling(const struct backend *b)
{
    return b->vt->is_settling(b);
}

/* Refuses further streams and claims, answers waiting claims, closes streams. */
static inline void backend_stop(struct backend *b)
{
    b->vt->stop(b);
}

/* Whether nothing is left to commit or to answer. */
static inline bool backend_is_idle(const struct backend *b)
{
    return b->vt->is_idle(b);
}

/* The next turn commits something, if only that it was made. */
static inline void backend_beat(struct backend *b)
{
    b->vt->beat(b);
}

/* From now on jobs are handed out only while those that were and have not come to their receivers
 * yet hold less than so many bytes; 0: none is. Jobs and takers wait for each other meanwhile.
 * Without a call there is no such limit. */
static inline void backend_limit_handouts(struct backend *b, uint64_t bytes)
{
    b->vt->limit_handouts(b, bytes);
}

/* Whether the last turn kept jobs or takers waiting for that limit. */
static inline bool backend_holds_back(const struct backend *b)
{
    return b->vt->holds_back(b);
}

/* --- for front ends --- */

/* Bytes of replies that commands were given at once, in all that were submitted so far. What is
 * gathered over several turns (lists, folds, claims) is not in it. It is about the memory of this
 * process: a backend that asks another machine has gathered nothing yet. */
static inline uint64_t backend_gathered(const struct backend *b)
{
    return b->vt->gathered(b);
}

static inline void backend_submit(struct backend *b, const struct command *c)
{
    b->vt->submit(b, c);
}

/* Calls spec->opened later, never from in here. The handle is valid until the stream is refused or
 * closed, by whichever side. */
static inline struct backend_stream *backend_stream_open(struct backend *b,
                                                         const struct stream_spec *spec)
{
    return b->vt->stream_open(b, spec);
}

/* The peer has gone: its jobs become ready again; no callback follows, not even opened. */
static inline void backend_stream_close(struct backend *b, struct backend_stream *s)
{
    b->vt->stream_close(b, s);
}

static inline void backend_stream_pause(struct backend *b, struct backend_stream *s, bool paused)
{
    b->vt->stream_pause(b, s, paused);
}

/* spec->done is called exactly once; the handle is valid until then. */
static inline struct backend_claim *backend_claim(struct backend *b, const struct claim_spec *spec)
{
    return b->vt->claim(b, spec);
}

/* spec->done is called exactly once, not from in here; the handle is valid until then. */
static inline struct event_read *backend_events(struct backend *b,
                                                const struct event_read_spec *spec)
{
    return b->vt->events(b, spec);
}

/* Cancels a read; done is not called. */
static inline void backend_events_cancel(struct backend *b, struct event_read *r)
{
    b->vt->events_cancel(b, r);
}

/* Stops waiting. Jobs that were already handed out still come to done; otherwise it is called with
 * none. */
static inline void backend_claim_cancel(struct backend *b, struct backend_claim *c)
{
    b->vt->claim_cancel(b, c);
}

#endif
