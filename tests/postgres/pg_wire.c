/* SPDX-License-Identifier: Apache-2.0 */
#include "postgres/pg_wire.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/alloc.h"
#include "store/cm.h"

#define PAIRS 32

struct pair {
    int client, server; /* -1: none */
};

struct pg_wire {
    char dir[64], url[192], target[108];
    int listener;
    int waker[2];
    struct pair pairs[PAIRS];
    pthread_t thread;
    _Atomic bool lose, cut, stop;
    _Atomic int lost;
};

static void end_pair(struct pair *p)
{
    if (p->client >= 0)
        close(p->client);
    if (p->server >= 0)
        close(p->server);
    p->client = p->server = -1;
}

static struct sockaddr_un address(const char *path)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    snprintf(a.sun_path, sizeof a.sun_path, "%s", path);
    return a;
}

static void accept_one(struct pg_wire *w)
{
    struct sockaddr_un a = address(w->target);
    struct pair p = {accept(w->listener, NULL, NULL), socket(AF_UNIX, SOCK_STREAM, 0)};
    size_t i = 0;
    while (i < PAIRS && w->pairs[i].client >= 0)
        i++;
    if (atomic_load(&w->cut) || i == PAIRS ||
        connect(p.server, (const struct sockaddr *)&a, sizeof a) != 0)
        end_pair(&p);
    else
        w->pairs[i] = p;
}

static bool pass(int from, int to)
{
    char bytes[65536];
    ssize_t got = read(from, bytes, sizeof bytes);
    for (ssize_t at = 0; at < got;) {
        ssize_t n = send(to, bytes + at, (size_t)(got - at), MSG_NOSIGNAL);
        if (n <= 0)
            return false;
        at += n;
    }
    return got > 0;
}

static void serve_pair(struct pg_wire *w, struct pair *p, short client, short server)
{
    bool goes_on = true;
    if (server && atomic_exchange(&w->lose, false)) {
        atomic_fetch_add(&w->lost, 1);
        goes_on = false;
    }
    if (goes_on && client)
        goes_on = pass(p->client, p->server);
    if (goes_on && server)
        goes_on = pass(p->server, p->client);
    if (!goes_on)
        end_pair(p);
}

static void turn(struct pg_wire *w)
{
    struct pollfd fds[2 + 2 * PAIRS] = {{.fd = w->listener, .events = POLLIN},
                                        {.fd = w->waker[0], .events = POLLIN}};
    char byte[16];
    for (size_t i = 0; i < PAIRS; i++) {
        fds[2 + 2 * i] = (struct pollfd){.fd = w->pairs[i].client, .events = POLLIN};
        fds[3 + 2 * i] = (struct pollfd){.fd = w->pairs[i].server, .events = POLLIN};
    }
    poll(fds, 2 + 2 * PAIRS, -1);
    if (fds[1].revents && read(w->waker[0], byte, sizeof byte) < 0)
        return;
    for (size_t i = 0; i < PAIRS; i++)
        if (w->pairs[i].client >= 0 && (fds[2 + 2 * i].revents || fds[3 + 2 * i].revents))
            serve_pair(w, &w->pairs[i], fds[2 + 2 * i].revents, fds[3 + 2 * i].revents);
    for (size_t i = 0; atomic_load(&w->cut) && i < PAIRS; i++)
        end_pair(&w->pairs[i]);
    if (fds[0].revents)
        accept_one(w);
}

static void *run(void *ctx)
{
    struct pg_wire *w = ctx;
    while (!atomic_load(&w->stop))
        turn(w);
    return NULL;
}

static void wake(struct pg_wire *w)
{
    assert_int_equal(write(w->waker[1], "w", 1), 1);
}

struct pg_wire *pg_wire_new(const struct pg_node *n)
{
    struct pg_wire *w = ALLOC(struct pg_wire);
    char path[108];
    snprintf(w->dir, sizeof w->dir, "/tmp/tenax-wire-XXXXXX");
    assert_non_null(mkdtemp(w->dir));
    snprintf(w->target, sizeof w->target, "%s/.s.PGSQL.5432", n->dir);
    snprintf(path, sizeof path, "%s/.s.PGSQL.5432", w->dir);
    snprintf(w->url, sizeof w->url, "postgres:///postgres?host=%s&user=admin", w->dir);
    struct sockaddr_un a = address(path);
    w->listener = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(bind(w->listener, (const struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(listen(w->listener, 16), 0);
    assert_int_equal(pipe(w->waker), 0);
    for (size_t i = 0; i < PAIRS; i++)
        w->pairs[i] = (struct pair){-1, -1};
    assert_int_equal(pthread_create(&w->thread, NULL, run, w), 0);
    return w;
}

const char *pg_wire_url(const struct pg_wire *w)
{
    return w->url;
}

void pg_wire_lose_answer(struct pg_wire *w)
{
    atomic_store(&w->lose, true);
}

void pg_wire_cut(struct pg_wire *w, bool on)
{
    atomic_store(&w->cut, on);
    wake(w);
}

int pg_wire_lost(const struct pg_wire *w)
{
    return atomic_load(&w->lost);
}

void pg_wire_free(struct pg_wire *w)
{
    char path[108];
    atomic_store(&w->stop, true);
    wake(w);
    pthread_join(w->thread, NULL);
    for (size_t i = 0; i < PAIRS; i++)
        end_pair(&w->pairs[i]);
    close(w->listener);
    close(w->waker[0]);
    close(w->waker[1]);
    snprintf(path, sizeof path, "%s/.s.PGSQL.5432", w->dir);
    unlink(path);
    rmdir(w->dir);
    free(w);
}
