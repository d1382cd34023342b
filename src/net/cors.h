/* SPDX-License-Identifier: Apache-2.0 */
#ifndef NET_CORS_H
#define NET_CORS_H

/* Which pages of other origins may use what the server opens to them, and the header lines by which
 * browsers let them (the fetch standard's CORS protocol). Pages are let in without credentials of
 * the browser's own, such as certificates: what they may do, their requests say themselves. */

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

/* ERR_BAD_VALUE unless it is a list of origins as browsers write them:
 * "https://a.example,http://localhost:3000". NULL is an empty list. */
NODISCARD struct err cors_check_origins(const char *origins);

/* The origin's place in the list; empty if it is not there. */
struct str cors_find(const char *origins, struct str origin);

/* These header lines (NULL: none) with those that show the answer to the page of that origin, which
 * lie in the buffer; as they are if the origin is empty. */
const char *cors_lines(const char *extra, struct str origin, struct buf *room);

/* What the answer to a preflight request says beside these. */
extern const char cors_preflight[];

#endif
