/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/fields.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/duration.h"
#include "base/json.h"
#include "base/must.h"
#include "base/quantity.h"
#include "policy/document_internal.h"

#define NAME_MAX_BYTES 63
#define FACTOR_MOST    100.0
#define SPAN_MOST_MS   ((int64_t)365 * 24 * 60 * 60 * 1000)

/* --- faults --- */

static void write_path(const struct fields_at *at, struct buf *b)
{
    if (!at->up)
        return;
    write_path(at->up, b);
    if (at->name.len == 0) {
        buf_print(b, "[%zu]", at->index);
        return;
    }
    if (b->len)
        buf_lit(b, ".");
    buf_str(b, at->name);
}

static void set_path(const struct fields_at *at, struct document_fault *fault)
{
    struct buf path = {0};
    write_path(at, &path);
    document_quote(fault->path, sizeof fault->path, buf_view(&path));
    buf_fini(&path);
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

bool fields_refuse(struct fields *f, const struct fields_at *at, enum err_code code,
                   const char *expected, ...)
{
    char words[sizeof f->fault->expected];
    va_list ap;
    va_start(ap, expected);
    vsnprintf(words, sizeof words, expected, ap);
    va_end(ap);
    document_refuse(f->fault, code, at->node->line, at->node->column, "%s", words);
    set_path(at, f->fault);
    set_found(at->node, f->fault);
    return false;
}

/* At the mapping that it should have been in. */
static bool refuse_missing(struct fields *f, const struct fields_at *map, const char *name)
{
    struct fields_at at = {map, str_from(name), 0, map->node};
    fields_refuse(f, &at, ERR_MISSING_FIELD, "this field");
    snprintf(f->fault->found, sizeof f->fault->found, "nothing");
    return false;
}

/* At the name: that is what is wrong. */
static bool refuse_unknown(struct fields *f, const struct fields_at *at, const struct field *table,
                           size_t n)
{
    struct buf names = {0};
    for (size_t i = 0; i < n; i++)
        buf_print(&names, "%s%s", i ? ", " : "", table[i].name);
    fields_refuse(f, at, ERR_UNKNOWN_FIELD, "one of the fields %.*s", STR_ARG(buf_view(&names)));
    buf_fini(&names);
    f->fault->line = at->node->key_line;
    f->fault->column = at->node->key_column;
    char name[100];
    document_quote(name, sizeof name, at->node->key);
    snprintf(f->fault->found, sizeof f->fault->found, "\"%s\"", name);
    return false;
}

/* --- mappings and lists --- */

bool fields_expect(struct fields *f, const struct fields_at *at, enum document_type type,
                   const char *expected)
{
    return at->node->type == type || fields_refuse(f, at, ERR_BAD_TYPE, "%s", expected);
}

static const struct field *find(const struct field *table, size_t n, struct str name)
{
    for (size_t i = 0; i < n; i++)
        if (str_eq(name, str_from(table[i].name)))
            return &table[i];
    return NULL;
}

bool fields_read(struct fields *f, const struct fields_at *at, const struct field *table, size_t n,
                 void *into)
{
    if (!fields_expect(f, at, DOCUMENT_MAP, "a mapping"))
        return false;
    for (const struct document_node *c = at->node->first; c; c = c->next) {
        struct fields_at member = {at, c->key, 0, c};
        const struct field *field = find(table, n, c->key);
        if (!field)
            return refuse_unknown(f, &member, table, n);
        if (!field->read(f, &member, into))
            return false;
    }
    for (size_t i = 0; i < n; i++)
        if (table[i].required && !document_member(at->node, table[i].name))
            return refuse_missing(f, at, table[i].name);
    return true;
}

bool fields_each(const struct fields_at *list, struct fields_at *at)
{
    must(list->node->type == DOCUMENT_LIST);
    if (at->node)
        *at = (struct fields_at){list, STR(""), at->index + 1, at->node->next};
    else
        *at = (struct fields_at){list, STR(""), 0, list->node->first};
    return at->node != NULL;
}

/* --- values --- */

bool fields_bool(struct fields *f, const struct fields_at *at, bool *v)
{
    if (!fields_expect(f, at, DOCUMENT_BOOL, "true or false"))
        return false;
    *v = str_eq(at->node->text, STR("true"));
    return true;
}

bool fields_int(struct fields *f, const struct fields_at *at, int64_t lo, int64_t hi, int64_t *v)
{
    struct json_cursor c = json_open(at->node->text);
    if (at->node->type == DOCUMENT_NUMBER && json_read_int(&c, lo, hi, v).code == ERR_OK)
        return true;
    return fields_refuse(f, at, at->node->type == DOCUMENT_NUMBER ? ERR_BAD_VALUE : ERR_BAD_TYPE,
                         "a whole number from %lld to %lld", (long long)lo, (long long)hi);
}

bool fields_double(struct fields *f, const struct fields_at *at, double lo, double hi, double *v)
{
    struct json_cursor c = json_open(at->node->text);
    if (at->node->type == DOCUMENT_NUMBER && json_read_double(&c, lo, hi, v).code == ERR_OK)
        return true;
    return fields_refuse(f, at, at->node->type == DOCUMENT_NUMBER ? ERR_BAD_VALUE : ERR_BAD_TYPE,
                         "a number from %g to %g", lo, hi);
}

bool fields_text(struct fields *f, const struct fields_at *at, size_t most, struct str *v)
{
    if (!fields_expect(f, at, DOCUMENT_STRING, "text"))
        return false;
    struct str s = at->node->text;
    bool good = s.len > 0 && s.len <= most;
    for (size_t i = 0; i < s.len && good; i++)
        good = (unsigned char)s.at[i] >= 0x20 && s.at[i] != 0x7f;
    if (!good)
        return fields_refuse(f, at, ERR_BAD_VALUE,
                             "1 to %zu bytes of text without control characters", most);
    *v = s;
    return true;
}

static bool is_label(struct str s)
{
    if (s.len == 0 || s.len > NAME_MAX_BYTES)
        return false;
    for (size_t i = 0; i < s.len; i++) {
        char c = s.at[i];
        bool word = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
        if (!word && !(c == '-' && i > 0 && i + 1 < s.len))
            return false;
    }
    return true;
}

bool fields_label(struct fields *f, const struct fields_at *at, struct str *v)
{
    if (!fields_expect(f, at, DOCUMENT_STRING, "a name (text; put a number into quotes)"))
        return false;
    if (!is_label(at->node->text))
        return fields_refuse(f, at, ERR_BAD_NAME,
                             "a name of up to %d lower case letters, digits and '-', which may "
                             "not be first or last",
                             NAME_MAX_BYTES);
    *v = at->node->text;
    return true;
}

bool fields_word(struct fields *f, const struct fields_at *at, const char *const *words, size_t n,
                 const char *expected, size_t *v)
{
    if (!fields_expect(f, at, DOCUMENT_STRING, expected))
        return false;
    for (size_t i = 0; i < n; i++) {
        if (words[i] && str_eq(at->node->text, str_from(words[i]))) {
            *v = i;
            return true;
        }
    }
    return fields_refuse(f, at, ERR_BAD_VALUE, "%s", expected);
}

bool fields_span(struct fields *f, const struct fields_at *at, span *v)
{
    struct str text = at->node->text;
    bool zero = at->node->type == DOCUMENT_NUMBER && str_eq(text, STR("0"));
    /* Without a unit it would be anyone's guess: milliseconds here, nanoseconds in Go. */
    bool unit = at->node->type == DOCUMENT_STRING && text.len > 0 &&
                (text.at[text.len - 1] < '0' || text.at[text.len - 1] > '9');
    if ((zero || unit) && duration_parse(text, v).code == ERR_OK && v->ms <= SPAN_MOST_MS)
        return true;
    enum document_type type = at->node->type;
    return fields_refuse(
        f, at, type == DOCUMENT_STRING || type == DOCUMENT_NUMBER ? ERR_BAD_VALUE : ERR_BAD_TYPE,
        "a duration with units (ms, s, m, h, d, w) like 30s or 1h30m, from 0s to 365d");
}

bool fields_quantity(struct fields *f, const struct fields_at *at, uint64_t *bytes)
{
    enum document_type type = at->node->type;
    bool text = type == DOCUMENT_STRING || type == DOCUMENT_NUMBER;
    return (text && quantity_parse(at->node->text, bytes)) ||
           fields_refuse(f, at, text ? ERR_BAD_VALUE : ERR_BAD_TYPE, QUANTITY_EXPECTED);
}

bool fields_factor(struct fields *f, const struct fields_at *at, double *v)
{
    return fields_double(f, at, 1.0, FACTOR_MOST, v) &&
           (*v > 1 || fields_refuse(f, at, ERR_BAD_VALUE, "more than 1"));
}

bool fields_regex(struct fields *f, const struct fields_at *at, void *into)
{
    if (!fields_expect(f, at, DOCUMENT_STRING, "a regular expression"))
        return false;
    /* It would match any message. */
    if (at->node->text.len == 0)
        return fields_refuse(f, at, ERR_BAD_VALUE, "a regular expression that is not empty");
    struct pattern *p;
    struct err e = pattern_new(at->node->text, &p);
    if (e.code != ERR_OK)
        return fields_refuse(f, at, e.code, "a regular expression (%s)", e.msg);
    struct fields_pattern *held = ARENA_NEW(f->arena, struct fields_pattern);
    *held = (struct fields_pattern){p, f->patterns};
    f->patterns = held;
    *(const struct pattern **)into = p;
    return true;
}

bool fields_pattern(struct fields *f, const struct fields_at *at, const struct pattern **v)
{
    static const struct field table[] = {{"pattern", fields_regex, true}};
    return fields_read(f, at, table, 1, v);
}

void fields_free_patterns(struct fields_pattern *patterns)
{
    for (; patterns; patterns = patterns->next)
        pattern_free(patterns->pattern);
}

/* --- the frame of a resource --- */

static const char *const api_versions[] = {"tenax.dev/v1", "armadaproject.io/v1"};

static bool read_api_version(struct fields *f, const struct fields_at *at, void *into)
{
    (void)into;
    size_t which;
    return fields_word(f, at, api_versions, 2, "tenax.dev/v1 or armadaproject.io/v1", &which);
}

static bool read_kind(struct fields *f, const struct fields_at *at, void *into)
{
    struct fields_frame *frame = into;
    size_t which;
    return fields_word(f, at, &frame->kind, 1, frame->kind, &which);
}

static bool read_name(struct fields *f, const struct fields_at *at, void *into)
{
    struct fields_frame *frame = into;
    return frame->any_name ? fields_text(f, at, FIELDS_TEXT_MAX, &frame->name)
                           : fields_label(f, at, &frame->name);
}

static bool read_version(struct fields *f, const struct fields_at *at, void *into)
{
    return fields_int(f, at, 1, INT64_MAX, &((struct fields_frame *)into)->resource_version);
}

static bool read_metadata(struct fields *f, const struct fields_at *at, void *into)
{
    static const struct field table[] = {{"name", read_name, true},
                                         {"resourceVersion", read_version, false}};
    return fields_read(f, at, table, 2, into);
}

static bool read_spec(struct fields *f, const struct fields_at *at, void *into)
{
    ((struct fields_frame *)into)->spec = *at;
    return fields_expect(f, at, DOCUMENT_MAP, "a mapping");
}

bool fields_frame(struct fields *f, const struct fields_at *at, struct fields_frame *frame)
{
    static const struct field table[] = {{"apiVersion", read_api_version, true},
                                         {"kind", read_kind, true},
                                         {"metadata", read_metadata, true},
                                         {"spec", read_spec, true}};
    return fields_read(f, at, table, 4, frame);
}

struct document_node *fields_frame_tree(struct arena *a, struct document_node *root,
                                        const struct fields_frame *frame)
{
    document_add(root, "apiVersion", document_string(a, str_from(api_versions[0])));
    document_add(root, "kind", document_string(a, str_from(frame->kind)));
    struct document_node *metadata = document_add(root, "metadata", document_map(a));
    document_add(metadata, "name", document_string(a, frame->name));
    if (frame->resource_version > 0)
        document_add(metadata, "resourceVersion", document_int(a, frame->resource_version));
    return document_add(root, "spec", document_map(a));
}
