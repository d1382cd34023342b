/* SPDX-License-Identifier: Apache-2.0 */
#ifndef NET_HTTP1_CONN_H
#define NET_HTTP1_CONN_H

/* HTTP/1.0 and 1.1 on a connection: pipelining, replies in the order of the
 * requests, chunked streams, keep-alive, timeouts, and errors in the request
 * itself. The owner of the connection's set is the http_server. */

#include "net/conn.h"

extern const struct protocol http1_conn;

#endif
