/* SPDX-License-Identifier: Apache-2.0 */

/* Artifacts that are looked up: as a redirect, as data about them, in lists. Links are followed;
 * whoever follows one needs the scopes of all names on the way. */

#include "base/array.h"
#include "base/must.h"
#include "taskcluster/tc_artifact.h"
#include "taskcluster/tc_content.h"
#include "taskcluster/tc_handlers.h"
#include "taskcluster/tc_task.h"

#define HOPS_MAX            100
#define PAGE_MAX            1000
#define CREDENTIALS_LIFE_MS ((int64_t)3600 * 1000) /* for an object */

/* An artifact that is sought, and what is done with it. */
struct seek {
    struct tc_call *call;
    struct str task_id, name;
    uint32_t run;
    bool follow; /* links */
    void (*then)(struct tc_call *c, const struct tc_artifact *artifact);
    struct str names[HOPS_MAX]; /* of links so far, the one that is looked at last */
    size_t count;
};

/* --- finding --- */

static bool authorize(const struct seek *s)
{
    const struct scope_param params[] = {{.name = "names", .list = s->names, .count = s->count}};
    return tc_authorize(s->call, params, COUNT(params));
}

static bool was_seen(const struct seek *s, struct str name)
{
    for (size_t i = 0; i < s->count; i++)
        if (str_eq(s->names[i], name))
            return true;
    return false;
}

static void look(struct seek *s, struct str name);

static void on_entry(void *ctx, const struct reply *r)
{
    struct seek *s = ctx;
    struct tc_call *c = s->call;
    struct tc_artifact artifact;
    bool read = r->err.code == ERR_OK && tc_artifact_of(&r->kv[0], c->arena, &artifact);
    if (r->err.code == ERR_NOT_FOUND || (read && !tc_artifact_is_present(&artifact)))
        tc_fail(c, TC_RESOURCE_NOT_FOUND, "Artifact not found");
    else if (r->err.code != ERR_OK)
        tc_fail_err(c, &r->err);
    else if (!read)
        tc_fail(c, TC_INTERNAL_SERVER_ERROR, "the entry of the artifact is malformed");
    else if (tc_artifact_has_expired(&artifact, c->now))
        tc_fail(c, TC_RESOURCE_EXPIRED, "Artifact expired");
    else if (!s->follow || artifact.storage != TC_STORAGE_LINK)
        s->then(c, &artifact);
    else if (was_seen(s, artifact.target) || s->count == HOPS_MAX)
        tc_fail(c, TC_INPUT_ERROR, "Artifact leads to a link cycle");
    else
        look(s, artifact.target);
}

static void look(struct seek *s, struct str name)
{
    struct tc_call *c = s->call;
    struct command cmd = {
        .kind = CMD_KV_READ, .kv = {.space = STR(TC_ARTIFACTS)}, .done = on_entry, .ctx = s};
    s->names[s->count++] = name;
    if (s->follow && !authorize(s))
        return;
    struct err err = tc_artifact_key(s->task_id, s->run, name, c->arena, &cmd.kv.key);
    if (err.code != ERR_OK)
        tc_fail(c, TC_RESOURCE_NOT_FOUND, "Artifact not found");
    else
        backend_submit(c->tc->backend, &cmd);
}

/* The newest run of the task, if the path names none. */
static void look_at_latest(struct tc_call *c, const struct tc_task *t)
{
    struct seek *s = c->state;
    uint32_t runs = tc_task_runs(t);
    if (runs == 0) {
        tc_fail(c, TC_RESOURCE_NOT_FOUND, "Task doesn't have any runs");
        return;
    }
    s->run = runs - 1;
    look(s, s->name);
}

static bool has_run(const struct tc_call *c)
{
    return strstr(c->method->route.pattern, "{runId}");
}

static struct seek *seek_new(struct tc_call *c, bool follow,
                             void (*then)(struct tc_call *c, const struct tc_artifact *artifact))
{
    struct seek *s = ARENA_NEW(c->arena, struct seek);
    s->call = c;
    s->follow = follow;
    s->then = then;
    c->state = s;
    return s;
}

static void seek_latest(struct seek *s)
{
    /* Before it is said whether there is such a task. */
    s->names[s->count++] = s->name;
    if (s->follow && !authorize(s))
        return;
    s->count = 0;
    tc_task_read(s->call, s->task_id, look_at_latest);
}

static void seek(struct tc_call *c, bool follow,
                 void (*then)(struct tc_call *c, const struct tc_artifact *artifact))
{
    struct seek *s = seek_new(c, follow, then);
    s->task_id = tc_param(c, "taskId");
    s->name = tc_param(c, "name");
    if (!has_run(c)) {
        seek_latest(s);
        return;
    }
    s->run = tc_param_run(c);
    look(s, s->name);
}

/* --- answers --- */

/* Of bytes that this server keeps; it was checked when the artifact was created. */
static struct str object_name(struct tc_call *c, const struct tc_artifact *artifact)
{
    const struct seek *s = c->state;
    struct str name;
    struct err err = tc_object_name(s->task_id, s->run, artifact->name, c->arena, &name);
    must(err.code == ERR_OK);
    return name;
}

/* By which the bytes are got: elsewhere, or from this server for a while. */
static struct str url_of(struct tc_call *c, const struct tc_artifact *artifact)
{
    bool s3 = artifact->storage == TC_STORAGE_S3;
    instant until;
    if (s3 || artifact->storage == TC_STORAGE_OBJECT)
        return tc_content_get_url(c, s3 ? TC_OBJECT_S3 : TC_OBJECT_PLAIN, object_name(c, artifact),
                                  artifact->expires, &until);
    return artifact->target;
}

static void write_location(struct buf *b, const struct tc_artifact *artifact, struct str url)
{
    buf_lit(b, "X-Taskcluster-Artifact-Storage-Type: ");
    buf_print(b, "%s\r\n", tc_storage_name(artifact->storage));
    if (url.len)
        buf_print(b, "Location: %.*s\r\n", STR_ARG(url));
    buf_byte(b, '\0');
}

static void write_error(struct buf *b, const struct tc_artifact *artifact)
{
    buf_lit(b, "\"reason\":");
    json_write_string(b, artifact->reason);
    KEY(b, "message");
    json_write_string(b, artifact->message);
}

static void write_url(struct buf *b, const struct tc_artifact *artifact, struct str url)
{
    buf_print(b, "{\"storageType\":\"%s\"", tc_storage_name(artifact->storage));
    KEY(b, "url");
    json_write_string(b, url);
    buf_byte(b, '}');
}

static void redirect(struct tc_call *c, const struct tc_artifact *artifact)
{
    struct buf *b = tc_body(c), headers = {0};
    struct str url = url_of(c, artifact);
    write_location(&headers, artifact, url);
    bool is_error = artifact->storage == TC_STORAGE_ERROR;
    if (is_error) {
        buf_byte(b, '{');
        write_error(b, artifact);
        buf_byte(b, '}');
    } else {
        write_url(b, artifact, url);
    }
    http_reply(c->x, is_error ? 424 : 303, STR("application/json; charset=utf-8"), buf_view(b),
               headers.at);
    buf_fini(&headers);
}

void tc_get_artifact(struct tc_call *c)
{
    seek(c, true, redirect);
}

void tc_artifact_redirect(struct tc_call *c, struct str task_id, struct str name)
{
    struct seek *s = seek_new(c, true, redirect);
    s->task_id = task_id;
    s->name = name;
    seek_latest(s);
}

static void write_object(struct buf *b, struct tc_call *c, const struct tc_artifact *artifact)
{
    const struct seek *s = c->state;
    struct buf id = {0}, scope = {0};
    struct str name = object_name(c, artifact);
    buf_print(&id, "artifact-download/%.*s/%u/%.*s", STR_ARG(s->task_id), s->run,
              STR_ARG(artifact->name));
    buf_print(&scope, "object:download:%.*s", STR_ARG(name));
    buf_lit(b, "{\"storageType\":\"object\"");
    KEY(b, "name");
    json_write_string(b, name);
    KEY(b, "credentials");
    tc_artifact_credentials(b, c, buf_view(&id), buf_view(&scope),
                            (instant){c->now.ms + CREDENTIALS_LIFE_MS});
    buf_byte(b, '}');
    buf_fini(&id);
    buf_fini(&scope);
}

static void reply_content(struct tc_call *c, const struct tc_artifact *artifact)
{
    struct buf *b = tc_body(c);
    if (artifact->storage == TC_STORAGE_ERROR) {
        buf_lit(b, "{\"storageType\":\"error\",");
        write_error(b, artifact);
        buf_byte(b, '}');
    } else if (artifact->storage == TC_STORAGE_OBJECT) {
        write_object(b, c, artifact);
    } else {
        write_url(b, artifact, url_of(c, artifact));
    }
    tc_reply(c, b);
}

void tc_get_artifact_content(struct tc_call *c)
{
    seek(c, true, reply_content);
}

static void reply_info(struct tc_call *c, const struct tc_artifact *artifact)
{
    struct buf *b = tc_body(c);
    tc_artifact_answer(b, artifact);
    tc_reply(c, b);
}

void tc_get_artifact_info(struct tc_call *c)
{
    seek(c, false, reply_info);
}

static bool begins_with(struct str s, struct str prefix)
{
    return s.len > prefix.len && memcmp(s.at, prefix.at, prefix.len) == 0;
}

bool taskcluster_opens_by_link(struct str path)
{
    static const struct str task = {TC_PREFIX "/task/", sizeof TC_PREFIX "/task/" - 1};
    static const struct str artifact = {"/artifacts/", sizeof "/artifacts/" - 1};
    return begins_with(path, STR(TASKCLUSTER_CONTENT_PATH)) ||
           (begins_with(path, task) && memmem(path.at, path.len, artifact.at, artifact.len));
}

/* --- lists --- */

static bool is_listed(const struct tc_call *c, const struct tc_artifact *artifact)
{
    return tc_artifact_is_present(artifact) && !tc_artifact_has_expired(artifact, c->now);
}

static void on_page(void *ctx, const struct reply *r)
{
    struct tc_call *c = ctx;
    struct buf *b = tc_body(c);
    struct tc_artifact artifact;
    bool first = true;
    if (r->err.code != ERR_OK) {
        tc_fail_err(c, &r->err);
        return;
    }
    buf_lit(b, "{\"artifacts\":[");
    for (size_t i = 0; i < r->count; i++) {
        if (!tc_artifact_of(&r->kv[i], c->arena, &artifact) || !is_listed(c, &artifact))
            continue;
        if (!first)
            buf_byte(b, ',');
        first = false;
        tc_artifact_answer(b, &artifact);
    }
    buf_byte(b, ']');
    if (r->more)
        tc_write_continuation(b, r->kv_after);
    buf_byte(b, '}');
    tc_reply(c, b);
}

static void list_run(struct tc_call *c, uint32_t run)
{
    struct command cmd = {.kind = CMD_KV_LIST,
                          .kv = {.space = STR(TC_ARTIFACTS), .prefix = true},
                          .done = on_page,
                          .ctx = c};
    struct err err =
        tc_artifact_key(tc_param(c, "taskId"), run, (struct str){0}, c->arena, &cmd.kv.key);
    if (err.code != ERR_OK)
        tc_fail_err(c, &err);
    else if (tc_page(c, PAGE_MAX, &cmd.kv.limit, &cmd.kv.after))
        backend_submit(c->tc->backend, &cmd);
}

static void list_latest(struct tc_call *c, const struct tc_task *t)
{
    uint32_t runs = tc_task_runs(t);
    if (has_run(c) && tc_param_run(c) >= runs)
        tc_fail(c, TC_RESOURCE_NOT_FOUND, "Run not found");
    else if (has_run(c))
        list_run(c, tc_param_run(c));
    else if (runs == 0)
        tc_fail(c, TC_RESOURCE_NOT_FOUND, "Task doesn't have any runs");
    else
        list_run(c, runs - 1);
}

void tc_list_artifacts(struct tc_call *c)
{
    tc_task_read(c, tc_param(c, "taskId"), list_latest);
}
