/* SPDX-License-Identifier: Apache-2.0 */
#include "consumers.h"

#include <stdlib.h>

#include "base/alloc.h"

/* Events are lines, heartbeats are empty ones. */
static void on_data(struct peer *p)
{
    struct consumers *s = p->owner;
    struct buf *data = &p->answer.body;
    size_t used = 0;
    const char *end;
    crew_expect(p->answer.status, 200, buf_view(data), "GET /events");
    while (used < data->len && (end = memchr(data->at + used, '\n', data->len - used))) {
        s->events += end > data->at + used;
        used = (size_t)(end - data->at) + 1;
    }
    buf_drop(data, used);
}

static void on_end(struct peer *p, int status, struct str body, uint64_t started)
{
    (void)p;
    (void)started;
    crew_fail("a stream of events ended with status %d: %.*s", status, STR_ARG(body));
}

static bool is_ready(const struct consumers *s)
{
    for (size_t i = 0; i < s->count; i++)
        if (s->peers[i].answer.state == ANSWER_IN_HEAD)
            return false;
    return true;
}

void consumers_open(struct consumers *s, struct crew *c, const struct load_options *o)
{
    struct buf request = {0};
    buf_print(&request, "GET /events HTTP/1.1\r\nHost: %s\r\n\r\n", o->to.host);
    *s = (struct consumers){.count = o->consumers};
    s->peers = alloc_zero((s->count + 1) * sizeof *s->peers);
    for (size_t i = 0; i < s->count; i++) {
        struct peer *p = &s->peers[i];
        *p = (struct peer){.on_answer = on_end, .on_stream = on_data, .owner = s};
        crew_join(c, p, o->to, 1);
        crew_request(p, buf_view(&request), c->now);
        crew_flush(p);
    }
    buf_fini(&request);
    while (!is_ready(s))
        crew_turn(c, UINT64_MAX);
}

void consumers_close(struct consumers *s)
{
    for (size_t i = 0; i < s->count; i++)
        crew_leave(&s->peers[i]);
    free(s->peers);
}
