/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_PORT_H
#define CORE_PORT_H

/* What the engine needs from below, so that core/ includes nothing of store/: reading back what it
 * wrote, and writing to the batch of this turn. Writes never fail here: they are in memory until
 * the batch is committed. Reads see all writes made so far, durable or not; their strings live in
 * the given arena. */

#include "base/arena.h"
#include "base/err.h"
#include "core/event.h"
#include "core/depend.h"
#include "core/job.h"
#include "core/meter.h"

/* A job handed to a stream: stored until its run has ended, so that a restart can tell which runs
 * were in progress. One record contains everything that one batch handed out. */
struct take {
    struct id id;
    uint32_t run;
};

/* The records of a job besides its first one, so that it can be deleted without reading. */
struct job_extent {
    bool has_state;      /* a state record was written after the enqueue */
    bool payload_apart;  /* see port.put_job */
    uint32_t runs_ended; /* run records 0 .. runs_ended - 1 may exist */
    uint64_t notes;      /* bits NOTE_BIT */
};

/* The lease of a run: stored until the run has ended, so that a restart goes on with it. One record
 * contains all leases that one batch granted or renewed; of a run that is in several records the
 * one with the highest number counts. The state of its job is that from before the run. */
struct lease {
    struct id id;
    uint32_t run;
    uint64_t token;
    instant taken_at, end;
    span length;             /* as long as it was granted or renewed for */
    bool confirmed;          /* its holder has said something of the run */
    uint64_t key;            /* of the claim, while it can be repeated (engine_claim_again); or 0 */
    struct str worker, node; /* node: empty if not known */
    span max_run;            /* that the run may take; 0: any time */
    instant limit;           /* iff max_run: when that is over */
    unsigned limited_by;     /* iff max_run: enum run_limit */
};

struct categorizer;
struct verdict_rules;
struct queue_record;
struct budget;
struct cron_group;
struct cron_entry;
struct cron_clock;
struct cron_zone;
struct history_entry;
struct group_record;

#define PORT_PAYLOAD 1u /* including the payload */
/* Its newest state, not only that of its enqueue. Without this the first record may be read as it
 * was before a rewrite: leave it out only if there is no state yet. */
#define PORT_STATE 2u

struct port {
    void *ctx;
    struct meter *meter; /* counts events; NULL: not wanted */
    /* ERR_NOT_FOUND, ERR_CORRUPT, ERR_STORE. extent->runs_ended and notes are those of the
     * state. */
    struct err (*load_job)(void *ctx, struct id id, unsigned want, struct arena *a, struct job *out,
                           struct job_extent *extent);
    /* The job is there, and cannot be read: a part of it was lost. load_job does not find it. NULL:
     * there never is one. */
    bool (*is_damaged)(void *ctx, struct id id);
    /* Whether any job that was deleted can still be brought back. NULL: never. */
    bool (*keeps_deleted)(void *ctx);
    /* Adds a new job with its first state. True if its payload was stored separately. */
    bool (*put_job)(void *ctx, const struct job *job);
    /* Replaces the first record of an existing job, including the payload; its state must be put,
     * too. */
    void (*rewrite_job)(void *ctx, const struct job *job);
    void (*put_state)(void *ctx, struct id id, const struct job_state *state);
    /* The same of a job of which none was stored since its enqueue. */
    void (*put_first_state)(void *ctx, struct id id, const struct job_state *state);
    void (*put_run)(void *ctx, struct id id, const struct run *run);
    void (*put_note)(void *ctx, struct id id, enum note_kind kind, const struct note *note);
    void (*delete_note)(void *ctx, struct id id, enum note_kind kind);
    struct err (*load_note)(void *ctx, struct id id, enum note_kind kind, struct arena *a,
                            struct note *out);
    void (*put_takes)(void *ctx, uint64_t seq, instant at, const struct take *takes, size_t count);
    /* The numbers are those of takes. */
    void (*put_leases)(void *ctx, uint64_t seq, instant at, const struct lease *leases,
                       size_t count);
    void (*delete_takes)(void *ctx, uint64_t seq); /* or of leases */
    /* A job that has ended while some of its dependants have not been notified. */
    void (*put_ended)(void *ctx, uint64_t seq, struct id id, enum depend_end end);
    void (*delete_ended)(void *ctx, uint64_t seq);
    void (*delete_job)(void *ctx, struct id id, const struct job_extent *extent);
    /* Adds to the event log; the strings are borrowed for the call. */
    void (*put_event)(void *ctx, const struct job_event *event);
    /* Adds to the failure history, borrowed for the call. NULL: there is none. */
    void (*put_history)(void *ctx, const struct history_entry *entry);
    /* Cron (core/crons.h). An entry is loaded, and put, without its clock. */
    struct err (*load_cron_entry)(void *ctx, struct id id, struct arena *a, struct cron_entry *out);
    void (*put_cron_group)(void *ctx, const struct cron_group *group);
    void (*put_cron_entry)(void *ctx, const struct cron_entry *entry);
    void (*put_cron_clock)(void *ctx, struct id id, const struct cron_clock *clock);
    void (*delete_cron_group)(void *ctx, struct id id);
    void (*delete_cron_entry)(void *ctx, struct id id); /* together with its clock */
    /* The zone, valid as long as the engine; NULL if it is unknown. Empty: the system's. */
    const struct cron_zone *(*zone)(void *ctx, struct str name);
    /* A queue's settings and the level of its rate limit; NULL: they are deleted. */
    void (*put_queue)(void *ctx, struct str name, const struct queue_record *record);
    /* A group of jobs (core/group.h). */
    void (*put_group)(void *ctx, const struct group_record *group);
    void (*delete_group)(void *ctx, struct str name);
    /* A budget, without its tokens; NULL: it is there no more. */
    void (*put_budget)(void *ctx, struct str key, const struct budget *budget);
    /* The retry policies in effect for a job of that queue that adds the policies named in "a,b"
     * (none if policies are disabled), the names of those that are missing, and the settings: sets
     * these members of the rules. NULL: there are never any. Valid for the call. */
    void (*policies)(void *ctx, struct str queue, struct str added, struct arena *a,
                     struct verdict_rules *rules);
    /* The rules that assign categories to failures, in order. NULL: there are none. Valid for the
     * call. */
    size_t (*categorizers)(void *ctx, struct arena *a, const struct categorizer *const **list);
};

#endif
