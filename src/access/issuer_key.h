/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ACCESS_ISSUER_KEY_H
#define ACCESS_ISSUER_KEY_H

/* The key with which the server signs the credentials that it issues: a file of random bytes,
 * because credentials must stay valid across a restart of the server. */

#include "access/access.h"
#include "base/err.h"

/* Reads the key, or creates it if the file does not exist: it is on disk when this returns.
 * ERR_CORRUPT if the file is not a key, ERR_IO if users other than its owner may read or write it,
 * or if it cannot be read or created. The message names the file. */
NODISCARD struct err issuer_key_open(const char *path, char key[ACCESS_KEY_MIN]);

#endif
