/* SPDX-License-Identifier: Apache-2.0 */

/* Queues: names, settings and state. */

#include "api/api_access.h"
#include "api/api_routes.h"
#include "api/api_words.h"
#include "base/array.h"

#define LIMIT_DEFAULT 50

/* --- answers --- */

/* From RETRY_FALLBACK_DEFAULT on. */
static const struct str fallbacks[] = {{"default", 7}, {"fail", 4}};

#define QUEUE_HAS(name, condition)                                                                 \
    static bool name(const void *queue_shown)                                                      \
    {                                                                                              \
        const struct queue_settings *s =                                                           \
            &((const struct queue_shown *)queue_shown)->view.settings;                             \
        return condition;                                                                          \
    }
QUEUE_HAS(has_rate, rate_is_set(&s->rate))
QUEUE_HAS(has_retry_limit, s->retry_limit != RETRY_LIMIT_DEFAULT)
QUEUE_HAS(has_max_run, s->max_run.ms > 0)
QUEUE_HAS(has_backoff, s->backoff.shape != CURVE_NONE)

static bool has_warnings(const void *queue_shown)
{
    return ((const struct queue_shown *)queue_shown)->warning_count > 0;
}

static const struct shape_member rate_members[] = {
    {MEMBER(struct rate, count, "count", ALWAYS, NULL, .type = "integer 1..")},
    {MEMBER(struct rate, per, "per_ms", ALWAYS, NULL, .type = "integer 1..")},
    {MEMBER(struct rate, burst, "burst", ALWAYS, NULL, .type = "integer 1..")},
};
static const struct shape rate_shape = {.name = "Rate", SHAPE_MEMBERS(rate_members)};

static const struct shape_member kept_members[] = {
    {MEMBER(struct queue_shown, view.settings.completed_retention, "completed_ms", OR_NULL, NULL)},
    {MEMBER(struct queue_shown, view.settings.dead_retention, "dead_ms", OR_NULL, NULL)},
};
static const struct shape kept_shape = {.name = "RetentionLimits", SHAPE_MEMBERS(kept_members)};

static void write_policies(struct buf *b, const void *names)
{
    api_encode_names(b, *(const struct str *)names);
}

static const struct shape_member queue_members[] = {
    {MEMBER(struct queue_shown, view.name, "name", ALWAYS, NULL)},
    {MEMBER(struct queue_shown, view.configured, "configured", ALWAYS,
            "somebody has set something")},
    {MEMBER(struct queue_shown, view.settings.paused, "paused", ALWAYS, NULL)},
    {MEMBER(struct queue_shown, view.settings.concurrency, "concurrency", OR_NULL, NULL,
            .type = "integer 1..")},
    {MEMBER(struct queue_shown, view.settings.concurrency_per_key, "concurrency_per_key", OR_NULL,
            NULL, .type = "integer 1..")},
    {MEMBER_OBJECT(struct queue_shown, view.settings.rate, "rate", OR_NULL, &rate_shape, NULL,
                   .is_set = has_rate)},
    {MEMBER(struct queue_shown, view.settings.retry_limit, "retry_limit", OR_NULL, NULL,
            .type = "integer 0..", .is_set = has_retry_limit)},
    {MEMBER_OBJECT(struct queue_shown, view.settings.backoff, "backoff", OR_NULL,
                   &api_backoff_shape, NULL, .is_set = has_backoff)},
    {MEMBER_INNER("retention", ALWAYS, &kept_shape, NULL)},
    {MEMBER_WORD(struct queue_shown, view.settings.when_no_policy, "when_no_policy", OR_NULL,
                 &api_fallback_words, NULL)},
    {MEMBER(struct queue_shown, view.settings.max_run, "max_run_ms", OR_NULL, NULL,
            .type = "integer 1..", .is_set = has_max_run)},
    {MEMBER_OTHER(struct queue_shown, retry_policies, "retry_policies", ALWAYS, "string[]",
                  write_policies, NULL)},
    {MEMBER_JSON(struct queue_shown, kept, "armada", IF_SET,
                 "what a queue of Armada's says and has no effect here", .type = "object")},
    {MEMBER_OBJECT(struct queue_shown, view.counts, "jobs", ALWAYS, &api_counts_shape, NULL)},
    {MEMBER(struct queue_shown, view.oldest_age, "oldest_ready_age_ms", OR_NULL, NULL)},
    {MEMBER_LIST(struct queue_shown, warnings, warning_count, "warnings", IF_SET,
                 "what is valid in the retry policies and settings that its jobs meet, and most "
                 "likely not meant; not in lists of queues",
                 .is_set = has_warnings)},
};
const struct shape api_queue_shape = {.name = "Queue", SHAPE_MEMBERS(queue_members)};

static void on_queue(void *ctx, const struct reply *r)
{
    api_reply_part(ctx, r, 200, &api_queue_shape, r->queues);
}

static void on_created(void *ctx, const struct reply *r)
{
    api_reply_part(ctx, r, 201, &api_queue_shape, r->queues);
}

/* --- settings from a body --- */

/* null stands for the default, so each reader handles it. */
struct queue_fields {
    struct queue_command queue; /* must be first */
    struct field_part rate, backoff, retention;
};

/* Notes that the field is there; *clear if it is null. */
static struct err meet(struct json_cursor *c, void *out, unsigned fields, bool *clear)
{
    ((struct queue_command *)out)->set |= fields;
    return json_take_null(c, clear);
}

static struct err read_paused(struct json_cursor *c, struct arena *a, void *out)
{
    bool clear;
    TRY(meet(c, out, QUEUE_PAUSED, &clear));
    return clear ? err_none() : field_bool(c, a, &((struct queue_command *)out)->settings.paused);
}

static struct err read_limit(struct json_cursor *c, uint32_t *most)
{
    int64_t v;
    TRY(json_read_int(c, 1, QUEUE_CONCURRENCY_MAX, &v));
    *most = (uint32_t)v;
    return err_none();
}

static struct err read_concurrency(struct json_cursor *c, struct arena *a, void *out)
{
    bool clear;
    (void)a;
    TRY(meet(c, out, QUEUE_CONCURRENCY, &clear));
    return clear ? err_none() : read_limit(c, &((struct queue_command *)out)->settings.concurrency);
}

static struct err read_per_key(struct json_cursor *c, struct arena *a, void *out)
{
    struct queue_command *q = out;
    bool clear;
    (void)a;
    TRY(meet(c, out, QUEUE_PER_KEY, &clear));
    return clear ? err_none() : read_limit(c, &q->settings.concurrency_per_key);
}

static struct err read_rate(struct json_cursor *c, struct arena *a, void *out)
{
    bool clear;
    TRY(meet(c, out, QUEUE_RATE, &clear));
    return clear ? err_none() : field_part(c, a, &((struct queue_fields *)out)->rate);
}

static struct err read_retry_limit(struct json_cursor *c, struct arena *a, void *out)
{
    struct queue_command *q = out;
    bool clear;
    TRY(meet(c, out, QUEUE_RETRY_LIMIT, &clear));
    return clear ? err_none() : api_field_retry_limit(c, a, &q->settings.retry_limit);
}

static struct err read_backoff(struct json_cursor *c, struct arena *a, void *out)
{
    bool clear;
    TRY(meet(c, out, QUEUE_BACKOFF, &clear));
    return clear ? err_none() : field_part(c, a, &((struct queue_fields *)out)->backoff);
}

static struct err read_retention(struct json_cursor *c, struct arena *a, void *out)
{
    bool clear;
    TRY(json_take_null(c, &clear));
    if (!clear)
        return field_part(c, a, &((struct queue_fields *)out)->retention);
    ((struct queue_command *)out)->set |= QUEUE_COMPLETED | QUEUE_DEAD;
    return err_none();
}

static struct err read_policies(struct json_cursor *c, struct arena *a, void *out)
{
    bool clear;
    TRY(meet(c, out, QUEUE_POLICIES, &clear));
    return clear ? err_none()
                 : api_field_policies(c, a, &((struct queue_command *)out)->retry_policies);
}

static struct err read_no_policy(struct json_cursor *c, struct arena *a, void *out)
{
    struct queue_command *q = out;
    struct str word;
    bool clear;
    TRY(meet(c, out, QUEUE_NO_POLICY, &clear));
    if (clear)
        return err_none();
    TRY(field_text(c, a, &word));
    for (unsigned i = 0; i < 2; i++)
        if (str_eq(word, fallbacks[i]))
            q->settings.when_no_policy = (enum retry_fallback)(RETRY_FALLBACK_DEFAULT + i);
    if (q->settings.when_no_policy != RETRY_FALLBACK_UNSET)
        return err_none();
    return err_make(ERR_BAD_VALUE, "expected default or fail, not '%.*s'",
                    (int)(word.len < 32 ? word.len : 32), word.at);
}

static struct err read_max_run(struct json_cursor *c, struct arena *a, void *out)
{
    struct queue_command *q = out;
    uint64_t ms = 0;
    bool clear;
    TRY(meet(c, out, QUEUE_MAX_RUN, &clear));
    if (!clear)
        TRY(api_field_max_run(c, a, &ms));
    q->settings.max_run.ms = (int64_t)ms;
    return err_none();
}

static struct err read_kept(struct json_cursor *c, struct arena *a, void *out)
{
    enum json_type type;
    bool clear;
    TRY(meet(c, out, QUEUE_KEPT, &clear));
    if (clear)
        return err_none();
    TRY(json_peek(c, &type));
    if (type != JSON_OBJECT)
        return err_make(ERR_BAD_TYPE, "expected an object");
    return field_any(c, a, &((struct queue_command *)out)->kept);
}

static struct err read_name(struct json_cursor *c, struct arena *a, void *out)
{
    return api_field_name(c, a, &((struct queue_command *)out)->name);
}

static struct err pass_over(struct json_cursor *c, struct arena *a, void *out)
{
    (void)a;
    (void)out;
    return json_skip(c, NULL);
}

static const struct field queue_table[] = {
    {"name", false, read_name, 0, .doc = "name 1..$: of the queue", .most = JOB_NAME_MAX},
    {"paused", false, read_paused, 0, .doc = "boolean?"},
    {"concurrency", false, read_concurrency, 0, .doc = "integer 1..$?",
     .most = QUEUE_CONCURRENCY_MAX},
    {"concurrency_per_key", false, read_per_key, 0, .doc = "integer 1..$?",
     .most = QUEUE_CONCURRENCY_MAX},
    {"rate", false, read_rate, 0, .doc = "RateInput?"},
    {"retry_limit", false, read_retry_limit, 0, .doc = "integer 0..$?",
     .most = JOB_RETRY_LIMIT_MAX},
    {"backoff", false, read_backoff, 0, .doc = "Backoff?"},
    {"retention", false, read_retention, 0, .doc = "RetentionLimitsInput?"},
    {"retry_policies", false, read_policies, 0, .doc = "name 1..255[..$]?",
     .most = API_POLICIES_MAX},
    {"when_no_policy", false, read_no_policy, 0, .doc = "string /^(default|fail)$/?"},
    {"max_run_ms", false, read_max_run, 0, .doc = "integer 1..?: how long one run may take"},
    {"armada", false, read_kept, 0,
     .doc = "object?: what a queue of Armada's says; it is kept and shown, and has no effect"},
    /* of an answer that is sent back */
    {"configured", false, pass_over, 0,
     .doc = "any: of an answer that is sent back; without effect"},
    {"jobs", false, pass_over, 0, .doc = "any: likewise"},
    {"oldest_ready_age_ms", false, pass_over, 0, .doc = "any: likewise"},
    {"warnings", false, pass_over, 0, .doc = "any: likewise"},
};
const struct api_body api_queue_body = {.name = "QueueSettings", API_FIELDS(queue_table)};
const struct api_body api_named_queue_body = {
    .name = "NamedQueueSettings", API_FIELDS(queue_table), .rules = "any name"};

static struct err read_tokens(struct json_cursor *c, struct arena *a, void *out)
{
    int64_t v;
    (void)a;
    TRY(json_read_int(c, 1, RATE_COUNT_MAX, &v));
    *(uint32_t *)out = (uint32_t)v;
    return err_none();
}

static struct err read_per(struct json_cursor *c, struct arena *a, void *out)
{
    (void)a;
    return json_read_int(c, 1, RATE_PER_MAX.ms, &((span *)out)->ms);
}

static const struct field rate_table[] = {
    {"count", true, read_tokens, offsetof(struct rate, count), .doc = "integer 1..$",
     .most = RATE_COUNT_MAX},
    {"per_ms", true, read_per, offsetof(struct rate, per), .doc = "integer 1..$",
     .most = RATE_PER_MAX_MS},
    {"burst", false, read_tokens, offsetof(struct rate, burst), true, "integer 1..$",
     RATE_COUNT_MAX},
};
const struct api_body api_rate_body = {.name = "RateInput", API_FIELDS(rate_table)};

static struct err read_completed(struct json_cursor *c, struct arena *a, void *out)
{
    struct queue_command *q = out;
    bool clear;
    TRY(meet(c, out, QUEUE_COMPLETED, &clear));
    return clear ? err_none() : field_span(c, a, &q->settings.completed_retention);
}

static struct err read_dead(struct json_cursor *c, struct arena *a, void *out)
{
    struct queue_command *q = out;
    bool clear;
    TRY(meet(c, out, QUEUE_DEAD, &clear));
    return clear ? err_none() : field_span(c, a, &q->settings.dead_retention);
}

static const struct field retention_table[] = {
    {"completed_ms", false, read_completed, 0, .doc = "integer 0..?"},
    {"dead_ms", false, read_dead, 0, .doc = "integer 0..?"},
};
const struct api_body api_queue_retention_body = {.name = "RetentionLimitsInput",
                                                  API_FIELDS(retention_table)};

static struct err decode_objects(const struct api *a, struct arena *arena, struct queue_fields *f)
{
    struct queue_settings *s = &f->queue.settings;
    TRY(field_read_part(a->strict, &f->rate, arena, rate_table, COUNT(rate_table), "rate",
                        &s->rate));
    if (f->rate.given && s->rate.burst == 0)
        s->rate.burst = s->rate.count;
    if (f->backoff.given) {
        struct err err = api_decode_backoff(a, &f->backoff.at, arena, &s->backoff);
        if (err.code != ERR_OK)
            return field_in(err, "backoff");
    }
    return field_read_part(a->strict, &f->retention, arena, retention_table, COUNT(retention_table),
                           "retention", &f->queue);
}

/* name: of the path, or empty if the body must have it. */
static struct err decode(const struct api *a, const struct http_request *req, struct str name,
                         struct queue_command *out)
{
    struct queue_fields f = {.queue.settings = QUEUE_SETTINGS_DEFAULT};
    TRY(api_decode_body(a, req, queue_table, COUNT(queue_table), false, &f));
    TRY(decode_objects(a, req->arena, &f));
    if (f.queue.name.len == 0 && name.len == 0)
        return err_make(ERR_MISSING_FIELD, "name is required");
    if (f.queue.name.len && name.len && !str_eq(f.queue.name, name))
        return err_make(ERR_UNPROCESSABLE, "name: expected the one in the path, '%.*s'",
                        (int)(name.len < 64 ? name.len : 64), name.at);
    if (name.len)
        f.queue.name = name;
    *out = f.queue;
    return err_none();
}

/* --- endpoints --- */

void api_queue_create(struct api *a, const struct api_request *r)
{
    struct command c = {.kind = CMD_QUEUE_PUT, .done = on_created};
    struct err err = decode(a, r->http, (struct str){0}, &c.queue);
    if (err.code == ERR_OK)
        err = api_may_queue(r, c.queue.name);
    c.queue.create = true;
    c.queue.set = QUEUE_ALL;
    api_submit(a, r, &c, err);
}

static void change(struct api *a, const struct api_request *r, struct str name, unsigned set)
{
    struct command c = {.kind = CMD_QUEUE_PUT, .done = on_queue};
    struct err err = job_check_name(name, "a queue");
    if (err.code == ERR_OK)
        err = api_may_queue(r, name);
    if (err.code == ERR_OK)
        err = decode(a, r->http, name, &c.queue);
    c.queue.set |= set;
    api_submit(a, r, &c, err);
}

void api_queue_put(struct api *a, const struct api_request *r)
{
    change(a, r, r->params->at[0], QUEUE_ALL);
}

void api_queue_patch(struct api *a, const struct api_request *r)
{
    change(a, r, r->params->at[0], 0);
}

static void ask(struct api *a, const struct api_request *r, struct str name, enum command_kind kind,
                reply_fn done)
{
    struct command c = {.kind = kind, .done = done, .queue.name = name};
    struct err err = job_check_name(name, "a queue");
    if (err.code == ERR_OK)
        err = api_may_queue(r, name);
    api_submit(a, r, &c, err.code == ERR_OK ? api_check_media(r->http) : err);
}

void api_queue_read(struct api *a, const struct api_request *r)
{
    ask(a, r, r->params->at[0], CMD_QUEUE_READ, on_queue);
}

void api_queue_remove(struct api *a, const struct api_request *r)
{
    ask(a, r, r->params->at[0], CMD_QUEUE_REMOVE, api_reply_empty);
}

/* --- lists --- */

static const struct shape_member names_members[] = {
    {MEMBER_LIST(struct reply, names, count, "queues", ALWAYS, NULL)},
};
const struct shape api_queue_names_shape = {.name = "QueueNames", SHAPE_MEMBERS(names_members)};

static void on_names(void *ctx, const struct reply *r)
{
    api_reply_shape(ctx, r, 200, &api_queue_names_shape);
}

struct page_call {
    struct call call; /* must be first */
    struct str from;
    uint32_t limit;
};

static void write_link(struct buf *b, const struct page_call *p, struct str from)
{
    buf_lit(b, "\"/queues?details=true");
    if (from.len) {
        buf_lit(b, "&from=");
        query_write(b, from);
    }
    buf_print(b, "&limit=%u\"", p->limit);
}

struct queue_page {
    const struct page_call *call;
    const struct queue_shown *queues;
    size_t count;
    struct str next; /* where the next page begins; empty: there is none */
};

static void write_self(struct buf *b, const void *queue_page)
{
    const struct queue_page *p = queue_page;
    write_link(b, p->call, p->call->from);
}

static void write_next(struct buf *b, const void *queue_page)
{
    const struct queue_page *p = queue_page;
    write_link(b, p->call, p->next);
}

static bool has_next(const void *queue_page)
{
    return ((const struct queue_page *)queue_page)->next.len != 0;
}

static const struct shape_member links_members[] = {
    {MEMBER_MADE("self", ALWAYS, "string", write_self, NULL)},
    {MEMBER_MADE("next", OR_NULL, "string", write_next, "if more follows", .is_set = has_next)},
};
static const struct shape links_shape = {SHAPE_MEMBERS(links_members),
                                         .doc = "paths of the pages around"};

static const struct shape_member queue_page_members[] = {
    {MEMBER_OBJECTS(struct queue_page, queues, count, "queues", ALWAYS, &api_queue_shape, NULL)},
    {MEMBER_INNER("pages", ALWAYS, &links_shape, NULL)},
};
const struct shape api_queue_page_shape = {.name = "QueuePage", SHAPE_MEMBERS(queue_page_members)};

static void on_page(void *ctx, const struct reply *r)
{
    struct page_call *p = ctx;
    if (api_reply_failed(p->call.x, r))
        return;
    struct buf *b = &p->call.api->scratch;
    struct queue_page page = {p, r->queues, r->count, (struct str){0}};
    if (r->more)
        page.next = r->queues[r->count - 1].view.name;
    b->len = 0;
    shape_write(b, &api_queue_page_shape, &page, SHAPE_AS_IT_IS);
    api_reply_json(p->call.x, 200, b);
}

struct list_query {
    bool details;
    struct str from;
    int64_t limit;
};

const struct api_param api_queues_params[] = {
    {"details", "boolean: whether the queues themselves are wanted"},
    {"limit", "integer 1..$: of a page", .most = BACKEND_PAGE_MAX},
    {"from", "string: a name, exclusive"},
    {NULL, NULL}};

static struct err read_query(const struct http_request *req, struct list_query *l)
{
    struct query_cursor q = query_open(req->query, req->arena);
    struct str name, value;
    unsigned seen = 0;
    *l = (struct list_query){.limit = LIMIT_DEFAULT};
    for (bool more;;) {
        TRY(query_next(&q, &more, &name, &value));
        if (!more)
            return err_none();
        TRY(api_param_once(name, api_queues_params, &seen));
        if (str_eq(name, STR("details"))) {
            l->details = str_eq(value, STR("true"));
            if (!l->details && !str_eq(value, STR("false")))
                return err_make(ERR_BAD_VALUE, "details is true or false");
        } else if (str_eq(name, STR("from"))) {
            TRY(job_check_name(value, "from"));
            l->from = value;
        } else if (str_eq(name, STR("limit"))) {
            TRY(api_read_number(value, "limit", 1, BACKEND_PAGE_MAX, &l->limit));
        } else {
            return api_unknown_param(name);
        }
    }
}

void api_queues(struct api *a, const struct api_request *r)
{
    struct list_query l;
    struct err err = api_check_media(r->http);
    if (err.code == ERR_OK)
        err = read_query(r->http, &l);
    if (err.code != ERR_OK) {
        api_reply_error(r->x, &err, NULL);
        return;
    }
    if (!l.details) {
        struct command c = {.kind = CMD_QUEUES, .done = on_names, .ctx = api_call(a, r)};
        api_send(a, r, &c);
        return;
    }
    struct page_call *p = ARENA_NEW(r->http->arena, struct page_call);
    *p = (struct page_call){{a, r->x}, arena_copy(r->http->arena, l.from), (uint32_t)l.limit};
    struct command c = {.kind = CMD_QUEUE_LIST,
                        .done = on_page,
                        .ctx = p,
                        .queue = {.name = l.from, .limit = p->limit}};
    api_send(a, r, &c);
}
