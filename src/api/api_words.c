/* SPDX-License-Identifier: Apache-2.0 */
#include "api/api_words.h"

#include "core/budgets.h"
#include "core/culprit.h"
#include "core/depend.h"
#include "core/explain.h"
#include "core/job.h"
#include "core/verdict.h"

/* A function of its own for each, for their arguments have different types. */
#define WORDS(table, count_, call, ...)                                                            \
    static const char *table##_at(int i)                                                           \
    {                                                                                              \
        return call;                                                                               \
    }                                                                                              \
    const struct shape_words api_##table##_words = {                                               \
        .count = (count_), .word = table##_at, __VA_ARGS__};

static const char *fallback_word(enum retry_fallback f)
{
    static const char *const words[] = {NULL, "default", "fail"};
    return words[f];
}

/* A job that is gone has no status. */
WORDS(status, STATUS_COUNT, i == STATUS_GONE ? NULL : lifecycle_status_name((enum status)i),
      .name = "Status", .doc = "where a job is")
WORDS(event, EVENT_COUNT, lifecycle_event_kind((enum event)i))
WORDS(cause, EVENT_COUNT, lifecycle_event_name((enum event)i), .name = "Cause",
      .doc = "see docs/lifecycle.md")
WORDS(outcome, OUTCOME_COUNT, job_outcome_name((enum outcome)i))
WORDS(resolution, RESOLUTION_COUNT, job_resolution_name((enum resolution)i), .name = "Resolution",
      .doc = "why a job is dead")
WORDS(condition, CONDITION_COUNT, job_condition_name((enum condition)i))
WORDS(culprit, CULPRIT_COUNT, culprit_name((enum culprit)i), .name = "Culprit",
      .doc = "whose fault a failure is; see docs/culprits.md")
WORDS(decider, DECIDER_COUNT, verdict_decider_name((enum decider)i))
WORDS(unique, UNIQUE_COUNT, job_unique_name((enum unique)i))
WORDS(when, DEPEND_WHENS, depend_when_name((enum depend_when)i))
WORDS(death, DEPEND_DEATHS, depend_death_name((enum depend_death)i))
WORDS(fallback, 3, fallback_word((enum retry_fallback)i))
WORDS(obstacle, OBSTACLE_KINDS, explain_kind_name((enum obstacle_kind)i))
WORDS(strategy, BUDGET_STRATEGIES, budgets_strategy_name((enum budget_strategy)i))
WORDS(error, ERR_COUNT, i == ERR_OK ? NULL : err_wire((enum err_code)i), .name = "ErrorCode",
      .doc = "see docs/errors.md")
