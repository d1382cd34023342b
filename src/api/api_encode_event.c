/* SPDX-License-Identifier: Apache-2.0 */

/* Events in answers. */

#include "api/api_routes.h"
#include "api/api_words.h"

#define EVENT_IS(name, condition)                                                                  \
    static inline bool name(const void *event)                                                     \
    {                                                                                              \
        const struct job_event *ev = event;                                                        \
        return condition;                                                                          \
    }
EVENT_IS(has_job, !id_is_none(ev->id))
EVENT_IS(has_run, ev->run >= 0)
EVENT_IS(is_reprioritized, ev->event == EVENT_REPRIORITIZE)
EVENT_IS(is_group_priority, ev->event == EVENT_GROUP_REPRIORITIZE)
EVENT_IS(is_new_priority, is_reprioritized(ev) || is_group_priority(ev))
EVENT_IS(is_retry, ev->event == EVENT_RETRY || ev->event == EVENT_RETRY_NOW)
EVENT_IS(is_retried, is_retry(ev) && instant_is_set(ev->ready_at))
EVENT_IS(waits, !is_retry(ev) && instant_is_set(ev->ready_at))
EVENT_IS(is_ruled, ev->ruling.by != DECIDER_NONE || ev->ruling.limit >= 0)
EVENT_IS(has_budget, ev->ruling.limit >= 0)
EVENT_IS(has_policy, has_budget(ev) && ev->ruling.policy.len)
EVENT_IS(has_rule, has_policy(ev) && ev->ruling.rule >= 0)

static void write_delay(struct buf *b, const void *event)
{
    const struct job_event *ev = event;
    buf_int(b, ev->ready_at.ms - ev->at.ms);
}

/* As the words of a reason count them. */
static void write_rule(struct buf *b, const void *rule)
{
    buf_int(b, *(const int32_t *)rule + 1);
}

/* Who decided. */
static const struct shape_member ruling_members[] = {
    {MEMBER_WORD(struct job_event, ruling.by, "decided_by", IF_SET, &api_decider_words,
                 "of a failure: who decided what becomes of it")},
    {MEMBER(struct job_event, ruling.policy, "policy", IF_SET, NULL, .is_set = has_policy)},
    {MEMBER_OTHER(struct job_event, ruling.rule, "rule", IF_SET, "integer 1..", write_rule,
                  "from 1", .is_set = has_rule)},
    {MEMBER(struct job_event, ruling.count, "count", IF_SET, NULL, .is_set = has_budget)},
    {MEMBER(struct job_event, ruling.limit, "limit", IF_SET, NULL, .is_set = has_budget,
            .type = "integer 0..")},
};
static const struct shape ruling_shape = {SHAPE_MEMBERS(ruling_members)};

#define OWNER struct job_event
#include "api/api_rows_table.h"
static const struct shape_member event_members[] = {
#include "api/api_event.def"
};

#include "api/api_rows_code.h"
static void write_event(struct buf *b, const void *owner)
{
    const struct job_event *o = owner;
#include "api/api_event.def"
}

static const struct shape job_event_shape = {SHAPE_MEMBERS(event_members), .write = write_event};

static void write_messages(struct buf *b, const void *text)
{
    buf_byte(b, '[');
    buf_str(b, *(const struct str *)text);
    buf_byte(b, ']');
}

static const struct shape_member line_members[] = {
    {MEMBERS_AT(struct event_line, event, &job_event_shape)},
    {MEMBER_OTHER(struct event_line, messages, "messages", IF_SET, "object[]", write_messages,
                  "of another front end that tell of it, if they are asked for")},
};

static void write_line(struct buf *b, const void *owner)
{
    const struct event_line *line = owner;
    write_event(b, line->event);
    if (line->messages.len == 0)
        return;
    buf_lit(b, ",\"messages\":");
    write_messages(b, &line->messages);
}

const struct shape api_event_shape = {
    .name = "Event", SHAPE_MEMBERS(line_members), .write = write_line};
