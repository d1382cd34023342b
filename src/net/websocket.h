/* SPDX-License-Identifier: Apache-2.0 */
#ifndef NET_WEBSOCKET_H
#define NET_WEBSOCKET_H

/* WebSockets (RFC 6455): a connection that began with a request of HTTP/1.1 goes on with messages
 * of text in both directions. wslay reads and writes the frames; this file joins it to connections,
 * bounds what a peer can make it keep, and ends those that do not answer. Loop thread only.
 *
 * The guard has seen the request before, as every other: pages of another origin get none. There
 * are no extensions, and a message in binary ends the connection. */

#include "net/http.h"

struct websocket;

/* Bytes of a message from the peer. */
#define WEBSOCKET_MESSAGE_MAX ((size_t)64 * 1024)

/* Codes of an end (RFC 6455 §7.4.1). */
enum websocket_code {
    WEBSOCKET_DONE = 1000,
    WEBSOCKET_AWAY = 1001,
    WEBSOCKET_REFUSED = 1008,
    WEBSOCKET_FAILED = 1011
};

/* Nothing of it is called from inside the functions below. */
struct websocket_owner {
    /* A whole message, which is UTF-8; valid during the call. */
    void (*text)(void *ctx, struct str message);
    /* There is room again after websocket_is_congested. */
    void (*drained)(void *ctx);
    /* The connection is gone, and the websocket with it. */
    void (*closed)(void *ctx);
};

/* ERR_BAD_REQUEST, with what to do about it: the request asks for no WebSocket, or not as RFC 6455
 * §4.1 has it. Headers for the answer to that: */
#define WEBSOCKET_VERSIONS "Sec-WebSocket-Version: 13\r\n"
NODISCARD struct err websocket_check(const struct http_request *req);
/* Answers a request that websocket_check has let pass with 101, and ends its exchange.
 * ERR_CONFLICT: the connection cannot become one, because other requests are under way on it, or it
 * ends; then the exchange is still to be answered. */
NODISCARD struct err websocket_accept(struct http_exchange *x, const struct http_request *req,
                                      const struct websocket_owner *owner, void *ctx,
                                      struct websocket **out);
/* Sends a message; nothing after websocket_end. */
void websocket_send(struct websocket *w, struct str text);
/* More is unread by the peer than there should be; drained() follows. */
bool websocket_is_congested(struct websocket *w);
/* Says goodbye with that code; closed() comes later. Of `why` at most 120 bytes are sent. */
void websocket_end(struct websocket *w, enum websocket_code code, const char *why);

#endif
