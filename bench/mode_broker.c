/* SPDX-License-Identifier: Apache-2.0 */
/* The loads that other queues are given as Tenax is: a closed loop of puts, and an open loop from
 * put to delivery, as in mode_latency.c. */
#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/must.h"
#include "broker.h"
#include "request.h"
#include "stream.h"

#define EVENTS     256
#define READ_ROOM  ((size_t)64 << 10)
#define POOL       256 /* payloads */
#define NUMBER_LEN 10

static const struct broker_kind *const kinds[] = {
    &broker_beanstalkd,
    &broker_redis,
    &broker_rabbitmq_quorum,
    &broker_rabbitmq_classic,
};

/* ---- links ---- */

int broker_socket(const struct load_options *o)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)o->to.port)};
    if (inet_pton(AF_INET, o->to.host, &to.sin_addr) != 1)
        crew_fail("%s is not an IPv4 address", o->to.host);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
    if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof to) != 0)
        crew_fail("cannot connect to %s:%d: %m", o->to.host, o->to.port);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return fd;
}

/* Waits for room in the socket. What the peer has sent meanwhile is bounded by the puts that are
 * without a confirmation, and fits into its buffers: neither waits for the other for ever. */
void broker_flush(struct broker_link *l)
{
    size_t sent = 0;
    while (sent < l->out.len) {
        ssize_t n = send(l->fd, l->out.at + sent, l->out.len - sent, MSG_NOSIGNAL);
        if (n < 0 && errno != EINTR)
            crew_fail("%s: send: %m", l->kind->name);
        sent += n > 0 ? (size_t)n : 0;
    }
    l->out.len = 0;
}

bool broker_read(struct broker_link *l)
{
    char *room = buf_room(&l->in, READ_ROOM);
    ssize_t n = recv(l->fd, room, READ_ROOM, 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    if (n <= 0)
        crew_fail("%s closed a connection with %u puts waiting: %m", l->kind->name, l->waiting);
    l->in.len += (size_t)n;
    l->broker->now = crew_clock();
    return true;
}

void broker_stored(struct broker_link *l, uint64_t number)
{
    if (number < l->oldest || number > l->puts || !l->started[number % BROKER_UNCONFIRMED])
        crew_fail("%s confirmed put %" PRIu64 " of %" PRIu64 ", which waits for nothing",
                  l->kind->name, number, l->puts);
    uint64_t started = l->started[number % BROKER_UNCONFIRMED];
    l->started[number % BROKER_UNCONFIRMED] = 0;
    while (l->oldest <= l->puts && !l->started[l->oldest % BROKER_UNCONFIRMED])
        l->oldest++;
    l->waiting--;
    l->broker->stored++;
    l->broker->on_stored(l, started);
}

void broker_stored_up_to(struct broker_link *l, uint64_t number)
{
    /* on_stored puts more, with numbers beyond this one. */
    for (uint64_t n = l->oldest; n <= number; n++)
        if (l->started[n % BROKER_UNCONFIRMED])
            broker_stored(l, n);
}

void broker_job(struct broker_link *l, struct str payload)
{
    l->broker->jobs++;
    l->broker->on_job(l->broker, payload);
}

static bool has_room(const struct broker_link *l)
{
    return l->puts - l->oldest + 1 < BROKER_UNCONFIRMED;
}

static void put(struct broker_link *l, struct str payload, uint64_t started)
{
    must(has_room(l));
    l->puts++;
    l->waiting++;
    l->started[l->puts % BROKER_UNCONFIRMED] = started;
    l->broker->sent++;
    l->kind->put(l, payload);
}

static const struct broker_kind *find_kind(const struct load_options *o)
{
    for (size_t i = 0; i < COUNT(kinds); i++)
        if (o->broker && strcmp(kinds[i]->name, o->broker) == 0)
            return kinds[i];
    crew_fail("--broker: beanstalkd, redis, rabbitmq-quorum or rabbitmq-classic, not %s",
              o->broker ? o->broker : "nothing");
}

static struct broker_link *open_links(struct broker *b, uint64_t count)
{
    struct broker_link *links = alloc_zero(count * sizeof *links);
    for (size_t i = 0; i < count; i++) {
        struct broker_link *l = &links[i];
        *l = (struct broker_link){.kind = find_kind(b->o), .broker = b, .oldest = 1};
        l->kind->open(l);
        struct epoll_event ev = {.events = EPOLLIN, .data.ptr = l};
        if (epoll_ctl(b->epoll, EPOLL_CTL_ADD, l->fd, &ev) != 0)
            crew_fail("epoll_ctl: %m");
    }
    return links;
}

static void close_links(struct broker_link *links, uint64_t count)
{
    for (size_t i = 0; i < count; i++) {
        links[i].kind->close(&links[i]);
        buf_fini(&links[i].in);
        buf_fini(&links[i].out);
    }
    free(links);
}

static uint64_t count_waiting(struct broker *b)
{
    struct broker_link *l = open_links(b, 1);
    uint64_t n = l->kind->count(l);
    close_links(l, 1);
    return n;
}

static void broker_init(struct broker *b, const struct load_options *o)
{
    b->o = o;
    b->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (b->epoll < 0)
        crew_fail("epoll_create1: %m");
    b->now = crew_clock();
    b->deadline = b->now + o->timeout * 1000000000u;
}

/* Waits until something happens, or until the monotonic time `until`, and handles it. */
static void turn(struct broker *b, uint64_t until)
{
    struct epoll_event events[EVENTS];
    b->now = crew_clock();
    if (b->now >= b->deadline)
        crew_fail("out of time with %" PRIu64 " puts sent, %" PRIu64 " stored, %" PRIu64
                  " delivered",
                  b->sent, b->stored, b->jobs);
    if (until > b->deadline)
        until = b->deadline;
    uint64_t wait = until > b->now ? until - b->now : 0;
    struct timespec span = {(time_t)(wait / 1000000000u), (long)(wait % 1000000000u)};
    int n = epoll_pwait2(b->epoll, events, EVENTS, &span, NULL);
    if (n < 0 && errno != EINTR)
        crew_fail("epoll_pwait2: %m");
    b->now = crew_clock();
    for (int i = 0; i < n; i++) {
        struct broker_link *l = events[i].data.ptr;
        l->kind->receive(l);
        broker_flush(l);
    }
}

/* ---- a closed loop of puts ---- */

struct puts {
    struct broker b;
    struct buf payloads[POOL];
    uint64_t limit, stop_at;
    struct hist times;
};

static bool wants_more(const struct puts *p)
{
    return p->b.sent < p->limit && p->b.now < p->stop_at;
}

static void put_next(struct puts *p, struct broker_link *l)
{
    put(l, buf_view(&p->payloads[p->b.sent % POOL]), p->b.now);
}

static void on_put_stored(struct broker_link *l, uint64_t started)
{
    struct puts *p = l->broker->owner;
    hist_add(&p->times, p->b.now - started);
    while (wants_more(p) && l->waiting < p->b.o->depth && has_room(l))
        put_next(p, l);
}

static void run_puts(struct puts *p, const struct load_options *o, struct load_line *l)
{
    struct broker_link *links = open_links(&p->b, o->connections);
    uint64_t began = p->b.now = crew_clock();
    p->stop_at = o->seconds > 0 ? began + (uint64_t)(o->seconds * 1e9) : UINT64_MAX;
    p->limit = o->seconds > 0 ? UINT64_MAX : o->jobs;
    for (size_t i = 0; i < o->connections; i++) {
        for (unsigned d = 0; d < o->depth && wants_more(p); d++)
            put_next(p, &links[i]);
        broker_flush(&links[i]);
    }
    while (p->b.stored < p->b.sent)
        turn(&p->b, UINT64_MAX);
    load_pace(l, p->b.stored, p->b.now - began);
    load_times(l, "request", &p->times);
    close_links(links, o->connections);
}

void broker_put_run(const struct load_options *o, struct load_line *l)
{
    struct puts *p = ALLOC(struct puts);
    uint64_t seed = 1;
    for (size_t i = 0; i < POOL; i++)
        request_payload(&p->payloads[i], o, STR(""), &seed);
    broker_init(&p->b, o);
    p->b.owner = p;
    p->b.on_stored = on_put_stored;
    uint64_t before = count_waiting(&p->b);
    run_puts(p, o, l);
    uint64_t after = count_waiting(&p->b);
    if (after != before + p->b.stored)
        crew_fail("%s counts %" PRIu64 " jobs, not %" PRIu64, o->broker, after,
                  before + p->b.stored);
    for (size_t i = 0; i < POOL; i++)
        buf_fini(&p->payloads[i]);
    close(p->b.epoll);
    free(p);
}

/* ---- an open loop, from put to delivery ---- */

struct paced {
    struct broker b;
    struct broker_link *producers, *consumers;
    struct buf payload; /* of job 0; the number of a job is written over its zeros */
    uint64_t asked, start;
    size_t next; /* of the producers */
    uint8_t *seen;
    struct hist store_times, delivery_times;
};

static const char number_member[] = "\"n\":\"0000000000\",";

static uint64_t due(const struct paced *p, uint64_t job)
{
    return p->start + (uint64_t)((double)job * (1e9 / p->b.o->rate));
}

static void put_number(struct paced *p, uint64_t job)
{
    char *to = p->payload.at + sizeof "{\"n\":\"" - 1;
    for (int i = NUMBER_LEN - 1; i >= 0; i--, job /= 10)
        to[i] = (char)('0' + job % 10);
}

static void on_paced_stored(struct broker_link *l, uint64_t started)
{
    struct paced *p = l->broker->owner;
    hist_add(&p->store_times, p->b.now - started);
}

static void on_paced_job(struct broker *b, struct str payload)
{
    struct paced *p = b->owner;
    uint64_t job = stream_number(payload);
    if (job >= b->sent || p->seen[job])
        crew_fail("job %" PRIu64 " was delivered %s", job, job < b->sent ? "twice" : "unsent");
    p->seen[job] = 1;
    hist_add(&p->delivery_times, b->now - due(p, job));
}

/* A producer that waits for nothing, those after the last one first. */
static struct broker_link *idle_producer(struct paced *p)
{
    for (size_t i = 0; i < p->b.o->connections; i++) {
        struct broker_link *l = &p->producers[p->next];
        p->next = (p->next + 1) % p->b.o->connections;
        if (l->waiting == 0)
            return l;
    }
    return NULL;
}

/* False: every producer is busy, and only a confirmation lets the next job go. */
static bool put_due(struct paced *p)
{
    while (p->b.sent < p->asked && due(p, p->b.sent) <= p->b.now) {
        struct broker_link *l = idle_producer(p);
        if (!l)
            return false;
        uint64_t job = p->b.sent;
        put_number(p, job);
        put(l, buf_view(&p->payload), due(p, job));
        broker_flush(l);
    }
    return true;
}

static void run_paced(struct paced *p)
{
    p->start = p->b.now = crew_clock();
    while (p->b.deleted < p->asked || p->b.stored < p->asked) {
        bool waits = put_due(p) && p->b.sent < p->asked;
        turn(&p->b, waits ? due(p, p->b.sent) : UINT64_MAX);
    }
}

void broker_latency_run(const struct load_options *o, struct load_line *l)
{
    struct paced *p = ALLOC(struct paced);
    uint64_t seed = 1;
    prctl(PR_SET_TIMERSLACK, 1UL); /* otherwise each wake-up would be up to 50 us late */
    broker_init(&p->b, o);
    p->b.owner = p;
    p->b.on_stored = on_paced_stored;
    p->b.on_job = on_paced_job;
    p->asked = o->seconds > 0 ? (uint64_t)(o->seconds * o->rate) : o->jobs;
    p->seen = alloc_zero(p->asked);
    request_payload(&p->payload, o, STR(number_member), &seed);
    p->producers = open_links(&p->b, o->connections);
    p->consumers = open_links(&p->b, o->streams);
    for (size_t i = 0; i < o->streams; i++)
        p->consumers[i].kind->consume(&p->consumers[i]);
    run_paced(p);
    load_pace(l, p->b.deleted, p->b.now - p->start);
    load_times(l, "delivery", &p->delivery_times);
    load_times(l, "request", &p->store_times);
    close_links(p->producers, o->connections);
    close_links(p->consumers, o->streams);
    buf_fini(&p->payload);
    free(p->seen);
    close(p->b.epoll);
    free(p);
}
