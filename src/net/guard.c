/* SPDX-License-Identifier: Apache-2.0 */
#include "net/guard.h"

#include <arpa/inet.h>
#include <strings.h>

#include "net/tls.h"

/* What is quoted of a header. */
#define QUOTE_MAX 100

/* --- a host and its port --- */

struct authority {
    struct str name; /* without brackets and the dot at the end */
    struct str port; /* empty if there is none */
    bool bracketed;
};

/* "name", "name:port", "[address]:port". */
static struct authority split(struct str s)
{
    struct authority a = {.name = s};
    const char *end = s.len && *s.at == '[' ? memchr(s.at, ']', s.len) : NULL;
    const char *from = end ? end + 1 : s.at;
    size_t left = s.len - (size_t)(from - s.at);
    const char *colon = left ? memrchr(from, ':', left) : NULL;
    if (colon) {
        a.name.len = (size_t)(colon - s.at);
        a.port = (struct str){colon + 1, s.len - a.name.len - 1};
    }
    if (end) {
        a.bracketed = a.name.len == (size_t)(end + 1 - s.at);
        a.name = (struct str){s.at + 1, (size_t)(end - s.at - 1)};
    } else if (a.name.len > 1 && a.name.at[a.name.len - 1] == '.') {
        a.name.len--;
    }
    return a;
}

static bool same_name(struct str a, struct str b)
{
    return a.len == b.len && strncasecmp(a.at, b.at, a.len) == 0;
}

/* --- addresses --- */

static bool copy_name(const struct authority *a, char *to, size_t size)
{
    if (a->name.len >= size)
        return false;
    memcpy(to, a->name.at, a->name.len);
    to[a->name.len] = '\0';
    return true;
}

static bool is_loopback6(const struct in6_addr *a)
{
    return IN6_IS_ADDR_LOOPBACK(a) || (IN6_IS_ADDR_V4MAPPED(a) && a->s6_addr[12] == 127);
}

static bool is_address(const struct authority *a, bool *loopback)
{
    char text[INET6_ADDRSTRLEN];
    struct in_addr v4;
    struct in6_addr v6;
    if (!copy_name(a, text, sizeof text))
        return false;
    if (a->bracketed) {
        bool good = inet_pton(AF_INET6, text, &v6) == 1;
        *loopback = good && is_loopback6(&v6);
        return good;
    }
    bool good = inet_pton(AF_INET, text, &v4) == 1;
    *loopback = good && ntohl(v4.s_addr) >> 24 == 127;
    return good;
}

/* --- names --- */

struct str guard_next_name(struct str *rest)
{
    const char *comma = memchr(rest->at, ',', rest->len);
    struct str s = {rest->at, comma ? (size_t)(comma - rest->at) : rest->len};
    size_t used = s.len + (comma != NULL);
    *rest = (struct str){rest->at + used, rest->len - used};
    while (s.len && *s.at == ' ')
        s = (struct str){s.at + 1, s.len - 1};
    while (s.len && s.at[s.len - 1] == ' ')
        s.len--;
    return s;
}

/* "*.example.org" is every name below example.org. */
static bool fits(struct str pattern, struct str name)
{
    if (str_eq(pattern, STR("*")))
        return true;
    if (pattern.len < 2 || memcmp(pattern.at, "*.", 2) != 0)
        return same_name(pattern, name);
    struct str tail = {pattern.at + 1, pattern.len - 1};
    return name.len > tail.len &&
           same_name((struct str){name.at + name.len - tail.len, tail.len}, tail);
}

static bool is_allowed(const char *allowed, struct str name)
{
    struct str rest = str_from(allowed ? allowed : "");
    while (rest.len)
        if (fits(guard_next_name(&rest), name))
            return true;
    return false;
}

static bool is_name_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '.' || c == '_';
}

static bool is_pattern(struct str s)
{
    if (s.len && *s.at == '*') {
        if (s.len == 1)
            return true;
        if (s.len < 3 || s.at[1] != '.')
            return false;
        s = (struct str){s.at + 2, s.len - 2};
    }
    for (size_t i = 0; i < s.len; i++)
        if (!is_name_char(s.at[i]))
            return false;
    return s.len > 0;
}

struct err guard_check_names(const char *allowed)
{
    struct str rest = str_from(allowed ? allowed : "");
    while (rest.len) {
        struct str name = guard_next_name(&rest);
        if (!is_pattern(name))
            return err_make(ERR_BAD_VALUE,
                            "'%.*s' is not a host name; names are like queue.example.org or "
                            "*.example.org, without a port",
                            (int)(name.len < QUOTE_MAX ? name.len : QUOTE_MAX), name.at);
    }
    return err_none();
}

/* --- the checks --- */

/* The machine's name, and the first part of it. */
static bool is_machine(const char *machine, struct str name)
{
    struct str whole = str_from(machine);
    const char *dot = memchr(whole.at, '.', whole.len);
    struct str first = {whole.at, dot ? (size_t)(dot - whole.at) : whole.len};
    return whole.len && (same_name(whole, name) || same_name(first, name));
}

static bool is_ours(const struct guard *g, const struct authority *host, bool *address)
{
    bool loopback;
    *address = is_address(host, &loopback);
    if (*address)
        return loopback || !g->loopback || is_allowed(g->allowed, host->name);
    if (host->bracketed || host->name.len == 0)
        return false;
    return same_name(host->name, STR("localhost")) || same_name(host->name, str_from(g->bound)) ||
           (!g->loopback && is_machine(g->machine, host->name)) ||
           (g->tls && tls_context_names(g->tls, host->name)) || is_allowed(g->allowed, host->name);
}

static bool same_port(struct str a, struct str b, struct str otherwise)
{
    return str_eq(a.len ? a : otherwise, b.len ? b : otherwise);
}

/* Behind a proxy that ends TLS, a plain listener has pages that begin with https. */
static bool is_same_origin(const struct guard *g, struct str origin, const struct authority *host)
{
    bool secure = origin.len > 8 && memcmp(origin.at, "https://", 8) == 0;
    bool plain = !g->tls && origin.len > 7 && memcmp(origin.at, "http://", 7) == 0;
    if (!secure && !plain)
        return false;
    size_t skip = secure ? 8 : 7;
    struct authority page = split((struct str){origin.at + skip, origin.len - skip});
    return page.bracketed == host->bracketed && same_name(page.name, host->name) &&
           same_port(page.port, host->port, secure ? STR("443") : STR("80"));
}

static struct err foreign_page(struct str page)
{
    return err_make(ERR_ORIGIN,
                    "a page of another origin (%.*s) asks; only pages of this server may use it",
                    (int)(page.len < QUOTE_MAX ? page.len : QUOTE_MAX), page.at);
}

static bool is_host_ours(struct guard *g, struct str text)
{
    bool address;
    if (!text.at || (text.len && str_eq(text, (struct str){g->host, g->host_len})))
        return true;
    struct authority host = split(text);
    if (!is_ours(g, &host, &address))
        return false;
    if (address && text.len <= sizeof g->host) {
        memcpy(g->host, text.at, text.len);
        g->host_len = text.len;
    }
    return true;
}

static bool is_page_ours(const struct guard *g, const struct guard_request *req)
{
    struct authority host = split(req->host);
    return is_same_origin(g, req->origin, &host);
}

struct err guard_check(struct guard *g, const struct guard_request *req)
{
    if (!is_host_ours(g, req->host))
        return err_make(ERR_HOST_NAME,
                        "this server is not known by the name '%.*s'; serve --allowed-hosts (or "
                        "TENAX_ALLOWED_HOSTS) says which names it has",
                        (int)(req->host.len < QUOTE_MAX ? req->host.len : QUOTE_MAX), req->host.at);
    if (req->origin.len && !is_page_ours(g, req))
        return foreign_page(req->origin);
    struct str site = req->fetch_site;
    if (site.len && !str_eq(site, STR("same-origin")) && !str_eq(site, STR("none")))
        return foreign_page(site);
    return err_none();
}
