/* SPDX-License-Identifier: Apache-2.0 */
#ifndef JQ_FRAME_H
#define JQ_FRAME_H

/* The protocol between a pool and its helper processes, over a pair of pipes. Both ends are the
 * same binary on one machine, so numbers have its native byte order.
 *
 *   frame     u32 length of what follows, then that
 *   request   byte enum eval_kind, text expr, text expr, u32 count, count texts
 *   text      u32 length, bytes
 *   answer    byte enum frame_kind, and after it a text that extends to the end
 *
 * A request is answered by any number of answers, the last of which is FRAME_END or FRAME_ERROR.
 * Each of them restarts the time limit. */

#include <stdint.h>

#include "base/buf.h"

enum frame_kind {
    FRAME_READY = 'r', /* the helper has started */
    FRAME_STEP = 's',  /* it has compiled, or run once */
    FRAME_TRUE = 'y',
    FRAME_FALSE = 'n',
    FRAME_JSON = 'j',  /* the payload that a fold produced */
    FRAME_ERROR = 'e', /* a sentence */
    FRAME_END = '.',
};

/* The exit status of a helper that ran out of memory. */
#define FRAME_EXIT_MEMORY 77

static inline void frame_number(struct buf *b, uint32_t v)
{
    buf_add(b, &v, sizeof v);
}

static inline void frame_text(struct buf *b, struct str s)
{
    frame_number(b, (uint32_t)s.len);
    buf_str(b, s);
}

/* Reads from *rest; after its end, returns zero and an empty text. */
static inline uint32_t frame_read_number(struct str *rest)
{
    uint32_t v = 0;
    if (rest->len < sizeof v)
        return 0;
    memcpy(&v, rest->at, sizeof v);
    rest->at += sizeof v;
    rest->len -= sizeof v;
    return v;
}

static inline struct str frame_read_text(struct str *rest)
{
    size_t n = frame_read_number(rest);
    if (n > rest->len)
        n = rest->len;
    struct str s = {rest->at, n};
    rest->at += n;
    rest->len -= n;
    return s;
}

#endif
