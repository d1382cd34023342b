/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SERVER_IDENTITIES_FILE_H
#define SERVER_IDENTITIES_FILE_H

/* The file of --identities: who is known by certificates, JSON Web Tokens or signed requests, and
 * what they may do. docs/access.md describes it. */

#include "access/identity_rules.h"
#include "base/err.h"

/* ERR_USAGE says where and what is wrong; nothing is to be released then. */
NODISCARD struct err identities_file_read(const char *file, struct identity_rules *out);
/* The same of a text. */
NODISCARD struct err identities_file_parse(const char *file, struct str text,
                                           struct identity_rules *out);

#endif
