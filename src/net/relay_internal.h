/* SPDX-License-Identifier: Apache-2.0 */
#ifndef NET_RELAY_INTERNAL_H
#define NET_RELAY_INTERNAL_H

/* Requests that one thread reads and another serves. The front (relay_front.c) has the sockets: it
 * does TLS and HTTP, and passes requests on. The back (relay_back.c) is the thread of the handler,
 * which sees exchanges like any others: those of connections without a socket, whose protocol sends
 * to the front what is to be written. Between them is a mailbox in each direction.
 *
 * A line is a connection, a call is a request. Both are the front's memory. The back names a call
 * by its address, and says once, as the last thing about it, that it is over: with the reply, the
 * end of a stream, or RELAY_ENDED. The front names a call by its number on the line, because it may
 * be over by then. A line is freed when the back has heard that it is gone. */

#include <stdatomic.h>

#include "net/http_internal.h"
#include "net/mailbox.h"

enum relay_kind {
    /* from the front */
    RELAY_REQUEST,
    RELAY_HALF,   /* the peer of a line has shut down its side */
    RELAY_LOST,   /* nobody reads the answer of a call */
    RELAY_GONE,   /* the line is no more */
    RELAY_UNREAD, /* what the peer has not read has become less */
    RELAY_PIECE,  /* of a body */
    RELAY_BODY_END,
    RELAY_BODY_ABORT,
    RELAY_WRITTEN, /* so many bytes of a stream have left, or never will */
    RELAY_DRAINED,
    /* from the back */
    RELAY_REPLY,
    RELAY_BEGIN, /* of a stream */
    RELAY_WRITE,
    RELAY_END,
    RELAY_ABORT,
    RELAY_TAKE,     /* the body in pieces is wanted */
    RELAY_CONSUMED, /* so many bytes of it are */
    RELAY_REPORT,   /* RELAY_UNREAD is asked for */
    RELAY_ENDED,    /* of a lost call, or of a closed line */
    RELAY_CLOSE,    /* the line */
    RELAY_FREE,     /* likewise; nothing more is said of it */
    RELAY_ACCEPT,   /* a socket */
    RELAY_DRAIN,
    RELAY_STOP,
};

/* Texts follow it, one after the other. */
struct relay_message {
    size_t size; /* with the texts; a multiple of 8 */
    enum relay_kind kind;
    int status; /* REPLY, BEGIN; ACCEPT: the socket */
    struct relay_line *line;
    struct relay_call *call;
    uint64_t number;     /* of the call */
    uint64_t amount;     /* bytes; of a stream that is announced, its length */
    uint64_t received;   /* REQUEST, UNREAD: see relay_line */
    bool sized, pieces;  /* BEGIN; REQUEST: the body comes in pieces */
    bool report;         /* REPLY: likewise RELAY_REPORT */
    struct str texts[3]; /* `at` says no more than whether it is there */
};

struct relay_call {
    LIST_ENTRY(relay_call) link;
    struct relay_line *line;
    struct http_exchange *x; /* NULL: lost */
    uint64_t number;
    uint64_t size;       /* of the message */
    _Atomic bool lost;   /* nobody reads the answer; the back may look before it is told */
    uint64_t owed;       /* bytes of the stream that RELAY_WRITTEN is due for */
    uint64_t unconsumed; /* of the body */
    bool paused;         /* the body, until more is consumed */
    bool over;           /* for the back */
};

LIST_HEAD(relay_calls, relay_call);

struct relay_line {
    /* the front's */
    LIST_ENTRY(relay_line) link, report_link;
    struct conn *conn; /* NULL: gone */
    struct relay_calls calls;
    struct http_peer *peer; /* set before the back hears of the line; it may read it */
    uint64_t numbers;
    uint64_t received; /* bytes of replies so far */
    uint64_t asked;    /* bytes of requests that are not answered */
    bool half, reports;
    bool limited; /* further requests wait for answers to these */
    /* the back's */
    _Alignas(64) struct conn *there; /* NULL: nothing was asked yet, or it is closed */
    bool dead;
};

LIST_HEAD(relay_lines, relay_line);

struct relay_state; /* of a line, the back's */
TAILQ_HEAD(relay_states, relay_state);

/* A front and its way to the back. */
struct relay {
    struct mailbox to_back, to_front;
    /* the front's */
    struct http_server *front;
    struct http_budget budget;
    struct body_memory_account bodies; /* of requests that the back has */
    struct relay_lines lines, reports;
    struct relay_calls spares;
    struct buf letters; /* being read */
    uint64_t sent;      /* bytes to the back */
    _Atomic int *open;  /* connections of all fronts */
    bool (*in_pieces)(void *ctx, enum http_method method, struct str path);
    void *in_pieces_ctx;
    bool stopping;
    /* the back's */
    struct http_server *back;
    struct buf requests;         /* being read */
    struct relay_states waiting; /* for memory */
    uint64_t written;            /* bytes to the front, posted */
    void (*drained)(void *ctx);
    void *drained_ctx;
    /* of both */
    _Atomic uint64_t taken; /* of `sent` */
    _Atomic bool saturated; /* the front waits for more to be taken */
    _Atomic uint64_t read;  /* of `written` */
    _Atomic bool choked;    /* streams of the back wait for more to be read */
};

/* Adds a message and its texts. */
void relay_add(struct buf *to, struct relay_message *m);
/* The message there, its texts pointing at what follows it. */
struct relay_message *relay_at(const struct buf *in, size_t at);
/* A request as a message. */
void relay_add_request(struct buf *to, struct relay_message *m, const struct http_request *req);
/* The request of such a message; without an arena. Valid as long as the message. */
struct http_request relay_request(const struct relay_message *m);

/* The front's: its handler, for the server that ctx, a relay, has as `front`. */
void relay_front_handle(void *ctx, struct http_exchange *x, const struct http_request *req);
bool relay_front_takes_pieces(void *ctx, enum http_method method, struct str path);
/* Begins: sets what the server needs for that. */
void relay_front_begin(struct relay *r);
/* Reads what the back has sent. */
void relay_front_read(struct relay *r);
/* Frees what is left, when both threads are done with it. */
void relay_front_free(struct relay *r);

/* The back's: reads what the front has sent. */
void relay_back_read(struct relay *r);
/* Posts what there is for the front. */
void relay_back_post(struct relay *r);
/* Whether something waits that would be served now. */
bool relay_back_is_due(const struct relay *r);
/* Before all else. */
void relay_back_begin(struct relay *r);

#endif
