/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_ENGINE_BUDGET_H
#define CORE_ENGINE_BUDGET_H

/* Budgets in the engine: which there are, what unfinished jobs draw on them, and how many tokens
 * are left. Tokens are not stored: what jobs in flight have drawn follows from these, and a
 * time-based budget is full after a restart. */

#include "core/budgets.h"
#include "core/engine.h"

/* Whether the budgets of these jobs are there, or created by one of them before it is needed, and
 * may pay what they cost. To be called before engine_enqueue, in the same turn. ERR_UNPROCESSABLE
 * for a budget that is not there or cannot pay; ERR_TOO_MANY. `list`: what an error calls the
 * jobs, if there are several. */
NODISCARD struct err engine_budget_check(const struct engine *e, const struct enqueue *specs,
                                         size_t count, const char *list);
/* Creates the budgets that these jobs bring and that are not there. engine_enqueue does it for the
 * jobs that it is given; for an enqueue of which some are not. */
void engine_budget_create(struct engine *e, instant now, const struct enqueue *specs, size_t count);

/* Creates the budget, or gives it another policy, which applies at once; *view is as of afterwards,
 * its key that of the engine. ERR_CONFLICT if it is there and `create` says that it must not be;
 * ERR_UNPROCESSABLE if an unfinished job or a cron entry draws more than it could pay;
 * ERR_TOO_MANY. */
NODISCARD struct err engine_budget_put(struct engine *e, instant now, struct str key,
                                       const struct budget_policy *policy, bool create,
                                       struct budget_view *view);
/* ERR_NOT_FOUND */
NODISCARD struct err engine_budget_read(struct engine *e, instant now, struct str key,
                                        struct budget_view *view);
/* ERR_NOT_FOUND; ERR_CONFLICT while unfinished jobs or cron entries draw on it. */
NODISCARD struct err engine_budget_remove(struct engine *e, struct str key);
/* Removes those that nothing draws on; returns how many. */
size_t engine_budget_remove_all(struct engine *e);
/* All of them by key, in the arena; returns how many. Their keys are those of the engine. */
size_t engine_budget_list(struct engine *e, instant now, struct arena *a,
                          struct budget_view **views);
size_t engine_budget_count(const struct engine *e);
/* Those whose keys have that mark (base/mark.h), in the time that it takes to look at all. */
size_t engine_budget_count_marked(const struct engine *e, struct str mark);
/* How many there may be. */
size_t engine_budget_most(const struct engine *e);

/* Whether a job with these bindings may be brought back. ERR_UNPROCESSABLE. */
NODISCARD struct err engine_budget_check_again(const struct engine *e, struct str bindings);

/* Recovery: before queues and jobs. */
void engine_restore_budget(struct engine *e, const struct budget *budget, instant now);

#endif
