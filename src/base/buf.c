/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/must.h"

/* From here on a buffer grows by a quarter: twice as much would be memory that is never used. */
#define LARGE ((size_t)1 << 20)

void buf_fini(struct buf *b)
{
    free(b->at);
    *b = (struct buf){0};
}

char *buf_room(struct buf *b, size_t n)
{
    if (b->cap - b->len < n) {
        size_t cap = b->cap < LARGE ? b->cap * 2 : b->cap + b->cap / 4;
        cap = cap ? cap : 256;
        if (cap < b->len + n) /* what is large comes in one piece as a rule: not a byte more */
            cap = b->len + n;
        b->at = alloc_resize(b->at, cap);
        b->cap = cap;
    }
    return b->at + b->len;
}

void buf_reserve(struct buf *b, size_t cap)
{
    if (b->cap >= cap)
        return;
    b->at = alloc_resize(b->at, cap);
    b->cap = cap;
}

void buf_drop(struct buf *b, size_t n)
{
    must(n <= b->len);
    b->len -= n;
    if (b->len)
        memmove(b->at, b->at + n, b->len);
}

void buf_print(struct buf *b, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    va_list again;
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    must(n >= 0);
    vsnprintf(buf_room(b, (size_t)n + 1), (size_t)n + 1, fmt, again);
    va_end(again);
    b->len += (size_t)n;
}

#define DIGITS ((size_t)24) /* room for any number */

/* Two digits at a time: its divisions are most of what a number costs, and an answer has half a
 * dozen times in milliseconds for each job. */
void buf_int(struct buf *b, int64_t v)
{
    static const char pairs[] = "0001020304050607080910111213141516171819"
                                "2021222324252627282930313233343536373839"
                                "4041424344454647484950515253545556575859"
                                "6061626364656667686970717273747576777879"
                                "8081828384858687888990919293949596979899";
    char digits[2 *
                DIGITS]; /* a copy of DIGITS bytes from any place in the first half is one step */
    size_t i = DIGITS;
    uint64_t u = v < 0 ? 0 - (uint64_t)v : (uint64_t)v;
    for (; u >= 100; u /= 100)
        memcpy(digits + (i -= 2), pairs + u % 100 * 2, 2);
    digits[--i] = pairs[u * 2 + 1];
    if (u >= 10)
        digits[--i] = pairs[u * 2];
    if (v < 0)
        digits[--i] = '-';
    memcpy(b->cap - b->len >= DIGITS ? b->at + b->len : buf_room(b, DIGITS), digits + i, DIGITS);
    b->len += DIGITS - i;
}
