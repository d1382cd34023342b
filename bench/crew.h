/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BENCH_CREW_H
#define BENCH_CREW_H

/* The connections of a load run and the one epoll loop that drives them. One thread. Anything
 * unexpected (a closed connection, malformed HTTP, a timeout) ends the process with a message: a
 * benchmark that continues after a fault measures something else. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "answer.h"
#include "base/buf.h"
#include "base/str.h"

struct peer;
struct ssl_st;

/* One answer: its status and body (valid during the call), and the time that was passed to
 * crew_request. */
typedef void (*crew_answer_fn)(struct peer *p, int status, struct str body, uint64_t started);
/* Data of an endless answer; the callee drops what it has read from p->answer.body. */
typedef void (*crew_stream_fn)(struct peer *p);

struct crew {
    int epoll;
    uint64_t now;         /* monotonic ns, read after each receipt of data */
    uint64_t deadline;    /* the run fails if it is still in progress then */
    uint64_t done, asked; /* jobs, counted by the current mode; for that failure's message */
};

struct peer {
    struct crew *crew;
    int fd;
    struct ssl_st *tls; /* NULL: clear text */
    bool writing;       /* waits until the socket accepts more */
    struct buf in, out;
    struct answer answer;
    crew_answer_fn on_answer;
    crew_stream_fn on_stream;
    void *owner;
    size_t tag;        /* for the owner: identifies the request in progress */
    uint64_t *started; /* ring of `depth` times, oldest at `first` */
    unsigned depth, first, waiting;
};

struct crew_address {
    const char *host;
    int port;
    bool tls;
};

_Noreturn void crew_fail(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
uint64_t crew_clock(void);

void crew_init(struct crew *c, uint64_t timeout_ns);
void crew_fini(struct crew *c);
/* Connects p, which may then have up to `depth` unanswered requests. */
void crew_join(struct crew *c, struct peer *p, struct crew_address to, unsigned depth);
void crew_leave(struct peer *p);

/* Queues the bytes of one request. They are sent at the end of the callback of p, or by
 * crew_flush. */
void crew_request(struct peer *p, struct str bytes, uint64_t started);
void crew_flush(struct peer *p);
/* Waits until something happens, or until the monotonic time `until`, and handles it. */
void crew_turn(struct crew *c, uint64_t until);

/* Fails, showing the body, unless the status is the one wanted. */
void crew_expect(int status, int wanted, struct str body, const char *what);
/* One request on a connection of its own; the answer must be 200. */
struct buf crew_get(struct crew_address to, struct str path, uint64_t timeout_ns);

#endif
