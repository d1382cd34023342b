/* SPDX-License-Identifier: Apache-2.0 */
#ifndef NET_HTTP2_H
#define NET_HTTP2_H

/* HTTP/2 on a connection (RFC 9113): nghttp2 does frames, header compression and the
 * states of streams; this module handles requests, replies, limits, timeouts, and
 * abusive peers. The owner of the connection's set is the http_server.
 *
 * An exchange is one stream. END_STREAM ends the request; the peer waits for the reply. A peer is
 * gone when it resets the stream or its connection ends. */

#include "net/conn.h"

extern const struct protocol http2_conn;

/* The client's connection preface, up to its SETTINGS. */
#define HTTP2_PREFACE "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

#endif
