/* SPDX-License-Identifier: Apache-2.0 */
#include "net/http1_method.h"

#include <stdbool.h>
#include <string.h>

#include "base/array.h"
#include "base/str.h"

/* Longer than any that is registered (UPDATEREDIRECTREF has 17). */
#define METHOD_MAX 32

/* RFC 9110 §5.6.2 */
static bool is_token_char(char c)
{
    return c && ((c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
                 strchr("!#$%&'*+-.^_`|~", c));
}

/* CONNECT would turn the connection into a tunnel, and PRI begins HTTP/2: what follows them is not
 * a request, so both are left to the parser. */
static bool is_parsed(struct str name)
{
    static const struct str names[] = {
        {"GET", sizeof "GET" - 1},         {"POST", sizeof "POST" - 1},
        {"PUT", sizeof "PUT" - 1},         {"PATCH", sizeof "PATCH" - 1},
        {"DELETE", sizeof "DELETE" - 1},   {"HEAD", sizeof "HEAD" - 1},
        {"OPTIONS", sizeof "OPTIONS" - 1}, {"CONNECT", sizeof "CONNECT" - 1},
        {"PRI", sizeof "PRI" - 1}};
    for (size_t i = 0; i < COUNT(names); i++)
        if (str_eq(names[i], name))
            return true;
    return false;
}

enum http1_method_kind http1_method_look(const char *at, size_t len, size_t *used)
{
    size_t n = 0;
    while (n < len && n <= METHOD_MAX && is_token_char(at[n]))
        n++;
    if (n == len && n <= METHOD_MAX)
        return HTTP1_METHOD_SHORT;
    if (n == 0 || n > METHOD_MAX || at[n] != ' ' || is_parsed((struct str){at, n}))
        return HTTP1_METHOD_PARSE;
    *used = n + 1;
    return HTTP1_METHOD_OTHER;
}
