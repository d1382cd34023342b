/* SPDX-License-Identifier: Apache-2.0 */

/* The strings of JSON: what their escapes stand for, and how they are written. */

#include "base/json.h"

#include <math.h>

#include "base/decimal.h"
#include "base/json_internal.h"
#include "base/mark.h"
#include "base/must.h"

/* ---- Escapes, read ---- */

/* The value of four hexadecimal digits. */
static unsigned hex4(const char *p)
{
    unsigned v = 0;
    for (int i = 0; i < 4; i++) {
        unsigned char c = json_byte_at(p + i);
        must(json_is_hex[c]);
        v = v << 4 | (c <= '9' ? c - (unsigned)'0' : (c | 0x20) - (unsigned)'a' + 10);
    }
    return v;
}

static char *encode(char *to, unsigned u)
{
    if (u < 0x80) {
        *to++ = (char)u;
        return to;
    }
    if (u < 0x800) {
        *to++ = (char)(0xc0 | u >> 6);
    } else {
        if (u < 0x10000) {
            *to++ = (char)(0xe0 | u >> 12);
        } else {
            *to++ = (char)(0xf0 | u >> 18);
            *to++ = (char)(0x80 | (u >> 12 & 0x3f));
        }
        *to++ = (char)(0x80 | (u >> 6 & 0x3f));
    }
    *to++ = (char)(0x80 | (u & 0x3f));
    return to;
}

/* Reads \uXXXX, or two of them that are a pair, from *p on. False, with *p where
 * it was, if it is half a pair. */
static bool unicode_escape(const char **p, const char *end, unsigned *u)
{
    must(end - *p >= 6);
    *u = hex4(*p + 2);
    if (*u < 0xd800 || *u > 0xdfff) {
        *p += 6;
        return true;
    }
    if (*u > 0xdbff || end - *p < 12 || memcmp(*p + 6, "\\u", 2) != 0)
        return false;
    unsigned low = hex4(*p + 8);
    if (low < 0xdc00 || low > 0xdfff)
        return false;
    *u = 0x10000 + ((*u - 0xd800) << 10) + (low - 0xdc00);
    *p += 12;
    return true;
}

static char simple_escape(char c)
{
    switch (c) {
    case 'b':
        return '\b';
    case 'f':
        return '\f';
    case 'n':
        return '\n';
    case 'r':
        return '\r';
    case 't':
        return '\t';
    default:
        return c;
    }
}

struct err json_text(struct json_string s, struct arena *a, struct str *text)
{
    *text = s.raw;
    if (!s.escaped)
        return err_none();
    /* No escape is shorter than what it stands for. */
    char *start = arena_get(a, s.raw.len);
    char *to = start;
    const char *end = s.raw.at + s.raw.len;
    for (const char *p = s.raw.at; p < end;) {
        if (*p != '\\') {
            *to++ = *p++;
            continue;
        }
        must(end - p >= 2);
        unsigned u;
        if (p[1] != 'u') {
            *to++ = simple_escape(p[1]);
            p += 2;
        } else if (unicode_escape(&p, end, &u)) {
            to = encode(to, u);
        } else {
            return err_at(ERR_BAD_UTF8, (int64_t)s.offset + (p - s.raw.at),
                          "%.6s is half of a surrogate pair and stands for no character", p);
        }
    }
    *text = (struct str){start, (size_t)(to - start)};
    return err_none();
}

/* ---- Writing ---- */

static void write_escape(struct buf *b, unsigned char c)
{
    static const char letters[] = {
        ['\b'] = 'b', ['\t'] = 't', ['\n'] = 'n',  ['\f'] = 'f',
        ['\r'] = 'r', ['"'] = '"',  ['\\'] = '\\',
    };
    char letter = letters[c];
    if (letter)
        buf_add(b, (char[]){'\\', letter}, 2);
    else
        buf_print(b, "\\u%04x", c);
}

void json_write_text(struct buf *b, struct str text)
{
    const char *from = text.at; /* what is not written yet */
    const char *p = from;
    const char *end = text.len ? text.at + text.len : from;
    while ((p = json_plain_end(p, end)) < end) {
        size_t skip = 1;
        if (json_byte_at(p) < 0x80) {
            buf_add(b, from, (size_t)(p - from));
            if (mark_is_at(p, end))
                skip = MARK_LEN;
            else
                write_escape(b, json_byte_at(p));
            from = p + skip;
        }
        p += skip;
    }
    buf_add(b, from, (size_t)(end - from));
}

void json_write_string(struct buf *b, struct str text)
{
    buf_byte(b, '"');
    json_write_text(b, text);
    buf_byte(b, '"');
}

void json_write_double(struct buf *b, double v)
{
    must(isfinite(v));
    char text[DECIMAL_TEXT_MAX];
    decimal_text(v, text);
    buf_str(b, str_from(text));
}

/* A line break in a string is always escaped: so every raw one is white space. */
void json_write_one_line(struct buf *b, struct str value)
{
    if (value.len == 0)
        return;
    size_t start = b->len;
    buf_str(b, value);
    for (const char *c = "\n\r"; *c; c++) {
        char *p = b->at + start;
        while ((p = memchr(p, *c, (size_t)(b->at + b->len - p))))
            *p++ = ' ';
    }
}
