/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STORE_WRITER_H
#define STORE_WRITER_H

/* Writes the parts of a record into memory provided by the caller. What does not fit there is only
 * counted: a record that is larger than expected is written again, by the same function, into
 * memory of that size; without memory, all of it is counted.
 *
 *   byte     one byte
 *   varint   an unsigned number, 7 bits per byte, lowest first; the high bit says that
 *            more follow; at most 10 bytes and never longer than needed
 *   zigzag   a signed number n as the varint of 2n, or -2n - 1 if it is negative
 *   opt      a number from -1 up as the varint of n + 1; so "none" and "default" are 0
 *   text     varint length, then as many bytes
 *   double   8 bytes, IEEE 754, little-endian, finite */

#include <math.h>
#include <string.h>

#include "base/must.h"
#include "base/str.h"

struct writer {
    char *at;
    size_t len; /* so far; what is beyond cap is not there */
    size_t cap;
};

static inline struct writer writer_into(char *at, size_t cap)
{
    return (struct writer){.at = at, .cap = cap};
}

static inline void writer_bytes(struct writer *w, const void *bytes, size_t n)
{
    if (n && w->len < w->cap && w->cap - w->len >= n)
        memcpy(w->at + w->len, bytes, n);
    w->len += n;
}

static inline void writer_byte(struct writer *w, unsigned v)
{
    must(v <= UINT8_MAX);
    if (w->len < w->cap)
        w->at[w->len] = (char)v;
    w->len++;
}

static inline void writer_varint(struct writer *w, uint64_t v)
{
    while (v >= 0x80) {
        writer_byte(w, (unsigned)(v & 0x7f) | 0x80);
        v >>= 7;
    }
    writer_byte(w, (unsigned)v);
}

static inline void writer_zigzag(struct writer *w, int64_t v)
{
    writer_varint(w, (uint64_t)v << 1 ^ (uint64_t)(v >> 63));
}

static inline void writer_opt(struct writer *w, int64_t v)
{
    must(v >= -1);
    writer_varint(w, (uint64_t)v + 1);
}

static inline void writer_text(struct writer *w, struct str s)
{
    writer_varint(w, s.len);
    writer_bytes(w, s.at, s.len);
}

static inline void writer_double(struct writer *w, double v)
{
    must(isfinite(v));
    uint64_t bits;
    memcpy(&bits, &v, sizeof bits);
    for (int i = 0; i < 8; i++)
        writer_byte(w, (unsigned)(bits >> (8 * i)) & 0xff);
}

#endif
