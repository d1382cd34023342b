/* SPDX-License-Identifier: Apache-2.0 */

/* Connecting, to the first of several hosts that takes it. By itself libpq would wait for a host
 * that is gone without a word until the very end: its connect_timeout is not for connections that
 * do not block. So each host has an attempt of its own, and after a short while without an answer
 * the next one begins beside it. */

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/must.h"
#include "postgres/pg_internal.h"

#define HOSTS_MAX 16
/* One host is waited for alone so long at most. */
#define ALONE_MS 250

struct attempt {
    PGconn *conn; /* NULL: it has failed */
    PostgresPollingStatusType want;
};

struct race {
    const struct pg_url *url;
    size_t hosts, begun, open;
    struct attempt at[HOSTS_MAX];
    span alone;
    mono next, deadline; /* when another host is tried in any case; the end */
    struct err failed;   /* of the newest failure */
};

/* --- the hosts --- */

static size_t pieces(const char *list)
{
    size_t n = list && *list ? 1 : 0;
    for (const char *c = list; n && *c; c++)
        n += *c == ',';
    return n;
}

/* The i-th of a list with commas; of a list of one, that one. Freed by the caller; NULL: none. */
static char *piece(const char *list, size_t i)
{
    if (pieces(list) <= 1)
        i = 0;
    for (; list && i > 0; i--)
        list = strchr(list, ',') + 1;
    return list ? alloc_text(list, strcspn(list, ",")) : NULL;
}

/* As libpq counts them. One attempt is for all if they are not all of equal rank, or libpq is to
 * say what is wrong with them. */
static size_t count_hosts(const struct pg_url *u)
{
    size_t hosts = pieces(pg_url_get(u, "host")), addresses = pieces(pg_url_get(u, "hostaddr"));
    size_t ports = pieces(pg_url_get(u, "port")), n = addresses ? addresses : hosts;
    const char *wanted = pg_url_get(u, "target_session_attrs");
    bool strange = n > HOSTS_MAX || (hosts && hosts != n) || (ports > 1 && ports != n);
    return n < 2 || strange || (wanted && strcmp(wanted, "prefer-standby") == 0) ? 1 : n;
}

/* Of a name that is given twice, libpq takes the last one. */
static PGconn *start(const struct pg_url *u, size_t i)
{
    static const char *const lists[] = {"host", "hostaddr", "port"};
    const char *names[COUNT(u->names) + COUNT(lists) + 1];
    const char *values[COUNT(names)];
    char *own[COUNT(lists)];
    size_t n = (size_t)u->count;
    memcpy(names, u->names, n * sizeof *names);
    memcpy(values, u->values, n * sizeof *values);
    for (size_t k = 0; k < COUNT(lists); k++) {
        own[k] = piece(pg_url_get(u, lists[k]), i);
        names[n] = lists[k];
        values[n] = own[k];
        n += own[k] != NULL;
    }
    names[n] = values[n] = NULL;
    PGconn *conn = PQconnectStartParams(names, values, 0);
    for (size_t k = 0; k < COUNT(lists); k++)
        free(own[k]);
    return conn;
}

/* --- the attempts --- */

static void fail(struct race *r, struct attempt *a)
{
    char text[160];
    r->failed = err_make(ERR_POSTGRES, "cannot connect to PostgreSQL: %s",
                         pg_flat(PQerrorMessage(a->conn), text));
    PQfinish(a->conn);
    a->conn = NULL;
    r->open--;
}

static void begin_next(struct race *r)
{
    struct attempt *a = &r->at[r->begun];
    a->conn = r->hosts == 1 ? PQconnectStartParams(r->url->names, r->url->values, 0)
                            : start(r->url, r->begun);
    a->want = PGRES_POLLING_WRITING;
    r->begun++;
    r->next = pg_after(pg_now(), r->alone);
    must(a->conn); /* without memory nothing goes on */
    r->open++;
    if (PQstatus(a->conn) == CONNECTION_BAD)
        fail(r, a);
}

static int wait_ms(const struct race *r)
{
    bool more = r->begun < r->hosts && r->next.ns < r->deadline.ns;
    int64_t ms = ((more ? r->next.ns : r->deadline.ns) - pg_now().ns + 999999) / 1000000;
    return ms < 0 ? 0 : ms > 60000 ? 60000 : (int)ms;
}

/* Goes on with whatever can: the attempt that is there, or NULL. */
static struct attempt *advance(struct race *r)
{
    struct pollfd on[HOSTS_MAX];
    for (size_t i = 0; i < r->begun; i++) {
        const struct attempt *a = &r->at[i];
        on[i].fd = a->conn ? PQsocket(a->conn) : -1;
        on[i].events = a->want == PGRES_POLLING_WRITING ? POLLOUT : POLLIN;
    }
    if (poll(on, r->begun, wait_ms(r)) <= 0)
        return NULL;
    for (size_t i = 0; i < r->begun; i++) {
        struct attempt *a = &r->at[i];
        if (!a->conn || !on[i].revents)
            continue;
        a->want = PQconnectPoll(a->conn);
        if (a->want == PGRES_POLLING_OK)
            return a;
        if (a->want == PGRES_POLLING_FAILED || PQstatus(a->conn) == CONNECTION_BAD)
            fail(r, a);
    }
    return NULL;
}

NODISCARD static struct err run(struct race *r, PGconn **out)
{
    struct attempt *won = NULL;
    while (!won) {
        if (r->begun < r->hosts && (r->open == 0 || pg_now().ns >= r->next.ns))
            begin_next(r);
        if (r->open == 0 && r->begun == r->hosts)
            return r->failed;
        if (r->open)
            won = advance(r);
        if (!won && pg_now().ns >= r->deadline.ns)
            return r->failed.code != ERR_OK
                       ? r->failed
                       : err_make(ERR_POSTGRES, "PostgreSQL does not answer in time");
    }
    *out = won->conn;
    won->conn = NULL;
    return err_none();
}

struct err pg_connect(const struct pg_url *url, mono deadline, PGconn **out)
{
    struct race r = {.url = url, .hosts = count_hosts(url), .deadline = deadline};
    int64_t ms = (deadline.ns - pg_now().ns) / 1000000 / (int64_t)(2 * r.hosts);
    r.alone = (span){ms < 0 ? 0 : ms > ALONE_MS ? ALONE_MS : ms};
    struct err e = run(&r, out);
    for (size_t i = 0; i < r.begun; i++)
        PQfinish(r.at[i].conn);
    return e;
}
