/* SPDX-License-Identifier: Apache-2.0 */
#include "bridge/bridge_url.h"

#include "base/decimal.h"

#define PORT_MAX   65535
#define PLAIN_PORT 5672
#define TLS_PORT   5671

#define NAME_MAX_BYTES 255 /* of AMQP */

static struct err wrong(const char *why)
{
    return err_make(ERR_USAGE, "the URL of RabbitMQ is not amqp[s]://USER@HOST:PORT/VHOST: %s",
                    why);
}

static int hex(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static struct err decode(struct str s, struct arena *a, const char **out)
{
    char *at = arena_get(a, s.len + 1);
    size_t n = 0;
    for (size_t i = 0; i < s.len; i++, n++) {
        at[n] = s.at[i];
        if (s.at[i] != '%')
            continue;
        int high = i + 2 < s.len ? hex(s.at[i + 1]) : -1;
        int low = i + 2 < s.len ? hex(s.at[i + 2]) : -1;
        if (high < 0 || low < 0 || (high == 0 && low == 0))
            return wrong("a % is not followed by two hexadecimal digits");
        at[n] = (char)(high * 16 + low);
        i += 2;
    }
    at[n] = '\0';
    *out = at;
    return err_none();
}

/* The part of s before the character, or false; the rest stays in s. */
static bool cut(struct str *s, char c, struct str *before)
{
    const char *at = s->len ? memchr(s->at, c, s->len) : NULL;
    if (!at)
        return false;
    *before = (struct str){s->at, (size_t)(at - s->at)};
    *s = (struct str){at + 1, s->len - before->len - 1};
    return true;
}

/* HOST, HOST:PORT, [ADDRESS] or [ADDRESS]:PORT. */
static struct err read_address(struct str text, struct arena *a, bool tls, struct amqp_address *out)
{
    struct str host = text, port = {0};
    int64_t number = tls ? TLS_PORT : PLAIN_PORT;
    bool has_port;
    if (text.len && *text.at == '[') {
        struct str rest = {text.at + 1, text.len - 1};
        if (!cut(&rest, ']', &host) || (rest.len && *rest.at != ':'))
            return wrong("an address in [ ] is malformed");
        has_port = rest.len > 0;
        port = has_port ? (struct str){rest.at + 1, rest.len - 1} : port;
    } else {
        struct str rest = text;
        has_port = cut(&rest, ':', &host);
        port = rest;
    }
    if (has_port && (!decimal_digits(port, 5, &number) || number < 1 || number > PORT_MAX))
        return wrong("a port is a number from 1 to 65535");
    if (host.len == 0)
        return wrong("a host is missing");
    for (size_t i = 0; i < host.len; i++)
        if ((unsigned char)host.at[i] <= ' ' || strchr("@/?#%[]", host.at[i]))
            return wrong("a host has a character that no host has");
    char *copy = arena_get(a, host.len + 1);
    memcpy(copy, host.at, host.len);
    copy[host.len] = '\0';
    *out = (struct amqp_address){.host = copy, .port = (int)number};
    return err_none();
}

static struct err read_addresses(struct str list, struct arena *a, struct bridge_url *out)
{
    struct str one;
    for (bool more = true; more;) {
        more = cut(&list, ',', &one);
        if (out->address_count == BRIDGE_ADDRESSES_MAX)
            return wrong("there are too many hosts");
        TRY(read_address(more ? one : list, a, out->tls, &out->addresses[out->address_count++]));
    }
    return err_none();
}

static struct err read_user(struct str text, struct arena *a, struct bridge_url *out)
{
    struct str user = text, rest = text;
    if (cut(&rest, ':', &user))
        TRY(decode(rest, a, &out->password));
    return decode(user, a, &out->user);
}

static bool skip(struct str *s, struct str prefix)
{
    if (s->len < prefix.len || memcmp(s->at, prefix.at, prefix.len) != 0)
        return false;
    *s = (struct str){s->at + prefix.len, s->len - prefix.len};
    return true;
}

struct err bridge_url_read(struct str text, struct arena *a, struct bridge_url *out)
{
    struct str user, hosts;
    *out = (struct bridge_url){.vhost = "/"};
    out->tls = skip(&text, STR("amqps://"));
    if (!out->tls && !skip(&text, STR("amqp://")))
        return wrong("it does not begin with amqp:// or amqps://");
    if (text.len && memchr(text.at, '\0', text.len))
        return wrong("it has a NUL");
    struct str authority = text, vhost = {0};
    if (cut(&text, '/', &hosts)) {
        authority = hosts;
        vhost = text;
    }
    if (vhost.len && (memchr(vhost.at, '/', vhost.len) || memchr(vhost.at, '?', vhost.len)))
        return wrong("a / or ? in the name of the virtual host is written as %2F or %3F, and there "
                     "are no parameters");
    if (vhost.len)
        TRY(decode(vhost, a, &out->vhost));
    if (strlen(out->vhost) > NAME_MAX_BYTES)
        return wrong("the name of the virtual host has more than 255 bytes");
    if (cut(&authority, '@', &user))
        TRY(read_user(user, a, out));
    return read_addresses(authority, a, out);
}
