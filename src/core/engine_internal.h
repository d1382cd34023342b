/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_ENGINE_INTERNAL_H
#define CORE_ENGINE_INTERNAL_H

/* What the files of the engine share; nobody else includes this. */

#include "base/arena.h"
#include "base/btree.h"
#include "base/idmap.h"
#include "base/list.h"
#include "base/strmap.h"
#include "core/engine.h"
#include "core/queue.h"

/* Complete gangs that found no room, and wait for a taker or a limit to have more. */
struct gang_watch {
    struct list waits;   /* struct gang_wait.node; those to be looked at first */
    struct list changed; /* in engine->gang_changes: its waits are to be looked at */
    uint64_t changes;
};

struct queue {
    struct str name;          /* owned by engine->queue_names */
    uint32_t index;           /* in engine->queues */
    struct btree ready;       /* major: RANK; val: see READY_VAL_STATE */
    struct btree avoid_heads; /* the first of each of the following; see engine_avoid.c */
    int32_t retries_credit;   /* below 0: it is the turn of jobs that are no granted retries */
    uint64_t gang_ready;      /* ready jobs that lie in their gangs; see engine_gang.c */
    uint64_t planned;         /* within a plan, as plan_round says */
    uint32_t plan_round;
    struct gang_watch gang_watch;
    struct list avoid_orders; /* ready jobs that must stay off a node, by node */
    struct btree_entry head;  /* what engine->heads holds for this queue */
    bool has_head;            /* false also if it has ready jobs, but may hand out none */
    bool dirty;               /* in engine->dirty: got ready jobs in this turn */
    uint64_t counts[STATUS_COUNT];
    uint32_t subs;       /* takers that name this queue */
    struct list takers;  /* struct sub.all of these */
    uint32_t type;       /* the one seen last, in engine->types; 0: none */
    struct list waiters; /* struct sub.node, oldest ticket first */
    struct list dirty_node;
    struct queue_limits *limits; /* NULL: people have set nothing for it */
    struct btree parked;         /* ready jobs whose key is full; see engine_keys.c */
    struct list slots;           /* of its keys that are in use */
    uint32_t full_keys;          /* of these */
};

/* What people set for a queue, and where its limits stand. */
struct queue_limits {
    struct queue_settings set;
    struct bucket bucket; /* iff set.rate */
    instant wake;         /* a DUE_RATE deadline, or none: there is a token */
    struct queue *queue;
    struct list drawn; /* in engine->drawn: its bucket is to be stored with this turn */
};

/* The place of a ready job is its rank, then its id: at one priority retries that policies granted
 * come first, then all others by age. Of 17 bits. */
#define RANK_OTHERS             1u /* in it: no granted retry */
#define RANK(priority, granted) ((uint32_t)(priority) << 1 | ((granted) ? 0 : RANK_OTHERS))
#define RANK_BITS               17
static inline uint32_t engine_rank(const struct job_state *s)
{
    return RANK(s->priority, s->extras.granted != 0);
}

/* In the val of a ready entry: a state record exists. */
#define READY_VAL_STATE 1u

/* Types are known by an index, where there is no room for a name; 0: none, or one too many. */
#define TYPES_MAX 2047

/* The val of a deadline: what is due, so that firing it reads nothing back. Of DUE_READY also
 * the type, and whether that the job is ready was announced before a restart. */
enum due_kind { DUE_READY, DUE_LEASE, DUE_PURGE, DUE_WAIT, DUE_CRON, DUE_AVOID, DUE_RATE };
#define DUE_VAL(kind, state, rank, queue)                                                          \
    ((uint64_t)(kind) | (uint64_t)(state) << 3 | (uint64_t)(rank) << 16 |                          \
     (uint64_t)(queue) << (16 + RANK_BITS))
#define DUE_VAL_OF_TYPE(type) ((uint64_t)(type) << 4)
#define DUE_VAL_ANNOUNCED     ((uint64_t)1 << 15)
#define DUE_VAL_TYPE(val)     ((uint32_t)((val) >> 4) & TYPES_MAX)
#define DUE_VAL_KIND(val)     ((enum due_kind)((val)&7))
#define DUE_VAL_STATE(val)    (((val) >> 3) & 1)
#define DUE_VAL_RANK(val)     ((uint32_t)((val) >> 16) & ((1u << RANK_BITS) - 1))
#define DUE_VAL_QUEUE(val)    ((uint32_t)((val) >> (16 + RANK_BITS)))

/* All takes of one batch; its record goes when the last of its runs has ended. */
struct take_group {
    uint64_t seq;
    uint32_t live;
};

/* A worker's name, shared by the runs it holds. */
struct worker_name {
    uint32_t refs;
    size_t len;
    char bytes[];
};

/* What is needed to give a unique key and an alias back without reading the job. */
struct unique_ref {
    enum unique scope;
    bool aliased;
    uint64_t hash;  /* of the key */
    uint64_t alias; /* of the alias */
};

/* A job in flight. */
struct live {
    struct id id;
    struct queue *queue;
    uint32_t type; /* in engine->types */
    uint64_t token;
    instant ready_at, failed_at, taken_at;
    instant lease_end; /* iff no taker */
    span completed_retention, dead_retention;
    uint32_t run, attempts, forgiven, losses;
    uint16_t priority;
    bool has_state, payload_apart;
    bool lapsed;         /* the lease ran out while the server was down: no sign of a lost worker */
    struct taker *taker; /* the stream that holds it, or NULL: leased */
    struct list held;    /* in taker->held */
    struct take_group *group; /* iff held by a stream */
    struct worker_name *worker;
    struct unique_ref unique;
    struct job_extras *extras; /* in one block; NULL: none */
    struct key_slot *key;      /* NULL: it has no concurrency key */
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
    TAKER_WAITING, /* has room, but its queues are empty */
};

struct taker {
    void *ctx;
    uint64_t ticket; /* order of waiting */
    enum taker_state state;
    struct list pending;
    struct list all;  /* in engine->takers */
    struct list gone; /* in engine->gone, while not all of its runs were ended */
    bool claim, paused;
    uint32_t limit, held_count;
    /* Within a plan for a gang (engine_gang_plan.c): the room it has left, and what it is to get.
     */
    uint32_t plan_room, plan_round;
    struct gang_share *plan_shares;
    /* Within one search there: what led to it, and the next of those that are full. */
    uint64_t plan_search;
    struct gang_part *plan_for;
    struct taker *plan_next;
    struct list held; /* struct live.held */
    span lease;
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
    struct strmap queue_names;
    struct queue **queues; /* by index; NULL: free */
    uint32_t queue_count, queue_cap;
    struct btree heads;     /* the first job of every queue that may hand one out; val: its index */
    struct btree deadlines; /* major: milliseconds since the epoch */
    struct btree ended[2];  /* ids of completed, dead */
    struct btree unique;    /* major: hash of a unique key; the jobs that hold it */
    struct btree aliases;   /* major: hash of an alias; the job that has it */
    uint64_t unique_seed;
    struct btree end_by; /* major: deadline of a job that has not ended */
    struct idmap end_by_ids;
    struct strmap folds; /* batch key → struct id *: the newest open job that has it */
    struct idmap live;
    struct btree live_order; /* their ids */
    struct idmap waits;      /* claims that wait, by id {0, ticket} */
    struct idmap avoids;     /* waiting jobs that must stay off a node, by id */
    uint64_t avoid_serial;
    struct strmap gangs;              /* id → struct gang * */
    struct idmap gang_members;        /* those that have not ended */
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
    struct btree waiting_for; /* major: hash of a job that others wait for; those that do */
    struct idmap
        seen; /* status + 1 of jobs that new ones are to wait for; see engine_depend_look.c */
    uint32_t looking;     /* those who look */
    struct list settling; /* ends of jobs of which not all dependants were notified */
    uint64_t settle_seq;  /* of the next record of such an end */
    struct list dirty, pending, all_waiters, takers, gone;
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
    uint64_t next_event;
    struct event_mark mark;
    uint64_t totals[STATUS_COUNT]; /* as the events say; see engine_check */
    struct strmap type_names;      /* type → its index in types */
    struct str types[TYPES_MAX + 1];
    uint32_t type_count;
    uint64_t tickets;
    uint64_t take_seq;        /* of the next takes record */
    struct take_group *group; /* of this turn, or NULL */
    struct take *takes;       /* of this turn */
    size_t take_count, take_cap;
    struct crons *crons;
    struct restored_take *restored;
    size_t restored_count, restored_cap;
};

/* engine_queue.c */
struct queue *engine_queue_find(const struct engine *e, struct str name);
struct queue *engine_queue_get(struct engine *e, struct str name);
/* Forgets a queue that nothing refers to any more. */
void engine_queue_drop_if_unused(struct engine *e, struct queue *q);

/* engine_order.c */
/* The limits of the queue allow something else than before. */
void engine_queue_refresh(struct engine *e, struct queue *q);
void engine_ready_add(struct engine *e, struct queue *q, uint32_t rank, struct id id,
                      bool has_state);
bool engine_ready_remove(struct engine *e, struct queue *q, uint32_t rank, struct id id);
/* The job is being handed out, which came first as what `turn` says: a rank, too. */
void engine_ready_taken(struct engine *e, struct queue *q, uint64_t turn);
/* A job that waits: ready, or with a deadline for its ready_at. type: see engine_type. */
void engine_wait_add(struct engine *e, struct queue *q, uint32_t rank, struct id id, bool has_state,
                     instant ready_at, instant now, uint32_t type);
void engine_deadline_add(struct engine *e, instant at, struct id id, uint64_t val);
void engine_deadline_remove(struct engine *e, instant at, struct id id);
void engine_ended_add(struct engine *e, enum status s, struct id id, instant purge_at,
                      struct queue *q);
/* Takes a job that is ready or scheduled out of the ready order or, with *due, out of the
 * deadlines. Returns which it was. */
enum status engine_wait_remove(struct engine *e, struct queue *q, const struct job *job,
                               struct btree_entry *due);
/* Takes a job that is not in flight out of the index it is in. Returns its status, which by now
 * may be another one than is stored. */
enum status engine_forget(struct engine *e, instant now, struct queue *q, const struct job *job);
/* Whether the job is ready: in the ready order, parked, or with its gang. */
bool engine_is_in_order(const struct engine *e, const struct job *job);

/* engine_limits.c */
/* Whether it may hand out a job, and how many at most. */
bool engine_limits_allow(const struct queue_limits *l);
uint64_t engine_limits_room(const struct queue_limits *l);
/* How many members of a gang may be handed out after that many other jobs: one token of the rate
 * does for all of them, for a gang that had to save them up would wait while other jobs take each
 * as it comes. */
uint64_t engine_limits_gang_room(const struct queue_limits *l, uint64_t others);
/* A job of that queue is being handed out. */
void engine_limits_draw(struct engine *e, instant now, struct queue_limits *l);
/* The deadline of its next token. */
void engine_limits_due(struct engine *e, instant now, struct queue *q);
/* Sets the deadline of the next token anew, after the rate or its bucket has changed. */
void engine_limits_wake(struct engine *e, struct queue_limits *l);
void engine_limits_store(struct engine *e, const struct queue_limits *l);
/* At the end of a turn's hand-outs. */
void engine_limits_flush(struct engine *e);
void engine_limits_check(const struct queue *q);

/* engine_queue_settings.c */
void engine_limits_free(struct queue_limits *l);
/* What applies to a job of that queue which gives none of its own. */
struct verdict_rules engine_rules_of(const struct engine *e, const struct queue *q);
span engine_retention_completed(const struct engine *e, const struct queue *q, span own);
span engine_retention_dead(const struct engine *e, const struct queue *q, span own);

/* engine_in_flight.c */
/* How many more jobs may be in flight, of whatever queue. */
uint64_t engine_in_flight_room(const struct engine *e);
/* There are fewer in flight than before, or the limit is another one. */
void engine_in_flight_changed(struct engine *e);

/* engine_keys.c */
struct key_slot;
/* A job of that queue is in flight from now on; NULL if it has no key. */
struct key_slot *engine_key_begin(struct engine *e, struct queue *q, const struct job *job);
/* One job with that key is no longer in flight. */
void engine_key_end(struct engine *e, struct key_slot *k);
/* A job in flight goes to another queue; any of the two may be NULL. */
struct key_slot *engine_key_move(struct engine *e, struct key_slot *from, struct queue *q);
/* Looks at the job that is the next to be handed out: parks it if its key is full. */
struct err engine_key_check(struct engine *e, struct queue *q, struct btree_entry entry,
                            bool *parked);
/* Takes a job out of the order of its key; false if it is not parked. */
bool engine_key_unpark(struct engine *e, struct queue *q, const struct job *job);
/* A ready job was taken out of the ready order, and not to be handed out. */
void engine_key_left(struct engine *e, const struct queue *q, const struct job *job);
bool engine_key_is_parked(const struct engine *e, const struct queue *q, const struct job *job);
/* Whether as many jobs with its key are in flight as may be; *live is how many are. */
bool engine_key_is_full(const struct engine *e, const struct queue *q, const struct job *job,
                        uint32_t *live);
/* How many parked jobs with its key come before it, but no more than `most`. */
size_t engine_key_rank(const struct engine *e, const struct queue *q, const struct job *job,
                       size_t most);
/* Moves parked jobs whose key has room back to the ready order, at the beginning of a dispatch. */
void engine_keys_release(struct engine *e);
/* This dispatch has moved as many parked jobs as it may: the rest waits for the next. */
bool engine_keys_budget_spent(const struct engine *e);
/* The limit of the queue has changed. */
void engine_keys_limited(struct engine *e, struct queue *q);
uint64_t engine_keys_bytes(const struct engine *e);
void engine_keys_fini(struct engine *e);
void engine_keys_check(const struct queue *q);

/* engine_end_by.c */
/* Into the index, if the job has a deadline; and out of it, at the end of any job. */
void engine_end_by_add(struct engine *e, const struct job *job);
void engine_end_by_drop(struct engine *e, struct id id);
/* Ends the jobs whose deadline has come, at most *most of them, which is lowered by their number;
 * *more if some are left. */
struct err engine_end_by_advance(struct engine *e, instant now, size_t *most, bool *more);
bool engine_end_by_next(const struct engine *e, instant *at);
void engine_end_by_fini(struct engine *e);
void engine_end_by_check(const struct engine *e);

/* engine_event.c */
/* The change of a job's status to come, to be completed and given to engine_changed. */
struct job_event engine_event(enum event event, enum status from, const struct job *job);
/* The same of a job in flight, with its run. */
struct job_event engine_live_event(const struct engine *e, enum event event, const struct live *l);
/* Every change of a status passes here, before the job is deleted, if it is. Fills in number,
 * time and `to`. */
void engine_changed(struct engine *e, instant now, const struct job_event *what);
/* Tells of a job that waits with another ready_at than it was, if that changes something. */
void engine_rescheduled(struct engine *e, instant now, enum status from, instant was,
                        const struct job *job);
/* A change that needs no telling. */
void engine_total_move(struct engine *e, enum status from, enum status to);
uint32_t engine_type(struct engine *e, struct queue *q, struct str name);
/* The time of a scheduled job has come: the deadline fired, or was taken out late. */
void engine_due_fired(struct engine *e, instant now, const struct queue *q, struct btree_entry due);
void engine_due_passed(struct engine *e, instant now, const struct queue *q,
                       struct btree_entry due);
/* Whether it was announced before a restart that the job is ready. */
bool engine_was_announced(const struct engine *e, instant ready_at, struct id id);

/* engine_unique.c */
bool engine_unique_holds(enum unique scope, enum status status);
struct unique_ref engine_unique_ref(const struct engine *e, const struct job *job);
/* Takes or gives back a job's key as its status changes; STATUS_GONE stands for both "not
 * yet" and "no longer". */
void engine_unique_move(struct engine *e, struct unique_ref u, struct id id, enum status from,
                        enum status to);
/* The oldest job that holds key. */
struct err engine_unique_find(struct engine *e, instant now, struct str key, struct arena *a,
                              struct job *holder, bool *found);

/* engine_fold.c */
void engine_fold_open(struct engine *e, const struct job *job);
/* The job is handed out or deleted. */
void engine_fold_close(struct engine *e, const struct job *job);
void engine_fold_fini(struct engine *e);

/* engine_avoid.c */
/* From now on a job that waits, or is about to, must stay off the node that its state names, if
 * the time for that is not over. */
void engine_avoid(struct engine *e, instant now, struct id id, const struct job_extras *x);
/* The job does not wait any more, and is in no order. */
void engine_avoid_end(struct engine *e, struct id id);
/* The time is over. */
void engine_avoid_due(struct engine *e, uint64_t val);
/* Adds a ready job to, or takes it from, the order of those that avoid its node; false if it avoids
 * none. */
bool engine_avoid_add(struct engine *e, struct queue *q, struct btree_entry entry);
bool engine_avoid_remove(struct engine *e, struct queue *q, struct btree_entry entry);
bool engine_avoid_is_ready(const struct engine *e, struct id id);
bool engine_is_before(const struct btree_entry *a, const struct btree_entry *b);
/* Whether the job must stay off that node. */
bool engine_avoid_forbids(const struct engine *e, struct id id, struct str node);
/* The first ready job for a taker on that node, or on any if it is empty; none if the queue may
 * hand out nothing. A granted retry that comes when it is the turn of others has their rank. */
bool engine_ready_first(const struct queue *q, struct str node, struct btree_entry *first);
/* How many ready jobs of the queue come before that place, but no more than `most`; not those that
 * must stay off that node, if one is given. */
size_t engine_ready_rank(const struct queue *q, struct str node, struct btree_entry place,
                         size_t most);
/* Which node a waiting job must stay off, and until when; false: none. */
bool engine_avoid_of(const struct engine *e, struct id id, struct str *node, instant *until);
void engine_avoid_check(const struct queue *q);
uint64_t engine_avoid_bytes(const struct engine *e);
void engine_avoid_queue_fini(struct queue *q);
void engine_avoid_fini(struct engine *e);

/* engine_gang.c */
/* A job that has not ended, before it is in any order. */
void engine_gang_join(struct engine *e, const struct job *job);
/* It ends or is deleted. */
void engine_gang_leave(struct engine *e, struct id id);
/* Adds a ready job to, or takes it from, its gang; false if it has none. */
bool engine_gang_add(struct engine *e, struct queue *q, struct btree_entry entry);
bool engine_gang_remove(struct engine *e, struct queue *q, struct btree_entry entry);
bool engine_gang_is_ready(const struct engine *e, struct id id);
void engine_gang_taken(struct engine *e, struct id id);
/* A run has ended and the job is to be tried again at ready_at: so are the others of its gang, as
 * the next generation. Completes the state to be stored. */
void engine_gang_back(struct engine *e, instant now, struct id id, instant ready_at,
                      struct job_extras *x);
/* The same for one of the others. */
void engine_gang_recalled(struct engine *e, const struct live *l, struct job_extras *x);
/* The retry of this job has come forward: so do the others of its gang that wait for the same time.
 * Who was put off, or waits for a time of its own, stays. */
NODISCARD struct err engine_gang_forward(struct engine *e, instant now, struct id id, instant was,
                                         instant ready_at);
/* The node that a member had to stay off is any other from now on. */
void engine_gang_avoids_no_more(struct engine *e, struct id id);
/* Of a ready member: how many there are, how many there must be, how many are ready. */
struct gang_view {
    uint32_t members, ready;
    uint64_t size;
};
bool engine_gang_view(const struct engine *e, struct id id, struct gang_view *v);
void engine_gang_read(const struct engine *e, struct job *job);
/* Makes *err say so if the token is that of a run that the gang ended. */
void engine_gang_stale(const struct job_extras *x, struct run_ref ref, struct err *err);
void engine_gang_checks(const struct engine *e);
void engine_gang_fini(struct engine *e);

/* engine_gang_plan.c */
/* Hands out the gangs for which there is room. Before other jobs are handed out (not last), takers
 * and limits keep room for those of them that come first. */
struct err engine_gangs_dispatch(struct engine *e, instant now, struct arena *a, bool last);
/* This dispatch has looked at as many gangs as it may: the rest waits for the next. */
bool engine_gangs_budget_spent(const struct engine *e);
/* The taker has more room than before, or the limits of the queue have. */
void engine_gangs_room(struct engine *e, const struct taker *t);
void engine_gangs_limits(struct engine *e, struct queue *q);
/* There are fewer jobs in flight, or more may be. */
void engine_gangs_in_flight(struct engine *e);
void engine_gang_watch_init(struct gang_watch *w);

/* engine_take.c */
/* This dispatch has handed out as much as it may: the rest waits for the next. */
bool engine_hand_outs_budget_spent(const struct engine *e);
/* Hands a ready job to t, which has room; to be followed by engine_taker_settle. */
struct err engine_give(struct engine *e, instant now, struct arena *a, struct taker *t,
                       struct queue *q, struct btree_entry entry);
struct live *engine_live_new(struct engine *e, struct id id, struct queue *q);
/* Forgets a run. What becomes of the job is up to the caller. */
void engine_live_end(struct engine *e, struct live *l);

/* engine_taker.c */
struct worker_name *engine_worker_new(struct str name);
void engine_worker_unref(struct worker_name *w);
static inline struct str engine_taker_node(const struct taker *t)
{
    return (struct str){t->node->bytes, t->node->len};
}
bool engine_taker_has_room(const struct taker *t);
uint32_t engine_taker_room(const struct taker *t);
/* Neither pending nor waiting any more. */
void engine_taker_idle(struct engine *e, struct taker *t);
/* Pending, if it is idle and has room. */
void engine_taker_pending(struct engine *e, struct taker *t);
/* Gives a taker its ticket and, if it is a claim, the deadline of its wait. */
void engine_taker_arm(struct engine *e, struct taker *t);
/* After an idle taker got all that there is for it: a claim is answered if it is over, and a taker
 * with room waits. */
void engine_taker_rest(struct engine *e, instant now, struct taker *t);
/* After a taker got members of a gang: pending if it has room left, else as engine_taker_rest. */
void engine_taker_settle(struct engine *e, instant now, struct taker *t);
/* Answers the claim with what it got, and frees it. */
void engine_claim_answer(struct engine *e, struct taker *t);
/* Goes on with ending the runs of streams that are gone; true if some are left. */
bool engine_takers_lose(struct engine *e, instant now);
void engine_wait_over(struct engine *e, uint64_t ticket);
void engine_takers_free(struct engine *e);

/* engine_cron.c */
struct crons *engine_crons_new(uint64_t seed);
void engine_crons_free(struct crons *c);
/* The tick of an entry. */
struct err engine_cron_due(struct engine *e, instant now, struct id id);
void engine_crons_restored(struct engine *e, instant now);
void engine_crons_check(const struct engine *e);

/* engine_depend_look.c */
/* Its status, as it is or as it was seen. ERR_NOT_FOUND; of one that was deleted since it was seen,
 * before it ended, the status is gone. */
NODISCARD struct err engine_depend_status(struct engine *e, instant now, struct id id,
                                          enum status *status);
/* A job that may have been seen has another status. */
void engine_depend_changed(struct engine *e, const struct job_event *ev);

/* engine_depend.c */
/* A job that has just been made: what it waits for, and whether it is blocked. earlier are the
 * jobs of the same request that come before it. */
struct err engine_depend_begin(struct engine *e, instant now, const struct enqueued *earlier,
                               struct arena *a, struct job *job);
/* Those it waited for when it died that a job that is brought back is to wait for again. */
struct err engine_depend_again(struct engine *e, instant now, const struct job *job,
                               struct arena *a, struct str *waits_for);
/* Blocked jobs: into and out of the index. */
void engine_blocked_add(struct engine *e, struct queue *q, const struct job *job);
void engine_blocked_remove(struct engine *e, struct queue *q, const struct job *job);
/* A job that was blocked and waits for nothing more: from now on scheduled or ready. */
void engine_unblock(struct engine *e, instant now, struct queue *q, struct job *job);
/* A job has ended: engine_settle notifies those who wait for it. */
void engine_depend_ended(struct engine *e, struct id id, enum depend_end end);
void engine_depend_fini(struct engine *e);

/* engine_change.c */
/* Ends a job that waits, for the reason in its state: dead. */
void engine_end_waiting(struct engine *e, instant now, struct job *job,
                        const struct job_extent *extent, enum event event,
                        enum resolution resolution);

/* engine_note.c */
void engine_note_drop(struct engine *e, struct live *l, enum note_kind kind);

/* engine_report.c */
/* The live run that a report is about. */
struct err engine_find_run(struct engine *e, instant now, struct run_ref ref, struct live **out);
/* Stores what changed of a live job: its notes and, if it is leased, the end of its lease. */
struct err engine_live_store(struct engine *e, struct live *l, instant lease_end);
struct err engine_expire(struct engine *e, instant now, struct live *l);
/* Ends a job in flight for good, but not by a report of its worker. s has the reason, and is the
 * job's state afterwards. */
struct run_abort {
    enum event event;
    enum resolution resolution;
    enum outcome outcome;
};
void engine_abort_run(struct engine *e, instant now, struct live *l, struct job_state *s,
                      const struct run_abort *how);
/* What a run leaves behind whose attempt does not count: a job that is ready or, if a patch put it
 * off meanwhile, scheduled. */
enum status engine_returned(instant ready_at, instant taken_at, instant now);
/* The wait of a scheduled job is over sooner than was said. Its state is the caller's to store. */
void engine_bring_forward(struct engine *e, instant now, struct job *job, instant ready_at);
/* Nothing is waited for any more but ready_at. */
void engine_grace_clear(struct job_extras *x);
/* The stream that held the run has broken. */
void engine_lose(struct engine *e, instant now, struct live *l);
/* Records the end of a run whose attempt does not count, and lets the job wait again. */
void engine_return(struct engine *e, instant now, struct live *l, enum outcome outcome,
                   const char *reason);

#endif
