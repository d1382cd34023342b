/* SPDX-License-Identifier: Apache-2.0 */
#ifndef NET_HTTP_DATE_H
#define NET_HTTP_DATE_H

/* Dates in headers: "Sun, 06 Nov 1994 08:49:37 GMT" (RFC 9110 §5.6.7). */

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

#define HTTP_DATE_LEN 29

/* Writes that second (Unix time), with a zero byte behind it. */
void http_date_write(char date[HTTP_DATE_LEN + 1], int64_t seconds);
/* Reads that form and the two obsolete ones; false if the text is none of them. */
bool http_date_read(struct str text, int64_t *seconds);

#endif
