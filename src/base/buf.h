/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_BUF_H
#define BASE_BUF_H

/* A growable byte buffer. Zero-initialised is empty and owns nothing. */

#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

struct buf {
    char *at;
    size_t len;
    size_t cap;
};

void buf_fini(struct buf *b);
/* Makes room for n more bytes and returns where they go; len is unchanged. The
 * pointer is valid until the next call that may grow the buffer. */
char *buf_room(struct buf *b, size_t n);
/* Makes cap at least so large, and not a byte larger if it grows. */
void buf_reserve(struct buf *b, size_t cap);
/* Forgets the first n bytes. */
void buf_drop(struct buf *b, size_t n);
/* printf at the end. */
void buf_print(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* A decimal number at the end. */
void buf_int(struct buf *b, int64_t v);

static inline void buf_add(struct buf *b, const void *at, size_t n)
{
    if (n == 0)
        return;
    char *to = b->cap - b->len >= n ? b->at + b->len : buf_room(b, n);
    memcpy(to, at, n);
    b->len += n;
}

static inline void buf_str(struct buf *b, struct str s)
{
    buf_add(b, s.at, s.len);
}

static inline void buf_byte(struct buf *b, char c)
{
    *(b->cap > b->len ? b->at + b->len : buf_room(b, 1)) = c;
    b->len++;
}

/* A string literal at the end, without its NUL. */
#define buf_lit(b, literal) buf_add((b), (literal), sizeof(literal) - 1)

static inline struct str buf_view(const struct buf *b)
{
    return (struct str){b->at, b->len};
}

#endif
