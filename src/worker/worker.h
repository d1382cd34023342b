/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WORKER_WORKER_H
#define WORKER_WORKER_H

/* The loop of `tenax work`: one thread that waits, in one place, for the server,
 * for the commands' pipes and for signals.
 *
 * A slot holds one run from its claim to the acknowledged report. Its lease is
 * renewed every third of it. A run whose lease is lost is over for the server,
 * which may hand the job to someone else; so its command is ended and nothing is
 * reported. A report is repeated until the server takes it or the lease ends. */

#include <curl/curl.h>

#include "base/arena.h"
#include "base/rng.h"
#include "client/call.h"
#include "worker/child.h"
#include "worker/notes.h"

struct worker_args {
    const char *url;
    struct call_tls tls;
    const char *queues; /* separated by commas */
    const char *name;
    const char *node; /* NULL: not known */
    int64_t concurrency;
    span lease, grace, timeout; /* timeout 0: none */
    int64_t kill_exit;          /* exit code that kills the job; 0: none */
    bool once, drain;
    char *const *command;
};

enum slot_state {
    SLOT_FREE,
    SLOT_RUNNING,   /* the command runs */
    SLOT_REPORTING, /* it has ended; the server does not know yet */
};

/* Why a command was told to end before its time. */
enum slot_ending { ENDING_NONE, ENDING_LOST, ENDING_TIMEOUT, ENDING_STOP };

enum slot_call { SLOT_NO_CALL, SLOT_RENEWS, SLOT_REPORTS };

enum slot_report { REPORT_SUCCESS, REPORT_FAILURE, REPORT_RELEASE };

struct slot {
    struct worker *worker;
    enum slot_state state;
    enum slot_ending ending;
    struct arena arena; /* of the texts below; as long as the slot is taken */
    struct str id, queue, type, token, payload;
    struct str checkpoint; /* JSON, or empty */
    int64_t attempts, run, priority;
    span lease; /* as the server granted it */
    mono lease_end, renew_at;
    mono kill_at; /* when SIGKILL follows SIGTERM; ns == 0: no */
    struct child child;
    struct notes notes;
    struct call call;
    enum slot_call calling;
    enum slot_report report;
    struct buf body; /* of the report */
    mono report_at;
    unsigned tries;
};

enum worker_stop { STOP_NO, STOP_WAITING, STOP_TERM, STOP_KILL, STOP_NOW };

struct worker {
    const struct worker_args *args;
    CURLM *multi;
    int signals; /* a signalfd */
    char notes_base[NOTES_DIR_MAX];
    struct slot *slots;
    size_t slot_count;
    struct call claim, withdraw;
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

/* Works until told to stop; returns the exit code. SIGCHLD, SIGINT and SIGTERM
 * must be blocked. */
int worker_run(const struct worker_args *args);

/* slot.c, for the loop: */

/* Takes a claimed job (an object of the answer) and starts its command. */
void slot_begin(struct slot *s, struct str job);
/* Does what is due now; *next is lowered to when it wants to be called again. */
void slot_turn(struct slot *s, mono *next);
/* Moves the pipes and notices the end of the command. */
void slot_attend(struct slot *s);
void slot_called(struct slot *s, enum call_result r);
/* Tells the command to end. */
void slot_end(struct slot *s, enum slot_ending why, span kill_after);
/* Forgets what is going on. */
void slot_abandon(struct slot *s);

/* worker.c, for the slots: */

/* How long to wait before another try: 100 ms doubling up to 2 s, of which a
 * random half, so that workers do not come back in step. */
span worker_backoff(struct worker *w, unsigned tries);
/* Keeps the news of a lost and a regained server to one line each. */
void worker_note(struct worker *w, const struct call *c, enum call_result r);

#endif
