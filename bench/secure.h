/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BENCH_SECURE_H
#define BENCH_SECURE_H

/* The client's side of TLS on a connected socket. The server's certificate is not checked: this
 * measures what TLS costs, and the peer is the server that was just started here. A failure of
 * TLS itself ends the process (see crew_fail). */

#include <stddef.h>
#include <sys/types.h>

struct ssl_st;

/* The handshake; the socket does not block from then on. */
struct ssl_st *secure_start(int fd);
void secure_end(struct ssl_st *tls);
/* As send and recv do on a socket that does not block: bytes, or -1 and errno EAGAIN. 0: the
 * server has closed the connection. */
ssize_t secure_send(struct ssl_st *tls, const void *at, size_t n);
/* Never more than one record; those that came with it are not seen by epoll. So go on until
 * EAGAIN. */
ssize_t secure_recv(struct ssl_st *tls, void *to, size_t n);

#endif
