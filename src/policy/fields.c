/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/fields.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/array.h"
#include "base/duration.h"
#include "base/must.h"
#include "base/quantity.h"
#include "base/re2.h"
#include "core/policy.h"

#define SPAN_MOST_MS ((int64_t)365 * 24 * 60 * 60 * 1000)

/* --- the tree and its text --- */

/* The part of the text that a node occupies. Places are in the order of the text, so those that
 * contain an offset are the path down to it. */
struct fields_place {
    const struct document_node *node;
    size_t index;    /* among its siblings */
    size_t from, to; /* including its key */
    size_t value;    /* where it begins after the key */
};

static bool is_stated(const struct fields *f, const struct document_node *member)
{
    return member && !(f->nulls_absent && member->type == DOCUMENT_NULL);
}

/* The tree is at most DOCUMENT_DEPTH_MAX deep. */
static void write_node(struct fields *f, const struct document_node *n, size_t index, bool member,
                       struct buf *b)
{
    ARENA_GROW(f->arena, f->places, f->count, f->cap, 64);
    size_t place = f->count++;
    f->places[place] = (struct fields_place){.node = n, .index = index, .from = b->len};
    if (member) {
        json_write_string(b, n->key);
        buf_byte(b, ':');
    }
    f->places[place].value = b->len;
    if (n->type == DOCUMENT_LIST || n->type == DOCUMENT_MAP) {
        bool map = n->type == DOCUMENT_MAP;
        size_t i = 0;
        buf_byte(b, map ? '{' : '[');
        for (const struct document_node *c = n->first; c; c = c->next) {
            if (map && !is_stated(f, c))
                continue;
            if (i)
                buf_byte(b, ',');
            write_node(f, c, i++, map, b);
        }
        buf_byte(b, map ? '}' : ']');
    } else {
        document_write_json(n, b);
    }
    f->places[place].to = b->len;
}

static struct json_cursor open_tree(struct fields *f, const struct document_node *root)
{
    struct buf b = {0};
    f->fault->code = ERR_OK;
    write_node(f, root, 0, false, &b);
    struct json_cursor c = json_open(arena_copy(f->arena, buf_view(&b)));
    c.context = f;
    buf_fini(&b);
    return c;
}

struct json_cursor fields_open(struct fields *f, const struct document_node *root, const char *name,
                               struct arena *a, struct document_fault *fault)
{
    *f = (struct fields){.arena = a, .fault = fault, .name = name};
    return open_tree(f, root);
}

struct json_cursor fields_open_lenient(struct fields *f, const struct document_node *root,
                                       const char *name, struct arena *a,
                                       struct document_fault *fault)
{
    *f = (struct fields){.arena = a, .fault = fault, .name = name, .nulls_absent = true};
    return open_tree(f, root);
}

static const struct fields *fields_of(const struct json_cursor *c)
{
    must(c->context);
    return c->context;
}

static bool is_in(const struct fields_place *p, size_t at)
{
    return p->from <= at && at < p->to;
}

/* The innermost value that contains the offset. */
static const struct fields_place *place_at(const struct fields *f, size_t at)
{
    size_t lo = 0, hi = f->count; /* the last one that begins there or before is in this range */
    while (hi - lo > 1) {
        size_t mid = lo + (hi - lo) / 2;
        if (f->places[mid].from <= at)
            lo = mid;
        else
            hi = mid;
    }
    while (lo > 0 && !is_in(&f->places[lo], at))
        lo--;
    return &f->places[lo];
}

static size_t offset_of(const struct fields *f, const struct document_node *n)
{
    size_t i = 0;
    while (i < f->count && f->places[i].node != n)
        i++;
    must(i < f->count);
    return f->places[i].value;
}

size_t fields_member(const struct json_cursor *c, size_t map, const char *name)
{
    const struct fields *f = fields_of(c);
    const struct document_node *n = document_member(place_at(f, map)->node, name);
    return offset_of(f, n);
}

bool fields_has(const struct json_cursor *c, size_t map, const char *name)
{
    const struct fields *f = fields_of(c);
    return is_stated(f, document_member(place_at(f, map)->node, name));
}

size_t fields_entry(const struct json_cursor *c, size_t list, size_t i)
{
    const struct fields *f = fields_of(c);
    const struct document_node *n = place_at(f, list)->node->first;
    for (; i > 0; i--)
        n = n->next;
    return offset_of(f, n);
}

const struct document_node *fields_node(const struct json_cursor *c)
{
    return place_at(fields_of(c), c->pos)->node;
}

/* --- faults --- */

static void write_path(const struct fields *f, size_t at, struct buf *b)
{
    if (f->name)
        buf_str(b, str_from(f->name));
    for (size_t i = 1; i < f->count; i++) {
        const struct fields_place *p = &f->places[i];
        if (!is_in(p, at))
            continue;
        struct str key = p->node->key.len ? p->node->key : STR("\"\"");
        if (p->value == p->from)
            buf_print(b, "[%zu]", p->index);
        else
            buf_print(b, "%s%.*s", b->len ? "." : "", STR_ARG(key));
    }
}

static void set_found(const struct document_node *n, struct document_fault *fault)
{
    char text[100];
    document_quote(text, sizeof text, n->text);
    switch (n->type) {
    case DOCUMENT_NULL:
        snprintf(fault->found, sizeof fault->found, "nothing");
        return;
    case DOCUMENT_STRING:
        snprintf(fault->found, sizeof fault->found, "\"%s\"%s", text,
                 strlen(text) < n->text.len ? " ..." : "");
        return;
    case DOCUMENT_LIST:
        snprintf(fault->found, sizeof fault->found, n->count ? "a list" : "an empty list");
        return;
    case DOCUMENT_MAP:
        snprintf(fault->found, sizeof fault->found, n->count ? "a mapping" : "an empty mapping");
        return;
    case DOCUMENT_BOOL:
    case DOCUMENT_NUMBER:
        snprintf(fault->found, sizeof fault->found, "%s", text);
    }
}

static void set_fault(struct document_fault *fault, const struct document_node *n, struct str path,
                      enum err_code code, const char *expected, va_list ap)
{
    char words[sizeof fault->expected];
    vsnprintf(words, sizeof words, expected, ap);
    document_refuse(fault, code, n->line, n->column, "%s", words);
    document_quote(fault->path, sizeof fault->path, path);
    set_found(n, fault);
}

bool fields_fault(struct document_fault *fault, const struct document_node *n, const char *path,
                  enum err_code code, const char *expected, ...)
{
    va_list ap;
    va_start(ap, expected);
    set_fault(fault, n, str_from(path), code, expected, ap);
    va_end(ap);
    return false;
}

struct err fields_refuse(struct json_cursor *c, size_t at, enum err_code code, const char *expected,
                         ...)
{
    const struct fields *f = fields_of(c);
    struct buf path = {0};
    va_list ap;
    write_path(f, at, &path);
    va_start(ap, expected);
    set_fault(f->fault, place_at(f, at)->node, buf_view(&path), code, expected, ap);
    va_end(ap);
    buf_fini(&path);
    return err_at(code, (int64_t)at, "%s", "the document is refused");
}

/* At the mapping that it should have been in. */
static void refuse_missing(struct json_cursor *c, size_t map, const char *name)
{
    const struct fields *f = fields_of(c);
    const struct document_node *n = place_at(f, map)->node;
    struct buf path = {0};
    write_path(f, map, &path);
    buf_print(&path, "%s%s", path.len ? "." : "", name);
    buf_byte(&path, '\0');
    fields_fault(f->fault, n, path.at, ERR_MISSING_FIELD, "this field");
    buf_fini(&path);
    snprintf(f->fault->found, sizeof f->fault->found, "nothing");
}

/* At the name, which is the fault. */
static void refuse_unknown(struct json_cursor *c, size_t key, const struct field *table, size_t n)
{
    const struct fields *f = fields_of(c);
    const struct document_node *node = place_at(f, key)->node;
    struct buf names = {0};
    for (size_t i = 0; i < n; i++)
        buf_print(&names, "%s%s", i ? ", " : "", table[i].name);
    (void)fields_refuse(c, key, ERR_UNKNOWN_FIELD, "one of the fields %.*s",
                        STR_ARG(buf_view(&names)));
    buf_fini(&names);
    f->fault->line = node->key_line;
    f->fault->column = node->key_column;
    char name[100];
    document_quote(name, sizeof name, node->key);
    snprintf(f->fault->found, sizeof f->fault->found, "\"%s\"", name);
}

/* --- mappings and lists --- */

struct err fields_read(struct json_cursor *c, const struct field *table, size_t n, void *into)
{
    const struct fields *f = fields_of(c);
    size_t at = c->pos;
    struct err err = field_read_object(true, c, f->arena, table, n, into);
    if (err.code == ERR_OK || f->fault->code != ERR_OK)
        return err;
    /* Refused by the decoder itself, not by a reader. */
    const struct document_node *map = place_at(f, at)->node;
    size_t missing = 0;
    if (err.code == ERR_UNKNOWN_FIELD) {
        refuse_unknown(c, (size_t)err.offset, table, n);
    } else if (err.code == ERR_MISSING_FIELD) {
        while (!table[missing].required || is_stated(f, document_member(map, table[missing].name)))
            missing++;
        refuse_missing(c, at, table[missing].name);
    } else {
        return fields_refuse(c, at, err.code, "a mapping");
    }
    return err;
}

struct err fields_mapping(struct json_cursor *c, struct arena *a, void *into)
{
    size_t at = c->pos;
    enum json_type type;
    TRY(json_peek(c, &type));
    return type == JSON_OBJECT ? field_part(c, a, into)
                               : fields_refuse(c, at, ERR_BAD_TYPE, "a mapping");
}

struct err fields_list(struct json_cursor *c, const char *expected, size_t *count)
{
    size_t at = c->pos;
    *count = fields_node(c)->count;
    if (json_enter_array(c).code == ERR_OK)
        return err_none();
    return fields_refuse(c, at, ERR_BAD_TYPE, "%s", expected);
}

static void step(struct json_cursor *c, bool expected)
{
    bool more;
    struct err err = json_next_element(c, &more);
    must(err.code == ERR_OK && more == expected);
}

void fields_next(struct json_cursor *c)
{
    step(c, true);
}

void fields_end(struct json_cursor *c)
{
    step(c, false);
}

/* --- values --- */

struct err fields_bool(struct json_cursor *c, struct arena *a, void *b)
{
    size_t at = c->pos;
    if (field_bool(c, a, b).code == ERR_OK)
        return err_none();
    return fields_refuse(c, at, ERR_BAD_TYPE, "true or false");
}

struct err fields_int(struct json_cursor *c, int64_t lo, int64_t hi, int64_t *v)
{
    size_t at = c->pos;
    struct err err = json_read_int(c, lo, hi, v);
    if (err.code == ERR_OK)
        return err;
    return fields_refuse(c, at, err.code, "a whole number from %lld to %lld", (long long)lo,
                         (long long)hi);
}

struct err fields_double(struct json_cursor *c, double lo, double hi, double *v)
{
    size_t at = c->pos;
    struct err err = json_read_double(c, lo, hi, v);
    if (err.code == ERR_OK)
        return err;
    return fields_refuse(c, at, err.code, "a number from %g to %g", lo, hi);
}

/* The characters of a string of any kind. */
static struct err read_string(struct json_cursor *c, const char *expected, struct str *v)
{
    size_t at = c->pos;
    if (field_text(c, fields_of(c)->arena, v).code == ERR_OK)
        return err_none();
    return fields_refuse(c, at, ERR_BAD_TYPE, "%s", expected);
}

struct err fields_text(struct json_cursor *c, size_t most, struct str *v)
{
    size_t at = c->pos;
    TRY(read_string(c, "text", v));
    bool good = v->len > 0 && v->len <= most;
    for (size_t i = 0; i < v->len && good; i++)
        good = (unsigned char)v->at[i] >= 0x20 && v->at[i] != 0x7f;
    if (good)
        return err_none();
    return fields_refuse(c, at, ERR_BAD_VALUE, "1 to %zu bytes of text without control characters",
                         most);
}

struct err fields_name(struct json_cursor *c, struct arena *a, void *str)
{
    (void)a;
    return fields_text(c, FIELDS_TEXT_MAX, str);
}

static bool is_label(struct str s)
{
    if (s.len == 0 || s.len > FIELDS_LABEL_MAX)
        return false;
    for (size_t i = 0; i < s.len; i++) {
        char c = s.at[i];
        bool word = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
        if (!word && !(c == '-' && i > 0 && i + 1 < s.len))
            return false;
    }
    return true;
}

struct err fields_label(struct json_cursor *c, struct arena *a, void *str)
{
    size_t at = c->pos;
    struct str *v = str;
    (void)a;
    TRY(read_string(c, "a name (text; put a number into quotes)", v));
    if (is_label(*v))
        return err_none();
    return fields_refuse(c, at, ERR_BAD_NAME,
                         "a name of up to %d lower case letters, digits and '-', which may not be "
                         "first or last",
                         FIELDS_LABEL_MAX);
}

struct err fields_word(struct json_cursor *c, const char *const *words, const char *expected,
                       size_t *v)
{
    size_t at = c->pos;
    struct str text;
    TRY(read_string(c, expected, &text));
    for (size_t i = 0; words[i]; i++) {
        if (str_eq(text, str_from(words[i]))) {
            *v = i;
            return err_none();
        }
    }
    return fields_refuse(c, at, ERR_BAD_VALUE, "%s", expected);
}

struct err fields_retries(struct json_cursor *c, struct arena *a, void *i64)
{
    (void)a;
    return fields_int(c, 0, POLICY_RETRIES_MAX, i64);
}

/* A string or a number as text; ERR_BAD_TYPE, without a fault, if it is neither. */
static struct err read_either(struct json_cursor *c, enum json_type *type, struct str *text)
{
    TRY(json_peek(c, type));
    if (*type == JSON_STRING)
        return field_text(c, fields_of(c)->arena, text);
    if (*type == JSON_NUMBER)
        return json_skip(c, text);
    return err_make(ERR_BAD_TYPE, "%s", "neither a string nor a number");
}

struct err fields_span(struct json_cursor *c, struct arena *a, void *v)
{
    size_t at = c->pos;
    enum json_type type;
    struct str text;
    span *d = v;
    (void)a;
    struct err err = read_either(c, &type, &text);
    if (err.code == ERR_OK) {
        bool zero = type == JSON_NUMBER && str_eq(text, STR("0"));
        /* Without a unit it would be ambiguous: milliseconds here, nanoseconds in Go. */
        bool unit = type == JSON_STRING && text.len > 0 &&
                    (text.at[text.len - 1] < '0' || text.at[text.len - 1] > '9');
        if ((zero || unit) && duration_parse(text, d).code == ERR_OK && d->ms <= SPAN_MOST_MS)
            return err;
        err.code = ERR_BAD_VALUE;
    }
    return fields_refuse(c, at, err.code, FIELDS_SPAN_EXPECTED);
}

struct err fields_quantity(struct json_cursor *c, struct arena *a, void *u64)
{
    size_t at = c->pos;
    enum json_type type;
    struct str text;
    (void)a;
    struct err err = read_either(c, &type, &text);
    if (err.code == ERR_OK && quantity_parse(text, u64))
        return err;
    return fields_refuse(c, at, err.code == ERR_OK ? ERR_BAD_VALUE : err.code, QUANTITY_EXPECTED);
}

struct err fields_cpu(struct json_cursor *c, struct arena *a, void *u64)
{
    size_t at = c->pos;
    enum json_type type;
    struct str text;
    (void)a;
    struct err err = read_either(c, &type, &text);
    if (err.code == ERR_OK && quantity_parse_cpu(text, u64))
        return err;
    return fields_refuse(c, at, err.code == ERR_OK ? ERR_BAD_VALUE : err.code,
                         QUANTITY_CPU_EXPECTED);
}

struct err fields_factor(struct json_cursor *c, struct arena *a, void *v)
{
    size_t at = c->pos;
    (void)a;
    TRY(fields_double(c, 1.0, FIELDS_FACTOR_MAX, v));
    return *(double *)v > 1 ? err_none() : fields_refuse(c, at, ERR_BAD_VALUE, "more than 1");
}

static struct err spend(struct json_cursor *c, size_t at, uint64_t bytes)
{
    const struct fields *f = c->context;
    *f->pattern_bytes += bytes;
    if (f->stored || *f->pattern_bytes <= FIELDS_PATTERN_BYTES_MAX)
        return err_none();
    return fields_refuse(c, at, ERR_TOO_MANY,
                         "regular expressions of at most %llu bytes in all, compiled (where case "
                         "is ignored, each character of a range counts)",
                         (unsigned long long)FIELDS_PATTERN_BYTES_MAX);
}

static void free_pattern(void *p)
{
    pattern_free(p);
}

/* What is kept and shown of a pattern of RE2 is what it means to PCRE2. */
static struct err compile(const struct fields *f, struct str text, struct pattern **p)
{
    if (!f->re2)
        return pattern_new(text, p);
    struct buf meant = {0};
    struct err e = re2_translate(text, &meant);
    if (e.code == ERR_OK)
        e = pattern_new(buf_view(&meant), p);
    buf_fini(&meant);
    return e;
}

struct err fields_regex(struct json_cursor *c, struct arena *a, void *into)
{
    size_t at = c->pos;
    struct str text;
    TRY(read_string(c, "a regular expression", &text));
    /* It would match any message. */
    if (text.len == 0)
        return fields_refuse(c, at, ERR_BAD_VALUE, "a regular expression that is not empty");
    TRY(spend(c, at, pattern_range_effort(text)));
    struct pattern *p = NULL;
    struct err e = compile(c->context, text, &p);
    if (e.code != ERR_OK)
        return fields_refuse(c, at, e.code, "a regular expression (%s)", e.msg);
    arena_defer(a, free_pattern, p);
    *(const struct pattern **)into = p;
    return spend(c, at, pattern_size(p));
}

static const struct field pattern_table[] = {
    {"pattern", true, fields_regex, 0, .doc = "string 1.. @pcre: a regular expression (PCRE2)"},
};

struct err fields_pattern(struct json_cursor *c, struct arena *a, void *into)
{
    (void)a;
    return fields_read(c, pattern_table, COUNT(pattern_table), into);
}

/* --- the frame of a resource --- */

const char *const fields_api_versions[] = {"tenax.dev/v1", "armadaproject.io/v1", NULL};

struct err fields_api_version(struct json_cursor *c, struct arena *a, void *frame)
{
    size_t which;
    (void)a;
    (void)frame;
    return fields_word(c, fields_api_versions, "tenax.dev/v1 or armadaproject.io/v1", &which);
}

struct err fields_kind(struct json_cursor *c, struct arena *a, void *frame)
{
    const struct fields_frame *f = frame;
    const char *const words[] = {f->kind, NULL};
    size_t which;
    (void)a;
    return fields_word(c, words, f->kind, &which);
}

static struct err read_name(struct json_cursor *c, struct arena *a, void *frame)
{
    struct fields_frame *f = frame;
    return f->any_name ? fields_name(c, a, &f->name) : fields_label(c, a, &f->name);
}

static struct err read_version(struct json_cursor *c, struct arena *a, void *i64)
{
    (void)a;
    return fields_int(c, 1, INT64_MAX, i64);
}

static const struct field metadata_table[] = {
    {"name", true, read_name, 0, .doc = "string"},
    {"resourceVersion", false, read_version, offsetof(struct fields_frame, resource_version),
     .doc = "integer 1..: the version that is to be replaced"},
};

struct err fields_metadata(struct json_cursor *c, struct arena *a, void *frame)
{
    (void)a;
    return fields_read(c, metadata_table, COUNT(metadata_table), frame);
}

struct err fields_pass_over(struct json_cursor *c, struct arena *a, void *frame)
{
    (void)a;
    (void)frame;
    return json_skip(c, NULL);
}

struct document_node *fields_frame_tree(struct arena *a, struct document_node *root,
                                        const struct fields_frame *frame)
{
    document_add(root, "apiVersion", document_string(a, str_from(fields_api_versions[0])));
    document_add(root, "kind", document_string(a, str_from(frame->kind)));
    struct document_node *metadata = document_add(root, "metadata", document_map(a));
    document_add(metadata, "name", document_string(a, frame->name));
    if (frame->resource_version > 0)
        document_add(metadata, "resourceVersion", document_int(a, frame->resource_version));
    return document_add(root, "spec", document_map(a));
}

const struct field_table fields_tables[] = {
    {"Duration",
     .doc = "string @time-span or integer 0..0: " FIELDS_SPAN_EXPECTED "; 0 needs no unit"},
    {"Quantity", .doc = "string @quantity or integer 1..: " QUANTITY_EXPECTED},
    {"CpuQuantity", .doc = "string @cpu-quantity or integer 1..1000000: " QUANTITY_CPU_EXPECTED},
    {"DocumentMetadata", FIELD_TABLE(metadata_table)},
    {"PatternMatcher", FIELD_TABLE(pattern_table)},
};
const size_t fields_table_count = COUNT(fields_tables);
