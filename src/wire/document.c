/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/document.h"

#include <errno.h>
#include <float.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/array.h"
#include "base/json.h"
#include "base/must.h"
#include "base/utf8.h"
#include "wire/document_internal.h"

/* --- faults --- */

void document_quote(char *to, size_t size, struct str text)
{
    size_t n = 0;
    for (size_t i = 0; i < text.len && n + 1 < size; i++) {
        unsigned char c = (unsigned char)text.at[i];
        to[n++] = (char)(c < 0x20 || c == 0x7f ? ' ' : c);
    }
    n = utf8_check((struct str){to, n});
    to[n] = '\0';
}

bool document_refuse(struct document_fault *fault, enum err_code code, uint32_t line,
                     uint32_t column, const char *expected, ...)
{
    *fault = (struct document_fault){.code = code, .line = line, .column = column};
    char words[sizeof fault->expected];
    va_list ap;
    va_start(ap, expected);
    vsnprintf(words, sizeof words, expected, ap);
    va_end(ap);
    document_quote(fault->expected, sizeof fault->expected, str_from(words));
    return false;
}

static void write_place(const struct document_fault *f, struct buf *b)
{
    if (f->line)
        buf_print(b, "line %u, column %u: ", f->line, f->column);
    if (f->path[0])
        buf_print(b, "%s: ", f->path);
}

/* The first `most` bytes of it, or fewer if a character would be split. */
static void write_start(struct buf *b, struct str text, size_t most)
{
    if (text.len <= most) {
        buf_str(b, text);
        return;
    }
    size_t n = most > 3 ? most - 3 : 0;
    while (n && ((unsigned char)text.at[n] & 0xc0) == 0x80)
        n--;
    buf_str(b, (struct str){text.at, n});
    buf_lit(b, "...");
}

static void write_fault(const struct document_fault *f, size_t expected_most, size_t found_most,
                        struct buf *b)
{
    write_place(f, b);
    buf_lit(b, "expected ");
    write_start(b, str_from(f->expected), expected_most);
    if (!f->found[0])
        return;
    buf_lit(b, ", found ");
    write_start(b, str_from(f->found), found_most);
}

void document_fault_write(const struct document_fault *f, struct buf *b)
{
    write_fault(f, sizeof f->expected, sizeof f->found, b);
}

#define FOUND_LEAST 40 /* of what was found, when there is no room for all */

struct err document_fault_in(const char *file, const struct document_fault *f)
{
    char cut[sizeof((struct err *)0)->msg];
    const size_t words = sizeof "expected , found ";
    size_t expected = strlen(f->expected), found = strlen(f->found);
    struct buf b = {0};
    if (file)
        buf_print(&b, "%s: ", file);
    size_t before = b.len;
    write_place(f, &b);
    size_t used = b.len + words, room = used < sizeof cut ? sizeof cut - used : 0;
    b.len = before;
    size_t kept = found < FOUND_LEAST ? found : FOUND_LEAST;
    if (expected + kept > room)
        expected = room > kept ? room - kept : 0;
    write_fault(f, expected, room - expected, &b);
    document_quote(cut, sizeof cut, buf_view(&b));
    buf_fini(&b);
    return err_make(f->code, "%s", cut);
}

struct err document_fault_err(const struct document_fault *f)
{
    return document_fault_in(NULL, f);
}

/* --- reading --- */

bool document_is_number(struct str text)
{
    struct json_cursor c = json_open(text);
    double v;
    return json_read_double(&c, -DBL_MAX, DBL_MAX, &v).code == ERR_OK &&
           json_close(&c).code == ERR_OK;
}

static void link_child(struct document_node *to, struct document_node *child)
{
    if (to->last)
        to->last->next = child;
    else
        to->first = child;
    to->last = child;
    to->count++;
}

bool document_append(struct document_node *parent, struct document_node *child,
                     struct document_fault *fault)
{
    bool map = parent->type == DOCUMENT_MAP;
    size_t most = map ? DOCUMENT_MEMBERS_MAX : DOCUMENT_ENTRIES_MAX;
    if (parent->count >= most)
        return document_refuse(fault, ERR_TOO_MANY, child->line, child->column,
                               "at most %zu entries in a %s", most, map ? "mapping" : "list");
    link_child(parent, child);
    return true;
}

bool document_check_key(const struct document_node *map, struct str key, uint32_t line,
                        uint32_t column, struct document_fault *fault)
{
    for (const struct document_node *n = map->first; n; n = n->next) {
        if (!str_eq(n->key, key))
            continue;
        document_refuse(fault, ERR_DUPLICATE_FIELD, line, column,
                        "every field once; this one is on line %u already", n->key_line);
        document_quote(fault->path, sizeof fault->path, key);
        return false;
    }
    return true;
}

bool document_append_root(struct document_list *list, struct document_node *root,
                          struct document_fault *fault)
{
    if (list->count >= DOCUMENT_COUNT_MAX)
        return document_refuse(fault, ERR_TOO_MANY, root->line, root->column,
                               "at most %d documents", DOCUMENT_COUNT_MAX);
    if (list->last)
        list->last->next = root;
    else
        list->first = root;
    list->last = root;
    list->count++;
    return true;
}

static bool check_text(struct str text, struct document_fault *fault)
{
    if (text.len > DOCUMENT_TEXT_MAX) {
        document_refuse(fault, ERR_LENGTH, 0, 0, "at most %zu bytes", DOCUMENT_TEXT_MAX);
        snprintf(fault->found, sizeof fault->found, "%zu", text.len);
        return false;
    }
    size_t good = utf8_check(text);
    const char *zero = good ? memchr(text.at, '\0', good) : NULL;
    size_t bad = zero ? (size_t)(zero - text.at) : good;
    if (bad == text.len)
        return true;
    uint32_t line = 1, column = 1;
    for (size_t i = 0; i < bad; i++) {
        if (text.at[i] == '\n') {
            line++;
            column = 1;
        } else if (((unsigned char)text.at[i] & 0xc0) != 0x80) {
            column++;
        }
    }
    document_refuse(fault, ERR_BAD_UTF8, line, column, "text in UTF-8 without zero bytes");
    snprintf(fault->found, sizeof fault->found, "the byte 0x%02x", (unsigned char)text.at[bad]);
    return false;
}

static bool looks_like_json(struct str text)
{
    size_t i = 0;
    while (i < text.len && memchr(" \t\r\n", text.at[i], 4))
        i++;
    if (i == text.len || text.at[i] != '{')
        return false;
    struct json_cursor c = json_open(text);
    return json_skip(&c, NULL).code == ERR_OK && json_close(&c).code == ERR_OK;
}

bool document_read(struct str text, enum document_format format, struct arena *a,
                   struct document_list *out, struct document_fault *fault)
{
    *out = (struct document_list){0};
    if (!check_text(text, fault))
        return false;
    if (format == DOCUMENT_ANY)
        format = looks_like_json(text) ? DOCUMENT_JSON : DOCUMENT_YAML;
    return format == DOCUMENT_JSON ? document_read_json(text, a, out, fault)
                                   : document_read_yaml(text, a, out, fault);
}

bool document_only(const struct document_list *list, const struct document_node **root,
                   struct document_fault *fault)
{
    *root = list->first;
    if (list->count == 1)
        return true;
    if (list->count == 0) {
        document_refuse(fault, ERR_BAD_VALUE, 0, 0, "one document");
        snprintf(fault->found, sizeof fault->found, "none");
        return false;
    }
    const struct document_node *second = list->first->next;
    document_refuse(fault, ERR_TOO_MANY, second->line, second->column, "one document");
    snprintf(fault->found, sizeof fault->found, "%zu", list->count);
    return false;
}

const struct document_node *document_member(const struct document_node *map, const char *key)
{
    if (map->type != DOCUMENT_MAP)
        return NULL;
    for (const struct document_node *n = map->first; n; n = n->next)
        if (str_eq(n->key, str_from(key)))
            return n;
    return NULL;
}

struct str document_text(const struct document_node *map, const char *key)
{
    const struct document_node *n = document_member(map, key);
    return n && n->type == DOCUMENT_STRING ? n->text : STR("");
}

/* --- building --- */

static struct document_node *make(struct arena *a, enum document_type type, struct str text)
{
    struct document_node *n = ARENA_NEW(a, struct document_node);
    n->type = type;
    n->text = text;
    return n;
}

struct document_node *document_map(struct arena *a)
{
    return make(a, DOCUMENT_MAP, STR(""));
}

struct document_node *document_list(struct arena *a)
{
    return make(a, DOCUMENT_LIST, STR(""));
}

struct document_node *document_string(struct arena *a, struct str text)
{
    return make(a, DOCUMENT_STRING, text);
}

struct document_node *document_null(struct arena *a)
{
    return make(a, DOCUMENT_NULL, STR(""));
}

struct document_node *document_bool(struct arena *a, bool v)
{
    return make(a, DOCUMENT_BOOL, v ? STR("true") : STR("false"));
}

static struct document_node *number(struct arena *a, struct buf *text)
{
    struct document_node *n = make(a, DOCUMENT_NUMBER, arena_copy(a, buf_view(text)));
    buf_fini(text);
    return n;
}

struct document_node *document_int(struct arena *a, int64_t v)
{
    struct buf text = {0};
    buf_int(&text, v);
    return number(a, &text);
}

struct document_node *document_double(struct arena *a, double v)
{
    struct buf text = {0};
    json_write_double(&text, v);
    return number(a, &text);
}

struct document_node *document_add(struct document_node *to, const char *key,
                                   struct document_node *child)
{
    must(to->type == DOCUMENT_MAP || to->type == DOCUMENT_LIST);
    child->key = str_from(key);
    link_child(to, child);
    return child;
}

void document_attach(struct document_node *to, struct document_node *child)
{
    must(to->type == DOCUMENT_MAP || to->type == DOCUMENT_LIST);
    child->next = NULL;
    link_child(to, child);
}

struct document_node *document_set(struct document_node *map, const char *key,
                                   struct document_node *child)
{
    must(map->type == DOCUMENT_MAP);
    struct document_node **at = &map->first;
    while (*at && !str_eq((*at)->key, str_from(key)))
        at = &(*at)->next;
    if (!*at)
        return document_add(map, key, child);
    child->key = (*at)->key;
    child->next = (*at)->next;
    if (map->last == *at)
        map->last = child;
    return *at = child;
}

/* --- writing --- */

static void write_scalar_json(const struct document_node *n, struct buf *b)
{
    if (n->type == DOCUMENT_STRING)
        json_write_string(b, n->text);
    else if (n->type == DOCUMENT_NULL)
        buf_lit(b, "null");
    else
        buf_str(b, n->text);
}

/* The tree is at most DOCUMENT_DEPTH_MAX deep. */
void document_write_json(const struct document_node *n, struct buf *b)
{
    if (n->type != DOCUMENT_LIST && n->type != DOCUMENT_MAP) {
        write_scalar_json(n, b);
        return;
    }
    bool map = n->type == DOCUMENT_MAP;
    buf_byte(b, map ? '{' : '[');
    for (const struct document_node *c = n->first; c; c = c->next) {
        if (c != n->first)
            buf_lit(b, ", ");
        if (map) {
            json_write_string(b, c->key);
            buf_lit(b, ": ");
        }
        document_write_json(c, b);
    }
    buf_byte(b, map ? '}' : ']');
}

/* Words that some reader of YAML, including 1.1, takes for something other than text. */
static bool is_reserved_word(struct str s)
{
    static const char *const words[] = {"y",    "n",     "yes",  "no",  "on", "off",
                                        "true", "false", "null", "nan", "inf"};
    for (size_t i = 0; i < COUNT(words); i++)
        if (s.len == strlen(words[i]) && strncasecmp(s.at, words[i], s.len) == 0)
            return true;
    return false;
}

static bool is_plain(struct str s)
{
    if (s.len == 0 || is_reserved_word(s))
        return false;
    for (size_t i = 0; i < s.len; i++) {
        char c = s.at[i];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        bool digit = c >= '0' && c <= '9';
        if (!letter && !(i > 0 && (digit || c == '_' || c == '-' || c == '.' || c == '/')))
            return false;
    }
    return true;
}

/* A character that YAML requires to be escaped, at s.at: its length, otherwise 0. These are the
 * characters that YAML 1.2 does not count as printable or takes for a line break, beyond those that
 * JSON escapes. */
static size_t unprintable(struct str s, uint32_t *code)
{
    const unsigned char *c = (const unsigned char *)s.at;
    if (c[0] == 0x7f)
        return *code = 0x7f, 1;
    if (s.len >= 2 && c[0] == 0xc2 && c[1] < 0xa0)
        return *code = c[1], 2;
    if (s.len < 3 || (c[0] & 0xf0) != 0xe0)
        return 0;
    *code = (c[0] & 0xfu) << 12 | (c[1] & 0x3fu) << 6 | (c[2] & 0x3fu);
    return *code == 0x2028 || *code == 0x2029 || *code == 0xfeff || *code >= 0xfffe ? 3 : 0;
}

static void write_string_yaml(struct str s, struct buf *b)
{
    if (is_plain(s)) {
        buf_str(b, s);
        return;
    }
    struct buf quoted = {0};
    json_write_string(&quoted, s);
    for (size_t i = 0; i < quoted.len;) {
        uint32_t code;
        size_t n = unprintable((struct str){quoted.at + i, quoted.len - i}, &code);
        if (n)
            buf_print(b, "\\u%04x", code);
        else
            buf_byte(b, quoted.at[i]);
        i += n ? n : 1;
    }
    buf_fini(&quoted);
}

static bool is_scalar(const struct document_node *n)
{
    return n->type != DOCUMENT_LIST && n->type != DOCUMENT_MAP;
}

static void write_scalar_yaml(const struct document_node *n, struct buf *b)
{
    if (n->type == DOCUMENT_STRING)
        write_string_yaml(n->text, b);
    else
        write_scalar_json(n, b);
}

/* A list that is readable on one line, like [137, 143]; also the empty list and mapping. */
static bool is_short(const struct document_node *n)
{
    if (n->count == 0)
        return true;
    if (n->type == DOCUMENT_MAP)
        return false;
    for (const struct document_node *c = n->first; c; c = c->next)
        if (!is_scalar(c))
            return false;
    return true;
}

static void write_short(const struct document_node *n, struct buf *b)
{
    buf_byte(b, n->type == DOCUMENT_MAP ? '{' : '[');
    for (const struct document_node *c = n->first; c; c = c->next) {
        if (c != n->first)
            buf_lit(b, ", ");
        write_scalar_yaml(c, b);
    }
    buf_byte(b, n->type == DOCUMENT_MAP ? '}' : ']');
}

static void indent(unsigned depth, struct buf *b)
{
    for (unsigned i = 0; i < depth; i++)
        buf_lit(b, "  ");
}

/* Whole lines; the first one continues the current line. */
static void write_block(const struct document_node *n, unsigned depth, struct buf *b)
{
    for (const struct document_node *c = n->first; c; c = c->next) {
        if (c != n->first)
            indent(depth, b);
        if (n->type == DOCUMENT_LIST) {
            buf_lit(b, "- ");
        } else {
            write_string_yaml(c->key, b);
            buf_lit(b, ":");
        }
        if (is_scalar(c) || is_short(c)) {
            if (n->type == DOCUMENT_MAP)
                buf_lit(b, " ");
            if (is_scalar(c))
                write_scalar_yaml(c, b);
            else
                write_short(c, b);
            buf_lit(b, "\n");
            continue;
        }
        if (n->type == DOCUMENT_MAP) {
            buf_lit(b, "\n");
            indent(depth + 1, b);
        }
        write_block(c, depth + 1, b);
    }
}

void document_write_yaml(const struct document_node *n, struct buf *b)
{
    if (!is_scalar(n) && !is_short(n)) {
        write_block(n, 0, b);
        return;
    }
    if (is_scalar(n))
        write_scalar_yaml(n, b);
    else
        write_short(n, b);
    buf_lit(b, "\n");
}

struct err document_load(const char *file, struct buf *text)
{
    FILE *in = fopen(file, "re");
    size_t n = 0;
    if (in) {
        do {
            n = fread(buf_room(text, 16384), 1, 16384, in);
            text->len += n;
        } while (n && text->len <= DOCUMENT_TEXT_MAX);
    }
    bool good = in && !ferror(in);
    int why = errno;
    if (in)
        fclose(in);
    return good ? err_none() : err_make(ERR_USAGE, "cannot read %s: %s", file, strerror(why));
}
