/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/kube_blocks.h"

#include <stdio.h>

#include "base/array.h"
#include "base/buf.h"
#include "base/must.h"

enum kind { TEXT, HOLE, IF, UNLESS, EACH };

struct piece {
    enum kind kind;
    uint32_t line, column;
    struct str text; /* of the template; HOLE and blocks: the name */
    struct piece *body, *otherwise;
    struct piece *next;
};

struct kube_blocks {
    struct piece *first;
};

/* --- reading --- */

static bool starts(struct str s, const char *with)
{
    size_t n = strlen(with);
    return s.len >= n && memcmp(s.at, with, n) == 0;
}

static struct str skip(struct str s, size_t n)
{
    return (struct str){s.at + n, s.len - n};
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

static struct str trim(struct str s)
{
    while (s.len && is_blank(s.at[0]))
        s = skip(s, 1);
    while (s.len && is_blank(s.at[s.len - 1]))
        s.len--;
    return s;
}

struct reader {
    struct str text;
    size_t pos;
    uint32_t line, column;
    struct arena *arena;
    struct document_fault *fault;
};

static void move_to(struct reader *r, size_t pos)
{
    for (; r->pos < pos; r->pos++) {
        unsigned char c = (unsigned char)r->text.at[r->pos];
        if (c == '\n') {
            r->line++;
            r->column = 1;
        } else if ((c & 0xc0) != 0x80) {
            r->column++;
        }
    }
}

static bool refuse(struct reader *r, const char *expected, struct str found)
{
    document_refuse(r->fault, ERR_BAD_VALUE, r->line, r->column, "%s", expected);
    document_quote(r->fault->found, sizeof r->fault->found, found);
    return false;
}

static struct piece *new_piece(struct reader *r, enum kind kind, struct str text)
{
    struct piece *p = ARENA_NEW(r->arena, struct piece);
    p->kind = kind;
    p->line = r->line;
    p->column = r->column;
    p->text = text;
    return p;
}

/* A tag, from the position of the reader on. */
struct tag {
    size_t end;       /* behind the braces */
    struct str inner; /* between them, trimmed */
};

static bool read_tag(struct reader *r, struct tag *t)
{
    struct str rest = skip(r->text, r->pos);
    bool dashed = starts(rest, "{{!--");
    const char *close = memmem(rest.at, rest.len, dashed ? "--}}" : "}}", dashed ? 4 : 2);
    if (!close)
        return refuse(r, dashed ? "--}} to end the comment" : "}} to end what {{ begins",
                      (struct str){rest.at, rest.len < 20 ? rest.len : 20});
    size_t inner = (size_t)(close - rest.at);
    t->inner = trim((struct str){rest.at + 2, inner - 2});
    t->end = r->pos + inner + (dashed ? 4 : 2);
    return true;
}

/* If a tag stands alone on its line: where the line begins, and where the next one does. */
static bool alone(struct str text, size_t begin, size_t end, size_t *line, size_t *next)
{
    while (begin > 0 && is_blank(text.at[begin - 1]))
        begin--;
    while (end < text.len && is_blank(text.at[end]))
        end++;
    if ((begin > 0 && text.at[begin - 1] != '\n') || (end < text.len && text.at[end] != '\n'))
        return false;
    *line = begin;
    *next = end < text.len ? end + 1 : end;
    return true;
}

static bool name_fits(struct str name)
{
    bool letter = false;
    for (size_t i = 0; i < name.len; i++) {
        char c = name.at[i];
        bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                     c == '_' || c == '-';
        letter = letter || plain;
        if (!plain && (c != '.' || i == 0 || name.at[i - 1] == '.' || i + 1 == name.len))
            return false;
    }
    return letter && name.len <= KUBE_TEMPLATE_NAME_MAX;
}

/* With what may stand before a name. */
static bool is_name(struct str name)
{
    if (starts(name, "@root."))
        return name_fits(skip(name, 6));
    while (starts(name, "../"))
        name = skip(name, 3);
    return name_fits(name);
}

static bool read_pieces(struct reader *r, unsigned depth, struct piece **first, struct tag *ended);

static const struct {
    const char *open, *close;
    enum kind kind;
} blocks[] = {{"#if ", "/if", IF}, {"#unless ", "/unless", UNLESS}, {"#each ", "/each", EACH}};

/* After a tag that is no part of the text. */
static void pass(struct reader *r, const struct tag *t)
{
    size_t line, next = t->end;
    if (!alone(r->text, r->pos, t->end, &line, &next))
        next = t->end;
    move_to(r, next);
}

static bool read_block(struct reader *r, const struct tag *open, unsigned depth, struct piece **out)
{
    struct tag end;
    struct piece *p;
    size_t i = 0;
    while (i < COUNT(blocks) && !starts(open->inner, blocks[i].open))
        i++;
    if (i == COUNT(blocks))
        return refuse(r, "{{#if NAME}}, {{#unless NAME}} or {{#each NAME}}", open->inner);
    if (depth == KUBE_BLOCKS_DEPTH_MAX)
        return refuse(r, "blocks nested at most 16 deep", (struct str){0});
    *out = p = new_piece(r, blocks[i].kind, trim(skip(open->inner, strlen(blocks[i].open))));
    if (!is_name(p->text))
        return refuse(r, "one name, and no helper, in a block", open->inner);
    struct reader at = *r;
    pass(r, open);
    if (!read_pieces(r, depth + 1, &p->body, &end))
        return false;
    if (str_eq(end.inner, STR("else"))) {
        pass(r, &end);
        if (!read_pieces(r, depth + 1, &p->otherwise, &end))
            return false;
    }
    if (end.inner.len == 0)
        return refuse(&at, "an end to this block", open->inner);
    if (!str_eq(end.inner, str_from(blocks[i].close)))
        return refuse(r, "the end of the block before", end.inner);
    pass(r, &end);
    return true;
}

static struct piece **add_text(struct reader *r, size_t end, struct piece **last)
{
    if (end <= r->pos)
        return last;
    *last = new_piece(r, TEXT, (struct str){r->text.at + r->pos, end - r->pos});
    move_to(r, end);
    return &(*last)->next;
}

/* Up to the end of the text, or to a tag that ends what is being read, which is not passed. */
static bool read_pieces(struct reader *r, unsigned depth, struct piece **first, struct tag *ended)
{
    struct piece **last = first;
    *ended = (struct tag){0};
    for (;;) {
        struct str rest = skip(r->text, r->pos);
        const char *open = rest.len ? memmem(rest.at, rest.len, "{{", 2) : NULL;
        size_t begin = open ? (size_t)(open - r->text.at) : r->text.len, line, next;
        struct reader there = *r;
        struct tag t;
        move_to(&there, begin);
        if (!open) {
            add_text(r, begin, last);
            return true;
        }
        if (!read_tag(&there, &t))
            return false;
        bool hole = is_name(t.inner) && !str_eq(t.inner, STR("else"));
        bool whole = !hole && alone(r->text, begin, t.end, &line, &next);
        last = add_text(r, whole ? line : begin, last);
        move_to(r, begin);
        if (hole) {
            *last = new_piece(r, HOLE, t.inner);
            last = &(*last)->next;
            move_to(r, t.end);
        } else if (starts(t.inner, "!")) {
            pass(r, &t);
        } else if (starts(t.inner, "#")) {
            if (!read_block(r, &t, depth, last))
                return false;
            last = &(*last)->next;
        } else if (depth && (starts(t.inner, "/") || str_eq(t.inner, STR("else")))) {
            *ended = t;
            return true;
        } else {
            return refuse(r,
                          "a name between {{ and }}, as in {{image}}, or a block that begins with "
                          "#if, #unless or #each",
                          t.inner);
        }
    }
}

bool kube_blocks_read(struct str text, struct arena *a, struct kube_blocks **out,
                      struct document_fault *fault)
{
    struct reader r = {text, 0, 1, 1, a, fault};
    struct tag end;
    *out = ARENA_NEW(a, struct kube_blocks);
    return read_pieces(&r, 0, &(*out)->first, &end);
}

/* --- expanding --- */

/* What names are looked up in: an item of a list. */
struct scope {
    const struct scope *outer;
    struct str prefix; /* "mounts.0"; empty: everything */
};

struct writer {
    kube_template_lookup lookup;
    const void *ctx;
    struct arena *arena;
    struct document_fault *fault;
    struct buf text;
    uint32_t *lines;
    size_t count, cap;
    size_t steps;
};

/* Pieces written, empty ones included: lists within lists multiply. */
#define STEPS_MAX 200000

static void add_line(struct writer *w, uint32_t line)
{
    ARENA_GROW(w->arena, w->lines, w->count, w->cap, 256);
    w->lines[w->count++] = line;
}

static void write_text(struct writer *w, const struct piece *p)
{
    const char *at = p->text.at, *end = at + p->text.len;
    uint32_t line = p->line;
    if (w->text.len == 0 || w->text.at[w->text.len - 1] == '\n')
        w->lines[w->count - 1] = line;
    buf_str(&w->text, p->text);
    while (at < end && (at = memchr(at, '\n', (size_t)(end - at)))) {
        add_line(w, ++line);
        at++;
    }
}

static bool complain(struct writer *w, const struct piece *p, const char *expected,
                     const char *found)
{
    document_refuse(w->fault, ERR_BAD_VALUE, p->line, p->column, expected, STR_ARG(p->text));
    document_quote(w->fault->found, sizeof w->fault->found, str_from(found));
    return false;
}

/* The name as a lookup knows it. */
static struct str resolve(struct writer *w, const struct scope *s, struct str name)
{
    struct buf b = {0};
    if (starts(name, "@root.")) {
        s = NULL;
        name = skip(name, 6);
    }
    while (starts(name, "../")) {
        s = s ? s->outer : NULL;
        name = skip(name, 3);
    }
    if (str_eq(name, STR("this")))
        name = (struct str){0};
    else if (starts(name, "this."))
        name = skip(name, 5);
    if (!s)
        return name;
    buf_str(&b, s->prefix);
    if (name.len)
        buf_byte(&b, '.');
    buf_str(&b, name);
    name = arena_copy(w->arena, buf_view(&b));
    buf_fini(&b);
    return name;
}

static bool is_something(const struct document_node *n)
{
    switch (n->type) {
    case DOCUMENT_NULL:
        return false;
    case DOCUMENT_BOOL:
        return str_eq(n->text, STR("true"));
    case DOCUMENT_NUMBER:
        /* Zero however it is spelled: 0, -0, 0.00, 0e5. */
        for (size_t i = 0; i < n->text.len && n->text.at[i] != 'e' && n->text.at[i] != 'E'; i++)
            if (n->text.at[i] >= '1' && n->text.at[i] <= '9')
                return true;
        return false;
    case DOCUMENT_STRING:
        return n->text.len > 0;
    case DOCUMENT_LIST:
    case DOCUMENT_MAP:
        return n->count > 0;
    }
    return false;
}

static bool write_pieces(struct writer *w, const struct piece *p, const struct scope *s);

static bool write_each(struct writer *w, const struct piece *p, const struct scope *s,
                       struct str path, const struct document_node *n)
{
    if (!is_something(n))
        return write_pieces(w, p->otherwise, s);
    if (n->type != DOCUMENT_LIST)
        return complain(w, p, "a list for {{#each %.*s}}",
                        n->type == DOCUMENT_MAP ? "an object" : "one value");
    for (size_t i = 0; i < n->count; i++) {
        struct buf b = {0};
        buf_str(&b, path);
        buf_print(&b, ".%zu", i);
        struct scope inner = {s, arena_copy(w->arena, buf_view(&b))};
        buf_fini(&b);
        if (!write_pieces(w, p->body, &inner))
            return false;
    }
    return true;
}

static bool write_block(struct writer *w, const struct piece *p, const struct scope *s)
{
    struct str path = resolve(w, s, p->text);
    const struct document_node *n = path.len ? w->lookup(w->ctx, path) : NULL;
    if (!n)
        return complain(w, p, "a value for %.*s", "none");
    if (p->kind == EACH)
        return write_each(w, p, s, path, n);
    return write_pieces(w, is_something(n) == (p->kind == IF) ? p->body : p->otherwise, s);
}

/* As deep as the blocks are nested. */
static bool write_pieces(struct writer *w, const struct piece *p, const struct scope *s)
{
    for (; p; p = p->next) {
        if (w->text.len > DOCUMENT_TEXT_MAX || ++w->steps > STEPS_MAX)
            return complain(w, p, "a text of at most 1 MiB before %.*s", "more");
        if (p->kind == TEXT) {
            write_text(w, p);
        } else if (p->kind == HOLE) {
            buf_lit(&w->text, "{{");
            buf_str(&w->text, resolve(w, s, p->text));
            buf_lit(&w->text, "}}");
        } else if (!write_block(w, p, s)) {
            return false;
        }
    }
    return true;
}

bool kube_blocks_expand(const struct kube_blocks *b, kube_template_lookup lookup, const void *ctx,
                        struct arena *a, struct kube_expansion *out, struct document_fault *fault)
{
    struct writer w = {.lookup = lookup, .ctx = ctx, .arena = a, .fault = fault};
    add_line(&w, 1);
    bool good = write_pieces(&w, b->first, NULL);
    *out = (struct kube_expansion){arena_copy(a, buf_view(&w.text)), w.lines, w.count};
    buf_fini(&w.text);
    return good;
}

void kube_blocks_place(const struct kube_expansion *e, struct document_fault *fault)
{
    if (fault->line == 0 || fault->line > e->line_count)
        return;
    fault->line = e->lines[fault->line - 1];
}
