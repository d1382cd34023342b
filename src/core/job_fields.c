/* SPDX-License-Identifier: Apache-2.0 */
#include "core/job_fields.h"

#include "base/alloc.h"
#include "base/array.h"
#include "base/must.h"

#define OPTION(number, kind, member, words)                                                        \
    {number, JOB_FIELD_##kind, offsetof(struct job_options, member), words},
static const struct job_field options[] = {
#include "core/job_fields.def"
};
#undef OPTION

#define EXTRA(number, kind, member, words)                                                         \
    {number, JOB_FIELD_##kind, offsetof(struct job_extras, member), words},
static const struct job_field extras[] = {
#include "core/job_fields.def"
};
#undef EXTRA

static const void *member(const struct job_field *f, const void *from)
{
    return (const char *)from + f->offset;
}

static struct str *text(const struct job_field *f, void *of)
{
    return (struct str *)(void *)((char *)of + f->offset);
}

static size_t size_of(const struct job_field *f)
{
    static const size_t sizes[] = {
        [JOB_FIELD_TEXT] = sizeof(struct str),
        [JOB_FIELD_NUMBER] = sizeof(uint64_t),
        [JOB_FIELD_INSTANT] = sizeof(instant),
        [JOB_FIELD_REAL] = sizeof(double),
    };
    return sizes[f->kind];
}

bool job_field_is_set(const struct job_field *f, const void *from)
{
    const void *at = member(f, from);
    switch (f->kind) {
    case JOB_FIELD_TEXT:
        return ((const struct str *)at)->len > 0;
    case JOB_FIELD_NUMBER:
        return *(const uint64_t *)at != 0;
    case JOB_FIELD_INSTANT:
        return ((const instant *)at)->ms != 0;
    default:
        must(f->kind == JOB_FIELD_REAL);
        return *(const double *)at != 0;
    }
}

/* --- which are set --- */

_Static_assert(COUNT(options) <= 64 && COUNT(extras) <= 64, "a bit each");

static uint64_t look_at_each(const struct job_field *fields, size_t count, const void *from)
{
    uint64_t set = 0;
    for (size_t i = 0; i < count; i++)
        set |= (uint64_t)job_field_is_set(&fields[i], from) << i;
    return set;
}

/* Most jobs have none: the fields together show that in one step each. */
#define BITS_TEXT(value)    (value).len
#define BITS_NUMBER(value)  (value)
#define BITS_INSTANT(value) (uint64_t)(value).ms
#define BITS_REAL(value)    (uint64_t)((value) != 0)

static uint64_t options_set(const void *from)
{
    const struct job_options *o = from;
    uint64_t any = 0;
#define OPTION(number, kind, member, words) any |= BITS_##kind(o->member);
#include "core/job_fields.def"
#undef OPTION
    return any ? look_at_each(options, COUNT(options), from) : 0;
}

static uint64_t extras_set(const void *from)
{
    const struct job_extras *x = from;
    uint64_t any = 0;
#define EXTRA(number, kind, member, words) any |= BITS_##kind(x->member);
#include "core/job_fields.def"
#undef EXTRA
    return any ? look_at_each(extras, COUNT(extras), from) : 0;
}

const struct job_fields job_option_fields = {options, COUNT(options), options_set};
const struct job_fields job_extra_fields = {extras, COUNT(extras), extras_set};

/* --- copies and comparisons --- */

/* Lets the texts of `of` lie in the arena. */
static void own_texts(const struct job_fields *fields, void *of, struct arena *a)
{
    for (size_t i = 0; i < fields->count; i++)
        if (fields->at[i].kind == JOB_FIELD_TEXT)
            *text(&fields->at[i], of) = arena_copy(a, *text(&fields->at[i], of));
}

static bool are_equal(const struct job_fields *fields, const void *a, const void *b)
{
    for (size_t i = 0; i < fields->count; i++) {
        const struct job_field *f = &fields->at[i];
        const void *x = member(f, a), *y = member(f, b);
        bool same = f->kind == JOB_FIELD_TEXT
                        ? str_eq(*(const struct str *)x, *(const struct str *)y)
                        : memcmp(x, y, size_of(f)) == 0;
        if (!same)
            return false;
    }
    return true;
}

struct job_options job_options_copy(struct arena *a, const struct job_options *from)
{
    if (!options_set(from))
        return (struct job_options){0};
    struct job_options copy = *from;
    own_texts(&job_option_fields, &copy, a);
    return copy;
}

struct job_extras job_extras_copy(struct arena *a, const struct job_extras *from)
{
    if (!extras_set(from))
        return (struct job_extras){0};
    struct job_extras copy = *from;
    own_texts(&job_extra_fields, &copy, a);
    return copy;
}

bool job_options_eq(const struct job_options *a, const struct job_options *b)
{
    return are_equal(&job_option_fields, a, b);
}

bool job_extras_eq(const struct job_extras *a, const struct job_extras *b)
{
    return are_equal(&job_extra_fields, a, b);
}

struct job_extras *job_extras_new(const struct job_extras *from)
{
    size_t bytes = 0;
    if (!extras_set(from))
        return NULL;
    for (size_t i = 0; i < job_extra_fields.count; i++)
        if (extras[i].kind == JOB_FIELD_TEXT)
            bytes += ((const struct str *)member(&extras[i], from))->len;
    struct job_extras *copy = alloc_get(sizeof *copy + bytes);
    *copy = *from;
    char *room = (char *)(copy + 1);
    for (size_t i = 0; i < job_extra_fields.count; i++) {
        if (extras[i].kind != JOB_FIELD_TEXT)
            continue;
        struct str *s = text(&extras[i], copy);
        if (s->len)
            memcpy(room, s->at, s->len);
        s->at = room;
        room += s->len;
    }
    return copy;
}
