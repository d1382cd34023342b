/* SPDX-License-Identifier: Apache-2.0 */
#include "crew.h"

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/must.h"
#include "secure.h"

#define READ_ROOM  ((size_t)128 << 10)
#define BODY_SHOWN 2000
#define EVENTS     256

void crew_fail(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    fputs("load: ", stderr);
    vfprintf(stderr, fmt, ap);
    fputc('\n', stderr);
    va_end(ap);
    exit(1);
}

uint64_t crew_clock(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

void crew_expect(int status, int wanted, struct str body, const char *what)
{
    if (__builtin_expect(status == wanted, 1))
        return;
    if (body.len > BODY_SHOWN)
        body.len = BODY_SHOWN;
    crew_fail("%s was answered %d, not %d: %.*s", what, status, wanted, STR_ARG(body));
}

void crew_init(struct crew *c, uint64_t timeout_ns)
{
    c->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (c->epoll < 0)
        crew_fail("epoll_create1: %m");
    c->now = crew_clock();
    c->deadline = c->now + timeout_ns;
}

void crew_fini(struct crew *c)
{
    close(c->epoll);
}

static int connect_to(struct crew_address to)
{
    struct sockaddr_in sin = {.sin_family = AF_INET, .sin_port = htons((uint16_t)to.port)};
    if (inet_pton(AF_INET, to.host, &sin.sin_addr) != 1)
        crew_fail("%s is not an IPv4 address", to.host);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&sin, sizeof sin) != 0)
        crew_fail("cannot connect to %s:%d: %m", to.host, to.port);
    int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return fd;
}

static void watch(struct peer *p, int op, uint32_t events)
{
    struct epoll_event ev = {.events = events, .data.ptr = p};
    if (epoll_ctl(p->crew->epoll, op, p->fd, &ev) != 0)
        crew_fail("epoll_ctl: %m");
}

void crew_join(struct crew *c, struct peer *p, struct crew_address to, unsigned depth)
{
    p->crew = c;
    p->fd = connect_to(to);
    p->tls = to.tls ? secure_start(p->fd) : NULL;
    p->depth = depth;
    p->started = alloc_zero(depth * sizeof *p->started);
    watch(p, EPOLL_CTL_ADD, EPOLLIN);
}

void crew_leave(struct peer *p)
{
    if (p->tls)
        secure_end(p->tls);
    close(p->fd);
    buf_fini(&p->in);
    buf_fini(&p->out);
    answer_fini(&p->answer);
    free(p->started);
}

void crew_request(struct peer *p, struct str bytes, uint64_t started)
{
    must(p->waiting < p->depth);
    p->started[(p->first + p->waiting++) % p->depth] = started;
    buf_str(&p->out, bytes);
}

void crew_flush(struct peer *p)
{
    if (p->writing || p->out.len == 0)
        return;
    ssize_t n = p->tls ? secure_send(p->tls, p->out.at, p->out.len)
                       : send(p->fd, p->out.at, p->out.len, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && errno != EAGAIN)
        crew_fail("send: %m");
    if (n > 0)
        buf_drop(&p->out, (size_t)n);
    if (p->out.len) {
        p->writing = true;
        watch(p, EPOLL_CTL_MOD, EPOLLIN | EPOLLOUT);
    }
}

static void deliver(struct peer *p)
{
    if (p->waiting == 0)
        crew_fail("unexpected answer: %d", p->answer.status);
    uint64_t started = p->started[p->first];
    p->first = (p->first + 1) % p->depth;
    p->waiting--;
    p->on_answer(p, p->answer.status, p->answer.view, started);
}

static void digest(struct peer *p)
{
    size_t used = 0;
    enum answer_step step;
    do {
        used += answer_feed(&p->answer, (struct str){p->in.at + used, p->in.len - used}, &step);
        if (step == ANSWER_BROKEN)
            crew_fail("malformed HTTP near: %.*s", (int)(p->in.len < 400 ? p->in.len : 400),
                      p->in.at);
        if (step == ANSWER_COMPLETE)
            deliver(p);
    } while (step == ANSWER_COMPLETE && used < p->in.len);
    buf_drop(&p->in, used);
    if (p->on_stream && p->answer.state != ANSWER_IN_HEAD && p->answer.state != ANSWER_AT_END)
        p->on_stream(p);
}

/* One read; false if there was nothing to read. */
static bool receive(struct peer *p)
{
    char *room = buf_room(&p->in, READ_ROOM);
    ssize_t n =
        p->tls ? secure_recv(p->tls, room, READ_ROOM) : recv(p->fd, room, READ_ROOM, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    if (n < 0)
        crew_fail("recv: %m");
    if (n == 0)
        crew_fail("the server closed a connection with %u requests waiting", p->waiting);
    p->in.len += (size_t)n;
    p->crew->now = crew_clock();
    digest(p);
    return true;
}

static void handle(struct peer *p, uint32_t events)
{
    if (events & EPOLLOUT) {
        p->writing = false;
        watch(p, EPOLL_CTL_MOD, EPOLLIN);
    }
    if (events & (EPOLLIN | EPOLLHUP | EPOLLERR))
        while (receive(p) && p->tls)
            ;
    crew_flush(p);
}

void crew_turn(struct crew *c, uint64_t until)
{
    struct epoll_event events[EVENTS];
    c->now = crew_clock();
    if (c->now >= c->deadline)
        crew_fail("out of time with %" PRIu64 " of %" PRIu64 " jobs done", c->done, c->asked);
    if (until > c->deadline)
        until = c->deadline;
    uint64_t wait = until > c->now ? until - c->now : 0;
    struct timespec span = {(time_t)(wait / 1000000000u), (long)(wait % 1000000000u)};
    int n = epoll_pwait2(c->epoll, events, EVENTS, &span, NULL);
    if (n < 0 && errno != EINTR)
        crew_fail("epoll_pwait2: %m");
    c->now = crew_clock();
    for (int i = 0; i < n; i++)
        handle(events[i].data.ptr, events[i].events);
}

static void keep_body(struct peer *p, int status, struct str body, uint64_t started)
{
    (void)started;
    crew_expect(status, 200, body, "GET");
    buf_str(p->owner, body);
}

struct buf crew_get(struct crew_address to, struct str path, uint64_t timeout_ns)
{
    struct crew crew = {0};
    struct buf body = {0}, request = {0};
    struct peer p = {.on_answer = keep_body, .owner = &body};
    buf_print(&request, "GET %.*s HTTP/1.1\r\nHost: %s\r\n\r\n", STR_ARG(path), to.host);
    crew_init(&crew, timeout_ns);
    crew_join(&crew, &p, to, 1);
    crew_request(&p, buf_view(&request), crew.now);
    crew_flush(&p);
    while (p.waiting)
        crew_turn(&crew, UINT64_MAX);
    crew_leave(&p);
    crew_fini(&crew);
    buf_fini(&request);
    return body;
}
