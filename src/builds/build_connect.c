/* SPDX-License-Identifier: Apache-2.0 */
#include "builds/build_connect.h"

#include <string.h>

#include "base/decimal.h"

#define PORT_MAX 65535

/* HOST, HOST:PORT or [ADDRESS]:PORT. */
static struct err read_address(struct build_settings *s, struct str text, struct amqp_address *out)
{
    /* It may be a URL with a password in it. */
    if (memchr(text.at, '@', text.len) || memchr(text.at, '/', text.len))
        return err_make(ERR_USAGE, "rabbitmq.host must be HOST[:PORT], not a URL; user, password "
                                   "and virtual host have settings of their own");
    bool bracket = text.len && text.at[0] == '[';
    const char *close = bracket ? memchr(text.at, ']', text.len) : NULL;
    struct str host = text, port = {0};
    if (bracket && !close)
        return err_make(ERR_USAGE, "RABBITMQ_HOST: '%.*s' has no ]", NAME_ARG(text));
    const char *colon = close ? close + 1 : memchr(text.at, ':', text.len);
    if (colon && colon < text.at + text.len) {
        port = (struct str){colon + 1, (size_t)(text.at + text.len - colon - 1)};
        host.len = (size_t)(colon - text.at);
    }
    if (bracket)
        host = (struct str){text.at + 1, (size_t)(close - text.at - 1)};
    int64_t number = build_int(s, BUILD_PORT);
    if (host.len == 0 || (colon && *colon == ':' && !decimal_digits(port, 5, &number)) ||
        number < 1 || number > PORT_MAX)
        return err_make(ERR_USAGE, "rabbitmq.host: '%.*s' is no HOST[:PORT]", NAME_ARG(text));
    char *copy = arena_get(&s->memory, host.len + 1);
    memcpy(copy, host.at, host.len);
    copy[host.len] = '\0';
    *out = (struct amqp_address){.host = copy, .port = (int)number};
    return err_none();
}

static struct err read_addresses(struct build_connect *c, struct build_settings *s)
{
    const char *at = build_text(s, BUILD_HOST);
    for (;;) {
        size_t n = strcspn(at, ",");
        if (c->settings.address_count == BUILD_ADDRESSES_MAX)
            return err_make(ERR_USAGE, "rabbitmq.host: more than %d addresses",
                            BUILD_ADDRESSES_MAX);
        TRY(read_address(s, (struct str){at, n}, &c->addresses[c->settings.address_count++]));
        if (!at[n])
            return err_none();
        at += n + 1;
    }
}

static struct err read_tls(struct build_connect *c, const struct build_settings *s)
{
    const char *protocol = build_text(s, BUILD_PROTOCOL), *ca = build_text(s, BUILD_RABBIT_CA_FILE);
    const char *cert = build_text(s, BUILD_RABBIT_CERT_FILE);
    const char *key = build_text(s, BUILD_RABBIT_KEY_FILE);
    if (strcmp(protocol, "amqp") == 0)
        return err_none();
    if (strcmp(protocol, "amqps") != 0)
        return err_make(ERR_USAGE, "rabbitmq.protocol must be amqp or amqps, not '%.40s'",
                        protocol);
    if (!*cert != !*key)
        return err_make(ERR_USAGE, "rabbitmq.certFile and rabbitmq.keyFile need each other");
    c->tls = (struct amqp_tls){
        .ca_file = *ca ? ca : NULL,
        .cert_file = *cert ? cert : NULL,
        .key_file = *key ? key : NULL,
        .unverified = build_bool(s, BUILD_RABBIT_INSECURE),
    };
    c->settings.tls = &c->tls;
    return err_none();
}

/* Of RABBITMQ_CONNECT_OPTIONS; seconds. */
static span option(const struct build_settings *s, const char *name, int64_t otherwise)
{
    const struct document_node *n = document_member(s->values[BUILD_CONNECT_OPTIONS].tree, name);
    int64_t seconds = otherwise;
    if (n && (n->type == DOCUMENT_NUMBER || n->type == DOCUMENT_STRING))
        decimal_digits(n->text, 6, &seconds);
    return (span){seconds * 1000};
}

struct err build_connect_make(struct build_connect *c, struct build_settings *s)
{
    *c = (struct build_connect){.reconnect = option(s, "reconnectTimeInSeconds", 30)};
    c->settings = (struct amqp_settings){
        .addresses = c->addresses,
        .vhost = build_settings_vhost(s),
        .user = build_settings_credential(s, BUILD_USERNAME),
        .password = build_settings_credential(s, BUILD_PASSWORD),
        .connect_timeout = {10000},
        .heartbeat = option(s, "heartbeatIntervalInSeconds", 20),
        .name = "tenax build-worker",
    };
    TRY(read_tls(c, s));
    return read_addresses(c, s);
}
