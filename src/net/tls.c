/* SPDX-License-Identifier: Apache-2.0 */
#include "net/tls.h"

#include <errno.h>
#include <limits.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/must.h"

/* For TLS 1.2; all ciphers of 1.3 are acceptable. Forward secrecy and authenticated encryption,
 * which is also what RFC 9113 §9.2.2 leaves to HTTP/2. */
#define CIPHERS_12 "ECDHE+AESGCM:ECDHE+CHACHA20"

struct tls_context {
    char *cert, *key, *client_ca;
    pthread_mutex_t lock; /* of the pointer: connections keep what it pointed to */
    SSL_CTX *ssl;
};

struct tls {
    SSL *ssl;
    struct str in;  /* fed and not read yet */
    struct buf out; /* for the socket, until the next tls_seal */
    struct buf *to; /* where OpenSSL's output goes: to `out`, or at once to who asks for it */
    bool failed, finished;
    char why[160];
};

/* -- contexts --------------------------------------------------------------- */

/* The newest error of OpenSSL; clears its queue. */
static const char *reason(void)
{
    unsigned long code = ERR_peek_last_error();
    const char *text =
        ERR_SYSTEM_ERROR(code) ? strerror(ERR_GET_REASON(code)) : ERR_reason_error_string(code);
    ERR_clear_error();
    return text ? text : "unknown reason";
}

static struct err refuse(const char *what, const char *file)
{
    return err_make(ERR_IO, "cannot use the %s '%.100s': %s", what, file, reason());
}

/* Open the file first, so that the error is "No such file", not a code of OpenSSL. */
static struct err check_readable(const char *what, const char *file)
{
    FILE *f = fopen(file, "re");
    if (!f)
        return err_make(ERR_IO, "cannot read the %s '%.100s': %s", what, file, strerror(errno));
    fclose(f);
    return err_none();
}

/* A server cannot ask for a passphrase. */
static int no_passphrase(char *to, int size, int writing, void *ctx)
{
    (void)to;
    (void)size;
    (void)writing;
    *(bool *)ctx = true;
    return -1;
}

static struct err foreign_key(const struct tls_context *c)
{
    return err_make(ERR_IO, "the TLS key '%.80s' does not belong to the certificate '%.80s'",
                    c->key, c->cert);
}

static struct err load_key(SSL_CTX *ssl, const struct tls_context *c)
{
    TRY(check_readable("TLS key", c->key));
    bool asked = false;
    SSL_CTX_set_default_passwd_cb(ssl, no_passphrase);
    SSL_CTX_set_default_passwd_cb_userdata(ssl, &asked);
    int ok = SSL_CTX_use_PrivateKey_file(ssl, c->key, SSL_FILETYPE_PEM);
    SSL_CTX_set_default_passwd_cb_userdata(ssl, NULL);
    if (asked)
        return err_make(ERR_IO, "cannot use the TLS key '%.100s': it is locked by a passphrase",
                        c->key);
    if (ok != 1 && ERR_GET_REASON(ERR_peek_last_error()) == X509_R_KEY_VALUES_MISMATCH) {
        ERR_clear_error();
        return foreign_key(c);
    }
    return ok == 1 ? err_none() : refuse("TLS key", c->key);
}

/* OpenSSL keeps a pair per kind of key, so that a certificate of one kind and a key of another
 * do not meet before the first handshake. */
static struct err check_pair(SSL_CTX *ssl, const struct tls_context *c)
{
    if (SSL_CTX_check_private_key(ssl) == 1)
        return err_none();
    ERR_clear_error();
    return foreign_key(c);
}

static struct err load_pair(SSL_CTX *ssl, const struct tls_context *c)
{
    TRY(check_readable("TLS certificate", c->cert));
    if (SSL_CTX_use_certificate_chain_file(ssl, c->cert) != 1)
        return refuse("TLS certificate", c->cert);
    TRY(load_key(ssl, c));
    return check_pair(ssl, c);
}

/* Without a certificate of that CA there is no connection. */
static struct err require_clients(SSL_CTX *ssl, const struct tls_context *c)
{
    TRY(check_readable("CA of clients", c->client_ca));
    STACK_OF(X509_NAME) *names = SSL_load_client_CA_file(c->client_ca);
    if (!names || SSL_CTX_load_verify_file(ssl, c->client_ca) != 1) {
        sk_X509_NAME_pop_free(names, X509_NAME_free);
        return refuse("CA of clients", c->client_ca);
    }
    SSL_CTX_set_client_CA_list(ssl, names);
    SSL_CTX_set_verify(ssl, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
    return err_none();
}

static int choose_protocol(SSL *ssl, const unsigned char **out, unsigned char *out_len,
                           const unsigned char *in, unsigned in_len, void *ctx)
{
    (void)ssl;
    (void)ctx;
    static const unsigned char ours[] = "\2h2\10http/1.1";
    unsigned char *chosen;
    if (SSL_select_next_proto(&chosen, out_len, ours, sizeof ours - 1, in, in_len) !=
        OPENSSL_NPN_NEGOTIATED)
        return SSL_TLSEXT_ERR_ALERT_FATAL; /* RFC 7301 §3.2 */
    *out = chosen;
    return SSL_TLSEXT_ERR_OK;
}

static void restrict_protocol(SSL_CTX *ssl)
{
    static const unsigned char id[] = "tenax";
    must(SSL_CTX_set_min_proto_version(ssl, TLS1_2_VERSION) == 1);
    must(SSL_CTX_set_cipher_list(ssl, CIPHERS_12) == 1);
    SSL_CTX_set_options(ssl, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
    SSL_CTX_set_mode(ssl, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE |
                              SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    SSL_CTX_set_read_ahead(ssl, 1); /* the head of a record and the rest in one go */
    /* Clients with certificates can only resume sessions of a named context. */
    must(SSL_CTX_set_session_id_context(ssl, id, sizeof id - 1) == 1);
    SSL_CTX_set_alpn_select_cb(ssl, choose_protocol, NULL);
}

static struct err load(const struct tls_context *c, SSL_CTX **out)
{
    ERR_clear_error();
    SSL_CTX *ssl = SSL_CTX_new(TLS_server_method());
    must(ssl);
    restrict_protocol(ssl);
    struct err e = load_pair(ssl, c);
    if (e.code == ERR_OK && c->client_ca)
        e = require_clients(ssl, c);
    if (e.code != ERR_OK) {
        SSL_CTX_free(ssl);
        return e;
    }
    *out = ssl;
    return err_none();
}

static char *copy(const char *text)
{
    return text ? alloc_text(text, strlen(text)) : NULL;
}

struct err tls_context_new(const struct tls_files *files, struct tls_context **out)
{
    struct tls_context *c = ALLOC(struct tls_context);
    must(pthread_mutex_init(&c->lock, NULL) == 0);
    c->cert = copy(files->cert);
    c->key = copy(files->key);
    c->client_ca = copy(files->client_ca);
    struct err e = load(c, &c->ssl);
    if (e.code != ERR_OK)
        tls_context_free(c);
    else
        *out = c;
    return e;
}

struct err tls_context_reload(struct tls_context *context)
{
    SSL_CTX *fresh;
    TRY(load(context, &fresh));
    pthread_mutex_lock(&context->lock);
    SSL_CTX *old = context->ssl;
    context->ssl = fresh;
    pthread_mutex_unlock(&context->lock);
    SSL_CTX_free(old);
    return err_none();
}

bool tls_context_names(struct tls_context *context, struct str name)
{
    pthread_mutex_lock(&context->lock);
    X509 *cert = SSL_CTX_get0_certificate(context->ssl);
    bool named = cert && X509_check_host(cert, name.at, name.len, 0, NULL) == 1;
    pthread_mutex_unlock(&context->lock);
    return named;
}

void tls_context_free(struct tls_context *context)
{
    if (!context)
        return;
    SSL_CTX_free(context->ssl);
    pthread_mutex_destroy(&context->lock);
    free(context->cert);
    free(context->key);
    free(context->client_ca);
    free(context);
}

/* -- connections ------------------------------------------------------------ */

/* OpenSSL reads and writes our buffers: those of its own in memory (BIO_s_mem) cost two copies and
 * half a thousand instructions a record. */

static int take_bytes(BIO *bio, char *to, size_t size, size_t *len)
{
    struct tls *t = BIO_get_data(bio);
    BIO_clear_retry_flags(bio);
    *len = t->in.len < size ? t->in.len : size;
    if (*len == 0) {
        BIO_set_retry_read(bio);
        return 0;
    }
    memcpy(to, t->in.at, *len);
    t->in.at += *len;
    t->in.len -= *len;
    return 1;
}

static int give_bytes(BIO *bio, const char *at, size_t len, size_t *done)
{
    struct tls *t = BIO_get_data(bio);
    buf_add(t->to, at, len);
    *done = len;
    return 1;
}

static long control(BIO *bio, int what, long number, void *at)
{
    (void)bio, (void)number, (void)at;
    return what == BIO_CTRL_FLUSH; /* the others do not matter to whom they are not known */
}

static BIO_METHOD *method;

static void make_method(void)
{
    method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "buffers");
    must(method && BIO_meth_set_read_ex(method, take_bytes) == 1 &&
         BIO_meth_set_write_ex(method, give_bytes) == 1 && BIO_meth_set_ctrl(method, control) == 1);
}

static BIO *buffers_of(struct tls *t)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    must(pthread_once(&once, make_method) == 0);
    BIO *bio = BIO_new(method);
    must(bio);
    BIO_set_data(bio, t);
    BIO_set_init(bio, 1);
    return bio;
}

struct tls *tls_new(struct tls_context *context, bool keeps_buffers)
{
    struct tls *t = ALLOC(struct tls);
    pthread_mutex_lock(&context->lock);
    t->ssl = SSL_new(context->ssl);
    pthread_mutex_unlock(&context->lock);
    must(t->ssl);
    t->to = &t->out;
    if (keeps_buffers)
        SSL_clear_mode(t->ssl, SSL_MODE_RELEASE_BUFFERS);
    BIO *bio = buffers_of(t);
    SSL_set_bio(t->ssl, bio, bio); /* it takes one reference if both are the same */
    SSL_set_accept_state(t->ssl);
    return t;
}

void tls_free(struct tls *t)
{
    if (!t)
        return;
    SSL_free(t->ssl);
    buf_fini(&t->out);
    free(t);
}

void tls_feed(struct tls *t, const char *at, size_t len)
{
    t->in = (struct str){at, len};
}

static enum tls_event fail(struct tls *t)
{
    long verdict = SSL_get_verify_result(t->ssl);
    t->failed = true;
    snprintf(t->why, sizeof t->why, "%s%s%s", reason(), verdict == X509_V_OK ? "" : ": ",
             verdict == X509_V_OK ? "" : X509_verify_cert_error_string(verdict));
    return TLS_FAILED;
}

/* Before what SSL_get_error is asked about. Clearing walks all places of the queue. */
static void forget_errors(void)
{
    if (ERR_peek_error())
        ERR_clear_error();
}

/* Whether all that was fed has been read. Asking for more would find that out by a failing read,
 * which costs as much as a whole record. */
static bool is_read_up(const struct tls *t)
{
    return t->in.len == 0 && tls_is_ready(t) && !SSL_has_pending(t->ssl);
}

static enum tls_event read_some(struct tls *t, char *to, size_t size, size_t *len)
{
    if (t->failed)
        return TLS_FAILED;
    if (is_read_up(t))
        return TLS_MORE;
    forget_errors();
    if (SSL_read_ex(t->ssl, to, size, len) == 1)
        return TLS_DATA;
    switch (SSL_get_error(t->ssl, 0)) {
    case SSL_ERROR_WANT_READ:
    case SSL_ERROR_WANT_WRITE:
        return TLS_MORE;
    case SSL_ERROR_ZERO_RETURN:
        return TLS_END;
    default:
        return fail(t);
    }
}

enum tls_event tls_read(struct tls *t, char *to, size_t size, size_t *len)
{
    enum tls_event event = read_some(t, to, size, len);
    if (event != TLS_DATA)
        t->in.len = 0; /* OpenSSL has all of it, or wants no more */
    return event;
}

bool tls_is_ready(const struct tls *t)
{
    return !t->failed && SSL_is_init_finished(t->ssl);
}

bool tls_speaks_h2(const struct tls *t)
{
    const unsigned char *name;
    unsigned len;
    SSL_get0_alpn_selected(t->ssl, &name, &len);
    return len == 2 && memcmp(name, "h2", 2) == 0;
}

/* What has control characters or is not ASCII could be taken for another name. */
static bool is_plain(const unsigned char *at, int len)
{
    for (int i = 0; i < len; i++)
        if (at[i] < 0x20 || at[i] >= 0x7f)
            return false;
    return len > 0;
}

static void add_name(struct buf *names, const GENERAL_NAME *name)
{
    const char *kind = name->type == GEN_DNS     ? "DNS:"
                       : name->type == GEN_URI   ? "URI:"
                       : name->type == GEN_EMAIL ? "email:"
                                                 : NULL;
    if (!kind)
        return;
    const ASN1_IA5STRING *text = name->d.ia5; /* of all three */
    const unsigned char *at = ASN1_STRING_get0_data(text);
    int len = ASN1_STRING_length(text);
    if (is_plain(at, len))
        buf_print(names, "%s%.*s\n", kind, len, (const char *)at);
}

static void add_names(struct buf *names, const X509 *cert)
{
    GENERAL_NAMES *all = X509_get_ext_d2i(cert, NID_subject_alt_name, NULL, NULL);
    for (int i = 0; i < sk_GENERAL_NAME_num(all); i++)
        add_name(names, sk_GENERAL_NAME_value(all, i));
    GENERAL_NAMES_free(all);
}

void tls_read_peer(const struct tls *t, struct buf *subject, struct buf *names)
{
    X509 *cert = t->failed ? NULL : SSL_get0_peer_certificate(t->ssl);
    if (!cert || SSL_get_verify_result(t->ssl) != X509_V_OK)
        return;
    BIO *out = BIO_new(BIO_s_mem());
    must(out);
    char *at;
    /* Escapes all that is not printable ASCII. */
    X509_NAME_print_ex(out, X509_get_subject_name(cert), 0, XN_FLAG_RFC2253);
    long len = BIO_get_mem_data(out, &at);
    buf_add(subject, at, len > 0 ? (size_t)len : 0);
    BIO_free(out);
    add_names(names, cert);
}

const char *tls_why(const struct tls *t)
{
    return t->why;
}

/* What the handshake had to say; the rest follows directly. */
static void collect(struct tls *t, struct buf *wire)
{
    t->to = wire;
    if (t->out.len)
        buf_str(wire, buf_view(&t->out));
    buf_fini(&t->out);
}

void tls_seal(struct tls *t, struct buf *plain, struct buf *wire)
{
    size_t done = 0;
    collect(t, wire);
    while (tls_is_ready(t) && done < plain->len) {
        size_t n;
        forget_errors();
        if (SSL_write_ex(t->ssl, plain->at + done, plain->len - done, &n) != 1) {
            fail(t);
            break;
        }
        done += n;
    }
    buf_drop(plain, done);
    t->to = &t->out;
}

void tls_finish(struct tls *t, struct buf *wire)
{
    if (t->finished)
        return;
    t->finished = true;
    ERR_clear_error();
    collect(t, wire);
    if (tls_is_ready(t))
        SSL_shutdown(t->ssl);
    t->to = &t->out;
}
