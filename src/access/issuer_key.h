/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ACCESS_ISSUER_KEY_H
#define ACCESS_ISSUER_KEY_H

/* The key by which the server signs the credentials that it issues: a file of random bytes, for
 * credentials that are in use when the server is started again must stay good. */

#include "access/access.h"
#include "base/err.h"

/* Reads the key, or makes it if there is no such file: it is on the disk when this returns.
 * ERR_CORRUPT if the file is not a key, ERR_IO if others than its owner may read or write it, or if
 * it cannot be read or made. The message names the file. */
NODISCARD struct err issuer_key_open(const char *path, char key[ACCESS_KEY_MIN]);

#endif
