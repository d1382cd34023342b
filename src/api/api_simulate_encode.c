/* SPDX-License-Identifier: Apache-2.0 */

/* What came of a simulated job, as JSON. */

#include "api/api_simulate.h"

#include "api/api_routes.h"
#include "api/api_words.h"

/* --- what one side says to a failure --- */

static bool is_asked(const void *verdict)
{
    return ((const struct simulate_verdict *)verdict)->asked;
}

static bool is_retry(const void *verdict)
{
    return ((const struct simulate_verdict *)verdict)->retry;
}

static bool has_policy(const void *verdict)
{
    return ((const struct simulate_verdict *)verdict)->ruling.policy.len != 0;
}

static bool has_rule(const void *ruling)
{
    return ((const struct ruling *)ruling)->rule >= 0;
}

static void write_action(struct buf *b, const void *retry)
{
    buf_str(b, *(const bool *)retry ? STR("\"Retry\"") : STR("\"Fail\""));
}

/* As the words of a reason count them. */
static void write_rule(struct buf *b, const void *rule)
{
    buf_int(b, *(const int32_t *)rule + 1);
}

static const struct shape_member ruling_members[] = {
    {MEMBER(struct ruling, policy, "policy", ALWAYS, NULL)},
    {MEMBER_OTHER(struct ruling, rule, "rule", IF_SET, "integer 1..", write_rule, "from 1",
                  .is_set = has_rule)},
    {MEMBER(struct ruling, count, "count", ALWAYS, NULL)},
    {MEMBER(struct ruling, limit, "limit", ALWAYS, NULL)},
};
static const struct shape ruling_shape = {SHAPE_MEMBERS(ruling_members)};

static const struct shape_member verdict_members[] = {
    {MEMBER_OTHER(struct simulate_verdict, retry, "action", ALWAYS, "string (Retry|Fail)",
                  write_action, NULL)},
    {MEMBERS_OF(struct simulate_verdict, ruling, &ruling_shape), .is_set = has_policy},
    {MEMBER(struct simulate_verdict, delay, "delay_ms", IF_SET, NULL, .is_set = is_retry)},
    {MEMBER(struct simulate_verdict, reason, "reason", ALWAYS, NULL)},
};
static const struct shape verdict_shape = {.name = "SimulatedVerdict",
                                           SHAPE_MEMBERS(verdict_members)};

/* --- failures --- */

struct shown_step {
    const struct simulate_step *step;
    uint64_t number; /* from 1 */
    bool stored;
};

static bool is_stored(const void *shown_step)
{
    return ((const struct shown_step *)shown_step)->stored;
}

static bool draft_is_asked(const void *step)
{
    return is_asked(&((const struct simulate_step *)step)->draft);
}

static bool today_is_asked(const void *step)
{
    return is_asked(&((const struct simulate_step *)step)->today);
}

static const struct shape_member stored_members[] = {
    {MEMBER(struct simulate_step, run.index, "run", ALWAYS, "its index, from 0")},
    {MEMBER(struct simulate_step, run.ended_at, "ended_at", ALWAYS, "when")},
};
static const struct shape stored_shape = {SHAPE_MEMBERS(stored_members)};

static const struct shape_member what_members[] = {
    {MEMBER(struct failure, message, "message", IF_SET, NULL)},
    {MEMBER(struct failure, error_type, "error_type", IF_SET, NULL)},
    {MEMBER(struct failure, exit_code, "exit_code", IF_SET, NULL)},
    {MEMBER(struct failure, signal, "signal", IF_SET, NULL)},
    {MEMBER_WORD(struct failure, condition, "condition", IF_SET, &api_condition_words, NULL)},
    {MEMBER(struct failure, category, "category", IF_SET, NULL)},
    {MEMBER_WORD(struct failure, culprit, "culprit", IF_SET, &api_culprit_words,
                 "whose fault it was")},
    {MEMBER(struct failure, culprit_evidence, "culprit_evidence", IF_SET,
            "how that is known, a sentence")},
    {MEMBER(struct failure, termination_message, "termination_message", IF_SET, NULL)},
};
static const struct shape what_shape = {SHAPE_MEMBERS(what_members)};

static const struct shape_member recorded_members[] = {
    {MEMBER(struct simulate_step, run.reason, "recorded", IF_SET, "the verdict of that time")},
};
static const struct shape recorded_shape = {SHAPE_MEMBERS(recorded_members)};

static const struct shape_member judged_members[] = {
    {MEMBERS_OF(struct simulate_step, run.failure, &what_shape)},
};
static const struct shape judged_shape = {SHAPE_MEMBERS(judged_members)};

#define NOT_ASKED "null: the job would not have come so far"

static const struct shape_member sides_members[] = {
    {MEMBER_OBJECT(struct simulate_step, draft, "draft", OR_NULL, &verdict_shape, NOT_ASKED,
                   .is_set = draft_is_asked)},
    {MEMBER_OBJECT(struct simulate_step, today, "today", OR_NULL, &verdict_shape, NOT_ASKED,
                   .is_set = today_is_asked)},
};
static const struct shape sides_shape = {SHAPE_MEMBERS(sides_members)};

static const struct shape_member step_members[] = {
    {MEMBER(struct shown_step, number, "failure", ALWAYS, "from 1", .type = "integer 1..")},
    {MEMBERS_AT(struct shown_step, step, &stored_shape), .is_set = is_stored},
    {MEMBERS_AT(struct shown_step, step, &judged_shape)},
    {MEMBERS_AT(struct shown_step, step, &recorded_shape), .is_set = is_stored},
    {MEMBERS_AT(struct shown_step, step, &sides_shape)},
};
const struct shape api_simulated_step_shape = {.name = "SimulatedStep",
                                               SHAPE_MEMBERS(step_members)};

/* --- a job --- */

struct shown_job {
    const struct simulate_job *what;
    const struct job *job; /* of it */
    const struct simulate_result *result;
};

static void write_steps(struct buf *b, const void *shown_job)
{
    const struct shown_job *shown = shown_job;
    buf_byte(b, '[');
    for (size_t i = 0; i < shown->result->count; i++) {
        const struct shown_step step = {&shown->result->steps[i], i + 1, shown->what->stored};
        if (i)
            buf_byte(b, ',');
        shape_write(b, &api_simulated_step_shape, &step, SHAPE_AS_IT_IS);
    }
    buf_byte(b, ']');
}

static void write_extra(struct buf *b, const void *result)
{
    const struct simulate_result *r = result;
    buf_int(b, (int64_t)r->draft.retries - r->today.retries);
}

static const struct shape_member side_members[] = {
    {MEMBER(struct simulate_side, retries, "retries", ALWAYS,
            "in all, if it goes on failing like the last time")},
    {MEMBER(struct simulate_side, more, "more", ALWAYS, "there would be even more of them")},
    {MEMBER(struct simulate_side, dead, "dead", ALWAYS, NULL)},
    {MEMBER(struct simulate_side, window, "window_ms", ALWAYS, "all their delays together")},
};
static const struct shape side_shape = {.name = "SimulatedSide", SHAPE_MEMBERS(side_members)};

static bool job_is_stored(const void *shown_job)
{
    return ((const struct shown_job *)shown_job)->what->stored;
}

static const struct shape_member id_members[] = {
    {MEMBER(struct job, id, "job", ALWAYS, "its id; not of failures that were given")},
};
static const struct shape id_shape = {SHAPE_MEMBERS(id_members)};

static const struct shape_member known_members[] = {
    {MEMBER(struct simulate_job, completed, "completed", ALWAYS, NULL)},
    {MEMBER(struct simulate_job, deleted, "deleted", IF_SET, "only the failure history knows it")},
};
static const struct shape known_shape = {SHAPE_MEMBERS(known_members)};

static const struct shape_member name_members[] = {
    {MEMBER(struct job, queue, "queue", ALWAYS, NULL)},
    {MEMBER(struct job, type, "type", IF_SET, NULL)},
};
static const struct shape name_shape = {SHAPE_MEMBERS(name_members)};

static const struct shape_member result_members[] = {
    {MEMBER_OBJECT(struct simulate_result, draft, "draft", ALWAYS, &side_shape, NULL)},
    {MEMBER_OBJECT(struct simulate_result, today, "today", ALWAYS, &side_shape, NULL)},
    {MEMBER_MADE("extra_attempts", ALWAYS, "integer", write_extra, "of the draft")},
};
static const struct shape result_shape = {SHAPE_MEMBERS(result_members)};

static const struct shape_member job_members[] = {
    {MEMBERS_AT(struct shown_job, job, &id_shape), .is_set = job_is_stored},
    {MEMBERS_AT(struct shown_job, what, &known_shape), .is_set = job_is_stored},
    {MEMBERS_AT(struct shown_job, job, &name_shape)},
    {MEMBER_MADE("failures", ALWAYS, "SimulatedStep[]", write_steps, NULL)},
    {MEMBERS_AT(struct shown_job, result, &result_shape)},
};
const struct shape api_simulated_job_shape = {.name = "SimulatedJob", SHAPE_MEMBERS(job_members)};

void api_simulate_encode(struct buf *b, const struct simulate_job *what,
                         const struct simulate_result *r)
{
    const struct shown_job shown = {what, what->job, r};
    shape_write(b, &api_simulated_job_shape, &shown, SHAPE_AS_IT_IS);
}
