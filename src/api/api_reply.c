/* SPDX-License-Identifier: Apache-2.0 */

/* How requests are answered, and how they are refused. */

#include <strings.h>

#include "api/api_access.h"
#include "api/api_routes.h"
#include "api/api_words.h"
#include "wire/wire_msgpack.h"
#include "base/log.h"
#include "base/utf8.h"

#define JSON_TYPE    STR("application/json")
#define MSGPACK_TYPE STR("application/msgpack")

/* How large a buffer is kept after a large body. */
#define KEEP_MAX ((size_t)1024 * 1024)

struct call *api_call(struct api *a, const struct api_request *r)
{
    struct call *c = ARENA_NEW(r->http->arena, struct call);
    c->api = a;
    c->x = r->x;
    c->blind = !rights_have(r->rights, RIGHT_PAYLOADS);
    return c;
}

void api_send(struct api *a, const struct api_request *r, struct command *c)
{
    c->reach = r->rights->queues;
    c->trail = r->trail;
    api_own_alias(r, &c->alias);
    backend_submit(a->backend, c);
}

void api_submit(struct api *a, const struct api_request *r, struct command *c, struct err err)
{
    if (err.code != ERR_OK) {
        api_reply_error(r->x, &err, NULL);
        return;
    }
    c->ctx = api_call(a, r);
    api_send(a, r, c);
}

/* --- the format --- */

static void empty(struct buf *b)
{
    if (b->cap > KEEP_MAX)
        buf_fini(b);
    b->len = 0;
}

static struct err check_coding(struct str coding)
{
    if (coding.len == 0 || (coding.len == 8 && strncasecmp(coding.at, "identity", 8) == 0))
        return err_none();
    return err_make(ERR_BAD_MEDIA, "the content encoding '%.*s' is not supported; send none",
                    coding.len < 100 ? (int)coding.len : 100, coding.at);
}

struct err api_unpack(struct api *a, struct http_exchange *x, const struct http_request *req,
                      struct http_request *out)
{
    struct packed_call *p = ARENA_NEW(req->arena, struct packed_call);
    *p = (struct packed_call){.api = a, .reply = wire_msgpack_preferred(req->accept)};
    http_set_note(x, p);
    *out = *req;
    if (p->reply)
        out->accept = JSON_TYPE;
    if (!wire_msgpack_is(req->content_type))
        return err_none();
    out->content_type = JSON_TYPE;
    if (req->body.len == 0)
        return err_none();
    TRY(check_coding(req->content_encoding));
    empty(&a->unpacked);
    size_t most = a->settings.body_max ? a->settings.body_max : SIZE_MAX;
    struct err err = wire_msgpack_to_json(req->body, most, &a->unpacked);
    if (err.code == ERR_LENGTH)
        empty(&a->unpacked);
    if (err.code != ERR_OK)
        return err;
    a->body = req->body;
    out->body = buf_view(&a->unpacked);
    return err_none();
}

bool api_replies_packed(const struct http_exchange *x)
{
    const struct packed_call *p = http_note(x);
    return p && p->reply;
}

struct str api_pack(struct api *a, struct str json)
{
    empty(&a->packed);
    struct err err = wire_msgpack_from_json(json, &a->packed);
    if (err.code == ERR_OK)
        return buf_view(&a->packed);
    /* A payload can only have been stored as JSON. */
    log_error("a reply cannot be turned into MessagePack: %s", err.msg);
    return STR("\xc0");
}

/* The body of a reply, in whichever format was asked for. */
static void answer(struct http_exchange *x, int status, struct str json, const char *extra)
{
    if (!api_replies_packed(x)) {
        http_reply(x, status, JSON_TYPE, json, extra);
        return;
    }
    const struct packed_call *p = http_note(x);
    http_reply(x, status, MSGPACK_TYPE, api_pack(p->api, json), extra);
}

void api_reply_json_with(struct http_exchange *x, int status, const struct buf *body,
                         const char *extra)
{
    answer(x, status, buf_view(body), extra);
}

void api_reply_json(struct http_exchange *x, int status, const struct buf *body)
{
    api_reply_json_with(x, status, body, NULL);
}

/* Where in the body as it came the fault is. */
static int64_t offset_of(const struct http_exchange *x, const struct err *err)
{
    const struct packed_call *p = http_note(x);
    if (!p || !p->api->body.at)
        return err->offset;
    return (int64_t)wire_msgpack_offset(p->api->body, (size_t)err->offset);
}

/* --- replies --- */

/* A sentence may quote what a client sent, and be cut off inside a character: what is not
 * UTF-8 in it becomes '?', for JSON has to be UTF-8. */
static void write_sentence(struct buf *b, const void *field)
{
    const char *msg = field;
    char text[sizeof((struct err){0}.msg)];
    struct str s = {text, strlen(msg)};
    memcpy(text, msg, s.len);
    for (size_t at; (at = utf8_check(s)) < s.len;)
        text[at] = '?';
    json_write_string(b, s);
}

static bool has_offset(const void *err)
{
    return ((const struct err *)err)->offset >= 0;
}

/* In place of an offset: the types of streams would have done. */
#define OFFSET_STREAM (-2)

static bool has_supported(const void *err)
{
    const struct err *e = err;
    return e->code == ERR_BAD_MEDIA || e->code == ERR_NOT_ACCEPTABLE;
}

static void write_supported(struct buf *b, const void *err)
{
    if (((const struct err *)err)->offset == OFFSET_STREAM)
        buf_lit(b, "[\"application/x-ndjson\",\"text/event-stream\","
                   "\"application/vnd.zizq.msgpack-stream\"]");
    else
        buf_lit(b, "[\"application/json\",\"application/msgpack\"]");
}

static const struct shape_member error_members[] = {
    {MEMBER_OTHER(struct err, msg, "error", ALWAYS, "string", write_sentence,
                  "a sentence for a person")},
    {MEMBER_WORD(struct err, code, "code", ALWAYS, &api_error_words, NULL)},
    {MEMBER(struct err, offset, "offset", IF_SET, "where in the body, in bytes",
            .type = "integer 0..", .is_set = has_offset)},
    {MEMBER_MADE("supported", IF_SET, "string[]", write_supported,
                 "of 406 and 415: media types that would have done", .is_set = has_supported)},
};
const struct shape api_error_shape = {.name = "Error", SHAPE_MEMBERS(error_members)};

void api_reply_error(struct http_exchange *x, const struct err *err, const char *extra)
{
    struct buf b = {0};
    struct err shown = *err;
    if (has_offset(err))
        shown.offset = offset_of(x, err);
    shape_write(&b, &api_error_shape, &shown, SHAPE_AS_IT_IS);
    answer(x, err_status(err->code), buf_view(&b), extra);
    buf_fini(&b);
}

bool api_reply_failed(struct http_exchange *x, const struct reply *r)
{
    if (r->err.code == ERR_OK)
        return false;
    api_reply_error(x, &r->err, NULL);
    return true;
}

struct buf *api_reply_body(struct api *a, struct http_exchange *x, const struct reply *r)
{
    if (api_reply_failed(x, r))
        return NULL;
    if (http_is_gone(x)) { /* nobody reads the answer */
        http_reply(x, 200, (struct str){0}, (struct str){0}, NULL);
        return NULL;
    }
    a->scratch.len = 0;
    return &a->scratch;
}

void api_reply_part(const struct call *c, const struct reply *r, int status, const struct shape *s,
                    const void *part)
{
    struct buf *b = api_reply_body(c->api, c->x, r);
    if (!b)
        return;
    shape_write(b, s, part, SHAPE_AS_IT_IS);
    api_reply_json(c->x, status, b);
}

void api_reply_shape(const struct call *c, const struct reply *r, int status, const struct shape *s)
{
    api_reply_part(c, r, status, s, r);
}

void api_reply_empty(void *call, const struct reply *r)
{
    struct call *c = call;
    if (!api_reply_failed(c->x, r))
        http_reply(c->x, 204, (struct str){0}, (struct str){0}, NULL);
}

/* Media types are the same in upper and lower case (RFC 9110 §8.3.1). */
static bool mentions(struct str text, struct str lower)
{
    for (size_t i = 0; i + lower.len <= text.len; i++)
        if (strncasecmp(text.at + i, lower.at, lower.len) == 0)
            return true;
    return false;
}

/* A media type without its parameters. */
static struct str essence(struct str type)
{
    const char *mark = type.len ? memchr(type.at, ';', type.len) : NULL;
    if (mark)
        type.len = (size_t)(mark - type.at);
    while (type.len && (type.at[type.len - 1] == ' ' || type.at[type.len - 1] == '\t'))
        type.len--;
    return type;
}

static bool is_one_of(struct str type, const char *const *names)
{
    for (; *names; names++)
        if (type.len == strlen(*names) && strncasecmp(type.at, *names, type.len) == 0)
            return true;
    return false;
}

static bool is_json(struct str type)
{
    static const char *const names[] = {"application/json", "application/x-ndjson", "text/json",
                                        NULL};
    if (str_eq(type, JSON_TYPE)) /* as most send it */
        return true;
    struct str t = essence(type);
    return is_one_of(t, names) || (t.len > 17 && strncasecmp(t.at, "application/", 12) == 0 &&
                                   strncasecmp(t.at + t.len - 5, "+json", 5) == 0);
}

bool api_is_yaml(struct str type)
{
    static const char *const names[] = {"application/yaml", "application/x-yaml", "text/yaml",
                                        "text/x-yaml", NULL};
    return is_one_of(essence(type), names);
}

static struct err bad_media(struct str type)
{
    return err_make(ERR_BAD_MEDIA,
                    "a body needs the content type application/json or application/msgpack, and "
                    "this one has %s%.*s",
                    type.len ? "" : "none", type.len < 100 ? (int)type.len : 100, type.at);
}

/* Pages of other origins may send bodies of other types (forms, text) without asking first. */
struct err api_check_body(const struct http_request *req)
{
    if (req->body.len == 0)
        return err_none();
    TRY(check_coding(req->content_encoding));
    if (is_json(req->content_type) || wire_msgpack_is(req->content_type) ||
        api_is_yaml(req->content_type))
        return err_none();
    return bad_media(req->content_type);
}

/* What pages may send to anybody without asking first is refused even without a body; but for the
 * type that curl gives to an empty one. */
static bool is_of_forms(struct str type)
{
    static const char *const names[] = {"text/plain", "multipart/form-data", NULL};
    return type.len && is_one_of(essence(type), names);
}

struct err api_check_media(const struct http_request *req)
{
    if (req->body.len ? !is_json(req->content_type) : is_of_forms(req->content_type))
        return bad_media(req->content_type);
    struct str accept = req->accept;
    if (accept.len && !mentions(accept, STR("json")) && !mentions(accept, STR("*/*")) &&
        !mentions(accept, STR("application/*")))
        return err_make(ERR_NOT_ACCEPTABLE,
                        "cannot answer with '%.*s'; there are JSON and MessagePack",
                        STR_ARG(accept));
    return err_none();
}

struct err api_stream_format(struct http_exchange *x, const struct http_request *req,
                             enum stream_format *f)
{
    bool sse = req->accept.len && memmem(req->accept.at, req->accept.len, "text/event-stream", 17);
    *f = sse ? FORMAT_SSE : api_replies_packed(x) ? FORMAT_PACKED : FORMAT_LINES;
    struct err err = sse ? err_none() : api_check_media(req);
    if (err.code == ERR_NOT_ACCEPTABLE)
        err.offset = OFFSET_STREAM;
    return err;
}

struct str api_stream_type(enum stream_format f)
{
    static const char *const types[FORMATS] = {
        [FORMAT_LINES] = "application/x-ndjson",
        [FORMAT_SSE] = "text/event-stream",
        [FORMAT_PACKED] = "application/vnd.zizq.msgpack-stream",
    };
    return str_from(types[f]);
}

struct err api_path_id(struct str text, struct command *c, struct id *id)
{
    const struct str prefix = STR("alias:");
    if (id_parse(text, id).code == ERR_OK)
        return err_none();
    if (text.len > prefix.len && memcmp(text.at, prefix.at, prefix.len) == 0) {
        c->alias = (struct str){text.at + prefix.len, text.len - prefix.len};
        return err_none();
    }
    return err_make(ERR_NOT_FOUND,
                    "there is no job '%.*s'; a job id has 25 letters and digits, "
                    "an alias is written alias:NAME",
                    (int)(text.len < 64 ? text.len : 64), text.at);
}
