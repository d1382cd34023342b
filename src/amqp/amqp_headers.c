/* SPDX-License-Identifier: Apache-2.0 */
#include "amqp/amqp_headers.h"

#include "base/decimal.h"

const amqp_field_value_t *amqp_headers_find(const amqp_table_t *headers, struct str name)
{
    for (int i = 0; i < headers->num_entries; i++) {
        const amqp_table_entry_t *e = &headers->entries[i];
        if (str_eq((struct str){e->key.bytes, e->key.len}, name))
            return &e->value;
    }
    return NULL;
}

static bool whole(const amqp_field_value_t *v, int64_t *out)
{
    switch (v->kind) {
    case AMQP_FIELD_KIND_I8:
        *out = (int64_t){v->value.i8};
        return true;
    case AMQP_FIELD_KIND_U8:
        *out = v->value.u8;
        return true;
    case AMQP_FIELD_KIND_I16:
        *out = v->value.i16;
        return true;
    case AMQP_FIELD_KIND_U16:
        *out = v->value.u16;
        return true;
    case AMQP_FIELD_KIND_I32:
        *out = v->value.i32;
        return true;
    case AMQP_FIELD_KIND_U32:
        *out = v->value.u32;
        return true;
    case AMQP_FIELD_KIND_I64:
        *out = v->value.i64;
        return true;
    case AMQP_FIELD_KIND_TIMESTAMP:
    case AMQP_FIELD_KIND_U64:
        *out = (int64_t)v->value.u64;
        return v->value.u64 <= INT64_MAX;
    default:
        return false;
    }
}

/* Node's clients send times in milliseconds as doubles. */
static bool fraction(const amqp_field_value_t *v, int64_t *out)
{
    double d = v->kind == AMQP_FIELD_KIND_F64   ? v->value.f64
               : v->kind == AMQP_FIELD_KIND_F32 ? (double)v->value.f32
                                                : 1e300;
    if (!(d > -9e15 && d < 9e15))
        return false;
    *out = (int64_t)d;
    return true;
}

static bool text(const amqp_field_value_t *v, struct str *out)
{
    if (v->kind != AMQP_FIELD_KIND_UTF8 && v->kind != AMQP_FIELD_KIND_BYTES)
        return false;
    *out = (struct str){v->value.bytes.bytes, v->value.bytes.len};
    return true;
}

bool amqp_headers_int(const amqp_table_t *headers, struct str name, int64_t *out)
{
    const amqp_field_value_t *v = amqp_headers_find(headers, name);
    struct str digits;
    if (!v)
        return false;
    return whole(v, out) || fraction(v, out) ||
           (text(v, &digits) && decimal_digits(digits, 18, out));
}

bool amqp_headers_text(const amqp_table_t *headers, struct str name, struct str *out)
{
    const amqp_field_value_t *v = amqp_headers_find(headers, name);
    return v && text(v, out);
}

static bool matches(const amqp_table_t *entry, struct str name, struct str wanted)
{
    struct str is;
    return wanted.len == 0 || (amqp_headers_text(entry, name, &is) && str_eq(is, wanted));
}

int64_t amqp_headers_deaths(const amqp_table_t *headers, struct str queue, struct str reason)
{
    const amqp_field_value_t *deaths = amqp_headers_find(headers, STR("x-death"));
    int64_t count;
    if (!deaths || deaths->kind != AMQP_FIELD_KIND_ARRAY)
        return 0;
    for (int i = 0; i < deaths->value.array.num_entries; i++) {
        const amqp_field_value_t *e = &deaths->value.array.entries[i];
        if (e->kind == AMQP_FIELD_KIND_TABLE && matches(&e->value.table, STR("queue"), queue) &&
            matches(&e->value.table, STR("reason"), reason) &&
            amqp_headers_int(&e->value.table, STR("count"), &count))
            return count;
    }
    return 0;
}
