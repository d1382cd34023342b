/* SPDX-License-Identifier: Apache-2.0 */
#include "net/cors.h"

#include <string.h>

#include "net/guard.h"

#define QUOTE_MAX 100

const char cors_preflight[] =
    "Access-Control-Allow-Methods: GET, HEAD, POST, PUT, DELETE\r\n"
    "Access-Control-Allow-Headers: Accept, Authorization, Cache-Control, Content-Encoding, "
    "Content-Type, If-Modified-Since, If-None-Match, If-Range, Range, Traceparent, Tracestate, "
    "X-Requested-With, X-Taskcluster-Trace-Id\r\n"
    "Access-Control-Allow-Private-Network: true\r\n"
    "Access-Control-Max-Age: 900\r\n";

/* A name or an address, in lower case as browsers write it. */
static bool is_host(struct str s)
{
    bool bracketed = s.len > 2 && s.at[0] == '[' && s.at[s.len - 1] == ']';
    struct str inner = bracketed ? (struct str){s.at + 1, s.len - 2} : s;
    for (size_t i = 0; i < inner.len; i++) {
        char c = inner.at[i];
        bool word = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
        if (!word && (bracketed ? c != ':' && c != '.' : c != '-' && c != '.' && c != '_'))
            return false;
    }
    return inner.len > 0;
}

/* Browsers leave out the port that the scheme has anyway. */
static bool is_port(struct str s, struct str usual)
{
    for (size_t i = 0; i < s.len; i++)
        if (s.at[i] < '0' || s.at[i] > '9')
            return false;
    return s.len >= 1 && s.len <= 5 && s.at[0] != '0' && !str_eq(s, usual);
}

static bool is_origin(struct str s)
{
    bool secure = s.len > 8 && memcmp(s.at, "https://", 8) == 0;
    if (!secure && !(s.len > 7 && memcmp(s.at, "http://", 7) == 0))
        return false;
    size_t skip = secure ? 8 : 7;
    struct str host = {s.at + skip, s.len - skip};
    const char *close = memchr(host.at, ']', host.len);
    const char *from = close ? close : host.at;
    const char *colon = memchr(from, ':', host.len - (size_t)(from - host.at));
    if (!colon)
        return is_host(host);
    struct str port = {colon + 1, host.len - (size_t)(colon + 1 - host.at)};
    host.len = (size_t)(colon - host.at);
    return is_host(host) && is_port(port, secure ? STR("443") : STR("80"));
}

struct err cors_check_origins(const char *origins)
{
    struct str rest = str_from(origins ? origins : "");
    while (rest.len) {
        struct str s = guard_next_name(&rest);
        if (!is_origin(s))
            return err_make(ERR_BAD_VALUE,
                            "'%.*s' is not an origin; origins are like https://tools.example.org "
                            "or http://localhost:3000: in lower case, without a path, a star or "
                            "the usual port",
                            (int)(s.len < QUOTE_MAX ? s.len : QUOTE_MAX), s.at);
    }
    return err_none();
}

struct str cors_find(const char *origins, struct str origin)
{
    struct str rest = str_from(origins ? origins : "");
    while (rest.len && origin.len) {
        struct str s = guard_next_name(&rest);
        if (str_eq(s, origin))
            return s;
    }
    return (struct str){0};
}

const char *cors_lines(const char *extra, struct str origin, struct buf *room)
{
    if (!origin.len)
        return extra;
    if (extra)
        buf_str(room, str_from(extra));
    buf_print(room,
              "Access-Control-Allow-Origin: %.*s\r\nVary: Origin\r\n"
              "Access-Control-Expose-Headers: Content-Disposition, Content-Encoding, "
              "Content-Length, Content-Range, ETag, Location, Retry-After, WWW-Authenticate\r\n",
              STR_ARG(origin));
    buf_byte(room, '\0');
    return room->at;
}
