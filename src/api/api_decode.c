/* SPDX-License-Identifier: Apache-2.0 */

/* From JSON to commands. Objects are described by tables of fields. */

#include <stdio.h>

#include "api/api_routes.h"
#include "base/array.h"
#include "base/quantity.h"
#include "base/must.h"
#include "core/depend.h"
#include "core/trace.h"

/* --- values --- */

struct err api_field_name(struct json_cursor *c, struct arena *a, void *str)
{
    TRY(field_text(c, a, str));
    return job_check_name(*(struct str *)str, "a name");
}

struct err api_field_label(struct json_cursor *c, struct arena *a, void *str)
{
    struct str *text = str;
    TRY(field_text(c, a, text));
    if (text->len <= JOB_NAME_MAX)
        return err_none();
    return err_make(ERR_BAD_VALUE, "at most %d bytes, not %zu", JOB_NAME_MAX, text->len);
}

/* A name that is given twice counts once: or a count would count its jobs twice. */
static struct err add_name(struct arena *a, struct str **names, size_t *count, struct str name)
{
    for (size_t i = 0; i < *count; i++)
        if (str_eq((*names)[i], name))
            return err_none();
    if (*count == API_NAMES_MAX)
        return err_make(ERR_TOO_MANY, "more than %d names", API_NAMES_MAX);
    if ((*count & (*count - 1)) == 0) { /* grows at powers of two */
        struct str *grown = arena_get(a, (*count ? *count * 2 : 1) * sizeof *grown);
        if (*count)
            memcpy(grown, *names, *count * sizeof *grown);
        *names = grown;
    }
    (*names)[(*count)++] = name;
    return err_none();
}

struct err api_field_names(struct json_cursor *c, struct arena *a, void *name_list)
{
    struct name_list *list = name_list;
    struct str *names = NULL;
    bool more;
    list->count = 0;
    TRY(json_enter_array(c));
    for (;;) {
        struct str name;
        TRY(json_next_element(c, &more));
        if (!more)
            break;
        TRY(api_field_name(c, a, &name));
        TRY(add_name(a, &names, &list->count, name));
    }
    list->at = names;
    return err_none();
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

struct err api_field_token(struct json_cursor *c, struct arena *a, void *u64)
{
    struct str text;
    TRY(field_text(c, a, &text));
    uint64_t token = 0;
    bool good = text.len == 16;
    for (size_t i = 0; good && i < text.len; i++) {
        int digit = hex_digit(text.at[i]);
        good = digit >= 0;
        token = token << 4 | (uint64_t)(digit & 15);
    }
    if (!good || token == 0)
        return err_make(ERR_BAD_VALUE, "a token is 16 hexadecimal digits, as it was handed out");
    *(uint64_t *)u64 = token;
    return err_none();
}

struct err api_field_run(struct json_cursor *c, struct arena *a, void *out)
{
    struct run_ref *run = out;
    int64_t index;
    (void)a;
    TRY(json_read_int(c, 0, UINT32_MAX, &index));
    run->by_index = true;
    run->index = (uint32_t)index;
    return err_none();
}

struct err api_field_priority(struct json_cursor *c, struct arena *a, void *out)
{
    (void)a;
    int64_t v;
    TRY(json_read_int(c, 0, UINT16_MAX, &v));
    *(uint16_t *)out = (uint16_t)v;
    return err_none();
}

struct err api_field_retry_limit(struct json_cursor *c, struct arena *a, void *out)
{
    (void)a;
    int64_t v;
    TRY(json_read_int(c, 0, JOB_RETRY_LIMIT_MAX, &v));
    *(int64_t *)out = v;
    return err_none();
}

#define EXPONENT_MAX 100

static struct err read_exponent(struct json_cursor *c, struct arena *a, void *out)
{
    (void)a;
    return json_read_double(c, 0, EXPONENT_MAX, out);
}

static struct err read_unique_key(struct json_cursor *c, struct arena *a, void *out)
{
    struct str *key = out;
    TRY(field_text(c, a, key));
    if (key->len > 0 && key->len <= JOB_UNIQUE_KEY_MAX)
        return err_none();
    return err_make(ERR_BAD_VALUE, "1 to %d bytes, not %zu", JOB_UNIQUE_KEY_MAX, key->len);
}

static struct err read_concurrency_key(struct json_cursor *c, struct arena *a, void *out)
{
    struct str *key = out;
    TRY(field_text(c, a, key));
    if (key->len > 0 && key->len <= JOB_CONCURRENCY_KEY_MAX)
        return err_none();
    return err_make(ERR_BAD_VALUE, "1 to %d bytes, not %zu", JOB_CONCURRENCY_KEY_MAX, key->len);
}

static struct err read_traceparent(struct json_cursor *c, struct arena *a, void *out)
{
    struct str *text = out;
    TRY(field_text(c, a, text));
    if (trace_is_parent(*text))
        return err_none();
    return err_make(ERR_BAD_VALUE, "a traceparent is like "
                                   "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
}

static struct err read_tracestate(struct json_cursor *c, struct arena *a, void *out)
{
    struct str *text = out;
    TRY(field_text(c, a, text));
    if (trace_is_state(*text))
        return err_none();
    return err_make(ERR_BAD_VALUE, "a tracestate has 1 to %d printable ASCII characters",
                    TRACE_STATE_MAX);
}

static struct err read_alias(struct json_cursor *c, struct arena *a, void *out)
{
    struct str *alias = out;
    TRY(field_text(c, a, alias));
    return job_check_name(*alias, "alias");
}

/* The engine checks whether it has passed: it has the clock. */
static struct err read_deadline(struct json_cursor *c, struct arena *a, void *out)
{
    instant *deadline = out;
    TRY(field_instant(c, a, deadline));
    return deadline->ms > 0 ? err_none() : err_make(ERR_BAD_VALUE, "a time after 1970");
}

/* As a number, 0 or 1. */
static struct err read_flag(struct json_cursor *c, struct arena *a, void *out)
{
    bool on = false;
    TRY(field_bool(c, a, &on));
    *(uint64_t *)out = on;
    return err_none();
}

struct err api_field_max_run(struct json_cursor *c, struct arena *a, void *out)
{
    int64_t ms;
    (void)a;
    TRY(json_read_int(c, 1, SPAN_MAX_MS, &ms));
    *(uint64_t *)out = (uint64_t)ms;
    return err_none();
}

static struct err read_when_no_policy(struct json_cursor *c, struct arena *a, void *out)
{
    struct str name;
    TRY(field_text(c, a, &name));
    bool fail = str_eq(name, STR("fail"));
    *(uint64_t *)out = fail ? RETRY_FALLBACK_FAIL : RETRY_FALLBACK_DEFAULT;
    if (fail || str_eq(name, STR("default")))
        return err_none();
    return err_make(ERR_BAD_VALUE, "default or fail, not '%.*s'",
                    (int)(name.len < 32 ? name.len : 32), name.at);
}

static struct err read_unique_while(struct json_cursor *c, struct arena *a, void *out)
{
    struct str name;
    TRY(field_text(c, a, &name));
    if (job_unique_parse(name, out))
        return err_none();
    return err_make(ERR_BAD_VALUE, "queued, active or exists, not '%.*s'",
                    (int)(name.len < 32 ? name.len : 32), name.at);
}

static struct err read_batch_key(struct json_cursor *c, struct arena *a, void *out)
{
    struct str *key = out;
    TRY(field_text(c, a, key));
    if (key->len > 0 && key->len <= JOB_BATCH_KEY_MAX)
        return err_none();
    return err_make(ERR_BAD_VALUE, "1 to %d bytes, not %zu", JOB_BATCH_KEY_MAX, key->len);
}

static struct err read_expression(struct json_cursor *c, struct arena *a, void *out)
{
    struct str *text = out;
    TRY(field_text(c, a, text));
    if (text->len <= JOB_BATCH_EXPR_MAX)
        return err_none();
    return err_make(ERR_BAD_VALUE, "an expression has at most %d bytes, not %zu",
                    JOB_BATCH_EXPR_MAX, text->len);
}

/* --- objects --- */

struct err api_decode_body(const struct api *a, const struct http_request *req,
                           const struct field *fields, size_t count, bool empty_ok, void *out)
{
    TRY(api_check_media(req));
    if (empty_ok && req->body.len == 0)
        return err_none();
    struct json_cursor c = json_open(req->body);
    TRY(field_read_object(a->strict, &c, req->arena, fields, count, out));
    return json_close(&c);
}

/* Names of retry policies, put together as they are stored: "a,b". Such a name has no comma. */
struct err api_field_policies(struct json_cursor *c, struct arena *a, void *out)
{
    struct name_list list;
    size_t len = 0;
    TRY(api_field_names(c, a, &list));
    if (list.count > API_POLICIES_MAX)
        return err_make(ERR_TOO_MANY, "at most %d retry policies", API_POLICIES_MAX);
    for (size_t i = 0; i < list.count; i++)
        len += list.at[i].len + 1;
    char *text = arena_get(a, len + 1);
    struct str joined = {text, 0};
    for (size_t i = 0; i < list.count; i++) {
        if (i)
            text[joined.len++] = ',';
        memcpy(text + joined.len, list.at[i].at, list.at[i].len);
        joined.len += list.at[i].len;
    }
    *(struct str *)out = joined;
    return err_none();
}

/* --- a job --- */

/* A nested table needs the api for its strictness, so parts are read by api_decode_job itself. */
struct job_fields {
    struct enqueue spec;
    struct field_part backoff, retention, batch, resources, gang, budgets, annotations;
};

static struct err read_cardinality(struct json_cursor *c, struct arena *a, void *out)
{
    (void)a;
    int64_t v;
    TRY(json_read_int(c, 1, JOB_GANG_MAX, &v));
    *(uint64_t *)out = (uint64_t)v;
    return err_none();
}

/* As text, or as a number. */
static struct err read_amount(struct json_cursor *c, struct arena *a, struct str *text)
{
    struct json_cursor at = *c;
    struct json_string s;
    if (json_read_string(c, &s).code == ERR_OK)
        return json_text(s, a, text);
    *c = at;
    return json_skip(c, text);
}

static struct err read_quantity(struct json_cursor *c, struct arena *a, void *out)
{
    struct str text;
    TRY(read_amount(c, a, &text));
    if (quantity_parse(text, out))
        return err_none();
    return err_make(ERR_BAD_VALUE, QUANTITY_EXPECTED ", not '%.*s'",
                    (int)(text.len < 32 ? text.len : 32), text.at);
}

static struct err read_cpu(struct json_cursor *c, struct arena *a, void *out)
{
    struct str text;
    TRY(read_amount(c, a, &text));
    if (quantity_parse_cpu(text, out))
        return err_none();
    return err_make(ERR_BAD_VALUE, QUANTITY_CPU_EXPECTED ", not '%.*s'",
                    (int)(text.len < 32 ? text.len : 32), text.at);
}

#define SPEC(member) offsetof(struct job_fields, spec.member)
#define PART(member) offsetof(struct job_fields, member)

static const struct field job_table[] = {
    {"queue", true, api_field_name, SPEC(queue), .doc = "name 1..$: where", .most = JOB_NAME_MAX},
    {"type", true, api_field_name, SPEC(type), .doc = "name 1..$: what", .most = JOB_NAME_MAX},
    {"payload", true, field_any, SPEC(payload), .doc = "any: any JSON"},
    {"priority", false, api_field_priority, SPEC(priority), true, "integer 0..$: lower goes first",
     UINT16_MAX},
    {"ready_at", false, field_instant, SPEC(ready_at), true,
     "integer 0..: not before, milliseconds since 1970 (UTC)"},
    {"retry_limit", false, api_field_retry_limit, SPEC(retry_limit), true, "integer 0..$",
     JOB_RETRY_LIMIT_MAX},
    {"backoff", false, field_part, PART(backoff), true, "Backoff"},
    {"retention", false, field_part, PART(retention), true, "RetentionInput"},
    {"unique_key", false, read_unique_key, SPEC(unique_key), true, "string 1..$",
     JOB_UNIQUE_KEY_MAX},
    {"unique_while", false, read_unique_while, SPEC(unique_while), true,
     "string (queued|active|exists)"},
    {"batch", false, field_part, PART(batch), true, "Batch"},
    {"resources", false, field_part, PART(resources), true, "ResourcesInput"},
    {"gang", false, field_part, PART(gang), true, "GangInput"},
    {"budgets", false, field_part, PART(budgets), true,
     "BudgetBindingInput[..$]: what it draws on which", BUDGET_BINDINGS_MAX},
    {"retry_policies", false, api_field_policies, SPEC(options.retry_policies), true,
     "name 1..255[..$]", API_POLICIES_MAX},
    {"annotations", false, field_part, PART(annotations), true, "AnnotationsInput"},
    {"concurrency_key", false, read_concurrency_key, SPEC(options.concurrency_key), true,
     "string 1..$", JOB_CONCURRENCY_KEY_MAX},
    {"alias", false, read_alias, SPEC(options.alias), true, "name 1..$", JOB_NAME_MAX},
    {"deadline", false, read_deadline, SPEC(options.deadline), true,
     "integer 1..: by when it has to be done, milliseconds since 1970 (UTC)"},
    {"retain_until", false, read_deadline, SPEC(options.retain_until), true,
     "integer 1..: once ended it is kept until then, milliseconds since 1970 (UTC)"},
    {"max_run_ms", false, api_field_max_run, SPEC(options.max_run), true,
     "integer 1..: how long one run may take"},
    {"retry_for_ms", false, api_field_max_run, SPEC(options.retry_for), true,
     "integer 1..: how long after the first failure a retry may begin"},
    {"when_no_policy", false, read_when_no_policy, SPEC(options.when_no_policy), true,
     "string (default|fail): what becomes of a failure that no retry policy decides about"},
    {"group", false, api_field_name, SPEC(options.group), true,
     "name 1..$: of jobs that belong together", JOB_GROUP_MAX},
    {"group_owner", false, api_field_name, SPEC(options.group_owner), true,
     "name 1..$: whom the group belongs to; the same for all of its jobs", JOB_GROUP_MAX},
    {"traceparent", false, read_traceparent, SPEC(options.traceparent), true,
     "string /^00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$/: the trace that it belongs to (W3C Trace "
     "Context), instead of the header's"},
    {"tracestate", false, read_tracestate, SPEC(options.tracestate), true,
     "string 1..$: only with traceparent", TRACE_STATE_MAX},
    {"pending_runs", false, read_flag, SPEC(options.pending_runs), true,
     "boolean: its runs begin when it becomes ready, and one that ends before is recorded, too"},
    {"fail_fast", false, read_flag, SPEC(options.fail_fast), true,
     "boolean: its first failure is final: no policy and no limit grants a retry"},
    {"hold", false, read_flag, SPEC(options.hold), true,
     "boolean: it is blocked until a patch of depends_on to null frees it"},
    {"depends_on", false, api_field_depends_on, SPEC(options.depends_on), true,
     "Dependency[..$]: jobs to wait for", DEPEND_MAX},
    {"when", false, api_field_depend_when, SPEC(options.depend_when), true,
     "string (all_completed|all_ended)"},
    {"on_dependency_death", false, api_field_depend_death, SPEC(options.depend_death), true,
     "string (block|run|die)"},
};
#define JOB_RULES                                                                                  \
    "unique_while needs unique_key; tracestate needs traceparent; group_owner needs group; "       \
    "gang excludes concurrency_key batch unique_key; batch excludes alias deadline group "         \
    "unique_key"
const struct api_body api_job_body = {.name = "JobInput",
                                      API_FIELDS(job_table),
                                      .rules =
                                          JOB_RULES "; depends_on excludes batch; batch off hold"};
/* The same members; api_cron.c refuses those that are about one job alone. */
const struct api_body api_template_body = {
    .name = "JobTemplate",
    API_FIELDS(job_table),
    .rules =
        JOB_RULES "; without ready_at alias deadline retain_until depends_on group gang; off hold"};

/* Less a second there is no wait at all where the exponent is 0. */
static struct err read_base(struct json_cursor *c, struct arena *a, void *d)
{
    (void)a;
    return json_read_int(c, -1000, SPAN_MAX_MS, &((span *)d)->ms);
}

static const struct field backoff_table[] = {
    {"base_ms", true, read_base, offsetof(struct curve, base), .doc = "integer -1000.."},
    {"exponent", true, read_exponent, offsetof(struct curve, exponent), .doc = "number 0..$",
     .most = EXPONENT_MAX},
    {"jitter_ms", true, field_span, offsetof(struct curve, jitter), .doc = "integer 0.."},
};
const struct api_body api_backoff_body = {
    .name = "Backoff",
    API_FIELDS(backoff_table),
    .closed = true,
    .doc = "object: the wait before a retry: base + attempt^exponent seconds + attempt * "
           "rand(0..jitter)"};

static const struct field retention_table[] = {
    {"completed_ms", false, field_span, offsetof(struct enqueue, completed_retention), true,
     "integer 0.."},
    {"dead_ms", false, field_span, offsetof(struct enqueue, dead_retention), true, "integer 0.."},
};
const struct api_body api_retention_body = {.name = "RetentionInput",
                                            API_FIELDS(retention_table),
                                            .doc = "object: how long an ended job is kept"};

static const struct field batch_table[] = {
    {"key", true, read_batch_key, offsetof(struct job_batch, key), .doc = "string 1..$",
     .most = JOB_BATCH_KEY_MAX},
    {"when", true, read_expression, offsetof(struct job_batch, when),
     .doc = "string 0..$ @jq: whether to fold", .most = JOB_BATCH_EXPR_MAX},
    {"fold", true, read_expression, offsetof(struct job_batch, fold),
     .doc = "string 0..$ @jq: into what", .most = JOB_BATCH_EXPR_MAX},
};
const struct api_body api_batch_body = {.name = "Batch", API_FIELDS(batch_table), .closed = true};

static const struct field gang_table[] = {
    {"id", true, api_field_name, offsetof(struct job_options, gang), .doc = "name 1..$",
     .most = JOB_NAME_MAX},
    {"cardinality", true, read_cardinality, offsetof(struct job_options, gang_size),
     .doc = "integer 1..$", .most = JOB_GANG_MAX},
};
const struct api_body api_gang_body = {.name = "GangInput", API_FIELDS(gang_table)};

static const struct field resources_table[] = {
    {"memory", false, read_quantity, offsetof(struct job_options, memory), true, "Quantity"},
    {"cpu", false, read_cpu, offsetof(struct job_options, cpu), true, "CpuQuantity"},
};
const struct api_body api_resources_body = {
    .name = "ResourcesInput", API_FIELDS(resources_table), .doc = "object: what a run needs"};

struct err api_decode_backoff(const struct api *a, struct json_cursor *c, struct arena *arena,
                              struct curve *out)
{
    out->shape = CURVE_POWER;
    return field_read_object(a->strict, c, arena, backoff_table, COUNT(backoff_table), out);
}

static bool has_parts(const struct job_fields *f)
{
    return f->backoff.given || f->retention.given || f->batch.given || f->resources.given ||
           f->gang.given || f->budgets.given || f->annotations.given;
}

static struct err read_parts(const struct api *a, struct job_fields *f, struct arena *arena)
{
    struct enqueue *spec = &f->spec;
    if (!has_parts(f))
        return err_none();
    if (f->backoff.given)
        spec->backoff.shape = CURVE_POWER;
    TRY(field_read_part(a->strict, &f->backoff, arena, backoff_table, COUNT(backoff_table),
                        "backoff", &spec->backoff));
    TRY(field_read_part(a->strict, &f->retention, arena, retention_table, COUNT(retention_table),
                        "retention", spec));
    TRY(field_read_part(a->strict, &f->batch, arena, batch_table, COUNT(batch_table), "batch",
                        &spec->batch));
    TRY(field_read_part(a->strict, &f->resources, arena, resources_table, COUNT(resources_table),
                        "resources", &spec->options));
    TRY(field_read_part(a->strict, &f->gang, arena, gang_table, COUNT(gang_table), "gang",
                        &spec->options));
    struct err err = err_none();
    if (f->budgets.given)
        err = api_decode_budgets(a, &f->budgets.at, arena, spec);
    if (err.code != ERR_OK)
        return field_in(err, "budgets");
    if (!f->annotations.given)
        return err_none();
    err = api_decode_annotations(a->strict, &f->annotations.at, arena, &spec->options);
    return err.code == ERR_OK ? err : field_in(err, "annotations");
}

/* What a job may not have at once. */
static struct err check_parts(const struct job_fields *f)
{
    const struct enqueue *spec = &f->spec;
    if (spec->options.tracestate.len && !spec->options.traceparent.len)
        return err_make(ERR_BAD_VALUE, "tracestate: it is nothing without a traceparent");
    if (spec->options.gang.len && spec->options.concurrency_key.len)
        return err_make(ERR_BAD_VALUE, "gang: its members are handed out together, or not at all; "
                                       "they have no concurrency_key");
    if (spec->options.gang.len && (f->batch.given || spec->unique_while))
        return err_make(ERR_BAD_VALUE,
                        "gang: its members are jobs of their own, without a batch or a unique_key");
    if (f->batch.given && (spec->options.alias.len || spec->options.deadline.ms))
        return err_make(ERR_BAD_VALUE,
                        "a job with a batch takes in others; it has neither alias nor deadline");
    if (f->batch.given && spec->options.group.len)
        return err_make(ERR_BAD_VALUE, "a job with a batch takes in others; it has no group");
    if (spec->options.group_owner.len && !spec->options.group.len)
        return err_make(ERR_MISSING_FIELD, "group_owner needs a group");
    if (f->batch.given && spec->unique_while)
        return err_make(ERR_BAD_VALUE, "a job has a batch or a unique_key, not both");
    return api_check_depends(spec);
}

struct err api_decode_job(const struct api *a, struct json_cursor *c, struct arena *arena,
                          struct enqueue *out)
{
    struct job_fields f = {.spec = {.priority = JOB_PRIORITY_DEFAULT,
                                    .ready_at = INSTANT_NONE,
                                    .retry_limit = RETRY_LIMIT_DEFAULT,
                                    .completed_retention = RETENTION_DEFAULT,
                                    .dead_retention = RETENTION_DEFAULT}};
    struct err err = err_none();
    TRY(field_read_object(a->strict, c, arena, job_table, COUNT(job_table), &f));
    if (f.spec.unique_while && !f.spec.unique_key.len)
        return err_make(ERR_MISSING_FIELD, "unique_while needs a unique_key");
    if (f.spec.unique_key.len && !f.spec.unique_while)
        f.spec.unique_while = UNIQUE_QUEUED;
    TRY(read_parts(a, &f, arena));
    err = api_decode_payload_annotations(f.spec.payload, arena, &f.spec.options);
    if (err.code != ERR_OK)
        return field_in(field_in(err, "annotations"), "payload");
    TRY(check_parts(&f));
    *out = f.spec;
    return err_none();
}

struct err api_decode_names(struct str list, const char *what, struct arena *arena,
                            const struct str **names, size_t *count)
{
    struct str *out = NULL;
    struct str item;
    *count = 0;
    while (query_item(&list, &item)) {
        TRY(job_check_name(item, what));
        TRY(add_name(arena, &out, count, item));
    }
    *names = out;
    return err_none();
}

struct err api_unknown_param(struct str name)
{
    return err_make(ERR_UNKNOWN_FIELD, "unknown parameter '%.*s'",
                    (int)(name.len < 64 ? name.len : 64), name.at);
}

struct err api_param_once(struct str name, const struct api_param *params, unsigned *seen)
{
    for (unsigned i = 0; params[i].name; i++) {
        if (params[i].header || !str_eq(name, str_from(params[i].name)))
            continue;
        if (*seen & 1u << i)
            return err_make(ERR_DUPLICATE_FIELD, "the parameter %s is given twice", params[i].name);
        *seen |= 1u << i;
    }
    return err_none();
}
