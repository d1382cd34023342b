/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_ENGINE_LINE_H
#define CORE_ENGINE_LINE_H

/* The part of engine_internal.h about ready jobs that are kept back: lines, keys, budgets; by it
 * alone this is included. */

/* engine_line.c */
bool engine_is_before(const struct btree_entry *a, const struct btree_entry *b);
/* Adds a ready job to, or takes it from, the line of those like it; false if it belongs in none. */
bool engine_line_add(struct engine *e, struct queue *q, struct btree_entry entry);
bool engine_line_remove(struct engine *e, struct queue *q, struct btree_entry *entry);
/* Whether this ready job would stand, and does stand, in a line. */
bool engine_line_is_for(const struct engine *e, struct id id);
bool engine_line_has(const struct engine *e, const struct queue *q, struct btree_entry entry);
/* How many jobs of its line come before it, if that waits for tokens; but no more than `most`. */
size_t engine_line_rank(const struct engine *e, const struct queue *q, struct btree_entry entry,
                        size_t most);
/* Finds the first ready job for a taker of that kind on that node, or on any node if it is empty;
 * false if there is none, or the queue may hand out nothing. If it is the turn of other jobs than
 * granted retries and there are only such retries, the first of these gets the rank of the others.
 */
bool engine_ready_first(const struct queue *q, enum job_kind kind, struct str node,
                        struct btree_entry *first);
/* How many ready jobs of that kind come before that place in the queue, but no more than `most`.
 * Jobs that must stay off `node` are not counted, if it is given. */
size_t engine_ready_rank(const struct queue *q, enum job_kind kind, struct str node,
                         struct btree_entry place, size_t most);
/* Of the next line that has budgets, after *at (NULL: from the first one), how many jobs may be
 * handed out; 0 if there is none. Lines that their budgets cannot pay wait from now on. */
uint64_t engine_line_next(struct engine *e, instant now, struct queue *q, struct line **at);
/* Whether the budgets of this job, which engine_ready_first has found, can pay; if not, and `wait`
 * says so, its line waits from now on. */
bool engine_line_pays(struct engine *e, instant now, struct queue *q, struct btree_entry entry,
                      bool wait);
/* The oldest job of the lines, which wait or not; none if there are no lines. */
struct id engine_line_oldest(const struct queue *q);
/* Whether it is one of tasks that nothing else keeps back. */
bool engine_line_is_tasks(const struct line *l);
/* Of the trees of their jobs. */
uint64_t engine_line_bytes(const struct queue *q);
void engine_line_check(const struct engine *e, const struct queue *q);
void engine_line_queue_fini(struct engine *e, struct queue *q);

/* engine_keys.c */
/* The keys of the queue that have the most parked jobs, those with most first; no more than `limit`
 * of the first `look` keys. Adds to *steps how many it has looked at. */
struct key_parked {
    struct id first; /* one of them */
    uint64_t jobs;
};
size_t engine_keys_parked(const struct queue *q, struct key_parked *most, size_t limit, size_t look,
                          size_t *steps);

/* engine_budget.c */
/* Counts an unfinished job that is there from now on; and that has ended. A budget whose record
 * was lost comes back as one that can just pay its costliest job. */
void engine_budget_join(struct engine *e, instant now, const struct job *job);
void engine_budget_leave(struct engine *e, struct id id);
/* Counts a cron entry whose jobs have these bindings. *held is what it held before, and holds from
 * now on. */
void engine_budget_hold(struct engine *e, instant now, struct str bindings,
                        struct budget_set **held);
/* ERR_UNPROCESSABLE if the budgets of the job have not the tokens for it, whoever waits for them.
 */
struct err engine_budget_check_tokens(const struct engine *e, instant now, struct id id);
/* Says what keeps a ready job from being paid for. */
struct explanation;
void engine_budget_explain(struct engine *e, instant now, struct arena *a, struct explanation *x);
uint64_t engine_budget_bytes(const struct engine *e);
void engine_budget_checks(const struct engine *e);
void engine_budget_fini(struct engine *e);

/* engine_budget_pay.c */
/* A run has drawn on these budgets; `now` none: before a restart. */
struct budget_set *engine_budget_begin(struct engine *e, instant now, struct id id);
void engine_budget_end(struct engine *e, struct budget_set *s);
/* Lets those go on waiting for takers whose tokens are there, in the order of their places: as many
 * as there are tokens for and, with each further pass of one dispatch, twice as many, for nobody
 * may want what was offered. True if it changed something, or another pass may. */
bool engine_budgets_release(struct engine *e, instant now, unsigned pass);
void engine_budget_due(struct engine *e, uint64_t val);

#endif
