/* SPDX-License-Identifier: Apache-2.0 */

/* What an exchange of HTTP/1.1 needs beside the state of its connection: chunks of a stream, a
 * request that outlives its bytes, and who in a queue is told that the peer has gone. */

#include <stdio.h>

#include "base/must.h"
#include "net/http_headers.h"
#include "net/http_internal.h"

/* "0000abcd\r\n": the length of a chunk has a fixed width, so that it can be filled in when
 * the chunk is complete. */
#define CHUNK_HEAD 10

void exchange_chunk_begin(struct http_exchange *x, struct buf *out)
{
    if (x->chunk)
        return;
    x->chunk = out->len + 1;
    buf_room(out, CHUNK_HEAD);
    out->len += CHUNK_HEAD;
}

void exchange_chunk_end(struct http_exchange *x, struct buf *out)
{
    if (!x->chunk)
        return;
    size_t start = x->chunk - 1;
    char length[CHUNK_HEAD + 1];
    int n = snprintf(length, sizeof length, "%08zx\r\n", out->len - start - CHUNK_HEAD);
    must(n == CHUNK_HEAD);
    memcpy(out->at + start, length, CHUNK_HEAD);
    buf_lit(out, "\r\n");
    x->chunk = 0;
}

void exchange_keep_request(struct http_exchange *x, struct http_request *q)
{
    q->path = arena_copy(&x->arena, q->path);
    q->query = arena_copy(&x->arena, q->query);
    q->body = arena_copy(&x->arena, q->body);
    for (enum http_header i = 0; i < HTTP_HEADERS; i++) {
        struct str *value = http_header_value(q, i);
        if (value->at) /* else it stays absent */
            *value = arena_copy(&x->arena, *value);
    }
}

void exchange_tell_gone(struct exchange_queue *q)
{
    struct http_exchange *x;
    do {
        TAILQ_FOREACH(x, q, link)
        if (x->gone)
            break;
        if (x) { /* the queue may change meanwhile: start again */
            void (*gone)(void *ctx) = x->gone;
            x->gone = NULL;
            gone(x->gone_ctx);
        }
    } while (x);
}

bool exchange_any_is_endless(const struct exchange_queue *q)
{
    const struct http_exchange *x;
    TAILQ_FOREACH(x, q, link)
    if (x->state == EXCHANGE_STREAM && !x->sized)
        return true;
    return false;
}
