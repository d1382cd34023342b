/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/field.h"

#include <stdio.h>

#include "base/closest.h"
#include "base/must.h"

struct err field_text(struct json_cursor *c, struct arena *a, void *str)
{
    struct json_string s;
    TRY(json_read_string(c, &s));
    return json_text(s, a, str);
}

struct err field_bool(struct json_cursor *c, struct arena *a, void *b)
{
    (void)a;
    return json_read_bool(c, b);
}

struct err field_instant(struct json_cursor *c, struct arena *a, void *t)
{
    (void)a;
    return json_read_int(c, 0, INSTANT_MAX_MS, &((instant *)t)->ms);
}

struct err field_span(struct json_cursor *c, struct arena *a, void *d)
{
    (void)a;
    return json_read_int(c, 0, SPAN_MAX_MS, &((span *)d)->ms);
}

struct err field_i32(struct json_cursor *c, struct arena *a, void *i32)
{
    (void)a;
    int64_t v;
    TRY(json_read_int(c, INT32_MIN, INT32_MAX, &v));
    *(int32_t *)i32 = (int32_t)v;
    return err_none();
}

struct err field_any(struct json_cursor *c, struct arena *a, void *raw_str)
{
    (void)a;
    return json_skip(c, raw_str);
}

struct err field_part(struct json_cursor *c, struct arena *a, void *field_part)
{
    struct field_part *f = field_part;
    (void)a;
    f->at = *c;
    f->given = true;
    return json_skip(c, NULL);
}

/* --- objects --- */

struct err field_in(struct err e, const char *name)
{
    char inner[sizeof e.msg];
    memcpy(inner, e.msg, sizeof inner);
    /* "jobs" and "[3]: …" are "jobs[3]: …". */
    snprintf(e.msg, sizeof e.msg, "%s%s%.*s", name, inner[0] == '[' ? "" : ": ",
             (int)(sizeof e.msg - 40), inner);
    return e;
}

/* Most differ in their first letter; there may be millions of keys. */
static bool is_name(const char *name, struct str key)
{
    size_t i = 0;
    while (i < key.len && name[i] && name[i] == key.at[i])
        i++;
    return i == key.len && !name[i];
}

static const struct field *find_field(const struct field *fields, size_t count, struct str key)
{
    for (size_t i = 0; i < count; i++)
        if (is_name(fields[i].name, key))
            return &fields[i];
    return NULL;
}

static struct err read_field(struct json_cursor *c, struct arena *arena, const struct field *f,
                             void *out, bool *was_null)
{
    *was_null = false;
    if (f->nullable)
        TRY(json_take_null(c, was_null));
    return *was_null ? err_none() : f->read(c, arena, (char *)out + f->offset);
}

static struct err refuse_unknown(const struct field *fields, size_t count, struct json_string key)
{
    struct closest near = closest_to(key.raw);
    for (size_t i = 0; i < count; i++)
        closest_offer(&near, str_from(fields[i].name));
    return err_at(ERR_UNKNOWN_FIELD, (int64_t)key.offset, "unknown field '%.*s'%s%.*s%s",
                  (int)(key.raw.len < 64 ? key.raw.len : 64), key.raw.at,
                  near.word.len ? "; did you mean '" : "", STR_ARG(near.word),
                  near.word.len ? "'?" : "");
}

static struct err ignore_unknown(struct json_cursor *c, struct json_string key)
{
    if (++c->unknown > FIELD_UNKNOWN_MAX)
        return err_at(ERR_TOO_MANY, (int64_t)key.offset, "more than %d unknown fields",
                      FIELD_UNKNOWN_MAX);
    return json_skip(c, NULL);
}

struct err field_read_object(bool strict, struct json_cursor *c, struct arena *arena,
                             const struct field *fields, size_t count, void *out)
{
    uint64_t given;
    return field_read_given(strict, c, arena, fields, count, out, &given);
}

struct err field_read_given(bool strict, struct json_cursor *c, struct arena *arena,
                            const struct field *fields, size_t count, void *out, uint64_t *given)
{
    uint64_t seen = 0;
    must(count <= 64);
    *given = 0;
    TRY(json_enter_object(c));
    for (;;) {
        bool more;
        struct json_string key;
        TRY(json_next_member(c, &more, &key));
        if (!more)
            break;
        const struct field *f = find_field(fields, count, key.raw);
        if (!f) {
            TRY(strict ? refuse_unknown(fields, count, key) : ignore_unknown(c, key));
            continue;
        }
        uint64_t bit = (uint64_t)1 << (f - fields);
        if (seen & bit)
            return err_at(ERR_DUPLICATE_FIELD, (int64_t)key.offset, "%s is given twice", f->name);
        seen |= bit;
        bool was_null;
        struct err err = read_field(c, arena, f, out, &was_null);
        if (err.code != ERR_OK)
            return field_in(err, f->name);
        *given |= was_null ? 0 : bit;
    }
    for (size_t i = 0; i < count; i++)
        if (fields[i].required && !(seen & ((uint64_t)1 << i)))
            return err_make(ERR_MISSING_FIELD, "%s is required", fields[i].name);
    return err_none();
}

struct err field_read_part(bool strict, struct field_part *part, struct arena *arena,
                           const struct field *fields, size_t count, const char *name, void *out)
{
    if (!part->given)
        return err_none();
    struct err err = field_read_object(strict, &part->at, arena, fields, count, out);
    return err.code == ERR_OK ? err : field_in(err, name);
}
