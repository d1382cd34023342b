/* SPDX-License-Identifier: Apache-2.0 */

/* What front and back send each other. */

#include "base/array.h"
#include "base/must.h"
#include "net/http_headers.h"
#include "net/relay_internal.h"

#define ALIGN 8

static size_t rounded(size_t n)
{
    return (n + ALIGN - 1) / ALIGN * ALIGN;
}

static char *copy(char *to, struct str s)
{
    if (s.len)
        memcpy(to, s.at, s.len);
    return to + s.len;
}

void relay_add(struct buf *to, struct relay_message *m)
{
    m->size = sizeof *m;
    for (size_t i = 0; i < COUNT(m->texts); i++)
        m->size += m->texts[i].len;
    m->size = rounded(m->size);
    char *at = buf_room(to, m->size);
    to->len += m->size;
    memcpy(at, m, sizeof *m);
    at += sizeof *m;
    for (size_t i = 0; i < COUNT(m->texts); i++)
        at = copy(at, m->texts[i]);
}

struct relay_message *relay_at(const struct buf *in, size_t at)
{
    struct relay_message *m = (struct relay_message *)(void *)(in->at + at);
    must(at + sizeof *m <= in->len && at + m->size <= in->len);
    const char *text = (const char *)(m + 1);
    for (size_t i = 0; i < COUNT(m->texts); i++) {
        if (m->texts[i].at)
            m->texts[i].at = text;
        text += m->texts[i].len;
    }
    return m;
}

/* --- requests --- */

#define SPANS (3 + HTTP_HEADERS)

static struct str *span_of(struct http_request *q, unsigned i)
{
    return i == 0   ? &q->path
           : i == 1 ? &q->query
           : i == 2 ? &q->body
                    : http_header_value(q, (enum http_header)(i - 3));
}

/* The request's own bytes first, then those that its spans are. */
void relay_add_request(struct buf *to, struct relay_message *m, const struct http_request *req)
{
    struct http_request q = *req;
    m->size = sizeof *m + rounded(sizeof q);
    for (unsigned i = 0; i < SPANS; i++)
        m->size += span_of(&q, i)->len;
    m->size = rounded(m->size);
    char *at = buf_room(to, m->size);
    to->len += m->size;
    memcpy(at, m, sizeof *m);
    at += sizeof *m;
    memcpy(at, &q, sizeof q);
    at += rounded(sizeof q);
    for (unsigned i = 0; i < SPANS; i++)
        at = copy(at, *span_of(&q, i));
}

struct http_request relay_request(const struct relay_message *m)
{
    struct http_request q;
    const char *at = (const char *)(m + 1);
    memcpy(&q, at, sizeof q);
    at += rounded(sizeof q);
    for (unsigned i = 0; i < SPANS; i++) {
        struct str *s = span_of(&q, i);
        if (s->at)
            s->at = at;
        at += s->len;
    }
    q.arena = NULL;
    return q;
}
