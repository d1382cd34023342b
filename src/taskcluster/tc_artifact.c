/* SPDX-License-Identifier: Apache-2.0 */

/* Artifacts that are created: createArtifact. */

#include "taskcluster/tc_artifact.h"

#include "base/array.h"
#include "base/must.h"
#include "base/rfc3339.h"
#include "taskcluster/tc_handlers.h"
#include "taskcluster/tc_task.h"
#include "wire/field.h"

#define CONTENT_TYPE_DEFAULT "application/binary"
/* How far the clock of a worker may be off, and how long after an exception it may still say what
 * it has found: as the reference. */
#define DRIFT_MS ((int64_t)15 * 60 * 1000)
#define GRACE_MS ((int64_t)25 * 60 * 1000)

/* --- entries --- */

static const char *const storages[TC_STORAGES] = {"reference", "link", "error"};

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
};

static struct err read_fields(struct str json, struct arena *a, struct tc_artifact *out)
{
    struct json_cursor j = json_open(json);
    *out = (struct tc_artifact){.content_type = STR(CONTENT_TYPE_DEFAULT), .content_length = -1};
    return field_read_object(true, &j, a, fields, COUNT(fields), out);
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
    } else {
        text_member(b, artifact->storage == TC_STORAGE_LINK ? "artifact" : "url", artifact->target);
    }
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
    struct buf answer;
};

static void put(struct artifact_creation *n, enum kv_condition when);

static void reply_created(struct artifact_creation *n)
{
    struct buf *b = tc_body(n->call);
    buf_print(b, "{\"storageType\":\"%s\"}", storages[n->artifact.storage]);
    tc_reply(n->call, b);
}

/* What may be changed by creating it again (the reference's rules of immutability): its end may
 * come later, and a reference may point elsewhere or become a link. */
static bool may_replace(const struct tc_artifact *old, const struct tc_artifact *new)
{
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

static void on_put(void *ctx, const struct reply *r)
{
    struct artifact_creation *n = ctx;
    struct tc_call *c = n->call;
    struct tc_artifact old;
    if (r->err.code == ERR_OK) {
        reply_created(n);
    } else if (r->err.code != ERR_CONFLICT) {
        tc_fail_err(c, &r->err);
    } else if (r->kv[0].version == 0) {
        put(n, KV_ABSENT); /* it expired meanwhile */
    } else if (tc_artifact_of(&r->kv[0], c->arena, &old) && may_replace(&old, &n->artifact)) {
        n->artifact.version = old.version;
        put(n, KV_VERSION);
    } else {
        tc_fail(c, TC_REQUEST_CONFLICT,
                "Artifact already exists, with another type, content or a later expiration.");
    }
}

static void put(struct artifact_creation *n, enum kv_condition when)
{
    struct buf value = {0};
    tc_artifact_write(&value, &n->artifact);
    const struct kv_change change = {.entry = {STR(TC_ARTIFACTS), n->key, buf_view(&value),
                                               n->artifact.expires, n->artifact.version},
                                     .when = when};
    struct command cmd = {.kind = CMD_KV_PUT, .kv_put = {&change, 1}, .done = on_put, .ctx = n};
    backend_submit(n->call->tc->backend, &cmd);
    buf_fini(&value);
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
    else
        put(n, KV_ABSENT);
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
    if (err.code == ERR_OK && n->artifact.storage == TC_STORAGE_REFERENCE &&
        !is_uri(n->artifact.target))
        err = err_make(ERR_BAD_VALUE, "data/url must match format \"uri\"");
    if (err.code != ERR_OK)
        tc_fail(c, TC_INPUT_ERROR, "%s", err.msg);
    else if (n->artifact.expires.ms < c->now.ms - DRIFT_MS)
        tc_fail(c, TC_INPUT_ERROR, "Expires must be in the future");
    else
        tc_task_find(c, tc_param(c, "taskId"), create);
}
