/* SPDX-License-Identifier: Apache-2.0 */
#ifndef NET_QUERY_H
#define NET_QUERY_H

/* Query strings: "status=ready&queue=a,b". */

#include "net/http.h"

struct query_cursor {
    struct str rest;
    struct arena *arena;
};

static inline struct query_cursor query_open(struct str query, struct arena *a)
{
    return (struct query_cursor){query, a};
}

/* The next name=value pair, decoded ('+' is a space); *more is false at the end. Empty pairs ("&&")
 * are passed over; a name without '=' has an empty value. */
NODISCARD struct err query_next(struct query_cursor *c, bool *more, struct str *name,
                                struct str *value);
/* Splits at commas: the next item of *rest, false when none is left. Empty
 * items, as after a comma at the end, are passed over. */
bool query_item(struct str *rest, struct str *item);
/* Percent-encodes everything outside RFC 3986's unreserved set, and ',' stays. */
struct buf;
void query_write(struct buf *b, struct str text);

#endif
