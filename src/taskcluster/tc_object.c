/* SPDX-License-Identifier: Apache-2.0 */
#include "taskcluster/tc_object.h"

#include "base/array.h"
#include "base/must.h"
#include "wire/field.h"

#define MALFORMED "the entry of the object is malformed"

static const char *const kinds[TC_OBJECT_KINDS] = {"object", "s3"};
static const char *const spaces[TC_OBJECT_KINDS] = {"taskcluster/object", "taskcluster/s3"};

const char *tc_object_kind_name(enum tc_object_kind kind)
{
    return kinds[kind];
}

struct err tc_object_name(struct str task_id, uint32_t run, struct str name, struct arena *a,
                          struct str *out)
{
    struct buf b = {0};
    buf_print(&b, "t/%.*s/%u/%.*s", STR_ARG(task_id), run, STR_ARG(name));
    *out = arena_copy(a, buf_view(&b));
    buf_fini(&b);
    if (out->len > KV_KEY_MAX)
        return err_make(ERR_BAD_VALUE, "the name of an artifact has at most %zu characters",
                        KV_KEY_MAX - (out->len - name.len));
    return err_none();
}

/* --- entries --- */

static struct err read_size(struct json_cursor *c, struct arena *a, void *out)
{
    (void)a;
    return json_read_int(c, 0, INT64_MAX, out);
}

#define OBJECT(json, reader, member)                                                               \
    {                                                                                              \
        .name = (json), .read = (reader), .offset = offsetof(struct tc_object, member)             \
    }
static const struct field fields[] = {
    OBJECT("projectId", field_text, project_id),
    OBJECT("uploadId", field_text, upload_id),
    OBJECT("begun", field_bool, begun),
    OBJECT("finished", field_bool, finished),
    OBJECT("expires", field_instant, expires),
    OBJECT("uploadUntil", field_instant, upload_until),
    OBJECT("stored", field_instant, stored),
    OBJECT("given256", field_text, given256),
    OBJECT("given512", field_text, given512),
    OBJECT("file", field_text, file),
    OBJECT("size", read_size, size),
    OBJECT("sha256", field_text, sha256),
    OBJECT("sha512", field_text, sha512),
    OBJECT("contentType", field_text, content_type),
    OBJECT("contentEncoding", field_text, encoding),
};

static void write_entry(struct buf *b, const struct tc_object *o)
{
    buf_print(b, "{\"finished\":%s", o->finished ? "true" : "false");
    if (o->begun)
        buf_lit(b, ",\"begun\":true");
    INT_MEMBER(b, "expires", o->expires.ms);
    INT_MEMBER(b, "uploadUntil", o->upload_until.ms);
    TEXT_MEMBER(b, "projectId", o->project_id);
    TEXT_MEMBER(b, "uploadId", o->upload_id);
    TEXT_MEMBER(b, "given256", o->given256);
    TEXT_MEMBER(b, "given512", o->given512);
    TEXT_MEMBER(b, "contentType", o->content_type);
    TEXT_MEMBER(b, "contentEncoding", o->encoding);
    if (o->file.len) {
        TEXT_MEMBER(b, "file", o->file);
        INT_MEMBER(b, "size", o->size);
        INT_MEMBER(b, "stored", o->stored.ms);
        TEXT_MEMBER(b, "sha256", o->sha256);
        TEXT_MEMBER(b, "sha512", o->sha512);
    }
    buf_byte(b, '}');
}

static bool read_entry(const struct kv_entry *e, struct arena *a, struct tc_object *o)
{
    struct json_cursor j = json_open(arena_copy(a, e->value));
    if (field_read_object(true, &j, a, fields, COUNT(fields), o).code != ERR_OK)
        return false;
    o->version = e->version;
    return o->file.len == 0 ||
           (o->file.len == TC_FILE_NAME && o->sha256.len == TC_SHA256_HEX && o->size >= 0);
}

/* --- reading --- */

struct finding {
    struct tc_call *call;
    struct tc_object object;
    void (*then)(struct tc_call *c, struct tc_object *o);
};

static void on_found(void *ctx, const struct reply *r)
{
    struct finding *f = ctx;
    struct tc_call *c = f->call;
    if (r->err.code == ERR_NOT_FOUND)
        f->then(c, NULL);
    else if (r->err.code != ERR_OK)
        tc_fail_err(c, &r->err);
    else if (!read_entry(&r->kv[0], c->arena, &f->object))
        tc_fail(c, TC_INTERNAL_SERVER_ERROR, MALFORMED);
    else
        f->then(c, &f->object);
}

void tc_object_find(struct tc_call *c, enum tc_object_kind kind, struct str name,
                    void (*then)(struct tc_call *c, struct tc_object *o))
{
    struct finding *f = ARENA_NEW(c->arena, struct finding);
    f->call = c;
    f->then = then;
    f->object = (struct tc_object){.kind = kind, .name = arena_copy(c->arena, name)};
    struct command cmd = {.kind = CMD_KV_READ,
                          .kv = {.space = str_from(spaces[kind]), .key = f->object.name},
                          .done = on_found,
                          .ctx = f};
    if (name.len > KV_KEY_MAX)
        then(c, NULL);
    else
        backend_submit(c->tc->backend, &cmd);
}

/* --- storing --- */

static instant end_of(const struct tc_object *o)
{
    return o->finished || o->expires.ms < o->upload_until.ms ? o->expires : o->upload_until;
}

size_t tc_object_changes(const struct tc_object *o, struct str file_before, struct arena *a,
                         struct kv_change changes[TC_OBJECT_CHANGES])
{
    struct buf value = {0};
    size_t n = 0;
    write_entry(&value, o);
    changes[n++] =
        (struct kv_change){.entry = {str_from(spaces[o->kind]), o->name,
                                     arena_copy(a, buf_view(&value)), end_of(o), o->version},
                           .when = o->version ? KV_VERSION : KV_ABSENT};
    buf_fini(&value);
    if (o->file.len)
        changes[n++] = (struct kv_change){
            .entry = {STR(TC_FILES_SPACE), o->file, STR("{}"), end_of(o), 0}, .when = KV_ANY};
    if (file_before.len && !str_eq(file_before, o->file))
        changes[n++] = (struct kv_change){
            .entry = {STR(TC_FILES_SPACE), file_before, (struct str){0}, INSTANT_NONE, 0},
            .when = KV_ANY,
            .remove = true};
    return n;
}

static void settle(struct tc_object_store *s, bool keep)
{
    tc_files_settle(s->call->tc->files, str_from(s->file->name), s->file->size, keep);
}

static void on_stored(void *ctx, const struct reply *r)
{
    struct tc_object_store *s = ctx;
    struct tc_call *c = s->call;
    if (r->err.code == ERR_CONFLICT && s->allows) { /* it has changed once more */
        tc_object_store_file(s, s->file);
        return;
    }
    /* After another error than a conflict nobody knows whether the file has an entry: the next
     * sweep will. */
    if (s->file)
        settle(s, r->err.code != ERR_CONFLICT);
    if (r->err.code == ERR_CONFLICT) {
        tc_fail(c, TC_BUSY, "The object was changed by another request at the same time.");
        return;
    }
    if (r->err.code != ERR_OK) {
        tc_files_sweep(c->tc->files);
        tc_fail_err(c, &r->err);
        return;
    }
    if (s->file && s->file_before.len)
        tc_files_remove(c->tc->files, s->file_before, s->size_before);
    s->object.version = r->kv[0].version;
    s->then(c, &s->object);
}

void tc_object_store(struct tc_object_store *s)
{
    struct tc_call *c = s->call;
    struct kv_change changes[TC_OBJECT_CHANGES];
    size_t n = tc_object_changes(&s->object, s->file_before, c->arena, changes);
    struct command cmd = {.kind = CMD_KV_PUT, .kv_put = {changes, n}, .done = on_stored, .ctx = s};
    backend_submit(c->tc->backend, &cmd);
}

bool tc_object_fits(struct str given, struct str is)
{
    return given.len == 0 || str_eq(given, is);
}

/* The file is the object's from now on, if it has the checksums that the client gave. */
static void attach(struct tc_object_store *s)
{
    struct tc_object *o = &s->object;
    s->file_before = o->file;
    s->size_before = (uint64_t)o->size;
    o->file = str_from(s->file->name);
    o->size = (int64_t)s->file->size;
    o->stored = s->call->tc->settings.now(s->call->tc->settings.ctx);
    o->sha256 = str_from(s->file->sha256);
    o->sha512 = str_from(s->file->sha512);
    if (tc_object_fits(o->given256, o->sha256) && tc_object_fits(o->given512, o->sha512)) {
        tc_object_store(s);
        return;
    }
    settle(s, false);
    tc_fail(s->call, TC_INPUT_ERROR, "The data do not have the hashes that were given for them.");
}

static void on_written(struct tc_file_writer *w)
{
    struct tc_object_store *s = w->ctx;
    if (w->err.code != ERR_OK)
        tc_fail_file(s->call, &w->err);
    else
        attach(s);
}

void tc_object_store_bytes(struct tc_object_store *s, struct str bytes)
{
    struct tc_file_writer *w = ARENA_NEW(s->call->arena, struct tc_file_writer);
    s->file = w;
    w->announced = (int64_t)bytes.len;
    w->done = on_written;
    w->ctx = s;
    struct err err = tc_file_writer_begin(s->call->tc->files, w);
    if (err.code != ERR_OK) {
        tc_fail_file(s->call, &err);
        return;
    }
    tc_file_writer_add(w, bytes);
    tc_file_writer_finish(w);
}

static void on_current(void *ctx, const struct reply *r)
{
    struct tc_object_store *s = ctx;
    struct tc_call *c = s->call;
    bool there = r->err.code == ERR_OK, allowed = false;
    if (!there && r->err.code != ERR_NOT_FOUND)
        tc_fail_err(c, &r->err);
    else if (there && !read_entry(&r->kv[0], c->arena, &s->object))
        tc_fail(c, TC_INTERNAL_SERVER_ERROR, MALFORMED);
    else
        allowed = s->allows(c, there ? &s->object : NULL);
    if (allowed)
        attach(s);
    else
        settle(s, false);
}

void tc_object_store_file(struct tc_object_store *s, const struct tc_file_writer *file)
{
    struct command cmd = {.kind = CMD_KV_READ,
                          .kv = {.space = str_from(spaces[s->object.kind]), .key = s->object.name},
                          .done = on_current,
                          .ctx = s};
    s->file = file;
    backend_submit(s->call->tc->backend, &cmd);
}

/* --- */

bool tc_is_header_value(struct str s)
{
    for (size_t i = 0; i < s.len; i++)
        if (s.at[i] < 0x20 || s.at[i] > 0x7e)
            return false;
    return s.len > 0 && s.len <= 255 && s.at[0] != ' ' && s.at[s.len - 1] != ' ';
}

void tc_fail_file(struct tc_call *c, const struct err *err)
{
    enum tc_code code = TC_INTERNAL_SERVER_ERROR;
    if (err->code == ERR_DISK_FULL)
        code = TC_OUT_OF_SPACE;
    else if (err->code == ERR_NOT_FOUND)
        code = TC_RESOURCE_NOT_FOUND;
    else if (err->code == ERR_BUSY)
        code = TC_BUSY;
    else if (err->code == ERR_REQUEST_TIMEOUT)
        code = TC_REQUEST_TIMEOUT;
    else if (err_status(err->code) / 100 == 4)
        code = TC_INPUT_ERROR;
    tc_fail(c, code, "%s", err->msg);
}
