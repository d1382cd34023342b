/* SPDX-License-Identifier: Apache-2.0 */

/* The object service: uploads that are begun and finished, downloads, and what is known of an
 * object. Bytes come in the request itself (dataInline, up to 8 KiB) or are put to a URL (putUrl);
 * they are got from a URL (getUrl, simple). */

#include "base/array.h"
#include "base/base64.h"
#include "base/must.h"
#include "base/rfc3339.h"
#include "taskcluster/tc_content.h"
#include "taskcluster/tc_handlers.h"
#include "wire/field.h"

#define INLINE_MAX 8192

/* --- bodies --- */

struct hashes {
    struct str sha256, sha512;
};

static const struct field hash_fields[] = {
    {.name = "sha256", .read = field_text, .offset = offsetof(struct hashes, sha256)},
    {.name = "sha512", .read = field_text, .offset = offsetof(struct hashes, sha512)},
};

struct method {
    struct str content_type, data;
    int64_t length;
    bool given;
};

static struct err read_length(struct json_cursor *c, struct arena *a, void *out)
{
    (void)a;
    return json_read_int(c, 0, INT64_MAX, out);
}

static const struct field method_fields[] = {
    {.name = "contentType", .read = field_text, .offset = offsetof(struct method, content_type)},
    {.name = "objectData", .read = field_text, .offset = offsetof(struct method, data)},
    {.name = "contentLength", .read = read_length, .offset = offsetof(struct method, length)},
};

struct methods {
    struct field_part data_inline, put_url, simple, get_url;
};

static const struct field methods_fields[] = {
    {.name = "dataInline", .read = field_part, .offset = offsetof(struct methods, data_inline)},
    {.name = "putUrl", .read = field_part, .offset = offsetof(struct methods, put_url)},
    {.name = "simple", .read = field_part, .offset = offsetof(struct methods, simple)},
    {.name = "getUrl", .read = field_part, .offset = offsetof(struct methods, get_url)},
};

struct upload_body {
    struct str project_id, upload_id, expires_text;
    instant expires;
    struct field_part hashes_part, methods_part;
    struct hashes hashes;
    struct method data_inline, put_url;
    struct methods accepted; /* of a download */
};

#define BODY(json, reader, member)                                                                 \
    {                                                                                              \
        .name = (json), .read = (reader), .offset = offsetof(struct upload_body, member)           \
    }
static const struct field body_fields[] = {
    BODY("projectId", field_text, project_id),
    BODY("uploadId", field_text, upload_id),
    BODY("expires", field_text, expires_text),
    BODY("hashes", field_part, hashes_part),
    BODY("proposedUploadMethods", field_part, methods_part),
    BODY("acceptDownloadMethods", field_part, methods_part),
};

static struct err read_method(struct field_part *part, struct arena *a, const char *name,
                              struct method *m)
{
    TRY(field_read_part(true, part, a, method_fields, COUNT(method_fields), name, m));
    m->given = part->given;
    return err_none();
}

static struct err check_method(const struct method *m, const char *name)
{
    if (m->given && !tc_is_header_value(m->content_type))
        return err_make(ERR_BAD_VALUE,
                        "%s: contentType must be 1 to 255 printable ASCII characters", name);
    return err_none();
}

/* Clients whose language has zero values name both methods and mean the one with something in it:
 * without data, or without type and length, a method beside another is no proposal. */
static struct err check_methods(struct upload_body *b)
{
    bool both = b->data_inline.given && b->put_url.given;
    if (both && b->data_inline.data.len == 0)
        b->data_inline.given = false;
    else if (both && b->put_url.content_type.len == 0 && b->put_url.length == 0)
        b->put_url.given = false;
    TRY(check_method(&b->data_inline, "dataInline"));
    return check_method(&b->put_url, "putUrl");
}

/* Of a body that fits its schema. */
static struct err read_body(struct tc_call *c, struct upload_body *b)
{
    struct json_cursor j = json_open(c->body);
    struct methods m = {0};
    *b = (struct upload_body){.expires = INSTANT_NONE};
    TRY(field_read_object(true, &j, c->arena, body_fields, COUNT(body_fields), b));
    if (b->expires_text.len && !rfc3339_parse(b->expires_text, &b->expires))
        return err_make(ERR_BAD_VALUE, "expires: no date-time");
    TRY(field_read_part(false, &b->hashes_part, c->arena, hash_fields, COUNT(hash_fields), "hashes",
                        &b->hashes));
    TRY(field_read_part(true, &b->methods_part, c->arena, methods_fields, COUNT(methods_fields),
                        "methods", &m));
    b->accepted = m;
    TRY(read_method(&m.data_inline, c->arena, "dataInline", &b->data_inline));
    TRY(read_method(&m.put_url, c->arena, "putUrl", &b->put_url));
    return check_methods(b);
}

static bool authorize(struct tc_call *c, const struct upload_body *b)
{
    const struct scope_param params[] = {{.name = "projectId", .value = b->project_id},
                                         {.name = "name", .value = tc_param(c, "name")}};
    return tc_authorize(c, params, COUNT(params));
}

/* What the client says of a checksum may be added, and not be changed. */
static bool merge_hash(struct str *given, struct str new)
{
    if (!new.len)
        return true;
    if (given->len && !str_eq(*given, new))
        return false;
    *given = new;
    return true;
}

static bool merge_hashes(struct tc_call *c, struct tc_object *o, const struct hashes *h)
{
    if (merge_hash(&o->given256, h->sha256) && merge_hash(&o->given512, h->sha512))
        return true;
    tc_fail(c, TC_REQUEST_CONFLICT, "Content hash already exists with a different value");
    return false;
}

/* --- createUpload --- */

struct upload {
    struct upload_body body;
    struct tc_object_store store;
};

static void write_put_url(struct buf *b, struct tc_call *c, const struct tc_object *o,
                          const struct method *m)
{
    const struct tc_content_url url = {
        .put = true,
        .kind = TC_OBJECT_PLAIN,
        .name = o->name,
        .until = instant_min((instant){c->now.ms + TC_PUT_LIFE_MS}, o->expires),
        .content_type = m->content_type,
        .length = m->length,
        .upload_id = o->upload_id};
    buf_lit(b, "\"putUrl\":{\"url\":");
    json_write_string(b, tc_content_url(c, &url));
    buf_lit(b, ",\"expires\":\"");
    rfc3339_write(b, url.until);
    buf_lit(b, "\",\"headers\":{\"Content-Type\":");
    json_write_string(b, m->content_type);
    buf_print(b, ",\"Content-Length\":\"%lld\"}}", (long long)m->length);
}

static void reply_upload(struct tc_call *c, const struct tc_object *o)
{
    const struct upload *u = c->state;
    struct buf *b = tc_body(c);
    buf_lit(b, "{\"projectId\":");
    json_write_string(b, o->project_id);
    KEY(b, "uploadId");
    json_write_string(b, o->upload_id);
    buf_lit(b, ",\"expires\":\"");
    rfc3339_write(b, o->expires);
    buf_lit(b, "\",\"uploadMethod\":{");
    if (u->body.data_inline.given)
        buf_lit(b, "\"dataInline\":true");
    else if (u->body.put_url.given)
        write_put_url(b, c, o, &u->body.put_url);
    buf_lit(b, "}}");
    tc_reply(c, b);
}

static void store_inline(struct tc_call *c, struct upload *u)
{
    const struct method *m = &u->body.data_inline;
    struct str bytes = {0};
    if (m->data.len && !base64_read(m->data, c->arena, &bytes))
        tc_fail(c, TC_INPUT_ERROR, "dataInline: objectData is not base64");
    else if (bytes.len > INLINE_MAX)
        tc_fail(c, TC_INPUT_ERROR, "dataInline: objectData has at most %d bytes", INLINE_MAX);
    else {
        u->store.object.content_type = m->content_type;
        tc_object_store_bytes(&u->store, bytes);
    }
}

static bool is_same_upload(const struct tc_object *o, const struct upload_body *b)
{
    return !o->finished && str_eq(o->project_id, b->project_id) &&
           str_eq(o->upload_id, b->upload_id) && (!o->begun || o->expires.ms == b->expires.ms);
}

static void begin_upload(struct tc_call *c, struct tc_object *o)
{
    struct upload *u = c->state;
    struct tc_object *new = &u->store.object;
    if (o && !is_same_upload(o, &u->body)) {
        tc_fail(c, TC_REQUEST_CONFLICT, "Object already exists");
        return;
    }
    u->store = (struct tc_object_store){.call = c, .then = reply_upload};
    if (o)
        *new = *o;
    else
        *new = (struct tc_object){.kind = TC_OBJECT_PLAIN,
                                  .name = tc_param(c, "name"),
                                  .project_id = u->body.project_id,
                                  .upload_id = u->body.upload_id,
                                  .expires = u->body.expires};
    /* The queue makes an object with its artifact: how long it lives says whoever uploads it. */
    new->expires = u->body.expires;
    new->begun = true;
    new->upload_until.ms = c->now.ms + TC_UPLOAD_LIFE_MS;
    if (!merge_hashes(c, new, &u->body.hashes))
        return;
    if (u->body.data_inline.given)
        store_inline(c, u);
    else
        tc_object_store(&u->store);
}

void tc_create_upload(struct tc_call *c)
{
    struct upload *u = ARENA_NEW(c->arena, struct upload);
    struct err err = read_body(c, &u->body);
    c->state = u;
    if (err.code != ERR_OK)
        tc_fail(c, TC_INPUT_ERROR, "%s", err.msg);
    else if (tc_param(c, "name").len > KV_KEY_MAX)
        tc_fail(c, TC_INPUT_ERROR, "The name of an object has at most %d characters", KV_KEY_MAX);
    else if (u->body.expires.ms <= c->now.ms)
        tc_fail(c, TC_INPUT_ERROR, "Expires must be in the future");
    else if (authorize(c, &u->body))
        tc_object_find(c, TC_OBJECT_PLAIN, tc_param(c, "name"), begin_upload);
}

/* --- finishUpload --- */

static void reply_finished(struct tc_call *c, const struct tc_object *o)
{
    (void)o;
    tc_reply_empty(c);
}

/* Finishing twice is allowed with what was said the first time. */
static void finish_again(struct tc_call *c, const struct tc_object *o, const struct hashes *h)
{
    if (tc_object_fits(h->sha256, o->sha256) && tc_object_fits(h->sha512, o->sha512))
        tc_reply_empty(c);
    else
        tc_fail(c, TC_REQUEST_CONFLICT, "Object is already finished, but with a different hash");
}

static void finish_now(struct tc_call *c, struct upload *u, struct tc_object *o)
{
    if (!merge_hashes(c, o, &u->body.hashes))
        return;
    if (!tc_object_fits(o->given256, o->sha256) || !tc_object_fits(o->given512, o->sha512)) {
        tc_fail(c, TC_INPUT_ERROR, "The data that were uploaded do not have these hashes.");
        return;
    }
    o->finished = true;
    u->store = (struct tc_object_store){.call = c, .object = *o, .then = reply_finished};
    tc_object_store(&u->store);
}

static void finish(struct tc_call *c, struct tc_object *o)
{
    struct upload *u = c->state;
    if (!o)
        tc_fail(c, TC_RESOURCE_NOT_FOUND, "Object not found");
    else if (!str_eq(o->project_id, u->body.project_id))
        tc_fail(c, TC_INPUT_ERROR, "Object does not have projectId %.*s",
                STR_ARG(u->body.project_id));
    else if (o->finished)
        finish_again(c, o, &u->body.hashes);
    else if (!str_eq(o->upload_id, u->body.upload_id))
        tc_fail(c, TC_REQUEST_CONFLICT, "Object does not have uploadId %.*s",
                STR_ARG(u->body.upload_id));
    else if (!o->file.len)
        tc_fail(c, TC_INPUT_ERROR, "No data were uploaded for the object.");
    else
        finish_now(c, u, o);
}

void tc_finish_upload(struct tc_call *c)
{
    struct upload *u = ARENA_NEW(c->arena, struct upload);
    struct err err = read_body(c, &u->body);
    c->state = u;
    if (err.code != ERR_OK)
        tc_fail(c, TC_INPUT_ERROR, "%s", err.msg);
    else if (authorize(c, &u->body))
        tc_object_find(c, TC_OBJECT_PLAIN, tc_param(c, "name"), finish);
}

/* --- downloads --- */

static bool is_there(struct tc_call *c, const struct tc_object *o)
{
    if (o && o->finished && o->file.len)
        return true;
    tc_fail(c, TC_RESOURCE_NOT_FOUND, "Object not found");
    return false;
}

static void start_download(struct tc_call *c, struct tc_object *o)
{
    const struct upload *u = c->state;
    struct buf *b;
    instant until;
    if (!is_there(c, o))
        return;
    struct str url = tc_content_get_url(c, o->kind, o->name, o->expires, &until);
    if (!u->body.accepted.get_url.given && !u->body.accepted.simple.given) {
        tc_fail(c, TC_NO_MATCHING_METHOD, "Object supports methods getUrl, simple");
        return;
    }
    b = tc_body(c);
    buf_print(b,
              "{\"method\":\"%s\",\"url\":", u->body.accepted.get_url.given ? "getUrl" : "simple");
    json_write_string(b, url);
    if (u->body.accepted.get_url.given) {
        buf_lit(b, ",\"expires\":\"");
        rfc3339_write(b, until);
        buf_lit(b, "\",\"hashes\":");
        tc_content_write_hashes(b, o);
    }
    buf_byte(b, '}');
    tc_reply(c, b);
}

void tc_start_download(struct tc_call *c)
{
    struct upload *u = ARENA_NEW(c->arena, struct upload);
    struct err err = read_body(c, &u->body);
    must(err.code == ERR_OK); /* by the schema */
    c->state = u;
    tc_object_find(c, TC_OBJECT_PLAIN, tc_param(c, "name"), start_download);
}

static void redirect(struct tc_call *c, struct tc_object *o)
{
    struct buf headers = {0};
    instant until;
    if (!is_there(c, o))
        return;
    struct str url = tc_content_get_url(c, o->kind, o->name, o->expires, &until);
    buf_print(&headers, "Location: %.*s\r\n", STR_ARG(url));
    buf_byte(&headers, '\0');
    http_reply(c->x, 303, (struct str){0}, (struct str){0}, headers.at);
    buf_fini(&headers);
}

void tc_download_object(struct tc_call *c)
{
    tc_object_find(c, TC_OBJECT_PLAIN, tc_param(c, "name"), redirect);
}

static void reply_metadata(struct tc_call *c, struct tc_object *o)
{
    if (!is_there(c, o))
        return;
    struct buf *b = tc_body(c);
    buf_lit(b, "{\"projectId\":");
    json_write_string(b, o->project_id);
    buf_lit(b, ",\"expires\":\"");
    rfc3339_write(b, o->expires);
    buf_lit(b, "\",\"hashes\":");
    tc_content_write_hashes(b, o);
    buf_byte(b, '}');
    tc_reply(c, b);
}

void tc_get_object(struct tc_call *c)
{
    tc_object_find(c, TC_OBJECT_PLAIN, tc_param(c, "name"), reply_metadata);
}
