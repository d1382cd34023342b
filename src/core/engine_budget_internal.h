/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_ENGINE_BUDGET_INTERNAL_H
#define CORE_ENGINE_BUDGET_INTERNAL_H

/* What the files about budgets share: engine_budget.c knows which there are and who draws on them,
 * engine_budget_pay.c who may be handed out and who waits, engine_line.c the ready jobs that are
 * alike. */

#include "core/engine_budget.h"
#include "core/engine_internal.h"

/* A budget. */
struct pool {
    struct budget budget; /* its key is owned by engine->budgets */
    struct bucket bucket; /* iff time-based */
    uint64_t in_flight;   /* tokens that jobs in flight have drawn, whatever the strategy */
    uint64_t jobs, crons; /* unfinished ones, and entries, that draw on it */
    uint32_t sets;        /* that name it */
    bool made_up;         /* its record is lost; see engine_budget_join */
    struct btree costs;   /* major: a cost; of the sets that have jobs or crons */
    struct btree waits;   /* who waits for tokens, by place; val: struct budget_wait * */
    struct list misfits;  /* struct budget_wait.node: those that it could never pay */
    struct list change;   /* in engine->budget_changes: its first waiter is to be looked at */
    instant wake;         /* a DUE_BUDGET deadline, or none: it can pay its first waiter then */
    uint64_t number;
    uint64_t offered; /* tokens, in this round of releases */
    uint64_t offer_round;
};

struct budget_part {
    struct pool *pool;
    uint64_t cost;
};

/* What jobs that are alike in this draw on which budgets. */
struct budget_set {
    struct str key; /* the text of the bindings, owned by engine->budget_sets */
    uint64_t number;
    uint32_t refs;
    uint64_t jobs, crons; /* of these: unfinished jobs, and entries */
    size_t count;
    struct budget_part parts[];
};

/* In which budgets somebody waits. */
enum budget_wait_at {
    BUDGET_WAIT_NONE,
    BUDGET_WAIT_ONE,
    BUDGET_WAIT_ALL,
    BUDGET_WAIT_MISFIT, /* in pool.misfits of one */
};

/* The wait of a line, or of the gangs of a shape, for tokens. */
struct budget_wait {
    struct budget_set *set; /* what it takes for one job, or one gang; NULL: no tokens */
    bool gang;              /* part of a struct gang_shape; else of a struct line */
    enum budget_wait_at at;
    size_t part;              /* iff ONE or MISFIT: of the set */
    uint32_t moves;           /* from budget to budget, of its first job */
    struct btree_entry place; /* iff ONE or ALL: of its first job */
    struct list node;         /* iff MISFIT */
};

/* The ready jobs of a queue that are alike: that draw the same on the same budgets, and must stay
 * off the same node. Granted retries are apart from others. Exists while there are any. */
struct line {
    struct list node; /* in queue->lines */
    struct list open; /* in queue->open_lines iff it has budgets and does not wait for them */
    struct queue *queue;
    struct str key;     /* owned by engine->lines */
    struct str name;    /* of the node; empty: none */
    enum job_kind kind; /* of its jobs */
    struct btree ready;
    struct btree_entry head; /* the first of them; val: the line's address */
    struct budget_wait wait;
};

/* --- engine_budget.c --- */

/* The set of these bindings, which has one reference more; of a text as budgets_next reads it. All
 * budgets are there. */
struct budget_set *engine_budget_set_get(struct engine *e, struct str bindings);
/* What members of a gang cost together; NULL if that is nothing. `sets` may have NULLs. */
struct budget_set *engine_budget_set_sum(struct engine *e, struct budget_set *const *sets,
                                         size_t count);
void engine_budget_set_unref(struct engine *e, struct budget_set *s);
/* Of an unfinished job; NULL: none. */
struct budget_set *engine_budget_set_of(const struct engine *e, struct id id);

/* --- engine_budget_pay.c --- */

void engine_budget_wait_init(struct budget_wait *w, struct budget_set *set, bool gang);
static inline bool engine_budget_waits(const struct budget_wait *w)
{
    return w->at != BUDGET_WAIT_NONE;
}
/* The first budget that cannot pay for who stands at that place, or holds its tokens for somebody
 * before it; false if all of them pay. `self`: whose wait does not count, or NULL. */
bool engine_budget_lacks(instant now, const struct budget_set *set, const struct btree_entry *place,
                         const struct budget_wait *self, size_t *part);
/* How many at that place they can pay, each what the set says. */
uint64_t engine_budget_units(instant now, const struct budget_set *set,
                             const struct btree_entry *place);
/* Waits from now on, for that part of its set. */
void engine_budget_wait(struct engine *e, struct budget_wait *w, size_t part,
                        const struct btree_entry *place);
/* Waits no more; does nothing if it did not. */
void engine_budget_wait_end(struct engine *e, struct budget_wait *w);
/* Its first job is another one. */
void engine_budget_wait_move(struct engine *e, struct budget_wait *w,
                             const struct btree_entry *place);
int64_t engine_budget_tokens(struct pool *p, instant now);
/* When it can pay so much, or none: that is up to others. */
instant engine_budget_next(struct pool *p, instant now, uint64_t cost);
/* It may have more tokens than before, or another first waiter. */
void engine_budget_touch(struct engine *e, struct pool *p);
/* Its policy has changed. */
void engine_budget_changed(struct engine *e, struct pool *p);
void engine_budget_disarm(struct engine *e, struct pool *p);

/* --- engine_line.c --- */

/* The line waits for tokens no more: takers see its jobs. */
void engine_line_opened(struct engine *e, struct line *l);
/* --- engine_gang_plan.c --- */
void engine_gang_plan_paid(struct engine *e, struct budget_wait *w);

#endif
