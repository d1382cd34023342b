/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BENCH_SECURE_H
#define BENCH_SECURE_H

/* The client side of TLS on a connected socket. The server's certificate is not checked: this
 * measures the cost of TLS, and the peer is the server that was just started here. A failure of TLS
 * itself ends the process (see crew_fail). */

#include <stddef.h>
#include <sys/types.h>

struct ssl_st;

/* The handshake; afterwards the socket is non-blocking. */
struct ssl_st *secure_start(int fd);
void secure_end(struct ssl_st *tls);
/* Like send and recv on a non-blocking socket: bytes, or -1 and errno EAGAIN. 0: the server has
 * closed the connection. */
ssize_t secure_send(struct ssl_st *tls, const void *at, size_t n);
/* Never more than one record; epoll does not report the others that arrived with it, so continue
 * until EAGAIN. */
ssize_t secure_recv(struct ssl_st *tls, void *to, size_t n);

#endif
