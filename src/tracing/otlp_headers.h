/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRACING_OTLP_HEADERS_H
#define TRACING_OTLP_HEADERS_H

/* The headers that a collector wants to see with each request, such as its key. Their values are
 * secrets: no error says them. */

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"

#define OTLP_HEADERS_MAX      32
#define OTLP_HEADERS_FILE_MAX 16384 /* bytes */

/* "Name: value", as a C string each. */
struct otlp_headers {
    const char *list[OTLP_HEADERS_MAX + 1]; /* and a NULL */
    size_t count;
};

/* "name=value,name=value", values percent-encoded, as the variable OTEL_EXPORTER_OTLP_HEADERS has
 * them. ERR_USAGE. The texts live in the arena. */
NODISCARD struct err otlp_headers_of_list(struct str list, struct arena *a,
                                          struct otlp_headers *out);
/* Adds those of a file: a line each; empty ones and such that begin with '#' are passed over.
 * ERR_USAGE, ERR_IO. */
NODISCARD struct err otlp_headers_of_file(const char *path, struct arena *a,
                                          struct otlp_headers *out);

#endif
