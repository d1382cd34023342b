/* SPDX-License-Identifier: Apache-2.0 */
#ifndef NET_HTTP_HEADERS_H
#define NET_HTTP_HEADERS_H

/* The headers of net/http_headers.def, as the readers of HTTP/1.1 and HTTP/2 look them up. */

#include <assert.h>
#include <stddef.h>

#include "net/http.h"

/* The member of the first line. */
#define HTTP_HEADER_FIRST accept

enum http_header {
#define HEADER(name, member, times) HEADER_##member,
#include "net/http_headers.def"
#undef HEADER
    HTTP_HEADERS /* their number; also stands for any other header */
};

/* The header of that name, whatever the case of its letters; or HTTP_HEADERS. By a perfect hash:
 * one name at most is compared. */
enum http_header http_header_find(struct str name);
/* Whether it may come several times, its values being one list. */
bool http_header_is_list(enum http_header h);
/* Why a request is refused in which it comes several times. */
struct err http_header_repeated(enum http_header h);
/* Where a request keeps its value: in the order of the table. */
static inline struct str *http_header_value(struct http_request *q, enum http_header h)
{
    return (struct str *)(void *)((char *)q + offsetof(struct http_request, HTTP_HEADER_FIRST)) + h;
}
#define HEADER(name, member, times)                                                                \
    static_assert(offsetof(struct http_request, member) ==                                         \
                      offsetof(struct http_request, HTTP_HEADER_FIRST) +                           \
                          HEADER_##member * sizeof(struct str),                                    \
                  "the members of struct http_request are in the order of the table");
#include "net/http_headers.def"
#undef HEADER

#endif
