/* SPDX-License-Identifier: Apache-2.0 */

/* Events in answers. */

#include "api/api_routes.h"
#include "api/api_words.h"

static bool is_retry(const void *event)
{
    const struct job_event *ev = event;
    return ev->event == EVENT_RETRY || ev->event == EVENT_RETRY_NOW;
}

static bool is_other(const void *event)
{
    return !is_retry(event);
}

static bool has_job(const void *event)
{
    return !id_is_none(((const struct job_event *)event)->id);
}

static bool has_run(const void *event)
{
    return ((const struct job_event *)event)->run >= 0;
}

static void write_delay(struct buf *b, const void *event)
{
    const struct job_event *ev = event;
    buf_int(b, ev->ready_at.ms - ev->at.ms);
}

/* --- who decided --- */

static bool has_budget(const void *ruling)
{
    return ((const struct ruling *)ruling)->limit >= 0;
}

static bool has_rule(const void *ruling)
{
    const struct ruling *r = ruling;
    return has_budget(r) && r->policy.len && r->rule >= 0;
}

static bool has_policy(const void *ruling)
{
    return has_budget(ruling) && ((const struct ruling *)ruling)->policy.len;
}

/* As the words of a reason count them. */
static void write_rule(struct buf *b, const void *rule)
{
    buf_int(b, *(const int32_t *)rule + 1);
}

static const struct shape_member ruling_members[] = {
    {MEMBER_WORD(struct ruling, by, "decided_by", IF_SET, &api_decider_words,
                 "of a failure: who decided what becomes of it")},
    {MEMBER(struct ruling, policy, "policy", IF_SET, NULL, .is_set = has_policy)},
    {MEMBER_OTHER(struct ruling, rule, "rule", IF_SET, "integer 1..", write_rule, "from 1",
                  .is_set = has_rule)},
    {MEMBER(struct ruling, count, "count", IF_SET, NULL, .is_set = has_budget)},
    {MEMBER(struct ruling, limit, "limit", IF_SET, NULL, .is_set = has_budget,
            .type = "integer 0..")},
};
static const struct shape ruling_shape = {SHAPE_MEMBERS(ruling_members)};

/* --- events --- */

static const struct shape_member waiting_members[] = {
    {MEMBER(struct job_event, ready_at, "ready_at", IF_SET, "when it becomes or became ready")},
};
static const struct shape waiting_shape = {SHAPE_MEMBERS(waiting_members)};

static const struct shape_member retry_members[] = {
    {MEMBER(struct job_event, ready_at, "retry_at", IF_SET, "when it is tried again")},
    {MEMBER_MADE("delay_ms", ALWAYS, "integer", write_delay, NULL)},
};
static const struct shape retry_shape = {SHAPE_MEMBERS(retry_members)};

static bool is_ruled(const void *event)
{
    const struct ruling *r = &((const struct job_event *)event)->ruling;
    return r->by != DECIDER_NONE || r->limit >= 0;
}

static const struct shape_member run_members[] = {
    {MEMBER(struct job_event, run, "run", ALWAYS, "its index, from 0", .type = "integer 0..")},
    {MEMBER(struct job_event, attempt, "attempt", ALWAYS, "from 1", .type = "integer 1..")},
};
static const struct shape run_shape = {SHAPE_MEMBERS(run_members)};

static const struct shape_member event_members[] = {
    {MEMBER_WORD(struct job_event, event, "event", ALWAYS, &api_event_words, NULL)},
    {MEMBER(struct job_event, number, "number", ALWAYS, "one more than that of the event before",
            .type = "integer 1..")},
    {MEMBER(struct job_event, at, "at", ALWAYS, "when")},
    {MEMBER(struct job_event, id, "id", OR_NULL, "of the job; null: it is about a group alone",
            .is_set = has_job)},
    {MEMBER(struct job_event, queue, "queue", OR_NULL, "of the job")},
    {MEMBER(struct job_event, type, "type", OR_NULL, "of the job")},
    {MEMBER_WORD(struct job_event, event, "cause", ALWAYS, &api_cause_words, NULL)},
    {MEMBER_WORD(struct job_event, from, "from", OR_NULL, &api_status_words,
                 "null: there was no such job")},
    {MEMBER_WORD(struct job_event, to, "to", OR_NULL, &api_status_words,
                 "null: there is no such job any more")},
    {MEMBER(struct job_event, removed, "removed", IF_SET, "the job is gone at once")},
    {MEMBERS_INNER(&run_shape), .is_set = has_run},
    {MEMBER(struct job_event, worker, "worker", IF_SET, NULL)},
    {MEMBER(struct job_event, reason, "reason", IF_SET, NULL)},
    {MEMBER(struct job_event, group, "group", IF_SET, "that the event is about")},
    {MEMBERS_INNER(&waiting_shape), .is_set = is_other},
    {MEMBERS_INNER(&retry_shape), .is_set = is_retry},
    {MEMBERS_OF(struct job_event, ruling, &ruling_shape), .is_set = is_ruled},
};
const struct shape api_event_shape = {.name = "Event", SHAPE_MEMBERS(event_members)};
