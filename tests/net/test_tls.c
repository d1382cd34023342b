/* SPDX-License-Identifier: Apache-2.0 */
#include "client.h"

#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/array.h"
#include "cli/certs.h"
#include "net/tls.h"

/* The client side of TLS, on top of the raw client of client.h. */
struct secure {
    struct client c;
    SSL_CTX *ctx;
    SSL *ssl;
    struct buf text; /* the decrypted text, followed by a NUL */
    bool failed, ended;
};

struct tls_fixture {
    struct fixture f;
    char dir[64];
    char ca_cert[96], ca_key[96], cert[96], key[96], client_cert[96], client_key[96];
    struct tls_context *context;
};

static void make(const struct certs_spec *spec, const struct certs_pair *ca, const char *cert,
                 const char *key)
{
    struct err e = certs_make(spec, ca, &(struct certs_pair){cert, key}, true);
    assert_int_equal(e.code, ERR_OK);
}

static void make_server(struct tls_fixture *t, const char *host)
{
    const struct certs_pair ca = {t->ca_cert, t->ca_key};
    make(&(struct certs_spec){CERTS_SERVER, host, &host, 1, 7}, &ca, t->cert, t->key);
}

static int setup(void **state)
{
    struct tls_fixture *t = calloc(1, sizeof *t);
    fixture_init(&t->f);
    strcpy(t->dir, "/tmp/tenax-tls-XXXXXX");
    assert_non_null(mkdtemp(t->dir));
    struct {
        char *path;
        const char *name;
    } files[] = {{t->ca_cert, "ca.pem"}, {t->ca_key, "ca-key.pem"}, {t->cert, "cert.pem"},
                 {t->key, "key.pem"},    {t->client_cert, "c.pem"}, {t->client_key, "c-key.pem"}};
    for (size_t i = 0; i < COUNT(files); i++)
        snprintf(files[i].path, sizeof t->key, "%s/%s", t->dir, files[i].name);
    const struct certs_pair ca = {t->ca_cert, t->ca_key};
    make(&(struct certs_spec){CERTS_CA, "test", NULL, 0, 7}, NULL, t->ca_cert, t->ca_key);
    make_server(t, "localhost");
    make(&(struct certs_spec){CERTS_CLIENT, "w", NULL, 0, 7}, &ca, t->client_cert, t->client_key);
    *state = t;
    return 0;
}

static int teardown(void **state)
{
    struct tls_fixture *t = *state;
    fixture_fini(&t->f);
    tls_context_free(t->context);
    const char *files[] = {t->ca_cert, t->ca_key, t->cert, t->key, t->client_cert, t->client_key};
    for (size_t i = 0; i < COUNT(files); i++)
        unlink(files[i]);
    rmdir(t->dir);
    free(t);
    return 0;
}

static void serve(struct tls_fixture *t, bool mutual)
{
    const struct tls_files files = {t->cert, t->key, mutual ? t->ca_cert : NULL};
    struct err e = tls_context_new(&files, &t->context);
    assert_int_equal(e.code, ERR_OK);
    t->f.settings.tls = t->context;
    fixture_serve(&t->f);
}

/* -- the client ------------------------------------------------------------- */

static void secure_open(struct tls_fixture *t, struct secure *s, bool with_cert)
{
    *s = (struct secure){0};
    client_open(&t->f, &s->c);
    s->ctx = SSL_CTX_new(TLS_client_method());
    SSL_CTX_load_verify_file(s->ctx, t->ca_cert);
    SSL_CTX_set_verify(s->ctx, SSL_VERIFY_PEER, NULL);
    if (with_cert) {
        SSL_CTX_use_certificate_file(s->ctx, t->client_cert, SSL_FILETYPE_PEM);
        SSL_CTX_use_PrivateKey_file(s->ctx, t->client_key, SSL_FILETYPE_PEM);
    }
    s->ssl = SSL_new(s->ctx);
    SSL_set_bio(s->ssl, BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
    SSL_set_connect_state(s->ssl);
    *buf_room(&s->text, 1) = '\0';
}

static void secure_close(struct tls_fixture *t, struct secure *s)
{
    SSL_free(s->ssl);
    SSL_CTX_free(s->ctx);
    buf_fini(&s->text);
    client_close(&t->f, &s->c);
}

/* Feeds what arrived, continues the handshake, and sends what is due. */
static void secure_pump(struct secure *s)
{
    BIO_write(SSL_get_rbio(s->ssl), s->c.in.at, (int)s->c.in.len);
    s->c.in.len = 0;
    int n;
    while ((n = SSL_read(s->ssl, buf_room(&s->text, 65537), 65536)) > 0)
        s->text.len += (size_t)n;
    s->text.at[s->text.len] = '\0';
    int e = SSL_get_error(s->ssl, n);
    s->ended = s->ended || e == SSL_ERROR_ZERO_RETURN;
    s->failed = s->failed || e == SSL_ERROR_SSL;
    char *at;
    long len = BIO_get_mem_data(SSL_get_wbio(s->ssl), &at);
    if (len > 0 && !s->c.ended)
        assert_int_equal(send(s->c.fd, at, (size_t)len, MSG_NOSIGNAL), len);
    (void)BIO_reset(SSL_get_wbio(s->ssl));
}

#define SECURE_AWAIT(t, s, condition)                                                              \
    for (secure_pump(s); !(condition); secure_pump(s))                                             \
    fixture_step(&(t)->f)

static void secure_send(struct tls_fixture *t, struct secure *s, const char *text)
{
    SECURE_AWAIT(t, s, SSL_is_init_finished(s->ssl));
    int len = (int)strlen(text);
    assert_int_equal(SSL_write(s->ssl, text, len), len);
    secure_pump(s);
}

static void secure_expect(struct tls_fixture *t, struct secure *s, const char *text)
{
    SECURE_AWAIT(t, s, strstr(s->text.at, text));
}

/* -- tests ------------------------------------------------------------------ */

static void requests_are_answered_over_tls(void **state)
{
    struct tls_fixture *t = *state;
    struct secure s;
    serve(t, false);
    secure_open(t, &s, false);
    secure_send(t, &s, "PUT /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello");
    secure_expect(t, &s, "\r\n\r\nhello");
    secure_send(t, &s, "GET /large HTTP/1.1\r\nHost: a\r\n\r\n");
    SECURE_AWAIT(t, &s, s.text.len > 1024 * 1024);
    assert_int_equal(SSL_version(s.ssl), TLS1_3_VERSION);
    secure_close(t, &s);
}

static void the_preface_is_understood_inside_of_tls(void **state)
{
    struct tls_fixture *t = *state;
    struct secure s;
    serve(t, false);
    secure_open(t, &s, false);
    SSL_set_alpn_protos(s.ssl, (const unsigned char *)"\2h2", 3);
    secure_send(t, &s, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    SECURE_AWAIT(t, &s, s.text.len >= 9);
    assert_int_equal(s.text.at[3], 4); /* SETTINGS */
    secure_close(t, &s);
}

static void the_end_is_said_before_it_comes(void **state)
{
    struct tls_fixture *t = *state;
    struct secure s;
    serve(t, false);
    secure_open(t, &s, false);
    secure_send(t, &s, "GET /none HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    SECURE_AWAIT(t, &s, s.c.ended);
    assert_true(s.ended); /* close_notify, not only FIN */
    assert_non_null(strstr(s.text.at, "204 No Content"));
    assert_false(s.c.reset);
    secure_close(t, &s);
}

static void a_client_that_says_it_is_done_is_still_answered(void **state)
{
    struct tls_fixture *t = *state;
    struct secure s;
    serve(t, false);
    secure_open(t, &s, false);
    secure_send(t, &s, "GET /held HTTP/1.1\r\nHost: a\r\n\r\n");
    AWAIT(&t->f, t->f.held_count == 1);
    SSL_shutdown(s.ssl);
    secure_pump(&s);
    fixture_settle(&t->f);
    http_reply(t->f.held[0], 200, STR("text/plain"), STR("late"), NULL);
    secure_expect(t, &s, "\r\n\r\nlate");
    SECURE_AWAIT(t, &s, s.c.ended);
    secure_close(t, &s);
}

static void clients_without_a_certificate_are_turned_away(void **state)
{
    struct tls_fixture *t = *state;
    struct secure s;
    serve(t, true);
    secure_open(t, &s, false);
    SECURE_AWAIT(t, &s, s.c.ended);
    assert_true(s.failed); /* by an alert that says why */
    secure_close(t, &s);
    secure_open(t, &s, true);
    secure_send(t, &s, "GET /none HTTP/1.1\r\nHost: a\r\n\r\n");
    secure_expect(t, &s, "204 No Content");
    secure_close(t, &s);
    assert_int_equal(t->f.served, 1);
}

static void plain_http_is_not_served(void **state)
{
    struct tls_fixture *t = *state;
    struct client c;
    serve(t, false);
    client_open(&t->f, &c);
    client_send(&c, "GET /none HTTP/1.1\r\nHost: a\r\n\r\n");
    AWAIT(&t->f, c.ended);
    assert_int_equal(t->f.served, 0);
    client_close(&t->f, &c);
}

static void a_handshake_that_does_not_move_times_out(void **state)
{
    struct tls_fixture *t = *state;
    struct client c;
    t->f.settings.handshake_timeout.ms = 40;
    serve(t, false);
    client_open(&t->f, &c);
    client_send(&c, "\x16\x03\x01");
    client_expect_end(&t->f, &c);
    client_close(&t->f, &c);
}

static void a_client_that_vanishes_in_the_handshake_leaves_nothing(void **state)
{
    struct tls_fixture *t = *state;
    struct secure s;
    serve(t, false);
    secure_open(t, &s, false);
    secure_pump(&s);
    AWAIT(&t->f, http_server_connections(t->f.server) == 1);
    secure_close(t, &s);
    AWAIT(&t->f, http_server_connections(t->f.server) == 0);
}

static void renegotiation_is_refused(void **state)
{
    struct tls_fixture *t = *state;
    struct secure s;
    serve(t, false);
    secure_open(t, &s, false);
    SSL_set_max_proto_version(s.ssl, TLS1_2_VERSION);
    secure_send(t, &s, "GET /none HTTP/1.1\r\nHost: a\r\n\r\n");
    secure_expect(t, &s, "204 No Content");
    assert_int_equal(SSL_renegotiate(s.ssl), 1);
    SSL_do_handshake(s.ssl);
    SECURE_AWAIT(t, &s, s.failed || s.c.ended);
    secure_close(t, &s);
}

static void a_reload_serves_the_new_certificate_or_keeps_the_old(void **state)
{
    struct tls_fixture *t = *state;
    struct secure s;
    serve(t, false);
    make_server(t, "new.example.org");
    assert_int_equal(tls_context_reload(t->context).code, ERR_OK);
    EVP_PKEY *other = EVP_RSA_gen(2048);
    FILE *file = fopen(t->key, "w");
    assert_non_null(file);
    assert_int_equal(PEM_write_PrivateKey(file, other, NULL, NULL, 0, NULL, NULL), 1);
    fclose(file);
    EVP_PKEY_free(other);
    struct err e = tls_context_reload(t->context);
    assert_int_equal(e.code, ERR_IO);
    assert_non_null(strstr(e.msg, "does not belong to"));
    assert_int_equal(unlink(t->key), 0);
    e = tls_context_reload(t->context);
    assert_int_equal(e.code, ERR_IO);
    assert_non_null(strstr(e.msg, t->key));
    secure_open(t, &s, false);
    SECURE_AWAIT(t, &s, SSL_is_init_finished(s.ssl));
    X509 *cert = SSL_get1_peer_certificate(s.ssl);
    char name[64];
    X509_NAME_get_text_by_NID(X509_get_subject_name(cert), NID_commonName, name, sizeof name);
    assert_string_equal(name, "new.example.org");
    X509_free(cert);
    secure_close(t, &s);
}

static void a_key_with_a_passphrase_is_refused_without_asking(void **state)
{
    struct tls_fixture *t = *state;
    EVP_PKEY *key = EVP_EC_gen("P-256");
    FILE *f = fopen(t->key, "w");
    assert_non_null(f);
    assert_int_equal(PEM_write_PKCS8PrivateKey(f, key, EVP_aes_256_cbc(), NULL, 0, NULL,
                                               (void *)(uintptr_t) "secret"),
                     1);
    fclose(f);
    EVP_PKEY_free(key);
    const struct tls_files files = {t->cert, t->key, NULL};
    struct err e = tls_context_new(&files, &t->context);
    assert_int_equal(e.code, ERR_IO);
    assert_non_null(strstr(e.msg, "passphrase"));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(requests_are_answered_over_tls),
        TEST(the_preface_is_understood_inside_of_tls),
        TEST(the_end_is_said_before_it_comes),
        TEST(a_client_that_says_it_is_done_is_still_answered),
        TEST(clients_without_a_certificate_are_turned_away),
        TEST(plain_http_is_not_served),
        TEST(a_handshake_that_does_not_move_times_out),
        TEST(a_client_that_vanishes_in_the_handshake_leaves_nothing),
        TEST(renegotiation_is_refused),
        TEST(a_reload_serves_the_new_certificate_or_keeps_the_old),
        TEST(a_key_with_a_passphrase_is_refused_without_asking),
    };
    return cmocka_run_group_tests_name("net/tls", tests, NULL, NULL);
}
