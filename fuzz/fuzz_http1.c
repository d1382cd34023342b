/* SPDX-License-Identifier: Apache-2.0 */

/* The first byte is the number of bytes in which pieces the rest arrives. The requests must be the
 * same as those from the whole input; only when a flood is noticed may depend on the pieces. Bodies
 * of PUT are asked for in pieces, and are the same put together. */

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/array.h"
#include "base/buf.h"
#include "base/must.h"
#include "net/http1.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void add(struct buf *log, struct str s)
{
    buf_int(log, (int64_t)s.len);
    buf_byte(log, ':');
    buf_str(log, s);
}

static void note(struct buf *log, const struct http1_request *r)
{
    const struct http_request *q = &r->req;
    must(q->path.len > 0);
    must(q->path.at[0] == '/' || str_eq(q->path, STR("*")));
    buf_int(log, q->method);
    const struct str parts[] = {q->path, q->query, q->body
#define HEADER(name, member, times) , q->member
#include "net/http_headers.def"
#undef HEADER
    };
    for (size_t i = 0; i < COUNT(parts); i++)
        add(log, parts[i]);
    must(r->req.length >= -1);
    buf_int(log, r->pieces ? r->req.length : 0);
    buf_int(log, r->pieces && r->expects);
    buf_int(log, r->keep_alive);
    buf_int(log, r->old);
}

static bool wants_pieces(void *ctx, enum http_method method, struct str path)
{
    (void)ctx;
    must(path.len == 0 || path.at[0] == '/' || path.at[0] == '*');
    return method == HTTP_PUT;
}

static bool is_end(const struct http1 *r, enum http1_event event)
{
    return event == HTTP1_REQUEST || (event == HTTP1_PIECE && http1_phase(r) == HTTP1_IDLE);
}

static bool feed(struct http1 *r, struct buf *log, struct buf *body, const uint8_t *at, size_t len,
                 bool *flood)
{
    /* Memory of its own, so that a span that outlives it is detected. */
    char *copy = malloc(len);
    must(copy);
    memcpy(copy, at, len);
    bool usable = true;
    for (size_t done = 0; done < len && usable;) {
        size_t used = 0;
        enum http1_event event = http1_feed(r, copy + done, len - done, &used);
        must(used <= len - done);
        must(used > 0 || event != HTTP1_MORE);
        done += used;
        if (event == HTTP1_PIECE)
            buf_str(body, http1_piece(r));
        else if (event != HTTP1_MORE)
            buf_byte(log, (char)('A' + (int)event));
        if (event == HTTP1_PIECE && is_end(r, event)) {
            add(log, buf_view(body)); /* of one that is not whole some bytes may be left out */
            body->len = 0;
        }
        if (event == HTTP1_BAD && http1_error(r)->code == ERR_HEADERS)
            *flood = true;
        if (event == HTTP1_REQUEST || event == HTTP1_BEGIN)
            note(log, http1_request(r));
        usable = event != HTTP1_BAD && event != HTTP1_PREFACE &&
                 (!is_end(r, event) || http1_request(r)->keep_alive);
    }
    free(copy);
    return usable;
}

static struct buf run(const uint8_t *data, size_t size, size_t each, bool *flood)
{
    struct buf log = {0}, body = {0};
    struct http1 *r = http1_new(2048, 512);
    http1_ask(r, wants_pieces, NULL);
    for (size_t at = 0; at < size; at += each)
        if (!feed(r, &log, &body, data + at, size - at < each ? size - at : each, flood))
            break;
    http1_free(r);
    buf_fini(&body);
    return log;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    bool flood = false;
    struct buf whole = run(data + 1, size - 1, size, &flood);
    struct buf parts = run(data + 1, size - 1, (size_t)data[0] + 1, &flood);
    must(flood || str_eq(buf_view(&whole), buf_view(&parts)));
    buf_fini(&whole);
    buf_fini(&parts);
    return 0;
}
