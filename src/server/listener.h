/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SERVER_LISTENER_H
#define SERVER_LISTENER_H

/* A listener of the server: TLS or not, its connections on the loop's own thread or on several. */

#include "net/http.h"
#include "net/tls.h"

struct io_threads;

#define LISTENER_URL_MAX 320

struct listener {
    struct tls_context *tls; /* NULL: plain */
    /* Neither: it is not open. */
    struct http_server *http;   /* on the loop's thread */
    struct io_threads *threads; /* on threads of its own */
};

/* How many threads `wanted` means (0: by the processors). With 1 all is done on the loop's. */
int listener_threads(int64_t wanted);
/* `http` without TLS, which is as the files say. */
NODISCARD struct err listener_open(struct listener *l, uv_loop_t *loop,
                                   const struct tls_files *files, struct http_settings *http,
                                   int threads, http_handler handler, void *ctx);
bool listener_is_open(const struct listener *l);
/* The port that is really bound, and its socket; of one that is open. */
int listener_port(const struct listener *l);
int listener_socket(const struct listener *l);
int listener_connections(const struct listener *l);
/* Zeros unless it is open. */
void listener_stats(const struct listener *l, struct http_stats *out);
/* As http_server_drain; false, and done is not called, unless it is open. */
bool listener_drain(struct listener *l, void (*done)(void *ctx), void *ctx);
/* As http_server_close; nothing unless it is open. */
void listener_close(struct listener *l);
/* When the loop has run once more. */
void listener_free(struct listener *l);
/* Reads the certificate again, and logs the result. */
void listener_reload(struct listener *l, const char *name);
/* Writes the URL by which this machine reaches it: if it listens on all addresses, the loopback's.
 */
void listener_url(const struct listener *l, const char *host, char url[LISTENER_URL_MAX]);
/* Logs and prints where it listens. */
void listener_announce(const struct listener *l, const char *host, const char *api,
                       const char *suffix);

#endif
