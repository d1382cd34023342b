/* SPDX-License-Identifier: Apache-2.0 */
#include "net/http_headers.h"

#include <stddef.h>
#include <strings.h>

#include "base/must.h"

enum times { ONE, LIST };

static const struct {
    struct str name;
    size_t offset;
    enum times times;
} headers[] = {
#define HEADER(name, member, times)                                                                \
    {{name, sizeof(name) - 1}, offsetof(struct http_request, member), times},
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

bool http_header_is_list(enum http_header h)
{
    must(h < HTTP_HEADERS);
    return headers[h].times == LIST;
}

struct err http_header_repeated(enum http_header h)
{
    must(h < HTTP_HEADERS);
    return err_make(ERR_BAD_REQUEST, "the header %.*s comes more than once",
                    STR_ARG(headers[h].name));
}

struct str *http_header_value(struct http_request *q, enum http_header h)
{
    must(h < HTTP_HEADERS);
    return (struct str *)(void *)((char *)q + headers[h].offset);
}
