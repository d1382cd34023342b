/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_ENGINE_GANG_INTERNAL_H
#define CORE_ENGINE_GANG_INTERNAL_H

/* Shared by the files of gangs: engine_gang.c knows which jobs belong together, engine_gang_shape.c
 * what they ask for, engine_gang_plan.c finds takers for gangs that may be handed out. */

#include "core/engine_budget_internal.h"

struct gang {
    struct gang_shape *shape; /* NULL: it may not be handed out, because some of it is not ready */
    struct btree_entry place; /* iff it has a shape: the place of its first member */
    struct str name;          /* owned by engine->gangs */
    uint64_t size, generation;
    bool formed;
    bool waits;      /* in engine->gang_waits; see engine_gang_wait.c */
    instant since;   /* at most this long ago it began to wait */
    uint64_t number; /* unlike that of any other gang */
    struct list members;
    uint32_t count, ready, live;
    const struct job_state *retried; /* of the member because of which the others are recalled */
};

struct gang_member {
    struct list node;
    struct gang *gang;
    struct id id;
    uint64_t generation; /* in which it was last handed out */
    bool ready, live;
    struct queue *queue;      /* while ready */
    struct btree_entry entry; /* while ready */
    struct gang_part *part;   /* iff its gang has a shape */
    struct taker *plan;       /* who will get it; only while it is handed out */
};

/* One that waits for a change. */
struct gang_wait {
    struct list node; /* in gang_watch.waits iff the shape is blocked, and by this */
    uint64_t seen;    /* changes before it began to wait */
    struct gang_shape *shape;
};

/* Members that are alike. */
struct gang_part {
    struct gang_wait wait; /* for its queue */
    struct queue *queue;
    struct str node; /* which they must stay off, or empty */
    uint32_t count;
    /* Within a plan: */
    uint32_t left; /* that have no taker yet */
    struct gang_share *shares, *last_share;
    uint64_t search;   /* the newest that has reached it */
    struct taker *via; /* by which: some of it were to go there */
};

struct gang_shape {
    struct gang_wait wait; /* for takers of all queues */
    struct str key;        /* owned by engine->gang_shapes */
    struct btree gangs;    /* by place; val: struct gang * */
    bool is_due;           /* in engine->gangs_due; else it is blocked */
    struct btree_entry due;
    struct budget_wait budgets; /* for the tokens of a whole gang */
    size_t part_count;
    struct gang_part parts[];
};

/* The shape of a gang all of which is ready; made if there is none. Says of each member which part
 * it is. */
struct gang_shape *engine_gang_shape(struct engine *e, const struct gang *g);

/* All of it is ready: from now on it is handed out when there is room. */
void engine_gang_plan_add(struct engine *e, struct gang *g);
/* It is no longer ready; does nothing if it was not. */
void engine_gang_plan_remove(struct engine *e, struct gang *g);
/* What all of it draws on budgets; NULL: nothing, or it may not be handed out. */
struct budget_set *engine_gang_plan_cost(const struct gang *g);
void engine_gang_plan_check(const struct engine *e);
void engine_gang_plan_fini(struct engine *e);

/* engine_gang_wait.c */
/* To be called when it has changed whether the gang waits for members: all that is not formed and
 * not about to be handed out does. */
void engine_gang_wait_update(struct engine *e, struct gang *g);
/* It waits since then, if that is later than what was known. */
void engine_gang_wait_since(struct engine *e, struct gang *g, instant at);
/* Of its members, as many as it has. */
struct id *engine_gang_ids(const struct gang *g, struct arena *a);
void engine_gang_wait_check(const struct engine *e, const struct gang *g);

/* engine_gang_circle.c */
/* Whether a member waits, over whatever other jobs and gangs, for another one of its gang, so that
 * none of them can ever run. False also where too many would have to be looked at. */
bool engine_gang_waits_for_itself(const struct engine *e, const struct gang *g);
/* ERR_UNPROCESSABLE if that would be so with these new jobs. */
struct err engine_gang_check_circles(const struct engine *e, const struct enqueue *specs,
                                     size_t count);

#endif
