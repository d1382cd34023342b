/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SERVER_CONFIG_H
#define SERVER_CONFIG_H

/* The configuration file of the server: YAML or JSON, a mapping of settings by the names of their
 * flags, and the section retryPolicy. A file is accepted or refused as a whole. */

#include "base/arena.h"
#include "base/str.h"
#include "client/options.h"

struct config {
    struct arena memory; /* of all texts */
    /* The section retryPolicy as JSON, for PUT /settings/retry; empty: there is none. Members that
     * a flag or a variable overrides are left out. */
    struct str retry;
};

/* Reads the file and sets what flags and variables leave unset. The error names the file, and line,
 * column and setting. The config must be freed in either case; values may point into it. */
NODISCARD struct err config_read(const char *file, struct options *o, void *values,
                                 struct config *out);
void config_free(struct config *c);

/* The rows of the table that duplicate retryPolicy.enabled and retryPolicy.whenNoPolicy. */
#define CONFIG_ENABLED   "retry-policy-enabled"
#define CONFIG_NO_POLICY "retry-when-no-policy"

#endif
