/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_CERTS_H
#define CLI_CERTS_H

/* Makes certificates with their keys, as PEM files: a CA, and certificates signed by it. Keys are
 * on the curve P-256 and readable only by their owner. */

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
    size_t host_count; /* for a server: DNS names and IP addresses */
    int64_t days;      /* from now; a certificate ends no later than its CA */
};

/* Makes a pair signed by `ca`, or self-signed if `ca` is NULL. Existing files are only overwritten
 * with `force`; ERR_IO and ERR_USAGE name the fault. */
NODISCARD struct err certs_make(const struct certs_spec *spec, const struct certs_pair *ca,
                                const struct certs_pair *out, bool force);

#endif
