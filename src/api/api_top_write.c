/* SPDX-License-Identifier: Apache-2.0 */

/* What `zizq top` is told over its WebSocket. */

#include <stdlib.h>

#include "api/api_routes.h"
#include "api/api_top.h"
#include "api/api_words.h"
#include "base/alloc.h"

/* Zizq's servers say here what they are licensed for; this is nothing that has a price. */
#define TIER "tenax"

/* --- jobs --- */

static bool has_retry_limit(const void *job)
{
    return ((const struct job *)job)->retry_limit != RETRY_LIMIT_DEFAULT;
}

static bool has_backoff(const void *job)
{
    return ((const struct job *)job)->backoff.shape != CURVE_NONE;
}

static bool has_retention(const void *job)
{
    const struct job *j = job;
    return j->completed_retention.ms >= 0 || j->dead_retention.ms >= 0;
}

static bool is_unique(const void *job)
{
    return ((const struct job *)job)->unique_while != UNIQUE_NONE;
}

static const struct shape_member retention_members[] = {
    {MEMBER(struct job, completed_retention, "completed_ms", IF_SET, NULL)},
    {MEMBER(struct job, dead_retention, "dead_ms", IF_SET, NULL)},
};
static const struct shape retention_shape = {SHAPE_MEMBERS(retention_members)};

static const struct shape_member unique_members[] = {
    {MEMBER(struct job, unique_key, "unique_key", ALWAYS, NULL)},
    {MEMBER_WORD(struct job, unique_while, "unique_while", ALWAYS, &api_unique_words, NULL)},
};
static const struct shape unique_shape = {SHAPE_MEMBERS(unique_members)};

static const struct shape_member job_members[] = {
    {MEMBER(struct job, id, "id", ALWAYS, NULL)},
    {MEMBER(struct job, queue, "queue", ALWAYS, NULL)},
    {MEMBER(struct job, type, "job_type", ALWAYS, NULL)},
    {MEMBER(struct job, state.priority, "priority", ALWAYS, NULL)},
    {MEMBER(struct job, state.ready_at, "ready_at", ALWAYS, NULL)},
    {MEMBER(struct job, state.attempts, "attempts", ALWAYS, NULL)},
    {MEMBER(struct job, state.dequeued_at, "dequeued_at", IF_SET, NULL)},
    {MEMBER(struct job, state.failed_at, "failed_at", IF_SET, NULL)},
};
static const struct shape job_shape = {SHAPE_MEMBERS(job_members)};

static const struct shape_member detailed_members[] = {
    {MEMBERS_INNER(&job_shape)},
    {MEMBER_JSON(struct job, payload, "payload", IF_SET, NULL)},
    {MEMBER(struct job, retry_limit, "retry_limit", IF_SET, NULL, .is_set = has_retry_limit)},
    {MEMBER_OBJECT(struct job, backoff, "backoff", IF_SET, &api_backoff_shape, NULL,
                   .is_set = has_backoff)},
    {MEMBER_INNER("retention", IF_SET, &retention_shape, NULL, .is_set = has_retention)},
    {MEMBERS_INNER(&unique_shape), .is_set = is_unique},
};
static const struct shape detailed_shape = {SHAPE_MEMBERS(detailed_members)};

/* --- windows --- */

void api_top_window_read(struct top_window *w, const struct reply *r, bool detail)
{
    *w = (struct top_window){.items = alloc_zero((r->count + 1) * sizeof *w->items),
                             .first = r->window.first,
                             .total = r->window.total};
    if (r->window.found)
        w->anchor = r->window.id;
    for (; w->count < r->count; w->count++) {
        struct top_item *item = &w->items[w->count];
        item->id = r->jobs[w->count].id;
        item->at = w->text.len;
        shape_write(&w->text, detail ? &detailed_shape : &job_shape, &r->jobs[w->count],
                    SHAPE_AS_IT_IS);
        item->len = w->text.len - item->at;
        buf_byte(&w->text, ',');
    }
}

void api_top_window_fini(struct top_window *w)
{
    free(w->items);
    buf_fini(&w->text);
    *w = (struct top_window){0};
}

static void write_id(struct buf *b, struct id id)
{
    char text[ID_TEXT_LEN];
    id_format(id, text);
    buf_byte(b, '"');
    buf_add(b, text, ID_TEXT_LEN);
    buf_byte(b, '"');
}

static void write_window(struct buf *b, const struct top_window *w)
{
    buf_lit(b, "{\"items\":[");
    buf_add(b, w->text.at, w->text.len ? w->text.len - 1 : 0);
    buf_print(b, "],\"first_position\":%llu,\"total\":%llu", (unsigned long long)w->first,
              (unsigned long long)w->total);
    if (!id_is_none(w->anchor)) {
        buf_lit(b, ",\"resolved_anchor\":");
        write_id(b, w->anchor);
    }
    buf_byte(b, '}');
}

/* --- messages --- */

static void begin(struct buf *b, const struct top_server *s, const char *event)
{
    b->len = 0;
    buf_print(b,
              "{\"server\":{\"version\":\"" TENAX_VERSION "\",\"uptime_ms\":%llu,\"tier\":\"" TIER
              "\"",
              (unsigned long long)s->uptime_ms);
    for (unsigned i = 0; i < TOP_LISTS; i++)
        buf_print(b, ",\"total_%s\":%llu", api_top_name(i), (unsigned long long)s->totals[i]);
    buf_print(b, "},\"event\":\"%s\"", event);
}

void api_top_write_heartbeat(struct buf *b, const struct top_server *s)
{
    begin(b, s, "heartbeat");
    buf_byte(b, '}');
}

void api_top_write_snapshot(struct buf *b, const struct top_server *s,
                            const struct top_window windows[TOP_LISTS])
{
    begin(b, s, "job_snapshot");
    for (unsigned i = 0; i < TOP_LISTS; i++) {
        buf_print(b, ",\"%s\":", api_top_name(i));
        write_window(b, &windows[i]);
    }
    buf_byte(b, '}');
}

void api_top_write_change(struct buf *b, const struct top_server *s, struct id id,
                          const char *status, const struct top_window *w,
                          const struct top_item *item)
{
    begin(b, s, "job_changed");
    buf_lit(b, ",\"id\":");
    write_id(b, id);
    buf_print(b, ",\"status\":\"%s\"", status);
    if (item) {
        buf_lit(b, ",\"job\":");
        buf_add(b, w->text.at + item->at, item->len);
    }
    buf_byte(b, '}');
}

void api_top_write_found(struct buf *b, const struct top_server *s, enum top_list list,
                         const struct reply *r)
{
    struct top_window w;
    api_top_window_read(&w, r, false);
    begin(b, s, "find_result");
    buf_print(b, ",\"list\":\"%s\",\"matched_position\":", api_top_name(list));
    if (r->window.found)
        buf_print(b, "%llu", (unsigned long long)r->window.at);
    else
        buf_lit(b, "null");
    buf_lit(b, ",\"window\":");
    write_window(b, &w);
    buf_byte(b, '}');
    api_top_window_fini(&w);
}
