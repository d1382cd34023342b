/* SPDX-License-Identifier: Apache-2.0 */

/* Compiles the schemas. Their texts are the program's own, so every fault in them is a
 * programmer's. */

#include <float.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/must.h"
#include "taskcluster/tc_schema_internal.h"

static void expect(struct err err)
{
    must(err.code == ERR_OK);
}

static struct str read_text(struct tc_schemas *s, struct json_cursor *c)
{
    struct json_string raw;
    struct str text;
    expect(json_read_string(c, &raw));
    expect(json_text(raw, &s->arena, &text));
    return text;
}

static uint64_t read_number(struct json_cursor *c)
{
    int64_t v;
    expect(json_read_int(c, 0, INT64_MAX, &v));
    return (uint64_t)v;
}

static unsigned type_of(struct str name)
{
    static const struct {
        const char *name;
        unsigned bits;
    } types[] = {
        {"object", TYPE_BIT(JSON_OBJECT)}, {"array", TYPE_BIT(JSON_ARRAY)},
        {"string", TYPE_BIT(JSON_STRING)}, {"boolean", TYPE_BIT(JSON_BOOL)},
        {"number", TYPE_BIT(JSON_NUMBER)}, {"null", TYPE_BIT(JSON_NULL)},
        {"integer", TYPE_INTEGER},
    };
    for (size_t i = 0; i < COUNT(types); i++)
        if (str_eq(name, str_from(types[i].name)))
            return types[i].bits;
    must(false); /* not a type of JSON Schema */
    return 0;
}

static struct schema *compile(struct tc_schemas *s, struct json_cursor *c);

static struct schema_prop *prop_named(struct tc_schemas *s, struct schema *n, struct str name)
{
    for (size_t i = 0; i < n->prop_count; i++)
        if (str_eq(n->props[i].name, name))
            return &n->props[i];
    ARENA_GROW(&s->arena, n->props, n->prop_count, n->prop_cap, 8);
    n->props[n->prop_count] = (struct schema_prop){.name = name};
    must(n->prop_count < SCHEMA_PROPS_MAX);
    return &n->props[n->prop_count++];
}

static void read_properties(struct tc_schemas *s, struct json_cursor *c, struct schema *n)
{
    struct json_string key;
    bool more;
    expect(json_enter_object(c));
    for (;;) {
        expect(json_next_member(c, &more, &key));
        if (!more)
            return;
        struct schema *of = compile(s, c);
        prop_named(s, n, key.raw)->schema = of;
    }
}

static void read_required(struct tc_schemas *s, struct json_cursor *c, struct schema *n)
{
    bool more;
    expect(json_enter_array(c));
    for (;;) {
        expect(json_next_element(c, &more));
        if (!more)
            return;
        prop_named(s, n, read_text(s, c))->required = true;
    }
}

static void read_enum(struct tc_schemas *s, struct json_cursor *c, struct schema *n)
{
    size_t words = 0, numbers = 0;
    enum json_type type;
    bool more;
    expect(json_enter_array(c));
    for (;;) {
        expect(json_next_element(c, &more));
        if (!more)
            return;
        expect(json_peek(c, &type));
        if (type == JSON_STRING) {
            ARENA_GROW(&s->arena, n->words, n->word_count, words, 8);
            n->words[n->word_count++] = read_text(s, c);
        } else {
            ARENA_GROW(&s->arena, n->numbers, n->number_count, numbers, 8);
            n->numbers[n->number_count++] = (int64_t)read_number(c);
        }
    }
}

static void read_const(struct tc_schemas *s, struct json_cursor *c, struct schema *n)
{
    enum json_type type;
    expect(json_peek(c, &type));
    if (type == JSON_BOOL) {
        expect(json_read_bool(c, &n->always_true));
        must(n->always_true);
        return;
    }
    n->words = ARENA_NEW(&s->arena, struct str);
    n->words[n->word_count++] = read_text(s, c);
}

static void read_any(struct tc_schemas *s, struct json_cursor *c, struct schema *n)
{
    size_t cap = 0;
    bool more;
    expect(json_enter_array(c));
    for (;;) {
        expect(json_next_element(c, &more));
        if (!more)
            return;
        struct schema *of = compile(s, c);
        ARENA_GROW(&s->arena, n->any, n->any_count, cap, 4);
        n->any[n->any_count++] = of;
    }
}

static void read_others(struct tc_schemas *s, struct json_cursor *c, struct schema *n)
{
    enum json_type type;
    bool allowed;
    expect(json_peek(c, &type));
    if (type != JSON_BOOL) {
        n->others = compile(s, c);
        return;
    }
    expect(json_read_bool(c, &allowed));
    n->closed = !allowed;
}

static void read_type(struct tc_schemas *s, struct json_cursor *c, struct schema *n)
{
    enum json_type type;
    bool more;
    expect(json_peek(c, &type));
    if (type == JSON_STRING) {
        n->types = type_of(read_text(s, c));
        return;
    }
    expect(json_enter_array(c));
    for (;;) {
        expect(json_next_element(c, &more));
        if (!more)
            return;
        n->types |= type_of(read_text(s, c));
    }
}

static void read_pattern(struct tc_schemas *s, struct json_cursor *c, struct schema *n)
{
    expect(pattern_new(read_text(s, c), &n->pattern));
}

static void read_format(struct tc_schemas *s, struct json_cursor *c, struct schema *n)
{
    n->date_time = str_eq(read_text(s, c), STR("date-time"));
}

static void read_items(struct tc_schemas *s, struct json_cursor *c, struct schema *n)
{
    n->items = compile(s, c);
}

static void read_ref(struct tc_schemas *s, struct json_cursor *c, struct schema *n)
{
    n->ref = read_text(s, c);
}

static void read_unique(struct tc_schemas *s, struct json_cursor *c, struct schema *n)
{
    (void)s;
    expect(json_read_bool(c, &n->unique));
}

/* The handlers know the value itself. */
static void read_default(struct tc_schemas *s, struct json_cursor *c, struct schema *n)
{
    (void)s;
    n->has_default = true;
    expect(json_skip(c, NULL));
}

#define LIMIT(name, member, type)                                                                  \
    static void read_##name(struct tc_schemas *s, struct json_cursor *c, struct schema *n)         \
    {                                                                                              \
        (void)s;                                                                                   \
        n->member = (type)read_number(c);                                                          \
    }
LIMIT(minimum, minimum, double)
LIMIT(maximum, maximum, double)
LIMIT(min_length, length_min, uint64_t)
LIMIT(max_length, length_max, uint64_t)
LIMIT(min_items, items_min, uint64_t)
LIMIT(max_items, items_max, uint64_t)

static const struct {
    const char *name;
    void (*read)(struct tc_schemas *s, struct json_cursor *c, struct schema *n);
} keywords[] = {
    {"$ref", read_ref},
    {"type", read_type},
    {"properties", read_properties},
    {"required", read_required},
    {"additionalProperties", read_others},
    {"items", read_items},
    {"minItems", read_min_items},
    {"maxItems", read_max_items},
    {"uniqueItems", read_unique},
    {"minLength", read_min_length},
    {"maxLength", read_max_length},
    {"pattern", read_pattern},
    {"format", read_format},
    {"minimum", read_minimum},
    {"maximum", read_maximum},
    {"enum", read_enum},
    {"const", read_const},
    {"default", read_default},
    {"anyOf", read_any},
    {"oneOf", read_any}, /* the alternatives of these schemas exclude each other */
};

/* What says nothing about which values fit. */
static bool is_prose(struct str key)
{
    static const char *const words[] = {"$schema", "$id", "title", "description"};
    for (size_t i = 0; i < COUNT(words); i++)
        if (str_eq(key, str_from(words[i])))
            return true;
    return false;
}

static void read_keyword(struct tc_schemas *s, struct json_cursor *c, struct schema *n,
                         struct str key)
{
    for (size_t i = 0; i < COUNT(keywords); i++) {
        if (str_eq(key, str_from(keywords[i].name))) {
            keywords[i].read(s, c, n);
            return;
        }
    }
    must(is_prose(key));
    expect(json_skip(c, NULL));
}

static struct schema *compile(struct tc_schemas *s, struct json_cursor *c)
{
    struct schema *n = ARENA_NEW(&s->arena, struct schema);
    struct json_string key;
    bool more;
    n->minimum = -DBL_MAX;
    n->maximum = DBL_MAX;
    n->length_max = n->items_max = UINT64_MAX;
    n->next = s->all;
    s->all = n;
    expect(json_enter_object(c));
    for (;;) {
        expect(json_next_member(c, &more, &key));
        if (!more)
            return n;
        read_keyword(s, c, n, key.raw);
    }
}

/* --- references --- */

struct schema *tc_schemas_root(const struct tc_schemas *s, struct str name)
{
    for (size_t i = 0; i < s->count; i++)
        if (str_eq(name, str_from(tc_schema_files[i].name)))
            return s->roots[i];
    must(false); /* no schema of that name */
    return NULL;
}

/* "task.json#/properties/tags": the file is beside the one that refers to it. */
static struct schema *resolve(struct tc_schemas *s, struct str ref)
{
    const char *hash = memchr(ref.at, '#', ref.len);
    must(hash && hash > ref.at);
    struct buf name = {0};
    buf_print(&name, "v1/%.*s", (int)(hash - ref.at), ref.at);
    struct schema *n = tc_schemas_root(s, buf_view(&name));
    buf_fini(&name);
    struct str path = {hash + 1, ref.len - (size_t)(hash + 1 - ref.at)};
    static const struct str properties = {"/properties/", 12};
    if (path.len == 0)
        return n;
    must(path.len > properties.len && memcmp(path.at, properties.at, properties.len) == 0);
    struct str prop = {path.at + properties.len, path.len - properties.len};
    for (size_t i = 0; i < n->prop_count; i++)
        if (str_eq(n->props[i].name, prop) && n->props[i].schema)
            return n->props[i].schema;
    must(false); /* no such property */
    return NULL;
}

struct tc_schemas *tc_schemas_new(void)
{
    struct tc_schemas *s = ALLOC(struct tc_schemas);
    while (tc_schema_files[s->count].name)
        s->count++;
    s->roots = arena_zero(&s->arena, (s->count + 1) * sizeof(struct schema *));
    for (size_t i = 0; i < s->count; i++) {
        struct json_cursor c =
            json_open((struct str){tc_schema_files[i].text, tc_schema_files[i].len});
        s->roots[i] = compile(s, &c);
        expect(json_close(&c));
    }
    for (struct schema *n = s->all; n; n = n->next)
        if (n->ref.len)
            n->to = resolve(s, n->ref);
    return s;
}

void tc_schemas_free(struct tc_schemas *s)
{
    if (!s)
        return;
    for (struct schema *n = s->all; n; n = n->next)
        pattern_free(n->pattern);
    arena_fini(&s->arena);
    free(s);
}

bool tc_schemas_text(struct str name, struct str *text)
{
    for (const struct schema_file *f = tc_schema_files; f->name; f++) {
        if (!str_eq(name, str_from(f->name)))
            continue;
        *text = (struct str){f->text, f->len};
        return true;
    }
    return false;
}
