/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_SIM_H
#define SIM_SIM_H

/* One simulation: the real engine and the real embedded backend on a misbehaving disk, virtual
 * clients, one clock that only the simulation advances, and a ledger that judges. Everything
 * follows from the seed. */

#include "backend/embedded/embedded.h"
#include "base/list.h"
#include "disk.h"
#include "evaluator.h"
#include "ledger.h"

#define QUEUES   4
#define TYPES    3
#define KEYS     5
#define CRONS    3
#define BATCHES  3
#define GROUPS   3
#define ACCOUNTS 4
#define ALIASES  7

/* The kind of run that a seed chooses. */
struct profile {
    bool sync;   /* fsync every batch */
    bool faults; /* crashes and failing commits */
    bool space;  /* the disk gets full */
    bool holds;  /* commits take time */
    bool eager;  /* clients act inside of callbacks */
    bool lazy;   /* turns only when the backend's contract requires one */
    unsigned queues, priorities;
    bool cron_batch;         /* the ticks of one cron entry are folded into the job that waits */
    enum unique cron_unique; /* the scope of the unique key of one cron entry's jobs */
    bool crons;              /* jobs are created by ticks; then nobody removes many at once */
    bool groups;             /* jobs that belong together */
    bool gangs;              /* jobs that are handed out together */
    bool repeats;            /* claims are sent again, as if their answers were lost */
    bool limits;             /* queues that are paused or limited */
    bool budgets;            /* jobs that draw on budgets */
    bool deps;               /* jobs that wait for others */
    bool graces;             /* preempted runs that continue for a while */
    bool policies;           /* retry policies, and settings that change */
    bool bulks;              /* an operator changes many jobs at once */
    bool deadlines;          /* jobs that must have ended by some time */
    unsigned changes;        /* percent of steps in which an operator changes a job */
    unsigned folds;          /* percent of enqueues with a batch key */
    unsigned keys;           /* percent of jobs with a unique key */
    unsigned aliases;        /* percent of jobs with an alias */
    bool turns;              /* the clock is set back */
    /* Of some seeds, see main.c: */
    bool narrow; /* limits are one job per key, and there are few keys */
    bool nodes;  /* failures are many and name the node, which policies avoid */
    bool knots;  /* members of a few open gangs wait for those of others */
};

struct ticket;

struct mclaim {
    struct ticket *ticket;
    struct backend_claim *handle; /* NULL: answered */
};

/* The newest claim that can be repeated. */
struct mrepeat {
    uint64_t key; /* 0: none yet */
    unsigned queues, place;
    uint32_t count;
    span lease;
};

#define STREAMS 6
#define CLAIMS  6

struct sim {
    uint64_t seed;
    struct rng rng;
    struct profile profile;
    struct backend_settings settings;
    char index_dir[32]; /* of snapshots of the indexes; empty: there are none */
    struct rng index_rng;
    instant now;
    span behind;   /* of the wall clock, negative: ahead; by more than the server follows, or 0 */
    uint64_t boot; /* of the machine, if the server knows it: its clock goes on without it */
    instant stored_at; /* when the newest thing was requested that is certainly stored */
    struct store *disk;
    struct backend *backend;
    struct fake_evaluator evaluator;
    struct ledger ledger;
    uint64_t groups, serials;
    struct list tickets, answered; /* commands and claims without an answer, and with one */
    unsigned sweeps;               /* bulk removals in progress */
    struct {
        uint64_t number, start_seq; /* number 0: none in progress */
        struct id at;
        bool waiting;
    } walk;                           /* page by page through all jobs */
    struct mstream *streams[STREAMS]; /* NULL: none */
    struct mclaim claims[CLAIMS];
    struct mrepeat repeat;
    struct mstream **all_streams; /* kept for the ledger */
    size_t stream_count, stream_cap;
    bool calling;  /* inside a call of the backend that must not answer */
    bool holding;  /* commits stay in progress */
    bool quiet;    /* clients do nothing of their own accord */
    bool working;  /* clients report success of every job they get */
    bool may_fail; /* errors of the store are expected */
    bool stopping;
    unsigned boots;
    struct {
        unsigned number, left; /* of the newest; members not requested so far */
    } gang;
    struct msetting sections[2]; /* which a file has in turn, see policy.c */
    int section;
    uint64_t section_asked; /* the newest ticket that applies one */
    unsigned resets;        /* of the clock, done */
    bool resetting;         /* one is under way */
    bool turning;     /* one is under way from a wrong clock: a crash is followed by nothing else */
    bool turned;      /* it was done: the ledger's times are not those of the server any more */
    instant reset_at; /* the newest one */
    struct mgroup {
        bool seal_asked;
        bool sealed; /* when it was audited; and since when */
        instant sealed_at;
        uint64_t audited;  /* serials before this one were there */
    } grouped[GROUPS + 1]; /* from 1 */
    struct mkv {
        struct rng rng;
        bool waiting, listed; /* for an answer; what follows is how it is */
        unsigned boots;       /* when it was asked */
        uint64_t version[ACCOUNTS], acked[ACCOUNTS];
        int64_t balance[ACCOUNTS];
    } kv;
    instant booted_at;
    instant put_at[CRONS]; /* when each cron entry was last requested, or none */
    bool arrived;          /* something came from outside since the last turn */
};

/* --- history.c --- */
struct history_expected {
    struct id id;
    uint32_t run, attempt;
    bool succeeded, maybe;
};
struct history_audit {
    struct history_expected *at;
    size_t count, cap;
    bool all; /* no event was deleted as too old */
};
/* Adds one event after the other; then close compares the history with them. */
void history_expect(struct history_audit *a, const struct job_event *ev);
void history_close(struct sim *s, struct history_audit *a);

/* --- group.c --- */
struct group_replay {
    uint64_t unended[GROUPS + 1], unknown; /* jobs */
    struct id last;                        /* ended by the event before */
    unsigned due;                          /* the group that may be resolved by that; 0: none */
    bool any, certain;                     /* it may be any group; it must be resolved */
};
/* Lets a job be in a group, maybe. */
void group_join(struct sim *s, struct enqueue *spec);
/* Whether the group of a job of this enqueue may be sealed. */
bool group_may_refuse(const struct ticket *t);
void group_step(struct sim *s);
/* After an audit of all. */
void group_audit(struct sim *s);
/* One event after the other. */
void group_replay(const struct ledger *l, struct group_replay *g, const struct job_event *ev);
void group_replay_close(struct group_replay *g);

/* --- kv.c --- */
void kv_step(struct sim *s);
void kv_audit(struct sim *s);
/* All but what expires: that has gone by itself. */
void kv_remove_all(struct sim *s);

/* --- events.c: open, then see each existing job, then close --- */
struct events_audit {
    const struct ledger *ledger;
    struct idmap jobs;
    bool all; /* none was deleted as too old */
    struct history_audit history;
    struct group_replay groups;
};
void events_open(struct sim *s, struct events_audit *a);
void events_see(struct events_audit *a, const struct job *job);
void events_close(struct events_audit *a);

/* --- snapshots.c --- */
void snapshots_begin(struct sim *s);
/* Before a start. */
void snapshots_tamper(struct sim *s);
void snapshots_end(struct sim *s);

/* --- world.c --- */
uint64_t sim_draw(struct sim *s, uint64_t n);
bool sim_chance(struct sim *s, unsigned percent);
/* A step of the wall clock that is not followed, in either direction. */
span sim_some_step(struct sim *s);
/* How far the wall clock is behind; negative: ahead. */
void sim_set_clock(struct sim *s, span behind);
void sim_boot(struct sim *s);
/* A crash of the process or the machine: drops the backend and starts another. */
void sim_crash(struct sim *s);
/* Stops the server as an operator does, and starts another. */
void sim_restart(struct sim *s);
/* One turn; if the backend asks to end the process, it crashes. */
void sim_turn(struct sim *s);
/* Turns until nothing is in progress. The clock is stopped. */
void sim_settle(struct sim *s);
/* Runs the loop as a server would, until nothing is due, at most to `until`. */
void sim_run_until(struct sim *s, instant until);
/* Turns as long as the contract of the backend requires a turn now. */
void sim_pump(struct sim *s);
/* Whether commits stay in progress until sim_release. */
void sim_hold(struct sim *s, bool hold);
void sim_release(struct sim *s);
/* Cancels all faults that are set for later. */
void sim_heal(struct sim *s);

/* --- client.c --- */
void client_step(struct sim *s);
/* All clients disconnect. */
void client_leave(struct sim *s);
/* The process that held all connections has ended. */
void client_cut_off(struct sim *s);
void client_open_stream(struct sim *s, unsigned slot, unsigned queues, uint32_t prefetch);
void client_claim(struct sim *s, unsigned slot, unsigned queues, uint32_t count, span lease,
                  span wait);
/* After a claim was answered: the job is handed over. */
void client_handed(struct ticket *t, const struct handout *h);
void client_claim_over(struct sim *s, const struct ticket *t);
/* After it has been answered with what it was handed. */
void client_claimed_again(const struct ticket *t);
/* Renews the lease of a run; 0: without its token. */
void client_renew(struct sim *s, struct mjob *m, uint64_t token);
void client_remove(struct sim *s, struct mjob *m);
/* Makes a claim, or sometimes cancels one. */
void client_touch_claim(struct sim *s);
/* Claims that very job, naming the index of its next run or its live one, or another index. */
void client_claim_job(struct sim *s, struct mjob *m);
void client_job_claimed(struct ticket *t, const struct reply *r);
void client_cancel_claim(struct sim *s, unsigned slot);
/* A random set of queues, as bits; 0: all of them. */
unsigned sim_some_queues(struct sim *s);
void client_succeed(struct sim *s, struct mjob *m, uint64_t token);
/* After an answer: clients that act at once. */
void client_react(struct sim *s);

/* --- enqueue.c --- */
void client_enqueue(struct sim *s);
/* Enqueues a job for every unique key; false: there are none. */
bool client_enqueue_keys(struct sim *s, enum unique scope);

/* --- ticket.c: a command, and what its answer must be --- */
struct ticket {
    struct list node;
    struct sim *sim;
    uint64_t serial;
    enum command_kind kind;
    bool is_claim, answered, canceled;
    bool waits;        /* terminated: the job certainly waits for that run */
    bool needs_others; /* enqueue: its dependencies may be gone */
    size_t setting;    /* of retrying */
    bool settles;      /* it is in force once this is acknowledged */
    int section;       /* of a file, see policy.c */
    bool dry;          /* a bulk change, dry run */
    bool batched; /* enqueue: with batch keys, many dependencies or duplicates: applied later */
    instant at;
    uint64_t batch;               /* the newest batch that had begun */
    struct mjob **jobs;           /* the jobs that it is about */
    size_t *ends;                 /* of jobs[i], for reports */
    enum certainty *live, *there; /* of jobs[i], at the request */
    bool *leased;                 /* of jobs[i]: its run certainly is live, and a claim's */
    bool *held;           /* enqueue: whether the key or alias of jobs[i] was certainly taken */
    bool ended;           /* jobs[0], at the request */
    enum status ended_as; /* iff ended */
    struct patch patch;   /* patch */
    size_t end_mark;      /* rerun: ends requested so far */
    uint64_t seq;         /* the ledger's, at the request */
    size_t count;
    uint64_t token;
    bool known_run;  /* token is of a run that was handed over */
    bool together;   /* a report: sent as one of many, whose answers do not tell repetitions */
    void *sent;      /* then: what the request refers to */
    span lease;      /* renew, claim */
    uint32_t limit;  /* claim, list */
    bool completed;  /* rerun: also of a completed job */
    bool any_run;    /* claim of a job: accept any run; otherwise only the one with index limit */
    unsigned queues; /* claim */
    instant until;   /* claim */
    uint64_t walk;   /* list: the walk of which it is a page; 0: none */
    struct id from;
    unsigned resets; /* that had been done when it was asked */
    unsigned place;  /* claim: the node it is made on */
    uint64_t key;    /* claim: with which it can be repeated; 0: it cannot */
    bool again;      /* claim: it repeats one */
    void (*then)(struct ticket *t, const struct reply *r); /* for quiet checks; they judge */
    void *ctx;
};

/* A ticket about count jobs, in the list of those without an answer. */
struct ticket *ticket_new(struct sim *s, enum command_kind kind, size_t count);
/* Names the i-th job and records what is known about it. A report requests its end at the same
 * time. */
void ticket_about(struct ticket *t, size_t i, struct mjob *m, uint64_t token);
void ticket_submit(struct ticket *t, struct command *c);
/* What is known of whether jobs[i] was there agrees with what was found. */
void ticket_check_there(const struct ticket *t, size_t i, bool found);
/* Whether that answer leaves open what was done: the store fails, or the clock was set back. */
bool ticket_is_in_doubt(const struct ticket *t, enum err_code code);
void ticket_answer(void *ctx, const struct reply *r);
/* No answer will come. */
void ticket_drop_all(struct sim *s);

/* --- answers to reports (report.c) --- */

void report_judge(struct ticket *t, const struct reply *r);
/* Whether the report about jobs[i] may repeat another, and so change nothing. */
bool report_may_be_repeated(const struct ticket *t, size_t i);
/* Sends a report as one of many, if it is the turn of such; false: it is not. */
bool together_submit(struct ticket *t, const struct command *c);
void report_judge_renewal(struct ticket *t, const struct reply *r);
void report_judge_many(struct ticket *t, const struct reply *r);
/* Whether one of many was certainly reported just now, and not before. */
bool report_stored_some(const struct ticket *t, const struct reply *r);

/* --- cron.c --- */
void cron_step(struct sim *s);
void cron_remove_all(struct sim *s);
/* In silence: lets ticks come that were put off. */
void cron_catch_up(struct sim *s);
/* A put of an entry was answered, or never will be: from now on its ticks can be expected. */
void cron_was_put(struct sim *s, const struct ticket *t);
/* Checks the clocks, once nothing is in progress and all jobs were seen. */
void cron_audit(struct sim *s);

/* --- policy.c --- */
/* Called before anything else happens. */
void policy_set_up(struct sim *s);
/* Changes the settings. */
void policy_step(struct sim *s);
/* The unsynced tail is lost. */
void policy_lost(struct sim *s);
struct str policy_name(unsigned policy);

/* --- grace.c: runs that were preempted --- */
/* Reports that one of them has ended, if there is one. */
void grace_step(struct sim *s);
void grace_judge(struct ticket *t, const struct reply *r);

/* --- depend.c: jobs that wait for others --- */
/* Perhaps makes the i-th job of an enqueue depend on earlier ones of it, or on any existing job.
 * bytes: room for the ids. Afterwards depend_note, once all of them are in the ledger. */
struct some_deps {
    struct mjob *jobs[3];
    size_t earlier[3]; /* instead of jobs */
    unsigned count;
    uint8_t bytes[48];
};
void depend_some(struct sim *s, struct ticket *t, struct enqueue *specs, size_t i,
                 struct some_deps *d);
void depend_note(struct ticket *t, const struct enqueue *spec, size_t i, const struct some_deps *d);
/* Deletes one that these jobs depend on and that is dead, while it may be being looked up. */
void depend_take_away(struct sim *s, const struct some_deps *deps, size_t count);

/* --- alias.c --- */
/* Gives a new job an alias, maybe. */
void alias_give(struct sim *s, struct enqueue *spec);
/* Lets a command name its job by its alias, maybe, if that is certain to find it. */
void alias_use(const struct ticket *t, struct command *c);
/* Reads whatever job has one of the aliases. */
void alias_read(struct sim *s);
/* After an audit of all: each alias finds the job that has it. */
void alias_audit(struct sim *s);

/* --- clock.c --- */
/* Sets back a clock that is right. */
void clock_step(struct sim *s);
/* Sets back a wrong one, at the end of the simulation. */
void clock_finish(struct sim *s);
/* Reports success of a job that was handed out after that. */
void clock_work(struct sim *s, const struct handout *h);

/* --- node.c --- */
struct str node_name(unsigned node);
/* Where a new worker runs; 0: it does not say. */
unsigned node_some(struct sim *s);
/* After ledger_handed: the run is on that node. */
void node_handed(struct sim *s, const struct handout *h, unsigned node);

/* --- gang.c --- */
#define GANG_MAX  3 /* members */
#define GANG_NAME 16
/* Perhaps makes a new job a member of a gang; false: it is none. */
bool gang_join(struct sim *s, struct enqueue *spec, char name[GANG_NAME]);
/* Whether the job is only handed out with others. */
bool gang_is_member(const struct job *job);
/* Whether all of the job's gang may be there. */
bool gang_may_go(const struct sim *s, const struct job *job);
/* After a full audit. */
void gang_audit(struct sim *s);
/* Removes members whose others never came, or are blocked; returns how many there were. After a
 * full audit. */
size_t gang_remove_incomplete(struct sim *s);

/* --- budget.c --- */
/* Perhaps lets a new job draw on budgets. */
void budget_draw(struct sim *s, struct enqueue *spec);
/* Changes how much there is. */
void budget_step(struct sim *s);
/* So that everything can come to its end, gangs too. */
void budget_widen(struct sim *s);
/* After a full audit. */
void budget_audit(struct sim *s);
/* Once nothing draws on them. */
void budget_remove_all(struct sim *s);

/* --- limit.c: settings of queues --- */
void limit_step(struct sim *s);
/* So that everything can come to its end; other limits stay. */
void limit_unpause(struct sim *s);
/* The limits in force, during quiet checks. */
struct mlimit limit_read(struct sim *s, unsigned queue);
/* How many jobs may be handed out, ignoring the rate. */
uint64_t limit_room(const struct mlimit *limit);
/* Removes the limits of queues without jobs. */
void limit_remove_all(struct sim *s);

/* --- bulk.c: changes of many --- */
void bulk_step(struct sim *s);
void bulk_judge(struct ticket *t, const struct reply *r);
/* Nobody else acts; everything is compared with a model. */
void bulk_in_silence(struct sim *s);

/* --- undo.c --- */
/* Nobody else acts; a change of many is undone, and everything is compared with what it was. */
void undo_in_silence(struct sim *s);

/* --- change.c --- */
/* *queue: the one that it moves to, if it does. */
struct patch change_some_patch(struct sim *s, unsigned *queue);
void change_patch(struct sim *s, struct mjob *m);
void change_cancel(struct sim *s, struct mjob *m);
/* Reruns some dead job, if there is one. */
void change_rerun(struct sim *s);
void change_judge_patch(struct ticket *t, const struct reply *r);
void change_judge_cancel(struct ticket *t, const struct reply *r);
void change_judge_rerun(struct ticket *t, const struct reply *r);

/* --- quiet.c: checks that need silence --- */
/* Reads everything and compares it with the ledger and with the counters. */
void quiet_audit(struct sim *s);
/* Enqueues for every unique key: it is free unless a job in its scope has it. */
void quiet_keys(struct sim *s);
/* Claims, and compares with the order of ready jobs. */
void quiet_order(struct sim *s);
/* Faults end, workers live: everything must come to its end, and nothing may be left. */
void quiet_finish(struct sim *s);

struct queue_set {
    struct str names[QUEUES];
    size_t count;
};
struct str sim_queue_name(unsigned queue);
struct str sim_type_name(unsigned type);
struct queue_set sim_queue_set(unsigned bits);

#endif
