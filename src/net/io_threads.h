/* SPDX-License-Identifier: Apache-2.0 */
#ifndef NET_IO_THREADS_H
#define NET_IO_THREADS_H

/* A listener whose connections are served by several threads: each has a loop, and does TLS and
 * HTTP for the connections that are handed to it in turn. The handler runs on the thread of the
 * loop that is given here, and sees exchanges as those of an http_server: it is not aware of other
 * threads, and needs no locks. All functions are for that thread. */

#include "net/http.h"

/* More do not help: the handler is one thread. */
#define IO_THREADS_MAX 16

struct io_threads;

/* As http_server_new, with so many threads. in_pieces and reply_bound are called on any of them,
 * the rest on this one. settings->budget and settings->bodies must be there, and are
 * shared by all. */
NODISCARD struct err io_threads_new(uv_loop_t *loop, const struct http_settings *settings,
                                    int count, http_handler handler, void *ctx,
                                    struct io_threads **out);
/* The port that is really bound. */
int io_threads_port(const struct io_threads *t);
/* As http_server_socket. */
int io_threads_socket(const struct io_threads *t);
/* Connections that are open now. */
int io_threads_connections(const struct io_threads *t);
/* As http_server_stats, of all threads. */
void io_threads_stats(const struct io_threads *t, struct http_stats *out);
/* As http_server_drain. */
void io_threads_drain(struct io_threads *t, void (*done)(void *ctx), void *ctx);
/* Closes all connections and ends the threads; as with http_server_close, the loop must run once
 * more, and every exchange must be replied to. */
void io_threads_close(struct io_threads *t);
/* After that. NULL is allowed. */
void io_threads_free(struct io_threads *t);

#endif
