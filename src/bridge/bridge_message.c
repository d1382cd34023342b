/* SPDX-License-Identifier: Apache-2.0 */
#include "bridge/bridge_message.h"

#include <inttypes.h>
#include <openssl/sha.h>

#include "amqp/amqp_headers.h"
#include "amqp/amqp_session.h"
#include "base/base64.h"
#include "base/decimal.h"
#include "base/json.h"
#include "base/must.h"
#include "base/utf8.h"
#include "bridge/bridge_field.h"
#include "client/view.h"

#define NAME_BYTES_MAX  255
#define KEY_BYTES_MAX   400
#define PRIORITY_NORMAL 32768

/* The properties that are short texts, in the order in which they are written. */
#define FIELD(name, FLAG)                                                                          \
    {                                                                                              \
#name, offsetof(amqp_basic_properties_t, name), AMQP_BASIC_##FLAG##_FLAG                   \
    }
static const struct text_property {
    const char *name;
    size_t at;
    amqp_flags_t flag;
} texts[] = {
    FIELD(content_type, CONTENT_TYPE),
    FIELD(content_encoding, CONTENT_ENCODING),
    FIELD(message_id, MESSAGE_ID),
    FIELD(correlation_id, CORRELATION_ID),
    FIELD(reply_to, REPLY_TO),
    FIELD(expiration, EXPIRATION),
    FIELD(type, TYPE),
    FIELD(user_id, USER_ID),
    FIELD(app_id, APP_ID),
};
#undef FIELD

static struct str property(const amqp_basic_properties_t *p, const struct text_property *t)
{
    amqp_bytes_t bytes;
    memcpy(&bytes, (const char *)p + t->at, sizeof bytes);
    return p->_flags & t->flag ? amqp_session_str(bytes) : (struct str){0};
}

bool bridge_message_is_name(struct str name)
{
    if (name.len == 0 || name.len > NAME_BYTES_MAX || utf8_check(name) != name.len)
        return false;
    for (size_t i = 0; i < name.len; i++) {
        unsigned char c = (unsigned char)name.at[i];
        if (c < ' ' || c == 0x7f || strchr(",*?[]{}\\", c))
            return false;
    }
    return true;
}

/* --- a message as a payload --- */

static bool is_json_type(struct str type)
{
    struct str prefix = STR("application/json");
    const char *semicolon = type.len ? memchr(type.at, ';', type.len) : NULL;
    size_t len = semicolon ? (size_t)(semicolon - type.at) : type.len;
    return len == 0 || (len >= prefix.len && memcmp(type.at, prefix.at, prefix.len) == 0) ||
           (len > 5 && memcmp(type.at + len - 5, "+json", 5) == 0);
}

static bool is_json(struct str body, struct str *value)
{
    return body.len > 0 && view_check(body, value).code == ERR_OK;
}

static void write_body(struct buf *b, const struct bridge_delivery *d)
{
    struct str type = {0}, value;
    if (d->properties->_flags & AMQP_BASIC_CONTENT_TYPE_FLAG)
        type = amqp_session_str(d->properties->content_type);
    if (is_json_type(type) && is_json(d->body, &value)) {
        buf_lit(b, "\"body\":");
        buf_str(b, value);
    } else if (utf8_check(d->body) == d->body.len) {
        buf_lit(b, "\"text\":");
        json_write_string(b, d->body);
    } else {
        buf_lit(b, "\"base64\":\"");
        base64_write(b, d->body);
        buf_byte(b, '"');
    }
}

static struct err write_text(struct buf *b, const char *name, struct str value)
{
    if (utf8_check(value) != value.len)
        return err_make(ERR_BAD_UTF8, "%s is not valid UTF-8", name);
    buf_print(b, ",\"%s\":", name);
    json_write_string(b, value);
    return err_none();
}

static struct err write_message(struct buf *b, const struct bridge_delivery *d)
{
    const amqp_basic_properties_t *p = d->properties;
    buf_byte(b, '{');
    write_body(b, d);
    if (p->_flags & AMQP_BASIC_HEADERS_FLAG) {
        buf_lit(b, ",\"headers\":");
        TRY(bridge_field_write(b, &p->headers));
    }
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (p->_flags & texts[i].flag)
            TRY(write_text(b, texts[i].name, property(p, &texts[i])));
    if (p->_flags & AMQP_BASIC_TIMESTAMP_FLAG)
        buf_print(b, ",\"timestamp\":%" PRIu64, p->timestamp);
    if (p->_flags & AMQP_BASIC_PRIORITY_FLAG)
        buf_print(b, ",\"priority\":%u", p->priority);
    if (p->_flags & AMQP_BASIC_DELIVERY_MODE_FLAG)
        buf_print(b, ",\"delivery_mode\":%u", p->delivery_mode);
    TRY(write_text(b, "exchange", d->exchange));
    TRY(write_text(b, "routing_key", d->routing_key));
    buf_byte(b, '}');
    return err_none();
}

static struct err write_payload(struct buf *b, const struct bridge_intake *in,
                                const struct bridge_delivery *d)
{
    struct str value;
    if (in->payload == BRIDGE_MESSAGE)
        return write_message(b, d);
    struct err e = view_check(d->body, &value);
    if (e.code != ERR_OK)
        return err_make(e.code, "the body is not JSON: %s (--payload message takes any)", e.msg);
    buf_str(b, value);
    return err_none();
}

/* --- a message as a job --- */

static struct str digest(struct str of, char hex[2 * SHA256_DIGEST_LENGTH + 1])
{
    static const char digits[] = "0123456789abcdef";
    unsigned char sum[SHA256_DIGEST_LENGTH];
    SHA256((const unsigned char *)of.at, of.len, sum);
    for (size_t i = 0; i < sizeof sum; i++) {
        hex[2 * i] = digits[sum[i] >> 4];
        hex[2 * i + 1] = digits[sum[i] & 15];
    }
    return (struct str){hex, 2 * sizeof sum};
}

/* What the message says of itself, or nothing. */
static struct str own_key(const struct bridge_intake *in, const struct bridge_delivery *d,
                          char hex[2 * SHA256_DIGEST_LENGTH + 1])
{
    const amqp_basic_properties_t *p = d->properties;
    struct str text = {0};
    switch (in->key) {
    case BRIDGE_KEY_ID:
        return p->_flags & AMQP_BASIC_MESSAGE_ID_FLAG ? amqp_session_str(p->message_id) : text;
    case BRIDGE_KEY_HEADER:
        if (p->_flags & AMQP_BASIC_HEADERS_FLAG)
            amqp_headers_text(&p->headers, str_from(in->key_header), &text);
        return text;
    case BRIDGE_KEY_BODY:
        return digest(d->body, hex);
    case BRIDGE_KEY_NONE:
        break;
    }
    return text;
}

/* Keys are the same for all of the server's queues: so this names where the message is from. */
static bool write_key(struct buf *b, const struct bridge_intake *in,
                      const struct bridge_delivery *d, const char *process)
{
    char hex[2 * SHA256_DIGEST_LENGTH + 1];
    struct buf key = {0};
    struct str own = own_key(in, d, hex);
    bool keyed = own.len > 0;
    if (keyed) {
        buf_print(&key, "rabbitmq:%s:%s:", in->vhost, in->source);
        buf_str(&key, own);
    } else {
        buf_print(&key, "rabbitmq:%s:%" PRIu64, process, d->number);
    }
    struct str text = buf_view(&key);
    if (text.len > KEY_BYTES_MAX || utf8_check(text) != text.len)
        text = digest(text, hex);
    json_write_string(b, text);
    buf_fini(&key);
    return keyed;
}

static struct str type_of(const struct bridge_intake *in, const struct bridge_delivery *d)
{
    struct str type = {0};
    if (in->type)
        return str_from(in->type);
    if (d->properties->_flags & AMQP_BASIC_TYPE_FLAG)
        type = amqp_session_str(d->properties->type);
    return bridge_message_is_name(type) ? type : STR("message");
}

struct err bridge_message_job(struct buf *b, const struct bridge_intake *in,
                              const struct bridge_delivery *d, const char *process, bool *keyed)
{
    const amqp_basic_properties_t *p = d->properties;
    size_t before = b->len;
    buf_lit(b, "{\"queue\":");
    json_write_string(b, str_from(in->queue));
    buf_lit(b, ",\"type\":");
    json_write_string(b, type_of(in, d));
    if (p->_flags & AMQP_BASIC_PRIORITY_FLAG)
        buf_print(b, ",\"priority\":%d", PRIORITY_NORMAL - p->priority);
    buf_lit(b, ",\"unique_key\":");
    *keyed = write_key(b, in, d, process);
    buf_lit(b, ",\"unique_while\":\"exists\"");
    if (in->keep.ms > 0)
        buf_print(b, ",\"retention\":{\"completed_ms\":%" PRId64 "}", in->keep.ms);
    buf_lit(b, ",\"payload\":");
    struct err e = write_payload(b, in, d);
    buf_byte(b, '}');
    if (e.code != ERR_OK)
        b->len = before;
    return e;
}

/* --- a job as a message --- */

/* Of the frame that properties and headers must fit into, 128 KiB. */
#define PROPERTIES_MAX    ((size_t)96 * 1024)
#define EXPIRATION_MAX    INT64_C(4294967295) /* RabbitMQ's */
#define AMQP_PRIORITY_MAX 255

struct builder {
    struct arena *a;
    struct bridge_message *m;
    size_t size;
};

static struct err read_text(struct json_cursor *c, struct arena *a, struct str *out)
{
    struct json_string s;
    TRY(json_read_string(c, &s));
    return json_text(s, a, out);
}

static struct err set_text(struct builder *k, const struct text_property *t, struct str value)
{
    int64_t ms;
    if (value.len > BRIDGE_FIELD_NAME_MAX)
        return err_make(ERR_BAD_VALUE, "%s: at most %d bytes, not %zu", t->name,
                        BRIDGE_FIELD_NAME_MAX, value.len);
    if (t->flag == AMQP_BASIC_EXPIRATION_FLAG &&
        (!decimal_digits(value, 18, &ms) || ms > EXPIRATION_MAX))
        return err_make(ERR_BAD_VALUE, "expiration: a text of digits, milliseconds, up to %lld",
                        (long long)EXPIRATION_MAX);
    amqp_bytes_t bytes = amqp_session_bytes(value);
    memcpy((char *)&k->m->properties + t->at, &bytes, sizeof bytes);
    k->m->properties._flags |= t->flag;
    return err_none();
}

static struct err set_number(amqp_basic_properties_t *p, struct str name, struct json_cursor *c)
{
    int64_t v;
    if (str_eq(name, STR("timestamp"))) {
        TRY(json_read_int(c, 0, INT64_MAX, &v));
        p->timestamp = (uint64_t)v;
        p->_flags |= AMQP_BASIC_TIMESTAMP_FLAG;
    } else if (str_eq(name, STR("priority"))) {
        TRY(json_read_int(c, 0, AMQP_PRIORITY_MAX, &v));
        p->priority = (uint8_t)v;
        p->_flags |= AMQP_BASIC_PRIORITY_FLAG;
    } else {
        TRY(json_read_int(c, AMQP_DELIVERY_NONPERSISTENT, AMQP_DELIVERY_PERSISTENT, &v));
        p->delivery_mode = (uint8_t)v;
        p->_flags |= AMQP_BASIC_DELIVERY_MODE_FLAG;
    }
    return err_none();
}

/* RabbitMQ closes the channel on a CC or BCC that is no list. */
static struct err check_copies(const amqp_table_t *headers, struct str name)
{
    const amqp_field_value_t *v = amqp_headers_find(headers, name);
    return !v || v->kind == AMQP_FIELD_KIND_ARRAY
               ? err_none()
               : err_make(ERR_BAD_VALUE, "headers: %.*s is a list of routing keys", STR_ARG(name));
}

static struct err read_headers(struct builder *k, struct json_cursor *c)
{
    amqp_table_t *headers = &k->m->properties.headers;
    TRY(bridge_field_read(c, k->a, PROPERTIES_MAX, &k->size, headers));
    TRY(check_copies(headers, STR("CC")));
    TRY(check_copies(headers, STR("BCC")));
    k->m->properties._flags |= AMQP_BASIC_HEADERS_FLAG;
    return err_none();
}

static struct err read_body(struct builder *k, struct str name, struct json_cursor *c)
{
    struct str text;
    if (str_eq(name, STR("body")))
        return json_skip(c, &k->m->body);
    TRY(read_text(c, k->a, &text));
    if (str_eq(name, STR("text")))
        k->m->body = text;
    else if (!base64_read(text, k->a, &k->m->body))
        return err_make(ERR_BAD_VALUE, "base64: this is not base64");
    return err_none();
}

static bool is_one_of(struct str name, const char *const *names)
{
    while (*names && !str_eq(name, str_from(*names)))
        names++;
    return *names != NULL;
}

static struct err read_member(struct builder *k, struct str name, struct json_cursor *c)
{
    static const char *const bodies[] = {"body", "text", "base64", NULL};
    static const char *const numbers[] = {"timestamp", "priority", "delivery_mode", NULL};
    struct str value;
    bool is_null = false;
    if (!str_eq(name, STR("body")))
        TRY(json_take_null(c, &is_null));
    if (is_null)
        return err_none();
    if (is_one_of(name, bodies))
        return read_body(k, name, c);
    if (is_one_of(name, numbers))
        return set_number(&k->m->properties, name, c);
    if (str_eq(name, STR("headers")))
        return read_headers(k, c);
    if (str_eq(name, STR("routing_key")))
        return read_text(c, k->a, &k->m->routing_key);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (texts[i].flag != AMQP_BASIC_USER_ID_FLAG && str_eq(name, str_from(texts[i].name))) {
            TRY(read_text(c, k->a, &value));
            return set_text(k, &texts[i], value);
        }
    return json_skip(c, NULL); /* what a message has that cannot be published: exchange, user_id */
}

static struct err read_message(struct builder *k, struct str payload)
{
    struct json_cursor c = json_open(payload);
    if (json_enter_object(&c).code != ERR_OK)
        return err_make(ERR_BAD_TYPE, "with --payload message it is an object");
    for (;;) {
        struct json_string key;
        bool more;
        TRY(json_next_member(&c, &more, &key));
        if (!more)
            return err_none();
        struct err e = read_member(k, key.raw, &c);
        if (e.code != ERR_OK)
            return err_make(e.code, "%.*s: %s", NAME_ARG(key.raw), e.msg);
    }
}

/* What every message has, unless its payload has said otherwise. */
static struct err set_default(struct builder *k, amqp_flags_t flag, struct str value)
{
    if (k->m->properties._flags & flag || value.len == 0 || value.len > BRIDGE_FIELD_NAME_MAX)
        return err_none();
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (texts[i].flag == flag)
            return set_text(k, &texts[i], value);
    return err_none();
}

static void set_priority(amqp_basic_properties_t *p, struct str job)
{
    int64_t of_job;
    if (p->_flags & AMQP_BASIC_PRIORITY_FLAG || !view_int(job, "priority", &of_job))
        return;
    int64_t v = PRIORITY_NORMAL - of_job;
    if (v <= 0)
        return;
    p->priority = (uint8_t)(v < AMQP_PRIORITY_MAX ? v : AMQP_PRIORITY_MAX);
    p->_flags |= AMQP_BASIC_PRIORITY_FLAG;
}

static bool is_own_header(amqp_bytes_t key)
{
    struct str name = amqp_session_str(key);
    return str_eq(name, STR("x-tenax-job")) || str_eq(name, STR("x-tenax-run"));
}

/* Which job and which run of it this is; of a message that came out of Tenax once before, anew. */
static void add_own_headers(struct builder *k, struct str id, int64_t run)
{
    amqp_table_t *t = &k->m->properties.headers;
    amqp_table_entry_t *all = arena_get(k->a, ((size_t)t->num_entries + 2) * sizeof *all);
    int n = 0;
    for (int i = 0; i < t->num_entries; i++)
        if (!is_own_header(t->entries[i].key))
            all[n++] = t->entries[i];
    all[n++] = (amqp_table_entry_t){
        .key = amqp_cstring_bytes("x-tenax-job"),
        .value = {.kind = AMQP_FIELD_KIND_UTF8, .value.bytes = amqp_session_bytes(id)}};
    all[n++] = (amqp_table_entry_t){.key = amqp_cstring_bytes("x-tenax-run"),
                                    .value = {.kind = AMQP_FIELD_KIND_I64, .value.i64 = run}};
    *t = (amqp_table_t){.num_entries = n, .entries = all};
    k->m->properties._flags |= AMQP_BASIC_HEADERS_FLAG;
}

static struct err add_defaults(struct builder *k, enum bridge_payload payload, struct str job)
{
    amqp_basic_properties_t *p = &k->m->properties;
    struct str id = view_text(k->a, job, "id");
    int64_t run = 0;
    view_int(job, "run", &run);
    TRY(set_default(k, AMQP_BASIC_MESSAGE_ID_FLAG, id));
    TRY(set_default(k, AMQP_BASIC_TYPE_FLAG, view_text(k->a, job, "type")));
    if (payload == BRIDGE_BODY) {
        TRY(set_default(k, AMQP_BASIC_CONTENT_TYPE_FLAG, STR("application/json")));
        TRY(set_default(k, AMQP_BASIC_APP_ID_FLAG, STR("tenax")));
    }
    set_priority(p, job);
    if (!(p->_flags & AMQP_BASIC_DELIVERY_MODE_FLAG))
        p->delivery_mode = AMQP_DELIVERY_PERSISTENT;
    p->_flags |= AMQP_BASIC_DELIVERY_MODE_FLAG;
    add_own_headers(k, id, run);
    return err_none();
}

struct err bridge_message_read(const struct bridge_outlet *out, struct str job, struct arena *a,
                               struct bridge_message *m)
{
    struct builder k = {.a = a, .m = m};
    struct str payload = {0};
    *m = (struct bridge_message){.exchange = str_from(out->exchange)};
    struct json_cursor c = json_open(job);
    TRY(json_enter_object(&c));
    for (bool more = true; more;) { /* view_get takes null for nothing, but null is a payload */
        struct json_string key;
        struct str value;
        TRY(json_next_member(&c, &more, &key));
        if (more)
            TRY(json_skip(&c, &value));
        if (more && str_eq(key.raw, STR("payload")))
            payload = value;
    }
    if (out->payload == BRIDGE_MESSAGE)
        TRY(read_message(&k, payload));
    else
        m->body = payload;
    if (out->routing_key)
        m->routing_key = str_from(out->routing_key);
    else if (!m->routing_key.at)
        m->routing_key = view_text(a, job, "type");
    if (m->routing_key.len > BRIDGE_FIELD_NAME_MAX)
        return err_make(ERR_BAD_VALUE, "the routing key has more than %d bytes",
                        BRIDGE_FIELD_NAME_MAX);
    return add_defaults(&k, out->payload, job);
}
