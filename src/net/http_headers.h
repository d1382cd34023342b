/* SPDX-License-Identifier: Apache-2.0 */
#ifndef NET_HTTP_HEADERS_H
#define NET_HTTP_HEADERS_H

/* The headers of net/http_headers.def, as the readers of HTTP/1.1 and HTTP/2 look them up. */

#include "net/http.h"

enum http_header {
#define HEADER(name, member, times) HEADER_##member,
#include "net/http_headers.def"
#undef HEADER
    HTTP_HEADERS /* their number; also stands for any other header */
};

/* The header of that name, whatever the case of its letters; or HTTP_HEADERS. */
enum http_header http_header_find(struct str name);
/* Whether it may come several times, its values being one list. */
bool http_header_is_list(enum http_header h);
/* Why a request is refused in which it comes several times. */
struct err http_header_repeated(enum http_header h);
/* Where a request keeps its value. */
struct str *http_header_value(struct http_request *q, enum http_header h);

#endif
