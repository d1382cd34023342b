/* SPDX-License-Identifier: Apache-2.0 */
#include "acks.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "request.h"

#define ENTRY (ACKS_ID_LEN + 3)

static void on_answer(struct peer *p, int status, struct str body, uint64_t started)
{
    struct acks *a = p->owner;
    crew_expect(status, 204, body, "the report of success");
    hist_add(&a->times, a->crew->now - started);
    a->acked += p->tag;
    a->running--;
}

void acks_init(struct acks *a, struct crew *c, const struct load_options *o)
{
    a->o = o;
    a->crew = c;
    a->peers = alloc_zero(o->ackers * sizeof *a->peers);
    for (size_t i = 0; i < o->ackers; i++) {
        a->peers[i] = (struct peer){.on_answer = on_answer, .owner = a};
        crew_join(c, &a->peers[i], o->to, 1);
    }
}

void acks_fini(struct acks *a)
{
    for (size_t i = 0; i < a->o->ackers; i++)
        crew_leave(&a->peers[i]);
    free(a->peers);
    buf_fini(&a->pending);
}

void acks_add(struct acks *a, struct str id)
{
    if (id.len != ACKS_ID_LEN)
        crew_fail("not an id of %d characters: %.*s", ACKS_ID_LEN, STR_ARG(id));
    buf_byte(&a->pending, '"');
    buf_str(&a->pending, id);
    buf_lit(&a->pending, "\",");
    a->added++;
}

static void write_single(struct buf *out, const struct load_options *o, struct str pending)
{
    buf_print(out, "POST /jobs/%.*s/success HTTP/1.1\r\nHost: %s\r\nContent-Length: 0\r\n\r\n",
              ACKS_ID_LEN, pending.at + 1, o->to.host);
}

/* A report of the first n ids of `pending`. */
static void write_many(struct buf *out, const struct load_options *o, struct str pending, size_t n)
{
    const size_t frame = sizeof "{\"ids\":[]}" - 1;
    size_t ids = n * ENTRY - 1; /* no comma after the last */
    buf_print(out,
              "POST /jobs/success HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\n"
              "Content-Length: %zu\r\n\r\n{\"ids\":[",
              o->to.host, frame + ids);
    buf_add(out, pending.at, ids);
    buf_lit(out, "]}");
}

static void send_some(struct acks *a, struct peer *p, size_t n)
{
    struct buf request = {0};
    if (a->o->acks == 1)
        write_single(&request, a->o, buf_view(&a->pending));
    else
        write_many(&request, a->o, buf_view(&a->pending), n);
    p->tag = n;
    a->running++;
    crew_request(p, buf_view(&request), a->crew->now);
    crew_flush(p);
    buf_drop(&a->pending, n * ENTRY);
    buf_fini(&request);
}

void acks_pump(struct acks *a)
{
    for (size_t i = 0; i < a->o->ackers; i++) {
        size_t n = a->pending.len / ENTRY;
        if (n > a->o->acks)
            n = a->o->acks;
        if (n == 0 || (n < a->o->acks && a->running))
            return;
        if (a->peers[i].waiting == 0)
            send_some(a, &a->peers[i], n);
    }
}
