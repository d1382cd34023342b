/* SPDX-License-Identifier: Apache-2.0 */
#ifndef NET_TLS_H
#define NET_TLS_H

/* The server's side of TLS 1.2 and 1.3, from bytes to bytes: it does no input or output.
 * A context holds the certificate and may be shared by any number of connections, on any thread; a
 * `struct tls` is one connection, and its thread's. */

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"

struct tls_files {
    const char *cert;      /* PEM: the server's certificate, then those that lead to the CA */
    const char *key;       /* PEM, without a passphrase */
    const char *client_ca; /* PEM; NULL: clients need no certificate */
};

struct tls_context;

/* ERR_IO names the file at fault and says what is wrong with it. The names are copied. */
NODISCARD struct err tls_context_new(const struct tls_files *files, struct tls_context **out);
/* Reads the files again, for new connections. On an error all stays as it was. */
NODISCARD struct err tls_context_reload(struct tls_context *context);
/* Existing connections go on. */
void tls_context_free(struct tls_context *context);

/* Whether the certificate is for that name, which need not end in a zero byte. */
bool tls_context_names(struct tls_context *context, struct str name);

/* keeps_buffers: takes 33 KiB also between records, and so less time for each. */
struct tls *tls_new(struct tls_context *context, bool keeps_buffers);
void tls_free(struct tls *t);

enum tls_event {
    TLS_MORE,   /* nothing to read until more is fed */
    TLS_DATA,   /* *len bytes were read */
    TLS_END,    /* the peer sends no more (close_notify) */
    TLS_FAILED, /* tls_why says why; what tls_seal yields now is an alert for the peer */
};

/* What came from the socket: tls_read reads it, until that returns anything but TLS_DATA. */
void tls_feed(struct tls *t, const char *at, size_t len);
/* Reads at most `size` decrypted bytes; also advances the handshake. */
enum tls_event tls_read(struct tls *t, char *to, size_t size, size_t *len);
/* The handshake is complete. */
bool tls_is_ready(const struct tls *t);
/* The client has chosen HTTP/2 by ALPN. */
bool tls_speaks_h2(const struct tls *t);
/* Adds who the client is by the certificate that it has shown, once the handshake is complete:
 * subject and names of struct http_peer (net/http.h). Nothing if it has shown none. */
void tls_read_peer(const struct tls *t, struct buf *subject, struct buf *names);
const char *tls_why(const struct tls *t);
/* Encrypts `plain`, once the handshake is complete, and adds it and messages of the handshake to
 * the bytes for the socket. */
void tls_seal(struct tls *t, struct buf *plain, struct buf *wire);
/* Adds close_notify, once. */
void tls_finish(struct tls *t, struct buf *wire);

#endif
