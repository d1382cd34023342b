/* SPDX-License-Identifier: Apache-2.0 */
#ifndef NET_REPLY_H
#define NET_REPLY_H

/* The bytes of an HTTP/1.1 reply. */

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

/* "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n" */
#define REPLY_DATE_LEN 37

struct reply_head {
    int status;
    const char *date;  /* REPLY_DATE_LEN bytes, see reply_date */
    struct str type;   /* empty: no Content-Type */
    const char *extra; /* NULL or lines, each ended by CRLF */
    bool close;        /* says "Connection: close" */
    bool chunked;      /* for reply_open: the body comes in chunks */
    bool sized;        /* or it has this length: */
    uint64_t length;
};

/* Writes the Date line of that second (Unix time). */
void reply_date(char date[REPLY_DATE_LEN], int64_t seconds);
/* A whole reply. With no_body (for HEAD) all but the body; the header gives the length all the
 * same. */
void reply_add(struct buf *out, const struct reply_head *h, struct str body, bool no_body);
/* The head of a reply whose body follows. */
void reply_open(struct buf *out, const struct reply_head *h);
/* The body of an error: {"error": sentence, "code": wire name}. */
void reply_error_body(struct buf *out, const struct err *e);

#endif
