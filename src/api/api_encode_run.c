/* SPDX-License-Identifier: Apache-2.0 */

/* Runs and failures in answers. */

#include "api/api_routes.h"
#include "api/api_words.h"

static const struct shape_member container_members[] = {
    {MEMBER(struct container_result, name, "name", ALWAYS, NULL)},
    {MEMBER(struct container_result, init, "init", ALWAYS, NULL)},
    {MEMBER(struct container_result, exit_code, "exit_code", ALWAYS, NULL)},
    {MEMBER(struct container_result, signal, "signal", IF_SET, NULL)},
    {MEMBER(struct container_result, reason, "reason", IF_SET, NULL)},
    {MEMBER(struct container_result, message, "message", IF_SET, NULL)},
    {MEMBER(struct container_result, log, "log", IF_SET, "the end of what it wrote")},
};
static const struct shape container_shape = {.name = "Container", SHAPE_MEMBERS(container_members)};

/* What went wrong, beyond what the worker says of it. */
static const struct shape_member what_members[] = {
    {MEMBER(struct failure, exit_code, "exit_code", IF_SET, NULL)},
    {MEMBER(struct failure, signal, "signal", IF_SET, NULL)},
    {MEMBER(struct failure, run_time, "run_ms", IF_SET, "how long it ran")},
    {MEMBER_WORD(struct failure, condition, "condition", IF_SET, &api_condition_words, NULL)},
    {MEMBER_WORD(struct failure, culprit, "culprit", IF_SET, &api_culprit_words,
                 "whose fault it was")},
    {MEMBER(struct failure, culprit_evidence, "culprit_evidence", IF_SET,
            "how that is known, a sentence")},
    {MEMBER(struct failure, node, "node", IF_SET, NULL)},
    {MEMBER(struct failure, termination_message, "termination_message", IF_SET, NULL)},
    {MEMBER(struct failure, category, "category", IF_SET, NULL)},
    {MEMBER(struct failure, subcategory, "subcategory", IF_SET, NULL)},
    {MEMBER(struct failure, hint, "hint", IF_SET, "of the rule that gave the category")},
    {MEMBER(struct failure, pod_error, "pod_error", IF_SET, NULL)},
    {MEMBER_LIST(struct failure, pod_events, pod_event_count, "pod_events", IF_SET, NULL)},
    {MEMBER_OBJECTS(struct failure, containers, container_count, "containers", IF_SET,
                    &container_shape, NULL)},
};
static const struct shape what_shape = {SHAPE_MEMBERS(what_members)};

static bool has_grace(const void *run)
{
    return ((const struct run *)run)->grace_end.ms != 0;
}

static const struct shape_member run_members[] = {
    {MEMBER(struct run, index, "run", ALWAYS, "its index, from 0")},
    {MEMBER(struct run, worker, "worker", OR_NULL, NULL)},
    {MEMBER(struct run, ready_at, "ready_at", OR_NULL,
            "since when the job was ready when it began; null: not known")},
    {MEMBER(struct run, taken_at, "taken_at", OR_NULL, "start")},
    {MEMBER(struct run, lease_end, "lease_expires_at", OR_NULL, "end of its lease")},
    {MEMBER(struct run, ended_at, "ended_at", OR_NULL, "end")},
    {MEMBER_WORD(struct run, outcome, "outcome", ALWAYS, &api_outcome_words, NULL)},
    {MEMBER(struct run, reason, "reason", OR_NULL, "the verdict in words")},
    {MEMBER(struct run, attempt, "attempt", IF_SET, "from 1, if it counted",
            .type = "integer 1..")},
    {MEMBER(struct run, retry_at, "retry_at", IF_SET, "when the job is tried again")},
    {MEMBER(struct run, grace_end, "grace_ends_at", IF_SET, "end of the grace period",
            .is_set = has_grace)},
    {MEMBER(struct run, failure.message, "message", IF_SET, NULL)},
    {MEMBER(struct run, failure.error_type, "error_type", IF_SET, NULL)},
    {MEMBERS_OF(struct run, failure, &what_shape)},
};
const struct shape api_run_shape = {.name = "Run", SHAPE_MEMBERS(run_members)};

static const struct shape_member error_members[] = {
    {MEMBER(struct run, attempt, "attempt", ALWAYS, "from 1", .type = "integer 1..")},
    {MEMBER(struct run, failure.message, "message", ALWAYS, NULL)},
    {MEMBER(struct run, failure.error_type, "error_type", IF_SET, NULL)},
    {MEMBER(struct run, failure.backtrace, "backtrace", IF_SET, NULL)},
    {MEMBER(struct run, taken_at, "dequeued_at", ALWAYS, "start of the run")},
    {MEMBER(struct run, ended_at, "failed_at", ALWAYS, "its end")},
    {MEMBER(struct run, index, "run", ALWAYS, "its index, from 0")},
    {MEMBER(struct run, reason, "reason", IF_SET, "the verdict in words")},
    {MEMBERS_OF(struct run, failure, &what_shape)},
};
const struct shape api_run_error_shape = {.name = "RunError", SHAPE_MEMBERS(error_members)};
