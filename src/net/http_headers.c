/* SPDX-License-Identifier: Apache-2.0 */
#include "net/http_headers.h"

#include <stddef.h>
#include <strings.h>

#include "base/must.h"

static const struct {
    struct str name;
    size_t offset;
} headers[] = {
#define HEADER(name, member) {{name, sizeof(name) - 1}, offsetof(struct http_request, member)},
#include "net/http_headers.def"
#undef HEADER
};

enum http_header http_header_find(struct str name)
{
    for (unsigned h = 0; h < HTTP_HEADERS; h++)
        if (headers[h].name.len == name.len &&
            strncasecmp(headers[h].name.at, name.at, name.len) == 0)
            return (enum http_header)h;
    return HTTP_HEADERS;
}

struct str *http_header_value(struct http_request *q, enum http_header h)
{
    must(h < HTTP_HEADERS);
    return (struct str *)(void *)((char *)q + headers[h].offset);
}
