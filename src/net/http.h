/* SPDX-License-Identifier: Apache-2.0 */
#ifndef NET_HTTP_H
#define NET_HTTP_H

/* An HTTP server on one libuv loop: connections, requests in, replies out. It
 * knows nothing of jobs. Everything here runs on the loop thread.
 *
 * An exchange is one request and its reply. The handler is called once the whole
 * request is there; it replies at once or later, from any place on the loop
 * thread. Where http_settings.in_pieces says so, it is called when the head is there, and is given
 * the body in pieces, as fast as it takes them (http_body_take). In HTTP/1.1 replies leave in the
 * order of the requests (pipelining), so an exchange may be answered before an earlier one is: its
 * bytes wait. In HTTP/2 none waits for another.
 *
 * Nothing is written to a socket inside http_reply: all bytes of one loop turn
 * leave together when the loop is about to poll, one write per connection.
 *
 * Versions of HTTP sit behind `struct protocol` (net/conn.h), TLS below it. A plain
 * connection is HTTP/1.1 until it begins with HTTP/2's preface; with TLS the client
 * chooses by ALPN. */

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"
#include "base/units.h"

struct http_server;
struct http_exchange;

enum http_method {
    HTTP_GET,
    HTTP_HEAD,
    HTTP_POST,
    HTTP_PUT,
    HTTP_PATCH,
    HTTP_DELETE,
    HTTP_OPTIONS,
    HTTP_OTHER
};

/* The spans are valid only DURING the call of the handler, for they lie in the bytes as they
 * came from the socket; what is needed later is copied, into the arena for example, which
 * lives until the exchange is replied to (for a stream: until it is closed). */
struct http_request {
    enum http_method method;
    struct str path;  /* still percent-encoded, without the query */
    struct str query; /* without the '?'; empty if there is none */
    /* Values of headers, a member each; {NULL, 0} if the header is absent. */
#define HEADER(name, member, times) struct str member;
#include "net/http_headers.def"
#undef HEADER
    struct str body;
    int64_t length; /* of a body that comes in pieces, as announced; negative: it was not */
    bool websocket; /* it asks that the connection become a WebSocket (net/websocket.h) */
    struct arena *arena;
};

typedef void (*http_handler)(void *ctx, struct http_exchange *x, const struct http_request *req);

struct http_budget; /* net/budget.h */
struct body_memory; /* net/body_memory.h */

struct http_settings {
    const char *host;
    int port;   /* 0: any free one */
    int socket; /* one that listens already, in place of host and port, whose it is; 0: none */
    uint64_t body_max;      /* bytes; over it 413 */
    uint64_t header_max;    /* bytes of the head but for the target; over it 431 */
    int connections_max;    /* over it a new connection gets 503 and is closed */
    span header_timeout;    /* from the first byte of a request to the end of its headers: 408 */
    span body_timeout;      /* the longest pause inside a body: 408 */
    span handshake_timeout; /* of TLS: closed */
    span idle_timeout;      /* a keep-alive connection without a request: closed */
    span write_timeout;     /* a peer that does not read: closed */
    span tcp_user_timeout;  /* a peer that acknowledges nothing: closed (net/liveness.h) */
    int pipeline_max; /* requests of a connection that wait for replies; beyond it reading pauses */
    uint64_t backlog_max; /* unsent bytes of a connection; beyond it http_backlogged is true and
                             reading pauses (HTTP/2: answers to new requests wait) */
    int streams_max;      /* requests under way on an HTTP/2 connection; further ones are refused */
    struct tls_context *tls;    /* borrowed; NULL: plain */
    struct http_budget *budget; /* borrowed, may be shared; NULL: no limit of that kind */
    struct body_memory *bodies; /* likewise, of requests */
    /* The bound of an answer whose size is not known once the handler has returned, such as a page
     * that is gathered over several turns; 0: it is. NULL: it always is. */
    uint64_t (*reply_bound)(void *ctx, const struct http_request *req);
    /* Bytes that the handler has gathered for answers since the start; NULL: not known. */
    uint64_t (*gathered)(void *ctx);
    void *replies_ctx; /* of both */
    /* Whether the body of such a request comes in pieces. Its size is not limited by body_max, but
     * by the handler alone. Called with the handler's context for every request; NULL: none does.
     */
    bool (*in_pieces)(void *ctx, enum http_method method, struct str path);
    /* Whether links on pages of other origins may open the path as a document: reading it changes
     * nothing, and neither its bytes nor a frame show the page with the link anything of it. Called
     * with the handler's context; NULL: none may. */
    bool (*opens_by_link)(void *ctx, struct str path);
    /* Names of hosts that requests may be for, beside those that are the server's in any case
     * (net/guard.h): "a.example,*.b.example", "*": any; NULL: none. */
    const char *allowed_hosts;
    /* Pages of these origins (net/cors.h) may use the paths that are open to them: reading and
     * writing, as any other client. Borrowed; NULL: none. */
    const char *allowed_origins;
    /* Called with the handler's context; NULL: no path is. */
    bool (*opens_to_origins)(void *ctx, struct str path);
};

/* The settings of a server without flags. */
struct http_settings http_defaults(void);

/* To be freed after the servers that share it are gone. */
struct http_budget *http_budget_new(uint64_t bytes);
void http_budget_free(struct http_budget *budget);
/* How many bytes are free of it. waits: somebody who is no connection waits for some, so that
 * connections that do not read are closed for it, too. On the thread of the loop. */
uint64_t http_budget_room(struct http_budget *budget, uv_loop_t *loop, bool waits);

/* Binds, listens and serves handler(ctx, …) on the loop. ERR_IO if the address cannot be
 * had (the message names it and why). Writing to a connection that its peer has closed must
 * not end the process: SIGPIPE is ignored from here on, unless the program handles it. */
NODISCARD struct err http_server_new(uv_loop_t *loop, const struct http_settings *settings,
                                     http_handler handler, void *ctx, struct http_server **out);
/* The port that is really bound. */
int http_server_port(const struct http_server *s);
/* The listening socket, which stays the server's; -1: it does not listen. */
int http_server_socket(const struct http_server *s);
/* Stops accepting, answers what is under way with "Connection: close", closes idle connections;
 * done(ctx) is called once the last connection is gone. Streams are the owner's to end. */
void http_server_drain(struct http_server *s, void (*done)(void *ctx), void *ctx);
/* Closes everything at once. The loop must run once more before the memory is released, and
 * every exchange must be replied to. */
void http_server_close(struct http_server *s);
int http_server_connections(const struct http_server *s);

#define HTTP_CLASSES 6
struct http_stats {
    uint64_t connections, accepted;
    uint64_t replies[HTTP_CLASSES]; /* of the handler, by the first digit of the status */
};
/* Counts since the server began to listen. */
void http_server_stats(const struct http_server *s, struct http_stats *out);

/* Answers and ends the exchange; x must not be used afterwards. The bytes are copied. An
 * empty body with status 204 or 304 sends no Content-Length. If the peer is gone by now,
 * nothing happens. `extra` is NULL or further header lines, each ended by CRLF. */
void http_reply(struct http_exchange *x, int status, struct str content_type, struct str body,
                const char *extra);

/* Who takes the body of a request in pieces. Of `end` and `abort` exactly one is called, unless the
 * exchange is replied to before; nothing is called from inside the functions below. */
struct http_receiver {
    /* The next bytes, some of them at least; they are valid during the call. */
    void (*piece)(void *ctx, struct str bytes);
    /* The body is whole. */
    void (*end)(void *ctx);
    /* It will never be: the peer has gone (ERR_IO), was silent for too long, or sent what is no
     * body. The exchange must be replied to all the same; the peer may be there to read it. */
    void (*abort)(void *ctx, const struct err *why);
};

/* For a request whose body comes in pieces: it is wanted. Until then, and if the exchange is
 * replied to without, no byte of it is read beyond some buffers; a client that waits for "100
 * Continue" gets it now. A reply before the end of the body is sent at once, and the rest is thrown
 * away if it is known to be short; else the connection (in HTTP/2: the stream) ends with the reply.
 */
void http_body_take(struct http_exchange *x, const struct http_receiver *receiver, void *ctx);
/* No further piece, end or time-out until http_body_resume: the peer is made to wait. Both may be
 * called from inside a piece, and do nothing once the body has ended. */
void http_body_pause(struct http_exchange *x);
void http_body_resume(struct http_exchange *x);

/* Answers with a body of unknown length. closed(ctx) is called exactly once, when the peer
 * has gone or http_stream_end was called, and x must not be used after it; it may be called
 * from inside http_stream_begin's or a later turn, never from inside http_stream_write. */
void http_stream_begin(struct http_exchange *x, int status, struct str content_type,
                       void (*closed)(void *ctx), void *ctx);
/* The same with a body of known length, of which exactly so many bytes must have been written when
 * http_stream_end is called, except in answer to HEAD. `extra` as in http_reply. A peer that has
 * shut down its side is not gone. */
void http_stream_begin_sized(struct http_exchange *x, int status, struct str content_type,
                             uint64_t length, const char *extra, void (*closed)(void *ctx),
                             void *ctx);
/* Adds bytes (copied); all writes of one loop turn share one chunk. */
void http_stream_write(struct http_exchange *x, struct str bytes);
/* Ends the body; calls closed() before it returns. */
void http_stream_end(struct http_exchange *x);
/* Ends the body early, so that the peer sees that it is incomplete: resets the stream in HTTP/2,
 * closes the connection in HTTP/1.1. Unsent bytes are dropped. closed() is called later. */
void http_stream_abort(struct http_exchange *x);
/* Unsent bytes of the exchange's connection exceed backlog_max, or, in HTTP/2, those of its
 * stream a quarter of that. When they have drained to half, drained(ctx) of the stream is
 * called, if set. */
bool http_backlogged(const struct http_exchange *x);
/* The same, or all connections together hold too many unread bytes; drained(ctx) is called in that
 * case, too. Ask before writing much. */
bool http_must_wait(const struct http_exchange *x);
/* How many bytes a stream should be given at a time: the less, the more of what others were given
 * is unread. */
uint64_t http_stream_share(const struct http_exchange *x);
/* So many unsent bytes wait for this peer, or for all, that no large answer should be made. */
bool http_is_overloaded(const struct http_exchange *x);
/* It is answered without a body, for the request was HEAD. */
bool http_is_head(const struct http_exchange *x);
/* The request came over TLS. */
bool http_is_tls(const struct http_exchange *x);
/* Who is at the other end. Valid as long as the exchange has a connection: during the handler. */
#define HTTP_ADDRESS_MAX 48
struct http_peer {
    char address[HTTP_ADDRESS_MAX]; /* numeric, without the port; empty: not known */
    /* Of the certificate that it has shown, and that was checked; empty: none. */
    struct str subject; /* as in RFC 2253: "CN=mail,O=Acme" */
    struct str names;   /* further ones, each ended by '\n': "DNS:a.example", "URI:spiffe://a/b",
                         * "email:a@b.example"; of some kinds only, and without odd ones */
};
const struct http_peer *http_peer(struct http_exchange *x);
/* Who sends this one request, where the peer is a server that passes it on. It must live as long as
 * the exchange's arena. */
void http_set_peer(struct http_exchange *x, const struct http_peer *peer);
/* The handler keeps so many bytes of the request until the exchange is replied to; they count as
 * memory of requests. */
void http_hold(struct http_exchange *x, uint64_t bytes);
/* The peer has gone. The exchange must be replied to all the same, but nobody reads the answer. */
bool http_is_gone(const struct http_exchange *x);
void http_stream_on_drain(struct http_exchange *x, void (*drained)(void *ctx));
/* Called once if the peer goes away before http_reply of a long-pending exchange (a long poll), so
 * that its owner can stop early; x stays valid until it is replied to, also from inside
 * gone(). A peer that has shut down its sending side of the connection counts as gone, but still
 * gets a reply if it can be reached; in HTTP/2 a stream that was reset counts as gone. If the peer
 * has gone already, gone() is called in the next loop turn. NULL cancels it. */
void http_on_gone(struct http_exchange *x, void (*gone)(void *ctx), void *ctx);
/* Called before http_reply: what became of the answer is told once, be it by http_reply itself;
 * net/receipt.h says when it counts as lost. Of connections that another thread serves
 * (net/relay.h) only answers to peers that had gone before are. ctx must stay until then. */
void http_on_settled(struct http_exchange *x, void (*settled)(void *ctx, bool lost), void *ctx);

/* Its body comes in pieces, and nobody has taken it yet. */
bool http_in_pieces(const struct http_exchange *x);

/* A pointer of the handler's own, kept with the exchange until it is answered; NULL at first. */
void http_set_note(struct http_exchange *x, void *note);
void *http_note(const struct http_exchange *x);

/* The standard phrase ("Not Found"). */
const char *http_phrase(int status);

#endif
