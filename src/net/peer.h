/* SPDX-License-Identifier: Apache-2.0 */
#ifndef NET_PEER_H
#define NET_PEER_H

/* Who is at the other end of a connection: struct http_peer, made and freed. A peer that was made
 * on one thread may be read on another once that knows of it. */

#include <uv.h>

#include "net/http.h"
#include "net/tls.h"

/* Of a connection whose handshake, if tls is not NULL, is over. */
struct http_peer *peer_new(const uv_tcp_t *tcp, const struct tls *tls);
void peer_free(struct http_peer *p);

#endif
