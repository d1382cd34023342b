/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/kube_template.h"

#include <stdio.h>

#include "base/buf.h"
#include "base/decimal.h"
#include "base/must.h"

/* While the text is parsed, two characters of Unicode's private use area stand for each pair of
 * braces: to YAML they are letters. Being as many characters as the braces, they leave columns as
 * they are. */
#define OPEN_MARK  "\xee\x80\x80\xee\x80\x80" /* U+E000, twice */
#define CLOSE_MARK "\xee\x80\x81\xee\x80\x81" /* U+E001, twice */
#define WHOLE_MARK "\xee\x80\x82"             /* U+E002: before the name of a hole that is all */
#define MARK_LEN   (sizeof OPEN_MARK - 1)
#define ONE_MARK   (MARK_LEN / 2)

struct kube_template {
    struct document_node *root;
};

/* --- the text --- */

struct place {
    uint32_t line, column;
};

static void move_on(struct place *p, struct str text)
{
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.at[i];
        if (c == '\n')
            *p = (struct place){p->line + 1, 1};
        else if ((c & 0xc0) != 0x80)
            p->column++;
    }
}

static bool is_name_byte(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '.';
}

/* a, a.b, a.b-c: no empty parts. */
static bool is_name(struct str s)
{
    if (s.len == 0 || s.len > KUBE_TEMPLATE_NAME_MAX || s.at[0] == '.' || s.at[s.len - 1] == '.')
        return false;
    for (size_t i = 0; i < s.len; i++)
        if (!is_name_byte(s.at[i]) || (s.at[i] == '.' && s.at[i - 1] == '.'))
            return false;
    return true;
}

static struct str trim(struct str s)
{
    while (s.len && s.at[0] == ' ')
        s = (struct str){s.at + 1, s.len - 1};
    while (s.len && s.at[s.len - 1] == ' ')
        s.len--;
    return s;
}

static bool refuse(struct document_fault *fault, struct place at, const char *expected,
                   struct str found)
{
    document_refuse(fault, ERR_BAD_VALUE, at.line, at.column, "%s", expected);
    document_quote(fault->found, sizeof fault->found, found);
    return false;
}

static const char *find(struct str in, const char *what, size_t len)
{
    return in.at ? memmem(in.at, in.len, what, len) : NULL;
}

static struct str after(struct str s, const char *at)
{
    return (struct str){at, s.len - (size_t)(at - s.at)};
}

/* Replaces the braces by marks. */
static bool mark(struct str text, struct buf *b, struct document_fault *fault)
{
    struct place at = {1, 1};
    while (text.len) {
        const char *open = find(text, "{{", 2);
        size_t before = open ? (size_t)(open - text.at) : text.len;
        buf_add(b, text.at, before);
        move_on(&at, (struct str){text.at, before});
        if (!open)
            return true;
        text = after(text, open + 2);
        const char *close = find(text, "}}", 2);
        struct str inner = {text.at, close ? (size_t)(close - text.at) : 0};
        if (!close || !is_name(trim(inner)))
            return refuse(fault, at, "a name between {{ and }}, as in {{image}} or {{mail.to}}",
                          close ? inner : (struct str){text.at, text.len < 20 ? text.len : 20});
        buf_lit(b, OPEN_MARK);
        buf_str(b, inner);
        buf_lit(b, CLOSE_MARK);
        move_on(&at, (struct str){open, inner.len + 4});
        text = after(text, close + 2);
    }
    return true;
}

/* --- the tree with its holes --- */

static bool has_hole(struct str s)
{
    return find(s, OPEN_MARK, MARK_LEN) != NULL;
}

/* The next hole of a scalar: what is before it, its name, and what is left after it. False if there
 * is none, or none that is complete: an escape sequence may stand for a mark. */
static bool next_hole(struct str *rest, struct str *before, struct str *name)
{
    const char *open = find(*rest, OPEN_MARK, MARK_LEN);
    if (!open)
        return false;
    struct str inner = after(*rest, open + MARK_LEN);
    const char *close = find(inner, CLOSE_MARK, MARK_LEN);
    if (!close)
        return false;
    *before = (struct str){rest->at, (size_t)(open - rest->at)};
    *name = trim((struct str){inner.at, (size_t)(close - inner.at)});
    *rest = after(inner, close + MARK_LEN);
    return is_name(*name);
}

/* Goes through the tree in the order of the text. */
struct walk {
    struct str text; /* as given, from `at` on */
    struct place at;
    struct arena *arena;
    struct document_fault *fault;
};

/* The character at which a scalar begins. */
static char first_byte(struct walk *w, const struct document_node *n)
{
    size_t i = 0;
    while (i < w->text.len && (w->at.line < n->line || (w->at.line == n->line && //
                                                        w->at.column < n->column)))
        move_on(&w->at, (struct str){w->text.at + i++, 1});
    w->text = (struct str){w->text.at + i, w->text.len - i};
    return w->text.len ? w->text.at[0] : '\0';
}

static bool refuse_mark(struct walk *w, const struct document_node *n)
{
    return refuse(w->fault, (struct place){n->line, n->column},
                  "a text without the characters U+E000 to U+E002", (struct str){0});
}

/* A scalar that is one hole and nothing else, and not in quotes, is only its name from then on, and
 * a WHOLE_MARK. */
static bool prepare_scalar(struct walk *w, struct document_node *n)
{
    struct str rest = n->text, before, name;
    size_t holes = 0;
    char first = first_byte(w, n);
    if (n->type != DOCUMENT_STRING)
        return true;
    if (find(n->text, WHOLE_MARK, ONE_MARK))
        return refuse_mark(w, n);
    while (has_hole(rest)) {
        if (!next_hole(&rest, &before, &name))
            return refuse_mark(w, n);
        holes++;
        if (first != '{' || holes > 1 || before.len || rest.len)
            continue;
        struct buf b = {0};
        buf_lit(&b, WHOLE_MARK);
        buf_str(&b, name);
        n->text = arena_copy(w->arena, buf_view(&b));
        buf_fini(&b);
        return true;
    }
    return true;
}

static bool prepare(struct walk *w, struct document_node *n)
{
    if (n->type != DOCUMENT_LIST && n->type != DOCUMENT_MAP)
        return prepare_scalar(w, n);
    for (struct document_node *c = n->first; c; c = c->next) {
        if (has_hole(c->key))
            return refuse(w->fault, (struct place){c->key_line, c->key_column},
                          "a key without {{ }}: only values are filled in", (struct str){0});
        if (!prepare(w, c))
            return false;
    }
    return true;
}

bool kube_template_read(struct str text, struct arena *a, struct kube_template **out,
                        struct document_fault *fault)
{
    struct buf marked = {0};
    struct document_list list;
    const struct document_node *root = NULL;
    if (find(text, OPEN_MARK, ONE_MARK) || find(text, CLOSE_MARK, ONE_MARK) ||
        find(text, WHOLE_MARK, ONE_MARK))
        return document_refuse(fault, ERR_BAD_VALUE, 0, 0,
                               "a template without the characters U+E000 to U+E002");
    bool good = mark(text, &marked, fault) &&
                document_read(arena_copy(a, buf_view(&marked)), DOCUMENT_YAML, a, &list, fault) &&
                document_only(&list, &root, fault);
    struct walk w = {text, {1, 1}, a, fault};
    good = good && prepare(&w, list.first);
    buf_fini(&marked);
    if (!good)
        return false;
    struct kube_template *t = ARENA_NEW(a, struct kube_template);
    t->root = list.first;
    *out = t;
    return true;
}

const struct document_node *kube_template_root(const struct kube_template *t)
{
    return t->root;
}

/* --- filling --- */

struct filling {
    kube_template_lookup lookup;
    const void *ctx;
    struct arena *arena;
    struct document_fault *fault;
};

static const struct document_node *step(const struct document_node *n, struct str part)
{
    int64_t index;
    const struct document_node *m = n->first;
    if (n->type == DOCUMENT_LIST && decimal_digits(part, 4, &index)) {
        while (m && index-- > 0)
            m = m->next;
        return m;
    }
    if (n->type != DOCUMENT_MAP)
        return NULL;
    while (m && !str_eq(m->key, part))
        m = m->next;
    return m;
}

const struct document_node *kube_template_path(const struct document_node *n, struct str path)
{
    while (n) {
        const char *dot = path.len ? memchr(path.at, '.', path.len) : NULL;
        struct str part = {path.at, dot ? (size_t)(dot - path.at) : path.len};
        const struct document_node *m = step(n, part);
        if (!dot)
            return m;
        n = m;
        path = after(path, dot + 1);
    }
    return NULL;
}

static const struct document_node *value_of(const struct filling *f, const struct document_node *at,
                                            struct str name)
{
    const struct document_node *v = f->lookup(f->ctx, name);
    struct place place = {at->line, at->column};
    char expected[KUBE_TEMPLATE_NAME_MAX + 80];
    if (v && v->type != DOCUMENT_LIST && v->type != DOCUMENT_MAP)
        return v;
    snprintf(expected, sizeof expected,
             v ? "a text, number or boolean for {{%.*s}}" : "a value for {{%.*s}}", STR_ARG(name));
    refuse(f->fault, place, expected,
           !v                         ? STR("none")
           : v->type == DOCUMENT_LIST ? STR("a list")
                                      : STR("an object"));
    return NULL;
}

static bool fill_text(const struct filling *f, const struct document_node *n,
                      struct document_node *to)
{
    struct str rest = n->text, before, name;
    struct buf b = {0};
    while (next_hole(&rest, &before, &name)) {
        const struct document_node *v = value_of(f, n, name);
        if (!v) {
            buf_fini(&b);
            return false;
        }
        buf_str(&b, before);
        if (v->type != DOCUMENT_NULL)
            buf_str(&b, v->text);
    }
    buf_str(&b, rest);
    to->text = arena_copy(f->arena, buf_view(&b));
    buf_fini(&b);
    return true;
}

static bool fill_scalar(const struct filling *f, const struct document_node *n,
                        struct document_node *to)
{
    const size_t mark = sizeof WHOLE_MARK - 1;
    if (n->type != DOCUMENT_STRING)
        return true;
    if (n->text.len < mark || memcmp(n->text.at, WHOLE_MARK, mark) != 0)
        return !has_hole(n->text) || fill_text(f, n, to);
    const struct document_node *v =
        value_of(f, n, (struct str){n->text.at + mark, n->text.len - mark});
    if (!v)
        return false;
    to->type = v->type;
    to->text = v->text;
    return true;
}

/* At most DOCUMENT_DEPTH_MAX deep, as the reader has seen to. */
static struct document_node *fill(const struct filling *f, const struct document_node *n)
{
    struct document_node *to = ARENA_NEW(f->arena, struct document_node);
    *to = *n;
    to->next = NULL;
    if (n->type != DOCUMENT_LIST && n->type != DOCUMENT_MAP)
        return fill_scalar(f, n, to) ? to : NULL;
    to->first = to->last = NULL;
    to->count = 0;
    for (const struct document_node *c = n->first; c; c = c->next) {
        struct document_node *child = fill(f, c);
        if (!child)
            return NULL;
        document_attach(to, child);
    }
    return to;
}

bool kube_template_fill(const struct kube_template *t, kube_template_lookup lookup, const void *ctx,
                        struct arena *a, struct document_node **out, struct document_fault *fault)
{
    struct filling f = {lookup, ctx, a, fault};
    *out = fill(&f, t->root);
    return *out != NULL;
}
