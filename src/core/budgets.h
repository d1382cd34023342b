/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_BUDGETS_H
#define CORE_BUDGETS_H

/* Budgets as values: named pools of tokens that jobs of any queue share. A job says which budgets
 * it draws on, and how much of each; it is handed out only when all of them can be paid. Which
 * tokens there are now is known to the engine alone (core/engine_budget.h). */

#include "base/buf.h"
#include "base/err.h"
#include "core/bucket.h"
#include "core/job.h"

#define BUDGET_KEY_MAX      JOB_NAME_MAX /* bytes */
#define BUDGET_TOKENS_MAX   INT32_MAX    /* of an allocation, a burst, a cost */
#define BUDGET_DURATION_MAX RATE_PER_MAX
#define BUDGET_BINDINGS_MAX 16 /* of a job */
#define BUDGETS_MAX_DEFAULT 8192
#define BUDGETS_MAX_MAX     65536

enum budget_strategy {
    BUDGET_WHILE_IN_FLIGHT, /* tokens come back when the run ends */
    BUDGET_TIME_BASED,      /* as many as the allocation flow in, evenly, in each duration */
    BUDGET_STRATEGIES
};

/* How a budget pays. */
struct budget_policy {
    uint32_t allocation; /* 1 to BUDGET_TOKENS_MAX */
    enum budget_strategy strategy;
    span duration;  /* iff time-based: 1 ms to BUDGET_DURATION_MAX */
    uint32_t burst; /* time-based: what is saved up at most; 0: as much as the allocation */
};

struct budget {
    struct str key;
    struct budget_policy policy;
    instant created_at, updated_at;
};

/* What a job draws on a budget. */
struct budget_binding {
    struct str key;
    uint32_t cost; /* 1 to BUDGET_TOKENS_MAX */
};

/* A budget that an enqueue creates unless it is there. */
struct budget_create {
    struct str key;
    struct budget_policy policy;
};

/* A budget and where it stands. */
struct budget_view {
    struct budget budget;
    int64_t available;  /* tokens; below 0 after the allocation was lowered under what is drawn */
    uint64_t in_flight; /* what jobs in flight have drawn */
    uint64_t jobs;      /* unfinished ones that draw on it */
    uint64_t crons;     /* entries whose jobs will */
};

/* "while_in_flight", "time_based" */
const char *budgets_strategy_name(enum budget_strategy s);
bool budgets_strategy_parse(struct str name, enum budget_strategy *s);

/* ERR_UNPROCESSABLE: the rules of job_check_name. */
NODISCARD struct err budgets_check_key(struct str key);
/* ERR_UNPROCESSABLE if the policy contradicts itself. */
NODISCARD struct err budgets_check_policy(const struct budget_policy *p);
bool budgets_policy_eq(const struct budget_policy *a, const struct budget_policy *b);

/* The most that one job may cost. */
uint32_t budgets_capacity(const struct budget_policy *p);
/* Of a time-based budget. */
struct rate budgets_rate(const struct budget_policy *p);

/* The bindings of a job as job_options.budgets keeps them: "2:emails,1:images". Adds one at the
 * end of such a text. */
void budgets_bind(struct buf *text, const struct budget_binding *b);
/* Takes the first binding from such a text; false if it is empty, or no such text. */
bool budgets_next(struct str *text, struct budget_binding *b);
/* Whether one of these bindings is to that budget. */
bool budgets_has(struct str text, struct str key);

#endif
