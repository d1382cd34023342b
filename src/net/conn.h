/* SPDX-License-Identifier: Apache-2.0 */
#ifndef NET_CONN_H
#define NET_CONN_H

/* TCP connections of one listener: reading, output, TLS, orderly and sudden ends.
 * It knows no HTTP: what the bytes mean is the business of the connection's
 * `struct protocol`. Loop thread only.
 *
 * Output gathers in a buffer per connection; once per loop turn, when the loop is about
 * to poll, what each connection has gathered leaves in one write. A closed
 * connection stays valid (its functions do nothing) until the protocol's
 * closed() was called, which is never from inside any function here. */

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <uv.h>

#include "base/buf.h"
#include "base/units.h"
#include "net/body_memory.h"
#include "net/budget.h"
#include "net/http.h"
#include "net/receipt.h"

struct conn;

/* A version of HTTP on a connection. c->state is its own. The exchange functions are
 * only called while the exchange has a connection. */
struct protocol {
    void (*open)(struct conn *c);
    void (*input)(struct conn *c, const char *at, size_t len);
    /* The peer will send no more; it may still read. */
    void (*input_end)(struct conn *c);
    /* At the start of a loop turn, after conn_wake, or because the budget has room. */
    void (*wake)(struct conn *c);
    /* Last chance to add output before this turn's write. */
    void (*before_write)(struct conn *c);
    /* Unsent bytes were over the limit and have fallen to half of it. */
    void (*drained)(struct conn *c);
    /* A few times a second, for timeouts; `now` is in the loop's milliseconds. */
    void (*tick)(struct conn *c, uint64_t now);
    /* No new requests: answer what is under way, then end. */
    void (*drain)(struct conn *c);
    /* Answer with an error although nothing was asked, then end. */
    void (*refuse)(struct conn *c, struct err e);
    /* Bytes that wait to be sent and are not in the connection's own buffers yet. */
    uint64_t (*held)(const struct conn *c);
    /* The socket is gone, or another protocol takes over; release c->state. */
    void (*closed)(struct conn *c);

    void (*reply)(struct http_exchange *x, int status, struct str type, struct str body,
                  const char *extra);
    /* If x->sized, of x->unwritten bytes. */
    void (*stream_begin)(struct http_exchange *x, int status, struct str type, const char *extra);
    void (*stream_write)(struct http_exchange *x, struct str bytes);
    void (*stream_end)(struct http_exchange *x);
    /* The peer must see that the body is not whole; closed() is called later. */
    void (*stream_abort)(struct http_exchange *x);
    /* Its body, which comes in pieces, is wanted from now on, or again: what was held back is
     * handed over later. */
    void (*body_go_on)(struct http_exchange *x);
    /* The connection goes on with another protocol, whose state is ready, after the answer 101.
     * False: it cannot, and nothing has happened. NULL: never. */
    bool (*upgrade)(struct http_exchange *x, const char *extra, const struct protocol *next,
                    void *next_state);
    /* More of its bytes wait than there should; if so, its drained() will be called. */
    bool (*backlogged)(struct http_exchange *x);
};

struct conn {
    uv_tcp_t tcp;
    struct conn_set *set;
    const struct protocol *protocol;
    void *state;
    LIST_ENTRY(conn) link;
    TAILQ_ENTRY(conn) dirty_link, wake_link, room_link;
    struct tls *tls;        /* NULL: none */
    struct http_peer *peer; /* NULL: nobody has asked; its own unless peer_is_lent */
    bool peer_is_lent;
    void *line;         /* of a relay (net/relay.h); NULL: none */
    uint64_t elsewhere; /* unread bytes that another thread counts */
    struct buf out;     /* gathered in this turn */
    struct buf wire;    /* with TLS: what becomes of it */
    struct buf sending; /* being written by libuv; empty if nothing is */
    uv_write_t write;
    uv_shutdown_t shutdown;
    uint64_t progress_at; /* when libuv last got rid of bytes of `sending` */
    size_t unsent;        /* of `sending` at that time */
    uint64_t opened_at;
    uint64_t read_at; /* when bytes last arrived */
    uint64_t linger_until;
    uint64_t pending_bytes;          /* bytes of answers that are being made; their size is known */
    uint64_t reserved;               /* and of those whose size is not: its bound */
    uint64_t counted;                /* of the budget, for what waits to be sent */
    uint64_t left;                   /* bytes that the socket has taken */
    uint64_t got;                    /* bytes that it has given */
    uint64_t moved, moved_at;        /* see budget_is_blocked_by */
    struct body_memory_share bodies; /* what its requests take */
    struct receipt_list receipts;    /* of answers that may still be lost */
    bool wants_room;                 /* in budget->waiting */
    bool stream_waits;               /* a stream waits, too: notify it when there is room */
    bool dirty, waking;              /* in set->dirty, in set->wakers */
    bool reading;
    bool input_ended; /* the peer has shut down its side */
    bool congested;   /* was over the limit of unsent bytes, drained() is due */
    bool finishing;   /* ends when all output has left */
    bool lingering;   /* our side is shut down; input is thrown away */
    bool secured;     /* the TLS handshake is over */
    bool failed;      /* it was reset, or what was sent to it never arrived */
    bool closing;
};

LIST_HEAD(conn_list, conn);
TAILQ_HEAD(conn_queue, conn);

#define CONN_SPARES 64

/* What the connections of one server share. */
struct conn_set {
    uv_loop_t *loop;
    void *owner;
    /* A connection is gone for good, or one of the set's own handles is. */
    void (*freed)(void *owner);
    /* The answer to conn_set_call. */
    void (*called)(void *owner);
    /* A connection is about to be gone, its protocol is already; and the output of this turn has
     * left, the poll comes next. Either may be NULL. */
    void (*leaving)(struct conn *c);
    void (*flushed)(void *owner);
    struct conn_list all;
    int count;
    struct conn_queue dirty, wakers;
    uv_prepare_t flush;
    uv_idle_t awake; /* active while there is work for this turn: the poll must not block */
    bool call_due, closing;
    uv_timer_t tick;
    int handles; /* of the three that are not closed yet */
    uint64_t tick_ms;
    span write_timeout;
    span tcp_user_timeout;
    span handshake_timeout;
    uint64_t backlog_max;
    struct http_budget *budget; /* borrowed */
    struct body_memory_account bodies;
    struct tls_context *tls;        /* borrowed; NULL: connections are plain */
    const struct protocol *h2;      /* of connections that choose it in the TLS handshake */
    char *input;                    /* what is read lands here; no connection keeps it */
    char *plain;                    /* and what TLS makes of it here */
    struct buf spares[CONN_SPARES]; /* output buffers of connections that need none now */
    int spare_count;
};

/* bodies: of its requests; borrowed. */
void conn_set_init(struct conn_set *set, uv_loop_t *loop, void *owner, void (*freed)(void *owner),
                   struct body_memory *bodies);
/* Starts closing every connection and the shared handles; `freed` is called as each is gone. */
void conn_set_close(struct conn_set *set);
/* Has called(owner) called at the start of the next loop turn, unless the set closes. */
void conn_set_call(struct conn_set *set);
/* Releases the memory; count and handles are 0. */
void conn_set_fini(struct conn_set *set);

/* Accepts one connection. NULL if there is none, or if it was gone at once. */
struct conn *conn_accept(struct conn_set *set, uv_stream_t *listener, const struct protocol *p);
/* The same with a socket that was accepted elsewhere; it is the connection's in any case. */
struct conn *conn_adopt(struct conn_set *set, int fd, const struct protocol *p);
/* A connection without a socket, whose peer is served by another thread: the protocol moves all
 * bytes, and nothing may be added to its output. */
struct conn *conn_imagine(struct conn_set *set, const struct protocol *p);
/* Another protocol takes over, with a state of its own; nothing may be under way. */
void conn_become(struct conn *c, const struct protocol *p);
/* Who is at its other end; of one without a socket, who was set. */
const struct http_peer *conn_peer(struct conn *c);
/* Where to add output; it leaves with this turn's write. */
struct buf *conn_out(struct conn *c);
/* The same for use in before_write, which is followed by the write in any case. */
struct buf *conn_gather(struct conn *c);
/* Bytes that have not left yet. */
uint64_t conn_backlog(const struct conn *c);
/* How many that should be at most: backlog_max, or less if all connections hold much. */
uint64_t conn_limit(const struct conn *c);
/* More unsent bytes than that; if so, drained() will be called. */
bool conn_congested(struct conn *c);
/* Reads on, or lets what the peer sends wait in the kernel. */
void conn_read(struct conn *c, bool on);
/* Its requests hold that much; `busy` of it waits for the server, not for the peer. */
void conn_hold(struct conn *c, uint64_t bytes, uint64_t busy);
/* Whether there is memory to read on. If not, protocol->wake is called when there may be. */
bool conn_may_read(struct conn *c);
/* Called at each tick: whether it must be refused, because it has waited too long for that
 * (wait_max milliseconds), or is too slow while others wait. */
enum body_memory_verdict conn_judge(struct conn *c, uint64_t wait_max);
/* Asks for protocol->wake: for input that was put aside, never from inside a reply. */
void conn_wake(struct conn *c);
/* Sends what was gathered, shuts down, and closes when the peer does, at most a second later:
 * closing at once with input unread would destroy the reply on its way (RFC 9112 §9.6). */
void conn_finish(struct conn *c);
/* Closes now. */
void conn_abort(struct conn *c);

#endif
