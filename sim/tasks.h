/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_TASKS_H
#define SIM_TASKS_H

/* A simulation of Taskcluster's front end: its real handlers behind the real router, above the real
 * backend on a disk that fails, with schedulers, workers and pollers as clients. They keep to
 * nothing: workers forget their claims, pollers their messages, answers get lost in crashes. A
 * ledger of what they asked and were told judges each answer:
 *
 *   - no run is given out twice, and none beside a live one
 *   - a run that was resolved stays as it is, and ends as its worker said, or by time
 *   - no more retries than the task has
 *   - no task outlives its deadline by more than seconds
 *   - a message comes again until it is deleted or the deadline is there, and then no more
 *   - nothing that was acknowledged is lost; in the end every task is resolved
 */

#include <uv.h>

#include "access/access.h"
#include "backend/embedded/embedded.h"
#include "base/buf.h"
#include "base/list.h"
#include "disk.h"
#include "fake_http.h"
#include "taskcluster/taskcluster.h"
#include "wire/document.h"

#define TASK_QUEUES  2
#define TASK_LEVELS  2 /* priorities, and so mailboxes of a queue */
#define TASK_WORKERS 5
#define TASK_RUNS    60
#define TASKS_MAX    1000
#define MESSAGES_MAX 4000
#define CLAIM_SPAN   ((span){1200 * 1000})

struct trun {
    struct str end;    /* reasonResolved as it was seen, in the ledger's arena; empty: not so far */
    struct str report; /* what its worker asked for; perhaps nobody has heard it */
    unsigned worker;   /* whose claim was acknowledged; 0: nobody's */
    instant until;     /* of that claim, by what was acknowledged */
    bool confirmed;    /* it was reclaimed, as was acknowledged */
    bool longer;       /* it may be good for longer: an answer was lost */
    unsigned attempts; /* to claim this run that were made */
};

struct ttask {
    char id[24];
    unsigned number, queue, level;
    instant deadline;
    int32_t retries;
    struct ttask *needs;          /* NULL: nothing */
    bool needs_any;               /* end of that task, not its success */
    bool certain;                 /* it was created for sure */
    bool never;                   /* for sure not */
    bool cancel, rerun, schedule; /* somebody asked for it; rerun: since the last audit */
    struct str ended;             /* the state it has for good; empty: none so far */
    int pending;      /* when it was audited: the index of its pending run; -1: it has none */
    bool unscheduled; /* likewise */
    struct trun runs[TASK_RUNS];
};

enum certainty_of_deletion { NOT_DELETED, MAYBE_DELETED, DELETED };

struct tmessage {
    char id[40], receipt[40];
    char before[40]; /* the receipt of the time before; empty: there was none */
    struct ttask *task;
    unsigned run, box;
    int64_t count;
    instant visible; /* again */
    instant asked;   /* when the newest answer with it was asked for */
    enum certainty_of_deletion deleted;
    bool seen, expected; /* in the look that is under way */
};

enum ask_kind {
    ASK_CREATE,
    ASK_WORK,
    ASK_CLAIM,
    ASK_RECLAIM,
    ASK_REPORT,
    ASK_CANCEL,
    ASK_RERUN,
    ASK_SCHEDULE,
    ASK_PRIORITY,
    ASK_STATUS,
    ASK_PENDING,
    ASK_URLS,
    ASK_POLL,
    ASK_DELETE,
    ASK_KINDS
};

struct tworld;

struct ask {
    struct list node; /* in tworld.asks */
    struct tworld *w;
    enum ask_kind kind;
    struct ttask *task;
    unsigned run, worker, queue, box, count;
    struct str end;           /* report */
    struct tmessage *message; /* delete; claim: which named the run; NULL: none */
    char receipt[40];         /* delete */
    bool stale;               /* it is not the newest one */
    span timeout;             /* poll */
    instant at, turned_at;
    struct http_exchange *x;
    uint64_t given; /* tasks or messages; delete: whether it was deleted before */
    bool left;      /* whoever asked has gone */
};

struct tworld {
    uint64_t seed;
    struct rng rng;
    bool faults, holds, sync;
    instant now, turned_at;
    instant up_since; /* a start, or the newest error of the disk */
    struct store *disk;
    struct backend_settings settings;
    struct backend *backend;
    struct access *access;
    struct taskcluster *front;
    struct router *router;
    uv_loop_t loop;
    struct arena arena; /* of the ledger */
    struct list asks;   /* without an answer */
    struct ttask *tasks;
    unsigned task_count;
    struct tmessage *messages;
    unsigned message_count;
    struct strmap by_message;
    instant hidden_until[TASK_QUEUES * TASK_LEVELS]; /* an answer of a poll URL was lost */
    char urls[TASK_QUEUES * TASK_LEVELS][2][400];    /* to poll, to delete */
    instant urls_at[TASK_QUEUES];                    /* when they were got, or none */
    uint64_t given; /* of the newest answer: tasks, messages, or how many are pending */
    bool holding;
    bool resting;   /* an audit is under way */
    bool strangers; /* the answer of a claim was lost: somebody may have any run */
};

/* --- tasks.c --- */
uint64_t tasks_simulate(uint64_t seed, uint64_t steps, bool print);
uint64_t tasks_draw(struct tworld *w, uint64_t n);
bool tasks_chance(struct tworld *w, unsigned percent);
/* One turn; the backend may recover, or the process crash. */
void tasks_turn(struct tworld *w);
/* Time passes as for a server, whose loop wakes when something is due. */
void tasks_pass(struct tworld *w, span d);
/* Everything that was asked is answered, but for claims that wait for work: those are given up. */
void tasks_settle(struct tworld *w);

/* --- tasks_actor.c --- */
void actor_step(struct tworld *w);
void actor_work(struct tworld *w, unsigned queue, unsigned worker, unsigned count);
void actor_report(struct tworld *w, struct ttask *t, unsigned run, struct str end);
void actor_status(struct tworld *w, struct ttask *t);
void actor_pending(struct tworld *w, unsigned queue);
void actor_poll(struct tworld *w, unsigned box, unsigned count, unsigned seconds);
void actor_claim(struct tworld *w, struct ttask *t, unsigned run, unsigned worker,
                 struct tmessage *m);
void actor_end(struct tworld *w, struct ttask *t, bool schedule);

/* --- tasks_ledger.c --- */
/* Judges an answer; or NULL: none will come. */
void tledger_answer(struct ask *a, int status, struct str body);
void tledger_lost(struct ask *a);
/* With nothing under way: what is there against what was acknowledged. */
void tledger_audit(struct tworld *w);
/* Workers do nothing but work: every task ends. */
void tledger_finish(struct tworld *w);

#endif
