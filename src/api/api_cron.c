/* SPDX-License-Identifier: Apache-2.0 */

/* Cron groups and entries: /crons and what is below it. */

#include <stdio.h>

#include "api/api_access.h"
#include "api/api_routes.h"
#include "base/array.h"

/* --- decoding --- */

static struct err read_switch(struct json_cursor *c, struct arena *a, void *out)
{
    bool paused;
    TRY(field_bool(c, a, &paused));
    *(enum cron_switch *)out = paused ? CRON_PAUSE : CRON_RESUME;
    return err_none();
}

/* Empty would mean the zone of the system, which is meant by saying nothing. */
static struct err read_zone(struct json_cursor *c, struct arena *a, void *out)
{
    TRY(field_text(c, a, out));
    if (((struct str *)out)->len == 0)
        return err_make(ERR_BAD_ZONE, "must not be empty");
    return err_none();
}

/* null takes the zone of the group away. */
static struct err patch_zone(struct json_cursor *c, struct arena *a, void *out)
{
    struct cron_command *command = out;
    bool none;
    command->zone_given = true;
    TRY(json_take_null(c, &none));
    return none ? err_none() : read_zone(c, a, &command->zone);
}

static struct err read_name(struct json_cursor *c, struct arena *a, void *out)
{
    TRY(field_text(c, a, out));
    return cron_check_name(*(struct str *)out, "a name");
}

/* Check it here, where its place in the body is known. */
static struct err read_expression(struct json_cursor *c, struct arena *a, void *out)
{
    struct json_string s;
    struct cron parsed;
    TRY(json_read_string(c, &s));
    TRY(json_text(s, a, out));
    struct err err = cron_parse(*(struct str *)out, &parsed);
    if (err.code != ERR_OK)
        err.offset = (int64_t)s.offset + (s.escaped ? 0 : err.offset);
    return err;
}

static struct err pass_over(struct json_cursor *c, struct arena *a, void *out)
{
    (void)a;
    (void)out;
    return json_skip(c, NULL);
}

/* What an answer has besides, which may be sent back. */
#define OF_AN_ANSWER                                                                               \
    {"paused_at", false, pass_over, 0,                                                             \
     .doc = "any: of an answer that is sent back; without effect"},                                \
    {                                                                                              \
        "resumed_at", false, pass_over, 0, .doc = "any: likewise"                                  \
    }

/* Parts are read afterwards, because reading them needs the api. */
struct entry_body {
    struct cron_spec spec;
    struct field_part job;
};

static const struct field entry_table[] = {
    {"name", true, read_name, offsetof(struct entry_body, spec.name),
     .doc = "string 1..$: of the entry", .most = CRON_NAME_MAX},
    {"expression", true, read_expression, offsetof(struct entry_body, spec.expression),
     .doc = "string 1..$ @cron: five to seven fields, or a name as @daily",
     .most = CRON_EXPRESSION_MAX},
    {"timezone", false, read_zone, offsetof(struct entry_body, spec.zone), true,
     "string 1.. @timezone"},
    {"paused", false, read_switch, offsetof(struct entry_body, spec.paused), true, "boolean"},
    {"job", true, field_part, offsetof(struct entry_body, job),
     .doc = "JobTemplate: see docs/cron.md"},
    OF_AN_ANSWER,
    {"next_enqueue_at", false, pass_over, 0, .doc = "any: likewise"},
    {"last_enqueue_at", false, pass_over, 0, .doc = "any: likewise"},
};
const struct api_body api_cron_entry_body = {.name = "CronEntryInput", API_FIELDS(entry_table)};

static struct err check_template(const struct enqueue *job)
{
    const struct job_options *o = &job->options;
    if (instant_is_set(job->ready_at))
        return err_make(ERR_BAD_VALUE, "ready_at: the jobs of a cron entry are ready at its ticks");
    if (o->alias.len || o->deadline.ms || o->retain_until.ms)
        return err_make(ERR_BAD_VALUE, "the jobs of a cron entry have neither alias nor deadline "
                                       "nor retain_until");
    if (o->hold)
        return err_make(ERR_BAD_VALUE, "hold: the jobs of a cron entry are ready at its ticks");
    if (o->depends_on.len)
        return err_make(ERR_BAD_VALUE, "depends_on: the jobs of a cron entry wait for no others");
    if (o->group.len)
        return err_make(ERR_BAD_VALUE, "group: the jobs of a cron entry are in no group");
    if (o->gang.len)
        return err_make(ERR_BAD_VALUE, "gang: each tick of a cron entry makes one job");
    return err_none();
}

static struct err decode_template(const struct api *a, struct arena *arena, struct entry_body *e)
{
    struct err err = api_decode_job(a, &e->job.at, arena, &e->spec.job);
    if (err.code == ERR_OK)
        err = check_template(&e->spec.job);
    return err.code == ERR_OK ? err : field_in(err, "job");
}

struct group_body {
    enum cron_switch paused;
    struct str zone;
    struct field_part entries;
};

static const struct field group_table[] = {
    {"paused", false, read_switch, offsetof(struct group_body, paused), true, "boolean"},
    {"timezone", false, read_zone, offsetof(struct group_body, zone), true,
     "string 1.. @timezone: of the entries that name none"},
    {"entries", true, field_part, offsetof(struct group_body, entries),
     .doc = "CronEntryInput[..$]", .most = CRON_GROUP_ENTRIES_MAX},
    {"name", false, pass_over, 0, .doc = "any: the path names the group"},
    OF_AN_ANSWER,
};
const struct api_body api_cron_group_body = {API_FIELDS(group_table)};

struct specs {
    struct cron_spec *at;
    size_t count, cap;
};

static struct err add_entry(const struct api *a, struct json_cursor *c, struct arena *arena,
                            struct specs *specs)
{
    struct entry_body body = {0};
    if (specs->count == CRON_GROUP_ENTRIES_MAX)
        return err_make(ERR_TOO_MANY, "a cron group has at most %d entries",
                        CRON_GROUP_ENTRIES_MAX);
    TRY(field_read_object(a->strict, c, arena, entry_table, COUNT(entry_table), &body));
    TRY(decode_template(a, arena, &body));
    ARENA_GROW(arena, specs->at, specs->count, specs->cap, 16);
    specs->at[specs->count++] = body.spec;
    return err_none();
}

static struct err decode_entries(const struct api *a, struct json_cursor *c, struct arena *arena,
                                 struct specs *specs)
{
    struct err err = json_enter_array(c);
    if (err.code != ERR_OK)
        return field_in(err, "entries");
    for (;;) {
        bool more;
        TRY(json_next_element(c, &more));
        if (!more)
            return err_none();
        char where[32];
        snprintf(where, sizeof where, "entries[%zu]", specs->count);
        err = add_entry(a, c, arena, specs);
        if (err.code != ERR_OK)
            return err.code == ERR_TOO_MANY ? err : field_in(err, where);
    }
}

static struct err decode_group(const struct api *a, const struct api_request *r,
                               struct cron_put *put)
{
    const struct http_request *req = r->http;
    struct group_body body = {0};
    struct specs specs = {0};
    TRY(api_decode_body(a, req, group_table, COUNT(group_table), false, &body));
    TRY(decode_entries(a, &body.entries.at, req->arena, &specs));
    for (size_t i = 0; i < specs.count; i++)
        specs.at[i].job.options.maker = api_quota(r).maker;
    put->paused = body.paused;
    put->zone = body.zone;
    put->entries = specs.at;
    put->count = specs.count;
    put->whole = true;
    return err_none();
}

static struct err decode_entry(const struct api *a, const struct api_request *r, struct str name,
                               struct cron_put *put)
{
    const struct http_request *req = r->http;
    struct entry_body body = {0};
    TRY(api_decode_body(a, req, entry_table, COUNT(entry_table), false, &body));
    TRY(decode_template(a, req->arena, &body));
    struct cron_spec *spec = ARENA_NEW(req->arena, struct cron_spec);
    *spec = body.spec;
    spec->job.options.maker = api_quota(r).maker;
    if (name.len)
        spec->name = name;
    put->entries = spec;
    put->count = 1;
    return err_none();
}

/* --- encoding --- */

static const struct shape_member pause_members[] = {
    {MEMBER(struct cron_pause, paused, "paused", ALWAYS, NULL)},
    {MEMBER(struct cron_pause, paused_at, "paused_at", IF_SET, "when, the newest time")},
    {MEMBER(struct cron_pause, resumed_at, "resumed_at", IF_SET, "when, the newest time")},
};
static const struct shape pause_shape = {SHAPE_MEMBERS(pause_members)};

/* Of the job that the template stands for. */
static const struct shape_member template_members[] = {
    {MEMBER(struct job, queue, "queue", ALWAYS, "where")},
    {MEMBER(struct job, type, "type", ALWAYS, "what")},
    {MEMBER(struct job, state.priority, "priority", ALWAYS, "lower goes first",
            .type = "integer 0..65535")},
    {MEMBERS_INNER(&api_job_options_shape)},
    {MEMBERS_INNER(&api_job_batch_shape)},
    {MEMBER_JSON(struct job, payload, "payload", IF_SET,
                 "any JSON; not there for who may not see payloads")},
};
const struct shape api_cron_job_shape = {.name = "CronJob", SHAPE_MEMBERS(template_members)};

static void write_template(struct buf *b, const void *enqueue)
{
    const struct enqueue *e = enqueue;
    const struct job job = {.queue = e->queue,
                            .type = e->type,
                            .payload = e->payload,
                            .retry_limit = e->retry_limit,
                            .backoff = e->backoff,
                            .completed_retention = e->completed_retention,
                            .dead_retention = e->dead_retention,
                            .unique_key = e->unique_key,
                            .unique_while = e->unique_while,
                            .batch = e->batch,
                            .options = e->options,
                            .state.priority = e->priority};
    shape_write(b, &api_cron_job_shape, &job, SHAPE_AS_IT_IS);
}

static bool has_warning(const void *entry)
{
    return cron_days_differ(((const struct cron_entry *)entry)->expression);
}

static void write_warnings(struct buf *b, const void *entry)
{
    bool classic = ((const struct cron_entry *)entry)->classic;
    buf_lit(b, "[");
    json_write_string(b, classic ? STR("both days must agree, as when this was put; once it is put "
                                       "again either will do, unless the day of the week begins "
                                       "with '+'")
                                 : STR("either of the two days will do; to have both agree, begin "
                                       "the day of the week with '+'"));
    buf_lit(b, "]");
}

static const struct shape_member entry_members[] = {
    {MEMBER(struct cron_entry, name, "name", ALWAYS, NULL)},
    {MEMBER(struct cron_entry, expression, "expression", ALWAYS,
            "five to seven fields, or a name as @daily")},
    {MEMBER(struct cron_entry, zone, "timezone", IF_SET, NULL)},
    {MEMBERS_OF(struct cron_entry, clock.pause, &pause_shape)},
    {MEMBER(struct cron_entry, clock.next_at, "next_enqueue_at", IF_SET,
            "its next tick; not there if it never comes")},
    {MEMBER(struct cron_entry, clock.last_at, "last_enqueue_at", IF_SET, "its last tick")},
    {MEMBER_MADE("warnings", IF_SET, "string[]", write_warnings,
                 "what is valid in it and may not be meant", .is_set = has_warning)},
    {MEMBER_OTHER(struct cron_entry, job, "job", ALWAYS, "CronJob", write_template, NULL)},
};
const struct shape api_cron_entry_shape = {.name = "CronEntry", SHAPE_MEMBERS(entry_members)};

static const struct shape_member group_members[] = {
    {MEMBER(struct cron_view, group.name, "name", ALWAYS, NULL)},
    {MEMBER(struct cron_view, group.zone, "timezone", IF_SET,
            "of the entries that name none, if it has one")},
    {MEMBERS_OF(struct cron_view, group.pause, &pause_shape)},
    {MEMBER_OBJECTS(struct cron_view, entries, count, "entries", ALWAYS, &api_cron_entry_shape,
                    NULL)},
};
const struct shape api_cron_group_shape = {.name = "CronGroup", SHAPE_MEMBERS(group_members)};

/* --- answers --- */

/* The payloads of templates are those of jobs to come. */
static void hide_payloads(const struct call *c, const struct reply *r)
{
    for (size_t i = 0; c->blind && r->cron && i < r->cron->count; i++)
        r->cron->entries[i].job.payload = (struct str){0};
}

static void on_group(void *ctx, const struct reply *r)
{
    hide_payloads(ctx, r);
    api_reply_part(ctx, r, 200, &api_cron_group_shape, r->cron);
}

static void on_entry(void *ctx, const struct reply *r)
{
    hide_payloads(ctx, r);
    api_reply_part(ctx, r, 200, &api_cron_entry_shape, r->cron ? r->cron->entries : NULL);
}

static void on_entry_added(void *ctx, const struct reply *r)
{
    api_reply_part(ctx, r, 201, &api_cron_entry_shape, r->cron ? r->cron->entries : NULL);
}

static const struct shape_member names_members[] = {
    {MEMBER_LIST(struct reply, names, count, "crons", ALWAYS, NULL)},
};
const struct shape api_cron_names_shape = {.name = "CronGroupNames", SHAPE_MEMBERS(names_members)};

static void on_names(void *ctx, const struct reply *r)
{
    api_reply_shape(ctx, r, 200, &api_cron_names_shape);
}

static const struct shape_member removed_members[] = {
    {MEMBER(struct reply, count, "deleted", ALWAYS, NULL)},
};
const struct shape api_crons_removed_shape = {.name = "DeletedGroups",
                                              SHAPE_MEMBERS(removed_members)};

static void on_all_removed(void *ctx, const struct reply *r)
{
    api_reply_shape(ctx, r, 200, &api_crons_removed_shape);
}

/* --- handlers --- */

/* The group and the entry of the path; an empty one must not come to mean all of them. */
static struct err read_path(const struct route_params *params, struct str *group, struct str *entry)
{
    if (params->count > 0)
        *group = params->at[0];
    if (params->count > 1)
        *entry = params->at[1];
    for (int i = 0; i < params->count; i++)
        if (params->at[i].len == 0)
            return err_make(ERR_NOT_FOUND, "a cron %s has no empty name", i ? "entry" : "group");
    return err_none();
}

void api_crons(struct api *a, const struct api_request *r)
{
    struct command c = {.kind = CMD_CRON_READ, .done = on_names};
    api_submit(a, r, &c, api_check_media(r->http));
}

void api_crons_remove(struct api *a, const struct api_request *r)
{
    struct command c = {.kind = CMD_CRON_REMOVE, .done = on_all_removed};
    struct err err = api_check_media(r->http);
    /* A client that believes in a filter here must not delete everything. */
    if (err.code == ERR_OK && r->http->query.len)
        err = err_make(ERR_UNKNOWN_FIELD, "this takes no parameters: it deletes every cron group");
    api_submit(a, r, &c, err);
}

void api_cron_read(struct api *a, const struct api_request *r)
{
    struct command c = {.kind = CMD_CRON_READ, .done = r->params->count > 1 ? on_entry : on_group};
    struct err err = read_path(r->params, &c.cron.group, &c.cron.entry);
    api_submit(a, r, &c, err.code == ERR_OK ? api_check_media(r->http) : err);
}

void api_cron_remove(struct api *a, const struct api_request *r)
{
    struct command c = {.kind = CMD_CRON_REMOVE, .done = api_reply_empty};
    struct err err = read_path(r->params, &c.cron.group, &c.cron.entry);
    api_submit(a, r, &c, err.code == ERR_OK ? api_check_media(r->http) : err);
}

static const struct field switch_table[] = {
    {"paused", false, read_switch, offsetof(struct cron_command, to), true, "boolean"},
    {"timezone", false, patch_zone, 0, .doc = "string 1.. @timezone?: null takes it away"},
};
const struct api_body api_cron_switch_body = {API_FIELDS(switch_table),
                                              .rules = "any paused timezone?"};
/* An entry is put to be changed. */
const struct api_body api_cron_entry_switch_body = {
    .fields = switch_table, .count = 1, .rules = "any paused"};

void api_cron_patch(struct api *a, const struct api_request *r)
{
    struct command c = {.kind = CMD_CRON_SWITCH,
                        .done = r->params->count > 1 ? on_entry : on_group};
    const struct api_body *b =
        r->params->count > 1 ? &api_cron_entry_switch_body : &api_cron_switch_body;
    struct err err = read_path(r->params, &c.cron.group, &c.cron.entry);
    if (err.code == ERR_OK)
        err = api_decode_body(a, r->http, b->fields, b->count, false, &c.cron);
    if (err.code == ERR_OK && c.cron.to == CRON_AS_IS && !c.cron.zone_given)
        err =
            err_make(ERR_MISSING_FIELD, "paused%s is required", b->count > 1 ? " or timezone" : "");
    api_submit(a, r, &c, err);
}

void api_cron_put(struct api *a, const struct api_request *r)
{
    struct command c = {.kind = CMD_CRON_PUT, .done = on_group};
    struct err err = cron_check_name(r->params->at[0], "the name of a cron group");
    c.cron_put.group = r->params->at[0];
    api_submit(a, r, &c, err.code == ERR_OK ? decode_group(a, r, &c.cron_put) : err);
}

/* name: from the path, which overrides that of the body; or empty. */
static struct err begin_entry(const struct api *a, const struct api_request *r, struct str group,
                              struct str name, struct cron_put *put)
{
    put->group = group;
    TRY(cron_check_name(group, "the name of a cron group"));
    return decode_entry(a, r, name, put);
}

void api_cron_entry_put(struct api *a, const struct api_request *r)
{
    struct command c = {.kind = CMD_CRON_PUT, .done = on_entry};
    struct str group, name;
    struct err err = read_path(r->params, &group, &name);
    if (err.code == ERR_OK)
        err = begin_entry(a, r, group, name, &c.cron_put);
    api_submit(a, r, &c, err);
}

/* Adding an entry that exists is an error; it does not replace it. */
void api_cron_entry_add(struct api *a, const struct api_request *r)
{
    struct command c = {.kind = CMD_CRON_PUT, .done = on_entry_added, .cron_put.fresh = true};
    api_submit(a, r, &c, begin_entry(a, r, r->params->at[0], (struct str){0}, &c.cron_put));
}
