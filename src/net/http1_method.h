/* SPDX-License-Identifier: Apache-2.0 */
#ifndef NET_HTTP1_METHOD_H
#define NET_HTTP1_METHOD_H

/* The method of a request by HTTP/1.1, told before the parser sees it: the parser takes a name that
 * it does not know for a malformed request, after which the connection cannot go on. */

#include <stddef.h>

enum http1_method_kind {
    HTTP1_METHOD_SHORT, /* the bytes end within it */
    HTTP1_METHOD_PARSE, /* the parser's: it knows the method, or must refuse these bytes */
    HTTP1_METHOD_OTHER, /* a well-formed name of a method that this server does not have */
};

/* Looks at the first bytes of a request; for HTTP1_METHOD_OTHER *used counts the name and the space
 * after it. */
enum http1_method_kind http1_method_look(const char *at, size_t len, size_t *used);

#endif
