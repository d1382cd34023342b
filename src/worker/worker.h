/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WORKER_WORKER_H
#define WORKER_WORKER_H

/* The loop of `tenax work`: one thread that waits, in one place, for the server, for the work in
 * progress and for signals. source.h provides the jobs, executor.h runs them.
 *
 * A slot holds one run from its claim to the acknowledged report. The lease is renewed after every
 * third of it. A run whose lease is lost is over for the server, which may hand the job to another
 * worker; so its command is ended and nothing is reported. A report is repeated until the server
 * accepts it or the lease ends. */

#include "base/arena.h"
#include "base/rng.h"
#include "client/table.h"
#include "worker/executor.h"
#include "worker/source.h"

struct worker_args {
    const char *queues; /* for messages */
    const char *name;
    int64_t concurrency;
    span lease, grace, timeout; /* timeout 0: none */
    bool once, drain;
};

enum slot_state {
    SLOT_FREE,
    SLOT_RUNNING,   /* being executed */
    SLOT_REPORTING, /* it has ended; the server does not know yet */
};

/* Why a run was told to end early. */
enum slot_ending { ENDING_NONE, ENDING_LOST, ENDING_TIMEOUT, ENDING_STOP };

enum slot_call { SLOT_NO_CALL, SLOT_RENEWS, SLOT_REPORTS };

struct slot {
    struct worker *worker;
    size_t seat;
    enum slot_state state;
    enum slot_ending ending;
    struct arena arena; /* of the job's texts; in use as long as the slot is */
    struct source_job job;
    mono lease_end, renew_at;
    mono limit_at;               /* when the time of the run is over; 0: never */
    bool taken_away;             /* by the server, which said so */
    mono kill_at;                /* when KILL follows TERM; ns == 0: never */
    struct execution *execution; /* NULL: the work could not be started */
    enum slot_call calling;
    enum source_report report;
    struct buf members; /* of the report */
    mono report_at;
    unsigned tries;
};

enum worker_stop { STOP_NO, STOP_WAITING, STOP_TERM, STOP_KILL, STOP_NOW };

struct worker {
    const struct worker_args *args;
    struct source *source;
    struct executor *executor;
    int signals; /* a signalfd */
    struct slot *slots;
    size_t slot_count;
    mono claim_at;
    mono claim_end; /* once stopping: when to stop waiting for an answer */
    unsigned claim_tries;
    bool idle;    /* the last claim returned no job; only for --drain */
    bool down;    /* the server could not be reached, and this was reported */
    bool refused; /* a claim was refused permanently */
    enum worker_stop stop;
    mono stop_at; /* when the next step of stopping is due */
    int64_t succeeded, failed, lost, released;
    struct rng rng;
    mono now; /* of this turn of the loop */
};

/* Works until told to stop; returns the exit code. SIGCHLD, SIGINT and SIGTERM must be blocked. The
 * source must have as many seats as the concurrency; the caller keeps it and the executor. */
int worker_run(const struct worker_args *args, struct source *source, struct executor *executor);

/* slot.c, for the loop: */

/* Begins work on the job that source_next put into the slot. */
void slot_begin(struct slot *s);
/* Does what is due now; *next is lowered to when it must be called again. */
void slot_turn(struct slot *s, mono *next);
/* Polls the execution, and handles its end. */
void slot_attend(struct slot *s);
void slot_answered(struct slot *s, const struct source_answer *a);
/* Tells the run to end. */
void slot_end(struct slot *s, enum slot_ending why, span kill_after);
/* Kills what it runs. */
void slot_kill(struct slot *s);
/* Abandons whatever is in progress. */
void slot_abandon(struct slot *s);

/* worker.c, for the slots: */

/* How long to wait before another try: from 100 ms doubling up to 2 s, half of it random, so that
 * workers do not come back in step. */
span worker_backoff(struct worker *w, unsigned tries);
/* Reports a lost and a regained server with one line each. */
void worker_note(struct worker *w, const struct source_answer *a);

#endif
