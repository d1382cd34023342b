/* SPDX-License-Identifier: Apache-2.0 */

/* Events in answers. */

#include "api/api_routes.h"
#include "api/api_words.h"
#include "base/event_cursor.h"

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

static void write_cursor(struct buf *b, const void *owner)
{
    const struct event_line *line = owner;
    buf_byte(b, '"');
    event_cursor_write(b, (struct event_cursor){line->history, line->event->number});
    buf_byte(b, '"');
}

static void write_messages(struct buf *b, const void *text)
{
    buf_byte(b, '[');
    buf_str(b, *(const struct str *)text);
    buf_byte(b, ']');
}

static const struct shape_member line_members[] = {
    {MEMBERS_AT(struct event_line, event, &job_event_shape)},
    {MEMBER_MADE("cursor", ALWAYS, "string", write_cursor,
                 "the place after it, for since: its number and the history that it is of")},
    {MEMBER_OTHER(struct event_line, messages, "messages", IF_SET, "object[]", write_messages,
                  "of another front end that tell of it, if they are asked for")},
};

static void write_line(struct buf *b, const void *owner)
{
    const struct event_line *line = owner;
    write_event(b, line->event);
    buf_lit(b, ",\"cursor\":");
    write_cursor(b, line);
    if (line->messages.len == 0)
        return;
    buf_lit(b, ",\"messages\":");
    write_messages(b, &line->messages);
}

const struct shape api_event_shape = {
    .name = "Event", SHAPE_MEMBERS(line_members), .write = write_line};

/* --- gaps --- */

static void write_kind_of_gap(struct buf *b, const void *gap)
{
    (void)gap;
    buf_lit(b, "\"gap\"");
}

static void write_place(struct buf *b, const void *owner)
{
    const struct api_gap *gap = owner;
    buf_byte(b, '"');
    event_cursor_write(b, (struct event_cursor){gap->history, gap->place});
    buf_byte(b, '"');
}

static void write_reason(struct buf *b, const void *owner)
{
    const struct api_gap *gap = owner;
    if (gap->to) {
        buf_lit(b, "\"these events are no longer kept\"");
        return;
    }
    buf_lit(b, "\"there is no event ");
    event_cursor_write(b, gap->after);
    buf_lit(b, " in this history of events, as after a restore; it goes on after ");
    event_cursor_write(b, (struct event_cursor){gap->history, gap->place});
    buf_byte(b, '"');
}

static const struct shape_member gap_members[] = {
    {MEMBER_MADE("event", ALWAYS, "string (gap)", write_kind_of_gap, NULL)},
    {MEMBER(
        struct api_gap, from, "from", IF_SET,
        "the number of the first that is not kept any more; without it the place that was asked "
        "for is of another history",
        .type = "integer 1..")},
    {MEMBER(struct api_gap, to, "to", IF_SET, "of the last", .type = "integer 1..")},
    {MEMBER_MADE("cursor", ALWAYS, "string", write_place, "after which the stream goes on")},
    {MEMBER_MADE("reason", ALWAYS, "string", write_reason, "a sentence")},
};
const struct shape api_gap_shape = {
    .name = "Gap", SHAPE_MEMBERS(gap_members), .doc = "events that cannot be had"};
