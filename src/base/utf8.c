/* SPDX-License-Identifier: Apache-2.0 */
#include "base/utf8.h"

#include <stdint.h>

/* Length of the character of two or more bytes at p, or 0 if it is malformed.
 * Only the second byte has a range that depends on the first: that is what keeps
 * out overlong forms (E0, F0), surrogates (ED) and what is past U+10FFFF (F4). */
static size_t character(const unsigned char *p, size_t left)
{
    if (p[0] < 0xc2 || p[0] > 0xf4)
        return 0;
    size_t n = p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;
    if (left < n)
        return 0;
    unsigned char lo = p[0] == 0xe0 ? 0xa0 : p[0] == 0xf0 ? 0x90 : 0x80;
    unsigned char hi = p[0] == 0xed ? 0x9f : p[0] == 0xf4 ? 0x8f : 0xbf;
    if (p[1] < lo || p[1] > hi)
        return 0;
    if (n > 2 && (p[2] & 0xc0) != 0x80)
        return 0;
    if (n > 3 && (p[3] & 0xc0) != 0x80)
        return 0;
    return n;
}

size_t utf8_run(struct str s)
{
    const unsigned char *p = (const unsigned char *)s.at;
    size_t i = 0;
    while (i < s.len && p[i] >= 0x80) {
        size_t n = character(p + i, s.len - i);
        if (n == 0)
            break;
        i += n;
    }
    return i;
}

/* Length of the run of ASCII bytes that s begins with, eight at a time. */
static size_t ascii_run(struct str s)
{
    size_t i = 0;
    for (; s.len - i >= 8; i += 8) {
        uint64_t word;
        memcpy(&word, s.at + i, 8);
        if (word & UINT64_C(0x8080808080808080))
            break;
    }
    while (i < s.len && (unsigned char)s.at[i] < 0x80)
        i++;
    return i;
}

size_t utf8_check(struct str s)
{
    size_t i = 0;
    while (i < s.len) {
        i += ascii_run((struct str){s.at + i, s.len - i});
        if (i == s.len)
            break;
        size_t n = utf8_run((struct str){s.at + i, s.len - i});
        if (n == 0)
            break;
        i += n;
    }
    return i;
}

size_t utf8_whole(struct str s, size_t most)
{
    size_t n = s.len < most ? s.len : most;
    while (n > 0 && n < s.len && ((unsigned char)s.at[n] & 0xc0) == 0x80)
        n--;
    return n;
}
