/* SPDX-License-Identifier: Apache-2.0 */

/* The body of a patch of jobs. */

#include "api/api_routes.h"
#include "base/array.h"

/* null has a meaning here, so each reader handles it. */
struct patch_fields {
    struct patch patch;
    struct field_part backoff, retention;
};

/* These have no default that null could restore: 422, as for an invalid name of a queue. Malformed
 * values and values out of range are 400, as everywhere. */
static struct err refuse_null(struct json_cursor *c)
{
    bool null;
    TRY(json_take_null(c, &null));
    return null ? err_make(ERR_UNPROCESSABLE, "cannot be null") : err_none();
}

static struct err patch_queue(struct json_cursor *c, struct arena *a, void *out)
{
    struct patch *p = out;
    p->set |= PATCH_QUEUE;
    TRY(refuse_null(c));
    struct err err = api_field_name(c, a, &p->queue);
    if (err.code == ERR_BAD_NAME)
        err.code = ERR_UNPROCESSABLE;
    return err;
}

static struct err patch_priority(struct json_cursor *c, struct arena *a, void *out)
{
    struct patch *p = out;
    p->set |= PATCH_PRIORITY;
    TRY(refuse_null(c));
    return api_field_priority(c, a, &p->priority);
}

static struct err patch_ready_at(struct json_cursor *c, struct arena *a, void *out)
{
    struct patch *p = out;
    bool clear;
    p->set |= PATCH_READY_AT;
    p->ready_at = INSTANT_NONE;
    TRY(json_take_null(c, &clear));
    return clear ? err_none() : field_instant(c, a, &p->ready_at);
}

static struct err patch_retry_limit(struct json_cursor *c, struct arena *a, void *out)
{
    struct patch *p = out;
    bool clear;
    p->set |= PATCH_RETRY_LIMIT;
    p->retry_limit = RETRY_LIMIT_DEFAULT;
    TRY(json_take_null(c, &clear));
    return clear ? err_none() : api_field_retry_limit(c, a, &p->retry_limit);
}

static struct err patch_backoff(struct json_cursor *c, struct arena *a, void *out)
{
    struct patch_fields *f = out;
    bool clear;
    f->patch.set |= PATCH_BACKOFF;
    TRY(json_take_null(c, &clear));
    return clear ? err_none() : field_part(c, a, &f->backoff);
}

static struct err patch_max_run(struct json_cursor *c, struct arena *a, void *out)
{
    struct patch *p = out;
    bool clear;
    p->set |= PATCH_MAX_RUN;
    p->max_run = 0;
    TRY(json_take_null(c, &clear));
    return clear ? err_none() : api_field_max_run(c, a, &p->max_run);
}

static struct err patch_retry_for(struct json_cursor *c, struct arena *a, void *out)
{
    struct patch *p = out;
    bool clear;
    p->set |= PATCH_RETRY_FOR;
    p->retry_for = 0;
    TRY(json_take_null(c, &clear));
    return clear ? err_none() : api_field_max_run(c, a, &p->retry_for);
}

static struct err patch_retention(struct json_cursor *c, struct arena *a, void *out)
{
    struct patch_fields *f = out;
    bool clear;
    TRY(json_take_null(c, &clear));
    if (!clear)
        return field_part(c, a, &f->retention);
    f->patch.set |= PATCH_COMPLETED | PATCH_DEAD;
    f->patch.completed_retention = f->patch.dead_retention = RETENTION_DEFAULT;
    return err_none();
}

static struct err patch_span(struct json_cursor *c, unsigned bit, struct patch *p, span *d)
{
    bool clear;
    p->set |= bit;
    *d = RETENTION_DEFAULT;
    TRY(json_take_null(c, &clear));
    return clear ? err_none() : json_read_int(c, 0, SPAN_MAX_MS, &d->ms);
}

static struct err patch_completed(struct json_cursor *c, struct arena *a, void *out)
{
    struct patch *p = out;
    (void)a;
    return patch_span(c, PATCH_COMPLETED, p, &p->completed_retention);
}

static struct err patch_dead(struct json_cursor *c, struct arena *a, void *out)
{
    struct patch *p = out;
    (void)a;
    return patch_span(c, PATCH_DEAD, p, &p->dead_retention);
}

/* A job's dependencies are fixed when it is enqueued; a patch can only remove them. */
static struct err patch_depends(struct json_cursor *c, struct arena *a, void *out)
{
    struct patch *p = out;
    bool none;
    (void)a;
    p->set |= PATCH_FREE;
    TRY(json_take_null(c, &none));
    return none ? err_none()
                : err_make(ERR_BAD_VALUE, "only null, which lets the job wait for no other");
}

static const struct field patch_table[] = {
    {"depends_on", false, patch_depends, 0, .doc = "null: the job waits for no other any more"},
    {"queue", false, patch_queue, 0, .doc = "name 1..$", .most = JOB_NAME_MAX},
    {"priority", false, patch_priority, 0, .doc = "integer 0..$", .most = UINT16_MAX},
    {"ready_at", false, patch_ready_at, 0,
     .doc = "integer 0..?: not before, milliseconds since 1970 (UTC)"},
    {"retry_limit", false, patch_retry_limit, 0, .doc = "integer 0..$?",
     .most = JOB_RETRY_LIMIT_MAX},
    {"backoff", false, patch_backoff, 0, .doc = "Backoff?"},
    {"retention", false, patch_retention, 0, .doc = "PatchedRetention?"},
    {"max_run_ms", false, patch_max_run, 0, .doc = "integer 1..?"},
    {"retry_for_ms", false, patch_retry_for, 0, .doc = "integer 1..?"},
};
const struct api_body api_patch_body = {API_FIELDS(patch_table)};

static const struct field patch_retention_table[] = {
    {"completed_ms", false, patch_completed, 0, .doc = "integer 0..?"},
    {"dead_ms", false, patch_dead, 0, .doc = "integer 0..?"},
};
const struct api_body api_patch_retention_body = {.name = "PatchedRetention",
                                                  API_FIELDS(patch_retention_table)};

static bool is_named(struct str name, const struct field *fields, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (str_eq(name, str_from(fields[i].name)))
            return true;
    return false;
}

/* What a job has for good, or what only the server says of it. */
static bool is_fixed(struct str name)
{
    return !is_named(name, patch_table, COUNT(patch_table)) &&
           (is_named(name, api_job_body.fields, api_job_body.count) || str_eq(name, STR("id")) ||
            str_eq(name, STR("status")) || str_eq(name, STR("attempts")));
}

/* A member that a job has and a patch does not change is named as that, and not as unknown. */
static struct err refuse_fixed(struct str body)
{
    struct json_cursor c = json_open(body);
    bool more;
    struct json_string key;
    TRY(json_enter_object(&c));
    for (;;) {
        TRY(json_next_member(&c, &more, &key));
        if (!more)
            return err_none();
        if (is_fixed(key.raw))
            return err_at(ERR_UNPROCESSABLE, (int64_t)key.offset,
                          "%.*s: a patch cannot change it; nothing was changed", STR_ARG(key.raw));
        TRY(json_skip(&c, NULL));
    }
}

struct err api_decode_patch(const struct api *a, const struct http_request *req,
                            struct patch *patch)
{
    struct patch_fields f = {0};
    TRY(api_check_media(req));
    TRY(refuse_fixed(req->body));
    TRY(api_decode_body(a, req, patch_table, COUNT(patch_table), false, &f));
    if (f.backoff.given) {
        struct err err = api_decode_backoff(a, &f.backoff.at, req->arena, &f.patch.backoff);
        if (err.code != ERR_OK)
            return field_in(err, "backoff");
    }
    TRY(field_read_part(a->strict, &f.retention, req->arena, patch_retention_table,
                        COUNT(patch_retention_table), "retention", &f.patch));
    *patch = f.patch;
    return err_none();
}
