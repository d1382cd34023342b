/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_JSON_INTERNAL_H
#define BASE_JSON_INTERNAL_H

/* What reading and writing JSON share: the bytes of a string, found sixteen at a time. */

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

/* What may stand in a string as it is and needs no look at the next byte. */
static const bool json_is_plain[256] = {
    [0x20 ... 0x21] = true,
    [0x23 ... 0x5b] = true,
    [0x5d ... 0x7f] = true,
};

static const bool json_is_hex[256] = {
    ['0' ... '9'] = true,
    ['a' ... 'f'] = true,
    ['A' ... 'F'] = true,
};

static inline unsigned char json_byte_at(const char *p)
{
    return (unsigned char)*p;
}

/* The first byte of [p, end) that is not plain. */
static inline const char *json_plain_end(const char *p, const char *end)
{
#ifdef __SSE2__
    const __m128i quote = _mm_set1_epi8('"');
    const __m128i backslash = _mm_set1_epi8('\\');
    const __m128i blank = _mm_set1_epi8(' ');
    for (; end - p >= 16; p += 16) {
        __m128i v = _mm_loadu_si128((const __m128i *)p);
        /* The comparison is signed: bytes from 0x80 up count as below the blank. */
        __m128i stop = _mm_or_si128(_mm_or_si128(_mm_cmpeq_epi8(v, quote), //
                                                 _mm_cmpeq_epi8(v, backslash)),
                                    _mm_cmplt_epi8(v, blank));
        int mask = _mm_movemask_epi8(stop);
        if (mask)
            return p + __builtin_ctz((unsigned)mask);
    }
#else
    const uint64_t ones = UINT64_C(0x0101010101010101);
    for (; end - p >= 8; p += 8) {
        uint64_t v;
        memcpy(&v, p, 8);
        uint64_t quote = v ^ ones * '"';
        uint64_t backslash = v ^ ones * '\\';
        /* The top bit of each byte: set somewhere iff there is something to stop
         * for. Borrows may set more of them, so the loop below finds the place. */
        uint64_t stop = ((quote - ones) & ~quote) | ((backslash - ones) & ~backslash) |
                        ((v - ones * ' ') & ~v) | v;
        if (stop & ones * 0x80)
            break;
    }
#endif
    while (p < end && json_is_plain[json_byte_at(p)])
        p++;
    return p;
}

/* The first quote or bracket of [p, end). */
static inline const char *json_mark(const char *p, const char *end)
{
#ifdef __SSE2__
    const __m128i quote = _mm_set1_epi8('"');
    const __m128i lower = _mm_set1_epi8(0x20); /* makes a brace of a square bracket */
    const __m128i open = _mm_set1_epi8('{');
    const __m128i close = _mm_set1_epi8('}');
    for (; end - p >= 16; p += 16) {
        __m128i v = _mm_loadu_si128((const __m128i *)p);
        __m128i brace = _mm_or_si128(v, lower);
        __m128i stop =
            _mm_or_si128(_mm_cmpeq_epi8(v, quote),
                         _mm_or_si128(_mm_cmpeq_epi8(brace, open), _mm_cmpeq_epi8(brace, close)));
        int mask = _mm_movemask_epi8(stop);
        if (mask)
            return p + __builtin_ctz((unsigned)mask);
    }
#endif
    while (p < end && *p != '"' && (*p | 0x20) != '{' && (*p | 0x20) != '}')
        p++;
    return p;
}

#endif
