/* SPDX-License-Identifier: Apache-2.0 */
#include "stream.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/alloc.h"

static void on_data(struct peer *p)
{
    struct streams *s = p->owner;
    struct buf *data = &p->answer.body;
    crew_expect(p->answer.status, 200, buf_view(data), "GET /jobs/take");
    size_t used = 0;
    const char *end;
    while (used < data->len && (end = memchr(data->at + used, '\n', data->len - used))) {
        struct str line = {data->at + used, (size_t)(end - (data->at + used))};
        used += line.len + 1;
        if (line.len && line.at[line.len - 1] == '\r')
            line.len--;
        if (line.len) /* an empty line is a heartbeat */
            s->on_line(s->owner, line);
    }
    buf_drop(data, used);
}

static void on_end(struct peer *p, int status, struct str body, uint64_t started)
{
    (void)p;
    (void)started;
    crew_fail("a take stream ended with status %d: %.*s", status, STR_ARG(body));
}

void streams_open(struct streams *s, struct crew *c, const struct load_options *o)
{
    struct buf request = {0};
    buf_lit(&request, "GET /jobs/take?");
    if (o->queues <= 1)
        buf_print(&request, "queue=%s&", o->queue);
    buf_print(&request,
              "prefetch=%" PRIu64 " HTTP/1.1\r\nHost: %s\r\n"
              "Accept: application/x-ndjson\r\n\r\n",
              o->prefetch, o->to.host);
    s->count = o->streams;
    s->peers = alloc_zero(s->count * sizeof *s->peers);
    for (size_t i = 0; i < s->count; i++) {
        struct peer *p = &s->peers[i];
        *p = (struct peer){.on_answer = on_end, .on_stream = on_data, .owner = s};
        crew_join(c, p, o->to, 1);
        crew_request(p, buf_view(&request), c->now);
        crew_flush(p);
    }
    buf_fini(&request);
}

bool streams_ready(const struct streams *s)
{
    for (size_t i = 0; i < s->count; i++)
        if (s->peers[i].answer.state == ANSWER_IN_HEAD)
            return false;
    return true;
}

void streams_close(struct streams *s)
{
    for (size_t i = 0; i < s->count; i++)
        crew_leave(&s->peers[i]);
    free(s->peers);
}

uint64_t stream_number(struct str line)
{
    const char *at = memmem(line.at, line.len, "\"n\"", 3);
    const char *end = line.at + line.len;
    if (!at)
        crew_fail("a line without its number: %.*s", STR_ARG(line));
    for (at += 3; at < end && (*at < '0' || *at > '9');)
        at++;
    uint64_t n = 0;
    for (; at < end && *at >= '0' && *at <= '9'; at++)
        n = n * 10 + (uint64_t)(*at - '0');
    return n;
}
