/* SPDX-License-Identifier: Apache-2.0 */
#include "net/router.h"

#include "base/buf.h"
#include "base/utf8.h"

/* A path and how far it is matched. */
struct walk {
    const char *at, *end;
};

/* The next segment, without its leading slash; false at the end. */
static bool next_segment(struct walk *w, struct str *segment)
{
    if (w->at == w->end || *w->at != '/')
        return false;
    const char *from = w->at + 1;
    const char *slash = from < w->end ? memchr(from, '/', (size_t)(w->end - from)) : NULL;
    w->at = slash ? slash : w->end;
    *segment = (struct str){from, (size_t)(w->at - from)};
    return true;
}

static bool is_param(struct str s)
{
    return s.len > 2 && s.at[0] == '{' && s.at[s.len - 1] == '}';
}

/* Compares segment by segment. *fixed gets a bit per segment, the first the highest, set
 * where the pattern names it: of two patterns that match, the greater is the closer. */
static bool matches(const char *pattern, struct str path, unsigned *fixed, struct route_params *raw)
{
    struct walk p = {pattern, pattern + strlen(pattern)};
    struct walk q = {path.at, path.at + path.len};
    struct str want, have;
    unsigned bit = 1u << 31;
    *fixed = 0;
    raw->count = 0;
    while (next_segment(&p, &want)) {
        if (!next_segment(&q, &have))
            return false;
        if (is_param(want)) {
            if (have.len == 0 || raw->count == ROUTER_PARAMS_MAX)
                return false;
            raw->at[raw->count++] = have;
        } else if (str_eq(want, have)) {
            *fixed |= bit;
        } else {
            return false;
        }
        bit >>= 1;
    }
    return q.at == q.end;
}

static bool serves(enum http_method route, enum http_method asked)
{
    return route == asked || (route == HTTP_GET && asked == HTTP_HEAD);
}

static const char *method_name(enum http_method m)
{
    static const char *const names[] = {
        [HTTP_GET] = "GET",         [HTTP_HEAD] = "HEAD",   [HTTP_POST] = "POST",
        [HTTP_PUT] = "PUT",         [HTTP_PATCH] = "PATCH", [HTTP_DELETE] = "DELETE",
        [HTTP_OPTIONS] = "OPTIONS",
    };
    return m < HTTP_OTHER ? names[m] : "";
}

/* The methods in `set` (a bit each), in the order of their enumeration. */
static struct str list_methods(unsigned set, struct arena *a)
{
    char text[64];
    size_t n = 0;
    for (unsigned m = 0; m < HTTP_OTHER; m++) {
        if (!(set & 1u << m))
            continue;
        const char *name = method_name((enum http_method)m);
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%s", n ? ", " : "", name);
    }
    return arena_copy(a, (struct str){text, n});
}

static struct err no_route(struct str path, bool elsewhere)
{
    return err_make(ERR_NO_ROUTE, "%s the path %.*s",
                    elsewhere ? "only the admin listener (serve --admin-port) has"
                              : "no endpoint has",
                    path.len < 100 ? (int)path.len : 100, path.at);
}

struct err router_find(const struct route *routes, int count, bool admin,
                       const struct http_request *req, const struct route **found,
                       struct route_params *params, struct str *allow)
{
    const struct route *best = NULL;
    unsigned best_fixed = 0, methods = 0;
    bool known = false, elsewhere = false;
    for (int i = 0; i < count; i++) {
        unsigned fixed;
        struct route_params raw;
        if (!matches(routes[i].pattern, req->path, &fixed, &raw))
            continue;
        if (routes[i].admin && !admin) {
            elsewhere = true;
            continue;
        }
        known = true;
        methods |= 1u << routes[i].method;
        if (routes[i].method == HTTP_GET)
            methods |= 1u << HTTP_HEAD;
        if (!serves(routes[i].method, req->method) || (best && fixed <= best_fixed))
            continue;
        best = &routes[i];
        best_fixed = fixed;
        *params = raw;
    }
    if (!known)
        return no_route(req->path, elsewhere);
    if (!best) {
        *allow = list_methods(methods, req->arena);
        return err_make(ERR_BAD_METHOD, "this path has no such method, only %.*s", STR_ARG(*allow));
    }
    for (int i = 0; i < params->count; i++)
        TRY(router_decode(params->at[i], false, req->arena, &params->at[i]));
    *found = best;
    return err_none();
}

static int hex(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

static bool is_coded(struct str s, bool plus)
{
    for (size_t i = 0; i < s.len; i++)
        if (s.at[i] == '%' || (plus && s.at[i] == '+'))
            return true;
    return false;
}

/* Writes the decoded bytes; false at a '%' without two hexadecimal digits. */
static bool decode(struct str s, bool plus, char *to, size_t *len)
{
    size_t n = 0;
    for (size_t i = 0; i < s.len; i++) {
        char c = s.at[i];
        if (c == '%') {
            int hi = i + 2 < s.len ? hex(s.at[i + 1]) : -1;
            int lo = hi >= 0 ? hex(s.at[i + 2]) : -1;
            if (lo < 0)
                return false;
            c = (char)(hi << 4 | lo);
            i += 2;
        } else if (plus && c == '+') {
            c = ' ';
        }
        to[n++] = c;
    }
    *len = n;
    return true;
}

struct err router_decode(struct str s, bool plus, struct arena *a, struct str *out)
{
    *out = s;
    if (is_coded(s, plus)) {
        char *to = arena_get(a, s.len);
        size_t len;
        if (!decode(s, plus, to, &len))
            return err_make(ERR_BAD_REQUEST, "a '%%' in the URL is not followed by two "
                                             "hexadecimal digits");
        *out = (struct str){to, len};
    }
    if (utf8_check(*out) != out->len)
        return err_make(ERR_BAD_REQUEST, "the URL is not valid UTF-8 once decoded");
    return err_none();
}
