/* SPDX-License-Identifier: Apache-2.0 */
#ifndef NET_CONTENT_RANGE_H
#define NET_CONTENT_RANGE_H

/* Which bytes of a content answer a GET or HEAD, by the conditions and the Range of the request
 * (RFC 9110 §13 and §14). Single ranges of bytes; of several, the whole is the answer, as it is of
 * a Range that is malformed. */

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

/* The headers of the request. */
struct content_request {
    bool head; /* for which a Range means nothing */
    struct str range, if_range, if_none_match, if_modified_since; /* empty if absent */
};

struct content_version {
    struct str etag;  /* a strong one, with its quotes */
    int64_t modified; /* Unix time in seconds; negative: not known */
    uint64_t size;
};

enum content_answer {
    CONTENT_WHOLE,     /* 200 */
    CONTENT_PART,      /* 206 */
    CONTENT_UNCHANGED, /* 304: the client has it */
    CONTENT_OUTSIDE    /* 416: the range begins behind the end */
};

struct content_choice {
    enum content_answer answer;
    uint64_t from, until; /* WHOLE, PART: the bytes from..until - 1 */
};

/* What the request gets of the content as it is. */
struct content_choice content_choose(const struct content_request *r,
                                     const struct content_version *v);

#endif
