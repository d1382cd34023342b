/* SPDX-License-Identifier: Apache-2.0 */
#ifndef NET_LISTEN_H
#define NET_LISTEN_H

/* The address of a listener: found, bound, and what follows from it for its guard. */

#include <uv.h>

#include "net/guard.h"
#include "net/http.h"

/* Binds the handle to that host and port (0: any free one), or takes over a socket that is bound to
 * them already (0: none), and listens. *bound_port is the port that was bound; of the guard the
 * name, the machine and whether only this machine can connect are set, also when it fails.
 * Negative: an error of libuv. */
NODISCARD int listen_on(uv_tcp_t *listener, const struct http_settings *at,
                        uv_connection_cb connected, struct guard *guard, int *bound_port);
/* Takes the connection that is due at the listener as a file descriptor, for another thread.
 * Negative: an error of libuv. */
NODISCARD int listen_take(uv_stream_t *listener);

#endif
