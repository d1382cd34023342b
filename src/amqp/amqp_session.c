/* SPDX-License-Identifier: Apache-2.0 */
#include "amqp/amqp_session.h"

#include <amqp_ssl_socket.h>
#include <amqp_tcp_socket.h>
#include <arpa/inet.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/time.h>

#include "base/must.h"

#define FRAME_MAX 131072

static struct timeval timeval_of(span s)
{
    return (struct timeval){.tv_sec = s.ms / 1000, .tv_usec = s.ms % 1000 * 1000};
}

int amqp_session_refusal(amqp_rpc_reply_t reply, struct str *text)
{
    if (reply.reply_type != AMQP_RESPONSE_SERVER_EXCEPTION)
        return 0;
    if (reply.reply.id == AMQP_CHANNEL_CLOSE_METHOD) {
        const amqp_channel_close_t *c = reply.reply.decoded;
        *text = amqp_session_str(c->reply_text);
        return c->reply_code;
    }
    if (reply.reply.id == AMQP_CONNECTION_CLOSE_METHOD) {
        const amqp_connection_close_t *c = reply.reply.decoded;
        *text = amqp_session_str(c->reply_text);
        return c->reply_code;
    }
    return 0;
}

struct err amqp_session_check(const struct amqp_session *s, amqp_rpc_reply_t reply,
                              const char *what)
{
    struct str text;
    if (reply.reply_type == AMQP_RESPONSE_NORMAL)
        return err_none();
    int code = amqp_session_refusal(reply, &text);
    if (code)
        return err_make(ERR_BROKER, "%s at %s: %d %.*s", what, s->peer, code, STR_ARG(text));
    if (reply.reply_type == AMQP_RESPONSE_LIBRARY_EXCEPTION)
        return err_make(ERR_BROKER, "%s at %s: %s", what, s->peer,
                        amqp_error_string2(reply.library_error));
    return err_make(ERR_BROKER, "%s at %s: the connection ended", what, s->peer);
}

static bool is_ip(const char *host)
{
    struct in6_addr any;
    return inet_pton(AF_INET, host, &any) == 1 || inet_pton(AF_INET6, host, &any) == 1;
}

/* The library compares the host with the certificate's DNS names only: an address is left to
 * OpenSSL. */
static bool verify_name(amqp_socket_t *socket, const char *host)
{
    SSL_CTX *context = amqp_ssl_socket_get_context(socket);
    bool ip = is_ip(host);
    amqp_ssl_socket_set_verify_hostname(socket, !ip);
    return !ip || X509_VERIFY_PARAM_set1_ip_asc(SSL_CTX_get0_param(context), host) == 1;
}

/* The library would otherwise verify against no authority at all unless a file is given. */
static bool trust(amqp_socket_t *socket, const struct amqp_tls *tls, const char *host)
{
    amqp_ssl_socket_set_verify_peer(socket, !tls->unverified);
    amqp_ssl_socket_set_verify_hostname(socket, false);
    if (!tls->unverified && !verify_name(socket, host))
        return false;
    amqp_ssl_socket_set_ssl_versions(socket, AMQP_TLSv1_2, AMQP_TLSvLATEST);
    if (tls->ca_file)
        return amqp_ssl_socket_set_cacert(socket, tls->ca_file) == AMQP_STATUS_OK;
    return SSL_CTX_set_default_verify_paths(amqp_ssl_socket_get_context(socket)) == 1;
}

static struct err make_socket(struct amqp_session *s, const struct amqp_tls *tls, const char *host,
                              amqp_socket_t **out)
{
    if (!tls) {
        *out = amqp_tcp_socket_new(s->state);
        must(*out);
        return err_none();
    }
    *out = amqp_ssl_socket_new(s->state);
    if (!*out)
        return err_make(ERR_BROKER, "TLS cannot be set up");
    if (!trust(*out, tls, host))
        return err_make(ERR_BROKER, "the certificates of authorities in '%s' cannot be used",
                        tls->ca_file ? tls->ca_file : "the system's folder");
    if (tls->cert_file &&
        amqp_ssl_socket_set_key(*out, tls->cert_file, tls->key_file) != AMQP_STATUS_OK)
        return err_make(ERR_BROKER, "the certificate '%s' cannot be used with the key '%s'",
                        tls->cert_file, tls->key_file);
    return err_none();
}

static amqp_table_entry_t able_to(const char *what)
{
    return (amqp_table_entry_t){
        .key = amqp_cstring_bytes(what),
        .value = {.kind = AMQP_FIELD_KIND_BOOLEAN, .value.boolean = 1},
    };
}

static amqp_table_entry_t text_entry(const char *key, const char *text)
{
    return (amqp_table_entry_t){
        .key = amqp_cstring_bytes(key),
        .value = {.kind = AMQP_FIELD_KIND_UTF8, .value.bytes = amqp_cstring_bytes(text)},
    };
}

static struct err log_in(struct amqp_session *s, const struct amqp_settings *settings)
{
    amqp_table_entry_t able[] = {
        able_to("connection.blocked"),           able_to("consumer_cancel_notify"),
        able_to("publisher_confirms"),           able_to("basic.nack"),
        able_to("authentication_failure_close"),
    };
    amqp_table_entry_t entries[] = {
        text_entry("product", "Tenax"),
        text_entry("connection_name", settings->name),
        {.key = amqp_cstring_bytes("capabilities"),
         .value = {.kind = AMQP_FIELD_KIND_TABLE,
                   .value.table = {.num_entries = sizeof able / sizeof *able, .entries = able}}},
    };
    amqp_table_t properties = {.num_entries = sizeof entries / sizeof *entries, .entries = entries};
    int heartbeat = (int)((settings->heartbeat.ms + 999) / 1000);
    amqp_rpc_reply_t reply = amqp_login_with_properties(
        s->state, settings->vhost, AMQP_DEFAULT_MAX_CHANNELS, FRAME_MAX, heartbeat, &properties,
        AMQP_SASL_METHOD_PLAIN, settings->user, settings->password);
    TRY(amqp_session_check(s, reply, "cannot log in"));
    amqp_channel_open(s->state, AMQP_CHANNEL);
    return amqp_session_check(s, amqp_get_rpc_reply(s->state), "cannot open a channel");
}

/* The library's own words for the most frequent mistake help nobody. */
static const char *why_not(int status)
{
    return status == AMQP_STATUS_SOCKET_ERROR ? "it refuses, or cannot be reached"
                                              : amqp_error_string2(status);
}

static struct err connect_to(struct amqp_session *s, const struct amqp_settings *settings,
                             const struct amqp_address *address)
{
    struct timeval timeout = timeval_of(settings->connect_timeout);
    amqp_socket_t *socket;
    amqp_set_handshake_timeout(s->state, &timeout);
    amqp_set_rpc_timeout(s->state, &timeout);
    TRY(make_socket(s, settings->tls, address->host, &socket));
    int status = amqp_socket_open_noblock(socket, address->host, address->port, &timeout);
    if (status != AMQP_STATUS_OK)
        return err_make(ERR_BROKER, "cannot connect to %s: %s", s->peer, why_not(status));
    return log_in(s, settings);
}

struct err amqp_session_open(struct amqp_session *s, const struct amqp_settings *settings,
                             size_t address)
{
    must(address < settings->address_count);
    const struct amqp_address *a = &settings->addresses[address];
    snprintf(s->peer, sizeof s->peer, "%.100s:%d", a->host, a->port);
    s->control = false;
    s->state = amqp_new_connection();
    must(s->state);
    struct err e = connect_to(s, settings, a);
    if (e.code != ERR_OK)
        amqp_session_close(s, false);
    return e;
}

void amqp_session_close(struct amqp_session *s, bool politely)
{
    if (!s->state)
        return;
    if (politely)
        amqp_connection_close(s->state, AMQP_REPLY_SUCCESS);
    amqp_destroy_connection(s->state);
    s->state = NULL;
}

struct err amqp_session_control(struct amqp_session *s)
{
    if (s->control)
        return err_none();
    amqp_channel_open(s->state, AMQP_CONTROL);
    TRY(amqp_session_check(s, amqp_get_rpc_reply(s->state), "cannot open a channel"));
    s->control = true;
    return err_none();
}

void amqp_session_control_closed(struct amqp_session *s)
{
    amqp_channel_close_ok_t ok = {0};
    amqp_send_method(s->state, AMQP_CONTROL, AMQP_CHANNEL_CLOSE_OK_METHOD, &ok);
    s->control = false;
}
