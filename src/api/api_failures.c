/* SPDX-License-Identifier: Apache-2.0 */

/* GET /failure-groups: failures that are alike, counted. */

#include "api/api_access.h"
#include "api/api_routes.h"
#include "api/api_words.h"
#include "core/culprit.h"
#include "core/failure_groups.h"
#include "core/fingerprint.h"

#define LIMIT_DEFAULT 50

/* --- answers --- */

static void write_fingerprint(struct buf *b, const void *fingerprint)
{
    char text[FINGERPRINT_TEXT_LEN];
    fingerprint_format(*(const uint64_t *)fingerprint, text);
    buf_byte(b, '"');
    buf_add(b, text, sizeof text);
    buf_byte(b, '"');
}

static void write_last_hour(struct buf *b, const void *view)
{
    const struct failure_view *v = view;
    buf_int(b, (int64_t)failure_group_last_minutes(&v->group, v->now, FAILURE_GROUP_MINUTES));
}

static void write_last_day(struct buf *b, const void *view)
{
    const struct failure_view *v = view;
    buf_int(b, (int64_t)failure_group_last_hours(&v->group, v->now, 24));
}

static void write_trend(struct buf *b, const void *view)
{
    const struct failure_view *v = view;
    shape_write_word(b, failure_trend_name(failure_group_trend(&v->group, v->now)));
}

typedef uint32_t count_fn(const struct failure_group *group, instant now, int ago);

/* The oldest period first. */
static void write_counts(struct buf *b, const struct failure_view *v, count_fn *count, int periods)
{
    buf_byte(b, '[');
    for (int ago = periods - 1; ago >= 0; ago--) {
        buf_int(b, count(&v->group, v->now, ago));
        if (ago)
            buf_byte(b, ',');
    }
    buf_byte(b, ']');
}

static void write_minutes(struct buf *b, const void *view)
{
    write_counts(b, view, failure_group_minute, FAILURE_GROUP_MINUTES);
}

static void write_hours(struct buf *b, const void *view)
{
    write_counts(b, view, failure_group_hour, FAILURE_GROUP_HOURS);
}

static const struct shape_member sample_members[] = {
    {MEMBER(struct failure_sample, job, "job", ALWAYS, "it may be gone by now", .type = "JobId")},
    {MEMBER(struct failure_sample, run, "run", ALWAYS, "its index, from 0")},
    {MEMBER(struct failure_sample, at, "failed_at", ALWAYS, NULL)},
};
static const struct shape sample_shape = {.name = "FailureSample", SHAPE_MEMBERS(sample_members)};

static const struct shape_member blame_members[] = {
    {MEMBER_WORD(struct failure_blame, culprit, "culprit", ALWAYS, &api_culprit_words, NULL)},
    {MEMBER(struct failure_blame, count, "count", ALWAYS, "failures")},
};
static const struct shape blame_shape = {.name = "FailureBlame", SHAPE_MEMBERS(blame_members)};

static const struct shape_member failure_group_members[] = {
    {MEMBER_OTHER(struct failure_view, group.fingerprint, "group", ALWAYS,
                  "string /^[0-9a-f]{16}$/", write_fingerprint,
                  "what failures of this kind have in common, as the filter failure_group takes "
                  "it")},
    {MEMBER(struct failure_view, group.queue, "queue", ALWAYS, NULL)},
    {MEMBER(struct failure_view, group.type, "type", ALWAYS, NULL)},
    {MEMBER_WORD(struct failure_view, group.outcome, "outcome", ALWAYS, &api_outcome_words,
                 "of the runs")},
    {MEMBER(struct failure_view, group.message, "message", ALWAYS,
            "with placeholders for what differs from one to the next")},
    {MEMBER(struct failure_view, group.error_type, "error_type", IF_SET, NULL)},
    {MEMBER(struct failure_view, group.exit_code, "exit_code", IF_SET, NULL)},
    {MEMBER(struct failure_view, group.signal, "signal", IF_SET, NULL)},
    {MEMBER_WORD(struct failure_view, group.condition, "condition", IF_SET, &api_condition_words,
                 NULL)},
    {MEMBER(struct failure_view, group.category, "category", IF_SET, NULL)},
    {MEMBER(struct failure_view, group.first_seen, "first_seen", ALWAYS, NULL)},
    {MEMBER(struct failure_view, group.last_seen, "last_seen", ALWAYS, NULL)},
    {MEMBER(struct failure_view, group.count, "count", ALWAYS, "failures since first_seen")},
    {MEMBER_OBJECTS(struct failure_view, blames, blame_count, "culprits", ALWAYS, &blame_shape,
                    "whose fault they were, as far as that is known: the culprit of most of them "
                    "first")},
    {MEMBER_MADE("last_hour", ALWAYS, "integer 0..", write_last_hour, "of them, in 60 minutes")},
    {MEMBER_MADE("last_day", ALWAYS, "integer 0..", write_last_day, "of them, in 24 hours")},
    {MEMBER_MADE("trend", ALWAYS, "string (new|rising|steady|falling|quiet)", write_trend,
                 "the last half hour compared with the one before")},
    {MEMBER_MADE("per_minute", ALWAYS, "integer[]", write_minutes,
                 "in each of the last 60 minutes, the present one last")},
    {MEMBER_MADE("per_hour", ALWAYS, "integer[]", write_hours,
                 "in each of the last 168 hours, the present one last")},
    {MEMBER_OBJECTS(struct failure_view, group.samples, group.sample_count, "samples", ALWAYS,
                    &sample_shape, "the newest failures of different jobs")},
};
const struct shape api_failure_group_shape = {.name = "FailureGroup",
                                              SHAPE_MEMBERS(failure_group_members)};

static const struct shape_member page_members[] = {
    {MEMBER_OBJECTS(struct failures_page, groups, count, "failure_groups", ALWAYS,
                    &api_failure_group_shape, NULL)},
    {MEMBER(struct failures_page, total, "total", ALWAYS, "how many there are, shown or not")},
    {MEMBER(struct failures_page, dropped, "dropped", ALWAYS,
            "of all queues, since the server's start: groups that made room for newer ones")},
};
const struct shape api_failure_groups_shape = {.name = "FailureGroups",
                                               SHAPE_MEMBERS(page_members)};

/* --- requests --- */

const struct api_param api_failures_params[] = {
    {"queue", "names: one, or a list a,b"},
    {"type", "names: one, or a list a,b"},
    {"error_type", "string: only this one"},
    {"culprit", "string (job|input|worker|node|cluster|access|dependency|disruption|gang|server|"
                "deadline|unknown): only groups with failures that are its fault"},
    {"since", "integer 0..: only groups seen since then, milliseconds since 1970 (UTC)"},
    {"order", "string (last_seen|first_seen|count|last_hour): the greatest first; last_seen unless "
              "given"},
    {"limit", "integer 1..$: how many at most; 50 unless given", .most = FAILURES_PAGE_MAX},
    {NULL, NULL}};

static struct err read_order(struct str text, enum failures_order *order)
{
    static const char *const names[] = {"last_seen", "first_seen", "count", "last_hour"};
    for (int i = 0; i < 4; i++)
        if (str_eq(text, str_from(names[i]))) {
            *order = (enum failures_order)i;
            return err_none();
        }
    return err_make(ERR_BAD_VALUE, "order is last_seen, first_seen, count or last_hour, not '%.*s'",
                    (int)(text.len < 32 ? text.len : 32), text.at);
}

static struct err read_culprit(struct str text, enum culprit *culprit)
{
    if (culprit_parse(text, culprit))
        return err_none();
    struct str meant = culprit_closest(text);
    const char *and = meant.len ? "; did you mean " : "";
    return err_make(ERR_BAD_VALUE, "culprit: there is none named '%.*s'%s%.*s",
                    (int)(text.len < 32 ? text.len : 32), text.at, and, STR_ARG(meant));
}

static struct err read_param(struct str name, struct str value, struct arena *arena,
                             struct failures_query *q)
{
    int64_t limit;
    if (str_eq(name, STR("queue")))
        return api_decode_names(value, "queue", arena, &q->queues, &q->queue_count);
    if (str_eq(name, STR("type")))
        return api_decode_names(value, "type", arena, &q->types, &q->type_count);
    if (str_eq(name, STR("since")))
        return api_read_number(value, "since", 0, INSTANT_MAX_MS, &q->since.ms);
    if (str_eq(name, STR("order")))
        return read_order(value, &q->order);
    if (str_eq(name, STR("culprit")))
        return read_culprit(value, &q->culprit);
    if (str_eq(name, STR("error_type"))) {
        q->error_type = value;
        return err_none();
    }
    if (!str_eq(name, STR("limit")))
        return api_unknown_param(name);
    TRY(api_read_number(value, "limit", 1, FAILURES_PAGE_MAX, &limit));
    q->limit = (uint32_t)limit;
    return err_none();
}

static struct err read_params(const struct api_request *r, struct failures_query *q)
{
    struct query_cursor c = query_open(r->http->query, r->http->arena);
    struct str name, value;
    bool more;
    unsigned seen = 0;
    TRY(api_check_media(r->http));
    for (;;) {
        TRY(query_next(&c, &more, &name, &value));
        if (!more)
            break;
        TRY(api_param_once(name, api_failures_params, &seen));
        if (value.len == 0)
            return err_make(ERR_BAD_VALUE, "%.*s is given without a value", STR_ARG(name));
        TRY(read_param(name, value, r->http->arena, q));
    }
    for (size_t i = 0; i < q->queue_count; i++)
        TRY(api_may_queue(r, q->queues[i]));
    return err_none();
}

static void on_groups(void *ctx, const struct reply *r)
{
    api_reply_part(ctx, r, 200, &api_failure_groups_shape, r->failures);
}

void api_failures(struct api *a, const struct api_request *r)
{
    struct failures_query q = {.limit = LIMIT_DEFAULT};
    struct command c = {.kind = CMD_FAILURES, .failures = &q, .done = on_groups};
    api_submit(a, r, &c, read_params(r, &q));
}

static struct err no_such_group(void)
{
    return err_make(ERR_NOT_FOUND, "there is no such group of failures");
}

static void on_group(void *ctx, const struct reply *r)
{
    const struct call *c = ctx;
    if (r->err.code == ERR_OK && r->failures->count == 0) {
        struct err err = no_such_group();
        api_reply_error(c->x, &err, NULL);
        return;
    }
    api_reply_part(c, r, 200, &api_failure_group_shape, r->failures ? r->failures->groups : NULL);
}

void api_failure_group(struct api *a, const struct api_request *r)
{
    struct failures_query q = {.limit = 1};
    struct command c = {.kind = CMD_FAILURES, .failures = &q, .done = on_group};
    struct err err = api_check_media(r->http);
    if (err.code == ERR_OK && !fingerprint_parse(r->params->at[0], &q.fingerprint))
        err = no_such_group();
    api_submit(a, r, &c, err);
}
