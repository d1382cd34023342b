/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BENCH_ANSWER_H
#define BENCH_ANSWER_H

/* The minimum of an HTTP/1.1 response parser that a load generator needs: status line,
 * Content-Length, chunked. It relies on the server's syntax no more than it must to stay in step,
 * and spends as few instructions as possible, because generator and server share the same cores.
 * Pure; zero-initialised is ready. */

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/str.h"

enum answer_step {
    ANSWER_MORE,     /* all usable input is consumed, the answer is incomplete */
    ANSWER_COMPLETE, /* status and view hold one whole answer */
    ANSWER_BROKEN,   /* not HTTP as we know it; the connection is useless */
};

enum answer_state {
    ANSWER_IN_HEAD,
    ANSWER_IN_BODY,
    ANSWER_IN_CHUNK_SIZE,
    ANSWER_IN_CHUNK,
    ANSWER_IN_CHUNK_END,
    ANSWER_IN_TRAILER,
    ANSWER_AT_END,
};

struct answer {
    enum answer_state state; /* beyond ANSWER_IN_HEAD: status is known */
    int status;
    size_t left;     /* bytes missing of the body or of the chunk */
    struct buf body; /* what arrived in pieces; the reader of a stream drops what it has read */
    struct str view; /* a complete body: in the input or in `body`; valid until the next call */
};

void answer_fini(struct answer *a);
/* Reads from `in` until one answer is complete or the input is used up, and returns the number of
 * bytes used. The rest must be passed again, with more input after it. */
size_t answer_feed(struct answer *a, struct str in, enum answer_step *step);

/* The value of the next "id" key of a JSON text that has no such key inside of a payload. Moves
 * *rest past it; false if there is no other. */
bool answer_next_id(struct str *rest, struct str *id);
/* The same of the next "token". */
bool answer_next_token(struct str *rest, struct str *token);
/* How many times "id" occurs in the text. */
size_t answer_count_ids(struct str text);

#endif
