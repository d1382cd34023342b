/* SPDX-License-Identifier: Apache-2.0 */
/* Closed loop: every connection keeps `depth` enqueue requests in progress and sends the next when
 * an answer arrives. */
#include <stdlib.h>

#include "base/alloc.h"
#include "consumers.h"
#include "load.h"
#include "request.h"

struct enqueue {
    struct crew crew;
    struct peer *peers;
    struct request_pool pool;
    size_t jobs_each; /* jobs in a request */
    uint64_t sent;    /* jobs in requests that were sent */
    uint64_t limit;   /* of sent */
    uint64_t stop_at; /* monotonic; no request starts after it */
    const char *what;
    struct hist times; /* of requests */
};

static bool wants_more(const struct enqueue *e)
{
    return e->sent < e->limit && e->crew.now < e->stop_at;
}

static void send_one(struct enqueue *e, struct peer *p)
{
    crew_request(p, request_pick(&e->pool), e->crew.now);
    e->sent += e->jobs_each;
}

static void on_answer(struct peer *p, int status, struct str body, uint64_t started)
{
    struct enqueue *e = p->owner;
    crew_expect(status, 201, body, e->what);
    size_t ids = answer_count_ids(body);
    if (ids != e->jobs_each)
        crew_fail("%s: %zu ids came back for %zu jobs: %.*s", e->what, ids, e->jobs_each,
                  (int)(body.len < 400 ? body.len : 400), body.at);
    hist_add(&e->times, e->crew.now - started);
    e->crew.done += ids;
    if (wants_more(e))
        send_one(e, p);
}

static void open_peers(struct enqueue *e, const struct load_options *o, unsigned depth)
{
    e->peers = alloc_zero(o->connections * sizeof *e->peers);
    for (size_t i = 0; i < o->connections; i++) {
        e->peers[i] = (struct peer){.on_answer = on_answer, .owner = e};
        crew_join(&e->crew, &e->peers[i], o->to, depth);
    }
}

static void start(struct enqueue *e, const struct load_options *o, unsigned depth)
{
    for (size_t i = 0; i < o->connections; i++) {
        for (unsigned d = 0; d < depth && wants_more(e); d++)
            send_one(e, &e->peers[i]);
        crew_flush(&e->peers[i]);
    }
}

static void run(struct enqueue *e, const struct load_options *o, unsigned depth,
                struct load_line *l)
{
    crew_init(&e->crew, o->timeout * 1000000000u);
    open_peers(e, o, depth);
    struct consumers consumers;
    consumers_open(&consumers, &e->crew, o);
    uint64_t began = e->crew.now = crew_clock();
    e->stop_at = o->seconds > 0 ? began + (uint64_t)(o->seconds * 1e9) : UINT64_MAX;
    e->limit = o->seconds > 0 ? UINT64_MAX : o->jobs;
    start(e, o, depth);
    while (e->crew.done < e->sent) {
        e->crew.asked = e->sent;
        crew_turn(&e->crew, UINT64_MAX);
    }
    load_pace(l, e->crew.done, e->crew.now - began);
    load_times(l, "request", &e->times);
    if (o->consumers)
        load_number(l, "events", (double)consumers.events, 0);
    consumers_close(&consumers);
    for (size_t i = 0; i < o->connections; i++)
        crew_leave(&e->peers[i]);
    free(e->peers);
    request_pool_free(&e->pool);
    crew_fini(&e->crew);
}

void enqueue_run(const struct load_options *o, struct load_line *l)
{
    struct enqueue *e = ALLOC(struct enqueue);
    e->jobs_each = 1;
    e->what = "POST /jobs";
    e->pool = request_pool_new(o, 256, 0);
    run(e, o, (unsigned)o->depth, l);
    free(e);
}

void bulk_run(const struct load_options *o, struct load_line *l)
{
    if (o->seconds <= 0 && o->jobs % o->batch != 0)
        crew_fail("--jobs must be a multiple of --batch");
    struct enqueue *e = ALLOC(struct enqueue);
    e->jobs_each = o->batch;
    e->what = "POST /jobs/bulk";
    e->pool = request_pool_new(o, 4, o->batch);
    run(e, o, (unsigned)o->depth, l);
    free(e);
}
