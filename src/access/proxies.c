/* SPDX-License-Identifier: Apache-2.0 */
#include "access/proxies.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const unsigned char mapped[12] = {[10] = 0xff, [11] = 0xff};

/* *v4: it was written as an address of IPv4. */
static bool read_address(const char *text, unsigned char at[16], bool *v4)
{
    *v4 = inet_pton(AF_INET, text, at + 12) == 1;
    if (*v4)
        memcpy(at, mapped, sizeof mapped);
    return *v4 || inet_pton(AF_INET6, text, at) == 1;
}

static bool is_in(const struct proxy_range *r, const unsigned char at[16])
{
    unsigned whole = r->bits / 8, rest = r->bits % 8;
    if (memcmp(r->at, at, whole) != 0)
        return false;
    return rest == 0 || (r->at[whole] ^ at[whole]) >> (8 - rest) == 0;
}

static bool is_believed(const struct proxies *p, const char *address)
{
    unsigned char at[16];
    bool v4;
    if (!read_address(address, at, &v4))
        return false;
    for (size_t i = 0; i < p->count; i++)
        if (is_in(&p->ranges[i], at))
            return true;
    return false;
}

static struct str trimmed(struct str s)
{
    while (s.len && (*s.at == ' ' || *s.at == '\t')) {
        s.at++;
        s.len--;
    }
    while (s.len && (s.at[s.len - 1] == ' ' || s.at[s.len - 1] == '\t'))
        s.len--;
    return s;
}

static bool is_range(struct str text, struct proxy_range *r)
{
    char address[PROXIES_ADDRESS_MAX];
    const char *slash = text.len ? memchr(text.at, '/', text.len) : NULL;
    size_t len = slash ? (size_t)(slash - text.at) : text.len;
    size_t digits = slash ? text.len - len - 1 : 0;
    bool v4;
    if (len >= sizeof address || (slash && (digits == 0 || digits > 3)))
        return false;
    memcpy(address, text.at, len);
    address[len] = '\0';
    if (!read_address(address, r->at, &v4))
        return false;
    unsigned most = v4 ? 32 : 128, bits = slash ? 0 : most;
    for (size_t i = 0; i < digits; i++) {
        char c = slash[1 + i];
        if (c < '0' || c > '9')
            return false;
        bits = bits * 10 + (unsigned)(c - '0');
    }
    r->bits = bits + (v4 ? 96 : 0);
    return bits <= most;
}

struct err proxies_read(const char *text, struct proxies *out)
{
    *out = (struct proxies){0};
    struct str rest = str_from(text ? text : "");
    while (rest.len) {
        const char *comma = memchr(rest.at, ',', rest.len);
        struct str one = {rest.at, comma ? (size_t)(comma - rest.at) : rest.len};
        rest.at += one.len + (comma != NULL);
        rest.len -= one.len + (comma != NULL);
        one = trimmed(one);
        if (out->count == PROXIES_MAX)
            return err_make(ERR_TOO_MANY, "at most %d", PROXIES_MAX);
        if (!one.len || !is_range(one, &out->ranges[out->count]))
            return err_make(ERR_BAD_VALUE,
                            "'%.*s' is neither an address nor a range such as 10.0.0.0/8",
                            (int)(one.len < 64 ? one.len : 64), one.at);
        out->count++;
    }
    return err_none();
}

/* The last one of the list, taken off it, as an address: with a port, or in brackets, too. */
static bool last_address(struct str *list, char address[PROXIES_ADDRESS_MAX])
{
    const char *comma = list->len ? memrchr(list->at, ',', list->len) : NULL;
    size_t from = comma ? (size_t)(comma - list->at) + 1 : 0;
    struct str one = trimmed((struct str){list->at + from, list->len - from});
    unsigned char at[16];
    bool v4;
    list->len = comma ? (size_t)(comma - list->at) : 0;
    if (one.len > 2 && *one.at == '[') {
        const char *end = memchr(one.at, ']', one.len);
        one = end ? (struct str){one.at + 1, (size_t)(end - one.at) - 1} : (struct str){0};
    } else if (one.len && memchr(one.at, '.', one.len)) {
        const char *colon = memrchr(one.at, ':', one.len);
        const char *first = memchr(one.at, ':', one.len);
        if (colon && colon == first) /* 192.0.2.1:4711, and not ::ffff:192.0.2.1 */
            one.len = (size_t)(colon - one.at);
    }
    if (!one.len || one.len >= PROXIES_ADDRESS_MAX)
        return false;
    memcpy(address, one.at, one.len);
    address[one.len] = '\0';
    if (!read_address(address, at, &v4))
        return false;
    /* A proxy that listens on IPv6, too, may write ::ffff:192.0.2.1. All of IPv4 would then be one
     * network of those that are told apart by 64 bits. */
    return v4 || memcmp(at, mapped, sizeof mapped) != 0 ||
           inet_ntop(AF_INET, at + sizeof mapped, address, PROXIES_ADDRESS_MAX) != NULL;
}

void proxies_client(const struct proxies *p, const char *peer, struct str forwarded_for,
                    char client[PROXIES_ADDRESS_MAX])
{
    char next[PROXIES_ADDRESS_MAX];
    snprintf(client, PROXIES_ADDRESS_MAX, "%s", peer);
    while (forwarded_for.len && is_believed(p, client) && last_address(&forwarded_for, next))
        memcpy(client, next, PROXIES_ADDRESS_MAX);
}
