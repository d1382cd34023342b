/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/wire_msgpack.h"

#include <math.h>
#include <msgpack.h>
#include <stdlib.h>
#include <strings.h>

#include "base/arena.h"
#include "base/array.h"
#include "base/json.h"
#include "base/must.h"
#include "base/utf8.h"

/* --- MessagePack to JSON ---
 *
 * Read by hand: msgpack-c nests 32 deep where JSON may 128, makes room for as many elements
 * as a header of five bytes claims, and cannot say where in the text a fault is. */

#define PIECE_MAX ((size_t)64 * 1024)

struct level {
    uint32_t left; /* values still to come; a map's keys count too */
    bool map;
};

struct reader {
    const unsigned char *at;
    size_t len, pos;
    size_t token; /* where the value being read begins */
    size_t stop;  /* stops once json is longer */
    struct buf *json;
    struct level levels[JSON_DEPTH_MAX];
    unsigned depth;
};

NODISCARD static struct err cut_off(const struct reader *r)
{
    return err_at(ERR_BAD_MSGPACK, (int64_t)r->len, "the MessagePack ends within a value");
}

/* n bytes, big-endian. */
NODISCARD static struct err read_number(struct reader *r, unsigned n, uint64_t *v)
{
    if (r->len - r->pos < n)
        return cut_off(r);
    *v = 0;
    for (unsigned i = 0; i < n; i++)
        *v = *v << 8 | r->at[r->pos++];
    return err_none();
}

/* Where to cut a long string, which is not inside of a character. */
static size_t piece_of(struct str s)
{
    size_t n = s.len < PIECE_MAX ? s.len : PIECE_MAX;
    while (n < s.len && ((unsigned char)s.at[n] & 0xc0) == 0x80)
        n++;
    return n;
}

NODISCARD static struct err read_text(struct reader *r, uint64_t n)
{
    if (r->len - r->pos < n)
        return cut_off(r);
    struct str s = {(const char *)r->at + r->pos, n};
    size_t good = utf8_check(s);
    if (good < n)
        return err_at(ERR_BAD_UTF8, (int64_t)(r->pos + good), "the string is not valid UTF-8");
    r->pos += n;
    buf_byte(r->json, '"');
    /* In pieces, so that one string does not become much longer than what is allowed. */
    while (s.len && r->json->len <= r->stop) {
        size_t piece = piece_of(s);
        json_write_text(r->json, (struct str){s.at, piece});
        s = (struct str){s.at + piece, s.len - piece};
    }
    buf_byte(r->json, '"');
    return err_none();
}

NODISCARD static struct err write_float(struct reader *r, double v)
{
    if (!isfinite(v))
        return err_at(ERR_BAD_VALUE, (int64_t)r->token, "JSON has no %s",
                      isnan(v) ? "NaN" : "infinity");
    size_t start = r->json->len;
    json_write_double(r->json, v);
    /* Keeps it a float on the way back. */
    struct str text = {r->json->at + start, r->json->len - start};
    if (!memchr(text.at, '.', text.len) && !memchr(text.at, 'e', text.len))
        buf_lit(r->json, ".0");
    return err_none();
}

NODISCARD static struct err read_float(struct reader *r, unsigned n)
{
    uint64_t bits = 0;
    TRY(read_number(r, n, &bits));
    if (n == 8) {
        double v;
        memcpy(&v, &bits, sizeof v);
        return write_float(r, v);
    }
    uint32_t half = (uint32_t)bits;
    float v;
    memcpy(&v, &half, sizeof v);
    return write_float(r, (double)v);
}

NODISCARD static struct err read_unsigned(struct reader *r, unsigned n)
{
    uint64_t v = 0;
    TRY(read_number(r, n, &v));
    buf_print(r->json, "%llu", (unsigned long long)v);
    return err_none();
}

NODISCARD static struct err read_signed(struct reader *r, unsigned n)
{
    uint64_t v = 0;
    TRY(read_number(r, n, &v));
    unsigned unused = 64 - 8 * n;
    buf_int(r->json, (int64_t)(v << unused) >> unused);
    return err_none();
}

NODISCARD static struct err enter(struct reader *r, bool map, uint64_t count)
{
    if (r->depth == JSON_DEPTH_MAX)
        return err_at(ERR_TOO_DEEP, (int64_t)r->token, "nested deeper than %d levels",
                      JSON_DEPTH_MAX);
    /* A value has a byte at least: what claims more than can follow is not begun. */
    if (count > r->len - r->pos)
        return cut_off(r);
    if (map)
        count *= 2;
    if (count > UINT32_MAX)
        return cut_off(r);
    buf_byte(r->json, map ? '{' : '[');
    r->levels[r->depth++] = (struct level){(uint32_t)count, map};
    return err_none();
}

NODISCARD static struct err no_such_type(const struct reader *r, const char *what)
{
    return err_at(ERR_BAD_TYPE, (int64_t)r->token, "JSON has no %s, so there can be none", what);
}

/* The types from 0xc0 to 0xdf, which have a byte of their own. */
NODISCARD static struct err read_typed(struct reader *r, unsigned type)
{
    uint64_t n = 0;
    switch (type) {
    case 0xc0:
        buf_lit(r->json, "null");
        return err_none();
    case 0xc2:
        buf_lit(r->json, "false");
        return err_none();
    case 0xc3:
        buf_lit(r->json, "true");
        return err_none();
    case 0xca:
    case 0xcb:
        return read_float(r, type == 0xca ? 4 : 8);
    case 0xcc:
    case 0xcd:
    case 0xce:
    case 0xcf:
        return read_unsigned(r, 1u << (type - 0xcc));
    case 0xd0:
    case 0xd1:
    case 0xd2:
    case 0xd3:
        return read_signed(r, 1u << (type - 0xd0));
    case 0xd9:
    case 0xda:
    case 0xdb:
        TRY(read_number(r, 1u << (type - 0xd9), &n));
        return read_text(r, n);
    case 0xdc:
    case 0xdd:
        TRY(read_number(r, type == 0xdc ? 2 : 4, &n));
        return enter(r, false, n);
    case 0xde:
    case 0xdf:
        TRY(read_number(r, type == 0xde ? 2 : 4, &n));
        return enter(r, true, n);
    case 0xc4:
    case 0xc5:
    case 0xc6:
        return no_such_type(r, "byte strings");
    case 0xc1:
        return err_at(ERR_BAD_MSGPACK, (int64_t)r->token, "MessagePack never uses the byte 0xc1");
    default:
        return no_such_type(r, "extension types or timestamps");
    }
}

NODISCARD static struct err read_value(struct reader *r)
{
    if (r->pos == r->len)
        return cut_off(r);
    r->token = r->pos;
    unsigned type = r->at[r->pos++];
    if (type < 0x80) {
        buf_int(r->json, (int64_t)type);
        return err_none();
    }
    if (type < 0x90)
        return enter(r, true, type & 0x0f);
    if (type < 0xa0)
        return enter(r, false, type & 0x0f);
    if (type < 0xc0)
        return read_text(r, type & 0x1f);
    if (type < 0xe0)
        return read_typed(r, type);
    buf_int(r->json, (int64_t)type - 0x100);
    return err_none();
}

static bool is_text(unsigned type)
{
    return (type >= 0xa0 && type < 0xc0) || (type >= 0xd9 && type <= 0xdb);
}

/* Reads the next value of the innermost container, or leaves it. */
NODISCARD static struct err read_on(struct reader *r)
{
    struct level *l = &r->levels[r->depth - 1];
    if (l->left == 0) {
        buf_byte(r->json, l->map ? '}' : ']');
        r->depth--;
        return err_none();
    }
    bool first = r->json->at[r->json->len - 1] == (l->map ? '{' : '[');
    bool key = l->map && l->left % 2 == 0;
    if (l->map && !key)
        buf_byte(r->json, ':');
    else if (!first)
        buf_byte(r->json, ',');
    l->left--;
    if (key && r->pos < r->len && !is_text(r->at[r->pos]))
        return err_at(ERR_BAD_TYPE, (int64_t)r->pos, "the key of a map must be a string");
    return read_value(r);
}

NODISCARD static struct err convert(struct reader *r)
{
    TRY(read_value(r));
    while (r->depth > 0 && r->json->len <= r->stop)
        TRY(read_on(r));
    return err_none();
}

struct err wire_msgpack_to_json(struct str body, size_t most, struct buf *json)
{
    struct reader r = {.at = (const unsigned char *)body.at, .len = body.len, .stop = most};
    r.json = json;
    TRY(convert(&r));
    if (json->len > most)
        return err_make(ERR_LENGTH, "as JSON the body is larger than the limit of %zu bytes", most);
    if (r.pos < r.len)
        return err_at(ERR_BAD_MSGPACK, (int64_t)r.pos, "%zu bytes follow the value", r.len - r.pos);
    return err_none();
}

size_t wire_msgpack_offset(struct str body, size_t json_offset)
{
    struct buf json = {0};
    struct reader r = {.at = (const unsigned char *)body.at, .len = body.len, .stop = json_offset};
    r.json = &json;
    struct err known = convert(&r); /* a broken one was refused before */
    (void)known;
    buf_fini(&json);
    return r.token;
}

/* --- JSON to MessagePack ---
 *
 * msgpack-c writes the values. A container's header says how many it has, which is known
 * at its end: one byte is kept free, and where that is not enough the rest moves on. */

/* Replies nest payloads, which may use up JSON_DEPTH_MAX, in lists of jobs. */
#define DEPTH_MAX (JSON_DEPTH_MAX + 16)

struct open {
    size_t header; /* of the container, in out */
    uint32_t count;
    bool map;
};

struct writer {
    struct str json;
    size_t pos;
    struct buf *out;
    msgpack_packer pack;
    struct open open[DEPTH_MAX];
    unsigned depth;
    struct arena arena; /* of unescaped strings */
};

static int pack_bytes(void *out, const char *at, size_t n)
{
    buf_add(out, at, n);
    return 0;
}

NODISCARD static struct err no_json(const struct writer *w)
{
    return err_at(ERR_BAD_JSON, (int64_t)w->pos, "this is no JSON");
}

static unsigned char peek(struct writer *w)
{
    while (w->pos < w->json.len && memchr(" \t\r\n", w->json.at[w->pos], 4))
        w->pos++;
    return w->pos < w->json.len ? (unsigned char)w->json.at[w->pos] : 0;
}

static bool take(struct writer *w, char c)
{
    bool there = peek(w) == (unsigned char)c;
    w->pos += there;
    return there;
}

static unsigned hex4(const char *at)
{
    char text[5] = {at[0], at[1], at[2], at[3]};
    return (unsigned)strtoul(text, NULL, 16);
}

/* Puts U+FFFD in place of halves of surrogate pairs, in a copy of the same length. */
static void mend_surrogates(char *at, size_t len)
{
    for (size_t i = 0; i + 6 <= len; i++) {
        if (at[i] != '\\')
            continue;
        if (at[++i] != 'u' || i + 5 > len)
            continue;
        unsigned unit = hex4(at + i + 1);
        bool pair = unit >= 0xd800 && unit < 0xdc00 && i + 11 <= len && at[i + 5] == '\\' &&
                    at[i + 6] == 'u' && hex4(at + i + 7) >> 10 == 0xdc00 >> 10;
        if (pair)
            i += 10;
        else if (unit >= 0xd800 && unit < 0xe000)
            memcpy(at + i + 1, "fffd", 4);
    }
}

NODISCARD static struct err unescape(struct writer *w, struct str raw, struct str *text)
{
    struct json_string s = {.raw = raw, .escaped = true};
    if (json_text(s, &w->arena, text).code == ERR_OK)
        return err_none();
    struct str copy = arena_copy(&w->arena, raw);
    mend_surrogates((char *)copy.at, copy.len);
    s.raw = copy;
    return json_text(s, &w->arena, text);
}

NODISCARD static struct err write_text(struct writer *w)
{
    struct json_cursor c = {.text = w->json, .pos = w->pos};
    struct json_string s;
    if (json_read_string(&c, &s).code != ERR_OK || s.raw.len > UINT32_MAX)
        return no_json(w);
    w->pos = c.pos;
    struct str text = s.raw;
    if (s.escaped)
        TRY(unescape(w, text, &text));
    msgpack_pack_str(&w->pack, text.len);
    msgpack_pack_str_body(&w->pack, text.at, text.len);
    return err_none();
}

/* Digits without a fraction, if they fit 64 bits. */
static bool pack_whole(struct writer *w, struct str digits)
{
    bool negative = digits.at[0] == '-';
    uint64_t v = 0;
    for (size_t i = negative; i < digits.len; i++) {
        unsigned digit = (unsigned)(digits.at[i] - '0');
        if (digit > 9 || __builtin_mul_overflow(v, 10u, &v) || __builtin_add_overflow(v, digit, &v))
            return false;
    }
    if (!negative)
        msgpack_pack_uint64(&w->pack, v);
    else if (v <= (uint64_t)INT64_MAX + 1)
        msgpack_pack_int64(&w->pack, (int64_t)(0 - v));
    else
        return false;
    return true;
}

NODISCARD static struct err write_number(struct writer *w)
{
    size_t start = w->pos;
    while (w->pos < w->json.len && strchr("+-.0123456789eE", w->json.at[w->pos]) &&
           w->json.at[w->pos])
        w->pos++;
    struct str text = {w->json.at + start, w->pos - start};
    if (text.len == 0)
        return no_json(w);
    if (pack_whole(w, text))
        return err_none();
    /* Within the range of a double the scanner reads it, whatever the locale. */
    struct json_cursor c = json_open(text);
    double v;
    if (json_read_double(&c, -HUGE_VAL, HUGE_VAL, &v).code != ERR_OK)
        v = text.at[0] == '-' ? -HUGE_VAL : HUGE_VAL;
    msgpack_pack_double(&w->pack, v);
    return err_none();
}

NODISCARD static struct err write_word(struct writer *w)
{
    static const struct str words[] = {{"null", 4}, {"true", 4}, {"false", 5}};
    for (int i = 0; i < 3; i++) {
        if (w->json.len - w->pos < words[i].len ||
            memcmp(w->json.at + w->pos, words[i].at, words[i].len) != 0)
            continue;
        w->pos += words[i].len;
        if (i == 0)
            msgpack_pack_nil(&w->pack);
        else if (i == 1)
            msgpack_pack_true(&w->pack);
        else
            msgpack_pack_false(&w->pack);
        return err_none();
    }
    return no_json(w);
}

NODISCARD static struct err open_container(struct writer *w, bool map)
{
    if (w->depth == DEPTH_MAX)
        return no_json(w);
    w->pos++;
    w->open[w->depth++] = (struct open){w->out->len, 0, map};
    buf_byte(w->out, 0);
    return err_none();
}

static void close_container(struct writer *w)
{
    struct open *o = &w->open[--w->depth];
    w->pos++;
    char bytes[5];
    struct buf header = {.at = bytes, .cap = sizeof bytes};
    msgpack_packer pack;
    msgpack_packer_init(&pack, &header, pack_bytes);
    if (o->map)
        msgpack_pack_map(&pack, o->count);
    else
        msgpack_pack_array(&pack, o->count);
    size_t more = header.len - 1, body = w->out->len - o->header - 1;
    buf_room(w->out, more);
    char *at = w->out->at + o->header;
    if (more)
        memmove(at + header.len, at + 1, body);
    memcpy(at, bytes, header.len);
    w->out->len += more;
}

NODISCARD static struct err write_value(struct writer *w)
{
    switch (peek(w)) {
    case '{':
        return open_container(w, true);
    case '[':
        return open_container(w, false);
    case '"':
        return write_text(w);
    case 'n':
    case 't':
    case 'f':
        return write_word(w);
    default:
        return write_number(w);
    }
}

/* The next member or element of the innermost container, or its end. */
NODISCARD static struct err write_on(struct writer *w)
{
    struct open *o = &w->open[w->depth - 1];
    if (peek(w) == (o->map ? '}' : ']')) {
        close_container(w);
        return err_none();
    }
    if (o->count > 0 && !take(w, ','))
        return no_json(w);
    o->count++;
    if (o->map) {
        if (peek(w) != '"')
            return no_json(w);
        TRY(write_text(w));
        if (!take(w, ':'))
            return no_json(w);
    }
    return write_value(w);
}

NODISCARD static struct err write_all(struct writer *w)
{
    TRY(write_value(w));
    while (w->depth > 0)
        TRY(write_on(w));
    return peek(w) == 0 && w->pos == w->json.len ? err_none() : no_json(w);
}

struct err wire_msgpack_from_json(struct str json, struct buf *out)
{
    struct writer w = {.json = json, .out = out};
    msgpack_packer_init(&w.pack, out, pack_bytes);
    struct err e = write_all(&w);
    arena_fini(&w.arena);
    return e;
}

/* --- headers --- */

static bool mentions(struct str header)
{
    return header.len >= 7 && !str_eq(header, STR("application/json")) &&
           memmem(header.at, header.len, "msgpack", 7) != NULL;
}

bool wire_msgpack_mentioned(struct str content_type, struct str accept)
{
    return mentions(content_type) || mentions(accept);
}

static struct str trim(struct str s)
{
    while (s.len && (*s.at == ' ' || *s.at == '\t'))
        s = (struct str){s.at + 1, s.len - 1};
    while (s.len && (s.at[s.len - 1] == ' ' || s.at[s.len - 1] == '\t'))
        s.len--;
    return s;
}

/* What stands before the separator; *rest is what follows it. */
static struct str before(struct str *rest, char separator)
{
    const char *at = rest->len ? memchr(rest->at, separator, rest->len) : NULL;
    struct str part = {rest->at, at ? (size_t)(at - rest->at) : rest->len};
    size_t used = part.len + (at != NULL);
    *rest = (struct str){rest->at ? rest->at + used : NULL, rest->len - used};
    return trim(part);
}

static bool is_one_of(struct str type, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (type.len == strlen(names[i]) && strncasecmp(type.at, names[i], type.len) == 0)
            return true;
    return false;
}

static bool is_msgpack(struct str type)
{
    static const char *const names[] = {"application/msgpack", "application/x-msgpack",
                                        "application/vnd.msgpack",
                                        "application/vnd.zizq.msgpack-stream"};
    return is_one_of(type, names, COUNT(names));
}

static bool is_json(struct str type)
{
    static const char *const names[] = {"application/json", "application/x-ndjson", "application/*",
                                        "*/*"};
    return is_one_of(type, names, COUNT(names));
}

bool wire_msgpack_is(struct str content_type)
{
    return is_msgpack(before(&content_type, ';'));
}

/* In thousandths, from the parameters of an entry; 1000 if there is none. */
static int quality(struct str params)
{
    while (params.len) {
        struct str p = before(&params, ';');
        if (p.len < 3 || (p.at[0] != 'q' && p.at[0] != 'Q') || p.at[1] != '=')
            continue;
        struct json_cursor c = json_open((struct str){p.at + 2, p.len - 2});
        double q;
        if (json_read_double(&c, 0, 1, &q).code == ERR_OK)
            return (int)(q * 1000);
    }
    return 1000;
}

bool wire_msgpack_preferred(struct str accept)
{
    int best = 0;
    bool msgpack = false;
    while (accept.len) {
        struct str entry = before(&accept, ',');
        struct str type = before(&entry, ';');
        int q = quality(entry);
        if (q > best && (is_msgpack(type) || is_json(type))) {
            best = q;
            msgpack = is_msgpack(type);
        }
    }
    return msgpack;
}
