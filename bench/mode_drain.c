/* SPDX-License-Identifier: Apache-2.0 */
/* Empties a queue: by take streams with success reports beside them, or by claims, each followed by
 * the report about its jobs. */
#include <inttypes.h>
#include <stdlib.h>

#include "acks.h"
#include "base/alloc.h"
#include "load.h"
#include "request.h"
#include "stream.h"

struct drain {
    struct crew crew;
    struct acks acks;
};

static void on_line(void *owner, struct str line)
{
    struct drain *d = owner;
    struct str rest = line, id;
    if (!answer_next_id(&rest, &id))
        crew_fail("a line without an id: %.*s", STR_ARG(line));
    acks_add(&d->acks, id);
}

void drain_run(const struct load_options *o, struct load_line *l)
{
    struct drain *d = ALLOC(struct drain);
    struct streams streams = {.on_line = on_line, .owner = d};
    crew_init(&d->crew, o->timeout * 1000000000u);
    d->crew.asked = o->jobs;
    acks_init(&d->acks, &d->crew, o);
    uint64_t began = crew_clock();
    streams_open(&streams, &d->crew, o);
    while (d->acks.acked < o->jobs) {
        crew_turn(&d->crew, UINT64_MAX);
        acks_pump(&d->acks);
        d->crew.done = d->acks.acked;
    }
    if (d->acks.added != o->jobs)
        crew_fail("%" PRIu64 " jobs were delivered, not %" PRIu64, d->acks.added, o->jobs);
    load_pace(l, d->acks.acked, d->crew.now - began);
    load_times(l, "request", &d->acks.times);
    streams_close(&streams);
    acks_fini(&d->acks);
    crew_fini(&d->crew);
    free(d);
}

/* A claim run. Each connection alternates between a claim and its report. */
struct claims {
    struct crew crew;
    const struct load_options *o;
    struct peer *peers;
    struct buf runs, request, body; /* runs: {"id":…,"token":…}, for each, comma included */
    uint64_t promised;              /* jobs claimed, and jobs requested by claims in progress */
    struct hist claim_times, ack_times;
};

static void send_claim(struct claims *c, struct peer *p)
{
    uint64_t missing = c->o->jobs - c->promised;
    uint64_t n = missing < c->o->batch ? missing : c->o->batch;
    if (n == 0)
        return;
    c->promised += n;
    c->body.len = c->request.len = 0;
    buf_print(&c->body,
              "{\"queues\":[\"%s\"],\"count\":%" PRIu64
              ",\"lease_ms\":30000,\"worker\":\"load\",\"wait_ms\":0}",
              c->o->queue, n);
    request_write(&c->request, c->o, "POST", "/jobs/claim", buf_view(&c->body));
    p->tag = n;
    crew_request(p, buf_view(&c->request), c->crew.now);
}

static size_t gather_runs(struct claims *c, struct str body)
{
    size_t n = 0;
    struct str id, token;
    c->runs.len = 0;
    for (; answer_next_id(&body, &id); n++) {
        if (id.len != ACKS_ID_LEN || !answer_next_token(&body, &token))
            crew_fail("not an id of %d characters, or no token: %.*s", ACKS_ID_LEN, STR_ARG(id));
        buf_print(&c->runs, "{\"id\":\"%.*s\",\"token\":\"%.*s\"},", STR_ARG(id), STR_ARG(token));
    }
    return n;
}

static void write_report(struct claims *c)
{
    c->body.len = c->request.len = 0;
    buf_lit(&c->body, "{\"jobs\":[");
    buf_add(&c->body, c->runs.at, c->runs.len - 1); /* no comma after the last */
    buf_lit(&c->body, "]}");
    request_write(&c->request, c->o, "POST", "/jobs/success", buf_view(&c->body));
}

static void on_acked(struct peer *p, int status, struct str body, uint64_t started);

static void on_claimed(struct peer *p, int status, struct str body, uint64_t started)
{
    struct claims *c = p->owner;
    crew_expect(status, 200, body, "POST /jobs/claim");
    hist_add(&c->claim_times, c->crew.now - started);
    size_t n = gather_runs(c, body);
    if (n == 0 || n > p->tag)
        crew_fail("a claim of %zu jobs brought %zu, with %" PRIu64 " of %" PRIu64 " jobs done",
                  p->tag, n, c->crew.done, c->crew.asked);
    c->promised -= p->tag - n;
    p->tag = n;
    p->on_answer = on_acked;
    write_report(c);
    crew_request(p, buf_view(&c->request), c->crew.now);
}

static void on_acked(struct peer *p, int status, struct str body, uint64_t started)
{
    struct claims *c = p->owner;
    crew_expect(status, 204, body, "POST /jobs/success");
    hist_add(&c->ack_times, c->crew.now - started);
    c->crew.done += p->tag;
    p->on_answer = on_claimed;
    send_claim(c, p);
}

static void claims_fini(struct claims *c)
{
    for (size_t i = 0; i < c->o->ackers; i++)
        crew_leave(&c->peers[i]);
    free(c->peers);
    buf_fini(&c->runs);
    buf_fini(&c->request);
    buf_fini(&c->body);
    crew_fini(&c->crew);
}

void claim_run(const struct load_options *o, struct load_line *l)
{
    struct claims *c = ALLOC(struct claims);
    c->o = o;
    crew_init(&c->crew, o->timeout * 1000000000u);
    c->crew.asked = o->jobs;
    c->peers = alloc_zero(o->ackers * sizeof *c->peers);
    for (size_t i = 0; i < o->ackers; i++) {
        c->peers[i] = (struct peer){.on_answer = on_claimed, .owner = c};
        crew_join(&c->crew, &c->peers[i], o->to, 1);
    }
    uint64_t began = c->crew.now = crew_clock();
    for (size_t i = 0; i < o->ackers; i++) {
        send_claim(c, &c->peers[i]);
        crew_flush(&c->peers[i]);
    }
    while (c->crew.done < o->jobs)
        crew_turn(&c->crew, UINT64_MAX);
    load_pace(l, c->crew.done, c->crew.now - began);
    load_times(l, "request", &c->claim_times);
    load_times(l, "ack", &c->ack_times);
    claims_fini(c);
    free(c);
}
