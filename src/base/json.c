/* SPDX-License-Identifier: Apache-2.0 */
#include "base/json.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "base/decimal.h"
#include "base/json_internal.h"
#include "base/must.h"
#include "base/utf8.h"

/* The functions named ..._end take the place where something begins and return
 * the place where it ends, or NULL with the fault written down. They keep the
 * position in a register and build no struct err: a message is put together
 * only once, in report(), and only when something is wrong. */
struct fault {
    enum err_code code;
    const char *at;
    const char *expected; /* for ERR_BAD_JSON; what was found is read from the text */
};

static const char *const type_names[] = {
    [JSON_NULL] = "null",       [JSON_BOOL] = "a boolean", [JSON_NUMBER] = "a number",
    [JSON_STRING] = "a string", [JSON_ARRAY] = "an array", [JSON_OBJECT] = "an object",
};

#define NO_VALUE 0
#define IS(type) ((type) + 1)

/* What a value is, by its first byte. */
static const unsigned char value_kinds[256] = {
    ['n'] = IS(JSON_NULL),   ['t'] = IS(JSON_BOOL),   ['f'] = IS(JSON_BOOL),
    ['"'] = IS(JSON_STRING), ['-'] = IS(JSON_NUMBER), ['0' ... '9'] = IS(JSON_NUMBER),
    ['['] = IS(JSON_ARRAY),  ['{'] = IS(JSON_OBJECT),
};

static const bool is_space[256] = {[' '] = true, ['\t'] = true, ['\n'] = true, ['\r'] = true};

/* What may stand after a backslash. */
static const bool is_escape[256] = {
    ['"'] = true, ['\\'] = true, ['/'] = true, ['b'] = true, ['f'] = true,
    ['n'] = true, ['r'] = true,  ['t'] = true, ['u'] = true,
};

static inline bool is_digit(const char *p, const char *end)
{
    return p < end && *p >= '0' && *p <= '9';
}

__attribute__((cold, noinline)) static const char *fail(struct fault *f, enum err_code code,
                                                        const char *at, const char *expected)
{
    *f = (struct fault){code, at, expected};
    return NULL;
}

/* ---- Messages ---- */

/* Names what stands at a place of the text. Never quotes a byte that could make
 * the message itself invalid UTF-8. */
static void describe(char *out, size_t size, const char *at, const char *end)
{
    if (at == end)
        snprintf(out, size, "the end of the text");
    else if (end - at >= 3 && memcmp(at, "\xef\xbb\xbf", 3) == 0)
        snprintf(out, size, "a byte order mark");
    else if (*at == '\'')
        snprintf(out, size, "a single quote");
    else if (*at == '\n' || *at == '\r')
        snprintf(out, size, "a line break");
    else if (json_byte_at(at) < 0x20 || json_byte_at(at) > 0x7e)
        snprintf(out, size, "byte 0x%02x", json_byte_at(at));
    else
        snprintf(out, size, "'%c'", *at);
}

__attribute__((cold, noinline)) static struct err report(struct json_cursor *c,
                                                         const struct fault *f)
{
    int64_t offset = f->at - c->text.at;
    c->pos = (size_t)offset;
    if (f->code == ERR_BAD_UTF8)
        return err_at(ERR_BAD_UTF8, offset, "the text is not valid UTF-8");
    if (f->code == ERR_TOO_DEEP)
        return err_at(ERR_TOO_DEEP, offset, "nested deeper than %d levels", JSON_DEPTH_MAX);
    char found[32];
    describe(found, sizeof found, f->at, c->text.at + c->text.len);
    return err_at(f->code, offset, "expected %s, found %s", f->expected, found);
}

/* ---- Scanning ---- */

static inline const char *space_end(const char *p, const char *end)
{
    /* Between tokens there is mostly nothing, and that must cost next to nothing. */
    if (p < end && json_byte_at(p) > ' ')
        return p;
    while (p < end && is_space[json_byte_at(p)])
        p++;
    return p;
}

/* From the backslash to the end of the escape. */
static const char *escape_end(const char *p, const char *end, struct fault *f)
{
    p++;
    if (p == end || !is_escape[json_byte_at(p)])
        return fail(f, ERR_BAD_JSON, p, "one of \" \\ / b f n r t u after a backslash");
    if (*p++ != 'u')
        return p;
    for (int i = 0; i < 4; i++, p++) {
        if (p == end || !json_is_hex[json_byte_at(p)])
            return fail(f, ERR_BAD_JSON, p, "four hexadecimal digits after \\u");
    }
    return p;
}

/* From the byte after the opening quote to the closing quote. */
static inline const char *string_end(const char *p, const char *end, bool *escaped, struct fault *f)
{
    *escaped = false;
    while (p) {
        p = json_plain_end(p, end);
        if (p == end)
            return fail(f, ERR_BAD_JSON, p, "a double quote at the end of a string");
        if (*p == '"')
            return p;
        if (*p == '\\') {
            *escaped = true;
            p = escape_end(p, end, f);
        } else if (json_byte_at(p) < 0x20) {
            return fail(f, ERR_BAD_JSON, p, "control characters in a string to be escaped");
        } else {
            size_t n = utf8_run((struct str){p, (size_t)(end - p)});
            p = n ? p + n : fail(f, ERR_BAD_UTF8, p, NULL);
        }
    }
    return NULL;
}

static inline const char *digits_end(const char *p, const char *end, struct fault *f,
                                     const char *expected)
{
    if (!is_digit(p, end))
        return fail(f, ERR_BAD_JSON, p, expected);
    do
        p++;
    while (is_digit(p, end));
    return p;
}

static inline const char *number_end(const char *p, const char *end, struct fault *f)
{
    if (*p == '-')
        p++;
    if (p < end && *p == '0') {
        p++;
        if (is_digit(p, end))
            return fail(f, ERR_BAD_JSON, p, "no digit after a leading zero");
    } else if (!(p = digits_end(p, end, f, "a digit after '-'"))) {
        return NULL;
    }
    if (p < end && *p == '.') {
        if (!(p = digits_end(p + 1, end, f, "a digit after the decimal point")))
            return NULL;
    }
    if (p < end && (*p == 'e' || *p == 'E')) {
        p++;
        if (p < end && (*p == '+' || *p == '-'))
            p++;
        p = digits_end(p, end, f, "a digit in the exponent");
    }
    return p;
}

static const char *word_end(const char *p, const char *end, struct fault *f)
{
    const char *word = *p == 't' ? "true" : *p == 'f' ? "false" : "null";
    for (const char *w = word; *w; w++, p++) {
        if (p == end || *p != *w)
            return fail(f, ERR_BAD_JSON, p, word);
    }
    return p;
}

/* Passes a value that is neither an array nor an object. */
static inline const char *scalar_end(const char *p, const char *end, struct fault *f)
{
    unsigned char kind = p < end ? value_kinds[json_byte_at(p)] : NO_VALUE;
    bool escaped;
    switch (kind) {
    case IS(JSON_STRING):
        p = string_end(p + 1, end, &escaped, f);
        return p ? p + 1 : NULL;
    case IS(JSON_NUMBER):
        return number_end(p, end, f);
    case NO_VALUE:
        return fail(f, ERR_BAD_JSON, p, "a value");
    default:
        return word_end(p, end, f);
    }
}

/* From the colon (or what is in its place) to the member's value. */
static inline const char *colon_end(const char *p, const char *end, struct fault *f)
{
    p = space_end(p, end);
    if (p == end || *p != ':')
        return fail(f, ERR_BAD_JSON, p, "':' after a key");
    return space_end(p + 1, end);
}

/* Passes a key and its colon. */
static inline const char *key_end(const char *p, const char *end, const char *expected,
                                  struct fault *f)
{
    if (p == end || *p != '"')
        return fail(f, ERR_BAD_JSON, p, expected);
    bool escaped;
    p = string_end(p + 1, end, &escaped, f);
    return p ? colon_end(p + 1, end, f) : NULL;
}

static const char first_key[] = "a key in double quotes or '}'";
static const char later_key[] = "a key in double quotes after ','";
static const char after_member[] = "',' or '}' after a member";
static const char after_element[] = "',' or ']' after an element";

/* The containers that are open while a value is passed. */
struct nest {
    unsigned depth; /* of these */
    unsigned limit;
    char closer[JSON_DEPTH_MAX]; /* the bracket that each of them ends with */
};

/* From an opening bracket to the first value in it, or, if it is empty, to its
 * closing bracket. */
static inline const char *open_end(const char *p, const char *end, struct nest *n, bool *empty,
                                   struct fault *f)
{
    if (n->depth == n->limit)
        return fail(f, ERR_TOO_DEEP, p, NULL);
    char closer = *p == '{' ? '}' : ']';
    n->closer[n->depth++] = closer;
    p = space_end(p + 1, end);
    *empty = p < end && *p == closer;
    return closer == '}' && !*empty ? key_end(p, end, first_key, f) : p;
}

/* From behind a value through all brackets that close there, to the next value,
 * or, if no container is open any more, to the end of the last bracket. */
static inline const char *close_end(const char *p, const char *end, struct nest *n, struct fault *f)
{
    while (n->depth > 0) {
        char closer = n->closer[n->depth - 1];
        p = space_end(p, end);
        if (p < end && *p == ',') {
            p = space_end(p + 1, end);
            return closer == '}' ? key_end(p, end, later_key, f) : p;
        }
        if (p == end || *p != closer)
            return fail(f, ERR_BAD_JSON, p, closer == '}' ? after_member : after_element);
        p++;
        n->depth--;
    }
    return p;
}

/* Passes the positive whole numbers that stand at p, each with its comma: long arrays hold them,
 * and one value after the other takes three times as long. Stops before anything else. */
static inline const char *wholes_end(const char *p, const char *end)
{
    while (p < end && *p >= '1' && *p <= '9') {
        const char *after = p + 1;
        while (is_digit(after, end))
            after++;
        if (after == end || *after != ',')
            break;
        p = space_end(after + 1, end);
    }
    return p;
}

static const char *value_end(const char *p, const char *end, unsigned depth_left, struct fault *f)
{
    struct nest n;
    n.depth = 0;
    n.limit = depth_left;
    do {
        bool complete = true; /* a value ends at p */
        if (n.depth > 0 && n.closer[n.depth - 1] == ']')
            p = wholes_end(p, end);
        if (p < end && (*p == '{' || *p == '['))
            p = open_end(p, end, &n, &complete, f);
        else
            p = scalar_end(p, end, f);
        if (p && complete)
            p = close_end(p, end, &n, f);
    } while (p && n.depth > 0);
    return p;
}

/* ---- Passing what is known to be valid ---- */

/* The closing quote of a string, from its first byte. Most strings are short. */
static inline const char *quote_after(const char *p, const char *end)
{
    for (const char *near = end - p > 16 ? p + 16 : end; p < near; p++) {
        if (*p == '"')
            return p;
        if (*p == '\\')
            p++;
    }
    for (const char *start = p;; p++) {
        p = p < end ? memchr(p, '"', (size_t)(end - p)) : NULL;
        must(p);
        const char *before = p;
        while (before > start && before[-1] == '\\')
            before--;
        if ((p - before) % 2 == 0)
            return p;
    }
}

/* Passes a container by its quotes and brackets alone. */
static const char *sound_container_end(const char *p, const char *end)
{
    for (unsigned depth = 0;; p++) {
        p = json_mark(p, end);
        must(p < end);
        if (*p == '"')
            p = quote_after(p + 1, end);
        else if (*p == '[' || *p == '{')
            depth++;
        else if (--depth == 0)
            return p + 1;
    }
}

static const char *sound_end(const char *p, const char *end)
{
    if (*p == '[' || *p == '{')
        return sound_container_end(p, end);
    if (*p == '"')
        return quote_after(p + 1, end) + 1;
    while (p < end && *p != ',' && *p != ']' && *p != '}' && !is_space[json_byte_at(p)])
        p++;
    return p;
}

/* ---- The cursor ---- */

static inline const char *text_end(const struct json_cursor *c)
{
    return c->text.at + c->text.len;
}

static inline void move_to(struct json_cursor *c, const char *p)
{
    c->pos = (size_t)(p - c->text.at);
}

/* Passes white space and returns where the cursor is then. */
static inline const char *next_token(struct json_cursor *c)
{
    const char *p = space_end(c->text.at + c->pos, text_end(c));
    move_to(c, p);
    return p;
}

static inline bool at_kind(const char *p, const char *end, enum json_type type)
{
    return p < end && value_kinds[json_byte_at(p)] == IS(type);
}

/* What stands at the cursor is not of the type that was wanted. */
__attribute__((cold, noinline)) static struct err wrong_type(struct json_cursor *c,
                                                             enum json_type wanted)
{
    enum json_type found;
    TRY(json_peek(c, &found));
    return err_at(ERR_BAD_TYPE, (int64_t)c->pos, "expected %s, found %s", type_names[wanted],
                  type_names[found]);
}

struct err json_close(struct json_cursor *c)
{
    must(c->depth == 0);
    const char *p = next_token(c);
    if (p == text_end(c))
        return err_none();
    return report(c, &(struct fault){ERR_BAD_JSON, p, "the end of the text"});
}

struct err json_peek(struct json_cursor *c, enum json_type *type)
{
    const char *p = next_token(c);
    unsigned char kind = p < text_end(c) ? value_kinds[json_byte_at(p)] : NO_VALUE;
    if (kind == NO_VALUE)
        return report(c, &(struct fault){ERR_BAD_JSON, p, "a value"});
    *type = (enum json_type)(kind - 1);
    return err_none();
}

static inline struct err enter(struct json_cursor *c, enum json_type type)
{
    const char *p = next_token(c);
    if (!at_kind(p, text_end(c), type))
        return wrong_type(c, type);
    if (c->depth == JSON_DEPTH_MAX)
        return report(c, &(struct fault){ERR_TOO_DEEP, p, NULL});
    c->depth++;
    c->first = true;
    c->pos++;
    return err_none();
}

struct err json_enter_object(struct json_cursor *c)
{
    return enter(c, JSON_OBJECT);
}

struct err json_enter_array(struct json_cursor *c)
{
    return enter(c, JSON_ARRAY);
}

/* The container that is left was an element or member of the outer one, which
 * has therefore had its first. So one flag does for all levels. */
static void leave(struct json_cursor *c, const char *closer)
{
    c->depth--;
    c->first = false;
    move_to(c, closer + 1);
}

/* Passes a key in quotes and its colon. */
static inline const char *read_key(struct json_cursor *c, const char *p, struct json_string *key,
                                   struct fault *f)
{
    const char *start = p + 1;
    p = string_end(start, text_end(c), &key->escaped, f);
    if (!p)
        return NULL;
    key->raw = (struct str){start, (size_t)(p - start)};
    key->offset = (size_t)(start - c->text.at);
    return colon_end(p + 1, text_end(c), f);
}

struct err json_next_member(struct json_cursor *c, bool *more, struct json_string *key)
{
    must(c->depth > 0);
    const char *end = text_end(c);
    const char *p = next_token(c);
    *more = p == end || *p != '}';
    if (!*more) {
        leave(c, p);
        return err_none();
    }
    const char *expected = first_key;
    if (!c->first) {
        if (p == end || *p != ',')
            return report(c, &(struct fault){ERR_BAD_JSON, p, after_member});
        p = space_end(p + 1, end);
        expected = later_key;
    }
    if (p == end || *p != '"')
        return report(c, &(struct fault){ERR_BAD_JSON, p, expected});
    struct fault f;
    p = read_key(c, p, key, &f);
    if (!p)
        return report(c, &f);
    c->first = false;
    move_to(c, p);
    return err_none();
}

struct err json_next_element(struct json_cursor *c, bool *more)
{
    must(c->depth > 0);
    const char *end = text_end(c);
    const char *p = next_token(c);
    *more = p == end || *p != ']';
    if (!*more) {
        leave(c, p);
        return err_none();
    }
    if (!c->first) {
        if (p == end || *p != ',')
            return report(c, &(struct fault){ERR_BAD_JSON, p, after_element});
        move_to(c, p + 1);
    }
    c->first = false;
    return err_none();
}

struct err json_read_string(struct json_cursor *c, struct json_string *s)
{
    const char *p = next_token(c);
    if (!at_kind(p, text_end(c), JSON_STRING))
        return wrong_type(c, JSON_STRING);
    const char *start = p + 1;
    struct fault f;
    p = string_end(start, text_end(c), &s->escaped, &f);
    if (!p)
        return report(c, &f);
    s->raw = (struct str){start, (size_t)(p - start)};
    s->offset = (size_t)(start - c->text.at);
    move_to(c, p + 1);
    return err_none();
}

struct err json_read_bool(struct json_cursor *c, bool *v)
{
    const char *p = next_token(c);
    if (!at_kind(p, text_end(c), JSON_BOOL))
        return wrong_type(c, JSON_BOOL);
    struct fault f;
    const char *after = word_end(p, text_end(c), &f);
    if (!after)
        return report(c, &f);
    *v = *p == 't';
    move_to(c, after);
    return err_none();
}

struct err json_take_null(struct json_cursor *c, bool *was_null)
{
    const char *p = next_token(c);
    *was_null = at_kind(p, text_end(c), JSON_NULL);
    if (!*was_null)
        return err_none();
    struct fault f;
    p = word_end(p, text_end(c), &f);
    if (!p)
        return report(c, &f);
    move_to(c, p);
    return err_none();
}

struct err json_skip(struct json_cursor *c, struct str *raw)
{
    const char *start = next_token(c);
    struct fault f;
    const char *p = c->sound && start < text_end(c)
                        ? sound_end(start, text_end(c))
                        : value_end(start, text_end(c), JSON_DEPTH_MAX - c->depth, &f);
    if (!p)
        return report(c, &f);
    if (raw)
        *raw = (struct str){start, (size_t)(p - start)};
    move_to(c, p);
    return err_none();
}

struct err json_member(struct str object, struct str name, struct str *raw)
{
    struct json_cursor c = json_open(object);
    struct json_string key;
    struct str value;
    bool more;
    *raw = (struct str){0};
    TRY(json_enter_object(&c));
    for (;;) {
        TRY(json_next_member(&c, &more, &key));
        if (!more)
            return json_close(&c);
        TRY(json_skip(&c, &value));
        if (str_eq(key.raw, name))
            *raw = value;
    }
}

/* ---- Numbers ---- */

/* Passes a number; raw is its text. */
static inline struct err read_number(struct json_cursor *c, struct str *raw)
{
    const char *start = next_token(c);
    if (!at_kind(start, text_end(c), JSON_NUMBER))
        return wrong_type(c, JSON_NUMBER);
    struct fault f;
    const char *p = number_end(start, text_end(c), &f);
    if (!p)
        return report(c, &f);
    *raw = (struct str){start, (size_t)(p - start)};
    move_to(c, p);
    return err_none();
}

/* How much of a number a message quotes. */
#define QUOTE_MAX 40
#define QUOTE_ARG(s)                                                                               \
    (int)((s).len < QUOTE_MAX ? (s).len : QUOTE_MAX), (s).at, (s).len < QUOTE_MAX ? "" : "..."

struct err json_read_int(struct json_cursor *c, int64_t lo, int64_t hi, int64_t *v)
{
    struct str raw = {0};
    TRY(read_number(c, &raw));
    if (decimal_whole(raw, v) && *v >= lo && *v <= hi)
        return err_none();
    return err_at(ERR_BAD_VALUE, raw.at - c->text.at,
                  "expected a whole number from %" PRId64 " to %" PRId64 ", found %.*s%s", lo, hi,
                  QUOTE_ARG(raw));
}

struct err json_read_double(struct json_cursor *c, double lo, double hi, double *v)
{
    struct str raw = {0};
    TRY(read_number(c, &raw));
    *v = decimal_double(raw);
    int64_t offset = raw.at - c->text.at;
    if (!isfinite(*v))
        return err_at(ERR_BAD_VALUE, offset, "expected a number that fits a double, found %.*s%s",
                      QUOTE_ARG(raw));
    if (*v >= lo && *v <= hi)
        return err_none();
    char from[DECIMAL_TEXT_MAX];
    char to[DECIMAL_TEXT_MAX];
    decimal_text(fmax(lo, -DBL_MAX), from);
    decimal_text(fmin(hi, DBL_MAX), to);
    return err_at(ERR_BAD_VALUE, offset, "expected a number from %s to %s, found %.*s%s", from, to,
                  QUOTE_ARG(raw));
}
