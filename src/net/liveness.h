/* SPDX-License-Identifier: Apache-2.0 */
#ifndef NET_LIVENESS_H
#define NET_LIVENESS_H

/* Notices a peer whose host has vanished: no FIN and no RST comes, and what is sent to it gathers
 * in the kernel, which would retransmit for a quarter of an hour. The kernel does the work: it asks
 * an idle peer for a sign (keep-alive, RFC 9293 §3.8.4), and ends a connection on which nothing
 * sent was acknowledged for a while (TCP_USER_TIMEOUT, RFC 5482). */

#include <stdbool.h>
#include <uv.h>

#include "base/units.h"

/* The connection ends with ETIMEDOUT when nothing sent on it was acknowledged for so long, at least
 * a second; idle, it is probed three times in that time. A socket that refuses keeps its defaults.
 */
void liveness_watch(const uv_tcp_t *tcp, span limit);
/* The kernel has ended the connection. For sockets that nobody reads: libuv does not poll these,
 * and would not say so. */
bool liveness_is_over(const uv_tcp_t *tcp);
/* Sent bytes that the peer's machine has not acknowledged yet. */
bool liveness_is_unacknowledged(const uv_tcp_t *tcp);

#endif
