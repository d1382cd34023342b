/* SPDX-License-Identifier: Apache-2.0 */

/* Artifacts that are created, createArtifact, and finished, finishArtifact. */

#include "taskcluster/tc_artifact.h"

#include "base/array.h"
#include "base/base64.h"
#include "base/must.h"
#include "base/rfc3339.h"
#include "taskcluster/tc_content.h"
#include "taskcluster/tc_definition.h"
#include "taskcluster/tc_handlers.h"
#include "taskcluster/tc_task.h"
#include "wire/field.h"

#define CONTENT_TYPE_DEFAULT "application/binary"
/* How far the clock of a worker may be off, and how long after an exception it may still say what
 * it has found: as the reference. */
#define DRIFT_MS ((int64_t)15 * 60 * 1000)
#define GRACE_MS ((int64_t)25 * 60 * 1000)
/* How long it is known of an artifact that it has expired: as the reference. */
#define KEPT_MS ((int64_t)4 * 24 * 3600 * 1000)

/* --- entries --- */

static const char *const storages[TC_STORAGES] = {"reference", "link", "error", "s3", "object"};

const char *tc_storage_name(enum tc_storage s)
{
    return storages[s];
}

static struct err read_storage(struct json_cursor *c, struct arena *a, void *out)
{
    struct str text;
    TRY(field_text(c, a, &text));
    for (int s = 0; s < TC_STORAGES; s++) {
        if (str_eq(text, str_from(storages[s]))) {
            *(enum tc_storage *)out = (enum tc_storage)s;
            return err_none();
        }
    }
    return err_make(ERR_BAD_VALUE, "this server does not keep artifacts of the storage type '%.*s'",
                    NAME_ARG(text));
}

static struct err read_length(struct json_cursor *c, struct arena *a, void *out)
{
    (void)a;
    return json_read_int(c, 0, INT64_MAX, out);
}

static struct err read_expires(struct json_cursor *c, struct arena *a, void *out)
{
    struct str text;
    TRY(field_text(c, a, &text));
    return rfc3339_parse(text, out) ? err_none() : err_make(ERR_BAD_VALUE, "no date-time");
}

#define ARTIFACT(json, reader, member)                                                             \
    {                                                                                              \
        .name = (json), .read = (reader), .offset = offsetof(struct tc_artifact, member)           \
    }
/* The members of the body, by which an entry is written as well. */
static const struct field fields[] = {
    ARTIFACT("storageType", read_storage, storage),
    ARTIFACT("expires", read_expires, expires),
    ARTIFACT("contentType", field_text, content_type),
    ARTIFACT("contentLength", read_length, content_length),
    ARTIFACT("url", field_text, target),
    ARTIFACT("artifact", field_text, target),
    ARTIFACT("reason", field_text, reason),
    ARTIFACT("message", field_text, message),
    ARTIFACT("uploadId", field_text, upload_id),
};

static struct err read_fields(struct str json, struct arena *a, struct tc_artifact *out)
{
    struct json_cursor j = json_open(json);
    *out = (struct tc_artifact){.content_type = STR(CONTENT_TYPE_DEFAULT), .content_length = -1};
    TRY(field_read_object(true, &j, a, fields, COUNT(fields), out));
    if (out->content_type.len == 0)
        out->content_type = STR(CONTENT_TYPE_DEFAULT);
    return err_none();
}

struct err tc_artifact_key(struct str task_id, uint32_t run, struct str name, struct arena *a,
                           struct str *key)
{
    struct buf b = {0};
    buf_print(&b, "%.*s/%u/%.*s", STR_ARG(task_id), run, STR_ARG(name));
    *key = arena_copy(a, buf_view(&b));
    buf_fini(&b);
    if (key->len > KV_KEY_MAX)
        return err_make(ERR_BAD_VALUE, "the name of an artifact has at most %zu characters",
                        KV_KEY_MAX - (key->len - name.len));
    return err_none();
}

/* The name begins behind the second slash of the key. */
static struct str name_of(struct str key)
{
    const char *first = memchr(key.at, '/', key.len);
    const char *end = key.at + key.len;
    const char *second = first ? memchr(first + 1, '/', (size_t)(end - first) - 1) : NULL;
    return second ? (struct str){second + 1, (size_t)(end - second) - 1} : key;
}

bool tc_artifact_of(const struct kv_entry *e, struct arena *a, struct tc_artifact *out)
{
    if (read_fields(arena_copy(a, e->value), a, out).code != ERR_OK)
        return false;
    out->name = arena_copy(a, name_of(e->key));
    out->version = e->version;
    return true;
}

static void text_member(struct buf *b, const char *name, struct str text)
{
    buf_print(b, ",\"%s\":", name);
    json_write_string(b, text);
}

static void write_common(struct buf *b, const struct tc_artifact *artifact)
{
    buf_print(b, "\"storageType\":\"%s\",\"expires\":\"", storages[artifact->storage]);
    rfc3339_write(b, artifact->expires);
    buf_byte(b, '"');
    text_member(b, "contentType", artifact->content_type);
    if (artifact->content_length >= 0)
        INT_MEMBER(b, "contentLength", artifact->content_length);
}

void tc_artifact_write(struct buf *b, const struct tc_artifact *artifact)
{
    buf_byte(b, '{');
    write_common(b, artifact);
    if (artifact->storage == TC_STORAGE_ERROR) {
        text_member(b, "reason", artifact->reason);
        text_member(b, "message", artifact->message);
    } else if (artifact->target.len) {
        text_member(b, artifact->storage == TC_STORAGE_LINK ? "artifact" : "url", artifact->target);
    }
    TEXT_MEMBER(b, "uploadId", artifact->upload_id);
    buf_byte(b, '}');
}

void tc_artifact_answer(struct buf *b, const struct tc_artifact *artifact)
{
    buf_byte(b, '{');
    write_common(b, artifact);
    text_member(b, "name", artifact->name);
    buf_byte(b, '}');
}

/* --- createArtifact --- */

/* It goes into a header: a scheme, and nothing but printable ASCII without spaces. */
static bool is_uri(struct str s)
{
    const char *colon = s.len ? memchr(s.at, ':', s.len) : NULL;
    for (size_t i = 0; i < s.len; i++)
        if (s.at[i] <= 0x20 || s.at[i] > 0x7e)
            return false;
    return colon && colon > s.at && ((s.at[0] | 0x20) >= 'a' && (s.at[0] | 0x20) <= 'z');
}

struct artifact_creation {
    struct tc_call *call;
    struct tc_artifact artifact;
    struct str key;
    struct tc_object object; /* S3, OBJECT: what its bytes are kept as */
    struct str worker;       /* "group/id" */
    struct id job;
};

static void put(struct artifact_creation *n, enum kv_condition when);

void tc_artifact_credentials(struct buf *b, struct tc_call *c, struct str client_id,
                             struct str scope, instant until)
{
    struct credentials cred;
    access_issue(c->tc->settings.access, client_id, c->now, until, &scope, 1, c->arena, &cred);
    buf_lit(b, "{\"clientId\":");
    json_write_string(b, cred.client_id);
    KEY(b, "accessToken");
    json_write_string(b, cred.access_token);
    KEY(b, "certificate");
    json_write_string(b, cred.certificate);
    buf_byte(b, '}');
}

static void write_put_url(struct buf *b, struct artifact_creation *n)
{
    struct tc_call *c = n->call;
    const struct tc_content_url url = {
        .put = true,
        .kind = TC_OBJECT_S3,
        .name = n->object.name,
        .until = instant_min((instant){c->now.ms + TC_PUT_LIFE_MS}, n->artifact.expires),
        .content_type = n->artifact.content_type,
        .length = -1};
    text_member(b, "contentType", n->artifact.content_type);
    buf_lit(b, ",\"expires\":\"");
    rfc3339_write(b, url.until);
    buf_byte(b, '"');
    text_member(b, "putUrl", tc_content_url(c, &url));
}

static void write_upload(struct buf *b, struct artifact_creation *n)
{
    struct tc_call *c = n->call;
    struct buf id = {0}, scope = {0};
    buf_print(&id, "artifact-upload/%.*s/%u/on/%.*s", STR_ARG(tc_param(c, "taskId")),
              tc_param_run(c), STR_ARG(n->worker));
    buf_print(&scope, "object:upload:%.*s:%.*s", STR_ARG(n->object.project_id),
              STR_ARG(n->object.name));
    text_member(b, "name", n->object.name);
    text_member(b, "projectId", n->object.project_id);
    text_member(b, "uploadId", n->artifact.upload_id);
    buf_lit(b, ",\"expires\":\"");
    rfc3339_write(b, n->artifact.expires);
    buf_lit(b, "\",\"credentials\":");
    tc_artifact_credentials(
        b, c, buf_view(&id), buf_view(&scope),
        instant_min((instant){c->now.ms + TC_UPLOAD_LIFE_MS}, n->artifact.expires));
    buf_fini(&id);
    buf_fini(&scope);
}

static void reply_created(struct artifact_creation *n)
{
    struct buf *b = tc_body(n->call);
    buf_print(b, "{\"storageType\":\"%s\"", storages[n->artifact.storage]);
    if (n->artifact.storage == TC_STORAGE_S3)
        write_put_url(b, n);
    else if (n->artifact.storage == TC_STORAGE_OBJECT)
        write_upload(b, n);
    buf_byte(b, '}');
    tc_reply(n->call, b);
}

/* What may be changed by creating it again (the reference's rules of immutability): its end may
 * come later, and a reference may point elsewhere or become a link. */
static bool may_replace(const struct tc_artifact *old, const struct tc_artifact *new)
{
    /* The bytes of an object expire as was said when its upload began; whoever repeats that (an
     * answer may have been lost) goes on with it. */
    if (new->storage == TC_STORAGE_OBJECT &&
        (tc_artifact_is_present(old) || old->expires.ms != new->expires.ms))
        return false;
    bool same = str_eq(old->target, new->target) && str_eq(old->reason, new->reason) &&
                str_eq(old->message, new->message);
    if (new->storage != TC_STORAGE_LINK && !str_eq(old->content_type, new->content_type))
        return false;
    if (old->expires.ms > new->expires.ms)
        return false;
    if (old->storage == new->storage)
        return same || new->storage == TC_STORAGE_REFERENCE;
    return old->storage == TC_STORAGE_REFERENCE && new->storage == TC_STORAGE_LINK;
}

/* Its bytes are to be kept as long. */
static void extend(struct tc_call *c, struct tc_object *o)
{
    struct artifact_creation *n = c->state;
    if (!o) {
        tc_fail(c, TC_BUSY, "The artifact has expired in this very moment.");
        return;
    }
    n->object = *o;
    n->object.expires = n->artifact.expires;
    put(n, KV_VERSION);
}

static void replace(struct artifact_creation *n, const struct tc_artifact *old)
{
    struct tc_call *c = n->call;
    if (tc_artifact_has_expired(old, c->now)) {
        n->artifact.version = old->version;
        put(n, KV_VERSION);
        return;
    }
    if (!may_replace(old, &n->artifact)) {
        tc_fail(c, TC_REQUEST_CONFLICT,
                "Artifact already exists, with another type, content or a later expiration.");
        return;
    }
    n->artifact.version = old->version;
    if (n->artifact.storage == TC_STORAGE_S3) {
        tc_object_find(c, TC_OBJECT_S3, n->object.name, extend);
    } else if (n->artifact.storage == TC_STORAGE_OBJECT) {
        n->artifact.upload_id = old->upload_id;
        reply_created(n);
    } else {
        put(n, KV_VERSION);
    }
}

static void on_put(void *ctx, const struct reply *r)
{
    struct artifact_creation *n = ctx;
    struct tc_call *c = n->call;
    struct tc_artifact old;
    if (r->err.code == ERR_OK)
        reply_created(n);
    else if (r->err.code != ERR_CONFLICT)
        tc_fail_err(c, &r->err);
    else if (r->kv_refused > 0 && n->object.version)
        tc_fail(c, TC_BUSY, "The artifact was changed by another request at the same time.");
    else if (r->kv_refused > 0)
        tc_fail(c, TC_REQUEST_CONFLICT, "Object already exists");
    else if (r->kv[0].version == 0)
        put(n, KV_ABSENT); /* it expired meanwhile */
    else if (tc_artifact_of(&r->kv[0], c->arena, &old))
        replace(n, &old);
    else
        tc_fail(c, TC_INTERNAL_SERVER_ERROR, "the entry of the artifact is malformed");
}

static bool has_bytes(const struct tc_artifact *artifact)
{
    return artifact->storage == TC_STORAGE_S3 || artifact->storage == TC_STORAGE_OBJECT;
}

/* An upload that was never finished leaves nothing to speak of. */
static instant kept_until(const struct tc_artifact *artifact)
{
    int64_t longer = tc_artifact_is_present(artifact) ? KEPT_MS : 0;
    return (instant){artifact->expires.ms + longer};
}

static struct kv_change change_of(struct tc_call *c, const struct tc_artifact *artifact,
                                  struct str key, enum kv_condition when)
{
    struct buf value = {0};
    tc_artifact_write(&value, artifact);
    struct str text = arena_copy(c->arena, buf_view(&value));
    buf_fini(&value);
    return (struct kv_change){
        .entry = {STR(TC_ARTIFACTS), key, text, kept_until(artifact), artifact->version},
        .when = when};
}

/* What is there at once is told; bytes are still to come. */
static void put(struct artifact_creation *n, enum kv_condition when)
{
    struct tc_call *c = n->call;
    struct kv_change changes[1 + TC_OBJECT_CHANGES];
    size_t count = 1;
    changes[0] = change_of(c, &n->artifact, n->key, when);
    if (has_bytes(&n->artifact))
        count += tc_object_changes(&n->object, (struct str){0}, c->arena, changes + 1);
    const struct kv_artifact told = {n->job, tc_param_run(c), tc_param(c, "name")};
    struct command cmd = {.kind = CMD_KV_PUT, .kv_put = {changes, count}, .done = on_put, .ctx = n};
    if (!has_bytes(&n->artifact))
        cmd.kv_put.artifact = &told;
    backend_submit(c->tc->backend, &cmd);
}

/* A random UUID, version 4. */
static struct str make_slugid(struct tc_call *c)
{
    uint64_t random[2] = {rng_next(&c->tc->rng), rng_next(&c->tc->rng)};
    unsigned char bytes[sizeof random];
    struct buf b = {0};
    memcpy(bytes, random, sizeof bytes);
    bytes[0] &= 0x7f; /* so that it does not begin with '-' */
    bytes[6] = (unsigned char)((bytes[6] & 0x0f) | 0x40);
    bytes[8] = (unsigned char)((bytes[8] & 0x3f) | 0x80);
    base64_write_url(&b, (struct str){(const char *)bytes, sizeof bytes});
    struct str id = arena_copy(c->arena, buf_view(&b));
    buf_fini(&b);
    must(tc_is_slugid(id));
    return id;
}

/* What the bytes will be kept as. */
static void make_object(struct artifact_creation *n, const struct tc_task *t)
{
    struct tc_call *c = n->call;
    struct tc_artifact *artifact = &n->artifact;
    struct tc_object *o = &n->object;
    struct tc_head head = {0};
    o->expires = artifact->expires;
    n->worker = arena_copy(c->arena, t->runs[tc_param_run(c)].worker);
    if (artifact->storage == TC_STORAGE_S3) {
        o->kind = TC_OBJECT_S3;
        o->finished = true;
        return;
    }
    must(tc_head_read(&t->job, c->arena, &head));
    artifact->upload_id = make_slugid(c);
    o->kind = TC_OBJECT_PLAIN;
    o->project_id = arena_copy(c->arena, head.project_id);
    o->upload_id = artifact->upload_id;
    o->upload_until.ms = c->now.ms + TC_UPLOAD_LIFE_MS;
}

/* Whether the run may have further artifacts: while it is running, or soon after an exception. */
static bool is_open(const struct tc_call *c, const struct tc_task *t, uint32_t run)
{
    const char *resolved, *state = tc_run_state(t, run, &resolved);
    if (strcmp(state, "exception") == 0)
        return t->runs[run].ended_at.ms > c->now.ms - GRACE_MS;
    return strcmp(state, "running") == 0;
}

static void create(struct tc_call *c, const struct tc_task *t)
{
    struct artifact_creation *n = c->state;
    uint32_t run = tc_param_run(c);
    if (!t)
        tc_fail(c, TC_INPUT_ERROR, "Task not found");
    else if (run >= tc_task_runs(t))
        tc_fail(c, TC_INPUT_ERROR, "Run not found");
    else if (run >= t->run_count || t->runs[run].worker.len == 0)
        tc_fail(c, TC_INPUT_ERROR, "Run was not claimed by a worker and so no artifacts can exist");
    else if (n->artifact.expires.ms > t->job.options.retain_until.ms)
        tc_fail(c, TC_INPUT_ERROR, "Artifact expires after its task does");
    else if (!is_open(c, t, run))
        tc_fail(c, TC_REQUEST_CONFLICT,
                "Artifacts cannot be created for a run that is resolved, unless it is resolved "
                "'exception', and that for 25 min only");
    else {
        n->job = t->job.id;
        if (has_bytes(&n->artifact))
            make_object(n, t);
        put(n, KV_ABSENT);
    }
}

static struct err check_content(struct artifact_creation *n)
{
    struct tc_call *c = n->call;
    if (n->artifact.storage == TC_STORAGE_REFERENCE && !is_uri(n->artifact.target))
        return err_make(ERR_BAD_VALUE, "data/url must match format \"uri\"");
    if (!has_bytes(&n->artifact))
        return err_none();
    if (!tc_is_header_value(n->artifact.content_type))
        return err_make(ERR_BAD_VALUE, "data/contentType must be the value of a Content-Type: 1 to "
                                       "255 printable ASCII characters");
    return tc_object_name(tc_param(c, "taskId"), tc_param_run(c), tc_param(c, "name"), c->arena,
                          &n->object.name);
}

void tc_create_artifact(struct tc_call *c)
{
    struct artifact_creation *n = ARENA_NEW(c->arena, struct artifact_creation);
    n->call = c;
    c->state = n;
    struct err err = read_fields(c->body, c->arena, &n->artifact);
    if (err.code == ERR_OK)
        err = tc_artifact_key(tc_param(c, "taskId"), tc_param_run(c), tc_param(c, "name"), c->arena,
                              &n->key);
    if (err.code == ERR_OK)
        err = check_content(n);
    if (err.code != ERR_OK)
        tc_fail(c, TC_INPUT_ERROR, "%s", err.msg);
    else if (n->artifact.expires.ms < c->now.ms - DRIFT_MS)
        tc_fail(c, TC_INPUT_ERROR, "Expires must be in the future");
    else
        tc_task_find(c, tc_param(c, "taskId"), create);
}

/* --- finishArtifact --- */

struct finishing {
    struct tc_call *call;
    struct str key, upload_id;
    struct tc_artifact artifact;
};

static void reply_done(struct tc_call *c)
{
    http_reply(c->x, 204, (struct str){0}, (struct str){0}, NULL);
}

static void on_finished(void *ctx, const struct reply *r)
{
    struct tc_call *c = ((struct finishing *)ctx)->call;
    if (r->err.code == ERR_OK)
        reply_done(c);
    else if (r->err.code == ERR_CONFLICT)
        tc_fail(c, TC_BUSY, "The artifact was changed by another request at the same time.");
    else
        tc_fail_err(c, &r->err);
}

static void finish_of(struct tc_call *c, const struct tc_task *t)
{
    struct finishing *f = c->state;
    if (!t || tc_param_run(c) >= t->run_count) {
        tc_fail(c, TC_RESOURCE_NOT_FOUND, "Artifact not found");
        return;
    }
    f->artifact.upload_id = (struct str){0};
    const struct kv_artifact told = {t->job.id, tc_param_run(c), tc_param(c, "name")};
    struct kv_change change = change_of(c, &f->artifact, f->key, KV_VERSION);
    struct command cmd = {
        .kind = CMD_KV_PUT, .kv_put = {&change, 1, &told}, .done = on_finished, .ctx = f};
    backend_submit(c->tc->backend, &cmd);
}

static void finish_with(struct tc_call *c, struct tc_object *o)
{
    if (!o || !o->finished) {
        tc_fail(c, TC_INPUT_ERROR, "Object storing artifact data does not exist");
        return;
    }
    tc_task_find(c, tc_param(c, "taskId"), finish_of);
}

static void on_artifact(void *ctx, const struct reply *r)
{
    struct finishing *f = ctx;
    struct tc_call *c = f->call;
    struct str name;
    struct err err = tc_object_name(tc_param(c, "taskId"), tc_param_run(c), tc_param(c, "name"),
                                    c->arena, &name);
    if (r->err.code == ERR_NOT_FOUND || err.code != ERR_OK)
        tc_fail(c, TC_RESOURCE_NOT_FOUND, "Artifact not found");
    else if (r->err.code != ERR_OK)
        tc_fail_err(c, &r->err);
    else if (!tc_artifact_of(&r->kv[0], c->arena, &f->artifact))
        tc_fail(c, TC_INTERNAL_SERVER_ERROR, "the entry of the artifact is malformed");
    else if (f->artifact.storage != TC_STORAGE_OBJECT)
        tc_fail(c, TC_INPUT_ERROR, "Only object artifacts can be finished");
    else if (tc_artifact_is_present(&f->artifact))
        reply_done(c);
    else if (!str_eq(f->upload_id, f->artifact.upload_id))
        tc_fail(c, TC_INPUT_ERROR, "given uploadId does not match that for the artifact");
    else
        tc_object_find(c, TC_OBJECT_PLAIN, name, finish_with);
}

static const struct field finish_fields[] = {
    {.name = "uploadId", .read = field_text, .offset = offsetof(struct finishing, upload_id)},
};

void tc_finish_artifact(struct tc_call *c)
{
    struct finishing *f = ARENA_NEW(c->arena, struct finishing);
    struct json_cursor j = json_open(c->body);
    struct err err = field_read_object(true, &j, c->arena, finish_fields, COUNT(finish_fields), f);
    must(err.code == ERR_OK); /* by the schema */
    f->call = c;
    c->state = f;
    err = tc_artifact_key(tc_param(c, "taskId"), tc_param_run(c), tc_param(c, "name"), c->arena,
                          &f->key);
    struct command cmd = {.kind = CMD_KV_READ,
                          .kv = {.space = STR(TC_ARTIFACTS), .key = f->key},
                          .done = on_artifact,
                          .ctx = f};
    if (err.code == ERR_OK)
        backend_submit(c->tc->backend, &cmd);
    else
        tc_fail(c, TC_RESOURCE_NOT_FOUND, "Artifact not found");
}
