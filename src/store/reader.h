/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STORE_READER_H
#define STORE_READER_H

/* Reads the parts of a record, as written by store/writer.h. After the first fault every read
 * returns zero, and `bad` names the faulty part: the caller checks it once, at the end. Each value
 * has exactly one encoding; a reader refuses everything else. Texts are views. */

#include <math.h>
#include <string.h>

#include "base/str.h"
#include "base/units.h"

struct reader {
    struct str value;
    size_t pos;
    const char *bad;
};

static inline size_t reader_left(const struct reader *r)
{
    return r->value.len - r->pos;
}

static inline void reader_fault(struct reader *r, const char *part)
{
    if (!r->bad)
        r->bad = part;
}

static inline const char *reader_bytes(struct reader *r, const char *part, size_t n)
{
    if (r->bad || reader_left(r) < n) {
        reader_fault(r, part);
        return NULL;
    }
    const char *at = r->value.at + r->pos;
    r->pos += n;
    return at;
}

/* A byte of 0 .. max. */
static inline unsigned reader_byte(struct reader *r, const char *part, unsigned max)
{
    const char *at = reader_bytes(r, part, 1);
    unsigned v = at ? (unsigned char)*at : 0;
    if (v <= max)
        return v;
    reader_fault(r, part);
    return 0;
}

static inline uint64_t reader_varint(struct reader *r, const char *part, uint64_t max)
{
    size_t left = r->bad ? 0 : reader_left(r);
    const unsigned char *at = left ? (const unsigned char *)r->value.at + r->pos : NULL;
    uint64_t v = 0;
    if (left && at[0] < 0x80 && at[0] <= max) { /* as most are */
        r->pos++;
        return at[0];
    }
    for (unsigned i = 0; i < 10 && i < left; i++) {
        uint64_t bits = at[i] & 0x7f;
        v |= bits << (7 * i);
        if (at[i] & 0x80)
            continue;
        bool padded = i > 0 && bits == 0;
        bool overflown = i == 9 && bits > 1;
        if (padded || overflown || v > max)
            break;
        r->pos += i + 1;
        return v;
    }
    reader_fault(r, part);
    return 0;
}

static inline int64_t reader_zigzag(struct reader *r, const char *part)
{
    uint64_t v = reader_varint(r, part, UINT64_MAX);
    return (int64_t)(v >> 1 ^ (0 - (v & 1)));
}

static inline int32_t reader_zigzag32(struct reader *r, const char *part)
{
    int64_t v = reader_zigzag(r, part);
    if (v >= INT32_MIN && v <= INT32_MAX)
        return (int32_t)v;
    reader_fault(r, part);
    return 0;
}

static inline int64_t reader_opt(struct reader *r, const char *part, int64_t max)
{
    return (int64_t)(reader_varint(r, part, (uint64_t)max + 1) - 1);
}

static inline instant reader_instant(struct reader *r, const char *part)
{
    return (instant){reader_opt(r, part, INT64_MAX)};
}

static inline span reader_span(struct reader *r, const char *part)
{
    return (span){reader_opt(r, part, INT64_MAX)};
}

static inline struct str reader_text(struct reader *r, const char *part)
{
    size_t len = reader_varint(r, part, SIZE_MAX);
    const char *at = reader_bytes(r, part, len);
    return at ? (struct str){at, len} : (struct str){"", 0};
}

static inline double reader_double(struct reader *r, const char *part)
{
    const char *at = reader_bytes(r, part, 8);
    uint64_t bits = 0;
    for (int i = 0; at && i < 8; i++)
        bits |= (uint64_t)(unsigned char)at[i] << (8 * i);
    double v;
    memcpy(&v, &bits, sizeof v);
    if (isfinite(v))
        return v;
    reader_fault(r, part);
    return 0;
}

#endif
