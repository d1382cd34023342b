/* SPDX-License-Identifier: Apache-2.0 */
#include <libfyaml.h>

#include "base/must.h"
#include "base/utf8.h"
#include "wire/document_internal.h"

/* Parts of all the documents of a text, including empty ones: the parser takes a microsecond or two
 * for each, on the server's loop thread. */
#define PARTS_MAX 50000

/* The tree is built here from the parser's events, rather than in the library: no alias is ever
 * resolved, and every limit is checked before anything is stored. */
struct builder {
    struct arena *arena;
    struct document_list *out;
    struct document_fault *fault;
    struct document_node *open[DOCUMENT_DEPTH_MAX]; /* from the root of the document */
    unsigned depth;
    unsigned parts;
    /* The last key read, if its value is next. */
    bool has_key;
    struct str key;
    uint32_t key_line, key_column;
};

/* Where an event begins; in the library a quoted scalar begins after its quote. */
static void place(struct fy_event *e, uint32_t *line, uint32_t *column)
{
    const struct fy_mark *mark = fy_event_start_mark(e);
    enum fy_scalar_style style = e->type == FYET_SCALAR && e->scalar.value
                                     ? fy_token_scalar_style(e->scalar.value)
                                     : FYSS_PLAIN;
    *line = mark && mark->line >= 0 ? (uint32_t)mark->line + 1 : 0;
    *column = mark && mark->column >= 0 ? (uint32_t)mark->column + 1 : 0;
    if (*column > 1 && (style == FYSS_SINGLE_QUOTED || style == FYSS_DOUBLE_QUOTED))
        --*column;
}

static bool refuse_here(struct builder *b, struct fy_event *e, enum err_code code,
                        const char *expected, const char *found)
{
    uint32_t line, column;
    place(e, &line, &column);
    document_refuse(b->fault, code, line, column, "%s", expected);
    document_quote(b->fault->found, sizeof b->fault->found, str_from(found));
    return false;
}

/* --- scalars --- */

static bool is_one_of(struct str s, const char *const *words, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (str_eq(s, str_from(words[i])))
            return true;
    return false;
}

#define IS_ONE_OF(s, ...)                                                                          \
    is_one_of((s), (const char *const[]){__VA_ARGS__},                                             \
              sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *))

/* Begins like the numbers of YAML's core schema, and contains only their characters. */
static bool looks_like_number(struct str s)
{
    size_t i = s.len && (s.at[0] == '-' || s.at[0] == '+') ? 1 : 0;
    if (IS_ONE_OF(((struct str){s.at + i, s.len - i}), ".inf", ".Inf", ".INF", ".nan", ".NaN",
                  ".NAN"))
        return true;
    if (i < s.len && s.at[i] == '.')
        i++;
    if (i == s.len || s.at[i] < '0' || s.at[i] > '9')
        return false;
    if (i + 2 < s.len && s.at[i] == '0' && (s.at[i + 1] == 'x' || s.at[i + 1] == 'o'))
        return strspn(s.at + i + 2, "0123456789abcdefABCDEF") >= s.len - i - 2;
    return strspn(s.at + i, "0123456789.eE+-") >= s.len - i;
}

/* The type of a plain scalar by YAML's core schema. text ends with a NUL. */
static bool resolve_plain(struct builder *b, struct fy_event *e, struct document_node *n)
{
    n->type = DOCUMENT_STRING;
    if (n->text.len == 0 || IS_ONE_OF(n->text, "~", "null", "Null", "NULL")) {
        n->type = DOCUMENT_NULL;
    } else if (IS_ONE_OF(n->text, "true", "True", "TRUE")) {
        n->type = DOCUMENT_BOOL;
        n->text = STR("true");
    } else if (IS_ONE_OF(n->text, "false", "False", "FALSE")) {
        n->type = DOCUMENT_BOOL;
        n->text = STR("false");
    } else if (document_is_number(n->text)) {
        n->type = DOCUMENT_NUMBER;
    } else if (looks_like_number(n->text)) {
        return refuse_here(b, e, ERR_BAD_VALUE,
                           "a decimal number in JSON's spelling, or quotes if it is text",
                           n->text.at);
    }
    return true;
}

/* In the pieces that it is made of: of a folded text the library says that it is longer than what
 * it writes of it, and the rest would be whatever the memory held before. */
static bool copy_text(struct builder *b, struct fy_event *e, struct str *out)
{
    struct buf text = {0};
    struct fy_token *token = e->scalar.value;
    struct fy_token_iter *i = token ? fy_token_iter_create(token) : NULL;
    const struct fy_iter_chunk *piece = NULL;
    int err = token && !i;
    while (i && (piece = fy_token_iter_chunk_next(i, piece, &err)))
        buf_add(&text, piece->str, piece->len);
    fy_token_iter_destroy(i);
    size_t len = text.len;
    buf_byte(&text, '\0'); /* refusals print it */
    *out = (struct str){arena_copy(b->arena, buf_view(&text)).at, len};
    buf_fini(&text);
    return !err || refuse_here(b, e, ERR_BAD_VALUE, "text that can be read", "");
}

/* --- the tree --- */

static struct document_node *innermost(struct builder *b)
{
    return b->depth ? b->open[b->depth - 1] : NULL;
}

static bool put(struct builder *b, struct document_node *n)
{
    struct document_node *parent = innermost(b);
    if (!parent)
        return document_append_root(b->out, n, b->fault);
    if (parent->type == DOCUMENT_MAP) {
        n->key = b->key;
        n->key_line = b->key_line;
        n->key_column = b->key_column;
        b->has_key = false;
    }
    return document_append(parent, n, b->fault);
}

static bool wants_key(struct builder *b)
{
    struct document_node *parent = innermost(b);
    return parent && parent->type == DOCUMENT_MAP && !b->has_key;
}

static struct document_node *new_node(struct builder *b, struct fy_event *e)
{
    struct document_node *n = ARENA_NEW(b->arena, struct document_node);
    place(e, &n->line, &n->column);
    return n;
}

static bool add_scalar(struct builder *b, struct fy_event *e)
{
    struct fy_token *token = e->scalar.value;
    struct str text;
    if (!copy_text(b, e, &text))
        return false;
    /* An escape can name half of a surrogate pair. */
    if (utf8_check(text) != text.len)
        return refuse_here(b, e, ERR_BAD_UTF8, "characters of Unicode", "an escape for none");
    if (wants_key(b)) {
        place(e, &b->key_line, &b->key_column);
        b->key = text;
        b->has_key = true;
        return document_check_key(innermost(b), text, b->key_line, b->key_column, b->fault);
    }
    struct document_node *n = new_node(b, e);
    n->type = DOCUMENT_STRING;
    n->text = text;
    bool plain = !token || fy_token_scalar_style(token) == FYSS_PLAIN;
    if (plain && !resolve_plain(b, e, n))
        return false;
    /* "---" before a document and after the last one is not a document of its own. */
    if (plain && text.len == 0 && b->depth == 0)
        return true;
    return put(b, n);
}

static bool open_collection(struct builder *b, struct fy_event *e, enum document_type type)
{
    if (wants_key(b))
        return refuse_here(b, e, ERR_BAD_TYPE, "text as the name of a field",
                           type == DOCUMENT_MAP ? "a mapping" : "a list");
    struct document_node *n = new_node(b, e);
    n->type = type;
    if (!put(b, n))
        return false;
    if (b->depth == DOCUMENT_DEPTH_MAX)
        return document_refuse(b->fault, ERR_TOO_DEEP, n->line, n->column,
                               "at most %d levels of nesting", DOCUMENT_DEPTH_MAX);
    b->open[b->depth++] = n;
    b->has_key = false;
    return true;
}

static bool close_collection(struct builder *b)
{
    must(b->depth > 0);
    b->depth--;
    b->has_key = false;
    return true;
}

static bool add_event(struct builder *b, struct fy_event *e)
{
    if (++b->parts > PARTS_MAX)
        return refuse_here(b, e, ERR_TOO_MANY, "a text with fewer parts", "");
    if (e->type == FYET_ALIAS || fy_event_get_anchor_token(e))
        return refuse_here(b, e, ERR_BAD_VALUE, "no anchors and no aliases (& and *)", "");
    if (fy_event_get_tag_token(e))
        return refuse_here(b, e, ERR_BAD_VALUE, "no tags (!)", "");
    switch (e->type) {
    case FYET_SCALAR:
        return add_scalar(b, e);
    case FYET_MAPPING_START:
        return open_collection(b, e, DOCUMENT_MAP);
    case FYET_SEQUENCE_START:
        return open_collection(b, e, DOCUMENT_LIST);
    case FYET_MAPPING_END:
    case FYET_SEQUENCE_END:
        return close_collection(b);
    default:
        return true;
    }
}

/* --- the parser --- */

static void say_nothing(struct fy_diag *diag, void *user, const char *text, size_t len)
{
    (void)diag;
    (void)user;
    (void)text;
    (void)len;
}

static bool refuse_syntax(struct builder *b, struct fy_diag *diag)
{
    void *iter = NULL;
    struct fy_diag_error *e = fy_diag_errors_iterate(diag, &iter);
    uint32_t line = e && e->line >= 0 ? (uint32_t)e->line : 0;
    uint32_t column = e && e->column >= 0 ? (uint32_t)e->column : 0;
    return document_refuse(b->fault, ERR_BAD_VALUE, line, column, "valid YAML (%s)",
                           e && e->msg ? e->msg : "the parser does not say what is wrong");
}

static bool build(struct builder *b, struct fy_parser *parser, struct fy_diag *diag)
{
    struct fy_event *e;
    while ((e = fy_parser_parse(parser))) {
        bool good = add_event(b, e);
        fy_parser_event_free(parser, e);
        if (!good)
            return false;
    }
    return fy_parser_get_stream_error(parser) || fy_diag_got_error(diag) ? refuse_syntax(b, diag)
                                                                         : true;
}

bool document_read_yaml(struct str text, struct arena *a, struct document_list *out,
                        struct document_fault *fault)
{
    if (text.len == 0)
        return true;
    struct fy_diag_cfg diag_cfg;
    fy_diag_cfg_default(&diag_cfg);
    diag_cfg.fp = NULL;
    diag_cfg.output_fn = say_nothing;
    diag_cfg.colorize = false;
    struct fy_diag *diag = fy_diag_create(&diag_cfg);
    must(diag);
    fy_diag_set_collect_errors(diag, true);
    struct fy_parse_cfg cfg = {.flags = FYPCF_DEFAULT_VERSION_1_2 | FYPCF_JSON_NONE, .diag = diag};
    struct fy_parser *parser = fy_parser_create(&cfg);
    must(parser && fy_parser_set_string(parser, text.at, text.len) == 0);
    struct builder b = {.arena = a, .out = out, .fault = fault};
    bool good = build(&b, parser, diag);
    fy_parser_destroy(parser);
    fy_diag_destroy(diag);
    return good;
}
