/* SPDX-License-Identifier: Apache-2.0 */
#include "secure.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/ssl.h>

#include "crew.h"

static _Noreturn void fail(const char *what)
{
    char text[256];
    ERR_error_string_n(ERR_get_error(), text, sizeof text);
    crew_fail("%s: %s", what, text);
}

/* One for all connections; never freed. */
static SSL_CTX *context(void)
{
    static SSL_CTX *shared;
    if (shared)
        return shared;
    shared = SSL_CTX_new(TLS_client_method());
    if (!shared)
        fail("SSL_CTX_new");
    SSL_CTX_set_verify(shared, SSL_VERIFY_NONE, NULL);
    /* The output buffer moves when it grows, and what was written is dropped from it. */
    SSL_CTX_set_mode(shared, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    return shared;
}

struct ssl_st *secure_start(int fd)
{
    SSL *tls = SSL_new(context());
    if (!tls || SSL_set_fd(tls, fd) != 1 || SSL_connect(tls) != 1)
        fail("the TLS handshake");
    if (fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) != 0)
        crew_fail("fcntl: %m");
    return tls;
}

void secure_end(struct ssl_st *tls)
{
    SSL_free(tls);
}

static ssize_t result(SSL *tls, int n, const char *what)
{
    if (n > 0)
        return n;
    int why = SSL_get_error(tls, n);
    if (why == SSL_ERROR_ZERO_RETURN)
        return 0;
    if (why != SSL_ERROR_WANT_READ && why != SSL_ERROR_WANT_WRITE)
        fail(what);
    errno = EAGAIN;
    return -1;
}

ssize_t secure_send(struct ssl_st *tls, const void *at, size_t n)
{
    ERR_clear_error();
    return result(tls, SSL_write(tls, at, n < INT32_MAX ? (int)n : INT32_MAX), "SSL_write");
}

ssize_t secure_recv(struct ssl_st *tls, void *to, size_t n)
{
    ERR_clear_error();
    return result(tls, SSL_read(tls, to, n < INT32_MAX ? (int)n : INT32_MAX), "SSL_read");
}
