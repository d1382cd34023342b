/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_ENGINE_INTERNAL_H
#define CORE_ENGINE_INTERNAL_H

/* Shared by the files of the engine; nobody else includes this. */

#include "base/arena.h"
#include "base/btree.h"
#include "base/idmap.h"
#include "base/list.h"
#include "base/strmap.h"
#include "base/strtree.h"
#include "core/engine.h"
#include "core/engine_crew.h"
#include "core/engine_entry.h"
#include "core/engine_waits.h"
#include "core/queue.h"

struct line;
struct budget_set;

/* Complete gangs that found no room, and wait for a taker or a limit to have more. */
struct gang_watch {
    struct list waits;   /* struct gang_wait.node; those to be examined first */
    struct list changed; /* in engine->gang_changes: its waits are to be examined */
    uint64_t changes;
};

struct queue {
    struct str name; /* owned by engine->queue_names */
    struct strtree_node by_name;
    uint32_t index;     /* in engine->queues */
    struct btree ready; /* of KIND_JOB; major: RANK; val: see READY_VAL_STATE */
    /* The first of each line that does not wait; see engine_line.c. */
    struct btree line_heads[JOB_KINDS];
    int32_t retries_credit; /* below 0: it is the turn of jobs that are not granted retries */
    uint64_t gang_ready;    /* ready jobs that are in their gangs; see engine_gang.c */
    uint64_t planned;       /* within a plan, as plan_round says */
    uint32_t plan_round;
    struct gang_watch gang_watch;
    struct list lines;                  /* struct line.node */
    struct list open_lines;             /* struct line.open */
    uint64_t lined;                     /* ready jobs in lines that have budgets; not tasks */
    uint64_t tasks[STATUS_COUNT];       /* of counts: tasks that wait or are in flight */
    struct btree_entry head[JOB_KINDS]; /* what engine->heads hold for this queue */
    bool has_head[JOB_KINDS];           /* also false if it has ready ones, but may hand out none */
    bool dirty;                         /* in engine->dirty: got ready jobs in this turn */
    uint64_t counts[STATUS_COUNT];
    uint32_t subs;                  /* takers that name this queue */
    struct list takers;             /* struct sub.all of these */
    uint32_t type;                  /* the last one seen, in engine->types; 0: none */
    struct list waiters[JOB_KINDS]; /* struct sub.node, oldest ticket first */
    struct list dirty_node;
    struct queue_limits *limits; /* NULL: it has no settings */
    struct btree parked;         /* ready jobs whose key is full; see engine_keys.c */
    struct list slots;           /* its keys that are in use */
    uint32_t full_keys;          /* of these */
    struct queue_pace pace;
};

/* A queue's settings, and the state of its limits. */
struct queue_limits {
    struct queue_settings set;
    struct bucket bucket; /* iff set.rate */
    instant wake;         /* a DUE_RATE deadline, or none: there is a token */
    struct queue *queue;
    struct list drawn; /* in engine->drawn: its bucket is to be stored with this turn */
};

/* All takes of one batch, or all leases; its record is deleted when the last of its runs has ended,
 * or has its lease in another record. */
struct take_group {
    uint64_t seq;
    uint32_t live;
};

/* What is needed to release a unique key and an alias without reading the job, and to take the job
 * off what its maker has. */
struct unique_ref {
    enum unique scope;
    bool aliased;
    uint64_t maker; /* or 0 */
    uint64_t hash;  /* of the key */
    uint64_t alias; /* of the alias */
};

/* A job in flight. */
struct live {
    struct id id;
    struct queue *queue;
    uint32_t type; /* in engine->types */
    enum job_kind kind;
    uint64_t token;
    instant ready_at, failed_at, taken_at;
    instant ready_since; /* or none: see struct run */
    instant lease_due;   /* iff no taker: its end, by the steady time; see engine_lease.h */
    span lease;          /* iff no taker: as long as it was granted for */
    span max_run;        /* 0: it may take any time; see engine_overtime.h */
    instant limit_due;   /* iff max_run: when that is over, by the steady time */
    unsigned limited_by; /* iff max_run: enum run_limit */
    bool overtime;       /* it ends as it took too long */
    span completed_retention, dead_retention;
    instant retain_until; /* or 0 */
    uint32_t run, attempts, forgiven, losses;
    uint16_t priority;
    bool has_state, payload_apart;
    bool lapsed;    /* the lease expired while the server was down: its worker is not lost */
    bool confirmed; /* its holder has said something of it */
    bool restored;  /* the server was started since: maybe nobody got the answer to the claim */
    struct taker *taker;      /* the stream that holds it, or NULL: leased */
    struct list held;         /* in taker->held; or of a lease, in engine->leased */
    struct take_group *group; /* NULL: an older version stored the lease with the job's state */
    struct claim_runs *claim; /* NULL: it cannot be claimed again; see engine_repeat.h */
    struct list repeat;       /* in claim->runs */
    struct worker_name *worker;
    struct list beside; /* in queue->pace.runs */
    struct unique_ref unique;
    struct job_extras *extras;   /* in one block; NULL: none */
    char *trace;                 /* TRACE_PARENT_LEN characters of its traceparent; NULL: none */
    struct key_slot *key;        /* NULL: it has no concurrency key */
    struct job_group *member_of; /* NULL: of no group */
    struct budget_set *budgets;  /* that it has drawn on; NULL: none */
};

struct sub {
    struct list node; /* in queue->waiters or engine->all_waiters while the taker waits */
    struct list all;  /* in queue->takers or engine->any_takers */
    struct taker *taker;
    struct queue *queue; /* NULL: all queues */
};

enum taker_state {
    TAKER_IDLE,    /* full, or paused */
    TAKER_PENDING, /* in engine->pending: may get something this turn */
    TAKER_WAITING, /* has room, but its queues have no jobs */
};

struct taker {
    void *ctx;
    uint64_t ticket; /* order of waiting */
    enum taker_state state;
    struct list pending;
    struct list all;  /* in engine->takers */
    struct list gone; /* in engine->gone, until all of its runs have been ended */
    bool claim, paused;
    enum job_kind kind; /* that it takes */
    uint32_t limit, held_count;
    /* Within a plan for a gang (engine_gang_plan.c): the room it has left, and what it is to get.
     */
    uint32_t plan_room, plan_round;
    struct gang_share *plan_shares;
    /* Within one search there: how it was reached, and the next of those that are full. */
    uint64_t plan_search;
    struct gang_part *plan_for;
    struct taker *plan_next;
    struct list held; /* struct live.held */
    span lease, max_run;
    uint64_t key; /* of a claim that can be repeated; or 0 */
    instant wait_end;
    bool wait_armed;     /* a DUE_WAIT deadline exists */
    struct handout *got; /* of a claim, in this turn's arena */
    uint32_t got_count;
    struct worker_name *worker;
    struct worker_name *node; /* empty: not known */
    size_t sub_count;
    struct sub subs[];
};

struct restored_take {
    uint64_t seq;
    instant at;
    struct take take;
};

struct engine {
    struct engine_settings settings;
    struct port port;
    struct engine_sink sink;
    struct rng rng;
    struct id_source ids;
    struct strmap queue_names, worker_names;
    struct queue **queues; /* by index; NULL: free */
    uint32_t queue_count, queue_cap;
    uint32_t *free_queues; /* indexes of dropped queues */
    size_t free_queue_count, free_queue_cap;
    struct strtree queue_order; /* struct queue.by_name */
    uint64_t order_bytes;       /* of the trees of ready jobs of all queues */
    /* The first job of every queue that may hand one out; val: its index. */
    struct btree heads[JOB_KINDS];
    struct btree deadlines;  /* major: milliseconds since the epoch */
    struct btree lease_ends; /* major: the steady time */
    struct btree run_limits; /* likewise */
    struct idmap repeats;    /* struct claim_runs *, by key; see engine_repeat.h */
    span lead;               /* how far `now` is ahead of the steady time */
    struct btree ended[2];   /* ids of completed, dead */
    struct btree surplus;    /* the deadlines of those that engine_surplus.c is about */
    struct btree unique;     /* major: hash of a unique key; the jobs that hold it */
    struct btree aliases;    /* major: hash of an alias; the job that has it */
    uint64_t unique_seed;
    struct btree made;   /* major: a maker; its jobs that wait */
    struct idmap makers; /* struct maker_holds *; see engine_makers.h */
    struct btree end_by; /* major: deadline of a job that has not ended */
    struct idmap end_by_ids;
    struct strmap folds; /* batch key → struct id *: the newest open job that has it */
    struct idmap live;
    struct list spare_lives; /* of runs that are over, by held; to be used again */
    size_t spare_count;
    struct btree live_order; /* their ids */
    struct idmap waits;      /* claims that wait, by id {0, ticket} */
    struct idmap avoids;     /* waiting jobs that must avoid a node, by id */
    uint64_t avoid_serial;
    struct strmap gangs;       /* id → struct gang * */
    struct idmap gang_members; /* those that have not ended */
    uint64_t gang_number;      /* of the newest */
    struct open_waits open_waits;
    struct strmap gang_shapes;        /* see engine_gang_plan.c */
    struct btree gangs_due;           /* shapes by the place of their first gang; val: the shape */
    struct gang_watch gang_watch;     /* for takers of all queues */
    struct gang_watch gang_in_flight; /* for fewer jobs in flight, whatever their queue */
    struct list gang_changes;         /* struct gang_watch.changed */
    struct btree_entry
        gang_place[2]; /* where a pass stopped, its budget spent; none: it was complete */
    bool gangs_budget_spent;
    uint64_t gang_steps;
    struct arena gang_shares; /* of one plan */
    uint32_t plan_round;
    uint64_t plan_search;     /* see struct taker */
    struct btree waiting_for; /* major: hash of a job that others wait for; its dependants */
    struct idmap seen;    /* status + 1 of jobs that new ones depend on; see engine_depend_look.c */
    uint32_t looking;     /* number of lookups in progress */
    struct list settling; /* ended jobs whose dependants were not all notified */
    uint64_t settle_seq;  /* of the next record of such a job */
    struct list dirty, pending, all_waiters[JOB_KINDS], takers, gone;
    struct list unserved;   /* pending takers for which there was no job in this dispatch */
    struct list stalled;    /* pending takers that wait until fewer are in flight, oldest first */
    struct list any_takers; /* struct sub.all of those of all queues */
    struct list drawn;      /* struct queue_limits.drawn */
    uint32_t limit_count;   /* queues that have limits */
    struct idmap keys;      /* struct key_slot by {queue index + 1, hash} */
    struct list releases;   /* struct key_slot.release: keys with parked jobs to be released */
    uint64_t key_number;    /* of the newest */
    size_t moves;           /* of parked jobs, in this dispatch */
    uint64_t given;         /* work of handing out in this dispatch, in jobs; their bytes */
    uint64_t given_bytes;
    struct strmap lines;        /* struct line; see engine_line.c */
    size_t open_lines;          /* of those, struct queue.open_lines */
    struct strmap budgets;      /* struct pool by key; see engine_budget.c */
    struct strmap budget_sets;  /* struct budget_set by its bindings */
    struct idmap budget_jobs;   /* unfinished jobs that have budgets; struct budget_set */
    struct list budget_changes; /* struct pool.change */
    uint64_t budget_number;     /* of the newest budget or set */
    uint64_t offer_round;       /* see engine_budgets_release */
    uint64_t next_event;
    struct event_mark mark;
    uint64_t totals[STATUS_COUNT]; /* according to the events; see engine_check */
    struct strmap type_names;      /* type → its index in types */
    struct str types[TYPES_MAX + 1];
    uint32_t type_count;
    uint64_t tickets;
    uint64_t take_seq;        /* of the next takes record */
    struct take_group *group; /* of this turn, or NULL */
    struct take *takes;       /* of this turn */
    size_t take_count, take_cap;
    struct take_group *leases;        /* of this turn, or NULL */
    struct list leased;               /* struct live.held of those */
    struct idmap restored_leases;     /* until all is restored; see engine_lease.c */
    struct take_group **lease_groups; /* of these, by number */
    size_t lease_group_count, lease_group_cap;
    struct crons *crons;
    struct strmap groups;       /* name → struct job_group * */
    struct btree group_members; /* major: number of the group */
    uint64_t group_number;      /* of the newest */
    struct restored_take *restored;
    size_t restored_count, restored_cap;
    size_t restored_at;        /* those before were recorded as lost */
    size_t freed;              /* of live.slots, those before */
    struct btree odd;          /* ids of jobs that need more than their entry; val: bits enum odd */
    struct snapshot *snapshot; /* being taken, or NULL */
};

/* engine_snapshot.c */
/* Why a job needs more than its entry, if no other index says so that can be walked. */
enum odd { ODD_BLOCKED = 1, ODD_AVOIDS = 2, ODD_GANG = 4, ODD_BUDGETS = 8, ODD_FOLD = 16 };
void engine_odd_set(struct engine *e, struct id id, enum odd why);
/* Does nothing if it was not set. */
void engine_odd_clear(struct engine *e, struct id id, enum odd why);
/* To be called when a job may have come to another index without a record of its own being
 * written. */
void engine_snapshot_add_moved(struct engine *e, struct id id);
static inline void engine_snapshot_moved(struct engine *e, struct id id)
{
    if (e->snapshot)
        engine_snapshot_add_moved(e, id);
}

/* engine_queue.c */
struct queue *engine_queue_find(const struct engine *e, struct str name);
struct queue *engine_queue_get(struct engine *e, struct str name);
/* Drops a queue that nothing refers to any more. */
void engine_queue_drop_if_unused(struct engine *e, struct queue *q);
/* The first queue whose name is greater than `from`; NULL: there is none. */
struct queue *engine_queue_after(const struct engine *e, struct str from);

/* engine_order.c */
/* Change a queue's tree of ready jobs, whose memory is counted. Like btree_put and btree_remove. */
bool engine_order_put(struct engine *e, struct btree *t, struct btree_entry entry);
bool engine_order_remove(struct engine *e, struct btree *t, struct btree_entry entry);
/* The lowest id of all: the first one of each rank (and key) is a candidate. */
struct id engine_order_oldest(const struct btree *t);
/* Updates the head of the queue after a change of what its limits allow. */
void engine_queue_refresh(struct engine *e, struct queue *q);
/* The same after it got jobs that it may hand out: whoever waits for some looks at it. */
void engine_queue_offers(struct engine *e, struct queue *q);
/* val: engine_val of the job. */
void engine_ready_add(struct engine *e, struct queue *q, uint32_t rank, struct id id, unsigned val);
bool engine_ready_remove(struct engine *e, struct queue *q, uint32_t rank, struct id id);
/* Accounts for a job that is handed out: `turn` is the rank by which it was the first. */
void engine_ready_taken(struct engine *e, struct queue *q, uint64_t turn);
/* Adds a waiting job: to the ready order or, if ready_at is in the future, to the deadlines. For
 * type see engine_type; val as engine_ready_add. */
void engine_wait_add(struct engine *e, struct queue *q, uint32_t rank, struct id id, unsigned val,
                     instant ready_at, instant now, uint32_t type);
void engine_deadline_add(struct engine *e, instant at, struct id id, uint64_t val);
void engine_deadline_remove(struct engine *e, instant at, struct id id);
/* surplus: SURPLUS_NOT or, if it may go before purge_at, as for engine_surplus_add. */
#define SURPLUS_NOT UINT64_MAX
void engine_ended_add(struct engine *e, enum status s, struct id id, instant purge_at,
                      struct queue *q, uint64_t surplus);
/* Removes a ready or scheduled job from the ready order or, with *due, from the deadlines. Returns
 * which it was. */
enum status engine_wait_remove(struct engine *e, struct queue *q, const struct job *job,
                               struct btree_entry *due);
/* Removes a job that is not in flight from the index that it is in. Returns its status, which may
 * differ by now from the stored one. */
enum status engine_forget(struct engine *e, instant now, struct queue *q, const struct job *job);
/* Whether the job is ready: in the ready order, parked, or with its gang. */
bool engine_is_in_order(const struct engine *e, const struct job *job);

/* engine_take.c */
/* The run is no longer one of its group, whose record goes with the last. */
void engine_take_leave(struct engine *e, struct live *l);
void engine_trace_handout(const struct engine *e, struct arena *a, struct handout *h);

/* engine.c */
/* Deletes a job whose retention is over, and which has no deadline any more. */
NODISCARD struct err engine_purge(struct engine *e, instant now, struct id id, struct queue *q);
/* The same of a job of which all is known. */
void engine_purge_known(struct engine *e, instant now, struct queue *q, const struct job *job,
                        const struct job_extent *extent);

/* engine_limits.c */
/* Whether the queue may hand out a job; and the maximum number. */
bool engine_limits_allow(const struct queue_limits *l);
uint64_t engine_limits_room(const struct queue_limits *l);
/* How many members of a gang may be handed out after `others` other jobs. One token of the rate is
 * enough for the whole gang: if it had to collect one per member, other jobs would take each token
 * as it comes, and the gang would wait for ever. */
uint64_t engine_limits_gang_room(const struct queue_limits *l, uint64_t others);
/* Takes a token for a job of that queue that is handed out. */
void engine_limits_draw(struct engine *e, instant now, struct queue_limits *l);
/* The deadline of the next token has fired. */
void engine_limits_due(struct engine *e, instant now, struct queue *q);
/* Resets the deadline of the next token, after the rate or its bucket has changed. */
void engine_limits_wake(struct engine *e, struct queue_limits *l);
void engine_limits_store(struct engine *e, const struct queue_limits *l);
/* Stores the buckets from which this turn has drawn. */
void engine_limits_flush(struct engine *e);
void engine_limits_check(const struct queue *q);

/* engine_queue_settings.c */
void engine_limits_free(struct queue_limits *l);
/* What applies to jobs of that queue without settings of their own: retry rules, retention. */
struct verdict_rules engine_rules_of(const struct engine *e, const struct queue *q);
span engine_retention_completed(const struct engine *e, const struct queue *q, span own);
span engine_retention_dead(const struct engine *e, const struct queue *q, span own);
/* How long a job is kept that ends now, by its retain_until, or else `otherwise`. */
span engine_retention_until(instant until, instant now, span otherwise);

/* engine_in_flight.c */
/* How many more jobs may be in flight, over all queues. */
uint64_t engine_in_flight_room(const struct engine *e);
/* To be called when fewer jobs are in flight than before, or the limit has changed. */
void engine_in_flight_changed(struct engine *e);

/* engine_keys.c */
struct key_slot;
/* Counts a job that is in flight from now on; NULL if it has no key. */
struct key_slot *engine_key_begin(struct engine *e, struct queue *q, const struct job *job);
/* Counts a job with that key that is no longer in flight. */
void engine_key_end(struct engine *e, struct key_slot *k);
/* Moves a job in flight to another queue; both keys, the old and the new, may be NULL. */
struct key_slot *engine_key_move(struct engine *e, struct key_slot *from, struct queue *q);
/* Parks the next job to be handed out, if its key is full. */
struct err engine_key_check(struct engine *e, struct queue *q, struct btree_entry entry,
                            bool *parked);
/* Removes a job from the order of its key; false if it is not parked. */
bool engine_key_unpark(struct engine *e, struct queue *q, const struct job *job);
/* To be called when a ready job leaves the ready order without being handed out. */
void engine_key_left(struct engine *e, const struct queue *q, const struct job *job);
bool engine_key_is_parked(const struct engine *e, const struct queue *q, const struct job *job);
/* Whether the limit of its key is reached; *live is the number of jobs in flight with that key. */
bool engine_key_is_full(const struct engine *e, const struct queue *q, const struct job *job,
                        uint32_t *live);
/* How many parked jobs with its key come before it, but at most `most`. */
size_t engine_key_rank(const struct engine *e, const struct queue *q, const struct job *job,
                       size_t most);
/* Moves parked jobs whose key has room back to the ready order, at the beginning of a dispatch. */
void engine_keys_release(struct engine *e);
/* Whether this dispatch has moved as many parked jobs as it may: the rest waits for the next. */
bool engine_keys_budget_spent(const struct engine *e);
/* To be called when the limit per key of the queue has changed. */
void engine_keys_limited(struct engine *e, struct queue *q);
uint64_t engine_keys_bytes(const struct engine *e);
void engine_keys_fini(struct engine *e);
void engine_keys_check(const struct queue *q);

/* engine_end_by.c */
/* Adds the job to the index, if it has a deadline; and removes it when it has ended, whether or not
 * it had one. */
void engine_end_by_add(struct engine *e, const struct job *job);
void engine_end_by_drop(struct engine *e, struct id id);
/* Ends the jobs whose deadline has passed, at most *most of them, which is lowered by their number;
 * *more if some are left. */
struct err engine_end_by_advance(struct engine *e, instant now, size_t *most, bool *more);
bool engine_end_by_next(const struct engine *e, instant *at);
void engine_end_by_fini(struct engine *e);
void engine_end_by_check(const struct engine *e);

/* engine_event.c */
/* Begins the event of a change of a job's status; the caller completes it and gives it to
 * engine_changed. */
struct job_event engine_event(enum event event, enum status from, const struct job *job);
/* The same for a job in flight, with its run. */
struct job_event engine_live_event(const struct engine *e, enum event event, const struct live *l);
/* Records a change of a status: every one goes through here, before the job is deleted, if it is.
 * Fills in number, time and `to`. */
void engine_changed(struct engine *e, instant now, const struct job_event *what);
/* Records that the ready_at of a waiting job has changed, if its status or its wait changes. */
void engine_rescheduled(struct engine *e, instant now, enum status from, instant was,
                        const struct job *job);
/* Counts a change of status that is not an event. */
void engine_total_move(struct engine *e, enum status from, enum status to);
uint32_t engine_type_index(struct engine *e, struct str name);
/* The same for a job of that queue, most of which are alike. */
uint32_t engine_type(struct engine *e, struct queue *q, struct str name);
/* Record that a scheduled job is ready: its deadline has fired, or was removed after its time. */
void engine_due_fired(struct engine *e, instant now, const struct queue *q, struct btree_entry due);
void engine_due_passed(struct engine *e, instant now, const struct queue *q,
                       struct btree_entry due);
/* Whether it was announced before a restart that the job is ready. */
bool engine_was_announced(const struct engine *e, instant ready_at, struct id id);

/* An event of a group alone; and numbers it and gives it away, with the status that follows from
 * its `from`. */
struct job_event engine_group_event(enum event event, struct str group);
void engine_group_changed(struct engine *e, instant now, struct job_event *ev);

/* engine_group.c */
struct job_group *engine_group_of(const struct engine *e, const struct job *job);
/* Empty for NULL. */
struct str engine_group_name(const struct job_group *g);
/* Adds a new job to its group, if it has one, which comes into being with the first. To be called
 * before the event of its enqueue. */
void engine_group_join(struct engine *e, const struct job *job, struct str owner);
/* To be called with each change of a status; *resolved: no job of the group is left that has not
 * ended. Returns the group, if its numbers have changed, to be followed by
 * engine_group_drop_if_empty. */
struct job_group *engine_group_moved(struct engine *e, const struct job_event *ev, bool *resolved);
void engine_group_drop_if_empty(struct engine *e, struct job_group *g);
void engine_group_restore_job(struct engine *e, const struct job *job);
/* Deletes groups without a job: the last one was lost by damage. */
void engine_groups_restored(struct engine *e);
void engine_groups_check(const struct engine *e);
void engine_groups_fini(struct engine *e);
uint64_t engine_groups_bytes(const struct engine *e);

/* engine_unique.c */
bool engine_unique_holds(enum unique scope, enum status status);
struct unique_ref engine_unique_ref(const struct engine *e, const struct job *job);
/* Takes or releases the job's unique key and alias as its status changes, and charges its maker.
 * STATUS_GONE stands for both "not yet" and "no longer". */
void engine_unique_move(struct engine *e, struct unique_ref u, struct id id, enum status from,
                        enum status to);

/* engine_makers.c */
void engine_maker_move(struct engine *e, const struct unique_ref *u, struct id id, enum status from,
                       enum status to);
void engine_makers_check(const struct engine *e);
void engine_makers_fini(struct engine *e);

/* engine_fold.c */
void engine_fold_open(struct engine *e, const struct job *job);
/* To be called when the job is handed out or deleted. */
void engine_fold_close(struct engine *e, const struct job *job);
void engine_fold_fini(struct engine *e);

/* engine_avoid.c */
/* Keeps a job that waits, or is about to, off the node that its state names, unless the time for
 * that is over. */
void engine_avoid(struct engine *e, instant now, struct id id, const struct job_extras *x);
/* To be called when the job no longer waits, and is in no order. */
void engine_avoid_end(struct engine *e, struct id id);
/* The job stands in a line from now on; and no longer. The node that it must avoid, or empty. */
struct str engine_avoid_enter(struct engine *e, struct id id, struct queue *q, uint32_t rank);
void engine_avoid_exit(struct engine *e, struct id id);
struct str engine_avoid_node(const struct engine *e, struct id id);
/* The time for which a job had to avoid its node is over. */
void engine_avoid_due(struct engine *e, uint64_t val);
/* Whether the job must avoid that node. */
bool engine_avoid_forbids(const struct engine *e, struct id id, struct str node);
/* The node that a waiting job must avoid, and until when; false if there is none. */
bool engine_avoid_of(const struct engine *e, struct id id, struct str *node, instant *until);
uint64_t engine_avoid_bytes(const struct engine *e);
void engine_avoid_fini(struct engine *e);

/* engine_gang.c */
/* Adds a job that has not ended to its gang, before it is in any order. */
void engine_gang_join(struct engine *e, const struct job *job);
/* To be called when it ends or is deleted. */
void engine_gang_leave(struct engine *e, instant now, struct id id);
/* Adds a ready job to, or removes it from, its gang; false if it has none. */
bool engine_gang_add(struct engine *e, struct queue *q, struct btree_entry entry);
bool engine_gang_remove(struct engine *e, struct queue *q, struct btree_entry entry);
bool engine_gang_is_ready(const struct engine *e, struct id id);
void engine_gang_taken(struct engine *e, struct id id);
/* To be called when a run has ended and the job will be retried at s->ready_at: so will the whole
 * gang, as its next generation. Completes the state to be stored. */
void engine_gang_back(struct engine *e, instant now, struct id id, struct job_state *s);
/* The same for another member, whose run the gang has ended. */
void engine_gang_recalled(struct engine *e, instant now, const struct live *l, struct job_state *s);
/* To be called before a member is dead, other than by a command: so are all of its gang. */
NODISCARD struct err engine_gang_fall(struct engine *e, instant now, struct id id, struct str why);
/* To be called when a member may run on any node again. */
void engine_gang_avoids_no_more(struct engine *e, struct id id);
/* The gang of a waiting member: how many members exist, are required, are ready, and are so in the
 * queue of this one; when they end unless more come, or none. */
struct gang_view {
    uint32_t members, ready, beside;
    uint64_t size;
    instant end;
};
bool engine_gang_view(const struct engine *e, struct id id, struct gang_view *v);
void engine_gang_read(const struct engine *e, struct job *job);
/* If the token is that of a run which the gang ended, makes *err say so. */
void engine_gang_stale(const struct job_extras *x, struct run_ref ref, struct err *err);
void engine_gang_checks(const struct engine *e);
void engine_gang_fini(struct engine *e);

/* engine_gang_plan.c */
/* Hands out the gangs for which there is room. It is called twice in a dispatch: before other jobs
 * are handed out, when gangs leave room for the jobs that come before them, and after (last). */
struct err engine_gangs_dispatch(struct engine *e, instant now, struct arena *a, bool last);
/* Whether this dispatch has examined as many gangs as it may: the rest waits for the next. */
bool engine_gangs_budget_spent(const struct engine *e);
/* To be called when a taker, or the limits of a queue, have more room than before. */
void engine_gangs_room(struct engine *e, const struct taker *t);
void engine_gangs_limits(struct engine *e, struct queue *q);
/* To be called when fewer jobs are in flight than before, or more may be. */
void engine_gangs_in_flight(struct engine *e);
void engine_gang_watch_init(struct gang_watch *w);
/* What the whole gang of a ready member draws on budgets; NULL: nothing, or it is not complete. */
struct budget_set *engine_gang_cost(const struct engine *e, struct id id);

/* engine_take.c */
/* Whether this dispatch has handed out as much as it may: the rest waits for the next. */
bool engine_hand_outs_budget_spent(const struct engine *e);
/* Hands a ready job to t, which has room; to be followed by engine_taker_settle. */
struct err engine_give(struct engine *e, instant now, struct arena *a, struct taker *t,
                       struct queue *q, struct btree_entry entry);
/* Begins the run of a ready job for t, without accounting for the order of jobs or settling t. */
struct err engine_run_begin(struct engine *e, instant now, struct arena *a, struct taker *t,
                            struct queue *q, struct btree_entry entry, struct handout *h);
struct live *engine_live_new(struct engine *e, struct id id, struct queue *q, enum job_kind kind);
/* Forgets a run. The caller decides about the job. */
void engine_live_end(struct engine *e, struct live *l);

/* engine_taker.c */
static inline struct str engine_taker_node(const struct taker *t)
{
    return (struct str){t->node->bytes, t->node->len};
}
bool engine_taker_has_room(const struct taker *t);
uint32_t engine_taker_room(const struct taker *t);
/* Makes it neither pending nor waiting. */
void engine_taker_idle(struct engine *e, struct taker *t);
/* Makes it pending, if it is idle and has room. */
void engine_taker_pending(struct engine *e, struct taker *t);
/* Gives a taker its ticket and, if it is a claim, the deadline of its wait. */
void engine_taker_arm(struct engine *e, struct taker *t);
/* After an idle taker got everything there is for it: a claim is answered if it is over, and a
 * taker with room waits. */
void engine_taker_rest(struct engine *e, instant now, struct taker *t);
/* After a taker got members of a gang: pending if it has room left, otherwise like
 * engine_taker_rest. */
void engine_taker_settle(struct engine *e, instant now, struct taker *t);
/* Answers the claim with what it got, and frees it. */
void engine_claim_answer(struct engine *e, struct taker *t);
/* Continues ending the runs of closed streams; true if some are left. */
bool engine_takers_lose(struct engine *e, instant now);
void engine_wait_over(struct engine *e, uint64_t ticket);
void engine_takers_free(struct engine *e);

/* engine_cron.c */
struct crons *engine_crons_new(uint64_t seed);
void engine_crons_free(struct crons *c);
/* The tick of an entry is due. */
struct err engine_cron_due(struct engine *e, instant now, struct id id);
void engine_crons_restored(struct engine *e, instant now);
void engine_crons_check(const struct engine *e);

/* engine_depend_look.c */
/* The status of a job, as it is or as engine_depend_look saw it; STATUS_GONE if it was deleted
 * since, before it ended. ERR_NOT_FOUND. */
NODISCARD struct err engine_depend_status(struct engine *e, instant now, struct id id,
                                          enum status *status);
/* To be called when the status of a job that may have been looked up has changed. */
void engine_depend_changed(struct engine *e, const struct job_event *ev);

/* engine_depend.c */
/* Determines what a new job waits for, and whether it is blocked. `earlier` are the jobs of the
 * same request that come before it. */
struct err engine_depend_begin(struct engine *e, instant now, const struct enqueued *earlier,
                               struct arena *a, struct job *job);
/* Lets a new job be blocked until somebody frees it, whatever else it waits for. */
void engine_depend_hold_back(struct job *job);
/* Of the dependencies of a job at its death, those that it must wait for again when it is rerun. */
struct err engine_depend_again(struct engine *e, instant now, const struct job *job,
                               struct arena *a, struct str *waits_for);
/* Add a blocked job to the index of dependants, and remove it. */
void engine_blocked_add(struct engine *e, struct queue *q, const struct job *job);
void engine_blocked_remove(struct engine *e, struct queue *q, const struct job *job);
/* Makes a blocked job that no longer waits for any other scheduled or ready. */
void engine_unblock(struct engine *e, instant now, struct queue *q, struct job *job);
/* To be called when a job has ended: engine_settle will notify its dependants. */
void engine_depend_ended(struct engine *e, struct id id, enum depend_end end);
/* The same for one dependant alone, whose id is `who`. */
void engine_depend_tell(struct engine *e, struct id id, enum depend_end end, struct id who);
/* Whether others wait for it. */
bool engine_depend_is_awaited(const struct engine *e, struct id id);
void engine_depend_fini(struct engine *e);

/* engine_change.c */
/* Makes a waiting job dead, for the reason in its state. */
void engine_end_waiting(struct engine *e, instant now, struct job *job,
                        const struct job_extent *extent, enum event event,
                        enum resolution resolution);

/* engine_run.c */
/* Since when the job was ready for the run that began at taken_at, by its state before that. */
instant engine_ready_since(const struct job *job, instant taken_at);
/* The run, ended or still running; its strings are the live one's. */
struct run engine_run_of(const struct engine *e, const struct live *l, instant ended_at,
                         enum outcome outcome, struct str reason);

/* engine_note.c */
void engine_note_drop(struct engine *e, struct live *l, enum note_kind kind);

/* engine_report.c */
/* Finds the live run that a report is about; errors as for all reports (engine.h). */
struct err engine_find_run(struct engine *e, instant now, struct run_ref ref, struct live **out);
/* Stores which notes a live job has. */
struct err engine_live_store(struct engine *e, struct live *l);
struct err engine_expire(struct engine *e, instant now, struct live *l);
/* How engine_abort_run ends a job. */
struct run_abort {
    enum event event;
    enum resolution resolution;
    enum outcome outcome;
};
#define DEADLINE_EVIDENCE "the job's deadline came before it had ended"
/* Ends a job in flight for good, other than by a report of its worker. s has the reason, and is the
 * job's state afterwards. */
void engine_abort_run(struct engine *e, instant now, struct live *l, struct job_state *s,
                      const struct run_abort *how);
/* The status of a job after a run whose attempt does not count: ready or, if a patch postponed it
 * meanwhile, scheduled. */
enum status engine_returned(instant ready_at, instant taken_at, instant now);
/* Ends a run whose stream has broken: the job is ready again or, if it lost too many workers,
 * dead. */
void engine_lose(struct engine *e, instant now, struct live *l);
/* Records the end of a run whose attempt does not count, and lets the job wait again. The reason is
 * also the evidence against the culprit, if there is one. */
void engine_return(struct engine *e, instant now, struct live *l, enum outcome outcome,
                   enum culprit culprit, const char *reason);

#include "core/engine_lease.h" /* these need all of the above */
#include "core/engine_overtime.h"
#include "core/engine_repeat.h"
#include "core/engine_line.h"
#include "core/engine_surplus.h"

#endif
