/* SPDX-License-Identifier: Apache-2.0 */
#include "taskcluster/tc_definition.h"

#include <time.h>

#include "base/array.h"
#include "base/rfc3339.h"
#include "wire/field.h"
#include "wire/json_writer.h"

_Static_assert(__builtin_strcmp(JOB_TYPE_TASK, RIGHTS_TASK_TYPE) == 0, "one type of tasks");

#define RETRIES_DEFAULT 5
/* How far the clock of whoever creates a task may be off. */
#define DRIFT_MS          ((int64_t)15 * 60 * 1000)
#define DEADLINE_DAYS_MAX 5
#define DAY_MS            ((int64_t)24 * 3600 * 1000)
#define PRIORITY_HIGHEST  ((uint16_t)(JOB_PRIORITY_DEFAULT - 3000))
#define PRIORITY_STEP     1000

/* --- priorities --- */

static const char *const priorities[TC_PRIORITIES] = {"highest", "very-high", "high",  "medium",
                                                      "low",     "very-low",  "lowest"};

const char *tc_priority_name(int priority)
{
    return priorities[priority];
}

bool tc_priority_parse(struct str name, int *priority)
{
    for (*priority = 0; *priority < TC_PRIORITIES; ++*priority)
        if (str_eq(name, str_from(priorities[*priority])))
            return true;
    return false;
}

uint16_t tc_priority_to_job(int priority)
{
    return (uint16_t)(PRIORITY_HIGHEST + priority * PRIORITY_STEP);
}

int tc_priority_of_job(uint16_t priority)
{
    int steps = (priority - PRIORITY_HIGHEST + PRIORITY_STEP - 1) / PRIORITY_STEP;
    if (priority <= PRIORITY_HIGHEST)
        return 0;
    return steps < TC_PRIORITIES ? steps : TC_PRIORITIES - 1;
}

/* --- reading --- */

struct err tc_field_texts(struct json_cursor *c, struct arena *a, void *out)
{
    struct str *at = NULL;
    size_t count = 0, cap = 0;
    struct json_string raw;
    bool more;
    TRY(json_enter_array(c));
    for (;;) {
        TRY(json_next_element(c, &more));
        if (!more)
            break;
        ARENA_GROW(a, at, count, cap, 8);
        TRY(json_read_string(c, &raw));
        TRY(json_text(raw, a, &at[count]));
        count++;
    }
    *(struct tc_texts *)out = (struct tc_texts){at, count};
    return err_none();
}

static struct err read_requires(struct json_cursor *c, struct arena *a, void *out)
{
    struct str text;
    TRY(field_text(c, a, &text));
    *(bool *)out = str_eq(text, STR("all-resolved"));
    return err_none();
}

static struct err read_priority(struct json_cursor *c, struct arena *a, void *out)
{
    struct str text;
    TRY(field_text(c, a, &text));
    if (!tc_priority_parse(text, out))
        return err_make(ERR_BAD_VALUE, "there is no priority '%.*s'", NAME_ARG(text));
    return err_none();
}

#define DEFINITION(json, reader, member)                                                           \
    {                                                                                              \
        json, false, reader, offsetof(struct tc_definition, member), false, NULL                   \
    }

static const struct field fields[] = {
    DEFINITION("taskQueueId", field_text, task_queue_id),
    DEFINITION("provisionerId", field_text, provisioner_id),
    DEFINITION("workerType", field_text, worker_type),
    DEFINITION("schedulerId", field_text, scheduler_id),
    DEFINITION("projectId", field_text, project_id),
    DEFINITION("taskGroupId", field_text, task_group_id),
    DEFINITION("dependencies", tc_field_texts, dependencies),
    DEFINITION("requires", read_requires, all_resolved),
    DEFINITION("routes", tc_field_texts, routes),
    DEFINITION("priority", read_priority, priority),
    DEFINITION("retries", field_i32, retries),
    DEFINITION("created", field_text, created),
    DEFINITION("deadline", field_text, deadline),
    DEFINITION("expires", field_text, expires),
    DEFINITION("scopes", tc_field_texts, scopes),
    DEFINITION("payload", field_any, payload),
    DEFINITION("metadata", field_any, metadata),
    DEFINITION("tags", field_any, tags),
    DEFINITION("extra", field_any, extra),
};

struct err tc_definition_read(struct str json, struct arena *a, struct tc_definition *d)
{
    struct json_cursor c = json_open_sound(json);
    *d = (struct tc_definition){.scheduler_id = STR("-"),
                                .project_id = STR("none"),
                                .priority = TC_PRIORITIES - 1,
                                .retries = RETRIES_DEFAULT,
                                .payload = STR("{}"),
                                .metadata = STR("{}"),
                                .tags = STR("{}"),
                                .extra = STR("{}")};
    TRY(field_read_object(true, &c, a, fields, COUNT(fields), d));
    return json_close(&c);
}

/* --- completing --- */

static struct str joined(struct str provisioner, struct str worker_type, struct arena *a)
{
    char *at = arena_get(a, provisioner.len + worker_type.len + 1);
    memcpy(at, provisioner.at, provisioner.len);
    at[provisioner.len] = '/';
    memcpy(at + provisioner.len + 1, worker_type.at, worker_type.len);
    return (struct str){at, provisioner.len + worker_type.len + 1};
}

void tc_queue_split(struct str task_queue_id, struct str *provisioner, struct str *worker_type)
{
    const char *slash = task_queue_id.len ? memchr(task_queue_id.at, '/', task_queue_id.len) : NULL;
    size_t n = slash ? (size_t)(slash - task_queue_id.at) : task_queue_id.len;
    *provisioner = (struct str){task_queue_id.at, n};
    *worker_type = slash ? (struct str){slash + 1, task_queue_id.len - n - 1} : (struct str){0};
}

/* Either name of a task queue may be given, or both if they agree. */
static struct err complete_queue(struct tc_definition *d, struct arena *a)
{
    bool parts = d->provisioner_id.len && d->worker_type.len;
    if (!parts && !d->task_queue_id.len)
        return err_make(ERR_BAD_VALUE, "at least a provisionerId and a workerType or a "
                                       "taskQueueId must be provided");
    if (parts) {
        struct str both = joined(d->provisioner_id, d->worker_type, a);
        if (d->task_queue_id.len && !str_eq(both, d->task_queue_id))
            return err_make(ERR_BAD_VALUE, "taskQueueId must match \"provisionerId/workerType\"");
        d->task_queue_id = both;
    }
    tc_queue_split(d->task_queue_id, &d->provisioner_id, &d->worker_type);
    return err_none();
}

/* As JavaScript's Date has it: the same day next year; the first of March after a 29 February. */
static instant a_year_later(instant t)
{
    time_t seconds = (time_t)(t.ms / 1000);
    struct tm tm;
    gmtime_r(&seconds, &tm);
    tm.tm_year++;
    return (instant){(int64_t)timegm(&tm) * 1000 + t.ms % 1000};
}

static struct str spelt(instant t, struct arena *a)
{
    struct buf b = {0};
    rfc3339_write(&b, t);
    struct str s = arena_copy(a, buf_view(&b));
    buf_fini(&b);
    return s;
}

static struct err read_times(struct tc_definition *d)
{
    if (!rfc3339_parse(d->created, &d->created_at))
        return err_make(ERR_BAD_VALUE, "`created` is no date-time");
    if (!rfc3339_parse(d->deadline, &d->deadline_at))
        return err_make(ERR_BAD_VALUE, "`deadline` is no date-time");
    d->expires_at = a_year_later(d->deadline_at);
    if (d->expires.len && !rfc3339_parse(d->expires, &d->expires_at))
        return err_make(ERR_BAD_VALUE, "`expires` is no date-time");
    return err_none();
}

struct err tc_definition_in_time(const struct tc_definition *d, instant now)
{
    if (d->created_at.ms < now.ms - DRIFT_MS)
        return err_make(ERR_BAD_VALUE, "`created` cannot be in the past (max 15min drift)");
    if (d->created_at.ms > now.ms + DRIFT_MS)
        return err_make(ERR_BAD_VALUE, "`created` cannot be in the future (max 15min drift)");
    if (d->deadline_at.ms < now.ms)
        return err_make(ERR_BAD_VALUE, "`deadline` cannot be in the past");
    if (d->deadline_at.ms - now.ms > DEADLINE_DAYS_MAX * DAY_MS + DRIFT_MS)
        return err_make(ERR_BAD_VALUE, "`deadline` cannot be more than %d days into the future",
                        DEADLINE_DAYS_MAX);
    return err_none();
}

static struct err check_order(const struct tc_definition *d)
{
    if (d->created_at.ms > d->deadline_at.ms)
        return err_make(ERR_BAD_VALUE, "`deadline` cannot be earlier than `created`");
    if (d->deadline_at.ms > d->expires_at.ms)
        return err_make(ERR_BAD_VALUE, "`expires` cannot be before `deadline`");
    if (d->expires_at.ms > INSTANT_MAX_MS)
        return err_make(ERR_BAD_VALUE, "`expires` is too far in the future");
    return err_none();
}

static struct err check_scopes(const struct tc_definition *d)
{
    for (size_t i = 0; i < d->scopes.count; i++) {
        struct str s = d->scopes.at[i];
        if (s.len >= 2 && s.at[s.len - 1] == '*' && s.at[s.len - 2] == '*')
            return err_make(ERR_BAD_VALUE, "scopes must not end with `**`");
    }
    return err_none();
}

struct err tc_definition_complete(struct tc_definition *d, struct str task_id, struct arena *a)
{
    TRY(complete_queue(d, a));
    if (d->dependencies.count > TC_DEPENDENCIES_MAX)
        return err_make(ERR_BAD_VALUE,
                        "task.dependencies exceeds the maximum allowed number of dependencies, %d",
                        TC_DEPENDENCIES_MAX);
    if (d->task_group_id.len == 0)
        d->task_group_id = task_id;
    TRY(read_times(d));
    TRY(check_order(d));
    /* As they are answered: a repeated request may spell them otherwise. */
    d->created = spelt(d->created_at, a);
    d->deadline = spelt(d->deadline_at, a);
    d->expires = spelt(d->expires_at, a);
    return check_scopes(d);
}

/* --- writing --- */

static void write_texts(struct buf *b, const struct tc_texts *t)
{
    buf_byte(b, '[');
    for (size_t i = 0; i < t->count; i++) {
        if (i)
            buf_byte(b, ',');
        json_write_string(b, t->at[i]);
    }
    buf_byte(b, ']');
}

static void text_member(struct buf *b, const char *name, struct str text)
{
    buf_print(b, ",\"%s\":", name);
    json_write_string(b, text);
}

/* Begins with what tc_head_read reads; then soon comes what tc_definition_told does. */
void tc_definition_write(struct buf *b, const struct tc_definition *d)
{
    buf_lit(b, "{\"taskQueueId\":");
    json_write_string(b, d->task_queue_id);
    text_member(b, "provisionerId", d->provisioner_id);
    text_member(b, "workerType", d->worker_type);
    text_member(b, "schedulerId", d->scheduler_id);
    text_member(b, "projectId", d->project_id);
    text_member(b, "taskGroupId", d->task_group_id);
    KEY(b, "dependencies");
    write_texts(b, &d->dependencies);
    text_member(b, "requires", d->all_resolved ? STR("all-resolved") : STR("all-completed"));
    KEY(b, "routes");
    write_texts(b, &d->routes);
    INT_MEMBER(b, "retries", d->retries);
    text_member(b, "created", d->created);
    text_member(b, "deadline", d->deadline);
    text_member(b, "expires", d->expires);
    KEY(b, "tags");
    buf_str(b, d->tags);
    KEY(b, "scopes");
    write_texts(b, &d->scopes);
    KEY(b, "payload");
    buf_str(b, d->payload);
    KEY(b, "metadata");
    buf_str(b, d->metadata);
    KEY(b, "extra");
    buf_str(b, d->extra);
    buf_byte(b, '}');
}

void tc_write_time(struct buf *b, const char *name, instant t)
{
    buf_print(b, ",\"%s\":\"", name);
    rfc3339_write(b, t);
    buf_byte(b, '"');
}

void tc_definition_answer(struct buf *b, const struct job *job)
{
    buf_print(b, "{\"priority\":\"%s\",",
              tc_priority_name(tc_priority_of_job(job->state.priority)));
    buf_add(b, job->payload.at + 1, job->payload.len - 1);
}

struct err tc_definition_told(struct str payload, struct arena *a, struct tc_texts *routes,
                              struct str *tags)
{
    struct json_cursor c = json_open_sound(payload);
    struct json_string name;
    bool more, has_routes = false, has_tags = false;
    TRY(json_enter_object(&c));
    while (!has_routes || !has_tags) {
        TRY(json_next_member(&c, &more, &name));
        if (!more)
            return err_make(ERR_BAD_VALUE, "no definition of a task");
        if (str_eq(name.raw, STR("routes"))) {
            TRY(tc_field_texts(&c, a, routes));
            has_routes = true;
        } else if (str_eq(name.raw, STR("tags"))) {
            TRY(json_skip(&c, tags));
            has_tags = true;
        } else {
            TRY(json_skip(&c, NULL));
        }
    }
    return err_none();
}

void tc_definition_spec(const struct tc_definition *d, struct str task_id, struct str payload,
                        struct enqueue *spec)
{
    *spec = (struct enqueue){
        .queue = d->task_queue_id,
        .type = STR(TC_JOB_TYPE),
        .payload = payload,
        .priority = tc_priority_to_job(d->priority),
        .ready_at = INSTANT_NONE,
        .retry_limit = d->retries,
        /* At once, for the fault was not the task's: n^0 is a second, less a second. */
        .backoff = {.shape = CURVE_POWER, .base = {-1000}, .exponent = 0},
        .completed_retention = RETENTION_DEFAULT,
        .dead_retention = RETENTION_DEFAULT,
        .options = {.alias = task_id,
                    .deadline = d->deadline_at,
                    .retain_until = d->expires_at,
                    .group = d->task_group_id,
                    .group_owner = d->scheduler_id,
                    .when_no_policy = RETRY_FALLBACK_FAIL,
                    .pending_runs = 1,
                    .depend_when = d->all_resolved ? DEPEND_ALL_ENDED : DEPEND_ALL_COMPLETED,
                    .depend_death = DEPEND_BLOCK}};
}

/* --- the head of a payload --- */

bool tc_head_read(const struct job *job, struct arena *a, struct tc_head *h)
{
    struct str *const members[] = {&h->task_queue_id, &h->provisioner_id, &h->worker_type,
                                   &h->scheduler_id,  &h->project_id,     &h->task_group_id};
    struct json_cursor c = json_open_sound(job->payload);
    struct json_string raw;
    bool more;
    *h = (struct tc_head){0};
    if (!str_eq(job->type, STR(TC_JOB_TYPE)) || job->options.alias.len == 0 ||
        json_enter_object(&c).code != ERR_OK)
        return false;
    for (size_t i = 0; i < COUNT(members); i++) {
        if (json_next_member(&c, &more, &raw).code != ERR_OK || !more ||
            json_read_string(&c, &raw).code != ERR_OK ||
            json_text(raw, a, members[i]).code != ERR_OK)
            return false;
    }
    return str_eq(h->task_queue_id, job->queue);
}
