/* SPDX-License-Identifier: Apache-2.0 */
/* Open loop: job i is due at start + i / rate, regardless of the jobs before it, and every time is
 * measured from that moment on. A server that stalls for a second is thus charged with the wait of
 * every job that became due meanwhile, not only with that of the few whose requests it held up. */
#include <inttypes.h>
#include <stdlib.h>
#include <sys/prctl.h>

#include "acks.h"
#include "base/alloc.h"
#include "base/must.h"
#include "load.h"
#include "request.h"
#include "stream.h"

#define NUMBER_LEN 10
#define QUEUE_LEN  6 /* digits of a queue's name */

struct latency {
    struct crew crew;
    const struct load_options *o;
    struct peer *peers;
    struct acks acks;
    struct buf request; /* of job 0; the number of a job is written over its zeros */
    size_t number_at, queue_at;
    uint64_t start;
    size_t next; /* of the peers */
    uint64_t sent, confirmed, delivered;
    uint8_t *seen; /* by job number: was delivered */
    struct hist confirm_times, delivery_times;
};

static const char number_key[] = "\"n\":\"";

static uint64_t due(const struct latency *t, uint64_t job)
{
    return t->start + (uint64_t)((double)job * (1e9 / t->o->rate));
}

static void make_request(struct latency *t)
{
    struct buf body = {0};
    uint64_t seed = 1;
    request_job(&body, t->o, STR(""), STR("\"n\":\"0000000000\","), &seed);
    request_write(&t->request, t->o, "POST", "/jobs", buf_view(&body));
    const char *at = memmem(t->request.at, t->request.len, number_key, sizeof number_key - 1);
    must(at != NULL);
    t->number_at = (size_t)(at - t->request.at) + sizeof number_key - 1;
    t->queue_at = t->request.len - body.len + sizeof "{\"queue\":\"-" - 1 + strlen(t->o->queue);
    buf_fini(&body);
}

static void write_digits(char *to, int count, uint64_t n)
{
    for (int i = count - 1; i >= 0; i--, n /= 10)
        to[i] = (char)('0' + n % 10);
}

/* Neighbours in time go to queues that are not neighbours. */
static void put_number(struct latency *t, uint64_t job)
{
    write_digits(t->request.at + t->number_at, NUMBER_LEN, job);
    if (t->o->queues > 1)
        write_digits(t->request.at + t->queue_at, QUEUE_LEN, job * 7919 % t->o->queues);
}

/* The number of a job gives its scheduled time. */
static void on_line(void *owner, struct str line)
{
    struct latency *t = owner;
    uint64_t job = stream_number(line);
    if (job >= t->sent || t->seen[job])
        crew_fail("job %" PRIu64 " was delivered %s", job, job < t->sent ? "twice" : "unsent");
    t->seen[job] = 1;
    t->delivered++;
    hist_add(&t->delivery_times, t->crew.now - due(t, job));
    struct str rest = line, id;
    if (!answer_next_id(&rest, &id))
        crew_fail("a line without an id: %.*s", STR_ARG(line));
    acks_add(&t->acks, id);
}

static void on_answer(struct peer *p, int status, struct str body, uint64_t started)
{
    struct latency *t = p->owner;
    crew_expect(status, 201, body, "POST /jobs");
    hist_add(&t->confirm_times, t->crew.now - started);
    t->confirmed++;
}

/* Each connection in its turn, so that none of them is idle. */
static void send_due(struct latency *t)
{
    for (size_t i = 0; i < t->o->connections; i++) {
        struct peer *p = &t->peers[t->next];
        if (t->sent == t->crew.asked || due(t, t->sent) > t->crew.now)
            return;
        t->next = t->next + 1 == t->o->connections ? 0 : t->next + 1;
        if (p->waiting)
            continue;
        put_number(t, t->sent);
        crew_request(p, buf_view(&t->request), due(t, t->sent));
        t->sent++;
        crew_flush(p);
    }
}

static void open_peers(struct latency *t)
{
    t->peers = alloc_zero(t->o->connections * sizeof *t->peers);
    for (size_t i = 0; i < t->o->connections; i++) {
        t->peers[i] = (struct peer){.on_answer = on_answer, .owner = t};
        crew_join(&t->crew, &t->peers[i], t->o->to, 1);
    }
}

static void turn(struct latency *t)
{
    send_due(t);
    /* When every connection is busy, only an answer lets the next job go. */
    bool all_busy = t->sent < t->crew.asked && due(t, t->sent) <= t->crew.now;
    bool all_sent = t->sent == t->crew.asked;
    crew_turn(&t->crew, all_busy || all_sent ? UINT64_MAX : due(t, t->sent));
    acks_pump(&t->acks);
    t->crew.done = t->acks.acked;
}

static void report(struct latency *t, struct load_line *l)
{
    load_pace(l, t->acks.acked, t->crew.now - t->start);
    load_times(l, "delivery", &t->delivery_times);
    load_times(l, "request", &t->confirm_times);
    load_times(l, "ack", &t->acks.times);
}

void latency_run(const struct load_options *o, struct load_line *l)
{
    struct latency *t = ALLOC(struct latency);
    struct streams streams = {.on_line = on_line, .owner = t};
    t->o = o;
    prctl(PR_SET_TIMERSLACK, 1UL); /* otherwise each wake-up would be up to 50 us late */
    crew_init(&t->crew, o->timeout * 1000000000u);
    t->crew.asked = o->seconds > 0 ? (uint64_t)(o->seconds * o->rate) : o->jobs;
    t->seen = alloc_zero(t->crew.asked);
    make_request(t);
    open_peers(t);
    acks_init(&t->acks, &t->crew, o);
    streams_open(&streams, &t->crew, o);
    while (!streams_ready(&streams))
        crew_turn(&t->crew, UINT64_MAX);
    t->start = t->crew.now = crew_clock();
    while (t->acks.acked < t->crew.asked || t->confirmed < t->crew.asked)
        turn(t);
    report(t, l);
    for (size_t i = 0; i < o->connections; i++)
        crew_leave(&t->peers[i]);
    free(t->peers);
    streams_close(&streams);
    acks_fini(&t->acks);
    buf_fini(&t->request);
    free(t->seen);
    crew_fini(&t->crew);
    free(t);
}
