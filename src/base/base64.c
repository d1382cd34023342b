/* SPDX-License-Identifier: Apache-2.0 */
#include "base/base64.h"

#include <stdint.h>

static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
static const char url[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/* --- writing --- */

static void write_group(struct buf *b, const char *digits, const unsigned char *at, size_t n)
{
    uint32_t bits = (uint32_t)at[0] << 16;
    if (n > 1)
        bits |= (uint32_t)at[1] << 8;
    if (n > 2)
        bits |= at[2];
    for (size_t i = 0; i <= n; i++)
        buf_byte(b, digits[bits >> (18 - 6 * i) & 63]);
}

static void write_all(struct buf *b, const char *digits, struct str bytes)
{
    buf_room(b, bytes.len / 3 * 4 + 4);
    for (size_t i = 0; i < bytes.len; i += 3) {
        size_t left = bytes.len - i;
        write_group(b, digits, (const unsigned char *)bytes.at + i, left < 3 ? left : 3);
    }
}

void base64_write(struct buf *b, struct str bytes)
{
    write_all(b, plain, bytes);
    for (size_t n = bytes.len; n % 3; n++)
        buf_byte(b, '=');
}

void base64_write_url(struct buf *b, struct str bytes)
{
    write_all(b, url, bytes);
}

/* --- reading --- */

static int digit_value(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    return c == '+' || c == '-' ? 62 : c == '/' || c == '_' ? 63 : -1;
}

static bool has(struct str s, char c)
{
    return s.len > 0 && memchr(s.at, c, s.len);
}

/* Takes the padding away; false if there is some, but not what belongs there. */
static bool strip_padding(struct str *text)
{
    size_t n = 0;
    while (n < 2 && n < text->len && text->at[text->len - 1 - n] == '=')
        n++;
    bool fits = n == 0 || text->len % 4 == 0;
    text->len -= n;
    return fits && text->len % 4 != 1;
}

bool base64_read(struct str text, struct arena *a, struct str *bytes)
{
    if (!strip_padding(&text))
        return false;
    if ((has(text, '+') || has(text, '/')) && (has(text, '-') || has(text, '_')))
        return false;
    unsigned char *to = arena_get(a, text.len / 4 * 3 + 3);
    size_t n = 0;
    uint32_t bits = 0;
    unsigned held = 0; /* bits that are no whole byte yet */
    for (size_t i = 0; i < text.len; i++) {
        int v = digit_value(text.at[i]);
        if (v < 0)
            return false;
        bits = bits << 6 | (uint32_t)v;
        held += 6;
        if (held >= 8) {
            held -= 8;
            to[n++] = (unsigned char)(bits >> held);
        }
    }
    if (bits & ((UINT32_C(1) << held) - 1))
        return false;
    *bytes = (struct str){(const char *)to, n};
    return true;
}
