/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_CERTS_H
#define CLI_CERTS_H

/* Makes certificates with their keys, as PEM files: a CA of one's own, and what it signs.
 * Keys are of the curve P-256 and readable by their owner only. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct certs_pair {
    const char *cert, *key; /* file names */
};

enum certs_use { CERTS_CA, CERTS_SERVER, CERTS_CLIENT };

struct certs_spec {
    enum certs_use use;
    const char *name; /* the subject's common name */
    const char *const *hosts;
    size_t host_count; /* of a server: DNS names and IP addresses */
    int64_t days;      /* from now; what a CA signs ends no later than the CA */
};

/* Makes a pair, signed by `ca`, or by itself if that is NULL. Files that exist are only
 * overwritten with `force`; ERR_IO and ERR_USAGE name what is wrong. */
NODISCARD struct err certs_make(const struct certs_spec *spec, const struct certs_pair *ca,
                                const struct certs_pair *out, bool force);

#endif
