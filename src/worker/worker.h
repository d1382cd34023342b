/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WORKER_WORKER_H
#define WORKER_WORKER_H

/* The loop of `tenax work`: one thread that waits, in one place, for the server,
 * for the work under way and for signals. Where jobs come from is behind
 * source.h, how they are run behind executor.h.
 *
 * A slot holds one run from its claim to the acknowledged report. Its lease is
 * renewed every third of it. A run whose lease is lost is over for the server,
 * which may hand the job to someone else; so its command is ended and nothing is
 * reported. A report is repeated until the server takes it or the lease ends. */

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
    SLOT_RUNNING,   /* it is being executed */
    SLOT_REPORTING, /* it has ended; the server does not know yet */
};

/* Why a run was told to end before its time. */
enum slot_ending { ENDING_NONE, ENDING_LOST, ENDING_TIMEOUT, ENDING_STOP };

enum slot_call { SLOT_NO_CALL, SLOT_RENEWS, SLOT_REPORTS };

struct slot {
    struct worker *worker;
    size_t seat;
    enum slot_state state;
    enum slot_ending ending;
    struct arena arena; /* of the job's texts; as long as the slot is taken */
    struct source_job job;
    mono lease_end, renew_at;
    mono kill_at;                /* when KILL follows TERM; ns == 0: no */
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
    mono claim_end; /* once stopping: an answer is not waited for any longer */
    unsigned claim_tries;
    bool idle;    /* the last claim brought nothing; only --drain looks at it */
    bool down;    /* the server could not be reached, and this was said */
    bool refused; /* a claim was refused for good */
    enum worker_stop stop;
    mono stop_at; /* when the next step of stopping comes */
    int64_t succeeded, failed, lost, released;
    struct rng rng;
    mono now; /* of this turn of the loop */
};

/* Works until told to stop; returns the exit code. SIGCHLD, SIGINT and SIGTERM must be blocked.
 * The source has as many seats as the concurrency says; it and the executor stay the caller's. */
int worker_run(const struct worker_args *args, struct source *source, struct executor *executor);

/* slot.c, for the loop: */

/* Takes the job that source_next put into the slot, and starts the work on it. */
void slot_begin(struct slot *s);
/* Does what is due now; *next is lowered to when it wants to be called again. */
void slot_turn(struct slot *s, mono *next);
/* Lets the execution go on, and notices its end. */
void slot_attend(struct slot *s);
void slot_answered(struct slot *s, const struct source_answer *a);
/* Tells the run to end. */
void slot_end(struct slot *s, enum slot_ending why, span kill_after);
/* Forgets what is going on. */
void slot_abandon(struct slot *s);

/* worker.c, for the slots: */

/* How long to wait before another try: 100 ms doubling up to 2 s, of which a
 * random half, so that workers do not come back in step. */
span worker_backoff(struct worker *w, unsigned tries);
/* Keeps the news of a lost and a regained server to one line each. */
void worker_note(struct worker *w, const struct source_answer *a);

#endif
