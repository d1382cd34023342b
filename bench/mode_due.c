/* SPDX-License-Identifier: Apache-2.0 */
/* Fills the server with scheduled jobs, of which `rate` per second become due during a window of
 * `seconds`, and measures how late those are delivered: from ready_at to the arrival of the line,
 * both by this machine's wall clock. All others are due long after the run; they are there to be
 * skipped. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "acks.h"
#include "base/alloc.h"
#include "load.h"
#include "request.h"
#include "stream.h"

#define WINDOW_DEFAULT 10.0 /* seconds */
/* The others are due this long after the window, spread over the same time again. */
#define LATER_MS ((uint64_t)24 * 3600 * 1000)
/* From the first request that fills in jobs of the window to the window itself: a second, and
 * another for each 10,000 jobs, the pace of a slow server. */
#define LEAD_MS          1000
#define LEAD_JOBS_PER_MS 10

struct due {
    struct crew crew;
    const struct load_options *o;
    struct peer *peers;
    struct acks acks;
    struct buf request, body;
    uint64_t window_jobs;  /* the numbers from 0 become due in the window */
    uint64_t start_ms;     /* of the window, wall clock */
    uint64_t clock_offset; /* ns from the monotonic clock to the wall clock */
    uint64_t next, end;    /* numbers to fill in */
    uint64_t seed;
    uint8_t *seen; /* by job number: was delivered */
    struct hist late_times;
};

static uint64_t wall_offset(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec - crew_clock();
}

static uint64_t wall_ns(const struct due *d)
{
    return d->crew.now + d->clock_offset;
}

static uint64_t ready_ms(const struct due *d, uint64_t job)
{
    if (job < d->window_jobs)
        return d->start_ms + (uint64_t)((double)job * (1e3 / d->o->rate));
    uint64_t window_ms = (uint64_t)((double)d->window_jobs * (1e3 / d->o->rate));
    return d->start_ms + window_ms + LATER_MS + job * 7919 % LATER_MS;
}

static void add_job(struct due *d, uint64_t job)
{
    char fields[48], first[32];
    int fields_len = snprintf(fields, sizeof fields, "\"ready_at\":%" PRIu64 ",", ready_ms(d, job));
    int first_len = snprintf(first, sizeof first, "\"n\":\"%010" PRIu64 "\",", job);
    request_job(&d->body, d->o, (struct str){fields, (size_t)fields_len},
                (struct str){first, (size_t)first_len}, &d->seed);
}

static void send_bulk(struct due *d, struct peer *p)
{
    uint64_t left = d->end - d->next;
    size_t n = (size_t)(left < d->o->batch ? left : d->o->batch);
    if (n == 0)
        return;
    d->body.len = d->request.len = 0;
    buf_lit(&d->body, "{\"jobs\":[");
    for (size_t i = 0; i < n; i++) {
        if (i)
            buf_byte(&d->body, ',');
        add_job(d, d->next++);
    }
    buf_lit(&d->body, "]}");
    request_write(&d->request, d->o, "POST", "/jobs/bulk", buf_view(&d->body));
    p->tag = n;
    crew_request(p, buf_view(&d->request), d->crew.now);
}

static void on_filled(struct peer *p, int status, struct str body, uint64_t started)
{
    struct due *d = p->owner;
    (void)started;
    crew_expect(status, 201, body, "POST /jobs/bulk");
    if (answer_count_ids(body) != p->tag)
        crew_fail("%zu ids came back for %zu jobs", answer_count_ids(body), p->tag);
    d->crew.done += p->tag;
    send_bulk(d, p);
}

static void fill(struct due *d, uint64_t from, uint64_t end)
{
    uint64_t wanted = d->crew.done + (end - from);
    d->next = from;
    d->end = end;
    for (size_t i = 0; i < d->o->ackers; i++) {
        send_bulk(d, &d->peers[i]);
        crew_flush(&d->peers[i]);
    }
    while (d->crew.done < wanted)
        crew_turn(&d->crew, UINT64_MAX);
}

/* The jobs of the window come last, because only then it is known when it can begin. */
static void fill_all(struct due *d)
{
    d->peers = alloc_zero(d->o->ackers * sizeof *d->peers);
    for (size_t i = 0; i < d->o->ackers; i++) {
        d->peers[i] = (struct peer){.on_answer = on_filled, .owner = d};
        crew_join(&d->crew, &d->peers[i], d->o->to, 1);
    }
    d->start_ms = wall_ns(d) / 1000000;
    fill(d, d->window_jobs, d->o->jobs);
    d->start_ms = wall_ns(d) / 1000000 + LEAD_MS + d->window_jobs / LEAD_JOBS_PER_MS;
    fill(d, 0, d->window_jobs);
    for (size_t i = 0; i < d->o->ackers; i++)
        crew_leave(&d->peers[i]);
    free(d->peers);
}

static void on_line(void *owner, struct str line)
{
    struct due *d = owner;
    uint64_t job = stream_number(line), now = wall_ns(d);
    if (job >= d->window_jobs || d->seen[job])
        crew_fail("job %" PRIu64 " was delivered %s", job,
                  job < d->window_jobs ? "twice" : "a day early");
    d->seen[job] = 1;
    uint64_t ready = ready_ms(d, job) * 1000000;
    if (now < ready)
        crew_fail("job %" PRIu64 " was delivered %.3f ms early", job, (double)(ready - now) / 1e6);
    hist_add(&d->late_times, now - ready);
    struct str rest = line, id;
    if (!answer_next_id(&rest, &id))
        crew_fail("a line without an id: %.*s", STR_ARG(line));
    acks_add(&d->acks, id);
}

static void watch_window(struct due *d, struct load_line *l)
{
    struct streams streams = {.on_line = on_line, .owner = d};
    acks_init(&d->acks, &d->crew, d->o);
    streams_open(&streams, &d->crew, d->o);
    while (!streams_ready(&streams))
        crew_turn(&d->crew, UINT64_MAX);
    if (wall_ns(d) >= d->start_ms * 1000000)
        crew_fail("filling in the jobs of the window took until it began");
    d->crew.asked = d->window_jobs;
    while (d->acks.acked < d->window_jobs) {
        crew_turn(&d->crew, UINT64_MAX);
        acks_pump(&d->acks);
        d->crew.done = d->acks.acked;
    }
    load_pace(l, d->acks.acked, wall_ns(d) - d->start_ms * 1000000);
    load_times(l, "late", &d->late_times);
    load_times(l, "ack", &d->acks.times);
    streams_close(&streams);
    acks_fini(&d->acks);
}

void due_run(const struct load_options *o, struct load_line *l)
{
    struct due *d = ALLOC(struct due);
    d->o = o;
    d->seed = 1;
    d->window_jobs = (uint64_t)((o->seconds > 0 ? o->seconds : WINDOW_DEFAULT) * o->rate);
    if (d->window_jobs > o->jobs)
        crew_fail("--jobs is less than the %" PRIu64 " that fall due", d->window_jobs);
    d->seen = alloc_zero(d->window_jobs);
    d->clock_offset = wall_offset();
    crew_init(&d->crew, o->timeout * 1000000000u);
    d->crew.asked = o->jobs;
    fill_all(d);
    watch_window(d, l);
    buf_fini(&d->request);
    buf_fini(&d->body);
    free(d->seen);
    crew_fini(&d->crew);
    free(d);
}
