/* SPDX-License-Identifier: Apache-2.0 */
#ifndef NET_HTTP_INTERNAL_H
#define NET_HTTP_INTERNAL_H

/* What the files of net/ share: the server, and an exchange from the request to the last byte of
 * its reply. Users of the server include net/http.h only. Loop thread only. */

#include <stdatomic.h>

#include "base/arena.h"
#include "base/buf.h"
#include "net/conn.h"
#include "net/guard.h"
#include "net/reply.h"

enum exchange_state {
    EXCHANGE_PENDING, /* waits for http_reply or http_stream_begin */
    EXCHANGE_STREAM,  /* between http_stream_begin and http_stream_end */
    EXCHANGE_DONE,    /* answered; its bytes may still wait for earlier ones */
};

/* Of a body that comes in pieces. */
enum body_state {
    BODY_OVER,    /* it came with the request, was handed over, or nobody wants it any more */
    BODY_OFFERED, /* the handler has not asked for it yet */
    BODY_FLOWS,
    BODY_PAUSED,
};

struct http_exchange {
    /* In its connection's queue; or, when the peer has gone, in the list of those
     * whose owners are to be notified; or in the server's free list. */
    TAILQ_ENTRY(http_exchange) link;
    struct http_server *server;
    struct conn *conn; /* NULL: the peer has gone */
    enum exchange_state state;
    bool unnotified; /* in server->unnotified */
    bool no_body;    /* the answer to HEAD */
    bool old;        /* HTTP/1.0: a stream ends with the connection */
    uint64_t pending_bytes,
        reserved;     /* while it is pending; part of those of conn and of the budget */
    uint64_t kept;    /* of its request, see http_hold */
    size_t chunk;     /* 1 + where the open chunk starts in its output; 0: none is open */
    struct buf later; /* what must wait: for the replies of earlier requests, for a window */
    void *stream;     /* of HTTP/2 */
    enum body_state body;
    const struct http_receiver *receiver; /* of the body; NULL: none, or none any more */
    void *receiver_ctx;
    bool sized;         /* a stream whose length was announced */
    uint64_t unwritten; /* of that length */
    struct arena arena;
    void (*gone)(void *ctx);
    void *gone_ctx;
    void (*settled)(void *ctx, bool lost); /* http_on_settled */
    void *settled_ctx;
    void (*closed)(void *ctx);
    void (*drained)(void *ctx);
    void *stream_ctx;
    void *note;                   /* the handler's */
    struct str page;              /* the origin that may read the answer (net/cors.h); or empty */
    const struct http_peer *peer; /* in place of the connection's; NULL: that */
};

TAILQ_HEAD(exchange_queue, http_exchange);

/* Of a server whose handler passes requests on. */
struct server_relay {
    /* So much is under way that the connection may add no request; it is woken, or the budget is
     * retried, when that is over. ctx is the handler's. */
    bool (*is_saturated)(void *ctx, struct conn *c);
};

struct http_server {
    struct http_settings settings;
    struct guard guard;
    http_handler handler;
    void *ctx;
    uv_tcp_t listener;
    bool listening; /* the listener's handle is not closed yet */
    int port;
    struct conn_set conns;
    struct http_budget unlimited;  /* without one in the settings */
    struct body_memory *bodies;    /* likewise; else NULL */
    struct http_exchange *serving; /* by the handler, as long as it is not answered */
    struct exchange_queue unnotified, spares;
    int spare_count;
    int live; /* exchanges that are neither spare nor freed */
    char date[REPLY_DATE_LEN];
    uint64_t date_at;   /* the loop's time in seconds when it was made */
    uint64_t warned_at; /* when the last failure to accept was logged */
    struct {
        _Atomic uint64_t accepted, replies[HTTP_CLASSES];
    } counts;
    /* Its connections are served by other threads, which are given their sockets; NULL: by itself.
     */
    void (*hand_over)(void *ctx, int fd);
    void *hand_over_ctx;
    const struct server_relay *relays; /* its requests go to another thread; NULL: they do not */
    bool draining, closing;
    void (*drained)(void *ctx);
    void *drained_ctx;
};

/* A server without a listener; the guard knows no address yet. */
struct http_server *server_new(uv_loop_t *loop, const struct http_settings *settings,
                               http_handler handler, void *ctx);
/* Serves a connection that was accepted elsewhere, when there were so many others; over the limit
 * it is refused. */
void server_adopt(struct http_server *s, int fd, int others);
struct http_exchange *exchange_new(struct http_server *s, struct conn *c);
/* The exchange must be answered. */
void exchange_free(struct http_exchange *x);
/* The peer of the exchanges in q has gone: notifies the owners of streams and those that asked
 * (http_on_gone), and frees the answered ones. The others still wait for their reply, which nobody
 * reads. */
void exchange_orphan(struct http_server *s, struct exchange_queue *q);
/* Begins a chunk in `out`, unless one is open; and fills in its length, if one is. */
void exchange_chunk_begin(struct http_exchange *x, struct buf *out);
void exchange_chunk_end(struct http_exchange *x, struct buf *out);
/* Copies what the request points to into the exchange's arena. */
void exchange_keep_request(struct http_exchange *x, struct http_request *q);
/* Calls the gone() of those that have one. */
void exchange_tell_gone(struct exchange_queue *q);
/* One of them is a stream without a known length. */
bool exchange_any_is_endless(const struct exchange_queue *q);
/* Whether the body of such a request comes in pieces. */
bool server_takes_pieces(const struct http_server *s, enum http_method method, struct str path);
/* Hands over a piece, the end, or the abort of a body that flows. The exchange may be answered, and
 * gone, when they return. */
void server_body_piece(struct http_exchange *x, struct str bytes);
void server_body_end(struct http_exchange *x);
void server_body_abort(struct http_exchange *x, struct err why);
/* The bound of its answer, if its size is not known at once. */
uint64_t server_reply_bound(const struct http_server *s, const struct http_request *req);
/* Whether a request whose answer has that bound may be served now; if not, the connection is woken
 * when that may have changed. */
bool server_has_room(struct conn *c, uint64_t bound);
/* Hands a request to the handler, unless the guard refuses it. */
void server_serve(struct http_server *s, struct http_exchange *x, const struct http_request *req,
                  uint64_t bound);
/* The same without the guard, which was asked before. */
void server_hand_on(struct http_server *s, struct http_exchange *x, const struct http_request *req,
                    uint64_t bound);
/* Answers with 101 and those header lines, and ends the exchange: its connection is next's from now
 * on, with that state, and next->open is not called. False: the connection can only go on as it is,
 * and the exchange is still to be answered. */
bool server_upgrade(struct http_exchange *x, const char *extra, const struct protocol *next,
                    void *next_state);
/* The Date line of now. */
const char *server_date(struct http_server *s);

#endif
