/* SPDX-License-Identifier: Apache-2.0 */
#include "bridge/bridge_field.h"

#include <math.h>

#include "amqp/amqp_session.h"
#include "base/base64.h"
#include "base/utf8.h"

#define BYTES_KEY     "$bytes"
#define TIMESTAMP_KEY "$timestamp"

/* --- to JSON --- */

static struct err write_table(struct buf *b, const amqp_table_t *t, unsigned depth);

static void write_double(struct buf *b, double v)
{
    if (isfinite(v))
        json_write_double(b, v);
    else
        buf_lit(b, "null");
}

static void write_decimal(struct buf *b, const amqp_decimal_t *d)
{
    double v = d->value;
    for (int i = 0; i < d->decimals; i++)
        v /= 10;
    write_double(b, v);
}

static void write_bytes(struct buf *b, struct str s)
{
    buf_lit(b, "{\"" BYTES_KEY "\":\"");
    base64_write(b, s);
    buf_lit(b, "\"}");
}

static void write_text(struct buf *b, struct str s)
{
    if (utf8_check(s) == s.len)
        json_write_string(b, s);
    else
        write_bytes(b, s);
}

static void write_unsigned(struct buf *b, uint64_t v)
{
    buf_print(b, "%llu", (unsigned long long)v);
}

static bool write_integer(struct buf *b, const amqp_field_value_t *v)
{
    switch (v->kind) {
    case AMQP_FIELD_KIND_I8:
        buf_int(b, (int64_t){v->value.i8});
        return true;
    case AMQP_FIELD_KIND_U8:
        buf_int(b, v->value.u8);
        return true;
    case AMQP_FIELD_KIND_I16:
        buf_int(b, v->value.i16);
        return true;
    case AMQP_FIELD_KIND_U16:
        buf_int(b, v->value.u16);
        return true;
    case AMQP_FIELD_KIND_I32:
        buf_int(b, v->value.i32);
        return true;
    case AMQP_FIELD_KIND_U32:
        buf_int(b, v->value.u32);
        return true;
    case AMQP_FIELD_KIND_I64:
        buf_int(b, v->value.i64);
        return true;
    case AMQP_FIELD_KIND_U64:
        write_unsigned(b, v->value.u64);
        return true;
    default:
        return false;
    }
}

static struct err write_array(struct buf *b, const amqp_array_t *array, unsigned depth);

static struct err write_value(struct buf *b, const amqp_field_value_t *v, unsigned depth)
{
    if (write_integer(b, v))
        return err_none();
    switch (v->kind) {
    case AMQP_FIELD_KIND_BOOLEAN:
        buf_str(b, v->value.boolean ? STR("true") : STR("false"));
        return err_none();
    case AMQP_FIELD_KIND_F32:
        write_double(b, (double)v->value.f32);
        return err_none();
    case AMQP_FIELD_KIND_F64:
        write_double(b, v->value.f64);
        return err_none();
    case AMQP_FIELD_KIND_DECIMAL:
        write_decimal(b, &v->value.decimal);
        return err_none();
    case AMQP_FIELD_KIND_UTF8:
        write_text(b, amqp_session_str(v->value.bytes));
        return err_none();
    case AMQP_FIELD_KIND_BYTES:
        write_bytes(b, amqp_session_str(v->value.bytes));
        return err_none();
    case AMQP_FIELD_KIND_TIMESTAMP:
        buf_lit(b, "{\"" TIMESTAMP_KEY "\":");
        write_unsigned(b, v->value.u64);
        buf_byte(b, '}');
        return err_none();
    case AMQP_FIELD_KIND_TABLE:
        return write_table(b, &v->value.table, depth + 1);
    case AMQP_FIELD_KIND_ARRAY:
        return write_array(b, &v->value.array, depth + 1);
    default:
        buf_lit(b, "null");
        return err_none();
    }
}

static struct err check_depth(unsigned depth)
{
    return depth <= BRIDGE_FIELD_DEPTH_MAX
               ? err_none()
               : err_make(ERR_TOO_DEEP, "headers are nested deeper than %d levels",
                          BRIDGE_FIELD_DEPTH_MAX);
}

static struct err write_array(struct buf *b, const amqp_array_t *array, unsigned depth)
{
    TRY(check_depth(depth));
    buf_byte(b, '[');
    for (int i = 0; i < array->num_entries; i++) {
        if (i)
            buf_byte(b, ',');
        TRY(write_value(b, &array->entries[i], depth));
    }
    buf_byte(b, ']');
    return err_none();
}

static struct err write_table(struct buf *b, const amqp_table_t *t, unsigned depth)
{
    TRY(check_depth(depth));
    buf_byte(b, '{');
    for (int i = 0; i < t->num_entries; i++) {
        struct str key = amqp_session_str(t->entries[i].key);
        if (utf8_check(key) != key.len)
            return err_make(ERR_BAD_UTF8, "the name of a header is not valid UTF-8");
        if (i)
            buf_byte(b, ',');
        json_write_string(b, key);
        buf_byte(b, ':');
        TRY(write_value(b, &t->entries[i].value, depth));
    }
    buf_byte(b, '}');
    return err_none();
}

struct err bridge_field_write(struct buf *b, const amqp_table_t *t)
{
    return write_table(b, t, 0);
}

/* --- from JSON --- */

struct reader {
    struct json_cursor *c;
    struct arena *a;
    size_t size, size_max;
    unsigned depth;
};

static struct err read_table(struct reader *r, amqp_table_t *out);
static struct err read_value(struct reader *r, amqp_field_value_t *out);

static struct err add_size(struct reader *r, size_t n)
{
    r->size += n;
    return r->size <= r->size_max
               ? err_none()
               : err_make(ERR_BAD_VALUE, "headers and properties take more than %zu bytes",
                          r->size_max);
}

static struct err read_text(struct reader *r, struct str *out)
{
    struct json_string s;
    TRY(json_read_string(r->c, &s));
    TRY(json_text(s, r->a, out));
    return add_size(r, 4 + out->len);
}

/* Clients do not agree on the sign of 64 bits ('l' and 'L'). */
static amqp_field_value_t integer(int64_t v)
{
    if (v >= INT32_MIN && v <= INT32_MAX)
        return (amqp_field_value_t){.kind = AMQP_FIELD_KIND_I32, .value.i32 = (int32_t)v};
    return (amqp_field_value_t){.kind = AMQP_FIELD_KIND_I64, .value.i64 = v};
}

static bool whole_of(const amqp_field_value_t *v, int64_t *out)
{
    *out = v->kind == AMQP_FIELD_KIND_I32 ? v->value.i32 : v->value.i64;
    return v->kind == AMQP_FIELD_KIND_I32 || v->kind == AMQP_FIELD_KIND_I64;
}

static struct err read_number(struct reader *r, amqp_field_value_t *out)
{
    struct str raw;
    bool fraction = false;
    int64_t whole;
    TRY(json_skip(r->c, &raw));
    TRY(add_size(r, 8));
    for (size_t i = 0; i < raw.len; i++)
        fraction |= raw.at[i] == '.' || (raw.at[i] | 0x20) == 'e';
    struct json_cursor again = json_open(raw);
    if (!fraction && json_read_int(&again, INT64_MIN, INT64_MAX, &whole).code == ERR_OK) {
        *out = integer(whole);
        return err_none();
    }
    again = json_open(raw);
    out->kind = AMQP_FIELD_KIND_F64;
    return json_read_double(&again, -HUGE_VAL, HUGE_VAL, &out->value.f64);
}

static struct err read_array(struct reader *r, amqp_array_t *out)
{
    size_t count = 0, cap = 0;
    bool more;
    TRY(json_enter_array(r->c));
    TRY(check_depth(++r->depth));
    TRY(add_size(r, 4));
    for (;;) {
        TRY(json_next_element(r->c, &more));
        if (!more)
            break;
        ARENA_GROW(r->a, out->entries, count, cap, 4);
        TRY(read_value(r, &out->entries[count]));
        out->num_entries = (int)++count;
    }
    r->depth--;
    return err_none();
}

/* {"$bytes": …} and {"$timestamp": …} stand for values that JSON does not have. */
static struct err read_object(struct reader *r, amqp_field_value_t *out)
{
    amqp_table_t table = {0};
    TRY(read_table(r, &table));
    const amqp_table_entry_t *only = table.num_entries == 1 ? table.entries : NULL;
    struct str key = only ? amqp_session_str(only->key) : (struct str){0}, bytes;
    int64_t seconds;
    if (only && str_eq(key, STR(BYTES_KEY)) && only->value.kind == AMQP_FIELD_KIND_UTF8 &&
        base64_read(amqp_session_str(only->value.value.bytes), r->a, &bytes))
        *out = (amqp_field_value_t){.kind = AMQP_FIELD_KIND_BYTES,
                                    .value.bytes = amqp_session_bytes(bytes)};
    else if (only && str_eq(key, STR(TIMESTAMP_KEY)) && whole_of(&only->value, &seconds) &&
             seconds >= 0)
        *out =
            (amqp_field_value_t){.kind = AMQP_FIELD_KIND_TIMESTAMP, .value.u64 = (uint64_t)seconds};
    else
        *out = (amqp_field_value_t){.kind = AMQP_FIELD_KIND_TABLE, .value.table = table};
    return err_none();
}

static struct err read_string(struct reader *r, amqp_field_value_t *out)
{
    struct str text;
    TRY(read_text(r, &text));
    *out =
        (amqp_field_value_t){.kind = AMQP_FIELD_KIND_UTF8, .value.bytes = amqp_session_bytes(text)};
    return err_none();
}

static struct err read_bool(struct reader *r, amqp_field_value_t *out)
{
    bool v;
    TRY(json_read_bool(r->c, &v));
    *out = (amqp_field_value_t){.kind = AMQP_FIELD_KIND_BOOLEAN, .value.boolean = v};
    return add_size(r, 1);
}

static struct err read_value(struct reader *r, amqp_field_value_t *out)
{
    enum json_type type;
    *out = (amqp_field_value_t){.kind = AMQP_FIELD_KIND_VOID};
    TRY(json_peek(r->c, &type));
    TRY(add_size(r, 1));
    switch (type) {
    case JSON_STRING:
        return read_string(r, out);
    case JSON_NUMBER:
        return read_number(r, out);
    case JSON_BOOL:
        return read_bool(r, out);
    case JSON_ARRAY:
        out->kind = AMQP_FIELD_KIND_ARRAY;
        return read_array(r, &out->value.array);
    case JSON_OBJECT:
        return read_object(r, out);
    case JSON_NULL:
        break;
    }
    return json_skip(r->c, NULL);
}

static struct err read_table(struct reader *r, amqp_table_t *out)
{
    size_t count = 0, cap = 0;
    TRY(json_enter_object(r->c));
    TRY(check_depth(++r->depth));
    TRY(add_size(r, 4));
    for (;;) {
        struct json_string key;
        struct str name;
        bool more;
        TRY(json_next_member(r->c, &more, &key));
        if (!more)
            break;
        TRY(json_text(key, r->a, &name));
        if (name.len > BRIDGE_FIELD_NAME_MAX)
            return err_make(ERR_BAD_VALUE, "the name of a header has more than %d bytes",
                            BRIDGE_FIELD_NAME_MAX);
        TRY(add_size(r, 1 + name.len));
        ARENA_GROW(r->a, out->entries, count, cap, 8);
        out->entries[count].key = amqp_session_bytes(name);
        TRY(read_value(r, &out->entries[count].value));
        out->num_entries = (int)++count;
    }
    r->depth--;
    return err_none();
}

struct err bridge_field_read(struct json_cursor *c, struct arena *a, size_t size_max, size_t *size,
                             amqp_table_t *out)
{
    struct reader r = {.c = c, .a = a, .size = *size, .size_max = size_max};
    *out = (amqp_table_t){0};
    struct err e = read_table(&r, out);
    *size = r.size;
    return e;
}
