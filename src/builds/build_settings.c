/* SPDX-License-Identifier: Apache-2.0 */
#include "builds/build_settings.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/decimal.h"
#include "base/duration.h"
#include "base/json.h"

enum type { TEXT, SECRET, INT, NUMBER, BOOL, SPAN, OBJECT, ARRAY };

static const struct row {
    const char *path, *variable;
    enum type type;
    const char *def, *help;
} rows[BUILD_SETTING_COUNT] = {
#define SETTING(name, path, variable, type, def, help)                                             \
    [BUILD_##name] = {path, variable, type, def, help},
#include "builds/build_settings.def"
#undef SETTING
};

static const char *const type_names[] = {"a text",        "a text",        "a whole number",
                                         "a number",      "true or false", "a duration such as 30s",
                                         "a JSON object", "a JSON array"};

/* --- one value --- */

/* Where a value came from, for an error. */
static struct err wrong(const struct row *r, enum build_source source, const char *text)
{
    const char *name = source == BUILD_FROM_VARIABLE ? r->variable : r->path;
    return err_make(ERR_USAGE, "%s must be %s, not '%.64s'", name, type_names[r->type], text);
}

static bool one_of(const char *text, const char *const *words, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strcasecmp(text, words[i]) == 0)
            return true;
    return false;
}

/* YAML's words, as the original has them. */
static bool read_bool(const char *text, double *v)
{
    static const char *const yes[] = {"true", "yes", "on", "y", "1"};
    static const char *const no[] = {"false", "no", "off", "n", "0"};
    bool is = one_of(text, yes, COUNT(yes));
    *v = is ? 1 : 0;
    return is || one_of(text, no, COUNT(no));
}

static bool read_number(const char *text, double *v)
{
    char *end;
    *v = strtod(text, &end);
    return *end == '\0' && end != text && *v >= 0 && *v <= 1e12;
}

static bool read_tree(struct build_settings *s, const char *text, enum document_type type,
                      const struct document_node **out)
{
    struct document_list list;
    struct document_fault fault;
    if (!document_read(str_from(text), DOCUMENT_JSON, &s->memory, &list, &fault) ||
        !document_only(&list, out, &fault))
        return false;
    /* The original's files say {} where a list would have nothing in it. */
    if (type == DOCUMENT_LIST && (*out)->type == DOCUMENT_MAP && (*out)->count == 0)
        *out = document_list(&s->memory);
    return (*out)->type == type;
}

static bool read_value(struct build_settings *s, enum type type, struct build_value *v)
{
    int64_t whole;
    span d;
    switch (type) {
    case TEXT:
    case SECRET:
        return true;
    case INT:
        v->number = 0;
        if (!decimal_digits(str_from(v->text), 15, &whole))
            return false;
        v->number = (double)whole;
        return true;
    case NUMBER:
        return read_number(v->text, &v->number);
    case BOOL:
        return read_bool(v->text, &v->number);
    case SPAN:
        if (duration_parse(str_from(v->text), &d).code != ERR_OK)
            return false;
        v->number = (double)d.ms;
        return true;
    case OBJECT:
        return read_tree(s, v->text, DOCUMENT_MAP, &v->tree);
    case ARRAY:
        return read_tree(s, v->text, DOCUMENT_LIST, &v->tree);
    }
    return false;
}

static struct err set(struct build_settings *s, enum build_setting which, struct str text,
                      enum build_source source)
{
    const struct row *r = &rows[which];
    struct build_value v = {.source = source};
    char *copy = arena_get(&s->memory, text.len + 1);
    memcpy(copy, text.at, text.len);
    copy[text.len] = '\0';
    v.text = copy;
    if (!read_value(s, r->type, &v))
        return wrong(r, source, r->type == SECRET ? "(hidden)" : v.text);
    s->values[which] = v;
    return err_none();
}

struct err build_settings_set(struct build_settings *s, enum build_setting which, const char *text)
{
    return set(s, which, str_from(text), BUILD_FROM_FLAG);
}

/* --- the file --- */

static const struct document_node *find(const struct document_node *root, const char *path)
{
    char step[64];
    while (root && *path) {
        size_t n = strcspn(path, ".");
        if (n >= sizeof step)
            return NULL;
        memcpy(step, path, n);
        step[n] = '\0';
        root = document_member(root, step);
        path += n + (path[n] == '.');
    }
    return root;
}

static struct err set_from_tree(struct build_settings *s, enum build_setting which,
                                const struct document_node *n)
{
    struct buf text = {0};
    struct err e = err_none();
    if (n->type == DOCUMENT_NULL)
        return e;
    if (n->type == DOCUMENT_LIST || n->type == DOCUMENT_MAP)
        document_write_json(n, &text);
    else
        buf_str(&text, n->text);
    e = set(s, which, buf_view(&text), BUILD_FROM_FILE);
    if (e.code != ERR_OK)
        e = err_make(ERR_USAGE, "line %u, column %u: %.150s", n->line, n->column, e.msg);
    buf_fini(&text);
    return e;
}

static struct err read_root(struct build_settings *s, const struct document_node *root)
{
    if (root->type != DOCUMENT_MAP)
        return err_make(ERR_USAGE, "it is no mapping of settings");
    for (int i = 0; i < BUILD_SETTING_COUNT; i++) {
        const struct document_node *n = find(root, rows[i].path);
        if (n)
            TRY(set_from_tree(s, (enum build_setting)i, n));
    }
    return err_none();
}

static struct err read_file(struct build_settings *s, const char *file)
{
    struct buf text = {0};
    struct document_list list;
    struct document_fault fault;
    const struct document_node *root;
    struct err e = document_load(file, &text);
    if (e.code == ERR_OK) {
        struct str kept = arena_copy(&s->memory, buf_view(&text));
        if (!document_read(kept, DOCUMENT_ANY, &s->memory, &list, &fault) ||
            !document_only(&list, &root, &fault)) {
            e = document_fault_in(file, &fault);
            e.code = ERR_USAGE;
        } else {
            e = read_root(s, root);
            if (e.code != ERR_OK)
                e = err_make(ERR_USAGE, "%.60s: %.140s", file, e.msg);
        }
    }
    buf_fini(&text);
    return e;
}

/* --- all of them --- */

struct err build_settings_read(struct build_settings *s, const char *file,
                               char *(*variable)(const char *name))
{
    for (int i = 0; i < BUILD_SETTING_COUNT; i++)
        TRY(set(s, (enum build_setting)i, str_from(rows[i].def), BUILD_FROM_DEFAULT));
    if (file)
        TRY(read_file(s, file));
    for (int i = 0; i < BUILD_SETTING_COUNT; i++) {
        const char *text = variable(rows[i].variable);
        if (text && *text)
            TRY(set(s, (enum build_setting)i, str_from(text), BUILD_FROM_VARIABLE));
    }
    return err_none();
}

void build_settings_free(struct build_settings *s)
{
    arena_fini(&s->memory);
}

void build_settings_print(const struct build_settings *s, struct buf *b)
{
    static const char *const sources[] = {"default", "file", "variable", "flag"};
    for (int i = 0; i < BUILD_SETTING_COUNT; i++) {
        const struct build_value *v = &s->values[i];
        const char *shown = v->text;
        if (rows[i].type == SECRET)
            shown = *v->text ? "(hidden)" : "";
        /* Two that are no secrets, but in which people put some. */
        if ((i == BUILD_CONNECT_OPTIONS && v->source != BUILD_FROM_DEFAULT) ||
            (i == BUILD_SERVER && strchr(shown, '@')))
            shown = "(hidden)";
        buf_print(b, "%s: ", rows[i].path);
        if (rows[i].type == TEXT || rows[i].type == SECRET || rows[i].type == SPAN)
            json_write_string(b, str_from(shown));
        else
            buf_str(b, str_from(shown));
        buf_print(b, "  # %s", sources[v->source]);
        if (v->source == BUILD_FROM_VARIABLE)
            buf_print(b, " %s", rows[i].variable);
        buf_byte(b, '\n');
    }
}

void build_settings_markdown(struct buf *b)
{
    buf_lit(b, "| in the file | variable | default | meaning |\n|---|---|---|---|\n");
    for (int i = 0; i < BUILD_SETTING_COUNT; i++) {
        const struct row *r = &rows[i];
        buf_print(b, "| `%s` | `%s` | ", r->path, r->variable);
        if (*r->def)
            buf_print(b, "`%s`", r->type == SECRET ? "(hidden)" : r->def);
        buf_print(b, " | %s |\n", r->help);
    }
}

/* --- derived --- */

static int hex(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* With the escapes of URLs (%40) read; what is no escape stays as it is. */
static const char *unescape(struct build_settings *s, const char *from)
{
    char *out = arena_get(&s->memory, strlen(from) + 1), *to = out;
    for (; *from; from++) {
        if (*from == '%' && hex(from[1]) >= 0 && hex(from[2]) >= 0) {
            *to++ = (char)(hex(from[1]) * 16 + hex(from[2]));
            from += 2;
        } else {
            *to++ = *from;
        }
    }
    *to = '\0';
    return out;
}

const char *build_settings_vhost(struct build_settings *s)
{
    const char *from = build_text(s, BUILD_VHOST);
    from += *from == '/';
    return *from ? unescape(s, from) : "/";
}

const char *build_settings_credential(struct build_settings *s, enum build_setting which)
{
    return unescape(s, build_text(s, which));
}
